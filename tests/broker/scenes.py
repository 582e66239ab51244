"""Log directories in which real brokers wrote, damage was done, kseg recovered, and brokers started again.

Of each damage there are three copies: kseg recovers one as a broker would, one by salvage, and one is left to the
broker, which is then started as after a crash.
"""

import gzip
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from broker.client import Client, Served
from broker.nodes import Node
from broker.wrecks import Wreck
from kseg.changes.apply import apply
from kseg.changes.lock import locked
from kseg.recovery.broker.loading import plan_partition
from kseg.recovery.options import BrokerStart
from kseg.recovery.planner import reindex
from kseg.recovery.salvage.salvage import plan_salvage
from kseg.recovery.workspace import Workspace

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
REAL = {
    "codec-mix": TESTDATA / "kafka-4.3.1" / "codecs" / "codec-mix-0",
    "one-mixcodec": TESTDATA / "kafka-2.8.2" / "upgraded-from-0.8.2.2" / "one-mixcodec-0",
}
"""Partitions that other brokers wrote; one-mixcodec is of magic 0, 1 and 2."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
INTERVAL_BYTES = 1024
TOPIC = (f"index.interval.bytes={INTERVAL_BYTES}", "retention.ms=-1", "file.delete.delay.ms=1000")
RECOVERED, SALVAGED, LEFT = 0, 1, 2
"""Partitions of the topic of each damage."""
FIELDS = ("offset", "timestamp", "key", "value")

Damage = Callable[[Path], Wreck]


@dataclass
class Scene:
    """``topics``: by name the source and the damage of each. The rest is filled in by `play`: the records of each
    source, what was done to each topic, files before the start, and by (topic, partition) what consumers got then."""

    node: Node
    client: Client
    topics: dict[str, tuple[str, Damage]]
    intact: dict[str, Served] = field(default_factory=dict)
    wrecks: dict[str, Wreck] = field(default_factory=dict)
    before: dict[str, dict[str, bytes]] = field(default_factory=dict)
    served: dict[tuple[str, int], Served] = field(default_factory=dict)
    committed: dict[tuple[str, int], Served] = field(default_factory=dict)

    def partition(self, topic: str, number: int = 0) -> Path:
        return self.node.logs / f"{topic}-{number}"

    def consume(self, topic: str, number: int = 0, isolation: str = "read_uncommitted") -> Served:
        return self.client.consume(self.node.address, topic, number, isolation)

    def play(self) -> None:
        """Leaves the broker stopped in good order."""
        self.node.start()
        self._write()
        for topic in self.topics:
            self.create(topic, 3)
        self.node.crash()
        for topic, (source, damage) in self.topics.items():
            for number in (RECOVERED, SALVAGED, LEFT):
                put(self.partition(topic, number), REAL.get(source) or self.partition(source))
                self.wrecks[topic] = damage(self.partition(topic, number))
            with locked(str(self.node.logs)):
                recover(self.partition(topic, RECOVERED))
                salvage(self.partition(topic, SALVAGED))
        self.before = {path.name: files(path) for path in self.node.logs.iterdir() if path.is_dir()}
        self.node.start()
        for topic in self.topics:
            for number in (RECOVERED, SALVAGED, LEFT):
                self.served[topic, number] = self.consume(topic, number)
                self.committed[topic, number] = self.consume(topic, number, "read_committed")
        self.node.stop()

    def create(self, topic: str, partitions: int) -> None:
        self.node.create(topic, partitions, f"{self.node.SEGMENT_BYTES}=16384", *TOPIC)

    def _write(self) -> None:
        """Topics "plain", of all codecs, and "txn", of committed and aborted transactions, in several segments each."""
        address = self.node.address
        for topic in ("plain", "txn"):
            self.create(topic, 1)
        for i, codec in enumerate(CODECS):
            self.client.ask("produce", address, "plain", codec, 80 * i, 80)
        self.client.ask("produce", address, "plain", "none", 400, 100)
        for i in range(10):
            end = "abort" if i % 3 == 1 else "commit"
            self.client.ask("produce", address, "txn", "none", 40 * i, 40, f"producer-{i % 2}", end)
        for topic in ("plain", "txn"):
            self.intact[topic] = self.consume(topic)
        for source, folder in REAL.items():
            self.intact[source] = recorded(folder.parent / "truth" / folder.name / "read_uncommitted.jsonl.gz")


def recorded(truth: Path) -> Served:
    """The records that a consumer once got."""
    rows = map(json.loads, gzip.decompress(truth.read_bytes()).splitlines())
    return [{name: row[name] for name in FIELDS} for row in rows]


def kseg(*arguments: object, status: int = 0) -> "subprocess.CompletedProcess[str]":
    """Runs a command that must end with a status."""
    command = [sys.executable, "-m", "kseg", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done


def files(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(partition.iterdir()) if path.is_file()}


def of_kind(found: dict[str, bytes], *suffixes: str) -> dict[str, bytes]:
    return {name: data for name, data in found.items() if name.endswith(suffixes)}


def put(partition: Path, source: Path) -> None:
    """The files of another partition in the place of its own, but for the topic's id."""
    for path in partition.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name != "partition.metadata" and path.is_file():
            shutil.copyfile(path, partition / path.name)


def started() -> BrokerStart:
    return BrokerStart(now_ms=time.time_ns() // 1_000_000, interval_bytes=INTERVAL_BYTES)


def recover(partition: Path) -> None:
    apply(plan_partition(str(partition), started()).plan, "recover")


def salvage(partition: Path) -> None:
    apply(plan_salvage(str(partition), started()).plan, "recover --mode salvage")


def rebuild_indexes(partition: Path) -> None:
    workspace = Workspace(str(partition))
    reindex(workspace, started())
    apply(workspace.plan(), "reindex")


def dumped(partition: Path) -> Served:
    """What kseg says a consumer gets."""
    words = ["dump", "--quiet", "--format", "json", "--deep-iteration", "--print-data-log"]
    done = kseg(*words, "--key-format", "base64", "--value-format", "base64", partition)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["type"] for row in rows} <= {"batch", "record"}
    records = [row for row in rows if row["type"] == "record" and "control" not in row]
    return [
        {
            "offset": row["offset"],
            "timestamp": row.get("timestamp", -1),
            "key": row["key"] and row["key"]["base64"],
            "value": row["value"] and row["value"]["base64"],
        }
        for row in records
    ]
