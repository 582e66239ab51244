"""``kseg groups``: the committed offsets of consumer groups, with lags, and share groups."""

import click

from kseg.cli import options as cli
from kseg.stores.archives.spool import Spool
from kseg.views.groups import Groups, GroupsOptions


@click.command("groups", cls=cli.Command)
@cli.paths_argument()
@cli.filled(GroupsOptions)
@cli.spool_options
@cli.output_options
def command(options: GroupsOptions, spool: Spool) -> int:
    """List the committed offsets of consumer groups, with lags, and where share groups stand.

    PATH is a log directory, or partitions of __consumer_offsets. Exit status 1: damage was found there, so that
    commits may be missing.
    """
    return cli.view(options, spool, lambda sink, options, notices: Groups(sink, options, notices).run())
