"""Real brokers as the judges of retention: of two equal partitions kseg retains one and the broker the other."""

from collections.abc import Iterator

import pytest

from broker import scenes
from broker.client import Client, Served
from broker.nodes import KraftNode, OldNode, wait_until
from broker.scenes import Scene, files, kseg, put

pytestmark = [pytest.mark.broker, pytest.mark.slow]

OURS, THEIRS = 0, 1
SIZE = ("retention.bytes=24000", "retention.ms=-1")
AGE = ("retention.ms=1000",)
"""The records are from 2023."""
TOPICS = {"size": ("plain", SIZE), "txn-size": ("txn", SIZE), "age": ("plain", AGE), "txn-age": ("txn", AGE)}
START = {"start": "plain", "txn-start": "txn"}
SOURCES = {name: of for name, (of, _) in TOPICS.items()} | START
FIRST = 123
NEWEST, OLD = "4.4", "2.8"
SEGMENTS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".deleted")


class Judged:
    """``before``: the files that kseg left; ``after``: those of both when the broker has started and stopped;
    ``undone``: what it serves when kseg has then put back what it had deleted."""

    def __init__(self, scene: Scene, era: str) -> None:
        self.scene = scene
        self.era = era
        self.served: dict[str, Served] = {}
        self.before: dict[str, dict[str, bytes]] = {}
        self.undone: dict[str, Served] = {}
        self.starts: list[str] = []
        self.after: dict[str, dict[str, bytes]] = {}

    def play(self) -> None:
        scene, logs = self.scene, self.scene.node.logs
        scene.node.start()
        scene._write()
        for topic in SOURCES:
            words = (f"{scene.node.SEGMENT_BYTES}=16384", "index.interval.bytes=1024", "file.delete.delay.ms=86400000")
            limits = TOPICS[topic][1] if topic in TOPICS else ("retention.ms=-1",)
            scene.node.create(topic, 2, *words, *limits)
        scene.node.stop()
        for topic, source in SOURCES.items():
            for number in (OURS, THEIRS):
                put(scene.partition(topic, number), scene.partition(source))
        for path in logs.glob("*-checkpoint"):
            if path.name != "cleaner-offset-checkpoint":
                path.write_text("0\n0\n")
        for topic in TOPICS:
            kseg("retain", "--quiet", scene.partition(topic, OURS), "--era", self.era, *self.options(topic))
        for topic in START:
            kseg("retain", "--quiet", scene.partition(topic, OURS), "--era", self.era, "--log-start-offset", str(FIRST))
        self.before = {topic: files(scene.partition(topic, OURS)) for topic in SOURCES}
        scene.node.start()
        for topic in TOPICS:
            wait_until(lambda: not (scene.partition(topic, THEIRS) / f"{0:020d}.log").exists())  # noqa: B023
        for topic in START:
            self.served[topic] = scene.consume(topic, OURS)
        scene.client.ask("produce", scene.node.address, "size", "none", 500, 10)
        self.served["size"] = scene.consume("size", OURS)
        scene.node.stop()
        self.after = {path.name: files(path) for path in logs.iterdir() if path.is_dir()}
        self.starts = (logs / "log-start-offset-checkpoint").read_text().splitlines()
        for topic in START:
            kseg("undo", "--quiet", scene.partition(topic, OURS))
        scene.node.start()
        for topic in START:
            self.undone[topic] = scene.consume(topic, OURS)
        scene.node.stop()

    def options(self, topic: str) -> list[str]:
        """What kseg has to be told: in KRaft the metadata of the cluster tell the topic's settings."""
        if self.era == NEWEST:
            return []
        settings = [("policy", "delete"), *(word.split("=") for word in TOPICS[topic][1])]
        return [option for name, value in settings for option in ("--" + name.replace(".", "-"), value)]


@pytest.fixture(scope="module", params=[NEWEST, OLD])
def judged(
    request: pytest.FixtureRequest, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judged]:
    kind = KraftNode if request.param == NEWEST else OldNode
    with kind(tmp_path_factory.mktemp("retained") / "node", client) as node:
        found = Judged(Scene(node, client, {}), request.param)
        found.play()
        yield found


@pytest.mark.parametrize("topic", TOPICS)
def test_the_broker_leaves_what_kseg_has_left(judged: Judged, topic: str) -> None:
    """Names and bytes, of what goes too: both began with the same files."""
    ours, theirs = (
        scenes.of_kind(found, *SEGMENTS) for found in (judged.before[topic], judged.after[f"{topic}-{THEIRS}"])
    )
    assert f"{0:020d}.log.deleted" in theirs
    if judged.era == OLD:  # removes snapshots later, and makes the indexes of an empty segment when it needs them
        for name in [name for name in theirs if name.replace(".snapshot", ".log.deleted") in theirs]:
            if name.endswith(".snapshot"):
                del theirs[name]
        ours = {name: data for name, data in ours.items() if data or name in theirs}
    assert sorted(ours) == sorted(theirs)
    assert ours == theirs


@pytest.mark.parametrize("topic", TOPICS)
def test_what_kseg_left_is_what_the_broker_goes_on_with(judged: Judged, topic: str) -> None:
    left, now = (
        scenes.of_kind(found, ".log", ".deleted") for found in (judged.before[topic], judged.after[f"{topic}-{OURS}"])
    )
    kept = [name for name in left if not name.endswith(".deleted")]
    assert kept == list(now)[: len(kept)]
    assert [name for name in kept if not now[name].startswith(left[name])] == []
    assert [name for name in now if name.endswith(".deleted")] == []


@pytest.mark.parametrize("topic", START)
def test_the_log_starts_where_it_was_asked_to(judged: Judged, topic: str) -> None:
    scene = judged.scene
    whole = [record for record in scene.intact[START[topic]] if record["offset"] >= FIRST]
    assert judged.served[topic] == whole
    assert f"{topic} {OURS} {FIRST}" in judged.starts


@pytest.mark.parametrize("topic", START)
def test_the_broker_serves_all_of_it_again_after_an_undo(judged: Judged, topic: str) -> None:
    """Although it was at work in between, and has removed the segments."""
    assert judged.undone[topic] == judged.scene.intact[START[topic]]


def test_records_go_on_behind_the_old_log_end(judged: Judged) -> None:
    assert judged.served["size"][-1]["offset"] == 509
