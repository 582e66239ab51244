"""``kseg stats``: what the bytes of partitions are, their sizes and ages, and what another codec would save."""

from dataclasses import replace

import click

from kseg.cli import options as cli
from kseg.kernel.files.system import keep_freed_memory
from kseg.stores.archives.spool import Spool
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.remote.keys import private_keys as read_private_keys
from kseg.views.stats import Stats, StatsOptions


@click.command("stats", cls=cli.Command)
@cli.paths_argument()
@cli.filled(StatsOptions)
@cli.spool_options
@cli.output_options
def command(options: StatsOptions, spool: Spool) -> int:
    """Print statistics of each partition: keys, values, headers, codecs, sizes, offsets and times.

    More than ten partitions get one line each. Exit status 1: damage, a wrong checksum or undecodable records were
    found.
    """
    with cli.usage_errors():
        options.check()
    keep_freed_memory()
    options = replace(options, remote=RemoteChoice(read_private_keys(options.private_keys), options.topics))
    return cli.view(options, spool, lambda sink, options, notices: Stats(sink, options, notices).run())
