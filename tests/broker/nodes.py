"""Single brokers on free ports of the local host, each over one log directory that may be changed between its lives."""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

from broker import jars
from broker.client import Client, Leadership

KRAFT, OLD = "4.4.0", "2.8.2"
LOGGING = ("org.slf4j", "slf4j-simple", "1.7.36")
START_SECONDS = 300
"""On a busy machine; an idle one needs a few."""
TRIES = 3
CLUSTER_ID = "c2VnbWVudHMtYXQtcmVzdA"

_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_SETTINGS = """log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
log.cleaner.enable=false
log.index.size.max.bytes=16384
num.io.threads=2
num.network.threads=1
background.threads=2
"""
ALONE = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
"""
_KRAFT_SETTINGS = """controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,COPY:PLAINTEXT,CONTROLLER:PLAINTEXT
log.initial.task.delay.ms=500
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=1000
broker.heartbeat.interval.ms=300
broker.session.timeout.ms=1500
initial.broker.registration.timeout.ms=300000
group.coordinator.threads=1
share.coordinator.threads=1
"""
_OF_TRIO = """process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
listeners={listener}://127.0.0.1:{{port}},CONTROLLER://127.0.0.1:{own}
inter.broker.listener.name={listener}
default.replication.factor=3
min.insync.replicas=2
transaction.state.log.replication.factor=3
controller.quorum.election.timeout.ms=1000
"""
_OLD_SETTINGS = """broker.id=1
log.retention.check.interval.ms=1000
listeners=PLAINTEXT://127.0.0.1:{port}
"""


class NodeError(Exception):
    """A broker did not start; the message ends with its last words."""


def java(class_path: str, *arguments: str) -> list[str]:
    return ["java", *_JVM, "-cp", class_path, *arguments]


class Node:
    """A broker in a folder of its own; ``logs`` is its log directory. Subclasses say how it is set up."""

    SEGMENT_BYTES = "segment.bytes"
    """The setting of a topic by that name; it takes small values too."""
    RELEASE = OLD
    LAST_FILE = "leader-epoch-checkpoint"
    """What is written when a partition is made and led."""

    def __init__(self, folder: Path, client: Client) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.properties = folder / "server.properties"
        self.address = ""
        self._client = client
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        folder.mkdir(parents=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def command(self) -> list[str]:
        raise NotImplementedError

    def settings(self) -> str:
        raise NotImplementedError

    def launch(self) -> "subprocess.Popen[bytes]":
        """A process that has only just begun to start; it writes its log to broker.log."""
        port, controller = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        self.properties.write_text(
            (_SETTINGS + self.settings()).format(logs=self.logs, port=port, controller=controller)
        )
        with (self.folder / "broker.log").open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(self.command(), stdout=log, stderr=log, cwd=self.folder)
        return self._process

    def start(self) -> None:
        """Returns when the broker leads all its partitions. Raises NodeError where it ends or takes too long."""
        for _ in range(TRIES):
            self.launch()
            if self.is_up():
                self._client.ask("await", self.address)
                return
            self.kill()
            if not self._lost_its_port():
                break
        raise NodeError(f"the broker did not start:\n{self.last_words()}")

    def create(self, topic: str, partitions: int, *settings: str) -> None:
        """Creates a topic, and returns when all of it is on the disk."""
        self._client.ask("create", self.address, topic, partitions, *settings)
        for number in range(partitions):
            wait_until((self.logs / f"{topic}-{number}" / self.LAST_FILE).exists)

    def start_in_vain(self) -> str:
        """What a broker logs that ends of itself. Raises NodeError where it does not."""
        for _ in range(TRIES):
            process = self.launch()
            try:
                process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise NodeError(f"the broker did not end:\n{self.last_words()}") from None
            if not self._lost_its_port():
                break
        if process.returncode == 0:
            raise NodeError(f"the broker ended well:\n{self.last_words()}")
        return self.words()

    def _lost_its_port(self) -> bool:
        """Whether another program has taken a port that was free a moment before."""
        return "Address already in use" in self.words()

    def is_up(self) -> bool:
        """Whether the process that was launched takes connections; waits until it does or ends."""
        host, _, port = self.address.partition(":")
        end = time.monotonic() + START_SECONDS
        while self._process is not None and self._process.poll() is None and time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return True
            time.sleep(0.05)
        return False

    def words(self) -> str:
        """What the process launched last has logged."""
        return (self.folder / "broker.log").read_bytes()[self._log_start :].decode(errors="replace")

    def last_words(self) -> str:
        return self.words()[-3000:]

    def stop(self, seconds: int = START_SECONDS) -> None:
        """Ends it in good order, so that the log directory is marked as clean. Raises TimeoutExpired."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(seconds)
            self._process = None

    def kill(self) -> None:
        """Ends it as a power cut would, but for what the page cache still holds."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def crash(self) -> None:
        """Ends it so that its next start is one after a crash."""
        self.kill()


class KraftNode(Node):
    """Broker and controller, of the newest release unless ``RELEASE`` says otherwise."""

    RELEASE = KRAFT

    SEGMENT_BYTES = "internal.segment.bytes"
    LAST_FILE = "partition.metadata"

    def __init__(self, folder: Path, client: Client, release: str = KRAFT, roles: str = ALONE, *flags: str) -> None:
        """``flags``: of the tool that formats the log directory."""
        self._prepare(folder, client, release, roles)
        settings = (_SETTINGS + KraftNode.settings(self)).format(logs=self.logs, port=1, controller=2)
        self.properties.write_text(settings)
        format_it = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self.properties), *flags]
        subprocess.run(java(self._class_path, *format_it), check=True, stdout=subprocess.DEVNULL)

    def _prepare(self, folder: Path, client: Client, release: str, roles: str) -> None:
        super().__init__(folder, client)
        self.RELEASE, self.roles = release, roles
        self._class_path = jars.class_path("kafka_2.13", self.RELEASE, LOGGING)

    def command(self) -> list[str]:
        return java(self._class_path, "kafka.Kafka", str(self.properties))

    def settings(self) -> str:
        return self.roles + _KRAFT_SETTINGS


class CopiedNode(KraftNode):
    """A node over a copy of the log directory of another one."""

    def __init__(self, folder: Path, client: Client, release: str, roles: str, logs: Path) -> None:
        self._prepare(folder, client, release, roles)
        shutil.copytree(logs, self.logs, ignore=shutil.ignore_patterns(".lock"))


class Trio:
    """Three nodes, each broker and controller, with static voters. ``copies``: log directories by node that they have
    to begin with. Copies have a listener of another name, so that they never fetch from the nodes that they are copies
    of, whose addresses are in the metadata until each has registered."""

    def __init__(self, folder: Path, client: Client, release: str, copies: dict[int, Path] | None = None) -> None:
        ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in ports.items())
        self.client = client

        def made(number: int) -> KraftNode:
            listener = "PLAINTEXT" if copies is None else "COPY"
            roles = _OF_TRIO.format(number=number, voters=voters, own=ports[number], listener=listener)
            arguments = (folder / f"node{number}", client, release, roles)
            return KraftNode(*arguments) if copies is None else CopiedNode(*arguments, copies[number])

        with ThreadPoolExecutor() as pool:
            self.nodes = dict(zip(ports, pool.map(made, ports), strict=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.kill()

    def start(self, *numbers: int) -> None:
        """Starts nodes together, by default all, and returns when they answer and all partitions have leaders. Raises
        AssertionError."""
        started = [self.nodes[number] for number in numbers or self.nodes]
        for node in started:
            node.launch()
        for node in started:
            assert node.is_up(), node.last_words()
        self.client.ask("await", started[0].address)

    def replicas(self, topic: str, node: int = 1) -> Leadership:
        """Of partition 0, by the metadata of a node."""
        return self.client.replicas(self.nodes[node].address, topic)

    def create(self, topic: str, *settings: str) -> None:
        """Creates a topic of one partition, once enough brokers are registered."""

        def is_made() -> bool:
            try:
                self.client.ask("create", self.nodes[1].address, topic, 1, "retention.ms=-1", *settings)
            except AssertionError as failure:
                if "registered" not in str(failure):
                    raise
                return False
            return True

        wait_until(is_made)

    def stop(self, *numbers: int) -> None:
        """Stops nodes, by default all, at once. The last ones may wait for ever for a controller: they are killed."""

        def end(number: int) -> None:
            with suppress(subprocess.TimeoutExpired):
                self.nodes[number].stop(40)
            self.nodes[number].kill()

        with ThreadPoolExecutor() as pool:
            list(pool.map(end, numbers or self.nodes))


class Cluster:
    """A controller and a broker in processes of their own. ``controller_id`` and ``port`` are those of the controller
    that both look for at their next start."""

    def __init__(self, folder: Path, client: Client, release: str, is_dynamic: bool) -> None:
        self.is_dynamic = is_dynamic
        self.controller_id, (self.port,) = 1, free_ports(1)
        makings = [
            (folder / "controller", client, release, self._controller_roles, *["--standalone"] * is_dynamic),
            (folder / "broker", client, release, self._broker_roles, *["--no-initial-controllers"] * is_dynamic),
        ]
        with ThreadPoolExecutor() as pool:
            self.controller, self.broker = pool.map(lambda making: KraftNode(*making), makings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def _quorum(self) -> str:
        address = f"127.0.0.1:{self.port}"
        if self.is_dynamic:
            return f"controller.quorum.bootstrap.servers={address}\n"
        return f"controller.quorum.voters={self.controller_id}@{address}\n"

    @property
    def _controller_roles(self) -> str:
        listener = f"listeners=CONTROLLER://127.0.0.1:{self.port}\n"
        return f"process.roles=controller\nnode.id={self.controller_id}\n{listener}{self._quorum}"

    @property
    def _broker_roles(self) -> str:
        snapshots = "metadata.log.max.snapshot.interval.ms=1000\n"
        return f"process.roles=broker\nnode.id=2\nlisteners=PLAINTEXT://127.0.0.1:{{port}}\n{snapshots}{self._quorum}"

    def start(self) -> None:
        """Returns when the broker leads all its partitions. Raises NodeError."""
        self.controller.roles, self.broker.roles = self._controller_roles, self._broker_roles
        self.controller.launch()
        self.broker.start()

    def kill(self) -> None:
        self.broker.kill()
        self.controller.kill()


class OldNode(Node):
    """A release of the years before KRaft; its ZooKeeper runs in the same process."""

    def __init__(self, folder: Path, client: Client) -> None:
        super().__init__(folder, client)
        self._class_path = jars.class_path("kafka_2.13", OLD, LOGGING)

    def command(self) -> list[str]:
        driver = str(Path(__file__).with_name("ZooKeeperBroker.java"))
        return java(self._class_path, driver, str(self.properties), str(self.folder / "zookeeper"))

    def settings(self) -> str:
        return _OLD_SETTINGS

    def crash(self) -> None:
        """ZooKeeper would refuse a killed broker until its session expires, so that this one only leaves no traces."""
        self.stop()
        for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
            (self.logs / name).unlink()


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + START_SECONDS
    while not is_so():
        assert time.monotonic() < end, f"{is_so} in vain"
        time.sleep(0.02)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on just now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
