"""``kseg groups``: committed offsets with lags, share groups, or the size of each group's records."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from kseg.formats.rows import Scratch
from kseg.node.coordinators import CommitTable, CommittedOffset
from kseg.output.notices import on_one_line
from kseg.output.printer import Printer, Style
from kseg.output.sink import Sink
from kseg.output.summary import GroupSizes
from kseg.output.terminal import Column, Columns, Paint, clipped
from kseg.quantities import plural, shell_line, show_span, shown_bytes, shown_time
from kseg.segment.files import SegmentFile
from kseg.segment.items import Batch, Damage, Spans, all_rows
from kseg.segment.paths import MAX_NAMES, some

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
        scratch: Scratch,
        *,
        as_json: bool,
        warn: Callable[[str], None],
        paint: Paint | None = None,
        width: int = 80,
        now: int | None = None,
    ) -> None:
        super().__init__(sink, Style(), scratch)
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
            self.sink.put_row({"type": "totals", **_counts(rows), "pending": self._commits.pending})
            for line in [*self._deleted(), *self._doubts()]:
                self._warn(line)
        else:
            for line in [*self._table(rows), *self._footer(rows)]:
                self.sink.put(line)
        self.sink.flush()

    def _share_groups(self) -> Iterator[dict[str, Any]]:
        """Yields where the share groups stand whose state lies in the log directories."""
        from kseg.node.group_lags import SHARE_STATE_TOPIC, share_groups

        places = [path for (topic, _), path in sorted(self._commits.paths.items()) if topic == SHARE_STATE_TOPIC]
        names = self._commits.topic_names() if places else {}
        for row in share_groups(places, self.scratch):
            yield {"group": row.pop("group"), "topic": names.get(row["topicId"])} | row

    def _table(self, found: list[CommittedOffset]) -> Iterator[str]:
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

    def _footer(self, found: list[CommittedOffset]) -> Iterator[str]:
        committed, groups, partitions, outside = _counts(found).values()
        offsets = plural(committed, "committed offset", "committed offsets", ",")
        places = f"{plural(groups, 'group', 'groups', ',')}, {plural(partitions, 'partition', 'partitions', ',')}"
        yield self._paint(f"{offsets}: {places}", bold=True)
        if outside:
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


def _is_unread(row: CommittedOffset) -> bool:
    """Whether a commit lies in a partition that the group's coordinator does not read."""
    return None not in (row["coordinatorPartition"], row["offsetsPartition"]) and (
        row["coordinatorPartition"] != row["offsetsPartition"]
    )


def _counts(found: list[CommittedOffset]) -> dict[str, int]:
    return {
        "committedOffsets": len(found),
        "groups": len({row["group"] for row in found}),
        "partitions": len({(row["topic"], row["partition"]) for row in found}),
        "outside": sum(bool(row["outside"]) for row in found),
    }


def _commit_cells(row: CommittedOffset) -> dict[str, str]:
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


SIZE_COLUMNS = (Column("GROUP", is_number=False), Column("RECORDS"), Column("BYTES", color="cyan"))


class GroupSizesPrinter(Printer):
    """Reads __consumer_offsets and prints the records and bytes of each group at the end, the largest first."""

    def __init__(self, sink: Sink, scratch: Scratch, *, as_json: bool, paint: Paint, width: int) -> None:
        super().__init__(sink, Style(), scratch)
        self._as_json, self._paint, self._width = as_json, paint, width
        self._sizes = GroupSizes()

    def add_directory(self, directory: str) -> None:
        """Does nothing: sizes need no log ends."""

    def begin(self, file: SegmentFile) -> None:
        self.files += 1

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
        self.errors += bool(batch.problems)
        self._sizes.add(batch)

    def damage(self, damage: Damage) -> None:
        self.errors += 1

    def close(self) -> None:
        """Writes the list."""
        rows = self._sizes.largest()
        if self._as_json:
            for row in rows:
                self.sink.put_row({"type": "groupSize", **row})
        elif rows:
            cells = [
                {"GROUP": on_one_line(str(row["group"])), "RECORDS": str(row["records"]), "BYTES": str(row["bytes"])}
                for row in rows
            ]
            columns = Columns(SIZE_COLUMNS, cells, self._width)
            self.sink.put(columns.heading(self._paint))
            for cell in cells:
                self.sink.put(columns.line(cell, self._paint))
            records, size = (sum(row[name] for row in rows) for name in ("records", "bytes"))
            total = f"{plural(len(rows), 'group', 'groups', ',')}: {records:,} records, {shown_bytes(size)}"
            self.sink.put(self._paint(total, bold=True))
        self.sink.flush()
