"""``kseg retain``: deletes segments as a broker's retention does, and explains why the others stay."""

from dataclasses import replace
from functools import partial
from typing import Any

import click

from kseg.changes.driver.planner import ChangeOptions
from kseg.cli.changing import run_change
from kseg.cli.changing_options import changing_options, paths_argument
from kseg.cli.eras import era_option
from kseg.cli.help import Command
from kseg.cli.options import ByteCount, Milliseconds, server_option, topic_option
from kseg.cli.times import now_option
from kseg.output.changes.partitions import retention_printer
from kseg.output.notices import Presentation
from kseg.releases.recovery import Era
from kseg.retention.partition_plan import RetainOptions
from kseg.retention.planner import RetentionPlanner
from kseg.segment.files import LAST_OFFSET


class _LimitOfBytes(ByteCount):
    """A number of bytes, or -1."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return -1 if value == "-1" else super().convert(value, param, ctx)


@click.command("retain", cls=Command)
@paths_argument
@click.option(
    "--retention-ms",
    type=Milliseconds(has_none=True),
    help="Delete segments older than this, ms or as 7d; -1: no limit.",
)
@click.option(
    "--retention-bytes",
    type=_LimitOfBytes(),
    help="Delete the oldest segments while at least this size remains; -1: no limit.",
)
@click.option(
    "--log-start-offset",
    type=click.IntRange(0, LAST_OFFSET),
    metavar="N",
    help="Delete records below offset N, as DeleteRecords does.",
)
@click.option(
    "--policy",
    type=click.Choice(["delete", "compact", "compact,delete"]),
    help="cleanup.policy; with compact alone, only segments below the log start offset are deleted.",
)
@topic_option
@server_option
@now_option
@click.option("--keep-active", "keeps_active", is_flag=True, help="Never touch the last segment.")
@click.option(
    "--explain", "explains", is_flag=True, help="Explain why each segment is deleted or kept; change nothing."
)
@era_option()
@changing_options
def command(paths: tuple[str, ...], era: Era, change: ChangeOptions, presentation: Presentation, **given: Any) -> int:
    """Apply retention to a partition directory, or to the partitions of a log directory, as a broker does.

    Without options, the topics' own settings apply, if the log directory holds __cluster_metadata. Segments are renamed
    to .deleted, which a broker removes at its start. The quarantine keeps them: see kseg undo.
    """
    options = RetainOptions(release=era.release, counts_records=presentation.verbose, **given)
    summaries = None
    if options.explains:
        change = replace(change, is_dry=True)
    if options.explains or presentation.is_json:
        summaries = partial(retention_printer, presentation.form, presentation.color)
    counts_only = options.explains and (presentation.as_page or not presentation.is_json)
    outcome = run_change(paths, partial(RetentionPlanner, options), change, presentation, summaries, counts_only)
    return 0 if options.explains and outcome.exit_status == 1 else outcome.exit_status
