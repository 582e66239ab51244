"""``kseg convert`` of segments to segments: in place as a change, or to new directories, all of a run or none."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from kseg.changes.copies import write_root_copy
from kseg.changes.driver.paths import is_partition
from kseg.changes.driver.planner import ChangeOptions, Planner
from kseg.changes.driver.reporter import Messages, Reporter
from kseg.changes.new_directories import new_directories
from kseg.changes.plan import CREATE, Plan, Step
from kseg.changes.root_files import Known
from kseg.changes.staging import staging
from kseg.cli.changing import run_change
from kseg.cli.changing_options import change_options
from kseg.cli.convert_options import asked
from kseg.cli.engine import spark_session
from kseg.cli.eras import IntervalTeller, with_known_interval
from kseg.conversion.disk_space import check_space
from kseg.conversion.partition import convert_segments
from kseg.conversion.request import Request
from kseg.conversion.rewriting import (
    Conversion,
    Rewritten,
    complete,
    copy_owner,
    note_gaps,
    plan_rewriting,
    rewrite,
    segments_of,
)
from kseg.errors import PathError
from kseg.logdir.known_topics import KnownTopics
from kseg.output.change_reporter import Presentation
from kseg.output.plans import plan_printer
from kseg.output.sink import open_report
from kseg.recovery.broker.intervals import chosen_interval
from kseg.recovery.broker.start import Start
from kseg.recovery.workspace import Workspace
from kseg.segment.files import METADATA_TOPIC, own_name, own_partitions, parse_partition_name, segment_file
from kseg.segment.passed_over import tell_passed_over
from kseg.segment.paths import expand_path, segments_at
from kseg.stores import trees
from kseg.stores.no_follow import resolved

NAMELESS = "segment-0"
"""The partition that a segment is of whose place does not tell."""


def convert(options: dict[str, Any], presentation: Presentation) -> int:
    """Does what the options ask for; the exit status."""
    with spark_session(options) as spark:
        return _convert(options, presentation, _conversion(spark))


def _conversion(spark: Any) -> Conversion:
    """Where segments are converted."""
    if spark is None:
        return convert_segments
    from kseg.spark.conversion import SparkConversion

    return SparkConversion(spark)


def _convert(options: dict[str, Any], presentation: Presentation, conversion: Conversion) -> int:
    if not options["in_place"]:
        return Copies(options, presentation, conversion).run()
    change = change_options(*(options[name] for name in ("dry_run", "no_lock", "quarantine", "no_quarantine")))
    planner = partial(ConversionPlanner, options, conversion)
    return run_change(options["paths"], planner, change, presentation).exit_status


class Requests:
    """What is asked for, by partition: with the interval that its topic or its indexes have, where none is given."""

    def __init__(self, options: dict[str, Any], reporter: Messages) -> None:
        self._options = options
        self._intervals, self._topics = IntervalTeller(reporter), KnownTopics()

    def of(self, directory: str | None) -> Request:
        request = asked(self._options)
        if self._options["index_interval_bytes"] is not None or directory is None:
            return request
        start = with_known_interval(Start(), self._topics, directory)
        found = chosen_interval(Workspace(directory), start.interval_bytes, start.interval_source)
        self._intervals.tell(directory, found)
        return replace(request, interval_bytes=found.size)


def tell(name: str, made: Rewritten, reporter: Messages) -> None:
    """What was passed over, left out and lost, for people."""
    found = made.converted
    for file, damage in found.skipped[:20]:
        reporter.warning(
            f"{file}: {damage.code} at position {damage.position}, {damage.length} bytes left out: {damage.message}"
        )
    if len(found.skipped) > 20:
        reporter.warning(f"{name}: {len(found.skipped) - 20} more damaged ranges are left out")
    if found.left_out:
        reporter.warning(f"{name}: {found.left_out} batches left out that a read_committed consumer does not see")
    if found.losses:
        reporter.warning(f"{name}: lost: {found.losses.sentence()}")
    reporter.detail(f"{name}: {found.batches} batches, {found.old_bytes} bytes before, {found.new_bytes} after")


class ConversionPlanner(Planner):
    """Makes the plans of conversions in place."""

    command = "convert"

    def __init__(
        self, options: dict[str, Any], conversion: Conversion, change: ChangeOptions, reporter: Reporter
    ) -> None:
        super().__init__(reporter)
        self._options, self._conversion, self._is_dry = options, conversion, change.is_dry
        self._requests = Requests(options, reporter)

    def plan_partition(self, directory: str, known: Known) -> Iterator[Plan]:
        with ExitStack() as staged:
            yield self._plan(directory, staged)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        parts = [path for path in own_partitions(directory) if not is_left_alone(path, self.reporter)]
        requests = [asked(self._options)] if not self._is_dry else []
        for request in requests:
            for path in parts:  # a partition that is refused is not to leave others changed
                if os.path.basename(path) not in done and request.magic in (0, 1) and not request.is_lossy:
                    rewrite(path, segments_of(path), path, request, None, self._conversion)
        for path in parts:
            if os.path.basename(path) not in done:
                with self.failures.of(path), ExitStack() as staged:
                    yield self._plan(path, staged)

    def _plan(self, directory: str, staged: ExitStack) -> Plan:
        files, folder, request = segments_of(directory), None, self._requests.of(directory)
        if not self._is_dry:
            check_space(directory, directory, files, directory, request)
            folder = staged.enter_context(staging(directory)).make_folder()
        made = rewrite(directory, files, directory, request, folder, self._conversion)
        tell(directory, made, self.reporter)
        if folder is not None:
            copy_owner(folder, directory)
        return plan_rewriting(directory, made, folder, f"converted ({_wanted(self._options)})")


def _wanted(options: dict[str, Any]) -> str:
    """The options that say what becomes of the records, as they were given."""
    names = ("to", "codec", "batch_bytes", "segment_bytes")
    return " ".join(f"--{name.replace('_', '-')} {options[name]}" for name in names if options[name] is not None)


def is_left_alone(path: str, reporter: Messages) -> bool:
    """Whether a partition of a log directory is not converted with the others; tells so."""
    name = os.path.basename(os.path.abspath(path))
    if name.startswith(METADATA_TOPIC + "-"):
        reporter.warning(f"{path}: left alone: the log of the cluster's metadata; name it to convert it")
        return True
    if name != own_name(path):
        reporter.warning(f"{path}: left alone: a broker has moved or deleted it; name it to convert it")
        return True
    return False


class Copies:
    """Conversions to new directories: all of a run, or none."""

    def __init__(self, options: dict[str, Any], presentation: Presentation, conversion: Conversion) -> None:
        self._options, self._presentation, self._conversion = options, presentation, conversion
        self._notices = presentation.notices()
        self._requests = Requests(options, self._notices)
        self._is_dry: bool = options["dry_run"]

    def run(self) -> int:
        output = self._options["output"]
        with open_report(self._is_dry, self._notices.error) as sink:
            printer = plan_printer(self._presentation.form, sink, self._presentation.color, self._is_dry, keeps=False)
            plans: list[Plan] = []
            model = next(map(resolved, filter(trees.isdir, self._options["paths"])), "")
            with new_directories(output, not self._options["no_lock"], self._is_dry, model) as made:
                for name, part, directory in self._parts(output):
                    folder = made.add(name, self._is_dry, directory or resolved(part) * (part != "-"))
                    plans.append(self._convert(part, directory, os.path.join(output, name), folder))
                for path in self._options["paths"]:
                    if trees.isdir(path) and not is_partition(path) and not self._is_dry:
                        write_root_copy(resolved(path), {}, made.folder)
            for plan in plans:
                printer.show(plan)
            printer.done()
            printer.finish(self._notices)
        return int(self._is_dry and bool(plans))

    def _parts(self, output: str) -> list[tuple[str, str, str | None]]:
        """The name of each new partition, with what is converted to it and `_place`. Raises PathError."""
        found: list[tuple[str, str, str | None]] = []
        sources: dict[str, str] = {}
        for path in self._options["paths"]:
            parts = expand_path(path)
            if parts != [path]:
                tell_passed_over(path, False, self._notices.warning)
            for part in parts:
                if path != part and is_left_alone(part, self._notices):
                    continue
                tell_passed_over(part, trees.isdir(part) and not segments_at(part), self._notices.warning)
                name, directory = _place(part)
                if name in sources:
                    raise PathError(
                        f"{sources[name]} and {part} would both become {os.path.join(output, name)}: convert them one "
                        "by one, each with an --output of its own; nothing was written"
                    )
                sources[name] = part
                found.append((name, part, directory))
        return found

    def _convert(self, path: str, directory: str | None, target: str, folder: str) -> Plan:
        files = [segment_file(path)] if directory is None else segments_of(directory)
        request, staged = self._requests.of(directory), None if self._is_dry else folder
        if staged is not None:
            check_space(staged, path, files, directory, request)
        rewritten = rewrite(path, files, directory, request, staged, self._conversion)
        tell(path, rewritten, self._notices)
        if directory is not None and not self._is_dry:
            complete(folder, directory, rewritten.carried)
        if not self._is_dry and rewritten.converted.gaps:
            note_gaps(folder, rewritten.converted.gaps)
        plan = Plan(target)
        for name, size in sorted(rewritten.files.items()):
            plan.steps.append(Step(CREATE, name, f"converted ({_wanted(self._options)})", None, size))
        return plan


def _place(path: str) -> tuple[str, str | None]:
    """Name of the new partition, and the directory that is converted, None for a single file."""
    if trees.isdir(path):
        return own_name(path), resolved(path)
    parent = "" if path == "-" else os.path.basename(os.path.dirname(os.path.abspath(path)))
    return own_name(os.path.dirname(os.path.abspath(path))) if parse_partition_name(parent) else NAMELESS, None
