"""``--summary``: statistics of each partition (or of its given files), as text or as one line of JSON."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kseg.formats.compressing import Target
from kseg.formats.json_values import bytes_value, encode, name_value
from kseg.formats.rows import Rows, Scratch
from kseg.output.paint import Paint
from kseg.output.printer import Printer, Style
from kseg.output.sink import Sink
from kseg.output.summary_text import summary_lines
from kseg.segment.batches import Batch
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.recompression import Recompression, Saving
from kseg.segment.selection import RowSpan
from kseg.segment.summary import Cardinality, Distribution, Form, LogSummary

if TYPE_CHECKING:
    from kseg.output.fleet_table import FleetTable


MAX_HEADER_KEYS = 100
"""Header keys that JSON lists."""

BacklogOf = Callable[[str, str], dict[str, Any] | None]
"""Returns the backlog of the log cleaner in a partition directory, as JSON; None if the partition is not compacted. The
second argument names the damage that stops a cleaner, "" for none."""


class SummaryPrinter(Printer):
    """Counts its input and writes one summary for each directory; `close` writes the last one.

    ``what_if``: codecs for which the savings of recompression are estimated, from about ``sample`` batches.
    ``fleet``: the table that takes the summaries of text instead; ``backlog``: see `BacklogOf`.
    """

    def __init__(
        self,
        sink: Sink,
        scratch: Scratch,
        *,
        as_json: bool = False,
        paint: Paint | None = None,
        what_if: Sequence[Target] = (),
        sample: int | None = None,
        jobs: int = 1,
        fleet: "FleetTable | None" = None,
        backlog: BacklogOf = lambda *_: None,
    ) -> None:
        super().__init__(sink, Style(), scratch)
        self._as_json = as_json
        self._paint = paint or Paint()
        self._targets, self._sample, self._jobs = what_if, sample, jobs
        self._fleet, self._backlog = fleet, backlog
        self._damaged: tuple[str, str] | None = None
        """The first file with damage, and a few words on it."""
        self._directory: str | None = None
        self._paths: list[str] = []
        self._is_whole = False
        self._summary = LogSummary(scratch)
        self._recompressions: list[Recompression] = []
        self._is_first = True
        self.is_of_directory = False
        """Whether the next PATH is a directory: the summary then has its name, even for a single file."""

    def begin(self, file: SegmentFile) -> None:
        directory = os.path.dirname(file.path)
        is_another = directory != self._directory or self.is_of_directory != self._is_whole
        if self._directory is not None and is_another:
            self._end_directory()
        if self._directory is None:
            self._directory, self._damaged = directory, None
            self._summary = LogSummary(self.scratch)
            self._recompressions = [
                Recompression(target, self.scratch.max_batch_bytes, self._jobs, self._sample)
                for target in self._targets
            ]
        self._paths.append(file.path)
        self._is_whole = self.is_of_directory
        self._summary.add_file(0)

    def run(self, reader: SegmentReader, run: Run) -> None:
        problems = self._summary.problems.total()
        self._summary.bytes += run.end - run.position
        self._summary.add_run(reader, run)
        if self._recompressions:
            for i in range(run.count):
                self._recompress(reader.batch(run, i, keep=False))
        self._count_problems(problems)

    def batch(self, batch: Batch, spans: Callable[[Rows], list[RowSpan]] | None = None) -> None:
        """Counts the whole batch; ``spans`` is ignored."""
        problems = self._summary.problems.total()
        self._summary.bytes += batch.size
        self._summary.add_batch(batch)
        self._recompress(batch)
        self._count_problems(problems)

    def _count_problems(self, before: int) -> None:
        found = self._summary.problems.total() - before
        self.errors += found
        if found and self._summary.problems["undecodable-records"]:
            self._keep_first_damage("undecodable-records")

    def _recompress(self, batch: Batch) -> None:
        for recompression in self._recompressions:
            recompression.add(batch)

    def damage(self, damage: Damage) -> None:
        self.errors += 1
        self._summary.bytes += damage.length
        self._summary.add_damage(damage)
        self._keep_first_damage(damage.code)

    def _keep_first_damage(self, code: str) -> None:
        if self._damaged is None:
            self._damaged = self._paths[-1], f"{code} in {os.path.basename(self._paths[-1])}"

    def finish(self) -> None:
        """Does nothing: a summary covers several files."""

    def close(self) -> None:
        """Writes the summary of everything since the last one, and the table of all."""
        self._end_directory()
        if self._fleet is not None:
            self.sink.write(self._fleet.text().encode("utf-8", "surrogateescape"))
            self.sink.flush()

    def _end_directory(self) -> None:
        if self._directory is None:
            return
        savings = []
        for recompression in self._recompressions:
            with recompression:
                savings.append(recompression.finish())
        self._recompressions = []
        path = self._paths[0] if len(self._paths) == 1 and not self._is_whole else self._directory or "."
        found = summary_object(self._summary, path, savings)
        found["cleaner"] = cleaner = self._backlog(path, self._obstacle()) if self._is_whole else None
        if self._as_json:
            self.sink.write(encode(found) + b"\n")
        elif self._fleet is not None:
            self._fleet.add(found)
        elif self.sink.is_terminal:
            from kseg.output.summary_panel import summary_panel

            text = summary_panel(self._summary, path, savings, self._paint, cleaner)
            self.sink.write(text.encode("utf-8", "surrogateescape"))
        else:
            lines = summary_lines(self._summary, path, savings, self._paint, cleaner)
            between = "" if self._is_first else "\n"
            self.sink.write((between + "\n".join(lines) + "\n").encode("utf-8", "surrogateescape"))
        self.sink.flush()
        self._is_first = False
        self._directory, self._paths = None, []

    def _obstacle(self) -> str:
        """Names the damage that stops a cleaner: any but that of the active segment, which no cleaner reads."""
        return self._damaged[1] if self._damaged is not None and self._damaged[0] != self._paths[-1] else ""


def summary_object(summary: LogSummary, path: str, savings: Sequence[Saving] = ()) -> dict[str, Any]:
    """Returns the summary as JSON: sizes in bytes, times in ms since the epoch, absent values null."""
    count = summary.counters()
    first, last = (count["first_offset"], count["last_offset"]) if count["has_offset"] else (None, None)
    has_time = count["with_timestamp"] > 0
    shares, names, rate = summary.shares(), summary.header_keys(), summary.records_per_hour()
    found: dict[str, Any] = {
        "type": "summary",
        "path": name_value(path),
        "files": summary.files,
        "bytes": summary.bytes,
        "batches": count["batches"],
        "records": count["records"],
        "controlRecords": count["control_records"],
        "forms": [_form_object(form) for form in summary.forms()],
        "batchSize": _distribution_object(summary.distribution("batch_sizes")),
        "recordsPerBatch": _distribution_object(summary.distribution("record_counts")),
        "keySize": _distribution_object(summary.distribution("key_sizes")),
        "valueSize": _distribution_object(summary.distribution("value_sizes")),
        "nullKeys": count["null_keys"],
        "nullValues": count["null_values"],
        "tombstones": count["tombstones"],
        "emptyKeys": count["empty_keys"],
        "emptyValues": count["empty_values"],
        "distinctKeys": _cardinality_object(summary.distinct_keys()),
        "headers": count["headers"],
        "recordsWithHeaders": count["with_headers"],
        "keyBytes": shares.keys,
        "valueBytes": shares.values,
        "headerBytes": shares.headers,
        "framingBytes": shares.framing,
        "batchHeaderBytes": shares.batch_headers,
        "headerKeys": [
            {"key": bytes_value(each.key), "keySize": each.size, "count": each.count, "bytes": each.bytes}
            for each in names[:MAX_HEADER_KEYS]
        ],
        "distinctHeaderKeys": _cardinality_object(Cardinality(len(names), not count["other_headers"])),
        "otherHeaders": count["other_headers"],
        "otherHeaderBytes": count["other_header_bytes"],
        "largestKeys": [{"bytes": size, "offset": offset} for size, offset in summary.largest(of_records=False)],
        "largestRecords": [{"bytes": size, "offset": offset} for size, offset in summary.largest(of_records=True)],
        "firstOffset": first,
        "lastOffset": last,
        "gaps": count["gaps"],
        "missingOffsets": count["missing_offsets"],
        "offsetsNotRising": count["steps_back"],
        "leastTimestamp": count["least_timestamp"] if has_time else None,
        "maxTimestamp": count["largest_timestamp"] if has_time else None,
        "leastBaseTimestamp": count["least_base_timestamp"] if count["with_base_timestamp"] else None,
        "recordsWithTimestamp": count["with_timestamp"],
        "recordsPerHour": None if rate is None else round(rate, 1),
        "logAppendTimeBatches": count["log_append_time"],
        "producers": _cardinality_object(summary.distinct_producers()),
        "batchesWithProducer": count["with_producer"],
        "transactionalBatches": count["transactional"],
        "commits": count["commits"],
        "aborts": count["aborts"],
        "controlBatches": count["control"],
        "headerOnlyBatches": count["header_only"],
        "deleteHorizonBatches": count["with_delete_horizon"],
        "damagedRanges": summary.damaged_ranges,
        "damagedBytes": summary.damaged_bytes,
        "damage": dict(sorted(summary.damage.items())),
        "problems": dict(sorted(summary.problems.items())),
    }
    if savings:
        found["whatIf"] = _saving_object(savings[0])
    if len(savings) > 1:
        found["whatIfs"] = [_saving_object(saving) for saving in savings]
    return found


def _form_object(form: Form) -> dict[str, Any]:
    ratio = None if form.ratio is None else round(form.ratio, 3)
    return {
        "format": form.format, "compression": form.compression, "batches": form.batches, "records": form.records,
        "bytes": form.bytes, "recordBytes": form.packed, "uncompressedRecordBytes": form.unpacked, "ratio": ratio,
    }  # fmt: skip


def _distribution_object(sizes: Distribution | None) -> dict[str, Any] | None:
    if sizes is None:
        return None
    return {
        "total": sizes.total, "count": sizes.count, "least": sizes.least, "median": sizes.median,
        "largest": sizes.largest,
    }  # fmt: skip


def _cardinality_object(number: Cardinality) -> dict[str, Any]:
    return {"count": number.count, "isExact": number.is_exact}


def _rounded(speed: float | None) -> float | None:
    return None if speed is None else round(speed, 1)


def _saving_object(saving: Saving) -> dict[str, Any]:
    return {
        "compression": saving.target.name, "level": saving.target.level, "batches": saving.batches,
        "sampledBatches": saving.sampled, "bytesBefore": saving.before, "bytesAfter": saving.after,
        "bytesSaved": saving.before - saving.after, "isExact": saving.is_exact, "error": saving.error,
        "bytesUntouched": saving.untouched, "megabytesPerSecond": _rounded(saving.megabytes_per_second),
    }  # fmt: skip
