"""Prints a rebuild from remote storage: a line or an object for each partition, and the remaining steps."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kseg.formats.json_values import name_value
from kseg.output.notices import Notices, on_one_line, put_line
from kseg.output.sink import Sink
from kseg.quantities import plural

_MAX_LEFT_OUT = 5


class LeftOutRow(NamedTuple):
    """Offsets of a remote segment that are not used."""

    path: str
    first_offset: int
    last_offset: int
    reason: str


@dataclass(slots=True)
class RebuiltRow:
    """A partition. ``start`` and ``end`` are the offsets of the log. ``is_made`` is false if nothing was live;
    ``is_deleted`` is true if the reason is an unfinished deletion."""

    directory: str
    topic_id: str = ""
    is_made: bool = True
    is_deleted: bool = False
    was_done: bool = False
    start: int = 0
    end: int = 0
    segments: int = 0
    size: int = 0
    last_epoch: int = 0
    holes: list[tuple[int, int]] = field(default_factory=list)
    left_out: list[LeftOutRow] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)


class RebuildFacts(NamedTuple):
    """The facts for the text about the remaining steps, `next_steps`."""

    output: str
    new_cluster: str
    has_topic_id: bool
    resets_epochs: bool


class RebuildPrinter:
    """Base class. ``count``: partitions made; ``has_damage``: whether offsets or records are missing in one."""

    def __init__(self, sink: Sink, notices: Notices, facts: RebuildFacts, is_dry: bool) -> None:
        self.sink, self.notices = sink, notices
        self._facts, self._is_dry = facts, is_dry
        self.count = 0
        self.has_damage = False
        self.rows: list[RebuiltRow] = []

    def show(self, row: RebuiltRow) -> None:
        """Prints a partition, and its problems on standard error."""
        self.count += row.is_made
        self.rows.append(row)
        self.has_damage |= bool(row.holes or row.damage) or not (row.is_made or row.is_deleted)
        self._put(row)
        for text in row.remarks:
            self.notices.warning(f"{row.directory}: {text}")
        for first, last in row.holes:
            self.notices.warning(f"{row.directory}: offsets {first} to {last} are missing: no segment holds them")
        for text in row.damage:
            self.notices.warning(f"{row.directory}: {text}")

    def left_out(self, rows: Iterable[LeftOutRow], directory: str) -> None:
        raise NotImplementedError

    def finish(self, failed: list[str]) -> None:
        raise NotImplementedError

    def _put(self, row: RebuiltRow) -> None:
        raise NotImplementedError


class TextRebuilds(RebuildPrinter):
    """Prints for people."""

    def _put(self, row: RebuiltRow) -> None:
        if not row.is_made:
            self.notices.warning(f"{row.directory}: not created: remote storage has no live segment of it")
        else:
            made = "would be created" if self._is_dry else "exists already" if row.was_done else "created"
            text = f"{row.directory}: {made}: offsets {row.start} to {row.end - 1}"
            if not self._is_dry:
                text += f", {plural(row.segments, 'segment', 'segments')}, {row.size} bytes"
            self.sink.put(on_one_line(text))
        self.left_out(row.left_out, row.directory)

    def left_out(self, rows: Iterable[LeftOutRow], directory: str) -> None:
        rows = list(rows)
        for left in rows[:_MAX_LEFT_OUT]:
            self.notices.warning(
                f"left out: offsets {left.first_offset} to {left.last_offset} of {left.path}: {left.reason}"
            )
        if len(rows) > _MAX_LEFT_OUT:
            self.notices.warning(f"left out: {len(rows) - _MAX_LEFT_OUT} more segments; --format json lists all")

    def finish(self, failed: list[str]) -> None:
        self.sink.flush()
        if not self._is_dry and self.count and not self.notices.is_quiet:
            for line in next_steps(self._facts, max(row.last_epoch for row in self.rows)):
                put_line(line)


class JsonRebuilds(RebuildPrinter):
    """Prints one object per line; the last one is the summary."""

    def _put(self, row: RebuiltRow) -> None:
        if row.is_made:
            self.sink.put_row(
                {
                    "type": "rebuilt",
                    "directory": name_value(row.directory),
                    "topicId": row.topic_id,
                    "logStartOffset": row.start,
                    "logEndOffset": row.end,
                    "lastLeaderEpoch": row.last_epoch,
                    "segments": row.segments,
                    "newBytes": row.size,
                    "wasThere": row.was_done,
                }
            )
        self.left_out(row.left_out, row.directory)

    def left_out(self, rows: Iterable[LeftOutRow], directory: str) -> None:
        for left in rows:
            self.sink.put_row(
                {
                    "type": "left",
                    "directory": name_value(directory),
                    "firstOffset": left.first_offset,
                    "lastOffset": left.last_offset,
                    "from": name_value(left.path),
                    "reason": left.reason,
                }
            )

    def finish(self, failed: list[str]) -> None:
        gaps = [
            {"directory": name_value(row.directory), "firstOffset": first, "lastOffset": last}
            for row in self.rows
            for first, last in row.holes
        ]
        size = sum(row.size for row in self.rows if not row.was_done)
        self.sink.put_row(
            {
                "type": "summary",
                "changed": not self._is_dry and any(row.is_made and not row.was_done for row in self.rows),
                "dryRun": self._is_dry,
                "damageRemains": self.has_damage,
                "directories": self.count,
                "actions": {"create": self.count},
                "removedBytes": 0,
                "removedRecords": 0,
                "missingOffsets": sum(last - first + 1 for row in self.rows for first, last in row.holes),
                "gaps": gaps,
                "newBytes": size,
                "peakBytes": size,
                "kept": [],
                "failed": [name_value(name) for name in failed],
            }
        )
        self.sink.flush()


def rebuild_printer(form: str, sink: Sink, notices: Notices, facts: RebuildFacts, is_dry: bool) -> RebuildPrinter:
    """Returns the printer for a --format."""
    return (JsonRebuilds if form == "json" else TextRebuilds)(sink, notices, facts, is_dry)


def _log_start_step(facts: RebuildFacts) -> list[str]:
    file = f"{facts.output}/log-start-offset-checkpoint"
    if facts.new_cluster:
        return [f"  4. Replace the broker's log-start-offset-checkpoint by {file}: it has the entries of both."]
    return [
        f"  4. Add the entries of {file}, if there are any after its second line, to the",
        "     broker's file of that name, and their number to its second line. Leave its other files as they are.",
    ]


def next_steps(facts: RebuildFacts, last_epoch: int) -> list[str]:
    """Returns the text about the remaining steps."""
    has_ids = bool(facts.new_cluster) or facts.has_topic_id
    lines = ["Remaining steps, for each topic:"]
    if not has_ids:
        lines += [
            "  1. Create the topic in the new cluster, with the same number of partitions.",
            "     It has a new id: repeat this command with --for-cluster LOGDIR, a log directory of a new broker, and",
            "     another --output. Brokers rename directories with the old id to -stray.",
        ]
    else:
        lines.append("  1. Check that the topics in the new cluster have the topic ids in partition.metadata.")
    place = facts.new_cluster or "the log directory"
    lines += [
        "  2. Stop the broker cleanly.",
        f"  3. Replace the empty partition directories in {place} by those in {facts.output}.",
        *_log_start_step(facts),
        "  5. Give all files to the broker's user, and start the broker.",
    ]
    if last_epoch and not facts.resets_epochs:
        lines += [
            f"The batches have leader epochs up to {last_epoch}. While the new leader's epoch is lower, a consumer",
            "with a committed offset waits for ever after its start. Repeat this command with --reset-epochs, or",
            "restart the broker until its leader epoch is higher.",
        ]
    return [on_one_line(line) for line in lines]
