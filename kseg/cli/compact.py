"""``kseg compact``: what the broker's log cleaner does, on files at rest."""

from functools import partial
from typing import Any

import click

from kseg.changes.driver.planner import ChangeOptions
from kseg.cleaner.options import CompactOptions
from kseg.cleaner.planner import CompactionPlanner
from kseg.cli.changing import run_change
from kseg.cli.changing_options import changing_options, paths_argument
from kseg.cli.engine import Engine, engine_options, spark_session
from kseg.cli.eras import era_option
from kseg.cli.help import Command
from kseg.cli.options import ByteCount, Milliseconds, interval_option, server_option, threads_option, topic_option
from kseg.cli.times import now_option
from kseg.kernel.files.guard import keep_freed_memory
from kseg.output.changes.compaction import CompactionPrinter
from kseg.output.presentation import Presentation


@click.command("compact", cls=Command)
@paths_argument
@click.option("--min-compaction-lag-ms", "min_lag_ms", type=Milliseconds(), help="Younger records stay as they are.")
@click.option(
    "--max-compaction-lag-ms",
    "max_lag_ms",
    type=Milliseconds(),
    help="Older dirty records are cleaned whatever the ratio.",
)
@click.option(
    "--delete-retention-ms", type=Milliseconds(), help="How long tombstones and markers stay once they are cleaned."
)
@click.option(
    "--min-cleanable-ratio",
    "min_ratio",
    type=click.FloatRange(0, 1),
    metavar="RATIO",
    help="Clean only where more than this part of the log is dirty; default 0.5.",
)
@click.option("--segment-bytes", type=ByteCount(), help="Segments become one while they are no larger together.")
@click.option("--max-index-bytes", "index_bytes", type=ByteCount(), help="The same for their indexes.")
@interval_option
@click.option(
    "--memory", "memory_bytes", type=ByteCount(), help="For the map of keys; default: a quarter of what is available."
)
@now_option
@click.option("--until-clean", is_flag=True, help="Go on in rounds where the map is too small for all keys.")
@click.option("--include-active", "includes_active", is_flag=True, help="Clean the last segment too.")
@click.option(
    "--keep-format",
    "keeps_format",
    is_flag=True,
    help="Let messages v0 and v1 be what they are; default: they become v2.",
)
@click.option("--drop-null-keys", "drops_null_keys", is_flag=True, help="Go on where records have no key: they go.")
@click.option(
    "--force-policy",
    "forces_policy",
    is_flag=True,
    help="Compact topics too whose cleanup.policy is known and lacks compact.",
)
@threads_option
@topic_option
@server_option
@era_option("2.3")
@engine_options
@changing_options
def command(
    paths: tuple[str, ...],
    engine: Engine,
    change: ChangeOptions,
    presentation: Presentation,
    **given: Any,
) -> int:
    """Clean a partition directory, or the compacted partitions of a log directory, as the broker's log cleaner does.

    Of each key the last record stays; tombstones and the markers of transactions go when their time has come, aborted
    records at once. Without options the topics' own settings are followed, where __cluster_metadata lies beside the
    partitions. A log that is damaged is left alone. What goes is kept: kseg undo.
    """
    keep_freed_memory()
    options = CompactOptions(**given)
    if engine.is_spark and options.memory_bytes is not None:
        raise click.UsageError("--memory is for the local engine: on Spark the map is spread over the tasks")
    summaries = partial(CompactionPrinter, as_json=presentation.is_json)
    with spark_session(engine, options.jobs) as spark:
        make_planner = partial(CompactionPlanner, options)
        if spark is not None:
            from kseg.spark.compaction import SparkRound

            make_planner = partial(CompactionPlanner, options, remote_rounds=partial(SparkRound, spark=spark))
        return run_change(paths, make_planner, change, presentation, summaries).exit_status
