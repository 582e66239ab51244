"""A real broker and kseg keep each other out of a log directory, and what kseg leaves there stops no broker.

Maven fetches the broker once, as it does the tools; it runs as a single node with KRaft, on ports that are free.
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kseg.changes.apply import apply
from kseg.changes.lock import locked
from kseg.changes.log_directory import LogDirectoryChange
from kseg.changes.plan import Plan
from kseg.cli.main import run

KAFKA = "4.4.0"
POM = f"""<project><modelVersion>4.0.0</modelVersion>
<groupId>kseg</groupId><artifactId>broker</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA}</version>
</dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
</dependency>
</dependencies></project>
"""
LOGGING = [f"-Dorg.slf4j.simpleLogger.{name}=false" for name in ("showThreadName", "showLogName", "showShortLogName")]
STARTED, REFUSED = "Kafka Server started", "Failed to acquire lock on file .lock"
SECONDS = 120

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def class_path() -> str:
    """The jars of a broker; fetched where the cache does not have them all."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kseg-tests" / f"kafka-broker-{KAFKA}"
    listed = cache / "class-path.txt"
    if not listed.exists() or not all(map(os.path.exists, listed.read_text().split(os.pathsep))):
        cache.mkdir(parents=True, exist_ok=True)
        (cache / "pom.xml").write_text(POM)
        command = ["mvn", "-q", "-B", "-f", str(cache / "pom.xml"), "dependency:build-classpath"]
        done = subprocess.run([*command, f"-Dmdep.outputFile={listed}"], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"Maven cannot fetch a broker {KAFKA}: {done.stdout.strip()[:200]}")
    return listed.read_text()


class Node:
    """A broker and controller with one log directory."""

    def __init__(self, class_path: str, folder: Path) -> None:
        self.logs = folder / "logs"
        self._properties = folder / "server.properties"
        broker, controller = free_ports(2)
        self._properties.write_text(
            f"process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:{controller}\n"
            f"listeners=PLAINTEXT://localhost:{broker},CONTROLLER://localhost:{controller}\n"
            f"controller.listener.names=CONTROLLER\nlog.dirs={self.logs}\n"
        )
        self._java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        self._java += [*LOGGING, "-cp", class_path]
        form = ["kafka.tools.StorageTool", "format", "-t", "ksegksegksegksegksegkQ", "-c", str(self._properties)]
        subprocess.run([*self._java, *form], check=True, capture_output=True, timeout=SECONDS)

    @contextmanager
    def started(self) -> Iterator["subprocess.Popen[str]"]:
        command = [*self._java, "kafka.Kafka", str(self._properties)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def told(self, *ends: str) -> list[str]:
        """What a broker says until it says one of these, or ends."""
        with self.started() as process:
            return read_until(process, ends)


def read_until(process: "subprocess.Popen[str]", ends: tuple[str, ...]) -> list[str]:
    lines, until = [], time.monotonic() + SECONDS
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip())
        if any(end in line for end in ends) or time.monotonic() > until:
            break
    return lines


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def status_of(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        run([str(argument) for argument in arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def leave_traces(logs: Path) -> None:
    """What kseg keeps of changes, of a partition and of the log directory."""
    partition = logs / "__cluster_metadata-0"
    partition.mkdir(exist_ok=True)  # since 4.4 formatting makes it, with the bootstrap snapshot
    (partition / "notes").write_bytes(b"goes")
    change = LogDirectoryChange(str(logs), "test")
    plan = Plan(str(partition))
    plan.delete("notes", "goes")
    change.apply(plan)
    change.finish()
    (partition / "more").write_bytes(b"goes too")
    plan = Plan(str(partition))
    plan.delete("more", "goes")
    apply(plan, "test")


@pytest.mark.slow
def test_a_broker_and_kseg_keep_each_other_out(
    class_path: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    node = Node(class_path, tmp_path)
    leave_traces(node.logs)
    with locked(str(node.logs)):
        told = node.told(STARTED, REFUSED)
    assert REFUSED in told[-1]

    with node.started() as process:
        told = read_until(process, (STARTED,))
        assert STARTED in told[-1], "\n".join(told[-20:])
        assert [line for line in told if line.startswith("ERROR")] == []
        capfd.readouterr()
        for path in (node.logs, node.logs / "__cluster_metadata-0"):
            for arguments in (["undo"], ["undo", "--purge"]):
                assert status_of(*arguments, path) == 3
                assert "a running broker, or another kseg, holds the log directory" in capfd.readouterr().err
        kept = sorted(path.name for path in (node.logs / "__cluster_metadata-0" / ".kseg-quarantine").iterdir())
    assert kept == ["1", "2"]
    assert status_of("undo", node.logs) == 3  # the partition's own change came later
    assert status_of("undo", node.logs / "__cluster_metadata-0") == 0
    assert (node.logs / "__cluster_metadata-0" / "more").read_bytes() == b"goes too"
    assert status_of("undo", node.logs) == 0
    assert list(node.logs.rglob("*.kseg*")) == []
