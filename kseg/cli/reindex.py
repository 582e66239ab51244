"""``kseg reindex``: index files rebuilt from the .log, byte for byte as a broker's recovery builds them."""

from dataclasses import replace
from functools import partial
from typing import Any

import click

from kseg.changes.driver.planner import ChangeOptions
from kseg.cli.changing import run_change
from kseg.cli.changing_options import changing_options, paths_argument
from kseg.cli.eras import era_option
from kseg.cli.help import Command
from kseg.cli.options import interval_option, jobs_option, topic_option
from kseg.kernel.files.system import keep_freed_memory
from kseg.output.notices import Presentation
from kseg.recovery.options import ReindexOptions
from kseg.recovery.reindexing import ReindexPlanner


@click.command("reindex", cls=Command)
@paths_argument
@click.option("--snapshots", "with_snapshots", is_flag=True, help="Rebuild the producer snapshots too.")
@click.option("--check", is_flag=True, help="Change nothing; report missing and wrong indexes only.")
@era_option()
@interval_option
@topic_option
@jobs_option
@changing_options
def command(
    paths: tuple[str, ...],
    change: ChangeOptions,
    presentation: Presentation,
    check: bool,
    **given: Any,
) -> int:
    """Rebuild .index, .timeindex and .txnindex of partitions from the .log alone.

    The bytes are those of a broker's own rebuild. A damaged .log is skipped: repair it first with kseg recover.
    """
    keep_freed_memory()
    options = ReindexOptions(**given)
    change = replace(change, is_dry=change.is_dry or check)
    if check:
        from kseg.verification.reindex_check import ReindexCheck  # a rebuild needs no verification

        return run_change(paths, partial(ReindexCheck, options), change, presentation).exit_status
    return run_change(paths, partial(ReindexPlanner, options), change, presentation).exit_status
