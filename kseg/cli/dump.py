"""``kseg dump``: the batches and records of segments, as kafka-dump-log.sh prints them or as JSON Lines."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import click

from kseg.cli import options as cli
from kseg.dump.options import HTML, JSON, DumpOptions
from kseg.dump.run import Dump
from kseg.kernel.files.system import keep_freed_memory
from kseg.options.declaration import INPUT, Option
from kseg.output.notices import Notices
from kseg.output.sink import Sink, open_sink
from kseg.stores.archives.spool import Spool
from kseg.stores.place import Place
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.remote.keys import private_keys as read_private_keys


@click.command("dump", cls=cli.Command)
@cli.paths_argument(is_required=False)
@cli.with_options({"files": Option("--files", INPUT, "The same as PATH, separated by commas.", metavar="A,B")})
@cli.filled(DumpOptions)
@cli.spool_options
@cli.engine_options
@cli.output_options
def command(options: DumpOptions, engine: cli.Engine, spool: Spool, files: str | None) -> int:
    """Print the batches and records of segments (.log, .kafka, .checkpoint).

    Text equals the output of kafka-dump-log.sh 4.4, but continues after damage. JSON is one object per line and loses
    no byte. Exit status 1: damage, a wrong checksum or undecodable records were found.
    """
    as_page = options.form == HTML
    for word in options.paths if files else ():
        if word != "-" and not Place(word).lexists():
            raise click.UsageError(f"{word!r} is neither the value of an option nor a file: remove it")
    paths = [*options.paths, *(name for name in (files or "").split(",") if name)]
    if not paths:
        raise click.UsageError("no PATH is given")
    remote = RemoteChoice(read_private_keys(options.private_keys), options.topics)
    form = JSON if as_page and not options.image else options.form
    options = replace(options, paths=paths, form=form, remote=remote).with_implied()
    with cli.usage_errors():
        options.check()
    if as_page and not (options.summary or options.image):
        raise click.UsageError("--format html is for --summary and --image")
    keep_freed_memory()
    if engine.is_spark:
        with cli.usage_errors():
            options.check_for_spark()
    notices = Notices(options.color, options.quiet, options.verbose)
    with ExitStack() as stack:
        sink = stack.enter_context(open_sink(options.output))
        if as_page:
            from kseg.report.pages import IMAGE, SUMMARY, html_report

            kind, view = (IMAGE, "--image") if options.image else (SUMMARY, "--summary")
            sink = stack.enter_context(html_report(sink, kind, f"kseg dump {view}", options.paths))
        spark = stack.enter_context(cli.spark_session(engine, options.jobs))
        if spark is None:
            return cli.over_archives(options.paths, spool, notices, lambda paths: _dump(sink, options, paths))
        from kseg.spark.jobs import renderer_on

        return Dump(sink, options, lambda files: renderer_on(spark, options, sink.is_terminal, files)).run()


def _dump(sink: Sink, options: DumpOptions, paths: Sequence[str]) -> int:
    if options.image:
        from kseg.dump.image import dump_images

        return dump_images(sink, replace(options, paths=paths), Notices(options.color, options.quiet, options.verbose))
    return Dump(sink, replace(options, paths=paths)).run()
