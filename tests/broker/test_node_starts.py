"""Real nodes as the judges of what verify predicts for the start on several log directories."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.client import Client
from broker.nodes import KRAFT, Cluster, KraftNode, Node, OldNode
from broker.scenes import kseg
from kseg.node.server_properties import read_server_properties
from kseg.segment.survey import FULL
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS
from kseg.verification.partition import CheckSettings
from kseg.verification.report import CheckReporter, NodeStart
from kseg.verification.run import Check
from node.disks import rows_of
from verification.log_directories import NOW_MS, OTHER_ID, REAL, edited

pytestmark = [pytest.mark.broker, pytest.mark.slow]

FIRST_LOG = f"{0:020}.log"


class SecondDirectory(Node):
    """A second log directory, for nodes of all kinds."""

    @property
    def second(self) -> Path:
        return self.folder / "second"

    def settings(self) -> str:
        return super().settings() + f"log.dirs={{logs}},{self.second}\n"

    @property
    def holder(self) -> Path:
        """The log directory that has made-0."""
        return self.logs if (self.logs / "made-0").exists() else self.second

    @property
    def other(self) -> Path:
        return self.second if self.holder == self.logs else self.logs


class TwoDirectories(SecondDirectory, KraftNode):
    """A node of KRaft with two log directories."""


class TwoOldDirectories(SecondDirectory, OldNode):
    """A broker of ZooKeeper with two log directories."""


@pytest.fixture(scope="module")
def stopped(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoDirectories]:
    """A node that has run and has the partition made-0, and in its second log directory an unknown one."""
    with TwoDirectories(tmp_path_factory.mktemp("node") / "node", client) as node:
        node.second.mkdir()
        shutil.copy(node.logs / "meta.properties", node.second)
        edited(node.second, directory_id=OTHER_ID)
        node.start()
        client.ask("create", node.address, "made", 1, "retention.ms=-1")
        client.ask("produce", node.address, "made", "none", 0, 5)
        node.stop()
        shutil.copytree(REAL / "dplain-0", node.second / "dplain-0")
        yield node


@pytest.fixture
def node(stopped: TwoDirectories, tmp_path: Path) -> Iterator[TwoDirectories]:
    """The node, whose log directories are put back afterwards."""
    kept = [(path, shutil.copytree(path, tmp_path / path.name)) for path in (stopped.logs, stopped.second)]
    yield stopped
    stopped.kill()
    for path, copy in kept:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(copy, path)


def predicted(node: Node) -> NodeStart:
    server = read_server_properties(str(node.properties))
    check = Check(server.log_dirs, CheckSettings(FULL, NOW_MS, server=server, may_fork=False), CheckReporter())
    for path in server.log_dirs:
        check.judge(path)
    (start,) = check.finish().starts
    return start


def doubled(node: TwoDirectories) -> None:
    """Copies a partition of the node into its other log directory."""
    shutil.copytree(node.holder / "made-0", node.other / "made-0")


REFUSED: dict[str, Callable[[TwoDirectories], object]] = {
    "Invalid cluster.id": lambda node: edited(node.second, cluster_id="BBBBBBBBQACBBBBBBBBBBA"),
    "Stored node id 9": lambda node: edited(node.second, node_id="9"),
    "Duplicate directory ID": lambda node: shutil.copy(node.logs / "meta.properties", node.second),
    "Invalid reserved directory ID": lambda node: edited(node.second, directory_id="AAAAAAAAAAAAAAAAAAAAPw"),
    "Duplicate log directories": doubled,
    "Found unexpected metadata location": lambda node: (node.second / "__cluster_metadata-0").mkdir(),
    "No `meta.properties` found": lambda node: shutil.rmtree(node.second),
    "Encountered I/O error in metadata log directory": lambda node: edited(node.logs, version="2"),
    "NullPointerException": lambda node: (node.second / "dplain-0" / "partition.metadata").write_text("version: 0"),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_a_node_that_does_not_start(node: TwoDirectories, words: str) -> None:
    REFUSED[words](node)
    assert predicted(node).starts is False
    assert words in node.start_in_vain()


def test_a_node_that_goes_on_without_a_log_directory(node: TwoDirectories) -> None:
    edited(node.second, version="2")
    assert predicted(node).starts is True
    node.start()


def test_partitions_that_a_start_sets_aside_and_creates_empty(node: TwoDirectories, client: Client) -> None:
    lost = node.holder
    assert (lost / "made-0" / FIRST_LOG).stat().st_size > 0
    shutil.rmtree(lost / "made-0")
    start = predicted(node)
    assert (start.starts, start.sets_aside, start.lacks) == (True, [str(node.second / "dplain-0")], [])
    assert [(each.partition, each.log_directory) for each in start.creates or ()] == [("made-0", str(lost))]
    node.start()
    assert not (node.second / "dplain-0").exists()
    assert list(node.second.glob("dplain-0.*-stray"))
    assert (lost / "made-0" / FIRST_LOG).stat().st_size == 0
    assert client.consume(node.address, "made", 0) == []


@pytest.mark.parametrize("way", ["recover", "convert"])
def test_a_partition_that_came_to_another_disk_is_served(node: TwoDirectories, client: Client, way: str) -> None:
    """By mv and recover of all disks, or by a conversion with --output: with its entries of the checkpoints."""
    source, target = node.holder, node.other
    rows = [row for name in OFFSET_CHECKPOINTS for row in rows_of(source / name) if row[0] == "made"]
    assert rows
    if way == "recover":
        shutil.move(source / "made-0", target / "made-0")
        kseg("recover", node.logs, node.second)
    else:
        kseg("convert", "--codec", "zstd", "--output", target, source / "made-0")
        shutil.rmtree(source / "made-0")
    assert [row for name in OFFSET_CHECKPOINTS for row in rows_of(target / name) if row[0] == "made"] == rows
    start = predicted(node)
    assert (start.starts, start.creates) == (True, [])
    node.start()
    assert len(client.consume(node.address, "made", 0)) == 5
    assert not (source / "made-0").exists()


def test_the_disks_of_a_broker_of_zookeeper(client: Client, tmp_path: Path) -> None:
    """A partition that was moved by hand is served after recover of both; a disk of another broker stops the start."""
    with TwoOldDirectories(tmp_path / "node", client) as node:
        node.start()
        for topic in ("made", "other"):
            client.ask("create", node.address, topic, 1, "retention.ms=-1")
            client.ask("produce", node.address, topic, "none", 0, 5)
        node.crash()
        source, target = node.holder, node.other
        shutil.move(source / "made-0", target / "made-0")
        kseg("recover", node.logs, node.second)
        start = predicted(node)
        assert (start.starts, start.creates) == (True, None)
        node.start()
        assert [len(client.consume(node.address, topic, 0)) for topic in ("made", "other")] == [5, 5]
        assert (target / "made-0").exists()
        assert not (source / "made-0").exists()
        node.stop()
        properties = node.second / "meta.properties"
        properties.write_text(properties.read_text().replace("broker.id=1", "broker.id=2"))
        assert predicted(node).starts is False
        assert "InconsistentBrokerMetadataException" in node.start_in_vain()


def test_a_controller_alone(client: Client, tmp_path: Path) -> None:
    """Its directory is judged and recovered by itself, and leads the cluster again."""
    with Cluster(tmp_path, client, KRAFT, is_dynamic=False) as cluster:
        cluster.start()
        client.ask("create", cluster.broker.address, "made", 1, "retention.ms=-1")
        client.ask("produce", cluster.broker.address, "made", "none", 0, 5)
        cluster.kill()
        for _ in range(2):
            start = predicted(cluster.controller)
            assert (start.starts, start.creates, start.sets_aside) == (True, [], [])
            kseg("recover", cluster.controller.logs)
        cluster.start()
        assert len(client.consume(cluster.broker.address, "made", 0)) == 5
