"""Nodes whose metadata log is damaged or lost start on what kseg makes, and serve what they had."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from broker.client import Client, Served
from broker.nodes import Cluster, KraftNode, free_ports, wait_until
from broker.scenes import kseg

pytestmark = [pytest.mark.broker, pytest.mark.slow]

RECORDS = 20
TOPICS = ("first", "second")
CLUSTERS = [("4.4.0", True), ("4.3.1", False)]
"""Release, and whether the voters are dynamic."""


def damage(logs: Path, word: bytes) -> None:
    """Flips a bit of the batch of metadata that holds the word."""
    for log in sorted((logs / "__cluster_metadata-0").glob("*.log")):
        data = bytearray(log.read_bytes())
        if (at := data.find(word)) >= 0:
            data[at] ^= 0x20
            log.write_bytes(data)
            return
    raise AssertionError(word)


def fill(node: KraftNode, client: Client, topic: str) -> None:
    node.create(topic, 1, "retention.ms=-1")  # the records are old
    client.ask("produce", node.address, topic, "none", 0, RECORDS)


def serves_as_before(node: KraftNode, client: Client, new_topic: str) -> None:
    """Old records are consumed, old and new topics take new ones."""

    def is_whole(served: Served, topic: str) -> bool:
        found = client.consume(node.address, topic, 0, "read_committed")
        return found[: len(served)] == served and len(found) == len(served) + RECORDS

    for topic in TOPICS:
        served = client.consume(node.address, topic, 0)
        assert len(served) >= RECORDS
        client.ask("produce", node.address, topic, "none", 0, RECORDS, f"of-{new_topic}", "commit")
        wait_until(partial(is_whole, served, topic))
    fill(node, client, new_topic)
    assert len(client.consume(node.address, new_topic, 0)) == RECORDS


def topic_ids(logs: Path) -> dict[str, bytes]:
    return {topic: (logs / f"{topic}-0" / "partition.metadata").read_bytes() for topic in TOPICS}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, client: Client) -> Iterator[KraftNode]:
    with KraftNode(tmp_path_factory.mktemp("metadata") / "node", client) as node:
        node.start()
        for topic in TOPICS:
            fill(node, client, topic)
        yield node


def test_a_node_alone_starts_on_a_new_snapshot(node: KraftNode, client: Client) -> None:
    """The topic whose records are damaged is brought back out of its directory."""
    ids = topic_ids(node.logs)
    node.kill()
    damage(node.logs, b"second")
    advice = kseg("verify", "--format", "json", node.logs, status=1).stdout
    assert "--rewrite" in advice
    assert "salvage" not in advice
    kseg("quorum", "--rewrite", "--topics-from", node.logs, node.logs, status=1)
    node.start()
    serves_as_before(node, client, "third")
    assert topic_ids(node.logs) == ids


def test_a_node_alone_starts_on_a_new_quorum_beside_its_partitions(node: KraftNode, client: Client) -> None:
    """The new log directory is its metadata.log.dir."""
    node.kill()
    shutil.rmtree(node.logs / "__cluster_metadata-0")
    (port,) = free_ports(1)
    metadata = node.folder / "metadata"
    listener = f"CONTROLLER://127.0.0.1:{port}"
    words = ("quorum", "--new", 1, "--listener", listener, "--topics-from", node.logs, "--output", metadata)
    assert "broker and controller in one process" in kseg(*words).stderr
    node.roles = node.roles.replace("{controller}", str(port)) + f"metadata.log.dir={metadata}\n"
    node.start()
    serves_as_before(node, client, "fourth")


@pytest.fixture(scope="module", params=CLUSTERS, ids=lambda param: f"{param[0]}-{'dynamic' if param[1] else 'static'}")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, client: Client
) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("metadata"), client, *request.param) as cluster:
        cluster.start()
        for topic in TOPICS:
            fill(cluster.broker, client, topic)
        client.ask("produce", cluster.broker.address, "first", "none", 0, RECORDS, "producer", "commit")
        # Markers are written after the commit; what a kill in between does is not the subject.
        committed = partial(client.consume, cluster.broker.address, "first", 0, "read_committed")
        wait_until(lambda: len(committed()) == 2 * RECORDS)
        yield cluster


@pytest.fixture
def observed(cluster: Cluster, client: Client, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The metadata log of the broker, whose controller goes on alone; with the damage and the repair of a test in it,
    the broker starts, and knows topics of before and after."""
    metadata = cluster.broker.logs / "__cluster_metadata-0"
    wait_until(lambda: len(snapshots(metadata)) >= 2)
    cluster.broker.stop()
    yield metadata
    cluster.broker.start()
    assert len(client.consume(cluster.broker.address, "first", 0)) >= RECORDS
    fill(cluster.broker, client, request.function.__name__)
    assert len(client.consume(cluster.broker.address, request.function.__name__, 0)) == RECORDS


def snapshots(metadata: Path) -> list[Path]:
    """Those behind the beginning of the log, from old to new."""
    return sorted(path for path in metadata.glob("*.checkpoint") if not path.name.startswith(f"{0:020}"))


def flip_in_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def advice(metadata: Path) -> list[list[str]]:
    """The commands that verify names for the log directory: those to run next, and those to decide on."""
    lines = kseg("verify", "--format", "json", metadata.parent, status=1).stdout.splitlines()
    *rows, summary = map(json.loads, lines)
    found = [row["details"] for row in rows if row["type"] == "finding"]
    return [*summary["next"], *(details["otherRepair"] for details in found if "otherRepair" in details)]


of_newest = pytest.mark.parametrize("cluster", CLUSTERS[:1], indirect=True, ids=["4.4.0-dynamic"])


@of_newest
def test_a_broker_with_a_damaged_snapshot(observed: Path) -> None:
    flip_in_the_middle(snapshots(observed)[-1])
    ((verb, *paths),) = advice(observed)
    assert verb == "mv"
    subprocess.run([verb, *paths], check=True)


@of_newest
def test_a_broker_with_a_damaged_log(observed: Path) -> None:
    damage(observed.parent, b"second")
    ((program, verb, *arguments),) = advice(observed)
    assert (program, verb) == ("kseg", "recover")
    kseg(verb, *arguments)


@of_newest
def test_a_broker_without_a_whole_snapshot(observed: Path) -> None:
    """Its log begins at the newest one, as after a start that finds the log behind it."""
    for path in observed.iterdir():
        if path.is_file() and path.suffix != ".checkpoint" and path.name != "quorum-state":
            path.unlink()
    newest = snapshots(observed)[-1]
    newest.with_name(f"{newest.name[:20]}.log").touch()
    for path in snapshots(observed):
        flip_in_the_middle(path)
    assert advice(observed) == []
    text = f"moved out of the log directory, {observed.name} is fetched from the others"
    assert text in kseg("verify", observed.parent, status=1).stdout
    observed.rename(observed.parent.parent / "moved")


def new_quorum(cluster: Cluster, *sources: object) -> dict[str, object]:
    """Replaces the lost directory of the controller. Returns the summary of kseg."""
    shutil.rmtree(cluster.controller.logs)
    (cluster.port,) = free_ports(1)
    listener = f"CONTROLLER://127.0.0.1:{cluster.port}"
    words = ("quorum", "--new", cluster.controller_id, "--listener", listener, "--output")
    done = kseg(*words, cluster.controller.logs, "--format", "json", *sources)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_a_new_quorum_out_of_a_brokers_copy(cluster: Cluster, client: Client) -> None:
    """The controller gets a new id, with dynamic and with static voters."""
    ids = topic_ids(cluster.broker.logs)
    cluster.kill()
    cluster.controller_id = 9
    new_quorum(cluster, cluster.broker.logs)
    cluster.start()
    serves_as_before(cluster.broker, client, "third")
    assert topic_ids(cluster.broker.logs) == ids


def test_a_new_quorum_out_of_the_partitions_alone(cluster: Cluster, client: Client) -> None:
    ids = topic_ids(cluster.broker.logs)
    cluster.kill()
    shutil.rmtree(cluster.broker.logs / "__cluster_metadata-0")
    new_quorum(cluster, "--topics-from", cluster.broker.logs)
    cluster.is_dynamic = True
    cluster.start()
    serves_as_before(cluster.broker, client, "fourth")
    assert topic_ids(cluster.broker.logs) == ids
    assert not list(cluster.broker.logs.glob("*-stray"))
    cluster.kill()
    cluster.start()
    assert client.consume(cluster.broker.address, "fourth", 0)


VOTER = "process.roles={}\nnode.id={}\nlisteners={}CONTROLLER://127.0.0.1:{}\n{}\n"
DIRECTORY_IDS = ("AAAAAAAAQACAAAAAAAAAAQ", "AAAAAAAAQACAAAAAAAAAAg", "AAAAAAAAQACAAAAAAAAAAw")


@pytest.mark.parametrize(("release", "is_dynamic"), [*CLUSTERS, ("3.9.1", True), ("3.9.1", False)])
def test_one_of_three_voters_goes_on_alone(release: str, is_dynamic: bool, tmp_path: Path, client: Client) -> None:
    """The disks of one are gone, and another one was down while topics were made. The third, a broker as well, listens
    on another port then; it serves all that it had, and takes topics and records."""
    ports, flags = free_ports(3), list[str]()
    addresses = {number: f"{number}@127.0.0.1:{port}" for number, port in enumerate(ports, 1)}
    if is_dynamic:
        settings = "controller.quorum.bootstrap.servers=" + ",".join(f"127.0.0.1:{port}" for port in ports)
        initial = [f"{address}:{own}" for address, own in zip(addresses.values(), DIRECTORY_IDS, strict=True)]
        flags = ["--initial-controllers", ",".join(initial)]
    else:
        settings = "controller.quorum.voters=" + ",".join(addresses.values())
    roles = [VOTER.format("controller", number, "", ports[number - 1], settings) for number in (2, 3)]
    both, listener = "broker,controller", "PLAINTEXT://127.0.0.1:{port},"
    roles.append(VOTER.format(both, 1, listener, ports[0], settings))
    with ExitStack() as stack:
        made = [KraftNode(tmp_path / f"node{n}", client, release, role, *flags) for n, role in enumerate(roles)]
        *lost, survivor = [stack.enter_context(node) for node in made]
        for node in lost:
            node.launch()
        survivor.start()
        behind = lost[-1]
        fill(survivor, client, TOPICS[0])
        behind.kill()
        fill(survivor, client, TOPICS[1])
        ids = topic_ids(survivor.logs)
        for node in made:
            node.kill()
        # Nothing that was committed is lost with these two, as the third one may have it.
        *_, summary = map(
            json.loads, kseg("verify", "--format", "json", behind.logs, survivor.logs).stdout.splitlines()
        )
        one, two, three = summary["clusters"][0]["voters"]
        assert one["logEnd"] > three["logEnd"] > 0
        assert two == {"node": 2, "logEnd": None, "epoch": None}
        (port,) = free_ports(1)
        done = kseg("quorum", "--survivor", "--endpoints", f"1=127.0.0.1:{port}", behind.logs, survivor.logs)
        assert "what only voter 2 had is not known" in done.stderr
        (settings,) = re.findall(r"set (controller\S+) on all nodes", done.stderr)
        assert settings.endswith(f"127.0.0.1:{port}")
        survivor.roles = VOTER.format(both, 1, listener, port, settings)
        survivor.start()
        serves_as_before(survivor, client, "third")
        assert topic_ids(survivor.logs) == ids
        kseg("verify", survivor.logs)
