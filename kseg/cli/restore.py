"""``kseg restore``: brings partitions to where they are wanted."""

from functools import partial

import click

from kseg.changes.driver.command import ChangeOptions
from kseg.cli.changing import changing_options, open_printer
from kseg.cli.options import Command, filled, paths_argument, spool_options, usage_errors
from kseg.cli.recover import run_repair, settled
from kseg.output.changes import RebuiltLines
from kseg.output.notices import Presentation, on_one_line, put_line
from kseg.recovery.restoring import RestoreOptions, RestorePlanner
from kseg.stores.archives.spool import Spool, use_spool


@click.command("restore", cls=Command)
@paths_argument(is_required=False)
@filled(RestoreOptions)
@spool_options
@changing_options
def command(
    paths: tuple[str, ...], options: RestoreOptions, change: ChangeOptions, presentation: Presentation, spool: Spool
) -> int:
    """Bring partitions to where they are wanted, and recover them there as kseg recover does.

    --undelete takes back what a broker has set aside or deleted, --as gives a copy another name, --for-cluster makes
    partitions fit for another cluster, and --from-remote rebuilds them from tiered storage. Several of these can be
    combined. Removed bytes are kept: see kseg undo.
    """
    options = settled(options)
    with usage_errors():
        options.check(paths, change)
    with use_spool(spool):
        if options.from_remote is not None:
            return _from_remote(paths, options, change, presentation)
        return run_repair(paths, options, partial(RestorePlanner, options), change, presentation)


def _from_remote(
    paths: tuple[str, ...], options: RestoreOptions, change: ChangeOptions, presentation: Presentation
) -> int:
    """Rebuilds the selected partitions. Returns the exit status."""
    from kseg.recovery.remote import Rebuild  # few restorations read remote storage

    with usage_errors():
        rebuild = Rebuild(options, paths, change)
    with open_printer(presentation, change.is_dry, RebuiltLines) as printer:
        outcome = rebuild.run(printer)
        printer.finish(outcome)
        if printer.totals.names and not (change.is_dry or presentation.quiet or presentation.form == "json"):
            for line in rebuild.next_steps():
                put_line(on_one_line(line))
    return outcome.exit_status
