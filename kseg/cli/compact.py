"""``kseg compact``: the broker's log cleaner, on files at rest."""

from functools import partial

import click

from kseg.changes.driver.command import ChangeOptions
from kseg.cleaner.planner import CompactionPlanner
from kseg.cleaner.settings import CompactOptions
from kseg.cli.changing import changing_options, run_change
from kseg.cli.options import Command, Engine, engine_options, filled, paths_argument, spark_session
from kseg.kernel.files.system import keep_freed_memory
from kseg.output.notices import Presentation


@click.command("compact", cls=Command)
@paths_argument()
@filled(CompactOptions)
@engine_options
@changing_options
def command(
    paths: tuple[str, ...],
    options: CompactOptions,
    engine: Engine,
    change: ChangeOptions,
    presentation: Presentation,
) -> int:
    """Clean a partition directory, or the compacted partitions of a log directory, as the broker's log cleaner does.

    The last record of each key stays. Tombstones and transaction markers are deleted when they expire, aborted records
    at once. Without options, the topics' own settings apply, if the log directory holds __cluster_metadata. A damaged
    log is not changed. Removed bytes are kept: see kseg undo.
    """
    keep_freed_memory()
    if engine.is_spark and options.memory_bytes is not None:
        raise click.UsageError("--memory is for the local engine: on Spark the map is spread over the tasks")
    with spark_session(engine, options.jobs) as spark:
        make_planner = partial(CompactionPlanner, options)
        if spark is not None:
            from kseg.spark.compaction import SparkRound

            make_planner = partial(CompactionPlanner, options, remote_rounds=partial(SparkRound, spark=spark))
        return run_change(paths, make_planner, change, presentation).exit_status
