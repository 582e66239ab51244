"""What verify foretells of the copies of three nodes, and what a start of these copies then does.

KSEG_CLUSTER_SEEDS sets the number of moments at which copies are taken, of each release. Each takes a minute or more,
and a busy machine decides who is in sync, so that only .ci/release-checks runs them.
"""

import json
import os
import random
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.client import Client
from broker.nodes import KRAFT, Trio
from cli.command import spawned
from kseg.decoders.framed import read_framed
from kseg.decoders.schemas import CLUSTER_METADATA
from kseg.formats.schema import MessageError
from kseg.node.cluster import batches_between
from kseg.node.cluster_metadata import read_topic_settings, record_values
from kseg.segment.files import LAST_OFFSET

SEEDS = int(os.environ.get("KSEG_CLUSTER_SEEDS", "0"))
pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.skipif(not SEEDS, reason="set KSEG_CLUSTER_SEEDS, as .ci/release-checks does"),
]
TOPICS = ("plain", "txn")
RELEASES = [KRAFT, "4.3.1"]


class Foretold(NamedTuple):
    """``partitions``: those with a problem, by topic; ``next``: the commands that verify names."""

    partitions: dict[str, dict[str, Any]]
    next: list[list[str]]


def foretold(nodes: dict[int, Path]) -> Foretold:
    result = spawned("verify", "--format", "json", *map(str, nodes.values()))
    summary = json.loads(result.stdout.splitlines()[-1])
    (cluster,) = summary["clusters"]
    return Foretold({one["topic"]: one for one in cluster["partitions"]}, summary["next"])


class Writer:
    """Writes to both topics until it is stopped, with acks=all and in transactions."""

    def __init__(self, folder: Path, address: str, first: int) -> None:
        self._address, self._is_over, self.count = address, threading.Event(), first
        folder.mkdir()
        self._client = Client(folder)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._client.__exit__()

    def _run(self) -> None:
        while not self._is_over.is_set():
            how = ("txn-id", "abort" if self.count % 3 == 0 else "commit")
            self._client.ask("produce", self._address, "plain", "none", self.count, 40)
            self._client.ask("produce", self._address, "txn", "none", self.count, 10, *how)
            self.count += 40


@pytest.fixture(scope="module", params=RELEASES)
def running(request: pytest.FixtureRequest, client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """Three nodes that run, with both topics."""
    with Trio(tmp_path_factory.mktemp("trio"), client, request.param) as trio:
        trio.start()
        for topic in TOPICS:
            trio.create(topic)
        yield trio


def first_leaders(nodes: dict[int, Path], copied: dict[int, Path]) -> dict[str, int]:
    """The node that led each topic first after a start of the copies, by the metadata logs."""
    logs = [logs / "__cluster_metadata-0" for logs in nodes.values()]
    known = [read_topic_settings(str(logs / "__cluster_metadata-0")) for logs in copied.values()]
    before = max(one.reached[1] for one in known if one is not None)
    newest = max(logs, key=lambda path: getattr(read_topic_settings(str(path)), "reached", (0, 0)))
    settings = read_topic_settings(str(newest))
    assert settings is not None
    topics, found = {topic_id: name for name, topic_id in settings.ids.items()}, dict[str, int]()
    for batch in batches_between(str(newest), before, LAST_OFFSET):
        for _, value in () if batch.is_control else record_values(batch):
            try:
                record = read_framed(value, CLUSTER_METADATA)
            except MessageError:
                continue
            leader = record.fields.get("leader", -2) if record.api_key == 5 else -2
            if leader >= 0:
                found.setdefault(topics[record.fields["topicId"]], leader)
    for (topic_id, _), image in settings.partitions.items():
        found.setdefault(topics[topic_id], image.leader)
    return found


def values(records: list[dict[str, Any]]) -> dict[int, Any]:
    return {record["offset"]: record["value"] for record in records}


def held(logs: Path, topic: str) -> dict[int, Any]:
    """The records of a copy by offset, as base64."""
    dump = spawned("dump", "--print-data-log", "--format", "json", "--value-format", "base64", str(logs / f"{topic}-0"))
    rows = [json.loads(line) for line in dump.stdout.splitlines()]
    return {row["offset"]: row["value"] for row in rows if row["type"] == "record" and "control" not in row}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_foretold_then_seen(running: Trio, client: Client, tmp_path: Path, seed: int) -> None:
    """Copies of nodes that run, one after the other: what was served before and goes was foretold."""
    drawn = random.Random(seed)
    release, down = running.nodes[1].RELEASE, drawn.choice([None, None, 1, 2, 3])
    order = drawn.sample([1, 2, 3], 3)
    copies: dict[int, Path] = {}
    if down is not None:
        drawn.choice([running.nodes[down].stop, running.nodes[down].kill])()
    up = next(number for number in order if number != down)
    with Writer(tmp_path / "writer", running.nodes[up].address, seed * 100_000):
        for number in order:
            time.sleep(drawn.choice([0.0, 0.3, 2.0]))
            copies[number] = tmp_path / "copies" / f"node{number}"
            copied_live(running.nodes[number].logs, copies[number])
    if down is not None:
        running.start(down)
    before = {topic: values(client.consume(running.nodes[up].address, topic, 0)) for topic in TOPICS}
    told = foretold(copies)
    with Trio(tmp_path / "again", client, release, copies) as again:
        again.start(*drawn.sample([1, 2, 3], 3))
        after = {topic: values(client.consume(again.nodes[1].address, topic, 0)) for topic in TOPICS}
        again.stop()
        leaders = first_leaders({number: node.logs for number, node in again.nodes.items()}, copies)
    for topic in TOPICS:
        had = {offset: value for logs in copies.values() for offset, value in held(logs, topic).items()}
        lost = {offset for offset, value in had.items() if before[topic].get(offset) == value} - after[topic].keys()
        ranges = told.partitions.get(topic, {"ranges": []})["ranges"]
        spans = [(one["firstOffset"], one["lastOffset"]) for one in ranges if one["leader"] == leaders[topic]]
        print(f"seed {seed} {release} {topic}: down {down}, order {order}, leader {leaders[topic]}, told {spans}, "
              f"of {sorted({one['leader'] for one in ranges})}, lost {len(lost)}")  # fmt: skip
        assert all(any(first <= offset <= last for first, last in spans) for offset in lost), (topic, ranges, lost)
        assert not any(first <= offset <= last for offset in after[topic] for first, last in spans), (topic, ranges)


def copied_live(source: Path, target: Path) -> None:
    """Copies a log directory whose files come and go meanwhile."""
    with suppress(shutil.Error):
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(".lock", "*.tmp", "*.deleted"))


@pytest.mark.parametrize("release", RELEASES)
def test_depends_comes_both_ways(client: Client, tmp_path: Path, release: str) -> None:
    """One eligible node has an earlier copy of a partition: with it as the first leader the records go, with the other
    one they stay; the command that is named keeps them in either case."""
    with Trio(tmp_path / "trio", client, release) as trio:
        trio.start()
        trio.create("d")
        client.ask("produce", trio.nodes[1].address, "d", "none", 0, 20)
        trio.stop()
        earlier = {
            number: shutil.copytree(node.logs, tmp_path / f"earlier{number}") for number, node in trio.nodes.items()
        }
        trio.start()
        client.ask("produce", trio.nodes[1].address, "d", "none", 20, 30)
        trio.stop()
    copies = {number: node.logs for number, node in trio.nodes.items()}
    safe, behind = eligible(copies)
    shutil.rmtree(copies[behind] / "d-0")
    shutil.copytree(earlier[behind] / "d-0", copies[behind] / "d-0")
    told = foretold(copies)
    state = told.partitions["d"]
    assert state["outcome"] == "depends"
    assert {(one["leader"], one["firstOffset"], one["lastOffset"]) for one in state["ranges"]} == {(behind, 20, 49)}
    third = 6 - safe - behind
    assert seen(client, tmp_path / "safe", release, copies, (third, safe, behind)) == 50
    assert seen(client, tmp_path / "loss", release, copies, (third, behind, safe)) == 20
    (argv,) = told.next
    spawned(*argv[1:])
    assert foretold(copies) == Foretold({}, [])
    assert seen(client, tmp_path / "filled", release, copies, (third, behind, safe)) == 50


def eligible(copies: dict[int, Path]) -> tuple[int, int]:
    """Two nodes that may lead d-0, by the newest metadata."""
    known = [one for logs in copies.values() if (one := read_topic_settings(str(logs / "__cluster_metadata-0")))]
    newest = max(known, key=lambda one: one.reached)
    first, second = newest.partitions[newest.ids["d"], 0].may_lead[:2]
    return first, second


def seen(client: Client, folder: Path, release: str, copies: dict[int, Path], order: tuple[int, int, int]) -> int:
    """Starts copies, two at first. Returns how many records are served by all three."""
    with Trio(folder, client, release, copies) as trio:
        trio.nodes[order[0]].launch()
        trio.nodes[order[1]].launch()
        time.sleep(20)
        trio.nodes[order[2]].launch()
        client.ask("await", trio.nodes[order[0]].address)
        time.sleep(5)
        return len(client.consume(trio.nodes[order[0]].address, "d", 0))
