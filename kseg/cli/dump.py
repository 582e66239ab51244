"""``kseg dump``: the batches and records of segments, as kafka-dump-log.sh prints them or as JSON Lines."""

from dataclasses import replace

import click

from kseg.cli import options as cli
from kseg.dump.options import DumpOptions
from kseg.dump.run import Dump
from kseg.kernel.files.system import keep_freed_memory
from kseg.options.declaration import INPUT, Option
from kseg.output.sink import open_sink
from kseg.stores.archives.spool import Spool
from kseg.stores.place import Place
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.remote.keys import private_keys as read_private_keys


@click.command("dump", cls=cli.Command)
@cli.paths_argument(is_required=False)
@cli.with_options(
    {"files": Option("--files", INPUT, "The same as PATH, separated by commas.", metavar="A,B", is_hidden=True)}
)
@cli.filled(DumpOptions)
@cli.spool_options
@cli.engine_options
@cli.output_options
def command(options: DumpOptions, engine: cli.Engine, spool: Spool, files: str | None) -> int:
    """Print the batches and records of segments (.log, .kafka, .checkpoint).

    Text equals the output of kafka-dump-log.sh 4.4, but continues after damage. JSON is one object per line and loses
    no byte. Exit status 1: damage, a wrong checksum or undecodable records were found.

    \b
    That tool's own names work as well: --files,
    and --offsets-decoder, --transaction-log-decoder, --cluster-metadata-decoder,
    and --remote-log-metadata-decoder, --share-group-state-decoder,
    and --key-decoder-class, --value-decoder-class.
    """
    for word in options.paths if files else ():
        if word != "-" and not Place(word).lexists():
            raise click.UsageError(f"{word!r} is neither the value of an option nor a file: remove it")
    paths = [*options.paths, *(name for name in (files or "").split(",") if name)]
    if not paths:
        raise click.UsageError("no PATH is given")
    remote = RemoteChoice(read_private_keys(options.private_keys), options.topics)
    options = replace(options, paths=paths, remote=remote)
    with cli.usage_errors():
        options.check()
        if engine.is_spark:
            options.check_for_spark()
    keep_freed_memory()
    if not engine.is_spark:
        return cli.view(options, spool, lambda sink, options, _notices: Dump(sink, options).run())
    with open_sink(options.output) as sink, cli.spark_session(engine, options.jobs) as spark:
        from kseg.spark.jobs import renderer_on

        return Dump(sink, options, lambda files: renderer_on(spark, options, sink.is_terminal, files)).run()
