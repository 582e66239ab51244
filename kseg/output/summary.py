"""``--summary``: statistics of each partition (or of its given files): text, a panel on a terminal, or JSON."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kseg.formats.compressing import Target
from kseg.formats.json_values import bytes_value, fields_of, name_value
from kseg.formats.rows import Scratch
from kseg.output.notices import on_one_line
from kseg.output.printer import Printer, Spans, Style
from kseg.output.sink import Sink
from kseg.output.terminal import Paint, clipped, drawn
from kseg.quantities import plural, shown_bytes, shown_time
from kseg.segment.batches import Batch
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.segment.recompression import Recompression, Saving
from kseg.segment.summary import Cardinality, Distribution, Form, LogSummary
from kseg.segment.times import show_span

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

    def batch(self, batch: Batch, spans: Spans | None = None) -> None:
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
            self.sink.put_row(found)
        elif self._fleet is not None:
            self._fleet.add(found)
        elif self.sink.is_terminal:
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
    return None if sizes is None else fields_of(sizes, "total", "count", "least", "median", "largest")


def _cardinality_object(number: Cardinality) -> dict[str, Any]:
    return fields_of(number, "count", "is_exact")


def _rounded(speed: float | None) -> float | None:
    return None if speed is None else round(speed, 1)


def _saving_object(saving: Saving) -> dict[str, Any]:
    return {
        "compression": saving.target.name, "level": saving.target.level, "batches": saving.batches,
        "sampledBatches": saving.sampled, "bytesBefore": saving.before, "bytesAfter": saving.after,
        "bytesSaved": saving.before - saving.after, "isExact": saving.is_exact, "error": saving.error,
        "bytesUntouched": saving.untouched, "megabytesPerSecond": _rounded(saving.megabytes_per_second),
    }  # fmt: skip


_LABEL_WIDTH = 20
_SHOWN, _LARGEST = 3, 2
"""Header keys that are shown; keys and records."""
_KEY_WIDTH = _LABEL_WIDTH - 3


class Fact(NamedTuple):
    """One line of a summary: a label, a number and a remark."""

    label: str
    number: str
    more: str = ""
    color: str | None = None


def summary_lines(
    summary: LogSummary, path: str, savings: Sequence[Saving], paint: Paint, cleaner: dict[str, Any] | None = None
) -> list[str]:
    """Returns the summary as text, at most 80 columns wide except for the path. ``cleaner``: see `cleaner_facts`."""
    counted, contained = summary_facts(summary)
    contained += cleaner_facts(cleaner)
    lines = [f"{paint(on_one_line(path), bold=True)}: {summary_size(summary)}", *map(_line, counted)]
    lines += _form_lines(summary.forms())
    lines += [paint(_line(fact), fact.color) if fact.color else _line(fact) for fact in contained]
    return lines + savings_lines(savings, paint)


def cleaner_facts(cleaner: dict[str, Any] | None) -> list[Fact]:
    """Returns the state of the log cleaner, from `SummaryPrinter`'s JSON."""
    return [] if cleaner is None else [Fact("log cleaner", "", on_one_line(cleaner["state"]))]


def summary_size(summary: LogSummary) -> str:
    """Returns the number of files, if there are several, and their size."""
    files = "" if summary.files == 1 else f"{summary.files} files, "
    return f"{files}{shown_bytes(summary.bytes)} ({summary.bytes:,} bytes)"


def summary_facts(summary: LogSummary) -> tuple[list[Fact], list[Fact]]:
    """Returns the facts above the table of formats (batches, records), and those below it."""
    count = summary.counters()
    counted = [Fact("batches", f"{count['batches']:,}", _sizes(summary.distribution("batch_sizes"), shown_bytes))]
    per_batch = _sizes(summary.distribution("record_counts"), "{:,}".format, " a batch")
    counted.append(Fact("records", f"{count['records']:,}", per_batch))
    if count["control_records"]:
        counted.append(Fact("control records", f"{count['control_records']:,}"))
    facts = _content_facts(summary, count) + _share_facts(summary) + _header_facts(summary, count)
    facts += _offset_facts(summary, count) + _producer_facts(summary, count)
    for name, label in (
        ("control", "control batches"), ("header_only", "header-only batches"),
        ("with_delete_horizon", "with delete horizon"),
    ):  # fmt: skip
        if count[name]:
            facts.append(Fact(label, f"{count[name]:,}"))
    for code, times in sorted(summary.problems.items()):
        facts.append(Fact(code, f"{times:,}", "batches; their records are not counted above", "red"))
    if summary.damaged_ranges:
        shown = f"{plural(summary.damaged_ranges, 'range', 'ranges', ',')}, {shown_bytes(summary.damaged_bytes)}"
        kinds = ", ".join(f"{code} {times:,}" for code, times in sorted(summary.damage.items()))
        facts += [Fact("damage", shown, color="red"), Fact("", kinds, color="red")]
    else:
        facts.append(Fact("damage", "none"))
    return counted, facts


def _line(fact: Fact) -> str:
    return f"  {fact.label:<{_LABEL_WIDTH}}{fact.number:<11} {fact.more}".rstrip()


def _sizes(sizes: Distribution | None, shown: Callable[[int], str], unit: str = "") -> str:
    if sizes is None:
        return ""
    if sizes.least == sizes.largest:
        return f"{shown(sizes.least)}{unit or ' each'}"
    return f"{shown(sizes.least)} to {shown(sizes.largest)}, median {shown(sizes.median)}{unit}"


def _form_lines(forms: list[Form]) -> list[str]:
    if not forms:
        return []
    lines = ["", f"  {'format':<7}{'codec':<9}{'batches':>12}{'records':>14}{'bytes':>12}{'ratio':>8}"]
    for form in forms:
        ratio = "-" if form.ratio is None else f"{form.ratio:.2f}"
        size = shown_bytes(form.bytes)
        codec = form.compression
        lines.append(f"  {form.format:<7}{codec:<9}{form.batches:>12,}{form.records:>14,}{size:>12}{ratio:>8}")
    return [*lines, ""]


def _content_facts(summary: LogSummary, count: dict[str, int]) -> list[Fact]:
    if not count["records"]:
        return []
    keys = summary.distinct_keys()
    facts = []
    if keys.count:
        number = f"{keys.count:,}" if keys.is_exact else f"~{keys.count:,}"
        how = "" if keys.is_exact else " (an estimate, 1 % off or so)"
        facts.append(Fact("different keys", number, _sizes(summary.distribution("key_sizes"), shown_bytes) + how))
    values = summary.distribution("value_sizes")
    if values is not None:
        facts.append(Fact("values", f"{values.count:,}", _sizes(values, shown_bytes)))
    for name, label in (("null_keys", "null keys"), ("empty_keys", "empty keys")):
        if count[name]:
            facts.append(Fact(label, f"{count[name]:,}"))
    if count["null_values"] or count["empty_values"]:
        tombstones = f"{count['tombstones']:,} of them tombstones" if count["null_values"] else ""
        facts.append(Fact("null values", f"{count['null_values']:,}", tombstones))
        facts.append(Fact("empty values", f"{count['empty_values']:,}"))
    for label, of_records in (("largest keys", False), ("largest records", True)):
        for size, offset in summary.largest(of_records)[:_LARGEST]:
            facts.append(Fact(label, shown_bytes(size), "" if offset is None else f"at offset {offset}"))
            label = ""
    return facts


def _share_facts(summary: LogSummary) -> list[Fact]:
    """Returns what the decompressed bytes are."""
    shares = summary.shares()
    if not shares.total:
        return []
    facts = [Fact("decompressed", shown_bytes(shares.total), "of which are")]
    for label, size, what in (
        ("keys", shares.keys, ""), ("values", shares.values, ""), ("headers", shares.headers, "keys and values"),
        ("framing", shares.framing, "lengths, times, control records"),
        ("batch headers", shares.batch_headers, ""),
    ):  # fmt: skip
        if size:
            facts.append(Fact(f"  {label}", shown_bytes(size), f"{size / shares.total:6.1%}  {what}".rstrip()))
    return facts


def _header_facts(summary: LogSummary, count: dict[str, int]) -> list[Fact]:
    """Returns the commonest header keys."""
    names = summary.header_keys()
    if not names:
        return []
    keys = plural(len(names), "different key", "different keys")
    facts = [
        Fact(
            "headers", f"{count['headers']:,}", f"in {plural(count['with_headers'], 'record', 'records', ',')}; {keys}"
        )
    ]
    for name in names[:_SHOWN]:
        key = clipped(on_one_line(name.key.decode(errors="surrogateescape")), _KEY_WIDTH)
        facts.append(Fact(f"  {key}", f"{name.count:,}", shown_bytes(name.bytes)))
    if count["other_headers"]:
        size = shown_bytes(count["other_header_bytes"])
        facts.append(
            Fact("  uncounted keys", f"{count['other_headers']:,}", f"{size}; beyond the first {len(names):,}")
        )
    return facts


def _offset_facts(summary: LogSummary, count: dict[str, int]) -> list[Fact]:
    facts = []
    if count["has_offset"]:
        facts.append(Fact("offsets", f"{count['first_offset']} to {count['last_offset']}"))
        gaps = f"in {plural(count['gaps'], 'gap', 'gaps', ',')}" if count["gaps"] else ""
        facts.append(Fact("missing offsets", f"{count['missing_offsets']:,}", gaps))
    if count["steps_back"]:
        facts.append(Fact("offsets not rising", f"{count['steps_back']:,}"))
    if count["with_timestamp"]:
        first, last = count["least_timestamp"], count["largest_timestamp"]
        facts.append(Fact("times", f"{shown_time(first)} to {shown_time(last)}"))
        rate = summary.records_per_hour()
        facts.append(
            Fact("", show_span(last - first), "" if rate is None else f"{rate:,.{int(rate < 10)}f} records an hour")
        )
    return facts


def _producer_facts(summary: LogSummary, count: dict[str, int]) -> list[Fact]:
    if not count["with_producer"]:
        return []
    producers = summary.distinct_producers()
    number = f"{producers.count:,}" if producers.is_exact else f"~{producers.count:,}"
    facts = [Fact("producers", number, f"with ids, in {plural(count['with_producer'], 'batch', 'batches', ',')}")]
    if count["transactional"]:
        ends = f"commits: {count['commits']:,}, aborts: {count['aborts']:,}"
        facts.append(Fact("transactional", f"{count['transactional']:,}", f"batches; {ends}"))
    return facts


def savings_lines(savings: Sequence[Saving], paint: Paint) -> list[str]:
    """Returns the savings of one codec as sentences, of several as a table."""
    if len(savings) < 2:
        return [line for saving in savings for line in _saving_lines(saving, paint)]
    titles = f"    {'what if':10s} {'size':>11s} {'of now':>7s} {'speed':>12s}"
    lines = ["", paint(titles, bold=True), f"    {'now':10s} {shown_bytes(savings[0].before):>11s} {'100.0%':>7s}"]
    for saving in savings:
        share = f"{saving.after / saving.before:.1%}" if saving.before else "-"
        speed = saving.megabytes_per_second
        shown = "-" if speed is None else f"{speed:,.0f} MB/s"
        lines.append(f"    {saving.target!s:10s} {shown_bytes(saving.after):>11s} {share:>7s} {shown:>12s}")
    tried = savings[0]
    if not tried.is_exact:
        lines.append(f"    from {tried.sampled:,} of {tried.batches:,} batches")
    return lines


def _saving_lines(saving: Saving, paint: Paint) -> list[str]:
    lines = ["", f"  {paint(f'what if {saving.target}', bold=True)}"]
    if not saving.batches:
        return [*lines, "    no batch can be recompressed"]
    if not saving.sampled:
        return [*lines, "    the sample holds no batch: take a larger one"]
    saved = saving.before - saving.after
    share = f"{abs(saved) / saving.before:.1%}" if saving.before else "0.0%"
    after = ("" if saving.is_exact else "about ") + shown_bytes(saving.after)
    verdict = f"{shown_bytes(abs(saved))} ({share}) {'saved' if saved >= 0 else 'more'}"
    verdict = paint(verdict, "green" if saved > 0 else "yellow")
    lines.append(f"    {shown_bytes(saving.before)} would become {after}: {verdict}")
    if saving.is_exact:
        lines.append(f"    all {saving.batches:,} batches were compressed; a broker's libraries differ a little")
    else:
        error = "" if saving.error is None else f", off by {shown_bytes(saving.error)} at most in 19 cases of 20"
        lines.append(f"    from {saving.sampled:,} of {saving.batches:,} batches{error}")
    if saving.untouched:
        lines.append(f"    {shown_bytes(saving.untouched)} would stay as they are")
    return lines


_BAR_WIDTH = 16


def summary_panel(
    summary: LogSummary, path: str, savings: Sequence[Saving], paint: Paint, cleaner: dict[str, Any] | None = None
) -> str:
    """Returns the panel as text; ``cleaner``: see `cleaner_facts`.

    A title is cut at the width of the terminal, so the whole path stands below it.
    """
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    counted, contained = summary_facts(summary)
    contained += cleaner_facts(cleaner)
    head = [Text(on_one_line(path), overflow="fold"), Text(summary_size(summary))]
    parts: list[Any] = [*head, Text(), _grid(counted), Text()]
    if forms := summary.forms():
        parts += [_form_table(forms), Text()]
    parts.append(_grid(contained))
    parts += [Text.from_ansi(line) for line in savings_lines(savings, paint)]
    title = Text(on_one_line(os.path.basename(path) or path), "bold")
    return drawn(Panel(Group(*parts), title=title, title_align="left"), paint.is_on)


def _grid(facts: list[Fact]) -> Any:
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for fact in facts:
        number = f"{fact.number}  {fact.more}" if fact.more else fact.number
        grid.add_row(Text(fact.label, fact.color or "cyan"), Text(number, fact.color or ""))
    return grid


def _form_table(forms: list[Form]) -> Any:
    from rich.bar import Bar
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, justify in (
        ("format", "left"), ("codec", "left"), ("batches", "right"), ("records", "right"), ("bytes", "right"),
        ("ratio", "right"), ("share", "left"),
    ):  # fmt: skip
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    total = sum(form.bytes for form in forms) or 1
    for form in forms:
        ratio = "-" if form.ratio is None else f"{form.ratio:.2f}"
        bar = Bar(total, 0, form.bytes, width=_BAR_WIDTH, color="green")
        numbers = (f"{form.batches:,}", f"{form.records:,}", shown_bytes(form.bytes), ratio)
        table.add_row(form.format, form.compression, *numbers, bar)
    return table
