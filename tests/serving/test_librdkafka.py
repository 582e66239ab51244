"""librdkafka, through its Python client: what the real consumer got, groups, refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import CONSUMED, id_of, partition_of, rows_of

library = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

Serve = Callable[..., "kseg.LogServer"]
READ = [path for path in CONSUMED if "codecs" in path.parts and not {"kafka-0.6", "kafka-0.7.2"} & {*path.parts}]
_END_OF_PARTITION = -191


def rows_at(address: str, topic: str, number: int, **more: Any) -> list[tuple[int, bytes | None, bytes | None]]:
    settings = {"bootstrap.servers": address, "group.id": "test", "enable.partition.eof": True, "check.crcs": True}
    consumer = library.Consumer({**settings, "fetch.wait.max.ms": 10, "log_level": 0, **more})
    consumer.assign([library.TopicPartition(topic, number, library.OFFSET_BEGINNING)])
    found = []
    try:
        while True:
            (message,) = consumer.consume(1, 60)
            if message.error() is not None:
                assert message.error().code() == _END_OF_PARTITION, message.error()
                return found
            found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("path", READ, ids=id_of)
def test_it_gets_what_the_real_consumer_got(path: Path, kseg_server: Serve) -> None:
    partition = partition_of(path)
    topic, _, number = partition.name.rpartition("-")
    wanted = [(row["offset"], row["key"], row["value"]) for row in rows_of(path)]
    assert rows_at(kseg_server(partition).bootstrap, topic, int(number)) == wanted


def test_its_producers_are_refused_at_once(kseg_server: Serve, testdata: Path) -> None:
    address, heard = kseg_server(testdata / "kafka-4.3.1/committed").bootstrap, list[Any]()
    producer = library.Producer({"bootstrap.servers": address, "log_level": 0})
    producer.produce("orders", b"x", on_delivery=lambda error, _message: heard.append(error.code()))
    producer.flush(60)
    assert heard == [library.KafkaError.POLICY_VIOLATION]
