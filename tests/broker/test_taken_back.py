"""Deleted topics and segments that come back, a partition under another name, and one out of an image, served by the
same broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import Client, Served
from broker.nodes import KraftNode, wait_until
from broker.scenes import kseg
from carving.images import padded

pytestmark = [pytest.mark.broker, pytest.mark.slow]

RECORDS = 400
SMALL_SEGMENTS = (f"{KraftNode.SEGMENT_BYTES}=2048", "file.delete.delay.ms=600000")


class ShortRetention(KraftNode):
    """A broker whose retention may be changed between its lives."""

    retention_bytes = -1

    def settings(self) -> str:
        return super().settings() + f"log.retention.bytes={self.retention_bytes}\nlog.retention.ms=-1\n"


class TakenBack:
    """``before`` and ``after``: what a consumer got of each topic before its records were deleted, and at the end."""

    def __init__(self, node: ShortRetention, client: Client, folder: Path) -> None:
        self.node, self.client, self.folder = node, client, folder
        self.before: dict[str, Served] = {}
        self.after: dict[str, Served] = {}
        self.ends: dict[str, int] = {}

    def play(self) -> None:
        node = self.node
        node.start()
        for topic in ("deleted", "kept", "aged"):
            node.create(topic, 1, *SMALL_SEGMENTS)
            self.client.ask("produce", node.address, topic, "none", 0, RECORDS)
            self.before[topic] = self.client.consume(node.address, topic, 0)
        self.client.ask("delete", node.address, "deleted")
        wait_until(lambda: any(node.logs.glob("deleted-0.*-delete")))
        node.stop()
        kseg("restore", "--undelete", "--topic", "deleted", node.logs)
        node.retention_bytes = 4096
        node.start()  # the topic is gone: the directory is set aside
        for topic in ("deleted", "copy", "raw"):
            node.create(topic, 1, *SMALL_SEGMENTS)
        wait_until(lambda: any((node.logs / "aged-0").glob("*.log.deleted")))
        wait_until(lambda: self.client.consume(node.address, "aged", 0)[0]["offset"] > 0)
        node.stop()
        kseg("restore", "--undelete", node.logs)
        output = self.folder / "output"
        kseg("restore", "--as", "copy-0", "--for-cluster", node.logs, "--output", output, node.logs / "kept-0")
        carved = self._carved(node.logs / "kept-0")
        kseg("restore", "--as", "raw-0", "--for-cluster", node.logs, "--output", output, carved)
        for name in ("copy-0", "raw-0"):
            (node.logs / name).rename(self.folder / f"empty-{name}")
            (output / name).rename(node.logs / name)
        node.retention_bytes = -1
        for _ in range(2):
            node.start()
            for topic in ("deleted", "aged", "copy", "raw"):
                self.after[topic] = self.client.consume(node.address, topic, 0)
                self.client.ask("produce", node.address, topic, "none", 0, 5)
                self.ends[topic] = self.client.consume(node.address, topic, 0)[-1]["offset"]
            node.stop()

    def _carved(self, partition: Path) -> Path:
        """The directory that comes out of an image with the files of a partition."""
        image, output = self.folder / "disk.img", self.folder / "carved"
        files = sorted(path for path in partition.iterdir() if path.is_file())
        image.write_bytes(b"".join(padded(path.read_bytes()) for path in files))
        kseg("carve", "--output", output, image)
        (found,) = output.glob("carved-*")
        return found


@pytest.fixture(scope="module")
def taken_back(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TakenBack]:
    with ShortRetention(tmp_path_factory.mktemp("taken-back") / "node", client) as node:
        found = TakenBack(node, client, tmp_path_factory.mktemp("folder"))
        found.play()
        yield found


@pytest.mark.parametrize(
    ("topic", "source"), [("deleted", "deleted"), ("aged", "aged"), ("copy", "kept"), ("raw", "kept")]
)
def test_all_records_are_served_again(taken_back: TakenBack, topic: str, source: str) -> None:
    assert len(taken_back.before[source]) == RECORDS
    assert taken_back.after[topic][:RECORDS] == taken_back.before[source]


@pytest.mark.parametrize("topic", ["deleted", "aged", "copy", "raw"])
def test_producers_go_on_at_the_end(taken_back: TakenBack, topic: str) -> None:
    assert taken_back.ends[topic] == RECORDS + 9


def test_no_directory_is_set_aside_at_the_end(taken_back: TakenBack) -> None:
    assert [path.name for path in taken_back.node.logs.iterdir() if path.name.endswith("-stray")] == []
