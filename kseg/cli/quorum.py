"""``kseg quorum``: brings the cluster's metadata log back, for its only voter or for a new quorum."""

from functools import partial

import click

from kseg.changes.driver.command import ChangeOptions
from kseg.cli.changing import open_printer, presentation_options, run_change, unlinked_options
from kseg.cli.options import Command, filled, paths_argument, usage_errors
from kseg.output.notices import Presentation
from kseg.recovery.metadata_log import QuorumOptions, RewritePlanner, metadata_paths, settings_after, write_new_quorum
from kseg.recovery.surviving_voter import Survivor, SurvivorPlanner


@click.command("quorum", cls=Command)
@paths_argument(is_required=False)
@filled(QuorumOptions)
@presentation_options()
@unlinked_options
def command(paths: tuple[str, ...], options: QuorumOptions, change: ChangeOptions, presentation: Presentation) -> int:
    """Bring the metadata log of a KRaft cluster back, from the log directory of any node.

    With --rewrite, the only voter of a quorum gets a snapshot of all records that can be replayed. With --survivor, of
    the copies that are left of a quorum the most advanced becomes that of its only voter; no other is changed. With
    --new, a new controller replaces a quorum that is lost: topics keep their ids, so brokers keep their partitions.
    PATH can be omitted if --topics-from names log directories: then these partitions are all that is known.
    """
    paths = metadata_paths(paths)
    with usage_errors():
        options.check(paths, change.output)
    if options.rewrites:
        return run_change(paths, partial(RewritePlanner, options), change, presentation).exit_status
    if options.survives:
        survivor = Survivor.among(paths, options)
        return run_change(
            [survivor.copy.path], partial(SurvivorPlanner, survivor, options), change, presentation
        ).exit_status
    with open_printer(presentation, change.is_dry) as printer:
        plan, snapshot = write_new_quorum(next(iter(paths), None), options, change, printer.warning)
        snapshot.report(printer.warning)
        outcome = printer.created([plan], damage_remains=bool(snapshot.left_out))
    if not change.is_dry:
        printer.warning(settings_after(options, snapshot))
    return outcome.exit_status
