"""A real broker as the judge of converted partitions: it starts on them, changes nothing and serves every record."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client import Client, Served
from broker.nodes import KraftNode
from broker.scenes import FIELDS, INTERVAL_BYTES, REAL, TESTDATA, Scene, dumped, files, kseg, of_kind, put
from kseg.api.scan import scan
from kseg.api.writer import writer
from segment.reading import records_at

pytestmark = [pytest.mark.broker, pytest.mark.slow]

V07 = TESTDATA / "kafka-0.7.2" / "direct" / "codecs-0"
V1 = TESTDATA / "kafka-0.10.2.2" / "codecs" / "compact-lat-snappy-0"
CONVERSIONS = {
    "recompressed": ("plain", ("--codec", "zstd:7")),
    "unpacked": ("plain", ("--codec", "none")),
    "regrouped": ("plain", ("--codec", "lz4", "--batch-bytes", "3K", "--segment-bytes", "16K")),
    "transactions": ("txn", ("--codec", "gzip", "--segment-bytes", "16K")),
    "committed": ("txn", ("--isolation", "read_committed")),
    "mixed": ("codec-mix", ("--codec", "snappy")),
    "raised": ("one-mixcodec", ("--to", "v2")),
    "raised-and-packed": ("one-mixcodec", ("--to", "v2", "--codec", "zstd")),
    "of-0-10": (V1, ("--to", "v2")),
    "of-0-7": (V07, ("--codec", "lz4", "--base-offset", "100")),
}
IMPORTED = {"imported": "plain", "imported-txn": "txn"}
BARE: list[dict[str, Any]] = [
    {"key": f"k{n}", "value": {"n": n}, "timestamp": 1_700_000_000_000 + n} for n in range(300)
]
KINDS = (".log", ".index", ".timeindex", ".txnindex")


class Stage:
    """Topics of one partition each, whose logs kseg has made; ``before``: their files when the broker started."""

    def __init__(self, folder: Path, client: Client) -> None:
        self.folder = folder
        self.scene = Scene(KraftNode(folder / "node", client), client, {})
        self.before: dict[str, dict[str, bytes]] = {}
        self.served: dict[str, Served] = {}
        self.committed: dict[str, Served] = {}

    def play(self) -> None:
        scene, node = self.scene, self.scene.node
        node.start()
        scene._write()
        scene.committed["txn", 0] = scene.consume("txn", 0, "read_committed")
        topics = [*CONVERSIONS, *IMPORTED, "bare", "written"]
        for topic in topics:
            scene.create(topic, 1)
        node.crash()
        for topic, (source, options) in CONVERSIONS.items():
            path = source if isinstance(source, Path) else REAL.get(source) or scene.partition(source)
            self._convert(topic, path, "--index-interval-bytes", INTERVAL_BYTES, *options)
        for topic, source in IMPORTED.items():
            lines = self.folder / f"{topic}.jsonl"
            kseg("convert", "--to", "jsonl", "--output", lines, scene.partition(source))
            self._convert(topic, lines, "--from", "jsonl", "--index-interval-bytes", INTERVAL_BYTES)
        lines = self.folder / "bare.jsonl"
        lines.write_text("".join(json.dumps(line) + "\n" for line in BARE))
        self._convert("bare", lines, "--from", "jsonl", "--codec", "zstd", "--index-interval-bytes", INTERVAL_BYTES)
        self._write("written")
        node.start()
        for topic in topics:
            self.served[topic] = scene.consume(topic)
            self.committed[topic] = scene.consume(topic, 0, "read_committed")
        node.stop()

    def _write(self, topic: str) -> None:
        """A partition that Python writes, of records one by one and of a scan of another partition."""
        output = self.folder / f"made-{topic}"
        options: dict[str, Any] = {
            "codec": "lz4", "segment_bytes": 4 << 10, "batch_bytes": 1 << 10, "index_interval_bytes": INTERVAL_BYTES,
        }  # fmt: skip
        with writer(output / "written-0", **options) as made:
            for row in BARE:
                made.append(
                    key=row["key"].encode(), value=json.dumps(row["value"]).encode(), timestamp=row["timestamp"]
                )
            made.append(value=b"a gap before it", offset=made.next_offset + 10)
            made.extend(scan(self.scene.partition("bare"), columns=["key", "value", "timestamp", "headers"]))
        put(self.scene.partition(topic), output / "written-0")
        self.before[topic] = files(self.scene.partition(topic))

    def _convert(self, topic: str, source: Path, *options: object) -> None:
        output = self.folder / f"made-{topic}"
        kseg("convert", "--quiet", *options, "--output", output, source)
        (made,) = (path for path in output.iterdir() if path.is_dir())
        put(self.scene.partition(topic), made)
        self.before[topic] = files(self.scene.partition(topic))


@pytest.fixture(scope="module")
def stage(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    found = Stage(tmp_path_factory.mktemp("converted"), client)
    with found.scene.node:
        found.play()
        yield found


def intact(stage: Stage, source: object) -> Served:
    return stage.scene.intact[source] if isinstance(source, str) else dumped(source)  # type: ignore[index,arg-type]


@pytest.mark.parametrize("topic", [*CONVERSIONS, *IMPORTED])
def test_a_broker_serves_every_record(stage: Stage, topic: str) -> None:
    source = CONVERSIONS[topic][0] if topic in CONVERSIONS else IMPORTED[topic]
    served = [{name: row[name] for name in FIELDS} for row in stage.served[topic]]
    if topic == "of-0-7":
        values = [b64encode(record.value or b"").decode() for record in records_at(V07)]
        assert [(row["offset"], row["value"]) for row in served] == list(enumerate(values, 100))
        return
    if topic == "committed":
        assert served == stage.scene.committed["txn", 0] == stage.committed[topic]
        return
    assert served == intact(stage, source)
    if source == "txn":
        assert stage.committed[topic] == stage.scene.committed["txn", 0]
        assert len(stage.committed[topic]) < len(served)


def test_a_broker_serves_what_was_made_of_text(stage: Stage) -> None:
    rows = kseg("dump", "--print-data-log", "--format", "json", stage.scene.partition("bare")).stdout.splitlines()
    values = [json.loads(row)["value"] for row in rows if json.loads(row)["type"] == "record"]
    assert [json.loads(value) for value in values] == [line["value"] for line in BARE]
    assert [(row["offset"], row["timestamp"]) for row in stage.served["bare"]] == [
        (n, line["timestamp"]) for n, line in enumerate(BARE)
    ]


def test_a_broker_serves_what_python_wrote(stage: Stage) -> None:
    rows = [{name: row[name] for name in FIELDS} for row in stage.served["written"]]
    count = len(BARE)
    assert rows[:count] == [
        {
            "offset": n,
            "timestamp": row["timestamp"],
            "key": packed(row["key"]),
            "value": packed(json.dumps(row["value"])),
        }
        for n, row in enumerate(BARE)
    ]
    assert (rows[count]["offset"], rows[count]["key"]) == (count + 10, None)
    assert rows[count]["value"] == packed("a gap before it")
    copied = [
        {**{name: row[name] for name in FIELDS}, "offset": n} for n, row in enumerate(stage.served["bare"], count + 11)
    ]
    assert rows[count + 1 :] == copied
    assert len(of_kind(stage.before["written"], ".log")) > 1


def packed(text: object) -> str:
    return b64encode(str(text).encode()).decode()


@pytest.mark.parametrize("topic", [*CONVERSIONS, *IMPORTED, "bare", "written"])
def test_a_broker_changes_no_file(stage: Stage, topic: str) -> None:
    """It started as after a crash: it has looked at all of the log and rebuilt the indexes."""
    after = files(stage.scene.partition(topic))
    assert of_kind(after, *KINDS) == of_kind(stage.before[topic], *KINDS)
