"""A node alone whose metadata log is damaged starts on a new snapshot, and serves what it had."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import Client
from broker.nodes import KraftNode
from broker.scenes import kseg

pytestmark = [pytest.mark.broker, pytest.mark.slow]

RECORDS = 20


def damage(logs: Path, word: bytes) -> None:
    """Flips a bit of the batch of metadata that holds the word."""
    for log in sorted((logs / "__cluster_metadata-0").glob("*.log")):
        data = bytearray(log.read_bytes())
        if (at := data.find(word)) >= 0:
            data[at] ^= 0x20
            log.write_bytes(data)
            return
    raise AssertionError(word)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, client: Client) -> Iterator[KraftNode]:
    with KraftNode(tmp_path_factory.mktemp("metadata") / "node", client) as node:
        node.start()
        for topic in ("first", "second"):
            node.create(topic, 1, "retention.ms=-1")  # the records are old
            client.ask("produce", node.address, topic, "none", 0, RECORDS)
        yield node


def test_a_node_alone_starts_on_a_new_snapshot(node: KraftNode, client: Client) -> None:
    before = client.consume(node.address, "first", 0)
    topic_id = (node.logs / "first-0" / "partition.metadata").read_bytes()
    node.kill()
    damage(node.logs, b"second")
    advice = kseg("verify", "--format", "json", node.logs, status=1).stdout
    assert "--metadata-snapshot" in advice
    assert "salvage" not in advice
    kseg("recover", "--metadata-snapshot", node.logs)
    node.start()
    assert client.consume(node.address, "first", 0) == before
    assert (node.logs / "first-0" / "partition.metadata").read_bytes() == topic_id
    node.create("third", 1, "retention.ms=-1")
    client.ask("produce", node.address, "third", "none", 0, RECORDS)
    assert len(client.consume(node.address, "third", 0)) == RECORDS
