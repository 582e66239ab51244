"""A real broker starts on side files that kseg has made anew, and serves all records; on the bad ones it does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import Client
from broker.nodes import KraftNode
from broker.scenes import TOPIC, kseg

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PLACES = [("orders", 0), ("plain", 0)]


@pytest.fixture
def node(client: Client, tmp_path: Path) -> Iterator[KraftNode]:
    """Stopped in good order, with the records of PLACES; "orders" has two partitions."""
    with KraftNode(tmp_path / "node", client) as node:
        node.start()
        for topic, partitions in (("orders", 2), ("plain", 1)):
            node.create(topic, partitions, *TOPIC)
            client.ask("produce", node.address, topic, "none", 0, 50)
        yield node


def test_a_broker_starts_on_what_was_rebuilt(node: KraftNode, client: Client) -> None:
    served = {place: client.consume(node.address, *place, "read_uncommitted") for place in PLACES}
    node.stop()
    epochs, metadata = node.logs / "plain-0/leader-epoch-checkpoint", node.logs / "orders-0/partition.metadata"
    wanted = metadata.read_bytes()
    epochs.write_bytes(b"\0" * 20)
    metadata.unlink()
    (node.logs / "recovery-point-offset-checkpoint").write_bytes(b"\0" * 20)
    kseg("recover", node.logs, status=3)
    kseg("recover", "--rebuild-epochs", node.logs)
    assert metadata.read_bytes() == wanted
    node.start()
    assert {place: client.consume(node.address, *place, "read_uncommitted") for place in PLACES} == served
    assert not list(node.logs.glob("*-stray"))
    node.stop()


def test_a_broker_starts_once_recover_has_taken_a_lost_topic_id_from_the_metadata(node: KraftNode) -> None:
    node.stop()
    (node.logs / "plain-0/partition.metadata").write_bytes(b"\0" * 20)
    assert "partition.metadata" in node.start_in_vain()
    kseg("recover", node.logs)
    node.start()
