"""``kseg reindex``: index files rebuilt from the .log, byte for byte as a broker's recovery builds them."""

from dataclasses import replace
from functools import partial

import click

from kseg.changes.driver.command import ChangeOptions
from kseg.cli.changing import changing_options, run_change
from kseg.cli.options import Command, filled, paths_argument
from kseg.output.notices import Presentation
from kseg.recovery.options import ReindexOptions
from kseg.recovery.planner import ReindexPlanner


@click.command("reindex", cls=Command)
@paths_argument()
@filled(ReindexOptions)
@changing_options
def command(paths: tuple[str, ...], options: ReindexOptions, change: ChangeOptions, presentation: Presentation) -> int:
    """Rebuild .index, .timeindex and .txnindex of partitions from the .log alone.

    The bytes are those of a broker's own rebuild. A damaged .log is skipped: repair it first with kseg recover.
    """
    change = replace(change, is_dry=change.is_dry or options.checks)
    if options.checks:
        from kseg.verification.recovery_checks import ReindexCheck  # a rebuild needs no verification

        return run_change(paths, partial(ReindexCheck, options), change, presentation).exit_status
    return run_change(paths, partial(ReindexPlanner, options), change, presentation).exit_status
