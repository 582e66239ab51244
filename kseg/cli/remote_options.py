"""The options of remote storage."""

from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from kseg.cli.completion import complete_topics
from kseg.cli.options import CommandFunction, with_options


@dataclass(frozen=True, slots=True)
class RebuildOptions:
    """The options of ``kseg recover`` for remote storage; ``store`` is None without --from-remote."""

    store: str | None = None
    private_keys: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    new_cluster: str | None = None
    resets_epochs: bool = False
    name: str | None = None


_PRIVATE_KEY = click.option(
    "--private-key",
    "private_keys",
    multiple=True,
    metavar="ID=PEM",
    help="Remote storage: the private key of the key pair ID; may be repeated.",
)
_TOPIC = click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="GLOB",
    shell_complete=complete_topics,
    help="Only these topics of a log directory or remote storage, as orders or 'audit-*'; may be repeated.",
)
_REBUILD = (
    click.option(
        "--from-remote",
        metavar="REMOTE",
        help="Rebuild partitions from remote (tiered) storage in --output; PATH: a log directory that is left, if any.",
    ),
    _PRIVATE_KEY,
    _TOPIC,
    click.option(
        "--for-cluster",
        "new_cluster",
        type=click.Path(),
        metavar="LOGDIR",
        help="Make the partitions fit for the cluster of a broker: topic ids and log starts.",
    ),
    click.option(
        "--reset-epochs",
        "resets_epochs",
        is_flag=True,
        help="With --from-remote, --undelete, --as or --for-cluster: set the leader epochs of batches to 0, so that "
        "groups can continue at once.",
    ),
    click.option(
        "--as",
        "name",
        metavar="TOPIC",
        help="With --output: the new name of the topic, or TOPIC-N for one partition.",
    ),
)


def remote_options(command: CommandFunction) -> CommandFunction:
    """--private-key and --topic, of commands that read remote storage in place."""
    return _PRIVATE_KEY(_TOPIC(command))


def rebuild_options(command: CommandFunction) -> CommandFunction:
    """The options of ``kseg recover``, as ``remote``."""

    @wraps(command)
    def with_remote(
        from_remote: str | None,
        private_keys: tuple[str, ...],
        topics: tuple[str, ...],
        new_cluster: str | None,
        resets_epochs: bool,
        name: str | None,
        **given: Any,
    ) -> Any:
        remote = RebuildOptions(from_remote, private_keys, topics, new_cluster, resets_epochs, name)
        return command(remote=remote, **given)

    return with_options(with_remote, _REBUILD)
