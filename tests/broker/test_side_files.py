"""A real broker starts on side files that kseg has made anew, and serves all records; on the bad ones it does not."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import Client
from broker.nodes import KraftNode
from broker.scenes import TOPIC, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PLACES = [("orders", 0), ("plain", 0)]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Client(tmp_path_factory.mktemp("client")) as client:
        yield client


@pytest.fixture
def node(client: Client, tmp_path: Path) -> Iterator[KraftNode]:
    """Stopped in good order, with the records of PLACES; "orders" has two partitions."""
    node = KraftNode(tmp_path / "node", client)
    try:
        node.start()
        for topic, partitions in (("orders", 2), ("plain", 1)):
            client.ask("create", node.address, topic, partitions, *TOPIC)
            wait_until(lambda last=f"{topic}-{partitions - 1}": (node.logs / last / node.LAST_FILE).exists())
            client.ask("produce", node.address, topic, "none", 0, 50)
        yield node
    finally:
        node.kill()


def kseg(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kseg", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_broker_starts_on_what_was_rebuilt(node: KraftNode, client: Client) -> None:
    served = {place: client.consume(node.address, *place, "read_uncommitted") for place in PLACES}
    node.stop()
    epochs, metadata = node.logs / "plain-0/leader-epoch-checkpoint", node.logs / "orders-0/partition.metadata"
    wanted = metadata.read_bytes()
    epochs.write_bytes(b"\0" * 20)
    metadata.unlink()
    (node.logs / "recovery-point-offset-checkpoint").write_bytes(b"\0" * 20)
    assert kseg("recover", node.logs).returncode == 3
    done = kseg("recover", "--rebuild-epochs", node.logs)
    assert done.returncode == 0, done.stderr
    assert metadata.read_bytes() == wanted
    node.start()
    assert {place: client.consume(node.address, *place, "read_uncommitted") for place in PLACES} == served
    assert not list(node.logs.glob("*-stray"))
    node.stop()


def test_a_broker_starts_once_recover_has_taken_a_lost_topic_id_from_the_metadata(node: KraftNode) -> None:
    node.stop()
    (node.logs / "plain-0/partition.metadata").write_bytes(b"\0" * 20)
    assert "partition.metadata" in node.start_in_vain()
    done = kseg("recover", node.logs)
    assert done.returncode == 0, done.stderr
    node.start()
