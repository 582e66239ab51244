"""Plans and their results: a screen for people, or a JSON line for each action and a summary at the end."""

import os
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kseg.changes.manifest import Change
from kseg.changes.plan import EXTEND, RENAME, TRUNCATE, Plan, Step, Taken
from kseg.changes.room import room_of
from kseg.output.jsonl import encode, name_value
from kseg.output.notices import Notices, on_one_line
from kseg.output.paint import Paint, plural, shown_bytes
from kseg.output.sink import Sink

COLUMNS = 80
MAX_STEPS = 20
"""Steps of one partition that people are shown; the others are counted."""
MAX_GAPS = 1000
"""Gaps that JSON lists."""
MAX_LINES = 400
"""Lines in all; then each partition is one line, and behind twice as many none."""
_COLORS = {"delete": "red", "truncate": "red", "replace": "yellow", "create": "green", "extend": "green"}


@dataclass(slots=True)
class PlanTotals:
    """What all plans of a command amount to, carried out one after the other.

    ``left_bytes``: by how much the files have grown behind the last one, below 0 where they have shrunk.
    ``damage_remains``: something is left that is not as it should be.
    """

    names: set[str] = field(default_factory=set)
    actions: Counter[str] = field(default_factory=Counter)
    removed_bytes: int = 0
    rewritten_bytes: int = 0
    new_bytes: int = 0
    peak_bytes: int = 0
    left_bytes: int = 0
    records: int = 0
    kept: list[str] = field(default_factory=list)
    missing_offsets: int = 0
    gaps: list[tuple[str, int, int]] = field(default_factory=list)
    has_changed: bool = False
    damage_remains: bool = False

    @property
    def directories(self) -> int:
        return len(self.names)

    def add(self, plan: Plan, keeps: bool) -> None:
        self.names.add(plan.directory)
        self.actions.update(step.action for step in plan.steps)
        self.removed_bytes += plan.freed_bytes
        self.rewritten_bytes += plan.rewritten_bytes
        self.new_bytes += plan.new_bytes
        needed = room_of(plan, keeps=keeps)
        self.peak_bytes = max(self.peak_bytes, self.left_bytes + needed.peak + plan.taken_bytes)
        self.left_bytes += needed.left + plan.taken_bytes  # what is kept takes its room still when the next one begins
        self.records += sum(removed.records or 0 for step in plan.steps for removed in step.removed)
        self.missing_offsets += sum(last - first + 1 for first, last in plan.gaps)
        room = MAX_GAPS - len(self.gaps)
        self.gaps += [(plan.directory, first, last) for first, last in plan.gaps[:room]]


class PlanPrinter:
    """Base of the forms: `show` for each plan before it is carried out, `done` behind it, `finish` once at the end.

    ``keeps``: whether what goes is kept. ``is_summary``: steps are only counted.
    """

    is_summary = False

    def __init__(self, sink: Sink, keeps: bool = True) -> None:
        self.sink = sink
        self.totals = PlanTotals()
        self._keeps = keeps

    def show(self, plan: Plan) -> None:
        if not self.is_summary:
            self._put_facts(plan)
        if plan:
            self.totals.add(plan, self._keeps)
            if not self.is_summary:
                self._put_plan(plan)
            self.sink.flush()

    def done(self, change: Change | None) -> None:
        """A plan was carried out; None where there was nothing to do."""
        if change is not None:
            self.totals.has_changed = True
            if change.kept:
                self.totals.kept.append(change.kept)

    def finish(self, notices: Notices, is_dry: bool) -> None:
        raise NotImplementedError

    def _put_plan(self, plan: Plan) -> None:
        raise NotImplementedError

    def _put_facts(self, plan: Plan) -> None:
        """What was found; as text it is told on standard error."""


class TextPlans(PlanPrinter):
    """For each directory its name, an action a line with the reason below, unless it is that of the action before, and
    what goes in all."""

    def __init__(self, sink: Sink, color: str, keeps: bool = True) -> None:
        super().__init__(sink, keeps)
        self._paint = Paint(color, sink.is_terminal)
        self._lines = 0

    def _put_plan(self, plan: Plan) -> None:
        if self._lines > 2 * MAX_LINES:
            return
        if self._lines > MAX_LINES:
            counts = Counter(step.action for step in plan.steps)
            self._put(f"{on_one_line(plan.directory)}: {_counted(counts)}, {_removed(plan)}")
            return
        self._put(on_one_line(plan.directory))
        before = ""
        for step in plan.steps[:MAX_STEPS]:
            reason = _reason(step)
            self._put_step(step, "" if reason == before else reason)
            before = reason
        if rest := plan.steps[MAX_STEPS:]:
            self._put(f"  ... and {_counted(Counter(step.action for step in rest))} more")
        for taken in plan.taken[:MAX_STEPS]:
            self._put_taken(taken)
        if len(plan.taken) > MAX_STEPS:
            self._put(f"  ... and {plural(len(plan.taken) - MAX_STEPS, 'range', 'ranges')} of offsets more")
        needed = room_of(plan, keeps=self._keeps).peak + plan.taken_bytes
        for line in _wrapped(f"In all: {_removed(plan)}; room needed: {shown_bytes(needed)}"):
            self._put(line)

    def _put_step(self, step: Step, reason: str) -> None:
        action = self._paint(f"{step.action:<8}", _COLORS.get(step.action, "cyan"), bold=True)
        name = on_one_line(step.file) + (f" -> {on_one_line(step.target)}" if step.target else "")
        self._put(f"  {action} {name} {_sizes(step)}".rstrip())
        for line in textwrap.wrap(on_one_line(reason), COLUMNS - 11, break_on_hyphens=False):
            self._put(" " * 11 + line)

    def _put_taken(self, taken: Taken) -> None:
        action = self._paint(f"{'left' if taken.why else 'taken':<8}", "cyan", bold=True)
        self._put(f"  {action} offsets {taken.first_offset}..{taken.last_offset}")
        lines = textwrap.wrap(on_one_line(taken.why), COLUMNS - 11, break_on_hyphens=False)
        for line in [f"from {on_one_line(taken.file)}", *lines]:  # a path is not cut in two
            self._put(" " * 11 + line)

    def _put(self, line: str) -> None:
        self._lines += 1
        self.sink.write((line + "\n").encode("utf-8", "surrogateescape"))

    def finish(self, notices: Notices, is_dry: bool) -> None:
        self.sink.flush()
        totals = self.totals
        if not totals.directories:
            notices.warning("nothing is to be changed")
            return
        what = f"{_counted(totals.actions)} in {plural(totals.directories, 'directory', 'directories')}"
        size = _gone(totals.removed_bytes, totals.rewritten_bytes)
        if is_dry:
            room = f"; room needed: {shown_bytes(totals.peak_bytes)}" if totals.directories > 1 else ""
            notices.warning(f"nothing was changed; would be: {what}, {size}{room}")
            return
        notices.warning(f"done: {what}, {size}")
        if totals.kept:
            more = f" and {len(totals.kept) - 1} more" if len(totals.kept) > 1 else ""
            notices.warning(f"what went is kept in {totals.kept[0]}{more} (kseg undo puts it back, --purge frees it)")


class JsonPlans(PlanPrinter):
    """An object a line; the last is the summary."""

    def _put_facts(self, plan: Plan) -> None:
        for row in plan.facts:
            self._put(row)

    def _put_plan(self, plan: Plan) -> None:
        for step in plan.steps:
            self._put(_step_row(plan, step))
        for taken in plan.taken:
            row = {
                "type": "left" if taken.why else "taken",
                "directory": name_value(plan.directory),
                "firstOffset": taken.first_offset,
                "lastOffset": taken.last_offset,
                "from": name_value(taken.file),
            }
            self._put(row | ({"reason": taken.why} if taken.why else {}))

    def finish(self, notices: Notices, is_dry: bool) -> None:
        totals = self.totals
        self._put(
            {
                "type": "summary",
                "changed": totals.has_changed,
                "dryRun": is_dry,
                "damageRemains": totals.damage_remains,
                "directories": totals.directories,
                "actions": dict(sorted(totals.actions.items())),
                "removedBytes": totals.removed_bytes,
                "removedRecords": totals.records,
                "missingOffsets": totals.missing_offsets,
                "gaps": [
                    {"directory": name_value(directory), "firstOffset": first, "lastOffset": last}
                    for directory, first, last in totals.gaps
                ],
                "newBytes": totals.new_bytes,
                "peakBytes": totals.peak_bytes,
                "kept": [name_value(path) for path in totals.kept],
            }
        )
        self.sink.flush()

    def _put(self, row: dict[str, Any]) -> None:
        self.sink.write(encode(row) + b"\n")


def plan_printer(form: str, sink: Sink, color: str, keeps: bool = True) -> PlanPrinter:
    """The printer of a form of the command line."""
    return JsonPlans(sink, keeps) if form == "json" else TextPlans(sink, color, keeps)


def _step_row(plan: Plan, step: Step) -> dict[str, Any]:
    row: dict[str, Any] = {
        "type": "action",
        "action": step.action,
        "file": name_value(os.path.join(plan.directory, step.file)),
        "reason": step.reason,
        "oldSize": step.before.size if step.before else None,
        "newSize": _new_size(step),
        "removedBytes": step.freed_bytes,
    }
    if step.target:
        row["target"] = name_value(os.path.join(plan.directory, step.target))
    row["removed"] = [
        {
            "position": removed.position,
            "length": removed.length,
            "reason": removed.reason,
            "firstOffset": removed.first_offset,
            "lastOffset": removed.last_offset,
            "records": removed.records,
        }
        for removed in step.removed
    ]
    return row


def _new_size(step: Step) -> int | None:
    if step.action == RENAME:
        return step.before.size if step.before else None
    return None if step.action == "delete" else step.size


def _sizes(step: Step) -> str:
    if step.action in (TRUNCATE, EXTEND) and step.before is not None:
        return f"{step.before.size} -> {step.size} bytes"
    if step.action == RENAME:
        return ""
    return f"({shown_bytes(step.before.size if step.action == 'delete' and step.before else step.size)})"


def _reason(step: Step) -> str:
    """Why, and what of it goes; many ranges are told as one."""
    parts = [step.reason] if step.reason else []
    if len(step.removed) > 3:
        parts.append(f"{len(step.removed)} ranges, {_range(step)}")
    else:
        for removed in step.removed:
            offsets = "" if removed.first_offset is None else f", offsets {removed.first_offset}..{removed.last_offset}"
            records = "" if removed.records is None else f", {_records(removed.records)}"
            why = f" ({removed.reason})" if removed.reason and removed.reason != step.reason else ""
            end = removed.position + removed.length
            parts.append(f"removes bytes {removed.position}..{end}{offsets}{records}{why}")
    return "; ".join(parts)


def _records(count: int) -> str:
    return plural(count, "record", "records") if count else "no intact record"


def _range(step: Step) -> str:
    size = sum(removed.length for removed in step.removed)
    known = [removed.records for removed in step.removed if removed.records is not None]
    return f"{size} bytes" + (f", {_records(sum(known))}" if known else "")


def _removed(plan: Plan) -> str:
    records = sum(removed.records or 0 for step in plan.steps for removed in step.removed)
    text = _gone(plan.freed_bytes, plan.rewritten_bytes)
    if records:
        text += f", {plural(records, 'record', 'records')} with them"
    if plan.gaps:
        shown = ", ".join(f"{first}..{last}" for first, last in plan.gaps[:5])
        text += f"; offsets missing afterwards: {shown}" + (", ..." if len(plan.gaps) > 5 else "")
    return text


def _gone(size: int, rewritten: int) -> str:
    """What goes: an index that is built anew is no loss."""
    text = f"{shown_bytes(size - rewritten)} removed"
    return text + (f", {shown_bytes(rewritten)} replaced" if rewritten else "")


def _counted(actions: Counter[str]) -> str:
    return ", ".join(f"{count} {action}" for action, count in sorted(actions.items()))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, initial_indent="  ", subsequent_indent="  ")
