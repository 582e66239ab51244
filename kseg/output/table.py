"""``--format table``: batches, and records, in columns; totals at the end.

Column widths are chosen from the first rows. Wider cells later shift the rest of their line, so that only keys and
values are truncated, and only the first rows are buffered.
"""

import textwrap
from typing import Any

from kseg.formats.control import control_text, parse_control
from kseg.formats.rows import Scratch, UndecodableError
from kseg.output.notices import Paint, on_one_line
from kseg.output.printer import Printer, Style
from kseg.output.sink import Sink
from kseg.output.terminal import Columns, clipped, columns_of, display_width
from kseg.quantities import MINUTES, SECONDS, plural, show_span, shown_bytes, shown_time
from kseg.segment import items
from kseg.segment.files import SegmentFile

FIRST_ROWS = 200
"""Number of rows from which column widths are chosen."""
SLACK = 4
"""Terminal columns reserved for growing numbers."""
MIN_WIDE_WIDTH = 120
MIN_SECONDS_WIDTH = 64
"""A narrower table has times without seconds."""
_PREVIEW_BYTES = 2048
COLUMNS = columns_of(
    "POSITION# SIZE#/1 OFFSETS# COUNT# MAX_TIMESTAMP CODEC PRODUCER#/2 SEQUENCES#/3 LEADER_EPOCH#/4 CRC#/5 KIND",
    POSITION="bright_black", OFFSETS="cyan",
)  # fmt: skip

TableRow = tuple[dict[str, str] | None, str, str | None]
"""Cells of a batch by title, or None; a complete line instead; the color of the line, None: that of each cell."""


class TablePrinter(Printer):
    """Prints a table of all files; `close` writes the buffered rows and the footer."""

    def __init__(
        self, sink: Sink, style: Style, scratch: Scratch, *, paint: Paint | None = None, width: int = 80
    ) -> None:
        super().__init__(sink, style, scratch)
        self._paint = paint or Paint()
        self._width = max(width, 40)
        self._columns: Columns | None = None
        self._rows: list[TableRow] = []
        # The totals of the footer; of offsets, times and delete horizons the least and the largest are of interest.
        self._batches = self._count = self._bytes = self._damaged_ranges = self._damaged_bytes = self._problems = 0
        self._extents: dict[str, tuple[int, int]] = {}
        self._has_all_counts = True

    def begin(self, file: SegmentFile) -> None:
        super().begin(file)
        self._add((None, self._paint(on_one_line(file.path), bold=True), None))

    def batch(self, batch: items.Batch, spans: items.Spans = items.all_rows) -> None:
        problems = batch.check() if self.style.deep else batch.problems
        self.errors += bool(problems)
        self._add_to_totals(batch, bool(problems))
        self._add((self._cells(batch, problems), "", "red" if problems else None))
        for problem in problems:
            self._add((None, f"  {problem.code}: {on_one_line(problem.message)}", "red"))
        if self.style.deep:
            self._records(batch, spans)

    def damage(self, damage: items.Damage) -> None:
        self.errors += 1
        self._damaged_ranges += 1
        self._damaged_bytes += damage.length
        self._bytes += damage.length
        text = f"damage: {damage.code} position: {damage.position} length: {damage.length}: {damage.message}"
        for line in textwrap.wrap(on_one_line(text), self._width, subsequent_indent="  "):
            self._add((None, line, "red"))

    def finish(self) -> None:
        """Ends a file. On a terminal its rows are flushed."""
        if self.sink.is_terminal:
            self._choose_widths()
        super().finish()

    def close(self) -> None:
        """Ends the table."""
        self._choose_widths()
        batches = plural(self._batches, "batch", "batches", ",")
        records = plural(self._count, "record", "records", ",") + ("" if self._has_all_counts else " or more")
        files = f"{self.files} files, " if self.files > 1 else ""
        size = f"{shown_bytes(self._bytes)} ({self._bytes:,} bytes)"
        self.sink.put(self._paint(f"{files}{batches}, {records}, {size}", bold=True))
        if offsets := self._extents.get("offsets"):
            self.sink.put("offsets {} to {}".format(*offsets))
        if times := self._extents.get("times"):
            span = show_span(times[1] - times[0])
            self.sink.put(f"times {shown_time(times[0])} to {shown_time(times[1])} ({span})")
        if horizons := self._extents.get("horizons"):
            self.sink.put(f"delete horizons {' to '.join(map(shown_time, sorted({*horizons})))}")
        if self._damaged_ranges or self._problems:
            damage = f"damage: {plural(self._damaged_ranges, 'range', 'ranges', ',')}, {self._damaged_bytes:,} bytes"
            self.sink.put(self._paint(f"{damage}; batches with problems: {self._problems:,}", "red"))
        self.sink.flush()

    def _add_to_totals(self, batch: items.Batch, is_wrong: bool) -> None:
        self._batches += 1
        self._bytes += batch.size
        self._problems += is_wrong
        if not batch.is_valid:
            return  # its header cannot be trusted
        count = _count_of(batch, self.style.deep)
        self._has_all_counts &= count is not None
        self._count += count or 0
        # Only decompression would reveal an unknown base offset.
        self._extend("offsets", batch.last_offset if batch.base_offset is None else batch.base_offset)
        self._extend("offsets", batch.last_offset)
        times = [batch.max_timestamp]
        if isinstance(batch, items.RecordBatch):
            if batch.header.delete_horizon_ms is not None:
                self._extend("horizons", batch.header.delete_horizon_ms)
            elif batch.header.record_count:
                times.append(batch.header.base_timestamp)
        for ms in times:
            if ms >= 0:
                self._extend("times", ms)

    def _extend(self, name: str, number: int) -> None:
        least, largest = self._extents.get(name, (number, number))
        self._extents[name] = min(least, number), max(largest, number)

    def _cells(self, batch: items.Batch, problems: list[items.Problem]) -> dict[str, str]:
        header: Any = batch.header
        count = _count_of(batch, self.style.deep)
        first = batch.base_offset
        if self.style.deep and isinstance(batch, items.Message):
            first = batch.extent()[0]
        found = {
            "POSITION": str(batch.position),
            "SIZE": str(batch.size),
            "OFFSETS": _span(first, batch.last_offset),
            "COUNT": "?" if count is None else str(count),
            "MAX TIMESTAMP": self._time(batch.max_timestamp) if batch.max_timestamp >= 0 else "-",
            "CODEC": batch.compression,
            "CRC": f"{header.crc:08x}",
            "KIND": _kind(batch, bool(problems)),
        }
        if isinstance(batch, items.RecordBatch):
            has_producer = header.producer_id != -1
            found["PRODUCER"] = f"{header.producer_id}/{header.producer_epoch}" if has_producer else "-"
            has_sequence = header.base_sequence != -1
            found["SEQUENCES"] = _span(header.base_sequence, header.last_sequence) if has_sequence else "-"
            found["LEADER EPOCH"] = str(header.partition_leader_epoch)
        return found

    def _time(self, ms: int) -> str:
        """Returns the time, less precise if the line is short."""
        if self._width >= MIN_WIDE_WIDTH:
            return shown_time(ms)
        return shown_time(ms, MINUTES if self._width < MIN_SECONDS_WIDTH else SECONDS)

    def _records(self, batch: items.Batch, spans: items.Spans) -> None:
        try:
            for rows in batch.rows_before_fault():
                for first, stop in spans(rows):
                    for record in items.records_of(rows.part(first, stop), batch.timestamp_kind):
                        self._record(batch, record)
        except UndecodableError:
            return  # the line of problems reports it

    def _record(self, batch: items.Batch, record: items.Record) -> None:
        time = "" if record.timestamp is None or record.timestamp < 0 else f" {shown_time(record.timestamp)}"
        head = f"  {record.offset:>12}{time}"
        if batch.is_control:
            rest = control_text(parse_control(record.key, record.value)).strip()
        elif not self.style.contents:
            rest = f"key {_size(record.key)}, value {_size(record.value)}{_headers(record)}"
        elif self.style.decoder is not None:
            decoded = self.style.decoder.decode(record.key, record.value, record.offset, record.headers)
            rest = f"{decoded.key_text or 'null'}: {decoded.payload_text or 'null'}"
        else:
            rest = f"{_shown(record.key)}: {_shown(record.value)}{_headers(record)}"
        width = max(self._width - display_width(head) - 2, 8)
        color = None if record.is_valid else "red"
        self._add(
            (None, f"{self._paint(head, 'bright_black')}  {clipped(on_one_line(rest[:_PREVIEW_BYTES]), width)}", color)
        )

    def _add(self, row: TableRow) -> None:
        if self._columns:
            self._put_row(row)
            return
        self._rows.append(row)
        if len(self._rows) >= FIRST_ROWS:
            self._choose_widths()

    def _choose_widths(self) -> None:
        """Chooses columns and widths from the buffered rows, and writes these."""
        rows, self._rows = self._rows, []
        held = [row[0] for row in rows if row[0]]
        if held and not self._columns:
            self._columns = Columns(COLUMNS, held, self._width - SLACK)
            self.sink.put(self._columns.heading(self._paint))
        for row in rows:
            self._put_row(row)

    def _put_row(self, row: TableRow) -> None:
        found, line, color = row
        if found is not None and self._columns is not None:
            self.sink.put(self._columns.line(found, self._paint, color))
        else:
            self.sink.put(self._paint(line, color) if color else line)


def _count_of(batch: items.Batch, deep: bool) -> int | None:
    """Returns the number of records of a batch; None if only decompression would reveal it."""
    if isinstance(batch, items.RecordBatch):
        return max(batch.header.record_count, 0)
    if batch.header.codec == 0:
        return 1
    return batch.extent()[1] if deep and isinstance(batch, items.Message) else None


def _span(first: int | None, last: int) -> str:
    return f"?..{last}" if first is None else str(last) if first == last else f"{first}..{last}"


def _kind(batch: items.Batch, has_problem: bool) -> str:
    words = ["0.7" if isinstance(batch, items.Message07) else f"v{batch.magic}"]
    if batch.is_control:
        words.append("control")
    elif batch.is_transactional:
        words.append("txn")
    if isinstance(batch, items.RecordBatch):
        if batch.header.record_count == 0:
            words.append("empty")
        if batch.header.delete_horizon_ms is not None:
            words.append("horizon")
    if has_problem:
        words.append("INVALID" if not batch.is_valid else "BROKEN")
    return " ".join(words)


def _size(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} B"


def _shown(data: bytes | None) -> str:
    """Returns a key or value as text, or in hex."""
    if data is None:
        return "null"
    part = data[:_PREVIEW_BYTES]
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        if len(part) < len(data) and error.start > len(part) - 4:
            return part[: error.start].decode()
        return "0x" + part.hex()


def _headers(record: items.Record) -> str:
    return f", {plural(len(record.headers), 'header', 'headers')}" if record.headers else ""
