"""Prints a rebuild from remote storage: a line or an object for each partition, and the remaining steps."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kseg.changes.disk_space import PlanTotals
from kseg.changes.plan import CREATE
from kseg.formats.json_values import name_value
from kseg.output.changes.plans import summary_row
from kseg.output.notices import Notices, on_one_line, put_line
from kseg.output.sink import Sink
from kseg.quantities import plural

Row = dict[str, Any]

_MAX_LEFT_OUT = 5


class RebuildPrinter:
    """Prints text, or one object per line, of which the last is the summary.

    ``facts``: the request's, and its ``output``. ``totals``: of the partitions made.
    """

    def __init__(self, sink: Sink, notices: Notices, facts: Row, is_dry: bool, is_json: bool) -> None:
        self._sink, self._notices, self._facts = sink, notices, facts
        self._is_dry, self._is_json = is_dry, is_json
        self._last_epoch = 0
        self.totals = PlanTotals(actions=Counter(create=0))

    def show(
        self, row: Row, is_made: bool, is_deleted: bool, left_out: Sequence[Row], remarks: Sequence[str],
        holes: Sequence[tuple[int, int]], damage: Sequence[str],
    ) -> None:  # fmt: skip
        """Prints a partition, and its problems on standard error.

        ``is_made`` is false if nothing was live; ``is_deleted``: because of an unfinished deletion. ``holes``: missing
        offsets; ``remarks`` and ``damage``: sentences.
        """
        directory, totals = row["directory"], self.totals
        totals.damage_remains |= bool(holes or damage) or not (is_made or is_deleted)
        self._last_epoch = max(self._last_epoch, row["lastLeaderEpoch"])
        totals.new_bytes += 0 if row["wasThere"] else row["newBytes"]
        if is_made:
            totals.names.add(directory)
            totals.actions[CREATE] += 1
            totals.has_changed |= not row["wasThere"] and not self._is_dry
        if is_made or not self._is_json:
            self._put(row, is_made)
        self.left_out(left_out)
        for text in remarks:
            self._notices.warning(f"{directory}: {text}")
        for first, last in holes:
            totals.gaps.append((directory, first, last))
            totals.missing_offsets += last - first + 1
            self._notices.warning(f"{directory}: offsets {first} to {last} are missing: no segment holds them")
        for text in damage:
            self._notices.warning(f"{directory}: {text}")

    def _put(self, row: Row, is_made: bool) -> None:
        directory = row["directory"]
        if self._is_json:
            self._sink.put_row({"type": "rebuilt", **row, "directory": name_value(directory)})
        elif not is_made:
            self._notices.warning(f"{directory}: not created: remote storage has no live segment of it")
        else:
            made = "would be created" if self._is_dry else "exists already" if row["wasThere"] else "created"
            text = f"{directory}: {made}: offsets {row['logStartOffset']} to {row['logEndOffset'] - 1}"
            if not self._is_dry:
                text += f", {plural(row['segments'], 'segment', 'segments')}, {row['newBytes']} bytes"
            self._sink.put(on_one_line(text))

    def left_out(self, found: Sequence[Row]) -> None:
        """Prints segments that are not used."""
        for left in found if self._is_json else found[:_MAX_LEFT_OUT]:
            if self._is_json:
                names = {name: name_value(left[name]) for name in ("directory", "from")}
                self._sink.put_row({"type": "left", **left, **names})
            else:
                offsets = f"offsets {left['firstOffset']} to {left['lastOffset']}"
                self._notices.warning(f"left out: {offsets} of {left['from']}: {left['reason']}")
        if not self._is_json and len(found) > _MAX_LEFT_OUT:
            self._notices.warning(f"left out: {len(found) - _MAX_LEFT_OUT} more segments; --format json lists all")

    def finish(self, failed: list[str]) -> None:
        """Prints the summary, or the remaining steps."""
        if self._is_json:
            self.totals.peak_bytes, self.totals.failed = self.totals.new_bytes, failed
            self._sink.put_row(summary_row(self.totals, self._is_dry))
        self._sink.flush()
        if not self._is_json and not self._is_dry and self.totals.names and not self._notices.is_quiet:
            for line in next_steps(self._facts, self._last_epoch):
                put_line(line)


def _log_start_step(facts: Row) -> list[str]:
    file = f"{facts['output']}/log-start-offset-checkpoint"
    if facts["newCluster"]:
        return [f"  4. Replace the broker's log-start-offset-checkpoint by {file}: it has the entries of both."]
    return [
        f"  4. Add the entries of {file}, if there are any after its second line, to the",
        "     broker's file of that name, and their number to its second line. Leave its other files as they are.",
    ]


def next_steps(facts: Row, last_epoch: int) -> list[str]:
    """Returns the text about the remaining steps."""
    has_ids = bool(facts["newCluster"]) or facts["topicId"] is not None
    lines = ["Remaining steps, for each topic:"]
    if not has_ids:
        lines += [
            "  1. Create the topic in the new cluster, with the same number of partitions.",
            "     It has a new id: repeat this command with --for-cluster LOGDIR, a log directory of a new broker, and",
            "     another --output. Brokers rename directories with the old id to -stray.",
        ]
    else:
        lines.append("  1. Check that the topics in the new cluster have the topic ids in partition.metadata.")
    place = facts["newCluster"] or "the log directory"
    lines += [
        "  2. Stop the broker cleanly.",
        f"  3. Replace the empty partition directories in {place} by those in {facts['output']}.",
        *_log_start_step(facts),
        "  5. Give all files to the broker's user, and start the broker.",
    ]
    if last_epoch and not facts["resetEpochs"]:
        lines += [
            f"The batches have leader epochs up to {last_epoch}. While the new leader's epoch is lower, a consumer",
            "with a committed offset waits for ever after its start. Repeat this command with --reset-epochs, or",
            "restart the broker until its leader epoch is higher.",
        ]
    return [on_one_line(line) for line in lines]
