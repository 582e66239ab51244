"""Converts partitions and segments to new partition directories: all of a run, or none."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from kseg.changes.accepted_gaps import all_accepted, record
from kseg.changes.copies import write_root_copy
from kseg.changes.disk import Disk
from kseg.changes.driver.path_run import Outcome
from kseg.changes.driver.paths import is_partition
from kseg.changes.driver.planner import ChangeOptions
from kseg.changes.driver.reporter import Messages, Reporter
from kseg.changes.new_directories import new_directories
from kseg.changes.plan import CREATE, Plan, Step
from kseg.conversion.options import ConvertOptions
from kseg.conversion.partition import convert_segments
from kseg.conversion.planner import Requests, check_space_to_rewrite, is_left_alone, report_losses
from kseg.conversion.rewriting import Conversion, complete, known_gaps, rewrite, segments_of
from kseg.errors import PathError
from kseg.logdir.topics import Topics
from kseg.segment.files import (
    LOG_DIRECTORY_FILES,
    file_names,
    holds_segments,
    own_name,
    parse_partition_name,
    segment_file,
)
from kseg.segment.paths import expand_path, segments_at, warn_of_skipped_files
from kseg.stores import trees
from kseg.stores.no_follow import resolved
from kseg.stores.source import STANDARD_INPUT

NAMELESS = "segment-0"
"""The partition of a segment whose directory is not named as a partition."""


class _Source(NamedTuple):
    """A path that becomes the partition ``name``. ``directory``: the partition directory, None for a single file."""

    name: str
    path: str
    directory: str | None


def convert_to_new(
    paths: Sequence[str],
    output: str,
    options: ConvertOptions,
    change: ChangeOptions,
    messages: Messages,
    conversion: Conversion = convert_segments,
) -> list[Plan]:
    """Converts the paths to partitions below ``output``, or plans that in a dry run. Returns a plan for each.

    ``conversion``: converts segments, here or elsewhere. Raises KsegError; nothing was written then.
    """
    is_dry, plans, requests = change.is_dry, [], Requests(options, messages)
    model = next(map(resolved, filter(trees.isdir, paths)), "")
    with new_directories(output, change.takes_lock, is_dry, model) as made:
        for source in _sources(paths, output, options, messages):
            is_file = source.directory is None and source.path != STANDARD_INPUT
            folder = made.add(source.name, is_dry, source.directory or resolved(source.path) * is_file)
            files = [segment_file(source.path)] if source.directory is None else segments_of(source.directory)
            request, staged = requests.of(source.directory), None if is_dry else folder
            if staged is not None:
                check_space_to_rewrite(staged, source.path, files, source.directory, request)
            rewritten = rewrite(source.path, files, source.directory, request, staged, conversion)
            report_losses(source.path, rewritten, messages)
            if source.directory is not None and not is_dry:
                complete(folder, source.directory, rewritten.carried)
            if not is_dry:
                place = source.directory or os.path.dirname(resolved(source.path)) or "."
                accepted = [] if source.path == STANDARD_INPUT else all_accepted(place)
                record(folder, [*accepted, *known_gaps(rewritten.converted.gaps)], Disk())
            plans.append(plan_of_new(os.path.join(output, source.name), rewritten.files, options.reason))
        for path in paths:
            if trees.isdir(path) and not is_partition(path) and not is_dry:
                write_root_copy(resolved(path), {}, made.folder)
    return plans


def run_to_new(
    paths: Sequence[str], output: str, options: ConvertOptions, change: ChangeOptions, reporter: Reporter
) -> Outcome:
    """Runs `convert_to_new`, and reports its plans as other changes do."""
    plans = convert_to_new(paths, output, options, change, reporter)
    reporter.begin(1, len(plans))
    for plan in plans:
        reporter.plan(plan)
    reporter.applied()
    return Outcome(int(change.is_dry and bool(plans)), change.is_dry, not change.is_dry and bool(plans))


def check_output(output: str) -> None:
    """Raises PathError if the output would be inside a partition or log directory, among the files of brokers."""
    place = os.path.realpath(output)
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    if os.path.isdir(folder) and (holds_segments(folder) or LOG_DIRECTORY_FILES & set(file_names(folder))):
        kind = "partition" if holds_segments(folder) else "log directory"
        raise PathError(f"{output}: is inside the {kind} {folder}; nothing was written: choose a path outside of it")


def plan_of_new(directory: str, files: dict[str, int], reason: str) -> Plan:
    """Returns the plan of a new directory with files of these sizes."""
    return Plan(directory, [Step(CREATE, name, reason, None, size) for name, size in sorted(files.items())])


def _sources(paths: Sequence[str], output: str, options: ConvertOptions, messages: Messages) -> list[_Source]:
    """Returns the source of each new partition. Raises PathError if two have the same name."""
    found: dict[str, _Source] = {}
    for path in paths:
        parts = expand_path(path)
        if parts != [path]:
            warn_of_skipped_files(path, False, messages.warning)
            parts = Topics(options.topics).named(path, parts)
        for part in parts:
            if path != part and is_left_alone(part, messages):
                continue
            warn_of_skipped_files(part, trees.isdir(part) and not segments_at(part), messages.warning)
            source = _source(part)
            if source.name in found:
                raise PathError(
                    f"{found[source.name].path} and {part} would both become {os.path.join(output, source.name)}: "
                    "convert them one by one, each with an --output of its own; nothing was written"
                )
            found[source.name] = source
    return list(found.values())


def _source(path: str) -> _Source:
    if trees.isdir(path):
        return _Source(own_name(path), path, resolved(path))
    folder = os.path.dirname(os.path.abspath(path))
    is_named = path != STANDARD_INPUT and parse_partition_name(os.path.basename(folder)) is not None
    return _Source(own_name(folder) if is_named else NAMELESS, path, None)
