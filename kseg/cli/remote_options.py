"""The options of remote storage."""

from collections.abc import Callable
from typing import Any

import click

_PRIVATE_KEY = click.option(
    "--private-key",
    "private_keys",
    multiple=True,
    metavar="ID=PEM",
    help="Of remote storage: the private key of the key pair ID; may be repeated.",
)
_TOPIC = click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="GLOB",
    help="Of remote storage only such topics, as orders or 'audit-*'; may be repeated.",
)
_REBUILD = (
    click.option(
        "--from-remote",
        metavar="REMOTE",
        help="Rebuild partitions from remote (tiered) storage in --output; PATH is a broker's log directory, if one is "
        "left.",
    ),
    _PRIVATE_KEY,
    _TOPIC,
    click.option(
        "--for-cluster",
        type=click.Path(),
        metavar="LOGDIR",
        help="With --from-remote: take the ids of topics from a broker of the new cluster.",
    ),
    click.option(
        "--reset-epochs",
        is_flag=True,
        help="With --from-remote: set the leader epochs of all batches to 0, so that groups go on at once.",
    ),
    click.option("--as", "as_topic", metavar="TOPIC", help="With --from-remote: the new name of the topic."),
)


def remote_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--private-key and --topic, of commands that read remote storage in place."""
    return _PRIVATE_KEY(_TOPIC(command))


def rebuild_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Those of ``kseg recover``."""
    for option in reversed(_REBUILD):
        command = option(command)
    return command
