"""Three replicas are erased one node after the other, while producers work and the other nodes serve."""

import shutil
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.client import Client, Leadership, Writer
from broker.nodes import KraftNode, free_ports, wait_until
from broker.scenes import kseg
from kseg import open as open_log

pytestmark = [pytest.mark.broker, pytest.mark.slow]

TOPIC, PARTITION = "erased", "erased-0"
KEYS = ("k3", "k100", "k205", "k262")
"""Keys of a plain record, and of records in a committed and in an aborted transaction."""
SELECTION = [word for key in KEYS for word in ("--key", key)]
_REPLICATED = """offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=1
replica.lag.time.max.ms=4000
"""


class Replicas:
    """A controller and three brokers, which are erased one after the other."""

    def __init__(self, folder: Path, client: Client, stack: ExitStack) -> None:
        self.client, self.folder = client, folder
        port = free_ports(1)[0]
        quorum = f"controller.quorum.voters=1@127.0.0.1:{port}\n"
        listener = f"listeners=CONTROLLER://127.0.0.1:{port}\n"
        roles = f"process.roles=controller\nnode.id=1\n{listener}{quorum}"
        self.controller = stack.enter_context(KraftNode(folder / "controller", client, roles=roles))
        self.brokers = dict[int, KraftNode]()
        for number in (2, 3, 4):
            listener = "listeners=PLAINTEXT://127.0.0.1:{port}\n"
            roles = f"process.roles=broker\nnode.id={number}\n{listener}{quorum}{_REPLICATED}"
            self.brokers[number] = stack.enter_context(KraftNode(folder / f"broker{number}", client, roles=roles))
        self.alive = set[int]()
        self.certificates: dict[int, Path] = {}

    def address(self) -> str:
        return ",".join(self.brokers[number].address for number in sorted(self.alive))

    def now(self) -> Leadership:
        return self.client.replicas(self.address(), TOPIC)

    def write(self, worker: Client, first: int) -> None:
        """Writes a transaction and records without one by turns."""
        transaction = (("at-work", "commit"), ())[first // 10 % 2]
        worker.ask("produce", self.address(), TOPIC, "lz4", first, 10, *transaction)

    def start(self, number: int) -> None:
        self.brokers[number].start()
        self.alive.add(number)

    def stop(self, number: int) -> None:
        self.alive.discard(number)
        self.brokers[number].stop()
        wait_until(lambda: self.now().leader in self.alive)

    def start_in_sync(self, number: int) -> None:
        self.start(number)
        wait_until(lambda: number in self.now().in_sync)

    def erase(self, number: int) -> None:
        self.certificates[number] = self.folder / f"certificate{number}-{len(self.certificates)}"  # none is replaced
        kseg("erase", *SELECTION, "--certificate", self.certificates[number], self.brokers[number].logs)

    def play(self, worker: Client) -> None:
        self.controller.launch()
        for number in self.brokers:
            self.start(number)
        settings = ("replicas=3", "min.insync.replicas=2", "retention.ms=-1", f"{KraftNode.SEGMENT_BYTES}=8192")
        self.client.ask("create", self.address(), TOPIC, 1, *settings)
        self.client.ask("produce", self.address(), TOPIC, "none", 0, 200)
        self.client.ask("produce", self.address(), TOPIC, "gzip", 200, 60, "done", "commit")
        self.client.ask("produce", self.address(), TOPIC, "none", 260, 20, "given-up", "abort")
        self.before = self.client.consume(self.address(), TOPIC, 0)
        with Writer(partial(self.write, worker), 1000, 10) as work:
            leader = self.now().leader
            first, second = (number for number in self.brokers if number != leader)
            for number in (first, second):
                self.stop(number)
                self.erase(number)
                self.start_in_sync(number)
            self.stop(first)  # it loses its disk: an unerased leader gives it everything
            shutil.rmtree(self.brokers[first].logs / PARTITION)
            self.start_in_sync(first)
            self.stop(first)
            self.erase(first)
            self.start_in_sync(first)
            self.stop(leader)
            self.erase(leader)
            self.start_in_sync(leader)
            wait_until(lambda: set(self.now().in_sync) == set(self.brokers))
        self.work = work
        self.after = self.client.consume(self.address(), TOPIC, 0)
        for number in self.brokers:
            self.brokers[number].stop()


@pytest.fixture(scope="module")
def replicas(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    with ExitStack() as stack:
        found = Replicas(folder, client, stack)
        found.play(stack.enter_context(Client(tmp_path_factory.mktemp("worker"))))
        yield found


def key_of(record: dict[str, Any]) -> str | None:
    return None if record["key"] is None else b64decode(record["key"]).decode()


def test_no_other_record_is_lost(replicas: Replicas) -> None:
    wanted = [record for record in replicas.before if key_of(record) not in KEYS]
    assert len(wanted) == len(replicas.before) - len(KEYS)
    assert replicas.after[: len(wanted)] == wanted
    keys = {key_of(record) for record in replicas.after}
    acknowledged = {f"k{number}" for number in replicas.work.acknowledged if number % 7}
    assert acknowledged <= keys
    assert len(acknowledged) > 20


def test_the_replicas_are_equal(replicas: Replicas) -> None:
    logs = [broker.logs for broker in replicas.brokers.values()]
    records = [[(r.offset, r.timestamp, r.key, r.value) for r in open_log(each / PARTITION).records()] for each in logs]
    assert records[0] == records[1] == records[2] != []


def test_nothing_is_left_on_any_node(replicas: Replicas) -> None:
    """``k100`` was in a plain record: four bytes, whose zigzag length is 8."""
    for number, broker in replicas.brokers.items():
        files = [path for path in broker.logs.rglob("*") if path.is_file()]
        assert not [path for path in files if b"\x08k100" in path.read_bytes()]
        kseg("erase", "--check", replicas.certificates[number], broker.logs)
