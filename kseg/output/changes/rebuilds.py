"""Prints a rebuild from remote storage: a line or an object for each partition, and the remaining steps."""

from collections.abc import Sequence
from typing import Any

from kseg.formats.json_values import name_value
from kseg.output.notices import Notices, on_one_line, put_line
from kseg.output.sink import Sink
from kseg.quantities import plural
from kseg.recovery.remote import Rebuilt, RebuiltPartition, RemoteRequest, RestoredSegments, UnusedSegment
from kseg.stores.stored_object import shown

_MAX_LEFT_OUT = 5


class RebuildPrinter:
    """Prints text, or one object per line, of which the last is the summary.

    ``count``: partitions made; ``has_damage``: whether offsets or records are missing in one.
    """

    def __init__(self, sink: Sink, notices: Notices, request: RemoteRequest, is_dry: bool, is_json: bool) -> None:
        self._sink, self._notices, self._request = sink, notices, request
        self._is_dry, self._is_json = is_dry, is_json
        self.count = self._new_bytes = self._last_epoch = 0
        self.has_damage = self._has_changed = False
        self._gaps: list[dict[str, Any]] = []

    def show(self, outcome: RebuiltPartition, directory: str) -> None:
        """Prints a partition, and its problems on standard error."""
        selection, rebuilt = outcome.selection, outcome.rebuilt
        holes = [] if selection is None else [(hole.first, hole.last) for hole in selection.holes]
        damage = [] if rebuilt is None else rebuilt.damage
        is_made = selection is None or bool(selection.pieces or selection.local)
        self.has_damage |= bool(holes or damage) or not (is_made or selection is None or selection.is_deleted)
        planned = rebuilt or _planned(selection)
        self._last_epoch = max(self._last_epoch, planned.last_epoch)
        self._new_bytes += 0 if outcome.was_done else planned.size
        if is_made:
            self.count += 1
            self._has_changed |= not outcome.was_done and not self._is_dry
        if is_made or not self._is_json:
            row = {
                "type": "rebuilt", "directory": name_value(directory), "topicId": outcome.topic_id,
                "logStartOffset": outcome.log_start, "logEndOffset": planned.end,
                "lastLeaderEpoch": planned.last_epoch, "segments": planned.segments, "newBytes": planned.size,
                "wasThere": outcome.was_done,
            }  # fmt: skip
            self._put(row, directory, is_made)
        self.left_out([] if selection is None else selection.left_out, directory)
        for text in [] if selection is None else selection.remarks:
            self._notices.warning(f"{directory}: {text}")
        for first, last in holes:
            self._gaps.append({"directory": name_value(directory), "firstOffset": first, "lastOffset": last})
            self._notices.warning(f"{directory}: offsets {first} to {last} are missing: no segment holds them")
        for text in damage:
            self._notices.warning(f"{directory}: {text}")

    def _put(self, row: dict[str, Any], directory: str, is_made: bool) -> None:
        if self._is_json:
            self._sink.put_row(row)
        elif not is_made:
            self._notices.warning(f"{directory}: not created: remote storage has no live segment of it")
        else:
            made = "would be created" if self._is_dry else "exists already" if row["wasThere"] else "created"
            text = f"{directory}: {made}: offsets {row['logStartOffset']} to {row['logEndOffset'] - 1}"
            if not self._is_dry:
                text += f", {plural(row['segments'], 'segment', 'segments')}, {row['newBytes']} bytes"
            self._sink.put(on_one_line(text))

    def left_out(self, found: Sequence[UnusedSegment], directory: str) -> None:
        """Prints segments that are not used."""
        for left in found if self._is_json else found[:_MAX_LEFT_OUT]:
            if self._is_json:
                self._sink.put_row({
                    "type": "left", "directory": name_value(directory), "firstOffset": left.first_offset,
                    "lastOffset": left.last_offset, "from": name_value(left.path), "reason": left.reason,
                })  # fmt: skip
            else:
                offsets = f"offsets {left.first_offset} to {left.last_offset}"
                self._notices.warning(f"left out: {offsets} of {left.path}: {left.reason}")
        if not self._is_json and len(found) > _MAX_LEFT_OUT:
            self._notices.warning(f"left out: {len(found) - _MAX_LEFT_OUT} more segments; --format json lists all")

    def finish(self, failed: list[str]) -> None:
        """Prints the summary, or the remaining steps."""
        if self._is_json:
            self._sink.put_row({
                "type": "summary", "changed": self._has_changed, "dryRun": self._is_dry,
                "damageRemains": self.has_damage, "directories": self.count, "actions": {"create": self.count},
                "removedBytes": 0, "removedRecords": 0,
                "missingOffsets": sum(gap["lastOffset"] - gap["firstOffset"] + 1 for gap in self._gaps),
                "gaps": self._gaps, "newBytes": self._new_bytes, "peakBytes": self._new_bytes, "kept": [],
                "failed": [name_value(name) for name in failed],
            })  # fmt: skip
        self._sink.flush()
        if not self._is_json and not self._is_dry and self.count and not self._notices.is_quiet:
            for line in next_steps(self._request, self._last_epoch):
                put_line(line)


def _planned(selection: RestoredSegments | None) -> Rebuilt:
    """Returns what is known of a partition before it is built."""
    if selection is None:
        return Rebuilt()
    end = selection.pieces[-1].last + 1 if selection.pieces else selection.log_start
    return Rebuilt(end=end, last_epoch=selection.lineage[-1].epoch if selection.lineage else 0)


def _log_start_step(request: RemoteRequest) -> list[str]:
    file = f"{shown(request.output)}/log-start-offset-checkpoint"
    if request.new_cluster:
        return [f"  4. Replace the broker's log-start-offset-checkpoint by {file}: it has the entries of both."]
    return [
        f"  4. Add the entries of {file}, if there are any after its second line, to the",
        "     broker's file of that name, and their number to its second line. Leave its other files as they are.",
    ]


def next_steps(request: RemoteRequest, last_epoch: int) -> list[str]:
    """Returns the text about the remaining steps."""
    has_ids = bool(request.new_cluster) or request.topic_id is not None
    lines = ["Remaining steps, for each topic:"]
    if not has_ids:
        lines += [
            "  1. Create the topic in the new cluster, with the same number of partitions.",
            "     It has a new id: repeat this command with --for-cluster LOGDIR, a log directory of a new broker, and",
            "     another --output. Brokers rename directories with the old id to -stray.",
        ]
    else:
        lines.append("  1. Check that the topics in the new cluster have the topic ids in partition.metadata.")
    place = request.new_cluster or "the log directory"
    lines += [
        "  2. Stop the broker cleanly.",
        f"  3. Replace the empty partition directories in {place} by those in {shown(request.output)}.",
        *_log_start_step(request),
        "  5. Give all files to the broker's user, and start the broker.",
    ]
    if last_epoch and not request.resets_epochs:
        lines += [
            f"The batches have leader epochs up to {last_epoch}. While the new leader's epoch is lower, a consumer",
            "with a committed offset waits for ever after its start. Repeat this command with --reset-epochs, or",
            "restart the broker until its leader epoch is higher.",
        ]
    return [on_one_line(line) for line in lines]
