"""The report of ``kseg verify``: collects the findings, and makes the page at the end."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Any

from kseg.errors import KsegError
from kseg.findings.table import ERROR, INFO, SEVERITIES, WARNING, texts_of
from kseg.formats.json_values import name_value
from kseg.formats.suffixes import INDEX, TRANSACTION_INDEX
from kseg.kernel.layout import headers as fields
from kseg.logdir.log_directory import BrokerState, LogDirectory, directory_around
from kseg.output.findings import NEEDED, FindingsPrinter, comparison_row, finding_row, show_totals, start_text
from kseg.output.notices import Notices, on_one_line
from kseg.output.progress import Progress
from kseg.output.sink import Sink
from kseg.positioned import read_at
from kseg.quantities import plural, shell_line, shown_bytes
from kseg.report.rows import Card, NextStep, Page, page_bytes
from kseg.segment.files import SegmentFile, list_segments, parse_partition_name
from kseg.segment.paths import expand_path, is_log_directory
from kseg.segment.seek import OFFSET_ENTRY, index_path
from kseg.sidefiles.indexes import TransactionIndex
from kseg.stores.trees import open_regular
from kseg.verification.report import Finding, Report

if TYPE_CHECKING:
    from kseg.verification.report import Comparison


# The strip of a partition: its segments to scale, with their known offsets and times.
#
# Only names, sizes, checkpoints, indexes and a few batch headers are read, whatever the size of the logs.

MAX_ANCHORS = 240
"""Approximate limit of batches of a partition whose offset and time are read."""
MAX_SEGMENTS = 2000
"""Limit of segments of a partition that are drawn."""
MAX_ABORTED = 1000
"""Limit of aborted transactions of a partition that are drawn."""
MAX_TXNINDEX_BYTES = 1 << 20

_INT64 = Struct(">q")


def strip_of(directory: str, roots: dict[str, LogDirectory | None]) -> dict[str, Any] | None:
    """Returns the strip of a partition directory; None if it cannot be listed or has no segment. ``roots``: the log
    directories that were read so far, by path."""
    try:
        found = [file for file in list_segments(directory) if file.is_segment and not file.leftover]
    except (KsegError, OSError):
        return None
    drawn = found[:MAX_SEGMENTS]
    if not drawn:
        return None
    root, name = os.path.split(os.path.abspath(directory))
    if root not in roots:
        roots[root] = directory_around(directory)
    around = roots[root]
    state = BrokerState() if around is None else around.broker_state(name)
    max_anchors, segments = max(2, MAX_ANCHORS // len(drawn)), []
    for file in drawn:
        with suppress(KsegError, OSError), open_regular(file.path) as stream:
            size = os.fstat(stream.fileno()).st_size
            anchors = list(_anchors(stream.fileno(), file, size, max_anchors))
            row = {"name": name_value(file.name), "base": file.base_offset, "size": size, "anchors": anchors}
            segments.append(row)
    return {
        "segments": segments,
        "segmentsLeftOut": len(found) - len(drawn),
        "aborted": list(islice(_aborted(drawn), MAX_ABORTED)),
        "logStartOffset": state.log_start_offset,
        "highWatermark": state.high_watermark,
        "recoveryPoint": state.recovery_point,
    }


def _anchors(log: int, file: SegmentFile, size: int, max_anchors: int) -> Iterator[tuple[int, int, int | None]]:
    """Yields (position, offset, timestamp) of the first batch and of batches in the index, by rising position. The
    timestamp is the largest of a v2 batch, that of a v1 message, None if there is none."""
    positions = [0]  # with those of the .index, evenly spread; none if there is no usable index
    with suppress(KsegError, OSError), open_regular(index_path(file, INDEX)) as stream:
        count = os.fstat(stream.fileno()).st_size // OFFSET_ENTRY.size
        chosen = range(0, count, max(1, count // max_anchors))
        entries = [read_at(stream.fileno(), OFFSET_ENTRY.size, i * OFFSET_ENTRY.size) for i in chosen]
        positions += [OFFSET_ENTRY.unpack(data)[1] for data in entries if len(data) == OFFSET_ENTRY.size]
    last = -1
    for position in positions:
        if not last < position < size:
            continue
        header = read_at(log, fields.V2_HEADER_BYTES, position)
        if len(header) <= fields.V1_TIMESTAMP + _INT64.size:
            continue
        (offset,) = _INT64.unpack_from(header, fields.ENTRY_OFFSET)
        magic, time = header[fields.ENTRY_MAGIC], None
        if magic == fields.MAGIC_V2 and len(header) == fields.V2_HEADER_BYTES:
            (time,) = _INT64.unpack_from(header, fields.V2_MAX_TIMESTAMP)
        elif magic == 1:
            (time,) = _INT64.unpack_from(header, fields.V1_TIMESTAMP)
        if magic > fields.MAGIC_V2 or offset < 0:
            continue
        last = position
        yield position, offset, None if time is None or time < 0 else time


def _aborted(files: list[SegmentFile]) -> Iterator[tuple[int, int]]:
    """Yields (first offset, last offset) of aborted transactions, from the transaction indexes."""
    for file in files:
        try:
            with open_regular(index_path(file, TRANSACTION_INDEX)) as stream:
                data = stream.read(MAX_TXNINDEX_BYTES)
        except (KsegError, OSError):
            continue
        for entry in TransactionIndex(data):
            yield entry.first_offset, entry.last_offset


MAX_HEX_VIEWS = 2000
"""Limit of findings whose bytes are part of the page."""
MAX_FINDINGS = 50_000
"""Limit of findings that are part of the page; all are counted."""
MAX_STEPS = 50
"""Limit of commands that are listed as next steps."""
MAX_PLACES = 5
"""Limit of places that are named in one step."""
HEX_BEFORE, HEX_BYTES = 32, 160
"""Least number of bytes shown before a finding's position, if the file has them, and number of all bytes shown."""
_TRANSACTIONS = frozenset({"open-transaction", "hanging-transaction"})


class FindingsPage(FindingsPrinter):
    """Collects all findings, and writes the page at the end. ``paths``: those of the command line."""

    def __init__(
        self, sink: Sink, notices: Notices, progress: Progress, paths: tuple[str, ...], level: str, least: str = INFO
    ) -> None:
        super().__init__(sink, notices, progress, least)
        self._paths, self._level = paths, level
        self._findings: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}
        self._counts: list[Counter[str]] = []
        self._lowest_open: dict[int, int] = {}
        self._comparisons: list[dict[str, Any]] = []
        self._hexes = self._left_out = 0

    def show(self, finding: Finding) -> None:
        # The partition or log directory of the finding, or the directory that holds the file
        file, holder = finding.file, os.path.dirname(finding.file) or "."
        own = os.path.basename(os.path.abspath(file))
        if os.path.isdir(file) and (parse_partition_name(own) or _parts(file) not in ([], [file])):
            holder = file.rstrip("/") or file
        place = self._place(holder)
        self._counts[place][finding.severity] += 1
        if finding.code in _TRANSACTIONS and finding.offset is not None:
            self._lowest_open[place] = min(finding.offset, self._lowest_open.get(place, finding.offset))
        if len(self._findings) >= MAX_FINDINGS:
            self._left_out += 1
            return
        details = dict(finding.details)
        other, abort = details.pop("otherRepair", ()), details.pop("abort", None)
        row = finding_row(finding) | {
            "place": place,
            "details": {name: name_value(each) if isinstance(each, str) else each for name, each in details.items()},
            "repair": shell_line(finding.repair or ()),
            "otherRepair": shell_line(other),
            "abort": shell_line(abort or ()),
            "needs": NEEDED.get(finding.needs or ""),
        }
        if self._hexes < MAX_HEX_VIEWS and finding.severity != INFO and finding.position is not None:
            row["hex"], start = None, max(0, (finding.position - HEX_BEFORE) // 16 * 16)
            with suppress(KsegError, OSError), open_regular(finding.file) as stream:
                stream.seek(start)
                row["hex"] = {"start": start, "bytes": stream.read(HEX_BYTES).hex()}
                self._hexes += 1
        self._findings.append(row)

    def compared(self, comparison: "Comparison") -> None:
        self._comparisons.append(comparison_row(comparison))

    def finish(self, report: Report) -> None:
        for path in self._paths:
            for part in _parts(path):
                self._place(part)
        shown = {finding["code"] for finding in self._findings}
        data = {
            "kind": "verify",
            "partitions": self._partitions(report.totals.partitions),
            "findings": self._findings,
            "findingsLeftOut": self._left_out,
            "comparisons": self._comparisons,
            "codes": {code: texts_of(code)._asdict() for code in shown},
            "omitted": [[name_value(file), code, count] for file, code, count in self.unshown(report)],
        }
        verdict, tone = _verdict(report, self._counts)
        notes = [f"Level of the check: {self._level}."]
        notes += [f"Start: {on_one_line(start_text(start))}." for start in report.starts]
        notes += [f"Not checked: {on_one_line(failure)}" for failure in report.failures]
        totals = report.totals
        cards = [
            Card.counted("errors", totals.errors, ERROR),
            Card.counted("warnings", totals.warnings, WARNING),
            Card.counted("infos", totals.infos, INFO),
            Card.counted("directories", len(self._counts)),
            Card.counted("files", totals.files),
            Card("size", shown_bytes(totals.bytes)),
            Card.counted("batches", totals.batches),
            Card.counted("records", totals.records),
        ]
        page = Page(
            "kseg verify", verdict, tone, [on_one_line(path) for path in self._paths],
            cards, _next_steps(report), data, notes,
        )  # fmt: skip
        self.progress.erase()
        self.sink.write(page_bytes(page))
        self.sink.flush()
        show_totals(report, self.notices, self.least)

    def _place(self, directory: str) -> int:
        """Returns the number of a directory with findings, or of a partition without any."""
        if directory not in self._places:
            self._places[directory] = len(self._places)
            self._counts.append(Counter())
        return self._places[directory]

    def _partitions(self, census: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """``census``: the objects of `Census`, which tell what the log cleaner waits for."""
        roots, found = dict[str, LogDirectory | None](), []
        cleaners = {str(row["path"]): row["cleaner"]["state"] for row in census if row["cleaner"] is not None}
        for directory, place in self._places.items():
            counts = self._counts[place]
            row: dict[str, Any] = {
                "path": name_value(directory), "name": name_value(os.path.basename(os.path.abspath(directory))),
                "counts": [counts[severity] for severity in SEVERITIES],
                "strip": strip_of(directory, roots) if os.path.isdir(directory) else None,
                "cleaner": cleaners.get(directory),
            }  # fmt: skip
            if row["strip"] is None:
                row["note"] = _note(directory)
            else:
                row["strip"]["firstOpenOffset"] = self._lowest_open.get(place)
            found.append(row)
        return found


def _note(directory: str) -> str:
    """Returns the reason why there is no strip. Names decide nothing: a log directory may be called data-1."""
    if not os.path.isdir(directory):
        return "segments are drawn for local directories only"
    try:
        return "log directory" if is_log_directory(directory) else "no segments"
    except (KsegError, OSError):
        return "the directory cannot be read"


def _parts(path: str) -> list[str]:
    """Returns the partition directories of a path; [] for a file, an archive or an unreadable directory."""
    try:
        return [part for part in expand_path(path) if os.path.isdir(part)] if os.path.isdir(path) else []
    except (KsegError, OSError):
        return []


def _verdict(report: Report, counts: list[Counter[str]]) -> tuple[str, str]:
    totals = report.totals
    damaged = sum(1 for count in counts if count[ERROR])
    if totals.errors:
        where = f" in {plural(damaged, 'directory', 'directories')}" if damaged else ""
        text, tone = f"{plural(totals.errors, 'error', 'errors')}{where}: data is damaged or a broker would fail", ERROR
    elif totals.warnings:
        text, tone = f"No errors, {plural(totals.warnings, 'warning', 'warnings')}", WARNING
    else:
        text, tone = "No damage found", "good"
    if not report.is_whole:
        text += ". Not everything could be checked"
        tone = ERROR
    return f"{text}.", tone


def _next_steps(report: Report) -> list[NextStep]:
    steps = [NextStep(shell_line(step.argv), f"for {', '.join(step.codes)}") for step in report.steps[:MAX_STEPS]]
    if len(report.steps) > MAX_STEPS:
        steps.append(NextStep("", f"{len(report.steps) - MAX_STEPS} more commands, in the table of findings"))
    places_of: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for need in report.needs:
        places_of[need.needs, *need.codes].append(on_one_line(need.path))
    for (name, *codes), places in places_of.items():
        more = f" and {len(places) - MAX_PLACES} more" if len(places) > MAX_PLACES else ""
        reason = f"{NEEDED.get(name, 'a decision')} is needed for {', '.join(codes)} in "
        steps.append(NextStep("", reason + ", ".join(places[:MAX_PLACES]) + more))
    return steps
