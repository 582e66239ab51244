"""``kseg cluster``: the cluster that the records of __cluster_metadata make."""

import click

from kseg.cli import options as cli
from kseg.stores.archives.spool import Spool
from kseg.views.cluster import ClusterOptions, show_clusters


@click.command("cluster", cls=cli.Command)
@cli.paths_argument()
@cli.filled(ClusterOptions)
@cli.spool_options
@cli.output_options
def command(options: ClusterOptions, spool: Spool) -> int:
    """Print the cluster that the records of __cluster_metadata make: topics, nodes, settings, quotas, ACLs, users.

    PATH is a log directory, the partition __cluster_metadata-0, or a snapshot (.checkpoint). Exit status 1: the log is
    damaged, or has a record that no node can replay.
    """
    return cli.view(options, spool, show_clusters)
