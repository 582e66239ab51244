"""``kseg convert`` of segments to segments: in place as a change, or to new directories, all of a run or none."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from kseg.changes.copies import write_root_copy
from kseg.changes.new_directories import new_directories
from kseg.changes.plan import CREATE, Plan, Step
from kseg.changes.staging import staging
from kseg.cli.changing import Known, is_partition, run_work
from kseg.cli.convert_options import asked
from kseg.cli.engine import spark_session
from kseg.convert.partition import convert_segments
from kseg.convert.request import Request
from kseg.convert.rewriting import (
    Conversion,
    Rewritten,
    complete,
    note_gaps,
    plan_rewriting,
    rewrite,
    segments_of,
    take_after,
)
from kseg.convert.room import check_room
from kseg.output.notices import Notices
from kseg.output.plans import plan_printer
from kseg.output.sink import open_sink
from kseg.recovery.intervals import chosen_interval
from kseg.recovery.workspace import Workspace
from kseg.segment.files import METADATA_TOPIC, expand_path, list_partitions, parse_partition_name, segment_file

NAMELESS = "segment-0"
"""The partition that a segment is of whose place does not tell."""


def convert(options: dict[str, Any], notices: Notices) -> int:
    """Does what the options ask for; the exit status."""
    with spark_session(options) as spark:
        return _convert(options, notices, _conversion(spark))


def _conversion(spark: Any) -> Conversion:
    """Where segments are converted."""
    if spark is None:
        return convert_segments
    from kseg.spark.conversion import SparkConversion

    return SparkConversion(spark)


def _convert(options: dict[str, Any], notices: Notices, conversion: Conversion) -> int:
    if not options["in_place"]:
        return Copies(options, notices, conversion).run()
    work = ConvertWork(options, notices, conversion)
    try:
        return run_work(options["paths"], work, {**options, "output": None})
    finally:
        work.close()


def _request(directory: str | None, options: dict[str, Any]) -> Request:
    """With the interval that the indexes of the directory show, where none is given."""
    request = asked(options)
    if options["index_interval_bytes"] is None and directory is not None:
        return replace(request, interval_bytes=chosen_interval(Workspace(directory), None).size)
    return request


def tell(name: str, made: Rewritten, notices: Notices) -> None:
    """What was passed over, left out and lost, for people."""
    found = made.converted
    for file, damage in found.skipped[:20]:
        notices.warning(
            f"{file}: {damage.code} at position {damage.position}, {damage.length} bytes left out: {damage.message}"
        )
    if len(found.skipped) > 20:
        notices.warning(f"{name}: {len(found.skipped) - 20} more damaged ranges are left out")
    if found.left_out:
        notices.warning(f"{name}: {found.left_out} batches left out that a read_committed consumer does not see")
    if found.losses:
        notices.warning(f"{name}: lost: {found.losses.sentence()}")
    notices.detail(f"{name}: {found.batches} batches, {found.old_bytes} bytes before, {found.new_bytes} after")


class ConvertWork:
    """Makes the plans of conversions in place."""

    command = "convert"
    root_names: tuple[str, ...] = ()
    damage_remains = False

    def __init__(self, options: dict[str, Any], notices: Notices, conversion: Conversion) -> None:
        self._options, self._notices, self._conversion = options, notices, conversion
        self._staged = ExitStack()

    def plan_partition(self, directory: str, known: Known) -> Plan:
        self._staged.close()
        return self._plan(directory, self._staged)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        parts = [path for path in list_partitions(directory) if not _is_metadata(path)]
        requests = [asked(self._options)] if not self._options["dry_run"] else []
        for request in requests:
            for path in parts:  # a partition that is refused is not to leave others changed
                if os.path.basename(path) not in done and request.magic in (0, 1) and not request.is_lossy:
                    rewrite(path, segments_of(path), path, request, None, self._conversion)
        for path in parts:
            if os.path.basename(path) not in done:
                with ExitStack() as staged:
                    yield self._plan(path, staged)

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        return Plan(directory)

    def _plan(self, directory: str, staged: ExitStack) -> Plan:
        files, folder, request = segments_of(directory), None, _request(directory, self._options)
        if not self._options["dry_run"]:
            check_room(directory, directory, files, directory, request)
            folder = staged.enter_context(staging(directory)).make_folder()
        made = rewrite(directory, files, directory, request, folder, self._conversion)
        tell(directory, made, self._notices)
        if folder is not None:
            take_after(folder, directory)
        return plan_rewriting(directory, made, folder, f"converted ({_wanted(self._options)})")

    def close(self) -> None:
        """Removes what was written for the last plan."""
        self._staged.close()


def _wanted(options: dict[str, Any]) -> str:
    """The options that say what becomes of the records, as they were given."""
    names = ("to", "codec", "batch_bytes", "segment_bytes")
    return " ".join(f"--{name.replace('_', '-')} {options[name]}" for name in names if options[name] is not None)


def _is_metadata(path: str) -> bool:
    return os.path.basename(os.path.abspath(path)).startswith(METADATA_TOPIC + "-")


class Copies:
    """Conversions to new directories: all of a run, or none."""

    def __init__(self, options: dict[str, Any], notices: Notices, conversion: Conversion) -> None:
        self._options, self._notices, self._conversion = options, notices, conversion
        self._is_dry: bool = options["dry_run"]

    def run(self) -> int:
        output = self._options["output"]
        with open_sink(None) as sink:
            printer = plan_printer(self._options["form"], sink, self._options["color"], keeps=False)
            plans: list[Plan] = []
            with new_directories(output, not self._options["no_lock"], self._is_dry) as made:
                for path in self._options["paths"]:
                    for part in expand_path(path):
                        if path == part or not _is_metadata(part):
                            name, directory = _place(part)
                            folder = made.add(name, self._is_dry)
                            plans.append(self._convert(part, directory, os.path.join(output, name), folder))
            for path in self._options["paths"]:
                if os.path.isdir(path) and not is_partition(path) and not self._is_dry:
                    write_root_copy(path, {}, output)
            for plan in plans:
                printer.show(plan)
            printer.totals.has_changed = not self._is_dry and bool(plans)
            printer.finish(self._notices, self._is_dry)
        return int(self._is_dry and bool(plans))

    def _convert(self, path: str, directory: str | None, target: str, folder: str) -> Plan:
        files = [segment_file(path)] if directory is None else segments_of(directory)
        request, staged = _request(directory, self._options), None if self._is_dry else folder
        if staged is not None:
            check_room(staged, path, files, directory, request)
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
    if os.path.isdir(path):
        return os.path.basename(os.path.abspath(path)), path
    parent = "" if path == "-" else os.path.basename(os.path.dirname(os.path.abspath(path)))
    return parent if parse_partition_name(parent) else NAMELESS, None
