"""A log directory that eight processes have written at once, served by a broker."""

import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from broker.client import Client, Served
from broker.nodes import KraftNode

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PROCESSES, RECORDS = 8, 500
TIME = 1_790_000_000_000
PROGRAM = f"""
import sys, kseg
number = int(sys.argv[2])
codec = ("none", "gzip", "snappy", "lz4", "zstd")[number % 5]
with kseg.log_writer(sys.argv[1], codec=codec, segment_bytes=4096, batch_bytes=1024) as writer:
    writer.append(topic="solo", partition=number, value=None, key=b"%d" % number, headers=[(b"\\xff", None)])
    writer.extend(
        {{"topic": "many", "partition": number, "key": b"%d" % n, "value": b"value %d" % n, "timestamp": {TIME} + n}}
        for n in range({RECORDS})
    )
    writer.append(topic="many", partition=number, offset=10 * {RECORDS}, value=b"a gap before it", timestamp={TIME})
"""


@pytest.fixture(scope="module")
def served(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, int], Served]]:
    with KraftNode(tmp_path_factory.mktemp("written") / "node", client) as node:
        node.start()
        places = [(topic, number) for topic in ("many", "solo") for number in range(PROCESSES)]
        for topic in ("many", "solo"):
            node.create(topic, PROCESSES, "retention.ms=-1")
        node.stop()
        for topic, number in places:
            shutil.rmtree(node.logs / f"{topic}-{number}")
        command = [sys.executable, "-c", PROGRAM, str(node.logs)]
        started = [subprocess.Popen([*command, str(number)]) for number in range(PROCESSES)]
        assert [process.wait() for process in started] == [0] * PROCESSES
        node.start()
        yield {place: client.consume(node.address, *place) for place in places}
        assert not list(node.logs.glob("*-stray"))


def test_a_broker_serves_every_record(served: dict[tuple[str, int], Served]) -> None:
    for number in range(PROCESSES):
        rows = [(row["offset"], row["timestamp"]) for row in served["many", number]]
        assert rows == [*((n, TIME + n) for n in range(RECORDS)), (10 * RECORDS, TIME)]
        (row,) = served["solo", number]
        assert (row["offset"], row["timestamp"], row["value"]) == (0, -1, None)
