"""``kseg groups``: committed offsets with lags, share groups, or the size of each group's records.

The rows come from the records of __consumer_offsets and __share_group_state.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kseg.errors import KsegError, UnsupportedError
from kseg.formats.json_values import name_of, name_value
from kseg.formats.rows import Scratch, UndecodableError
from kseg.node.coordinators import CommitTable, CommittedOffset
from kseg.node.log_directory import intact_batches
from kseg.options import declaration
from kseg.options.declaration import CONTENTS, JSON, TABLE, TEXT, option
from kseg.output.notices import Notices, Paint, on_one_line
from kseg.output.printer import Printer, Style
from kseg.output.sink import Sink
from kseg.output.terminal import Columns, clipped, columns_of, line_width, table_lines
from kseg.quantities import plural, shell_line, show_span, shown_bytes, shown_time
from kseg.segment.files import OFFSETS_TOPIC, SegmentFile, list_segments, parse_partition_name
from kseg.segment.items import Batch, Damage, Spans, all_rows
from kseg.segment.paths import MAX_NAMES, live_parts, some
from kseg.stores.place import Place
from kseg.views.filters import Filters, Selection
from kseg.views.walk import SegmentWalk, WalkOptions

PIPED_WIDTH = 120
COMMIT_COLUMNS = columns_of(
    "GROUP TOPIC PARTITION# OFFSET# LOG_END#/4 LAG# OUTSIDE RECORDS# COMMITTED/3 AGE/1 EXPIRES/6 EPOCH#/5 METADATA/2",
    OFFSET="cyan",
)
MIN_METADATA_WIDTH = 12


@dataclass(frozen=True, slots=True)
class GroupsOptions(WalkOptions):
    """The options of `kseg groups`, one field each; ``now`` is in ms since the epoch."""

    by_size: bool = option(
        "--by-size", CONTENTS, "List the records and bytes of each group, the largest first, instead of offsets.", bool
    )
    offsets: tuple[int, int] | None = declaration.offsets(
        "By the records with offsets in A..B (inclusive), as ..1200 for what was committed then."
    )
    times: tuple[int, int] | None = declaration.times("By the records with timestamps in FROM..TO, as ..-2h.")
    now: int | None = declaration.now("Compute ages at TIME; default: the newest timestamp.")
    form: str = declaration.form(TEXT, TABLE, JSON, text="Form of the output; text is a table.")


class GroupsPrinter(Printer):
    """Base: prints a list at the end, as a table, or one JSON object per line."""

    def __init__(self, sink: Sink, scratch: Scratch, options: GroupsOptions) -> None:
        super().__init__(sink, Style(), scratch)
        self._as_json, self._paint = options.form == JSON, Paint(options.color, sink.is_terminal)
        self._width = max(line_width(sink, PIPED_WIDTH), 40)

    def damage(self, damage: Damage) -> None:
        self.errors += 1

    def add_directory(self, directory: str) -> None:
        """Called with each log directory; only committed offsets use it."""


class CommittedOffsetsPrinter(GroupsPrinter):
    """Reads __consumer_offsets and prints the committed offsets.

    Several partitions make one list. All files are read before the first line is written, because a later record can
    replace, delete or complete an earlier one.

    Without ``now``, ages are computed from the newest timestamp read.
    """

    def __init__(self, sink: Sink, scratch: Scratch, options: GroupsOptions, warn: Callable[[str], None]) -> None:
        super().__init__(sink, scratch, options)
        self._now, self._warn = options.now, warn
        self._selection = Selection(options.offsets, options.times)
        self._commits = CommitTable(scratch, warn)
        self._wrong_batches = self._damaged_ranges = self._damaged_bytes = 0

    def add_directory(self, directory: str) -> None:
        self._commits.add_directory(directory)

    def begin(self, file: SegmentFile) -> None:
        super().begin(file)
        self._commits.begin(file)

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
        if not batch.is_valid:
            self._wrong_batches += 1  # its contents cannot be trusted
            self.errors += 1
        elif not self._commits.add(batch, spans):
            self.errors += 1

    def damage(self, damage: Damage) -> None:
        super().damage(damage)
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

        if self._selection.offsets is not None:
            return  # they are those of __consumer_offsets
        places = self._commits.paths_of(SHARE_STATE_TOPIC)
        names = self._commits.topic_names() if places else {}
        for row in share_groups(entry for path in places for entry in self._share_records(path)):
            yield {"group": row.pop("group"), "topic": names.get(row["topicId"])} | row

    def _share_records(self, path: str) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        for batch in intact_batches(list_segments(path), self.scratch):
            with suppress(UndecodableError):
                for rows in batch.rows() if self._selection.may_hold(batch) and not batch.is_control else ():
                    for span in self._selection.spans(rows):
                        yield from rows.entries(*span)

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
        known = (row for row in found if None not in (row["coordinatorPartition"], row["offsetsPartition"]))
        if unread := [row for row in known if row["coordinatorPartition"] != row["offsetsPartition"]]:
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
                f"damage: {plural(self._damaged_ranges, 'range', 'ranges', ',')}, {self._damaged_bytes:,} bytes; "
                f"batches with problems: {self._wrong_batches:,}; commits in them are not known"
            )
        if self._commits.undecodable:
            yield f"commits that could not be decoded: {self._commits.undecodable:,}"


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


class GroupSizes:
    """The records in __consumer_offsets, and the bytes of their keys and values, by group."""

    def __init__(self) -> None:
        self._sizes: dict[bytes, list[int]] = {}

    def add(self, batch: Batch) -> None:
        """Adds a batch; what cannot be decoded is left out, as it is counted elsewhere."""
        if batch.is_control or not batch.is_valid:
            return
        with suppress(UndecodableError):
            for rows in batch.rows():
                for _, key, value in rows.entries():
                    # Each key begins with its version (i16), then the group (i16 length, bytes).
                    length = int.from_bytes(key[2:4], "big") if key is not None and len(key) >= 4 else 0
                    if key is not None and 0 < length <= len(key) - 4:
                        sizes = self._sizes.setdefault(bytes(key[4 : 4 + length]), [0, 0])
                        sizes[0] += 1
                        sizes[1] += len(key) + len(value or b"")

    def largest(self, most: int | None = None) -> list[dict[str, Any]]:
        """Returns the groups, or at most so many, those with most bytes first."""
        found = sorted(self._sizes.items(), key=lambda item: (-item[1][1], item[0]))[:most]
        return [
            {"group": name_value(os.fsdecode(name)), "records": records, "bytes": size}
            for name, (records, size) in found
        ]


SIZE_COLUMNS = columns_of("GROUP RECORDS# BYTES#", BYTES="cyan")


class GroupSizesPrinter(GroupsPrinter):
    """Reads __consumer_offsets and prints the records and bytes of each group, the largest first."""

    def __init__(self, sink: Sink, scratch: Scratch, options: GroupsOptions) -> None:
        super().__init__(sink, scratch, options)
        self._sizes = GroupSizes()

    def batch(self, batch: Batch, spans: Spans = all_rows) -> None:
        self.errors += bool(batch.problems)
        self._sizes.add(batch)

    def close(self) -> None:
        """Writes the list."""
        rows = self._sizes.largest()
        if self._as_json:
            for row in rows:
                self.sink.put_row({"type": "groupSize", **row})
        elif rows:
            cells = [(on_one_line(name_of(row["group"])), str(row["records"]), str(row["bytes"])) for row in rows]
            for line in table_lines(SIZE_COLUMNS, cells, self._width, self._paint):
                self.sink.put(line)
            records, size = (sum(row[name] for row in rows) for name in ("records", "bytes"))
            total = f"{plural(len(rows), 'group', 'groups', ',')}: {records:,} records, {shown_bytes(size)}"
            self.sink.put(self._paint(total, bold=True))
        self.sink.flush()


class Groups(SegmentWalk[GroupsOptions]):
    """One run over all paths: all partitions of __consumer_offsets make one list."""

    printer: GroupsPrinter

    def __init__(self, sink: Sink, options: GroupsOptions, notices: Notices | None = None) -> None:
        super().__init__(sink, options, notices)
        if options.by_size:
            self.printer = GroupSizesPrinter(sink, self.scratch, options)
        else:
            self.printer = CommittedOffsetsPrinter(sink, self.scratch, options, self.notices.warning)
        self.filters = Filters(Selection(options.offsets, options.times), self.scratch, self.notices)
        self._show_progress(options.quiet)

    @cached_property
    def _longest(self) -> list[str]:
        parts = list[str]()
        for path in self._paths:
            with suppress(KsegError):  # reported when it is read
                parts += filter(lambda each: Place(each).is_dir(), self.parts_of(path))
        return self.nodes.longest_copies(parts, self.scratch)

    def _part(self, path: str) -> None:
        if path in self._longest or not Place(path).is_dir():
            super()._part(path)

    def split_parts(self, path: str) -> tuple[list[str], list[str]]:
        parts, moved = live_parts(path)
        if parts == [path]:
            return parts, moved
        places = ((part, parse_partition_name(Place(part).name)) for part in parts)
        return [part for part, place in places if place is not None and place[0] == OFFSETS_TOPIC], []

    def _log_directory(self, path: str) -> None:
        for directory in self.nodes.at(path).directories:
            self.printer.add_directory(directory.path)

    def _file(self, file: SegmentFile, live: bool) -> None:
        if self.options.by_size and file.topic not in (OFFSETS_TOPIC, None):
            raise UnsupportedError(f"{file.path}: is not of {OFFSETS_TOPIC}")
        super()._file(file, live)

    def _end(self) -> None:
        if not self.printer.files and not self.status:
            self._failed(f"no PATH holds a partition of {OFFSETS_TOPIC}", 3)
        super()._end()
