"""Prints the committed offsets of consumer groups: a table, or one JSON object per line.

All files are read before the first line is written, because a later record can replace, delete or complete an earlier
one.
"""

from collections.abc import Callable, Iterator
from typing import Any

from kseg.formats.rows import Scratch
from kseg.logdir.coordinators import Commit, CommitTable
from kseg.output.notices import on_one_line
from kseg.output.printer import Printer, Style
from kseg.output.sink import Sink
from kseg.output.terminal import Column, Columns, Paint, clipped, widths_of
from kseg.quantities import plural, shown_time
from kseg.segment.batches import Batch, Spans, all_rows
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.times import show_span

COLUMNS = (
    Column("GROUP", is_number=False),
    Column("TOPIC", is_number=False),
    Column("PARTITION"),
    Column("OFFSET", color="cyan"),
    Column("LOG END", 4),
    Column("LAG"),
    Column("COMMITTED", 3, is_number=False),
    Column("AGE", 1, is_number=False),
    Column("EXPIRES", 6, is_number=False),
    Column("EPOCH", 5),
    Column("METADATA", 2, is_number=False),
)
MIN_METADATA_WIDTH = 12

Row = dict[str, Any]


class CommittedOffsetsPrinter(Printer):
    """Reads __consumer_offsets and prints the committed offsets at the end; several partitions make one list.

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

    def finish(self) -> None:
        """Does nothing: results are known only after the last file."""

    def close(self) -> None:
        """Writes the list."""
        found = self._commits.take()
        self.errors += self._commits.errors
        rows = [self._row(commit) for commit in found]
        if self._as_json:
            for row in rows:
                self.sink.put_row(row)
            for line in self._doubts():
                self._warn(line)
        else:
            for line in [*self._table(rows), *self._footer(rows)]:
                self.sink.put(line)
        self.sink.flush()

    def _row(self, commit: Commit) -> Row:
        now = self._commits.newest if self._now is None else self._now
        time = commit["commitTimestamp"]
        age = None if time is None or time < 0 else now - time
        error = commit.pop("error")
        row = {"type": "committedOffset"} | commit | {"ageMs": age}
        return row if error is None else row | {"error": error}

    def _table(self, found: list[Row]) -> Iterator[str]:
        if not found:
            return
        rows = list(map(_cells, found))
        used = {"LAG", *(title for cells in rows for title, text in cells.items() if text)}
        widths = widths_of(COLUMNS, rows)
        widths["METADATA"] = min(widths["METADATA"], MIN_METADATA_WIDTH)
        columns = Columns([column for column in COLUMNS if column.title in used], widths, self._width)
        width = max(columns.width_of("METADATA", self._width), widths["METADATA"])
        yield columns.heading(self._paint)
        for row, shown in zip(found, rows, strict=True):
            shown["METADATA"] = clipped(shown["METADATA"], width)
            is_odd = row["offset"] is None or _is_outside(row)
            yield columns.line(shown, self._paint, "red" if is_odd else None)

    def _footer(self, found: list[Row]) -> Iterator[str]:
        groups = len({row["group"] for row in found})
        partitions = len({(row["topic"], row["partition"]) for row in found})
        offsets = plural(len(found), "committed offset", "committed offsets", ",")
        of_groups, of_partitions = (
            plural(groups, "group", "groups", ","), plural(partitions, "partition", "partitions", ",")
        )  # fmt: skip
        yield self._paint(f"{offsets}: {of_groups}, {of_partitions}", bold=True)
        if outside := sum(map(_is_outside, found)):
            yield self._paint(f"outside of the log: {outside:,}", "red")
        if self._commits.pending:
            yield f"in open transactions, not counted: {self._commits.pending:,}"
        for line in self._doubts():
            yield self._paint(line, "red")

    def _doubts(self) -> Iterator[str]:
        """Yields the reasons why an offset here may be outdated, or may have been deleted."""
        if self._damaged_ranges or self._wrong_batches:
            yield (
                f"damage: {self._damaged_ranges:,} ranges, {self._damaged_bytes:,} bytes; batches with problems: "
                f"{self._wrong_batches:,}; commits in them are not known"
            )
        if self._commits.undecodable:
            yield f"commits that could not be decoded: {self._commits.undecodable:,}"


def _is_outside(row: Row) -> bool:
    return row["lag"] is not None and not row["logStartOffset"] <= row["offset"] <= row["logEndOffset"]


def _cells(row: Row) -> dict[str, str]:
    """Returns the texts of a row by column."""
    shown = {
        "GROUP": on_one_line(row["group"]), "TOPIC": on_one_line(row["topic"]), "PARTITION": str(row["partition"]),
    }  # fmt: skip
    if row["offset"] is None:
        return shown | {"OFFSET": "?", "METADATA": on_one_line(row.get("error") or "")}
    shown |= {"OFFSET": str(row["offset"]), "METADATA": on_one_line(row["metadata"] or "")}
    if row["lag"] is not None:
        shown |= {"LOG END": str(row["logEndOffset"]), "LAG": str(row["lag"])}
    if (age := row["ageMs"]) is not None:
        shown |= {"COMMITTED": shown_time(row["commitTimestamp"]), "AGE": show_span(age) if age >= 0 else "-"}
    if row["expireTimestamp"] is not None:
        shown["EXPIRES"] = shown_time(row["expireTimestamp"])
    if row["leaderEpoch"] is not None:
        shown["EPOCH"] = str(row["leaderEpoch"])
    return shown
