"""Kafka's own clients and tools on ``kseg serve``: they read what they read from the brokers that wrote the logs."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kseg
from api.consumed import CONSUMED, id_of, partition_of, rows_of
from broker import jars
from broker.client import Client, Served
from broker.nodes import KraftNode, java, wait_until
from cli.command import TESTDATA

pytestmark = pytest.mark.broker

COMMITTED, TXN = TESTDATA / "kafka-4.3.1/committed", TESTDATA / "kafka-4.3.1/clients"
NO_LOGGING = ("org.slf4j", "slf4j-nop", "1.7.36")
CONNECT = "4.3.1"
"""The newest release whose MirrorMaker and Connect the repository of Maven is sure to have."""
FLINK, FLINK_SOURCE = "1.20.0", "3.4.0-1.20"

Serve = Callable[..., "kseg.LogServer"]
READ = [path for path in CONSUMED if not {"kafka-0.6", "kafka-0.7.2"} & {*path.parts} and "__" not in str(path)]


def content(rows: Served) -> list[tuple[int, str | None, str | None]]:
    return [(row["offset"], row["key"], row["value"]) for row in rows]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", READ, ids=id_of)
def test_the_java_consumer_gets_what_it_got_of_the_broker(path: Path, client: Client, kseg_server: Serve) -> None:
    partition = partition_of(path)
    topic, _, number = partition.name.rpartition("-")
    address = kseg_server(partition).bootstrap
    for isolation in ("read_uncommitted", "read_committed"):
        truth = path.with_name(f"{isolation}.jsonl.gz")
        wanted = rows_of(truth if truth.exists() else path)
        got = client.consume(address, topic, int(number), isolation)
        assert [row["offset"] for row in got] == [row["offset"] for row in wanted]
        assert content(got) == content(client.consume(address, topic, int(number), isolation))
    stamps = sorted({row["timestamp"] for row in wanted if row["timestamp"] is not None})[::20]
    first = [next(row["offset"] for row in wanted if (row["timestamp"] or 0) >= stamp) for stamp in stamps]
    assert client.offsets_for_times(address, topic, int(number), stamps) == first


def test_a_java_group_goes_on_where_it_had_stopped(client: Client, kseg_server: Serve) -> None:
    address = kseg_server(COMMITTED).bootstrap
    committed = {("billing", 0): 10, ("billing", 1): 15}
    with kseg.open([COMMITTED / "orders-0", COMMITTED / "orders-1"]) as log:
        left = [record for record in log.records() if record.offset >= committed["billing", record.partition or 0]]
    got = client.next_of_group(address, "billing", "orders", len(left), "read_uncommitted")
    assert sorted(row["offset"] for row in got) == sorted(record.offset for record in left)


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("GetOffsetShell", ["--topic", "orders"], "orders:0:21\norders:1:15\n"),
        ("consumer.ConsoleConsumer", ["--topic", "orders", "--from-beginning", "--timeout-ms", "9000"],
         "Processed a total of 33 messages"),
        ("consumer.group.ConsumerGroupCommand", ["--describe", "--group", "billing"], " 10              21 "),
        ("LogDirsCommand", ["--describe"], '"partition":"orders-1"'),
        ("TopicCommand", ["--describe", "--topic", "orders"], "PartitionCount: 2"),
        ("TopicCommand", ["--delete", "--topic", "orders"], "kseg serve is read-only: nothing is ever written"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)  # fmt: skip
def test_kafkas_tools_work(tool: str, arguments: list[str], told: str, kseg_server: Serve) -> None:
    words = java(
        jars.class_path("kafka-tools", "4.4.0", NO_LOGGING), f"org.apache.kafka.tools.{tool}",
        "--bootstrap-server", kseg_server(COMMITTED).bootstrap, *arguments,
    )  # fmt: skip
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    assert told in done.stdout


@pytest.mark.slow
def test_mirrormaker_brings_all_records_into_a_broker(client: Client, kseg_server: Serve, tmp_path: Path) -> None:
    """With keys, headers and timestamps; what was aborted is left out."""
    class_path = jars.class_path("connect-mirror", CONNECT, NO_LOGGING)
    topic = "librdkafka-txn"
    with KraftNode(tmp_path / "node", client) as node:
        node.start()
        client.ask("create", node.address, f"old.{topic}", 1, "retention.ms=-1")  # the records are old
        settings = {
            "clusters": "old, new", "old.bootstrap.servers": kseg_server(TXN).bootstrap,
            "new.bootstrap.servers": node.address, "old->new.enabled": "true", "old->new.topics": topic,
            "new->old.enabled": "false", "replication.factor": "1", "offset-syncs.topic.location": "target",
            "offset-syncs.topic.replication.factor": "1", "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1", "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1", "status.storage.replication.factor": "1",
            "emit.heartbeats.enabled": "false", "sync.topic.acls.enabled": "false",
            "old->new.source.consumer.isolation.level": "read_committed",
            "old.consumer.isolation.level": "read_committed", "dedicated.mode.enable.internal.rest": "false",
        }  # fmt: skip
        properties = tmp_path / "mirror.properties"
        properties.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        wanted = [row[1:] for row in fields_of(TXN / f"{topic}-0", "read_committed")]
        copy = node.logs / f"old.{topic}-0"
        with running(java(class_path, "org.apache.kafka.connect.mirror.MirrorMaker", str(properties)), tmp_path):
            wait_until(lambda: copy.is_dir() and len(fields_of(copy)) >= len(wanted))
        assert [row[1:] for row in fields_of(copy)] == wanted


@pytest.mark.slow
@pytest.mark.release
def test_a_sink_of_kafka_connect_gets_all_values(kseg_server: Serve, tmp_path: Path) -> None:
    file_sink = ("org.apache.kafka", "connect-file", CONNECT)
    class_path = jars.class_path("connect-runtime", CONNECT, file_sink, NO_LOGGING)
    text, out = "org.apache.kafka.connect.storage.StringConverter", tmp_path / "out.txt"
    settings = {
        "worker": {
            "bootstrap.servers": kseg_server(COMMITTED).bootstrap, "key.converter": text, "value.converter": text,
            "offset.storage.file.filename": tmp_path / "offsets", "listeners": "http://127.0.0.1:0",
        },
        "sink": {"name": "sink", "connector.class": "FileStreamSink", "topics": "orders", "file": out},
    }  # fmt: skip
    for name, lines in settings.items():
        (tmp_path / name).write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    wanted = values_of_orders()
    words = java(
        class_path, "org.apache.kafka.connect.cli.ConnectStandalone", *(str(tmp_path / name) for name in settings)
    )
    with running(words, tmp_path):
        wait_until(lambda: out.exists() and len(out.read_text().splitlines()) >= len(wanted))
    assert sorted(out.read_text().splitlines()) == wanted


@pytest.mark.slow
@pytest.mark.release
def test_flinks_source_gets_all_values(kseg_server: Serve) -> None:
    more = [("org.apache.flink", name, FLINK) for name in ("flink-clients", "flink-connector-base")]
    class_path = jars.class_path("flink-connector-kafka", FLINK_SOURCE, *more, NO_LOGGING, group="org.apache.flink")
    opened = ["--add-opens=java.base/java.util=ALL-UNNAMED", str(Path(__file__).with_name("FlinkRead.java"))]
    words = java(class_path, *opened, kseg_server(COMMITTED).bootstrap, "orders")
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert sorted(done.stdout.splitlines()) == values_of_orders(), done.stderr[-2000:]


def values_of_orders() -> list[str]:
    with kseg.open([COMMITTED / "orders-0", COMMITTED / "orders-1"]) as log:
        return sorted(record.value.decode() for record in log.records() if record.value is not None)


@contextmanager
def running(words: list[str], folder: Path) -> Iterator[None]:
    with (folder / "program.log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.kill()


def fields_of(partition: Path, isolation: str = "read_uncommitted") -> list[tuple[object, ...]]:
    with kseg.open(partition, live=True) as log:
        return [
            (record.offset, record.timestamp, record.key, record.value, record.headers)
            for record in log.records(isolation=isolation)  # type: ignore[arg-type]
        ]
