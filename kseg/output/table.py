"""``--format table``: batches, and records, in columns; totals at the end. And the committed offsets of groups.

Column widths are chosen from the first rows. Wider cells later shift the rest of their line, so that only keys and
values are truncated, and only the first rows are buffered.
"""

import re
import textwrap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kseg.formats.control import control_text, parse_control
from kseg.formats.rows import Scratch, UndecodableError
from kseg.output.notices import on_one_line
from kseg.output.printer import Printer, Style
from kseg.output.sink import Sink
from kseg.output.terminal import Column, Columns, Paint, clipped, display_width
from kseg.quantities import MINUTES, SECONDS, plural, shell_line, show_span, shown_bytes, shown_time
from kseg.segment.files import SegmentFile
from kseg.segment.items import (
    Batch,
    Damage,
    Message,
    Message07,
    Problem,
    Record,
    RecordBatch,
    Spans,
    all_rows,
    records_of,
)
from kseg.segment.paths import MAX_NAMES, some

if TYPE_CHECKING:
    from kseg.node.coordinators import CommittedOffset

FIRST_ROWS = 200
"""Number of rows from which column widths are chosen."""
SLACK = 4
"""Terminal columns reserved for growing numbers."""
MIN_WIDE_WIDTH = 120
MIN_SECONDS_WIDTH = 64
"""A narrower table has times without seconds."""
_PREVIEW_BYTES = 2048


COLUMNS = (
    Column("POSITION", color="bright_black"),
    Column("SIZE", 1),
    Column("OFFSETS", color="cyan"),
    Column("COUNT"),
    Column("MAX TIMESTAMP", is_number=False),
    Column("CODEC", is_number=False),
    Column("PRODUCER", 2),
    Column("SEQUENCES", 3),
    Column("LEADER EPOCH", 4),
    Column("CRC", 5),
    Column("KIND", is_number=False),
)


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
        self.enter(file)
        self.files += 1
        self._add((None, self._paint(on_one_line(file.path), bold=True), None))

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
        problems = batch.check() if self.style.deep else batch.problems
        self.errors += bool(problems)
        self._add_to_totals(batch, bool(problems))
        self._add((self._cells(batch, problems), "", "red" if problems else None))
        for problem in problems:
            self._add((None, f"  {problem.code}: {on_one_line(problem.message)}", "red"))
        if self.style.deep:
            self._records(batch, spans)

    def damage(self, damage: Damage) -> None:
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
        records = f"{self._count:,} records{'' if self._has_all_counts else ' or more'}"
        files = f"{self.files} files, " if self.files > 1 else ""
        size = f"{shown_bytes(self._bytes)} ({self._bytes:,} bytes)"
        self.sink.put(self._paint(f"{files}{self._batches:,} batches, {records}, {size}", bold=True))
        if offsets := self._extents.get("offsets"):
            self.sink.put("offsets {} to {}".format(*offsets))
        if times := self._extents.get("times"):
            span = show_span(times[1] - times[0])
            self.sink.put(f"times {shown_time(times[0])} to {shown_time(times[1])} ({span})")
        if horizons := self._extents.get("horizons"):
            self.sink.put(f"delete horizons {' to '.join(map(shown_time, sorted({*horizons})))}")
        if self._damaged_ranges or self._problems:
            damage = f"damage: {self._damaged_ranges:,} ranges, {self._damaged_bytes:,} bytes"
            self.sink.put(self._paint(f"{damage}; batches with problems: {self._problems:,}", "red"))
        self.sink.flush()

    def _add_to_totals(self, batch: Batch, is_wrong: bool) -> None:
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
        if isinstance(batch, RecordBatch):
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

    def _cells(self, batch: Batch, problems: list[Problem]) -> dict[str, str]:
        header: Any = batch.header
        count = _count_of(batch, self.style.deep)
        first = batch.base_offset
        if self.style.deep and isinstance(batch, Message):
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
        if isinstance(batch, RecordBatch):
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

    def _records(self, batch: Batch, spans: Spans) -> None:
        try:
            for rows in batch.rows_before_fault():
                for first, stop in spans(rows):
                    for record in records_of(rows.part(first, stop), batch.timestamp_kind):
                        self._record(batch, record)
        except UndecodableError:
            return  # the line of problems reports it

    def _record(self, batch: Batch, record: Record) -> None:
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


def _count_of(batch: Batch, deep: bool) -> int | None:
    """Returns the number of records of a batch; None if only decompression would reveal it."""
    if isinstance(batch, RecordBatch):
        return max(batch.header.record_count, 0)
    if batch.header.codec == 0:
        return 1
    return batch.extent()[1] if deep and isinstance(batch, Message) else None


def _span(first: int | None, last: int) -> str:
    return f"?..{last}" if first is None else str(last) if first == last else f"{first}..{last}"


def _kind(batch: Batch, has_problem: bool) -> str:
    words = ["0.7" if isinstance(batch, Message07) else f"v{batch.magic}"]
    if batch.is_control:
        words.append("control")
    elif batch.is_transactional:
        words.append("txn")
    if isinstance(batch, RecordBatch):
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


def _headers(record: Record) -> str:
    return f", {plural(len(record.headers), 'header', 'headers')}" if record.headers else ""


# The committed offsets of consumer groups.

COMMIT_COLUMNS = (
    Column("GROUP", is_number=False),
    Column("TOPIC", is_number=False),
    Column("PARTITION"),
    Column("OFFSET", color="cyan"),
    Column("LOG END", 4),
    Column("LAG"),
    Column("OUTSIDE", is_number=False),
    Column("RECORDS"),
    Column("COMMITTED", 3, is_number=False),
    Column("AGE", 1, is_number=False),
    Column("EXPIRES", 6, is_number=False),
    Column("EPOCH", 5),
    Column("METADATA", 2, is_number=False),
)
MIN_METADATA_WIDTH = 12


class CommittedOffsetsPrinter(Printer):
    """Reads __consumer_offsets and prints the committed offsets at the end: a table, or one JSON object per line.

    Several partitions make one list. All files are read before the first line is written, because a later record can
    replace, delete or complete an earlier one.

    ``now`` (ms since the epoch) is the time from which ages are computed; None means the newest timestamp read.
    """

    def __init__(
        self,
        sink: Sink,
        style: Style,
        scratch: Scratch,
        *,
        as_json: bool,
        warn: Callable[[str], None],
        paint: Paint | None = None,
        width: int = 80,
        now: int | None = None,
    ) -> None:
        super().__init__(sink, style, scratch)
        self._as_json = as_json
        self._warn = warn
        self._paint = paint or Paint()
        self._width = max(width, 40)
        self._now = now
        from kseg.node.coordinators import CommitTable  # few tables need it

        self._commits = CommitTable(scratch, warn)
        self._wrong_batches = self._damaged_ranges = self._damaged_bytes = 0

    def add_directory(self, directory: str) -> None:
        """Adds a log directory whose partitions are used for log ends."""
        self._commits.add_directory(directory)

    def begin(self, file: SegmentFile) -> None:
        self.files += 1
        self._commits.begin(file)

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
        if not batch.is_valid:
            self._wrong_batches += 1  # its contents cannot be trusted
            self.errors += 1
        elif not self._commits.add(batch, spans):
            self.errors += 1

    def damage(self, damage: Damage) -> None:
        self.errors += 1
        self._damaged_ranges += 1
        self._damaged_bytes += damage.length

    def close(self) -> None:
        """Writes the list."""
        rows, found = [], self._commits.take()
        now = self._commits.newest if self._now is None else self._now
        for commit in found:
            time, error = commit["commitTimestamp"], commit.pop("error")
            row = {"type": "committedOffset"} | commit | {"ageMs": None if time is None or time < 0 else now - time}
            rows.append(row if error is None else row | {"error": error})
        self.errors += self._commits.errors
        if self._as_json:
            for row in rows:
                self.sink.put_row(row)
            for row in self._share_groups():
                self.sink.put_row({"type": "shareGroupOffset", **row})
            for line in [*self._deleted(), *self._doubts()]:
                self._warn(line)
        else:
            for line in [*self._table(rows), *self._footer(rows)]:
                self.sink.put(line)
        self.sink.flush()

    def _share_groups(self) -> Iterator[dict[str, Any]]:
        """Yields where the share groups stand whose state lies in the log directories."""
        from kseg.node.group_lags import SHARE_STATE_TOPIC, share_groups

        places = [path for (topic, _), path in sorted(self._commits.partitions.items()) if topic == SHARE_STATE_TOPIC]
        names = self._commits.topic_names() if places else {}
        for row in share_groups(places, self.scratch):
            yield {"group": row.pop("group"), "topic": names.get(row["topicId"])} | row

    def _table(self, found: "list[CommittedOffset]") -> Iterator[str]:
        if not found:
            return
        rows = list(map(_commit_cells, found))
        used = {"LAG", *(title for cells in rows for title, text in cells.items() if text)}
        chosen = [column for column in COMMIT_COLUMNS if column.title in used]
        columns = Columns(chosen, rows, self._width, METADATA=MIN_METADATA_WIDTH)
        width = columns.width_of("METADATA", self._width)
        yield columns.heading(self._paint)
        for row, shown in zip(found, rows, strict=True):
            shown["METADATA"] = clipped(shown["METADATA"], width)
            is_odd = row["offset"] is None or bool(row["outside"])
            yield columns.line(shown, self._paint, "red" if is_odd else None)

    def _footer(self, found: "list[CommittedOffset]") -> Iterator[str]:
        groups = len({row["group"] for row in found})
        partitions = len({(row["topic"], row["partition"]) for row in found})
        offsets = plural(len(found), "committed offset", "committed offsets", ",")
        places = f"{plural(groups, 'group', 'groups', ',')}, {plural(partitions, 'partition', 'partitions', ',')}"
        yield self._paint(f"{offsets}: {places}", bold=True)
        if outside := sum(bool(row["outside"]) for row in found):
            yield self._paint(f"outside of the log: {outside:,}", "red")
        if unread := [row for row in found if _is_unread(row)]:
            row = unread[0]
            yield self._paint(
                f"where no coordinator reads them: {len(unread):,}, such as that of group {on_one_line(row['group'])}: "
                f"in partition {row['offsetsPartition']} of __consumer_offsets, its coordinator is that of partition "
                f"{row['coordinatorPartition']}", "red",
            )  # fmt: skip
        if self._commits.pending:
            yield f"in open transactions, not counted: {self._commits.pending:,}"
        for row in self._share_groups():
            topic = on_one_line(row["topic"] or row["topicId"])
            yield (
                f"share group {on_one_line(row['group'])}: {topic}-{row['partition']} from offset "
                f"{row['startOffset']} on"
            )
        yield from self._deleted()
        for line in self._doubts():
            yield self._paint(line, "red")

    def _deleted(self) -> Iterator[str]:
        """Yields which groups have deleted offsets, and the commands that show their last commits."""
        for path, groups in sorted(self._commits.deleted.items()):
            names = [*groups]
            shown = some([*map(on_one_line, names)])
            yield f"deleted offsets, as by expiry, of {plural(len(names), 'group', 'groups')}: {shown}; shown by:"
            patterns = [
                word for name in names[:MAX_NAMES] for word in ("--key-pattern", re.escape(name).replace("\\-", "-"))
            ]
            yield shell_line(["kseg", "dump", "--print-data-log", "--decode", "auto", *patterns, path])

    def _doubts(self) -> Iterator[str]:
        """Yields the reasons why an offset here may be outdated, or may have been deleted."""
        if self._damaged_ranges or self._wrong_batches:
            yield (
                f"damage: {self._damaged_ranges:,} ranges, {self._damaged_bytes:,} bytes; batches with problems: "
                f"{self._wrong_batches:,}; commits in them are not known"
            )
        if self._commits.undecodable:
            yield f"commits that could not be decoded: {self._commits.undecodable:,}"


def _is_unread(row: "CommittedOffset") -> bool:
    """Whether a commit lies in a partition that the group's coordinator does not read."""
    return None not in (row["coordinatorPartition"], row["offsetsPartition"]) and (
        row["coordinatorPartition"] != row["offsetsPartition"]
    )


def _commit_cells(row: "CommittedOffset") -> dict[str, str]:
    """Returns the texts of a row by column."""
    shown = {
        "GROUP": on_one_line(row["group"]), "TOPIC": on_one_line(row["topic"]), "PARTITION": str(row["partition"]),
    }  # fmt: skip
    if row["offset"] is None:
        return shown | {"OFFSET": "?", "METADATA": on_one_line(row.get("error") or "")}
    shown |= {"OFFSET": str(row["offset"]), "METADATA": on_one_line(row["metadata"] or "")}
    if row["lag"] is not None:
        shown |= {"LOG END": str(row["logEndOffset"]), "LAG": str(row["lag"])}
        if row["outside"]:
            shown["OUTSIDE"] = f"{abs(row['outside'])} {'after the end' if row['outside'] > 0 else 'before the start'}"
        if row["lagRecords"] not in (None, row["lag"]):
            shown["RECORDS"] = str(row["lagRecords"])  # the other offsets of the lag are those of markers, or gone
    if (age := row["ageMs"]) is not None:
        shown |= {"COMMITTED": shown_time(row["commitTimestamp"]), "AGE": show_span(age) if age >= 0 else "-"}
    if row["expireTimestamp"] is not None:
        shown["EXPIRES"] = shown_time(row["expireTimestamp"])
    if row["leaderEpoch"] is not None:
        shown["EPOCH"] = str(row["leaderEpoch"])
    return shown
