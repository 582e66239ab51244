"""Real brokers as the judges of recovered partitions: they start on them, cut nothing off and serve what was kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker import scenes, wrecks
from broker.client import Client
from broker.nodes import KraftNode, OldNode, wait_until
from broker.scenes import LEFT, RECOVERED, SALVAGED, Scene, files, of_kind
from kseg.changes.lock import locked
from kseg.errors import BrokerRunningError

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SOURCES = {"plain": wrecks.PLAIN, "txn": wrecks.TRANSACTIONS, "codec-mix": (wrecks.flipped,),
           "one-mixcodec": (wrecks.flipped, wrecks.torn)}  # fmt: skip
NEWEST = {f"{source}-{wreck.__name__}": (source, wreck) for source, some in SOURCES.items() for wreck in some}
OLD = {name: NEWEST[name] for name in ("plain-zeroed", "txn-flipped", "one-mixcodec-flipped")}
BOTH = [("newest", topic) for topic in NEWEST] + [("old", topic) for topic in OLD]
INDEXES = (".index", ".timeindex", ".txnindex")
EPOCH_MS = 1_700_000_000_000
"""Timestamp of the first record that the client writes; each has 1000 more than the one before."""


@pytest.fixture(scope="module")
def newest(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with KraftNode(tmp_path_factory.mktemp("newest") / "node", client) as node:
        scene = Scene(node, client, NEWEST)
        scene.play()
        yield scene


@pytest.fixture(scope="module")
def old(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with OldNode(tmp_path_factory.mktemp("old") / "node", client) as node:
        scene = Scene(node, client, OLD)
        scene.play()
        yield scene


@pytest.fixture
def scene(request: pytest.FixtureRequest) -> Scene:
    """The one that a test's parameter names."""
    found: Scene = request.getfixturevalue(request.param)
    return found


both = pytest.mark.parametrize("scene, topic", BOTH, indirect=["scene"])


@both
def test_a_broker_serves_all_that_salvage_kept(scene: Scene, topic: str) -> None:
    wreck = scene.wrecks[topic]
    kept = [record for record in scene.intact[scene.topics[topic][0]] if wreck.spares(record["offset"])]
    assert scene.served[topic, SALVAGED] == kept
    assert scenes.dumped(scene.partition(topic, SALVAGED)) == kept


@both
def test_a_broker_serves_all_before_the_cut(scene: Scene, topic: str) -> None:
    wreck, served = scene.wrecks[topic], scene.served[topic, RECOVERED]
    if wreck.behind is not None:
        intact = scene.intact[scene.topics[topic][0]]
        assert served == [record for record in intact if record["offset"] < wreck.behind]
        assert scenes.dumped(scene.partition(topic, RECOVERED)) == served
    assert served == scene.served[topic, LEFT]
    assert scene.committed[topic, RECOVERED] == scene.committed[topic, LEFT]


@both
@pytest.mark.parametrize("number", (RECOVERED, SALVAGED))
def test_a_broker_cuts_nothing_off(scene: Scene, topic: str, number: int) -> None:
    partition = scene.partition(topic, number)
    before = scene.before[partition.name]
    assert of_kind(before, ".log") == of_kind(files(partition), ".log")
    assert (partition / ".kseg-quarantine").is_dir()


@pytest.mark.parametrize("topic", NEWEST)
def test_a_broker_makes_the_same_files_of_what_was_recovered_and_of_the_damage(newest: Scene, topic: str) -> None:
    ours, theirs = (files(newest.partition(topic, number)) for number in (RECOVERED, LEFT))
    assert list(ours) == list(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []


@pytest.mark.parametrize("topic", OLD)
def test_an_old_broker_cuts_where_kseg_does(old: Scene, topic: str) -> None:
    ours, theirs = (of_kind(files(old.partition(topic, number)), ".log") for number in (RECOVERED, LEFT))
    assert ours == theirs


def test_a_broker_does_not_start_while_kseg_is_at_work(newest: Scene) -> None:
    """It reads, and goes on with, the log of the cluster's metadata before it asks for the lock."""

    def partitions() -> dict[str, dict[str, bytes]]:
        found = {path.name: files(path) for path in newest.node.logs.iterdir() if path.is_dir()}
        return {name: found[name] for name in found if name != "__cluster_metadata-0"}

    before = partitions()
    with locked(str(newest.node.logs)):
        words = newest.node.start_in_vain()
    assert "Failed to acquire lock on file .lock" in words
    assert partitions() == before


def test_a_broker_finds_its_way_by_rebuilt_indexes(newest: Scene) -> None:
    """Started with its marker of a clean stop, so that it believes what the indexes say."""
    node, client = newest.node, newest.client
    places = [("plain", 0), ("plain-zeroed", SALVAGED), ("one-mixcodec-flipped", SALVAGED), ("txn-flipped", SALVAGED)]
    for topic, number in places:
        check_rebuilding(newest.partition(topic, number))
    assert (node.logs / ".kafka_cleanshutdown").exists()
    node.start()
    with pytest.raises(BrokerRunningError), locked(str(node.logs)):
        pass
    for topic, number in places:
        records = newest.consume(topic, number)
        asked = [record["offset"] for record in records[::7]]
        found = client.fetch(node.address, topic, number, asked)
        assert found == records[::7]
    for topic, number in places[:2]:
        records = newest.consume(topic, number)
        times = [EPOCH_MS + 1000 * n + 1 for n in range(0, 499, 7)]
        expected = [next(one["offset"] for one in records if one["timestamp"] >= time) for time in times]
        assert client.offsets_for_times(node.address, topic, number, times) == expected
        assert client.offsets_for_times(node.address, topic, number, [EPOCH_MS + 1_000_000]) == [-1]
    topic, number = places[3]
    assert newest.consume(topic, number, "read_committed") == newest.committed[topic, number]
    remove(newest, "plain-torn")
    node.stop()


def check_rebuilding(partition: Path) -> None:
    """Removes indexes that the broker has built in its recovery: kseg builds the same."""
    built = of_kind(files(partition), *INDEXES)
    assert built
    for name in built:
        (partition / name).unlink()
    scenes.rebuild_indexes(partition)
    rebuilt = of_kind(files(partition), *INDEXES)
    assert {name: data for name, data in built.items() if data or not name.endswith(".txnindex")} == rebuilt


def remove(scene: Scene, topic: str) -> None:
    """Deletes a topic: what kseg has put into its partitions goes with them."""
    scene.client.ask("delete", scene.node.address, topic)
    wait_until(lambda: not list(scene.node.logs.glob(f"{topic}-*")))
