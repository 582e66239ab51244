"""``kseg compact``: the broker's log cleaner, on files at rest."""

from functools import partial
from typing import Any

import click

from kseg.changes.driver.planner import ChangeOptions
from kseg.cleaner.planner import CompactionPlanner
from kseg.cleaner.settings import CompactOptions
from kseg.cli.changing import run_change
from kseg.cli.changing_options import changing_options, paths_argument
from kseg.cli.engine import Engine, engine_options, spark_session
from kseg.cli.eras import era_option
from kseg.cli.help import Command
from kseg.cli.options import ByteCount, Milliseconds, interval_option, server_option, threads_option, topic_option
from kseg.cli.times import now_option
from kseg.kernel.files.system import keep_freed_memory
from kseg.output.changes.partitions import CompactionPrinter
from kseg.output.notices import Presentation


@click.command("compact", cls=Command)
@paths_argument
@click.option("--min-compaction-lag-ms", "min_lag_ms", type=Milliseconds(), help="Keep records younger than this.")
@click.option(
    "--max-compaction-lag-ms",
    "max_lag_ms",
    type=Milliseconds(),
    help="Clean dirty records older than this, whatever the ratio.",
)
@click.option(
    "--delete-retention-ms",
    type=Milliseconds(),
    help="Keep tombstones and markers for this time after their first cleaning.",
)
@click.option(
    "--min-cleanable-ratio",
    "min_ratio",
    type=click.FloatRange(0, 1),
    metavar="RATIO",
    help="Clean a log only if more than this part of it is dirty; default 0.5.",
)
@click.option("--segment-bytes", type=ByteCount(), help="Merge segments up to this size.")
@click.option("--max-index-bytes", "index_bytes", type=ByteCount(), help="Merge segments up to this size of an index.")
@interval_option
@click.option(
    "--memory",
    "memory_bytes",
    type=ByteCount(),
    help="Size of the key map; default: a quarter of the available memory.",
)
@now_option
@click.option("--until-clean", is_flag=True, help="Clean in several rounds if the key map is too small for all keys.")
@click.option("--include-active", "includes_active", is_flag=True, help="Clean the last segment too.")
@click.option(
    "--keep-format",
    "keeps_format",
    is_flag=True,
    help="Keep messages v0 and v1; default: convert them to v2.",
)
@click.option(
    "--drop-null-keys",
    "drops_null_keys",
    is_flag=True,
    help="Delete records without a key; default: refuse such a log.",
)
@click.option(
    "--force-policy",
    "forces_policy",
    is_flag=True,
    help="Also compact topics whose cleanup.policy lacks compact.",
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

    The last record of each key stays. Tombstones and transaction markers are deleted when they expire, aborted records
    at once. Without options, the topics' own settings apply, if the log directory holds __cluster_metadata. A damaged
    log is not changed. Removed bytes are kept: see kseg undo.
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
