"""``kseg serve`` as a program: what it prints, how it ends, and what it refuses."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from cli.command import FLIPPED, TESTDATA, Kseg
from kseg.output.json_schema import schema
from kseg.pytest_plugin import KsegLog
from serving.peer import Peer, fetch_of

CODECS = TESTDATA / "kafka-4.4.0/codecs/codec-mix-1"
REMOTE = TESTDATA / "remote"
STATUS = Path("/proc/self/status")


@contextmanager
def serving(*arguments: object) -> Iterator[tuple[Any, "subprocess.Popen[str]"]]:
    """A server on a free port, for `Peer`, and its process; the first line is read."""
    words = [sys.executable, "-P", "-m", "kseg", "serve", "--listen", "127.0.0.1:0", *map(str, arguments)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"127\.0\.0\.1(?:\", \"port\": |:)(\d+)", line)
            assert found, process.stderr.read() if process.stderr else line
            yield SimpleNamespace(host="127.0.0.1", port=int(found[1]), line=line), process
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it(number: signal.Signals, status: int) -> None:
    is_verbose = number == signal.SIGTERM
    with serving(*["-v"] * is_verbose, FLIPPED) as (server, process), Peer(server) as peer:
        for _ in range(2):
            peer.ask("Fetch", 11, **fetch_of("dplain", 0, 116))
        peer.send("Fetch", 11, **fetch_of("dplain", 0, 150, maxWaitMs=60_000))
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        assert (server.line, out) == (f"listening on 127.0.0.1:{server.port}\n", "")
        assert process.returncode == status
        assert err.count("crc-mismatch") == 1
        assert "is a gap in its offsets" in err
        assert "Traceback" not in err
        assert ("interrupted" in err) == (number == signal.SIGINT)
        assert err.startswith("kseg: serving 1 topic, 1 partition")
        assert bool(re.search(r"connections: 1, requests: 2, sent: \d+", err)) == is_verbose


def test_events_are_objects_of_the_schema() -> None:
    with serving("--format", "json", "--quiet", "--color", "never", FLIPPED) as (server, process), Peer(server) as peer:
        peer.ask("Fetch", 11, **fetch_of("dplain", 0, 116))
        process.terminate()
        out, err = process.communicate(timeout=20)
    events = [json.loads(line) for line in [server.line, *out.splitlines()]]
    for event in events:
        jsonschema.validate(event, schema("serve"))
    assert [event["type"] for event in events] == ["listening", "damage", "ended"]
    assert (events[0]["topics"], events[0]["partitions"], events[1]["partition"]) == (1, 1, "dplain-0")
    assert (events[2]["connections"], events[2]["requests"], events[2]["damagedPartitions"]) == (1, 1, 1)
    assert events[2]["bytes"] == peer.received_bytes
    assert err == ""


def test_clients_are_told_of_the_topics_and_the_address_that_are_wanted() -> None:
    folder = TESTDATA / "kafka-4.3.1/committed"
    words = ("--topic", "ord*", "--topic", "empty", "--advertise", "logs.example:19092", "--level", "deep", folder)
    with serving(*words) as (server, _), Peer(server) as peer:
        found = peer.ask("Metadata", 9, topics=None)
    assert sorted(each["name"] for each in found["topics"]) == ["empty", "orders"]
    assert [(each["host"], each["port"]) for each in found["brokers"]] == [("logs.example", 19092)]


@pytest.mark.slow
def test_the_start_reads_nothing_of_partitions(tmp_path: Path) -> None:
    """However many there are: only who asks for one has it read."""
    for number in range(3000):
        (tmp_path / f"topic{number // 10}-{number % 10}").mkdir()
    # Whoever reads this partition tells of its damage.
    shutil.copytree(FLIPPED, tmp_path / "topic0-0", dirs_exist_ok=True)
    with serving("--format", "json", "--quiet", tmp_path) as (server, process), Peer(server) as peer:
        assert (json.loads(server.line)["topics"], json.loads(server.line)["partitions"]) == (300, 3000)
        assert len(peer.ask("Metadata", 1, topics=None)["topics"]) == 300
        process.terminate()
        assert [json.loads(line)["type"] for line in process.communicate(timeout=20)[0].splitlines()] == ["ended"]


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="the system does not tell how much memory a process had")
def test_200_consumers_take_less_than_150_mb(kseg_log: KsegLog) -> None:
    kseg_log.write("big-0", [{"value": os.urandom(500_000)} for _ in range(6)])
    asked = fetch_of("big", 0, 0, limit=1 << 30, maxBytes=1 << 30)
    with serving(kseg_log.path) as (server, process), ExitStack() as opened:
        peers = [opened.enter_context(Peer(server, 60)) for _ in range(200)]
        for peer in peers:
            peer.send("Fetch", 11, **asked)
        for peer in peers[::2]:  # the others are slow
            assert len(peer.answer("Fetch", 11)["responses"][0]["partitions"][0]["records"]) > 3_000_000
        (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        assert int(line) < 150 << 10


def test_remote_storage_is_decrypted(tmp_path: Path) -> None:
    keys = [
        word for name in ("k1", "k2") for word in ("--private-key", f"{name}={next(REMOTE.glob(f'keys/{name}*.pem'))}")
    ]
    spool = ("--spool-dir", tmp_path, "--spool-bytes", "1G")
    with serving(*keys, *spool, "--topic", "t-txn", REMOTE / "both/remote") as (server, _), Peer(server) as peer:
        (topic,) = peer.ask("Fetch", 11, **fetch_of("t-txn", 0, 0))["responses"]
        assert len(topic["partitions"][0]["records"]) > 1000


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ((), 2, "Missing argument"), (("--listen", "nonsense", CODECS), 2, "is no HOST:PORT"),
        (("--listen", "127.0.0.1:0", "nowhere"), 3, "no such file or directory"),
        (("--listen", "127.0.0.1:0", "--topic", "none", CODECS), 3, "no partition of a topic that --topic names"),
        (("--private-key", "k1", CODECS), 2, "has not the form ID=PEM"), (("-",), 3, "-"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused(arguments: tuple[object, ...], status: int, told: str, kseg: Kseg) -> None:
    kseg("serve", *arguments).expect(status, told, out=b"")


def test_a_port_that_is_taken_is_refused(kseg: Kseg) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        kseg("serve", "--listen", f"127.0.0.1:{other.getsockname()[1]}", CODECS).expect(3, "cannot be listened on")


def test_other_machines_can_read_only_after_a_warning() -> None:
    words = [sys.executable, "-P", "-m", "kseg", "serve", "--listen", "0.0.0.0:0", str(CODECS)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        with Peer(SimpleNamespace(host="127.0.0.1", port=port)) as peer:  # type: ignore[arg-type]
            assert peer.ask("Metadata", 1, topics=[])["brokers"][0]["host"] == "127.0.0.1"
        process.terminate()
        assert "whoever reaches it can read every record" in process.communicate(timeout=20)[1]
