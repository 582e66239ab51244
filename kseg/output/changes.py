"""Prints plans and their results: text, or one JSON line for each action and a summary at the end.

Plans go to standard output, messages to standard error. Also prints what ``kseg undo --list`` and ``--purge``
find, and what compaction and retention do to a partition and its segments: lines, JSON objects, or tables on a
terminal.
"""

import os
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from kseg.changes.disk_space import PlanTotals
from kseg.changes.driver.command import Outcome, Recording, created
from kseg.changes.driver.undoing import KnownChange, Purged
from kseg.changes.manifest import DONE, Change
from kseg.changes.plan import CREATE, DELETE, EXTEND, RENAME, REPLACE, TRUNCATE, Plan, Step
from kseg.formats.json_values import fields_of, name_of, name_value, row_of
from kseg.formats.suffixes import LOGS
from kseg.output.fleet_table import MAX_SEPARATE_PARTITIONS
from kseg.output.notices import Notices, Paint, on_one_line
from kseg.output.progress import Progress, progress_over
from kseg.output.sink import MemorySink, Sink
from kseg.output.terminal import LONGEST_LINE, columns_of, drawn, table_lines
from kseg.quantities import in_other_unit, plural, show_span, shown_bytes, shown_time
from kseg.sidefiles.checkpoints import LEADER_EPOCHS
from kseg.stores.place import Place


class PlanLine(NamedTuple):
    """One line of a plan; ``action`` is "" for a remark. ``origin``, a path, and ``reason``, a sentence, may be ""."""

    action: str
    text: str
    color: str = "cyan"
    origin: str = ""
    reason: str = ""


COLUMNS = 80
MAX_STEPS = 20
"""Steps of one partition that the text form lists; the others are only counted."""
_COLORS = {DELETE: "red", TRUNCATE: "red", REPLACE: "yellow", CREATE: "green", EXTEND: "green"}


Row = dict[str, Any]


class PlanPrinter:
    """A `kseg.changes.driver.command.Reporter` that prints; `finish` ends it.

    ``is_dry``: no plan is applied, and `totals` covers all plans. Otherwise `totals` covers the applied plans and
    `undone` the others. ``keeps``: whether removed bytes are kept. ``is_summary``: steps are only counted.
    ``summaries`` prints the summaries of partitions as text; its `total` follows the totals of the plans.
    """

    is_summary = False

    def __init__(self, sink: Sink, notices: Notices, is_dry: bool, keeps: bool = True) -> None:
        self.sink, self.notices = sink, notices
        self._paint = Paint(notices.color, sink.is_terminal)
        self.warning, self.detail = notices.warning, notices.detail
        self.totals, self.undone = PlanTotals(), PlanTotals()
        self._is_dry, self._keeps = is_dry, keeps
        self._shown: dict[str, PlanTotals] = {}
        self.summaries: ChangeSummaries | RetentionPrinter = ChangeSummaries(notices)

    def error(self, message: object) -> None:
        self.notices.error(message)
        self.sink.failures.append(str(message))

    def begin(self, at_once: int, partitions: int) -> None:
        self.totals, self.undone = PlanTotals(at_once), PlanTotals(at_once)

    def plan(self, plan: Plan, with_directory: str = "") -> None:
        if not self.is_summary:
            self._put_facts(plan)
        if plan:
            found, totals = PlanTotals.of(plan, self._keeps), self.totals
            if not self._is_dry:
                totals = self._shown.setdefault(with_directory or plan.directory, PlanTotals())
            totals.append(found)
            if not self.is_summary:
                self._put_plan(plan, found)
            self.sink.flush()

    def created(self, plans: Sequence[Plan], damage_remains: bool = False, facts: Row | None = None) -> Outcome:
        """Prints plans of new partitions, and the totals, as `kseg.changes.driver.command.created` reports them."""
        outcome = created(plans, self._is_dry, self, damage_remains, facts)
        self.finish(outcome)
        return outcome

    @property
    def has_changed(self) -> bool:
        """Whether any plan was applied."""
        return not self._is_dry and bool(self.totals.names)

    def applied(self, change: Change | None = None, directory: str = "") -> None:
        self._count(self.totals, directory)
        if change is not None and change.kept:
            self.totals.kept.append(change.kept)

    def not_applied(self, directory: str = "") -> None:
        self._count(self.undone, directory)

    def _count(self, totals: PlanTotals, directory: str) -> None:
        """Adds the plan of a directory, or all shown plans, to the totals."""
        for key in [directory] if directory else [*self._shown]:
            if key in self._shown:
                totals.append(self._shown.pop(key))

    def summary(self, rows: Iterable[Row]) -> None:
        own = self.summaries  # the explanation of a retention is made row by row, and only for who prints it
        self._put_summary(takewhile(lambda row: row["type"] in own.types, rows), own.show)

    def _put_summary(self, rows: Iterable[Row], show: Callable[[Row], None]) -> None:
        for row in rows:
            self.totals.peak_bytes = max(self.totals.peak_bytes, row.get("peakBytes", 0))
            show(row)

    def progress(self, paths: Sequence[str] | None = None) -> Progress:
        progress = Progress(None, self.notices.is_quiet)
        if paths is not None:
            progress = progress_over(paths, self.notices.is_quiet, parts_of=lambda path: [path])
        self.notices.before = progress.erase
        return progress

    def finish(self, outcome: Outcome) -> None:
        """Prints the totals, with what the run has found out."""
        self.not_applied()
        self.sink.flush()

    def _put_plan(self, plan: Plan, totals: PlanTotals) -> None:
        """Prints the steps of a plan."""

    def _put_facts(self, plan: Plan) -> None:
        """Prints the facts of a plan; in the text form they are messages on standard error."""


class TextPlans(PlanPrinter):
    """Prints for each directory its name, one line for each action with the reason below it, and the total removed; if
    more than MAX_SEPARATE_PARTITIONS directories change, one line for each, and one for all empty logs whose leader
    epochs alone change.

    A terminal gets a tree. A reason is not repeated if it is the same as for the action before. With --quiet, plans
    that are applied are not printed.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._may_be_many = False
        self._waiting: list[tuple[str, str]] | None = []
        """The line and the text of each plan until it is known whether there are many, then None."""
        self._small: dict[tuple[int, int], list[str]] = defaultdict(list)
        """The lines of the plans that are printed as one at the end, by the sizes of the replaced file."""

    def begin(self, at_once: int, partitions: int) -> None:
        super().begin(at_once, partitions)
        self._may_be_many = partitions > MAX_SEPARATE_PARTITIONS

    def _put_plan(self, plan: Plan, totals: PlanTotals) -> None:
        if self.notices.is_quiet and not self._is_dry:
            return
        counts = _counted(totals.actions) or "no file changes"
        line = f"{on_one_line(plan.directory)}: {counts}, {_removed(plan, totals)}"
        if self._may_be_many and (sizes := _sizes_of_epochs(plan)) is not None:
            self._small[sizes].append(line)
            return
        if self._waiting is None:
            self.sink.put(line)
            return
        text = self._text(plan, totals)
        if not self._may_be_many:
            self.sink.put(text)
            return
        self._waiting.append((line, text))
        if len(self._waiting) > MAX_SEPARATE_PARTITIONS:
            self.sink.put("\n".join(line for line, _ in self._waiting))
            self._waiting = None

    def _text(self, plan: Plan, totals: PlanTotals) -> str:
        directory = on_one_line(plan.directory)
        total = f"In all: {_removed(plan, totals)}; disk space needed: {shown_bytes(totals.peak_bytes)}"
        if self.sink.is_terminal:
            from rich.console import Group
            from rich.text import Text
            from rich.tree import Tree

            tree = Tree(Text(directory, "bold"))
            for entry in (*self._entries(plan), PlanLine("", total)):
                head = Text(entry.text)
                if entry.action:
                    head = Text.assemble((f"{entry.action:<8}", f"bold {entry.color}"), " ", entry.text)
                tree.add(Group(head, *(Text(note, "dim") for note in (entry.origin, entry.reason) if note)))
            return drawn(tree, self._paint.is_on).removesuffix("\n")
        lines = [directory]
        for entry in self._entries(plan):
            action = f"{self._paint(f'{entry.action:<8}', entry.color, bold=True)} " if entry.action else ""
            lines.append(f"  {action}{entry.text}".rstrip())
            reason = textwrap.wrap(entry.reason, COLUMNS - 11, break_on_hyphens=False)
            notes = [entry.origin] * bool(entry.origin) + reason  # paths are not wrapped
            lines += [" " * 11 + note for note in notes]
        lines += textwrap.wrap(total, COLUMNS, initial_indent="  ", subsequent_indent="  ")
        return "\n".join(lines)

    def _entries(self, plan: Plan) -> Iterator[PlanLine]:
        before, groups = "", [list(group) for _, group in groupby(plan.steps, _kind_of)]
        for group in groups[:MAX_STEPS]:
            step, reason = group[0], _reason(group[0])
            text = f"{on_one_line(_names(group))} {_sizes(group)}".rstrip()
            shown = "" if reason == before else on_one_line(reason)
            yield PlanLine(step.action, text, _COLORS.get(step.action, "cyan"), reason=shown)
            before = reason
        if rest := [step for group in groups[MAX_STEPS:] for step in group]:
            yield PlanLine("", f"... and {_counted(Counter(step.action for step in rest))} more")
        for taken in plan.from_replica[:MAX_STEPS]:
            text, origin = f"offsets {taken.first_offset}..{taken.last_offset}", f"from {on_one_line(taken.file)}"
            yield PlanLine("left" if taken.why else "taken", text, origin=origin, reason=on_one_line(taken.why))
        if len(plan.from_replica) > MAX_STEPS:
            more = plural(len(plan.from_replica) - MAX_STEPS, "range", "ranges")
            yield PlanLine("", f"... and {more} of offsets more")

    def finish(self, outcome: Outcome) -> None:
        for _, text in self._waiting or ():
            self.sink.put(text)
        self._waiting = []
        for (before, after), lines in sorted(self._small.items()):
            count = f"{len(lines):,} partitions: {LEADER_EPOCHS} of empty logs"
            many = f"{count}, {shown_bytes(before)} replaced by {shown_bytes(after)} each"
            self.sink.put(many if len(lines) > 1 else lines[0])
        super().finish(outcome)
        totals, notices, status = self.totals, self.notices, outcome.exit_status
        if alone := outcome.left_alone:
            notices.warning(f"not damaged, left as they are: {plural(len(alone), 'partition', 'partitions')}")
            for directory in alone:
                notices.detail(f"{directory}: is not damaged and stays as it is")
        if not totals.directories:  # if something is incomplete or could not be planned, errors have reported it
            if self.undone.directories:
                notices.warning(f"not done: {_totals_text(self.undone)}")
            elif status <= 1 and not (outcome.has_changed or outcome.would_change):
                notices.warning("nothing to change")
            return
        if self._is_dry:
            needed = f"; disk space needed: {shown_bytes(totals.peak_bytes)}" if totals.directories > 1 else ""
            notices.warning(f"dry run, nothing was changed; planned: {_totals_text(totals)}{needed}")
            return
        if self.undone.directories or status > 1:
            rest = f"; not done: {_totals_text(self.undone)}" if self.undone.directories else ""
            notices.warning(f"partly done: {_totals_text(totals)}{rest}")
        else:
            notices.warning(f"done: {_totals_text(totals)}")
        if totals.kept and not (totals.freed_bytes or totals.rewritten_bytes):
            notices.warning("no bytes were removed; kseg undo reverts the change")
        elif totals.kept:
            more = f" and {len(totals.kept) - 1} more" if len(totals.kept) > 1 else ""
            notices.warning(
                f"removed bytes are kept in {totals.kept[0]}{more} (kseg undo restores them, --purge deletes them)"
            )


_CARVED = columns_of("log batches# records# size# offsets# gaps# named_by")


class CarvedTable(PlanPrinter):
    """Prints a line for each log that was carved out of images; its steps say no more."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._rows: list[tuple[str, ...]] = []

    def _put_facts(self, plan: Plan) -> None:
        for row in plan.facts:
            told, name = row["evidence"], os.path.basename(plan.directory)
            offsets = f"{row['firstOffset']} to {row['lastOffset']}"
            named_by = " ".join(f"{each}?" for each in told["candidates"][:2]) or told["name"] or ""
            counts = str(row["batches"]), str(row["records"]), shown_bytes(row["bytes"])
            self._rows.append((name, *counts, offsets, str(row["gaps"]), named_by))

    def finish(self, outcome: Outcome) -> None:
        super().finish(outcome)
        for line in table_lines(_CARVED, self._rows, LONGEST_LINE, Paint(), gap="  "):
            self.sink.put(line)


_MAX_LEFT_OUT = 5


class RebuiltLines(PlanPrinter):
    """Prints a line for each partition rebuilt from remote storage, and a few of the segments that are not used."""

    def _put_facts(self, plan: Plan) -> None:
        if plan.directory and not plan:
            self.warning(f"{plan.directory}: not created: remote storage has no live segment of it")
        unused = [row for row in plan.facts if row["type"] == "left"]
        for row in plan.facts[: len(plan.facts) - len(unused)]:
            made = "would be created" if self._is_dry else "exists already" if row["wasThere"] else "created"
            text = f"{plan.directory}: {made}: offsets {row['logStartOffset']} to {row['logEndOffset'] - 1}"
            if not self._is_dry:
                text += f", {plural(row['segments'], 'segment', 'segments')}, {row['newBytes']} bytes"
            self.sink.put(on_one_line(text))
        for left in unused[:_MAX_LEFT_OUT]:
            offsets = f"offsets {left['firstOffset']} to {left['lastOffset']}"
            self.warning(f"left out: {offsets} of {name_of(left['from'])}: {left['reason']}")
        if len(unused) > _MAX_LEFT_OUT:
            more = plural(len(unused) - _MAX_LEFT_OUT, "more segment", "more segments")
            self.warning(f"left out: {more}; --format json lists all")


class JsonPlans(PlanPrinter):
    """Prints one object per line; the last one is the summary."""

    def summary(self, rows: Iterable[Row]) -> None:
        is_verbose = self.notices.is_verbose
        self._put_summary((r for r in rows if is_verbose or r["type"] != "cleanedSegment"), self.sink.put_row)

    def _put_facts(self, plan: Plan) -> None:
        for row in plan.facts:
            self.sink.put_row(row)

    def _put_plan(self, plan: Plan, totals: PlanTotals) -> None:
        for step in plan.steps:
            if not step.file:
                continue  # it makes the whole directory, of which the facts tell
            row: Row = {
                "type": "action",
                "action": step.action,
                "file": name_value(Place(plan.directory) / step.file),
                "reason": step.reason,
                "oldSize": step.before.size if step.before else None,
                "newSize": step.new_size,
                "removedBytes": step.removed_bytes,
            }
            if step.target:
                row["target"] = name_value(Place(plan.directory) / step.target)
            self.sink.put_row(row | {"removed": [removed.row() for removed in step.removed]})
        for taken in plan.from_replica:
            self.sink.put_row(taken.row(plan.directory))

    def finish(self, outcome: Outcome) -> None:
        super().finish(outcome)
        totals = self.totals
        row: Row = {
            "type": "summary",
            "changed": outcome.has_changed,
            "dryRun": self._is_dry,
            "damageRemains": outcome.damage_remains,
            "directories": totals.directories,
            "actions": dict(sorted(totals.actions.items())),
            "removedBytes": totals.removed_bytes,
            "replacedBytes": totals.rewritten_bytes,
            "removedRecords": totals.records,
            "missingOffsets": totals.missing_offsets,
            "gaps": [
                {"directory": name_value(directory), "firstOffset": first, "lastOffset": last}
                for directory, first, last in totals.gaps
            ],
            **fields_of(totals, "new_bytes", "peak_bytes"),
            "kept": row_of(totals.kept, is_name=True),
            "failed": row_of(sorted(outcome.errors), is_name=True),
        }
        if outcome.left_alone is not None:
            row["leftAlone"] = row_of(outcome.left_alone, is_name=True)
        self.sink.put_row(row | outcome.facts)
        self.sink.flush()


def _sizes_of_epochs(plan: Plan) -> tuple[int, int] | None:
    """Returns the old and the new size of the leader epochs of an empty log, if the plan changes only these."""
    if len(plan.steps) != 1 or plan.gaps or plan.from_replica:
        return None
    (step,) = plan.steps
    if step.action != REPLACE or step.file != LEADER_EPOCHS or step.before is None:
        return None
    sizes = plan.known_sizes(LOGS)
    return (step.before.size, step.size) if sizes and not any(sizes) else None


def _kind_of(step: Step) -> tuple[object, ...]:
    """Returns the key of steps that share one line: files of one segment with the same action and reason."""
    stem, dot, suffixes = step.file.partition(".")
    if step.removed or not (stem.isascii() and stem.isdigit()) or not dot or step.action in (TRUNCATE, EXTEND):
        return (step.action, step.file, id(step) if step.removed else None)
    return step.action, stem, step.reason, step.target.removeprefix(stem).removeprefix(f".{suffixes}")


def _names(group: list[Step]) -> str:
    """Returns the file's name, or the name of a segment's first file and the suffixes of the others."""
    first, *others = group
    stem = first.file.partition(".")[0]
    suffixes = [step.file.removeprefix(stem) for step in others]
    target = first.target
    if others and target.startswith(first.file):
        target = f"*{target.removeprefix(first.file)}"
    return " ".join([first.file, *suffixes]) + (f" -> {target}" if target else "")


def _sizes(group: list[Step]) -> str:
    step = group[0]
    if step.action in (TRUNCATE, EXTEND) and step.before is not None:
        return f"{step.before.size} -> {step.size} bytes"
    if step.action == RENAME:
        return ""
    sizes = [each.before.size if each.action == DELETE and each.before else each.size for each in group]
    return f"({shown_bytes(sum(sizes))})"


def _reason(step: Step) -> str:
    """Returns the reason and the removed ranges; many ranges are summarized."""
    parts = [step.reason] if step.reason else []
    if len(step.removed) > 3:
        known = [removed.records for removed in step.removed if removed.records is not None]
        records = f", {_records(sum(known))}" if known else ""
        size = sum(removed.length for removed in step.removed)
        parts.append(f"{len(step.removed)} ranges, {size} bytes{records}")
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


def _removed(plan: Plan, totals: PlanTotals) -> str:
    text = _sizes_text(totals)
    if totals.records:
        text += f", with {plural(totals.records, 'record', 'records')}"
    if plan.gaps:
        shown = ", ".join(f"{first}..{last}" for first, last in plan.gaps[:5])
        text += f"; offsets missing afterwards: {shown}" + (", ..." if len(plan.gaps) > 5 else "")
    return text


def _sizes_text(of: PlanTotals) -> str:
    """Returns a summary of removed, replaced and new bytes."""
    parts = [f"{shown_bytes(of.removed_bytes)} removed"] if of.removed_bytes else []
    if of.rewritten_bytes:
        parts.append(f"{shown_bytes(of.rewritten_bytes)} replaced by {shown_bytes(of.rewriting_bytes)}")
    if of.created_bytes:
        parts.append(f"{shown_bytes(of.created_bytes)} new")
    return ", ".join(parts) or "0 B removed"


def _totals_text(totals: PlanTotals) -> str:
    actions = f"{_counted(totals.actions)} in {plural(totals.directories, 'directory', 'directories')}"
    return f"{actions}, {_sizes_text(totals)}"


def _counted(actions: Counter[str]) -> str:
    return ", ".join(f"{count} {action}" for action, count in sorted(actions.items()))


def recorded_json(recording: Recording, outcome: Outcome, keeps: bool) -> str:
    """Returns the output of ``--format json`` for a recorded dry run; messages are left out."""
    sink, notices = MemorySink(), Notices(quiet=True)
    printer = JsonPlans(sink, notices, outcome.is_dry, keeps)
    printer.begin(recording.at_once, len(recording.plans))
    for found in recording.reported:
        if isinstance(found, Plan):
            printer.plan(found)
        else:
            printer.summary(found)
    printer.finish(outcome)
    return sink.data.decode()


_MIN_COMMAND_WIDTH = 8


def show_changes(found: list[KnownChange], form: str, color: str, sink: Sink) -> None:
    """Prints the changes, oldest first for each directory."""
    if form == "json":
        for change in found:
            author = change.author
            words = None if author is None else row_of(author.arguments, is_name=True)
            row: Row = {
                "type": "change",
                "directory": name_value(change.directory),
                **fields_of(change, "number", "time_ms", "command", "state", "kept_bytes"),
                "kept": name_value(change.kept) if change.kept else None,
                "user": author and author.user,
                "host": author and author.host,
                "kseg": author and author.version,
                "arguments": words,
                "files": [{"file": name_value(name), **row_of(each)} for name, each in change.files.items()],
            }
            sink.put_row(row if change.partitions is None else row | {"partitions": change.partitions})
        kept = sum(change.kept_bytes for change in found)
        sink.put_row({"type": "summary", "changed": False, "keptBytes": kept})
        return
    paint = Paint(color, sink.is_terminal)
    for directory, changes in groupby(found, key=lambda change: change.directory):
        sink.put(paint(on_one_line(directory), bold=True))
        if sink.is_terminal:
            from rich.table import Table
            from rich.text import Text

            table = Table(box=None, header_style="bold")
            table.add_column("change", justify="right")
            table.add_column("time")
            table.add_column("state")
            table.add_column("kept", justify="right", no_wrap=True)
            table.add_column("command", overflow="fold", min_width=_MIN_COMMAND_WIDTH)
            for change in changes:
                table.add_row(*map(Text, _change_cells(change)), style="" if change.state == DONE else "yellow")
            sink.write(drawn(table, paint.is_on).encode())
        else:
            for number, time, state, size, command in map(_change_cells, changes):
                sink.put(f"  {number:>3}  {time}  {state:<9}  {size:>10}  {command}")


def _change_cells(change: KnownChange) -> tuple[str, ...]:
    """Returns number, time, state, kept bytes and command as printable texts."""
    count = change.partitions
    partitions = "" if count is None else f", {plural(count, 'partition', 'partitions')}"
    command = on_one_line(change.command) + partitions
    return str(change.number), shown_time(change.time_ms), change.state, shown_bytes(change.kept_bytes), command


def show_purged(purged: Purged, is_dry: bool, form: str, sink: Sink, notices: Notices) -> None:
    """Prints the result of `kseg undo --purge` for one path: a message, or a JSON object."""
    if form == "json":
        counts = fields_of(purged, "changes", "freed_bytes", "held_bytes")
        sink.put_row({"type": "purge", "path": name_value(purged.path), **counts, "dryRun": is_dry})
        return
    freed = f"{'would free' if is_dry else 'freed'} {shown_bytes(purged.freed_bytes)}"
    if purged.held_bytes:
        freed += f"; {shown_bytes(purged.held_bytes)} are held by other names, such as .deleted, until a broker starts"
    notices.warning(f"{purged.path}: {freed} (changes: {purged.changes})")


# What compaction and retention do to a partition and its segments.
#
# Rows are the objects of the JSON form.

MAX_ROUNDS = 10
"""Later rounds that the text form lists one by one."""
_CLEANED = {
    "superseded": "superseded",
    "tombstones": "tombstones",
    "aborted": "of aborted transactions",
    "markers": "markers",
    "noKey": "without a key",
}


class ChangeSummaries:
    """Prints what compactions and erasures do to each partition as messages; the segments with --verbose."""

    types = ("compaction", "erasure", "cleanedSegment")

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._done: list[Row] = []
        """The partitions that `total` adds up, with the fields that it needs."""

    def show(self, row: Row) -> None:
        if row["type"] == "cleanedSegment":
            sources = ", ".join(map(str, row["sources"][:8])) + (", ..." if len(row["sources"]) > 8 else "")
            sizes = f"{shown_bytes(row['bytesBefore'])} -> {shown_bytes(row['bytesAfter'])}"
            counts = f"{row['records']} -> {row['kept']} records"
            segment = f"{name_of(row['directory'])}: segment {row['baseOffset']}"
            self._notices.detail(f"{segment} from {sources}: {sizes}, {counts}")
            return
        is_erasure = row["type"] == "erasure"
        if is_erasure or row["rounds"]:
            self._done.append(
                {name: row.get(name) for name in ("type", "records", "kept", "bytesBefore", "bytesAfter")}
            )
        is_idle = is_erasure and not (row["records"] or row["purged"] or row["deleted"])
        say = self._notices.detail if is_idle else self._notices.warning
        for line in _erased(row) if is_erasure else _compacted(row):
            say(f"{name_of(row['directory'])}: {line}")

    def total(self) -> None:
        """Prints the sum of several partitions."""
        done = self._done
        if len(done) < 2:
            return
        records = sum(row["records"] for row in done)
        if done[0]["type"] == "erasure":
            count = plural(sum(bool(row["records"]) for row in done), "partition", "partitions")
            self._notices.warning(f"in all {plural(records, 'record', 'records')} in {count}")
            return
        before, after, kept = (sum(row[name] for row in done) for name in ("bytesBefore", "bytesAfter", "kept"))
        self._notices.warning(
            f"in all {len(done)} partitions: {shown_bytes(before)} -> {shown_bytes(after)}, {records} -> {kept} records"
        )


def _compacted(row: Row) -> list[str]:
    lines = []
    if row["rounds"]:
        seconds = row.get("seconds", 0.0)
        rate = f" ({shown_bytes(round(row['bytesBefore'] / seconds))}/s)" if seconds > 1 else ""
        rounds = f" in {row['rounds']} rounds" if row["rounds"] > 1 else ""
        lines.append(
            f"{shown_bytes(row['bytesBefore'])} -> {shown_bytes(row['bytesAfter'])}, {row['records']} -> {row['kept']} "
            f"records{rounds}; clean up to offset {row['checkpoint']}{rate}"
        )
        lines.append(
            f"new files need at most {shown_bytes(row['peakBytes'])} of disk space before old ones are deleted"
        )
        gone = [f"{row['gone'][kind]} {text}" for kind, text in _CLEANED.items() if row["gone"][kind]]
        if gone:
            lines.append(f"removed records: {', '.join(gone)}")
    if row["waitingMarkers"]:
        lines.append(
            f"{row['waitingMarkers']} markers of transactions without records stay until their delete horizon, at the "
            f"latest {shown_time(row['deleteHorizon'])}: the first round after it removes them"
        )
    if later := row["laterRounds"]:  # known facts about rounds that a dry run does not perform
        lines += [
            f"round {number} would clean offsets {each['dirtyFrom']} to {each['dirtyTo'] - 1}, with {each['keys']} keys"
            for number, each in enumerate(later[:MAX_ROUNDS], 2)
        ]
        if len(later) > MAX_ROUNDS:
            lines.append(f"... and {len(later) - MAX_ROUNDS} rounds more")
        lines.append(
            "sizes and counts above are those of round 1; those of later rounds depend on its result. With --memory "
            f"{-(-row['oneRoundMemory'] >> 20)}M one round is enough, and a dry run shows all of it"
        )
    return lines + [f"not cleaned: {stop}" for stop in row["stops"]]


def _erased(row: Row) -> list[str]:
    count = plural(row["rewritten"], "segment", "segments")
    lines = [f"{plural(row['records'], 'record', 'records')} in {count} of {row['segments']}"]
    if row["deleted"]:
        lines.append(
            f"deleted, as they hold such records: {', '.join(map(os.path.basename, map(name_of, row['deleted'])))}"
        )
    if row["purged"]:
        numbers = ", ".join(map(str, row["purged"]))
        lines.append(f"kept bytes hold such records; removed, no undo: {numbers} of kseg undo --list")
    if row["replicas"]:
        lines.append(f"other replicas have them too: on nodes {', '.join(map(str, row['replicas']))}")
    if row["remoteThrough"] is not None:
        lines.append(f"remote storage has segments up to offset {row['remoteThrough']}, which are not searched")
    return lines + [f"{name_of(path)}: has another name elsewhere, which keeps its bytes" for path in row["otherNames"]]


_SOURCES = {
    "option": "by option", "topic": "the topic's", "server": "by the broker's file", "default": "Kafka's default",
    "checkpoint": "cleaner-offset-checkpoint has the partition", "name": "as brokers create the topic",
    "unknown": "no metadata log here has the topic",
}  # fmt: skip
_RULES = {"logStart": "below the log start", "size": "too much", "time": "too old"}
_HELD = {
    "high watermark": "holds offsets at or above the high watermark",
    "empty": "empty, and the last: a broker would create it again",
    "keep-active": "the last, which --keep-active keeps",
}


class RetentionPrinter:
    """Prints a partition's settings, then for each segment the decision and the reasons."""

    types = ("retention", "segmentRetention")

    def __init__(self, sink: Sink, color: str) -> None:
        self._sink, self._paint = sink, Paint(color, sink.is_terminal)
        self._partition: Row = {}

    def show(self, row: Row) -> None:
        if row["type"] == "retention":
            self._partition = row
            self._show_partition(row)
        else:
            self._show_segment(self._partition, row)

    def _show_partition(self, partition: Row) -> None:
        self._sink.put(on_one_line(name_of(partition["directory"])))
        sources = partition["sources"]
        age = _limit(partition["retentionMs"], sources["retention.ms"], lambda ms: f"{ms} ({show_span(ms)})")
        count = plural(partition["segments"], "segment", "segments")
        offsets = (partition[name] for name in ("logStartOffset", "highWatermark", "logEndOffset"))
        for line in (
            f"{count}, {shown_bytes(partition['bytes'])}; now is {shown_time(partition['now'])}",
            f"cleanup.policy {partition['cleanupPolicy'] or '(none)'} ({_SOURCES[sources['cleanup.policy']]})",
            f"retention.ms {age}",
            f"retention.bytes {_limit(partition['retentionBytes'], sources['retention.bytes'], str)}",
            "log start offset {}, high watermark {}, log end {}".format(*offsets),
        ):
            self._wrapped(line, "  ", "    ")
        if partition["rolls"]:
            end = partition["logEndOffset"]
            self._wrapped(f"all segments are deleted; first an empty one is created at offset {end}", "  ", "    ")

    def total(self) -> None:
        """Prints nothing: the command itself reports the amounts."""

    def _show_segment(self, partition: Row, row: Row) -> None:
        verdict, color = "stays", "green"
        if row["rule"]:
            verdict, color = f"goes: {_RULES[row['rule']]}", "red"
        elif not row["held"] and row["goesAt"] is not None:
            verdict, color = f"stays until {shown_time(row['goesAt'])}", "yellow" if row["isFuture"] else "green"
        name = os.path.basename(name_of(row["file"]))
        self._sink.put(f"  {name}  {shown_bytes(row['size']):>10}  {self._paint(verdict, color)}")
        for line in _retention_reasons(partition, row):
            self._wrapped(line, " " * 6, " " * 8)

    def _wrapped(self, text: str, first: str, later: str) -> None:
        for line in textwrap.wrap(text, COLUMNS, initial_indent=first, subsequent_indent=later):
            self._sink.put(line)


def _limit(value: int, source: str, shown: Callable[[int], str]) -> str:
    if source == "unknown":
        return "unknown (a broker may have a setting of its own): assumed to be unlimited"
    return f"{shown(value) if value >= 0 else 'unlimited'} ({_SOURCES[source]})"


def _retention_reasons(partition: Row, row: Row) -> Iterator[str]:
    time, now = row["largestTimestamp"], partition["now"]
    when = f"{shown_time(time)}, {show_span(now - time)} {'ahead' if time > now else 'ago'}"
    if row["largestTimestampSource"] == "fileTime":
        yield f"its time index has no timestamp; file written {when}"
    elif row["recordOffset"] is None:
        yield f"newest timestamp in its time index {when}; no record has it"
    else:
        yield f"newest record: offset {row['recordOffset']}, {when}"
    if row["rule"]:
        if row["rule"] == "size":
            yield f"without it the log still has at least retention.bytes, {partition['retentionBytes']}"
        elif row["rule"] != "time":
            yield f"its last offset, {row['lastOffset']}, is below the log start offset"
        return
    if row["held"]:
        yield _HELD[row["held"]]
        return
    if row["blockedBy"]:
        yield f"blocked by {row['blockedBy']}, which is older and has a later timestamp"
    if row["isFuture"]:
        yield "that time is in the future: this and all later segments do not expire by age"
        if unit := in_other_unit(row["largestTimestamp"]):
            yield unit
    if row["goesAfterBytes"] is not None:
        earlier = "or " if row["goesAt"] is not None else ""
        yield f"{earlier}until the log has grown by {shown_bytes(row['goesAfterBytes'])}"
    elif row["goesAt"] is None:
        is_kept = "delete" not in partition["cleanupPolicy"]
        yield "its cleanup.policy deletes nothing by age or size" if is_kept else "no limit applies to it"
