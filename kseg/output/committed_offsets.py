"""Prints the committed offsets of consumer groups: a table, or one JSON object per line.

All files are read before the first line is written, because a later record can replace, delete or complete an earlier
one.
"""

import os
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from kseg.decoders.committed_offsets import CommittedOffset, CommittedOffsets
from kseg.errors import KsegError
from kseg.formats.rows import Scratch
from kseg.logdir.coordinators import Partitions
from kseg.output.notices import on_one_line
from kseg.output.printer import Printer, Spans, Style
from kseg.output.sink import Sink
from kseg.output.terminal import Column, Columns, Paint, clipped, display_width
from kseg.quantities import plural, shown_time
from kseg.segment.batches import Batch
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

Key = tuple[str, str, int]


Row = dict[str, Any]


class CommittedOffsetsPrinter(Printer):
    """Reads __consumer_offsets and prints the committed offsets at the end; several partitions make one list.

    Lag is computed from the log ends in the log directories that contain the files, and in those of `add_directory`.
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
        self._newest = -1
        self._partitions = Partitions(scratch)
        self._directories: set[str] = set()
        self._replay = CommittedOffsets()
        self._place: str | None = None
        self._found: dict[Key, CommittedOffset] = {}
        self._pending = self._undecodable = self._wrong_batches = 0
        self._damaged_ranges = self._damaged_bytes = 0

    def add_directory(self, directory: str) -> None:
        """Adds a log directory whose partitions are used for log ends."""
        directory = os.path.abspath(directory)
        if directory in self._directories:
            return
        self._directories.add(directory)
        try:
            self._partitions.add(directory)
        except KsegError as error:
            self._warn(f"{error}; its log ends are not known")

    def begin(self, file: SegmentFile) -> None:
        self.files += 1
        place = os.path.dirname(os.path.abspath(file.path))
        if place != self._place:
            self._end_partition()
            self._place = place
        if file.topic is not None:
            self.add_directory(os.path.dirname(place))

    def batch(self, batch: Batch, spans: Spans | None = None) -> None:
        if not batch.is_valid:
            self._wrong_batches += 1  # its contents cannot be trusted
            self.errors += 1
            return
        self._newest = max(self._newest, batch.max_timestamp)
        undecodable = self._replay.undecodable
        self._replay.add(batch, spans)
        self.errors += self._replay.undecodable > undecodable

    def damage(self, damage: Damage) -> None:
        self.errors += 1
        self._damaged_ranges += 1
        self._damaged_bytes += damage.length

    def finish(self) -> None:
        """Does nothing: results are known only after the last file."""

    def close(self) -> None:
        """Writes the list."""
        self._end_partition()
        found = sorted(self._found.values(), key=attrgetter("group", "topic", "partition"))
        rows = [self._row(offset) for offset in found]
        if self._as_json:
            for row in rows:
                self.sink.put_row(row)
            for line in self._doubts():
                self._warn(line)
        else:
            for line in [*self._table(rows), *self._footer(rows)]:
                self.sink.put(line)
        self.sink.flush()

    def _end_partition(self) -> None:
        """Ends a partition. If two copies of a partition hold the same offset, the newest commit is used."""
        for offset in self._replay.found():
            key = offset.group, offset.topic, offset.partition
            other = self._found.get(key)
            if other is None or (other.commit_timestamp or -1) <= (offset.commit_timestamp or -1):
                self._found[key] = offset
            self._newest = max(self._newest, offset.commit_timestamp or -1)
            self.errors += offset.error is not None
        self._pending += self._replay.pending
        self._undecodable += self._replay.undecodable
        self._replay = CommittedOffsets()

    def _extent(self, found: CommittedOffset) -> tuple[int, int] | None:
        """Returns the log start and end of the partition. A topic recreated under the same name has another id and does
        not count.
        """
        here = self._partitions.topic_id(found.topic, found.partition) if found.topic_id is not None else None
        if here is not None and here != found.topic_id:
            return None
        try:
            return self._partitions.extent(found.topic, found.partition)
        except KsegError as error:
            self._warn(f"{error}; the log end is not known")
            return None

    def _age(self, found: CommittedOffset) -> int | None:
        now = self._newest if self._now is None else self._now
        return None if found.commit_timestamp is None or found.commit_timestamp < 0 else now - found.commit_timestamp

    def _row(self, found: CommittedOffset) -> Row:
        extent = self._extent(found)
        start, end = extent or (None, None)
        is_known = extent is not None and found.offset is not None
        row: Row = {
            "type": "committedOffset",
            "group": found.group,
            "topic": found.topic,
            "partition": found.partition,
            "offset": found.offset,
            "leaderEpoch": found.leader_epoch,
            "metadata": found.metadata,
            "commitTimestamp": found.commit_timestamp,
            "expireTimestamp": found.expire_timestamp,
            "topicId": found.topic_id,
            "recordOffset": found.record_offset,
            "logStartOffset": start,
            "logEndOffset": end,
            "lag": max(0, (end or 0) - max(found.offset or 0, start or 0)) if is_known else None,
            "ageMs": self._age(found),
        }
        return row if found.error is None else row | {"error": found.error}

    def _table(self, found: list[Row]) -> Iterator[str]:
        if not found:
            return
        widths = {column.title: len(column.title) for column in COLUMNS}
        used = set()
        for row in found:
            for title, text in _cells(row).items():
                widths[title] = max(widths[title], display_width(text))
                used |= {title} if text else set()
        used |= {"LAG"}
        metadata = widths["METADATA"]
        widths["METADATA"] = min(metadata, MIN_METADATA_WIDTH)
        columns = Columns([column for column in COLUMNS if column.title in used], widths, self._width)
        width = max(columns.width_of("METADATA", self._width), widths["METADATA"])
        yield columns.heading(self._paint)
        for row in found:
            shown = _cells(row)
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
        if self._pending:
            yield f"in open transactions, not counted: {self._pending:,}"
        for line in self._doubts():
            yield self._paint(line, "red")

    def _doubts(self) -> Iterator[str]:
        """Yields the reasons why an offset here may be outdated, or may have been deleted."""
        if self._damaged_ranges or self._wrong_batches:
            yield (
                f"damage: {self._damaged_ranges:,} ranges, {self._damaged_bytes:,} bytes; batches with problems: "
                f"{self._wrong_batches:,}; commits in them are not known"
            )
        if self._undecodable:
            yield f"commits that could not be decoded: {self._undecodable:,}"


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
