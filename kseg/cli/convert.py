"""``kseg convert``: segments in another format, codec or size; records to and from other forms."""

from functools import partial
from typing import Any

import click

from kseg.changes.driver.planner import ChangeOptions
from kseg.cli.archives import over_archives, spool_options
from kseg.cli.changing_options import change_options, common_options, keeping_options
from kseg.cli.convert_options import check_usage, convert_options
from kseg.cli.engine import Engine, engine_options, spark_session
from kseg.cli.help import Command
from kseg.conversion.options import ConvertOptions
from kseg.conversion.planner import check_output
from kseg.kernel.files.system import keep_freed_memory
from kseg.output.notices import Presentation
from kseg.stores.archives.spool import Spool


@click.command("convert", cls=Command)
@convert_options
@spool_options
@engine_options
@keeping_options
@partial(common_options, has_short_report=False)  # -o is --output
def command(
    paths: tuple[str, ...],
    engine: Engine,
    spool: Spool,
    presentation: Presentation,
    dry_run: bool,
    no_lock: bool,
    quarantine: str | None,
    no_quarantine: bool,
    to: str | None,
    **given: Any,
) -> int:
    """Write the records of PATH in another format: older or newer segments, another codec, JSON Lines, CSV, Parquet.

    Segments keep offsets and timestamps; if only the codec changes, also everything else. Fields that an older format
    lacks are refused unless --lossy is given. PATH is a segment file, a partition or log directory, or - for a segment
    on standard input; with --from jsonl, a file of JSON Lines.
    """
    keep_freed_memory()
    options = ConvertOptions(form=to, **given)
    change = change_options(dry_run, no_lock, quarantine, no_quarantine)
    check_usage(options, change, engine)
    if options.output not in (None, "-"):
        check_output(options.output)
    if (options.is_export or options.from_lines) and (presentation.as_page or presentation.report):
        raise click.UsageError("--format html and --report are for conversions to segments")
    if options.in_place:
        return _convert(paths, options, engine, change, presentation)
    if options.from_lines:
        return _import(paths, options, change, presentation)
    work = partial(_convert, options=options, engine=engine, change=change, presentation=presentation)
    if options.is_export:
        from kseg.cli.exports import export

        work = partial(export, options=options, presentation=presentation, engine=engine)
    return over_archives(paths, spool, presentation.notices(), work)


def _import(paths: tuple[str, ...], options: ConvertOptions, change: ChangeOptions, presentation: Presentation) -> int:
    from kseg.cli.changing import write_new
    from kseg.conversion.lines_import import import_lines

    return write_new(partial(import_lines, paths, options.output or "", options), change, presentation)


def _convert(
    paths: tuple[str, ...],
    options: ConvertOptions,
    engine: Engine,
    change: ChangeOptions,
    presentation: Presentation,
) -> int:
    from kseg.cli.changing import run_change, write_new
    from kseg.conversion.partition import convert_segments
    from kseg.conversion.planner import ConversionPlanner, convert_to_new
    from kseg.conversion.rewriting import Conversion

    with spark_session(engine, options.jobs) as spark:
        conversion: Conversion = convert_segments
        if spark is not None:
            from kseg.spark.conversion import SparkConversion

            conversion = SparkConversion(spark)
        if options.in_place:
            make_planner = partial(ConversionPlanner, options, conversion=conversion)
            return run_change(paths, make_planner, change, presentation).exit_status
        write = partial(convert_to_new, paths, options.output or "", options, conversion=conversion)
        return write_new(write, change, presentation)
