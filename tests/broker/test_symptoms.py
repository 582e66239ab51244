"""Real nodes, and what `kseg symptoms` finds in their whole logs: the cause first, nothing where all is well."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker.client import Client
from broker.nodes import KraftNode, NodeError
from kseg.symptoms.causes import causes_in
from verification.log_directories import edited

pytestmark = [pytest.mark.broker, pytest.mark.slow]

METADATA = "__cluster_metadata-0"


def overwritten(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda logs: (logs / name).write_bytes(data)


def removed(name: str) -> Callable[[Path], object]:
    return lambda logs: (logs / name).unlink()


SCENES: dict[str, Callable[[Path], object]] = {
    "broker-id": lambda logs: edited(logs, node_id="7"),
    "no-meta-properties": removed("meta.properties"),
    "bad-checkpoint": overwritten("recovery-point-offset-checkpoint", b"0\nmany\n"),
    "bad-leader-epochs": overwritten("made-0/leader-epoch-checkpoint", b"0\n1\n0 zero\n"),
    "bad-partition-metadata": overwritten("made-0/partition.metadata", b"version: 0\ntopic_id: none\n"),
    "not-a-partition": lambda logs: (logs / "lost+found").mkdir(),
    "metadata-log-empty": lambda logs: shutil.rmtree(logs / METADATA),
    "invalid-messages": overwritten(f"{METADATA}/{0:020}.log", bytes(100)),
    "quorum-state": overwritten(f"{METADATA}/quorum-state", b"{"),
}


@pytest.fixture(scope="module")
def stopped(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftNode]:
    """A node that has the partition made-0, and has ended well."""
    with KraftNode(tmp_path_factory.mktemp("node") / "node", client) as node:
        node.start()
        client.ask("create", node.address, "made", 1, "retention.ms=-1")
        client.ask("produce", node.address, "made", "none", 0, 5)
        node.stop()
        yield node


@pytest.fixture
def node(stopped: KraftNode, tmp_path: Path) -> Iterator[KraftNode]:
    """The node, whose log directory is put back afterwards."""
    copy = shutil.copytree(stopped.logs, tmp_path / "logs")
    yield stopped
    stopped.kill()
    shutil.rmtree(stopped.logs)
    shutil.copytree(copy, stopped.logs)


def causes(node: KraftNode) -> list[str]:
    return [found.symptom.name for found in causes_in(node.words().encode().splitlines(keepends=True))]


@pytest.mark.parametrize("cause", SCENES)
def test_the_cause_comes_first(cause: str, node: KraftNode) -> None:
    SCENES[cause](node.logs)
    with suppress(NodeError):  # most do not start
        node.start()
    node.stop()
    assert causes(node)[:1] == [cause]


def test_a_healthy_node_names_nothing(node: KraftNode) -> None:
    node.start()
    node.stop()
    assert causes(node) == []
