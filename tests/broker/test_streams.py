"""An application of Kafka Streams keeps what was erased from its changelog until its state is deleted."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker import jars
from broker.client import VERSION, Client
from broker.nodes import LOGGING, KraftNode, java, wait_until
from broker.scenes import kseg

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.release]

ALL = "{k1=1, k2=1, k3=1, k4=1, k5=1, k6=1}"
ERASED = ALL.replace("k3=1, ", "")


class Application:
    """Counts records by key (StreamsCounts.java)."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, word: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")


@contextmanager
def application(node: KraftNode, state: Path, guarantee: str) -> Iterator[Application]:
    """Runs the application over a broker; both are stopped in good order afterwards."""
    class_path = jars.class_path("kafka-streams", VERSION, LOGGING)
    source = str(Path(__file__).with_name("StreamsCounts.java"))
    command = java(class_path, source, node.address, str(state), guarantee)
    with (
        state.with_suffix(".log").open("ab") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, encoding="utf-8"
        ) as process,
    ):
        try:
            found = Application(process)
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            yield found
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(120) == 0
        finally:
            process.kill()
    node.stop()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_the_state_keeps_what_was_erased_from_its_changelog(client: Client, tmp_path: Path, guarantee: str) -> None:
    state = tmp_path / "state"
    with KraftNode(tmp_path / "node", client) as node:
        node.start()
        node.create("visits", 1, "retention.ms=-1")
        client.ask("produce", node.address, "visits", "none", 0, 7)
        with application(node, state, guarantee) as counting:
            wait_until(lambda: counting.ask("counts") == ALL)
        kseg("erase", "--key", "k3", node.logs)
        node.start()
        with application(node, state, guarantee) as counting:
            assert [counting.ask("counts"), counting.ask("restored")] == [ALL, "0"]
        shutil.rmtree(state)
        node.start()
        with application(node, state, guarantee) as counting:
            assert [counting.ask("counts"), counting.ask("restored")] == [ERASED, "5"]
