"""``kseg recover``: repairs logs as a broker's start after a crash does, or keeps every intact batch."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import click
from click.core import ParameterSource

from kseg.changes.driver.command import ChangeOptions, Messages
from kseg.cli.changing import changing_options, run_change
from kseg.cli.options import Command, filled, paths_argument, spool_options, usage_errors
from kseg.errors import RequestError
from kseg.formats.rows import Scratch
from kseg.node.node import Nodes
from kseg.options.declaration import given_in
from kseg.output.notices import Presentation
from kseg.output.sink import STANDARD_OUTPUT, open_sink
from kseg.recovery.options import BROKER, SALVAGE, RecoverOptions, RepairOptions
from kseg.recovery.planner import Checks, RecoveryPlanner, check_one_topic
from kseg.stores.archives.spool import Spool, use_spool
from kseg.stores.no_follow import resolved

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
    with use_spool(spool):
        return run_repair(paths, options, partial(RecoveryPlanner, options), change, presentation)


def settled(options: _Options) -> _Options:
    """Returns the options with the mode that others of them imply. Raises UsageError if another one is given."""
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
