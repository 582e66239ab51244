"""What verify foretells of the copies of three nodes, and what a start of these copies then does.

KSEG_CLUSTER_SEEDS sets the number of moments at which copies are taken, of each release. Each takes a minute or more.
"""

import json
import os
import random
import shutil
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.client import Client, Writer
from broker.nodes import KRAFT, Trio, wait_until
from cli.command import spawned
from kseg.decoders.framed import read_framed
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.formats.schema import MessageError
from kseg.node.cluster import Cluster, batches_between
from kseg.node.cluster_metadata import TopicSettings, read_topic_settings, record_values
from kseg.node.node import Nodes
from kseg.segment.files import LAST_OFFSET

SEEDS = int(os.environ.get("KSEG_CLUSTER_SEEDS", "20"))
pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.release]
TOPICS = ("plain", "txn")
RELEASES = [KRAFT, "4.3.1"]


class Foretold(NamedTuple):
    """``partitions``: those with a problem, by topic; ``next``: the commands that verify names."""

    partitions: dict[str, dict[str, Any]]
    next: list[list[str]]


def told(nodes: dict[int, Path]) -> tuple[dict[str, Any], list[list[str]]]:
    """What verify tells of the only cluster, and the commands to run next."""
    result = spawned("verify", "--format", "json", *map(str, nodes.values()))
    summary = json.loads(result.stdout.splitlines()[-1])
    (cluster,) = summary["clusters"]
    return cluster, summary["next"]


def foretold(nodes: dict[int, Path]) -> Foretold:
    cluster, commands = told(nodes)
    return Foretold({one["topic"]: one for one in cluster["partitions"]}, commands)


def write(client: Client, address: str, first: int) -> None:
    """Writes to both topics, with acks=all and in a transaction."""
    client.ask("produce", address, "plain", "none", first, 40)
    client.ask("produce", address, "txn", "none", first, 10, "txn-id", "abort" if first % 3 == 0 else "commit")


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Client(tmp_path_factory.mktemp("worker")) as worker:
        yield worker


@pytest.fixture(scope="module", params=RELEASES)
def running(request: pytest.FixtureRequest, client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """Three nodes that run, with both topics."""
    with Trio(tmp_path_factory.mktemp("trio"), client, request.param) as trio:
        trio.start()
        for topic in TOPICS:
            trio.create(topic)
        yield trio


REGISTRATION, PARTITION_CHANGE, UNCHANGED = 0, 5, -2
"""Types of records of the metadata log, and what a change says of a leader that stays."""


def newest(nodes: dict[int, Path]) -> tuple[str, TopicSettings]:
    """The metadata log that reaches furthest."""
    logs = [str(logs / "__cluster_metadata-0") for logs in nodes.values()]
    found = [(log, settings) for log in logs if (settings := read_topic_settings(log)) is not None]
    return max(found, key=lambda one: one[1].reached)


def first_leaders(nodes: dict[int, Path], copied: dict[int, Path]) -> dict[str, int]:
    """The node that led each topic first after a start of the copies, by the metadata logs: for a moment, the
    controller also makes nodes leaders that it knows from before the stop."""
    (log, settings), (_, before) = newest(nodes), newest(copied)
    topics = {topic_id: name for name, topic_id in settings.ids.items()}
    leaders = {topics[topic_id]: image.leader for (topic_id, _), image in before.partitions.items()}
    started, found = set[int](), dict[str, int]()
    for batch in batches_between(log, before.reached[1], LAST_OFFSET):
        for _, value in () if batch.is_control else record_values(batch):
            with suppress(MessageError):
                api_key, _, fields = read_framed(value, CLUSTER_METADATA)
                if api_key == REGISTRATION:
                    started.add(fields["brokerId"])
                elif api_key == PARTITION_CHANGE and fields.get("leader", UNCHANGED) != UNCHANGED:
                    leaders[topics[fields["topicId"]]] = fields["leader"]
            for topic, leader in leaders.items():
                if leader in started:
                    found.setdefault(topic, leader)
    return found


def served(trio: Trio, topic: str) -> dict[int, bytes]:
    """The values that consumers get once all copies are in sync, by offset."""
    wait_until(lambda: set(trio.replicas(topic).in_sync) == set(trio.nodes))
    return {one["offset"]: b64decode(one["value"]) for one in trio.client.consume(trio.nodes[1].address, topic, 0)}


def held(nodes: dict[int, Path], topic: str) -> dict[tuple[int, int], bytes | None]:
    """The values that are intact in the copies, by node and offset."""
    found = {}
    for number, logs in nodes.items():
        if (path := logs / f"{topic}-0").exists():
            for batch in batches_between(str(path), 0, LAST_OFFSET):
                if not batch.is_control:
                    found.update({(number, record.offset): record.value for record in batch})
    return found


def may_lead(nodes: dict[int, Path]) -> dict[str, tuple[int, ...]]:
    """The nodes that kseg names as possible leaders, by topic."""
    cluster = Cluster(Nodes(map(str, nodes.values())).given, {})
    return {one.topic: one.may_lead for one in cluster.partitions()}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_foretold_then_seen(running: Trio, worker: Client, tmp_path: Path, seed: int) -> None:
    """Copies of nodes that run, one after the other: one of the nodes that are named leads, what was served before and
    goes was foretold, and what was foretold of that leader goes."""
    drawn = random.Random(seed)
    release, down = running.nodes[1].RELEASE, drawn.choice([None, None, 1, 2, 3])
    order = drawn.sample([1, 2, 3], 3)
    copies: dict[int, Path] = {}
    if down is not None:
        drawn.choice([running.nodes[down].stop, running.nodes[down].kill])()
    up = next(number for number in order if number != down)
    with Writer(partial(write, worker, running.nodes[up].address), seed * 100_000, 40) as writer:
        wait_until(lambda: bool(writer.acknowledged))
        for number in order:
            time.sleep(drawn.choice([0.0, 0.3, 2.0]))
            copies[number] = tmp_path / "copies" / f"node{number}"
            copied_live(running.nodes[number].logs, copies[number])
    if down is not None:
        running.start(down)
    before = {topic: served(running, topic) for topic in TOPICS}
    told, named = foretold(copies), may_lead(copies)
    with Trio(tmp_path / "again", running.client, release, copies) as again:
        again.start(*drawn.sample([1, 2, 3], 3))
        after = {topic: served(again, topic) for topic in TOPICS}
    logs = {number: node.logs for number, node in again.nodes.items()}
    leaders = first_leaders(logs, copies)
    for topic in TOPICS:
        leader, state = leaders[topic], told.partitions.get(topic, {"ranges": [], "outcome": "same"})
        had, has = held(copies, topic), held(logs, topic)
        spans = [one for one in state["ranges"] if one["leader"] == leader]
        told_of = {
            (node, offset) for node, offset in had for one in spans
            if one["node"] == node and one["firstOffset"] <= offset <= one["lastOffset"]
        }  # fmt: skip
        gone = {at for at, value in had.items() if has.get(at) != value}
        lost = {at for at, value in had.items() if before[topic].get(at[1]) == value != after[topic].get(at[1])}
        print(
            f"seed {seed} {release} {topic}: down {down}, copied {order}, may lead {named[topic]}, leads {leader}, "
            f"{state['outcome']}, told {len(told_of)}, of them gone {len(told_of & gone)}, lost {len(told_of & lost)}; "
            f"gone {len(gone)}, lost {len(lost)}, kept {len(after[topic])}, ranges {state['ranges']}"
        )
        assert leader in named[topic]
        assert lost <= told_of, (topic, state, sorted(lost - told_of))
        assert told_of <= gone, (topic, state, sorted(told_of - gone))


def copied_live(source: Path, target: Path) -> None:
    """Copies a log directory whose files come and go meanwhile."""
    with suppress(shutil.Error):
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(".lock", "*.tmp", "*.deleted"))


@pytest.mark.parametrize("release", RELEASES)
def test_depends_comes_both_ways(client: Client, tmp_path: Path, release: str) -> None:
    """One eligible node has an earlier copy of a partition: with it as the first leader the records go, with the other
    one they stay; the command that is named keeps them."""
    with Trio(tmp_path / "trio", client, release) as trio:
        trio.start()
        trio.create("d", "replicas=2")
        wait_until(lambda: len(trio.replicas("d").in_sync) == 2)
        safe, behind = trio.replicas("d").in_sync
        third = 6 - safe - behind
        client.ask("produce", trio.nodes[third].address, "d", "none", 0, 20)
        earlier = shutil.copytree(trio.nodes[behind].logs / "d-0", tmp_path / "earlier")
        client.ask("produce", trio.nodes[third].address, "d", "none", 20, 30)
        # Each of the two leaves while a majority of the controllers is there to note it: both are eligible then.
        trio.nodes[behind].stop()
        wait_until(lambda: trio.replicas("d", third) == (safe, [safe]))
        trio.nodes[safe].stop()
    copies = {number: node.logs for number, node in trio.nodes.items()}
    assert set(may_lead(copies)["d"]) == {safe, behind}
    shutil.rmtree(copies[behind] / "d-0")
    shutil.copytree(earlier, copies[behind] / "d-0")
    told = foretold(copies)
    state = told.partitions["d"]
    assert state["outcome"] == "depends"
    assert {(one["leader"], one["firstOffset"], one["lastOffset"]) for one in state["ranges"]} == {(behind, 20, 49)}
    assert seen(client, tmp_path / "safe", release, copies, third, safe) == 50
    assert seen(client, tmp_path / "loss", release, copies, third, behind) == 20
    (argv,) = told.next
    spawned(*argv[1:])
    assert foretold(copies) == Foretold({}, [])
    assert seen(client, tmp_path / "filled", release, copies) == 50


def seen(client: Client, folder: Path, release: str, copies: dict[int, Path], *first: int) -> int:
    """Starts nodes, the last of which has to lead d-0, and then the others; by default all at once. Returns how many
    records are served."""
    with Trio(folder, client, release, copies) as trio:
        trio.start(*first)
        asked = first[0] if first else 1
        if first:
            wait_until(lambda: trio.replicas("d", asked).leader == first[-1])
            for number in trio.nodes.keys() - set(first):
                trio.nodes[number].launch()
        wait_until(lambda: len(trio.replicas("d", asked).in_sync) == 2)
        return len(client.consume(trio.nodes[asked].address, "d", 0))
