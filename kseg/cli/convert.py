"""``kseg convert``: segments in another format, codec or size; records to and from other forms."""

from functools import partial

import click

from kseg.changes.driver.command import ChangeOptions
from kseg.cli import options as cli
from kseg.cli.changing import in_place_options, presentation_options, run_change, write_new
from kseg.conversion.options import JSON_LINES, ConvertOptions
from kseg.conversion.partition import convert_segments
from kseg.conversion.planner import Conversion, ConversionPlanner, check_output_of, convert_to_new
from kseg.kernel.files.system import keep_freed_memory
from kseg.node.topics import of_topics
from kseg.output.notices import Presentation, on_one_line
from kseg.output.sink import open_sink
from kseg.stores.archives.spool import Spool


@click.command("convert", cls=cli.Command)
@cli.paths_argument()
@cli.filled(ConvertOptions)
@cli.spool_options
@cli.engine_options
@in_place_options
@presentation_options("--report")  # -o is --output
def command(
    paths: tuple[str, ...],
    options: ConvertOptions,
    engine: cli.Engine,
    spool: Spool,
    change: ChangeOptions,
    presentation: Presentation,
) -> int:
    """Write the records of PATH in another format: older or newer segments, another codec, JSON Lines, CSV, Parquet.

    Segments keep offsets and timestamps; if only the codec changes, also everything else. Fields that an older format
    lacks are refused unless --lossy is given. PATH is a segment file, a partition or log directory, or - for a segment
    on standard input; with --from, files of that form; for Parquet and Arrow also directories of them.
    """
    keep_freed_memory()
    keeping = change.keeping
    of_changes = {
        "--quarantine": keeping.elsewhere is not None,
        "--no-quarantine": not keeping.keeps,
        "--dry-run": change.is_dry,
        "--no-lock": not change.takes_lock,
    }
    with cli.usage_errors():
        if engine.is_spark:
            options.check_for_spark()
        options.check_form([name for name, is_given in of_changes.items() if is_given])
    if not options.is_export:
        if options.in_place == bool(options.output):
            raise click.UsageError("give either --output DIR or --in-place")
        if options.output and (keeping.elsewhere or not keeping.keeps):
            raise click.UsageError("--output removes nothing: no --quarantine, no --no-quarantine")
        with cli.usage_errors():
            options.check()
    if options.output not in (None, "-"):
        check_output_of(options, options.output, paths)
    if (options.is_export or options.source) and (presentation.as_page or presentation.report):
        raise click.UsageError("--format html and --report are not for --from and exports")
    if options.in_place:
        return _convert(paths, options, engine, change, presentation)
    if options.source:
        from kseg.conversion.record_files import prepare_pyarrow
        from kseg.conversion.record_import import import_records

        if options.source != "jsonl":
            prepare_pyarrow()
        return write_new(partial(import_records, paths, options.output or "", options), change, presentation)
    work = partial(_convert, options=options, engine=engine, change=change, presentation=presentation)
    if options.is_export:
        work = partial(_export, options=options, change=change, presentation=presentation, engine=engine)
    return cli.over_archives(paths, spool, presentation.notices(), work)


def _convert(
    paths: tuple[str, ...],
    options: ConvertOptions,
    engine: cli.Engine,
    change: ChangeOptions,
    presentation: Presentation,
) -> int:
    with cli.spark_session(engine, options.jobs) as spark:
        conversion: Conversion = convert_segments
        if spark is not None:
            from kseg.spark.jobs import convert_on_spark

            conversion = partial(convert_on_spark, spark)
        if options.in_place:
            make_planner = partial(ConversionPlanner, options, conversion=conversion)
            return run_change(paths, make_planner, change, presentation).exit_status
        write = partial(convert_to_new, paths, options.output or "", options, conversion=conversion)
        return write_new(write, change, presentation)


def _export(
    paths: tuple[str, ...],
    options: ConvertOptions,
    change: ChangeOptions,
    presentation: Presentation,
    engine: cli.Engine,
) -> int:
    """Writes the records of all paths to a file, completely or not at all, or to standard output. Returns the status.

    On Spark, Parquet is a directory.

    Raises UsageError for a binary form on a terminal, PathError if a path cannot be read, DamageError for damage
    without --skip-damage.
    """
    from kseg.conversion.record_files import CSV, check_form, export_records, export_to_new  # not for segments

    paths = tuple(of_topics(paths, options.topics, presentation.notices().warning))
    if options.form is None or options.form == JSON_LINES:
        from kseg.dump.json_lines import write_json_lines  # with all of a dump

        with open_sink(options.output) as sink:
            write_json_lines(paths, options, sink, presentation)
        return 0
    check_form(options)
    with cli.spark_session(engine, options.jobs) as spark:
        if spark is not None:
            from kseg.spark.jobs import write_parquet

            write_parquet(spark, paths, options)
            return 0
    if options.partition_by:
        export_to_new(open_sink, paths, options.output or "", options, change, presentation.notices())
        return 0
    with open_sink(options.output) as sink:
        if sink.is_terminal and options.form != CSV:
            raise click.UsageError(f"--to {options.form} is binary: give -o FILE, or a pipe")
        export_records(paths, options, sink, presentation.notices().warning, on_one_line if sink.is_terminal else None)
    return 0
