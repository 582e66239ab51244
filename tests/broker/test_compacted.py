"""Real brokers as the judges of compaction: of two equal partitions kseg cleans one, the broker the other."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import Client, Served
from broker.nodes import KRAFT, KraftNode, wait_until
from broker.scenes import Scene, files, kseg, of_kind, put
from cleaner.partitions import PAIRS, Pair, checkpoint

pytestmark = [pytest.mark.broker, pytest.mark.slow]

OURS, THEIRS = 0, 1
TOPIC = (
    "cleanup.policy=compact", "min.cleanable.dirty.ratio=0.001", "delete.retention.ms=86400000000",
    "index.interval.bytes=1024", "file.delete.delay.ms=1000", f"{KraftNode.SEGMENT_BYTES}=32768",
)  # fmt: skip
PAIR_OF = {pair.name.removesuffix("-0"): pair for pair in PAIRS if pair.release in ("4.3.1", "4.4.0")}


class CleaningNode(KraftNode):
    """A broker of a release whose log cleaner is at work."""

    def settings(self) -> str:
        cleaner = ("enable=true", "backoff.ms=100", "dedupe.buffer.size=4194304", "io.buffer.size=524288")
        return super().settings() + "".join(f"log.cleaner.{setting}\n" for setting in cleaner)


class Judged:
    """``before``: the files that kseg left; ``after``: those when the broker has cleaned and stopped."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.before: dict[str, dict[str, bytes]] = {}
        self.after: dict[str, dict[str, bytes]] = {}
        self.served: dict[tuple[str, int], Served] = {}

    def play(self) -> None:
        scene, logs = self.scene, self.scene.node.logs
        scene.node.start()
        for topic in PAIR_OF:
            scene.node.create(topic, 2, *TOPIC)
        scene.node.stop()
        for path in logs.glob("*-checkpoint"):
            path.write_text("0\n0\n")
        for topic, pair in PAIR_OF.items():
            for number in (OURS, THEIRS):
                put(scene.partition(topic, number), pair.before)
            compact(scene.partition(topic, OURS), pair, scene.node.RELEASE)
        self.before = {topic: files(scene.partition(topic, OURS)) for topic in PAIR_OF}
        assert all(checkpoint(logs, f"{topic}-{OURS}") for topic in PAIR_OF)
        scene.node.start()
        for topic in PAIR_OF:
            wait_until(lambda: bool(checkpoint(logs, f"{topic}-{THEIRS}")))  # noqa: B023
        for topic in PAIR_OF:
            for number in (OURS, THEIRS):
                self.served[topic, number] = scene.consume(topic, number)
        scene.node.stop()
        self.after = {path.name: files(path) for path in logs.iterdir() if path.is_dir()}


def compact(partition: Path, pair: Pair, release: str) -> None:
    words = ["compact", "--quiet", "--min-cleanable-ratio", "0", "--segment-bytes", "32768", "--era", release]
    words += ["--index-interval-bytes", "1024", "--delete-retention-ms", "86400000000", "--drop-null-keys"]
    kseg(*words, partition)
    assert checkpoint(partition.parent, partition.name), pair
    shutil.rmtree(partition / ".kseg-quarantine", ignore_errors=True)


@pytest.fixture(scope="module", params=[KRAFT, "4.3.1"])
def judged(
    request: pytest.FixtureRequest, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judged]:
    with CleaningNode(tmp_path_factory.mktemp("newest") / "node", client, request.param) as node:
        found = Judged(Scene(node, client, {}))
        found.play()
        yield found


@pytest.mark.parametrize("topic", PAIR_OF)
def test_the_broker_serves_what_its_own_cleaner_would_have_left(judged: Judged, topic: str) -> None:
    assert judged.served[topic, OURS]
    assert judged.served[topic, OURS] == judged.served[topic, THEIRS]


@pytest.mark.parametrize("topic", PAIR_OF)
def test_its_cleaner_finds_nothing_to_do(judged: Judged, topic: str) -> None:
    left, now = judged.before[topic], judged.after[f"{topic}-{OURS}"]
    assert of_kind(now, ".log") == of_kind(left, ".log")
    assert list(of_kind(now, ".log")) == list(of_kind(judged.after[f"{topic}-{THEIRS}"], ".log"))
