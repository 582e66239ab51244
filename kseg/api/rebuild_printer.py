"""Prints partitions that are rebuilt from remote storage, and the remaining steps until a broker serves them."""

from collections import Counter
from collections.abc import Sequence

from kseg.changes.disk_space import PlanTotals
from kseg.changes.driver.command import Failures, Messages, Outcome
from kseg.changes.plan import CREATE
from kseg.formats.json_values import fields_of, name_value
from kseg.output.changes import summary_row
from kseg.output.notices import on_one_line
from kseg.output.sink import Sink
from kseg.quantities import named_path, plural, shell_line
from kseg.recovery.remote import Rebuild, RebuiltPartition, UnusedSegment
from kseg.stores.place import Place
from kseg.stores.stored_object import shown

_MAX_LEFT_OUT = 5


class RebuildPrinter:
    """Prints text, or one object per line, of which the last is the summary.

    ``totals``: of the partitions made. ``damage_remains``: offsets or partitions are missing. ``failures``: the errors
    of the others.
    """

    def __init__(self, sink: Sink, notices: Messages, rebuild: Rebuild, is_json: bool) -> None:
        self._sink, self._notices, self._rebuild = sink, notices, rebuild
        self._is_dry, self._is_json = rebuild.change.is_dry, is_json
        self._last_epoch = 0
        self.totals, self.failures = PlanTotals(actions=Counter(create=0)), Failures(notices)
        self.damage_remains = self._has_changed = False
        self._left_out(rebuild.left_out)

    def show(self, outcome: RebuiltPartition, output: str) -> None:
        """Prints a partition in the directory ``output``, and its problems on standard error."""
        directory, totals = Place(output) / outcome.name, self.totals
        if outcome.error is not None:
            self.failures.add(outcome.error, directory)
            return
        found, built = outcome.selection, outcome.rebuilt
        is_made = bool(outcome.was_done or found.pieces or found.local)
        self.damage_remains |= bool(found.holes or built.damage) or not (is_made or found.is_deleted)
        self._last_epoch = max(self._last_epoch, built.last_epoch)
        if not outcome.was_done:
            totals.new_bytes += built.size
        if is_made:
            totals.names.add(directory)
            totals.actions[CREATE] += 1
            self._has_changed |= not outcome.was_done and not self._is_dry
            made = "would be created" if self._is_dry else "exists already" if outcome.was_done else "created"
            text = f"{directory}: {made}: offsets {outcome.log_start} to {built.end - 1}"
            if not self._is_dry:
                text += f", {plural(built.segments, 'segment', 'segments')}, {built.size} bytes"
            row = {
                "type": "rebuilt", "directory": name_value(directory), "topicId": outcome.topic_id,
                "logStartOffset": outcome.log_start, "logEndOffset": built.end, "lastLeaderEpoch": built.last_epoch,
                "segments": built.segments, "newBytes": built.size, "wasThere": outcome.was_done,
            }  # fmt: skip
            if self._is_json:
                self._sink.put_row(row)
            else:
                self._sink.put(on_one_line(text))
        elif not self._is_json:
            self._notices.warning(f"{directory}: not created: remote storage has no live segment of it")
        self._left_out(found.left_out, directory)
        for text in found.remarks:
            self._notices.warning(f"{directory}: {text}")
        for hole in found.holes:
            totals.gaps.append((directory, hole.first, hole.last))
            totals.missing_offsets += hole.last - hole.first + 1
            offsets = f"offsets {hole.first} to {hole.last}"
            self._notices.warning(f"{directory}: {offsets} are missing: no segment holds them")
        for text in built.damage:
            self._notices.warning(f"{directory}: {text}")

    def _left_out(self, found: Sequence[UnusedSegment], directory: str = "") -> None:
        """Prints segments that are not used. ``directory``: of the rebuilt partition, "" for none."""
        for left in found if self._is_json else found[:_MAX_LEFT_OUT]:
            if self._is_json:
                row = {"type": "left", "directory": name_value(directory)}
                row |= fields_of(left, "first_offset", "last_offset")
                self._sink.put_row(row | {"from": name_value(left.path), "reason": left.reason})
            else:
                offsets = f"offsets {left.first_offset} to {left.last_offset}"
                self._notices.warning(f"left out: {offsets} of {left.path}: {left.reason}")
        if not self._is_json and len(found) > _MAX_LEFT_OUT:
            self._notices.warning(f"left out: {len(found) - _MAX_LEFT_OUT} more segments; --format json lists all")

    def finish(self) -> Outcome:
        """Prints the summary of JSON. Returns the end of the run."""
        self.totals.peak_bytes = self.totals.new_bytes
        would_change = self._is_dry and bool(self.totals.names)
        outcome = Outcome(
            max(self.failures.status, int(self.damage_remains or would_change)), self._is_dry, self._has_changed,
            self.damage_remains, self.failures.errors,
        )  # fmt: skip
        if self._is_json:
            self._sink.put_row(summary_row(self.totals, outcome, self._is_dry))
        self._sink.flush()
        return outcome

    def next_steps(self) -> list[str]:
        """Returns the text about the remaining steps, nothing if no partition was made."""
        if self._is_dry or not self.totals.names:
            return []
        options, output = self._rebuild.options, shown(self._rebuild.change.output or "")
        if beside := self._rebuild.beside:
            return ["A node does not start with a partition on two of its disks:", shell_line(
                ["kseg", "verify", *map(named_path, dict.fromkeys([*beside, output]))]
            )]  # fmt: skip
        has_ids = bool(options.new_cluster) or options.topic_id is not None
        lines = ["Remaining steps, for each topic:"]
        if not has_ids:
            lines += [
                "  1. Create the topic in the new cluster, with the same number of partitions.",
                "     It has a new id: repeat this command with --for-cluster LOGDIR, a log directory of a new broker,",
                "     and another --output. Brokers rename directories with the old id to -stray.",
            ]
        else:
            lines.append("  1. Check that the topics in the new cluster have the topic ids in partition.metadata.")
        place, file = options.new_cluster or "the log directory", f"{output}/log-start-offset-checkpoint"
        step = [
            f"  4. Add the entries of {file}, if there are any after its second line, to the",
            "     broker's file of that name, and their number to its second line. Leave its other files as they are.",
        ]
        if options.new_cluster:
            step = [f"  4. Replace the broker's log-start-offset-checkpoint by {file}: it has the entries of both."]
        lines += [
            "  2. Stop the broker cleanly.",
            f"  3. Replace the empty partition directories in {place} by those in {output}.",
            *step,
            "  5. Give all files to the broker's user, and start the broker.",
        ]
        if (last := self._last_epoch) and not options.resets_epochs:
            lines += [
                f"The batches have leader epochs up to {last}. While the new leader's epoch is lower, a consumer",
                "with a committed offset waits for ever after its start. Repeat this command with --reset-epochs, or",
                "restart the broker until its leader epoch is higher.",
            ]
        return [on_one_line(line) for line in lines]
