"""Partitions rebuilt from remote storage, served by a broker of a new cluster."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import Client, Served
from broker.nodes import KraftNode
from broker.scenes import kseg, recorded
from stores.remote.stores import KEY_OPTIONS, REMOTE

pytestmark = [pytest.mark.broker, pytest.mark.slow]

TOPICS = {"t-del": "plain", "t-roll": "zstd", "t-txn": "both"}
"""Each topic, and the store that has it."""
STARTS = {"t-del": 300, "t-roll": 0, "t-txn": 0}
GROUP = "readers"
COMMITTED = "read_committed"


def truth(topic: str, isolation: str = "read_uncommitted") -> Served:
    """What a consumer of the old cluster read."""
    folder, suffix = REMOTE / TOPICS[topic] / "truth", "rc" if isolation == COMMITTED else "ru"
    path = folder / f"{topic}-0.{suffix}.jsonl.gz"
    return recorded(path if path.exists() else folder / f"{topic}-0.ru.jsonl.gz")


class Rebuilt:
    """``served``: by (topic, isolation); ``groups``: what a member of the group read before and after a restart."""

    def __init__(self, node: KraftNode, client: Client, folder: Path) -> None:
        self.node, self.client, self.folder = node, client, folder
        self.served: dict[tuple[str, str], Served] = {}
        self.groups: dict[str, list[Served]] = {}
        self.ends: dict[str, int] = {}

    def play(self) -> None:
        self.node.start()
        for topic in TOPICS:
            self.node.create(topic, 1, "retention.ms=-1")
        self.node.stop()
        for topic in TOPICS:
            self._rebuild(topic)
        self.node.start()
        for topic in TOPICS:
            for isolation in ("read_uncommitted", COMMITTED):
                self.served[topic, isolation] = self.client.consume(self.node.address, topic, 0, isolation)
            first = self.client.next_of_group(self.node.address, GROUP, topic, 150, COMMITTED)
            self.groups[topic] = [first]
        self.node.stop()
        self.node.start()
        for topic in TOPICS:
            again = self.client.next_of_group(self.node.address, GROUP, topic, 20, COMMITTED)
            self.groups[topic].append(again)
            self.client.ask("produce", self.node.address, topic, "none", 0, 5)
            self.ends[topic] = self.client.consume(self.node.address, topic, 0)[-1]["offset"]
        self.node.stop()

    def _rebuild(self, topic: str) -> None:
        """Follows the text that kseg prints after the report."""
        store, output = REMOTE / TOPICS[topic], self.folder / topic
        keys = [word for option in KEY_OPTIONS for word in ("--private-key", option)]
        words = ["restore", "--from-remote", store / "remote", *keys, "--topic", topic, "--for-cluster", self.node.logs]
        kseg(*words, "--reset-epochs", "--output", output, store / "logs")
        shutil.rmtree(self.node.logs / f"{topic}-0")
        shutil.copytree(output / f"{topic}-0", self.node.logs / f"{topic}-0")
        shutil.copy(output / "log-start-offset-checkpoint", self.node.logs)


@pytest.fixture(scope="module")
def rebuilt(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rebuilt]:
    with KraftNode(tmp_path_factory.mktemp("rebuilt") / "node", client) as node:
        found = Rebuilt(node, client, tmp_path_factory.mktemp("output"))
        found.play()
        yield found


@pytest.mark.parametrize("isolation", ["read_uncommitted", COMMITTED])
@pytest.mark.parametrize("topic", TOPICS)
def test_all_records_are_served(rebuilt: Rebuilt, topic: str, isolation: str) -> None:
    assert rebuilt.served[topic, isolation] == truth(topic, isolation)
    assert rebuilt.served[topic, isolation][0]["offset"] >= STARTS[topic]


@pytest.mark.parametrize("topic", TOPICS)
def test_a_group_goes_on_after_a_restart(rebuilt: Rebuilt, topic: str) -> None:
    """Its committed offset carries the leader epoch of the batch, which must not be above the new leader's."""
    before, after = rebuilt.groups[topic]
    expected = truth(topic, COMMITTED)
    assert before == expected[:150]
    assert after == expected[150:170]


@pytest.mark.parametrize("topic", TOPICS)
def test_producers_go_on_at_the_end(rebuilt: Rebuilt, topic: str) -> None:
    assert rebuilt.ends[topic] >= truth(topic)[-1]["offset"] + 5


def test_no_directory_was_set_aside(rebuilt: Rebuilt) -> None:
    assert [path.name for path in rebuilt.node.logs.iterdir() if path.name.endswith("-stray")] == []
