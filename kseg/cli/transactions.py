"""``kseg transactions``: transactions that are open, hanging, or prepared and never completed."""

import click

from kseg.cli import options as cli
from kseg.stores.archives.spool import Spool
from kseg.views.transactions import TransactionList, TransactionsOptions


@click.command("transactions", cls=cli.Command)
@cli.paths_argument()
@cli.filled(TransactionsOptions)
@cli.spool_options
@cli.output_options
def command(options: TransactionsOptions, spool: Spool) -> int:
    """List transactions without an end marker, which block read_committed consumers, and those that stay prepared.

    A verdict says which are hanging, with the command that aborts them.
    """
    return cli.view(options, spool, lambda sink, options, notices: TransactionList(sink, options, notices).run())
