"""``kseg convert --to jsonl|csv|parquet|arrow``: the records of segments as a stream in another form."""

import click

from kseg.cli.engine import Engine, spark_session
from kseg.conversion.options import ConvertOptions
from kseg.errors import DamageError, PathError
from kseg.export.record_files import SKIP_HINT, ExportOptions, export_records
from kseg.logdir.topics import of_topics
from kseg.output.notices import Presentation
from kseg.output.sink import open_sink


def export(paths: tuple[str, ...], options: ConvertOptions, presentation: Presentation, engine: Engine) -> int:
    """Writes the records of all paths to a file, completely or not at all, or to standard output. Returns the status.

    On Spark, Parquet is a directory.

    Raises UsageError for a binary form on a terminal, PathError if a path cannot be read, DamageError for damage
    without --skip-damage.
    """
    paths = tuple(of_topics(paths, options.topics))
    if options.form is None or options.form == "jsonl":
        return _as_json_lines(paths, options, presentation)
    target = options.target
    wanted = ExportOptions(
        paths=paths,
        form=options.form,
        codec=target.name if target else None,
        level=target.level if target and options.has_level else None,
        read_committed=options.read_committed,
        skips_damage=options.skips_damage,
        max_batch_bytes=options.max_batch_bytes,
        jobs=options.jobs,
    )
    wanted.check()
    with spark_session(engine, options.jobs) as spark:
        if spark is not None:
            from kseg.spark.conversion import write_parquet

            write_parquet(spark, wanted, options.output or "")
            return 0
    with open_sink(options.output) as sink:
        if sink.is_terminal and not wanted.is_text:
            raise click.UsageError(f"--to {options.form} is binary: give -o FILE, or a pipe")
        export_records(wanted, sink, presentation.notices().warning)
    return 0


def _as_json_lines(paths: tuple[str, ...], options: ConvertOptions, presentation: Presentation) -> int:
    """Writes the lines of ``kseg dump``, with all fields."""
    from kseg.dump.options import JSON, DumpOptions
    from kseg.dump.run import Dump

    wanted = DumpOptions(
        paths=paths,
        form=JSON,
        contents=True,
        read_committed=options.read_committed,
        max_batch_bytes=options.max_batch_bytes,
        jobs=options.jobs,
        output=options.output,
        color=presentation.color,
        quiet=presentation.quiet,
    )
    with open_sink(options.output) as sink:
        run = Dump(sink, wanted)
        status = run.run()
        if run.status:
            raise PathError("some paths could not be read")
        if status and not options.skips_damage:
            raise DamageError(f"damage found: kseg verify shows where; {SKIP_HINT}")
    return 0
