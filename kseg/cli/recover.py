"""``kseg recover``: repairs logs as a broker's start after a crash does, or keeps every intact batch."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import click
from click.core import ParameterSource

from kseg.changes.driver.command import ChangeOptions, Messages
from kseg.cli.changing import changing_options, open_plans, run_change
from kseg.cli.options import Command, filled, paths_argument, spool_options, usage_errors
from kseg.errors import RequestError, refuse_if
from kseg.formats.rows import Scratch
from kseg.kernel.files.system import keep_freed_memory
from kseg.node.node import Nodes
from kseg.options.declaration import given_in, refuse
from kseg.output.changes import CarvedTable, plan_printer
from kseg.output.notices import Presentation, on_one_line
from kseg.output.progress import Progress
from kseg.output.sink import STANDARD_OUTPUT, open_sink
from kseg.quantities import plural
from kseg.recovery.options import BROKER, SALVAGE, RecoverOptions, RepairOptions
from kseg.recovery.planner import Checks, RecoveryPlanner, check_one_topic
from kseg.runtime.threads import usable_cores
from kseg.stores.archives.spool import Spool, use_spool
from kseg.stores.no_follow import resolved

MAX_PAIRS = 5
"""Pairs of logs that messages name; JSON has all."""
_IMPLY_SALVAGE = ("--from-replica", "--records", "--drop-undecodable", "--drop-batch")
_Options = TypeVar("_Options", bound=RepairOptions)


@click.command("recover", cls=Command)
@paths_argument()
@filled(RecoverOptions)
@spool_options
@changing_options
def command(
    paths: tuple[str, ...], options: RecoverOptions, change: ChangeOptions, presentation: Presentation, spool: Spool
) -> int:
    """Repair a partition directory, or all partitions of a log directory, after a crash or disk damage.

    Mode broker produces the same bytes as a start of the newest broker, or of release --era: it truncates the log at
    the first invalid batch, deletes later segments, and rebuilds indexes and snapshots. Mode salvage keeps every intact
    batch at its own offset; use it for the last copy, because a replica never fetches the gaps again. Removed bytes are
    kept: see kseg undo.
    """
    options = settled(options)
    options = replace(options, from_replica=resolved(options.from_replica) if options.from_replica else None)
    with usage_errors():
        is_carving = _is_carving(options, change)
    with use_spool(spool):
        if is_carving:
            return _carve(paths, options.likes, options.jobs or usable_cores(), change, presentation)
        return run_repair(paths, options, partial(RecoveryPlanner, options), change, presentation)


def _is_carving(options: RecoverOptions, change: ChangeOptions) -> bool:
    given = given_in(options)
    if options.carves:
        refuse(sorted(given - {"--carve", "--like", "--jobs"}), given, "excludes --carve")
        refuse_if(change.output is None, "--carve needs --output: an image is only read")
        refuse_if(change.links, "--link excludes --carve")
    else:
        refuse(("--like",), given, "is for --carve")
    return options.carves


def settled(options: _Options) -> _Options:
    """Returns the options with the mode that others of them imply. Raises UsageError if another one is given."""
    keep_freed_memory()
    given = given_in(options)
    implying = [name for name in _IMPLY_SALVAGE if name in given]
    has_mode = click.get_current_context().get_parameter_source("mode") is ParameterSource.COMMANDLINE
    if implying and options.mode == BROKER and has_mode:
        raise click.UsageError(f"{implying[0]} excludes --mode broker")
    mode = SALVAGE if implying else options.mode
    return replace(options, mode=mode, drop_batches=frozenset(options.drop_batches))


def run_repair(
    paths: tuple[str, ...],
    options: RepairOptions,
    planner: Callable[..., RecoveryPlanner],
    change: ChangeOptions,
    presentation: Presentation,
) -> int:
    """Recovers or restores local partitions. Returns the exit status."""

    def make_checks(nodes: Nodes) -> Checks:
        from kseg.verification.recovery_checks import RecoveryChecks  # most recoveries start without them

        return RecoveryChecks(nodes)

    make_planner = partial(planner, make_checks=make_checks)
    with usage_errors():
        check_one_topic(options, paths, "the paths are of several topics")
        if options.records is not None:
            make_planner = partial(make_planner, write_records=_records_file(options.records, paths))
    return run_change(paths, make_planner, change, presentation).exit_status


def _records_file(path: str, paths: Sequence[str]) -> Callable[[Iterable[str], bool, Messages], None]:
    """Returns the writer of the file of --records: the readable records of broken batches, as JSON Lines, of all
    directories, completely or not at all; a dry run only counts them. ``paths``: those of the command.

    Raises RequestError for standard output, for several PATHs, and if the file would be in PATH. The writer raises
    PathError if a segment cannot be read or the file cannot be made, StoppedHalfwayError if writing fails.
    """
    if path == STANDARD_OUTPUT:
        raise RequestError("--records takes a file: standard output is for the plan")
    if len(paths) > 1:
        raise RequestError("--records takes one PATH, because the file is written before PATH is changed")
    place = os.path.realpath(paths[0])
    if os.path.commonpath([place, os.path.realpath(path)]) == place:
        raise RequestError("--records: the file must not be in PATH, where brokers would find it")

    def write(directories: Iterable[str], is_dry: bool, messages: Messages) -> None:
        from kseg.output.jsonl import UnprovenRecords
        from kseg.recovery.salvage.salvage import broken_batches, files_of

        scratch = Scratch()
        with open_sink(os.devnull if is_dry else path) as sink:
            records = UnprovenRecords(sink, scratch)
            for directory in directories:
                for file in files_of(directory):
                    records.begin(file)
                    for batch in broken_batches(file, scratch):
                        records.batch(batch)
                    records.finish()
        done = "would be" if is_dry else "were"
        messages.warning(f"{path}: {records.count} records of broken batches {done} written, unproven")

    return write


def _carve(
    images: Sequence[str], likes: Sequence[str], jobs: int, change: ChangeOptions, presentation: Presentation
) -> int:
    """Carves the images to ``change.output``, and prints what was found. Returns the exit status: 1 if nothing was."""
    from kseg.carving.directories import carve, image_bytes  # few recoveries carve

    notices = presentation.notices()
    with open_plans(presentation, change.is_dry, notices.error) as sink:
        if presentation.form == "json":
            printer = plan_printer(presentation, sink, notices, change.is_dry, keeps=False)
        else:
            printer = CarvedTable(sink, notices, change.is_dry, keeps=False, is_quiet=presentation.quiet)
        with Progress(sum(map(image_bytes, images)), presentation.quiet) as progress:
            notices.before = progress.erase
            carved = carve(images, change, likes, jobs, progress.advance)
        printer.created(carved.plans, facts=carved.summary())
    found = f"found {plural(carved.batches, 'batch', 'batches')} of {plural(len(carved.plans), 'log', 'logs')}"
    more = [f"{plural(carved.duplicates, 'copy', 'copies')} left out"] if carved.duplicates else []
    more += [f"{plural(carved.mended, 'cut batch', 'cut batches')} put together"] if carved.mended else []
    more += [f"{plural(carved.torn, 'batch', 'batches')} cut off"] if carved.torn else []
    if carved.given_up:
        more.append(f"for {carved.given_up:,} of these, only a part of the image was searched for the rest")
    if carved.unfit:
        more.append(f"{plural(carved.unfit, 'batch', 'batches')} left out, whose offsets no log can have")
    notices.warning("; ".join([found if carved.plans else "found no batches", *more]))
    if carved.read_in_part:
        read = plural(carved.read_in_part, "log of internal topics", "logs of internal topics")
        notices.warning(f"{read} read only in part for names: --like may name more")
    for one, two in carved.undecided[:MAX_PAIRS]:
        notices.warning(f"{on_one_line(one)} and {on_one_line(two)} may be parts of one log: nothing decides it")
    if len(carved.undecided) > MAX_PAIRS:
        notices.warning(f"so may {len(carved.undecided) - MAX_PAIRS} more pairs of logs: --format json names them")
    for cluster, node in carved.nodes[:MAX_PAIRS]:
        notices.warning(f"found meta.properties of node {node}, cluster {on_one_line(cluster)}")
    if len(carved.nodes) > MAX_PAIRS:
        notices.warning(f"and of {len(carved.nodes) - MAX_PAIRS} more nodes: --format json names them")
    if carved.plans and not change.is_dry:
        notices.warning("look at the result with:", f"kseg verify {change.output}")
    return int(not carved.plans or change.is_dry)
