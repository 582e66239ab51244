"""Runs ``kseg`` in this process, and finds what Kafka says about the segments in testdata."""

import gzip
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kseg as package
from kseg.cli.main import run

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
LOGS, CLEAN = TESTDATA / "log-directories/4.3.1/logs", TESTDATA / "log-directories/4.3.1-rounds/clean"
LOGS_4_4 = TESTDATA / "log-directories/4.4.0/logs"
"""Log directories of KRaft brokers: with one partition, stopped cleanly, and of another release."""
PLAIN = LOGS / "dplain-0"
"""A partition of four segments, 0, 46, 76 and 116."""
FLIPPED, ZEROED = (TESTDATA / f"damaged/4.3.1-last-{name}/dplain-0" for name in ("flip-body", "length-zero"))
"""Partitions whose last segment is damaged."""
CONSUMED = sorted(TESTDATA.glob("**/read_uncommitted.jsonl.gz"))
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
    "__remote_log_metadata": "--remote-log-metadata-decoder",
    "__share_group_state": "--share-group-state-decoder",
}
FLAGS = {
    "": ["--deep-iteration", "--print-data-log"],
    "shallow": [],
    "skip": ["--print-data-log", "--skip-record-metadata"],
    "decoded": ["--deep-iteration"],
}


@dataclass(frozen=True)
class Outcome:
    status: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode("utf-8").splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def expect(self, status: int, *told: str, out: bytes | None = None) -> "Outcome":
        """Fails unless it ended with this status, and standard error holds these texts. ``out``: all of the output."""
        assert self.status == status, self.err
        assert out in (None, self.out)
        for text in told:
            assert text in self.err, self.err
        return self

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [found for found in self.objects if found["type"] == kind]


Kseg = Callable[..., Outcome]


def caller(capfdbinary: pytest.CaptureFixture[bytes]) -> Kseg:
    """``kseg("dump", path)`` as the `Outcome` of that command line."""

    def kseg(*arguments: object) -> Outcome:
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            run([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, out, err.decode("utf-8"))

    return kseg


def copying(source: Path, place: str) -> Any:
    """Returns a fixture: a copy of a directory at a place below ``tmp_path``."""

    @pytest.fixture
    def copied(tmp_path: Path) -> Path:
        return Path(shutil.copytree(source, tmp_path / place))

    return copied


def judged(kseg: Kseg, *words: object) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """The errors that a verification finds, and the commands that come next."""
    *rows, summary = kseg("verify", "--format", "json", *words).objects
    return [row for row in rows if row.get("severity") == "error"], summary["next"]


def findings_of(kseg: Kseg, *words: object, code: str = "", severity: str = "") -> list[dict[str, Any]]:
    """What a verification that can read all finds, or what it finds with this code or severity."""
    done = kseg("verify", "--format", "json", *words)
    assert done.status in (0, 1), done.err
    return [row for row in done.of_type("finding") if code in ("", row["code"]) and severity in ("", row["severity"])]


def files(directory: Path, kept: bool = True) -> dict[str, bytes]:
    """The contents of all files but locks, by their paths below the directory; ``kept``: also what kseg keeps there."""
    found = {str(path.relative_to(directory)): path for path in sorted(directory.rglob("*")) if path.is_file()}
    wanted = {name: path for name, path in found.items() if path.name != ".lock" and (kept or ".kseg-" not in name)}
    return {name: path.read_bytes() for name, path in wanted.items()}


def changed(before: dict[str, bytes], directory: Path) -> set[str]:
    """The first parts of the paths whose files are not those that `files` found before, but for what kseg keeps."""
    after = files(directory, kept=False)
    return {name.split("/")[0] for name in before.keys() | after if before.get(name) != after.get(name)}


@contextmanager
def unchanged(directory: Path, look: Callable[[Path], Any] = files) -> Iterator[None]:
    """Fails unless the directory looks as before when the block ends."""
    before = look(directory)
    yield
    assert look(directory) == before


def flip(path: Path, at: int | None = None, bits: int = 1) -> None:
    """Flips bits of a byte of a file, by default the one in its middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= bits
    path.write_bytes(data)


_LATE = ("--now", "1900000000000", "--topic", "*")
CHANGING = {
    "recover": ("recover",),
    "salvage": ("recover", "--mode", "salvage"),
    "reindex": ("reindex",),
    "convert": ("convert", "--codec", "zstd", "--in-place"),
    "retain": ("retain", "--retention-ms", "1", *_LATE),
    "compact": ("compact", "--force-policy", "--drop-null-keys", "--min-cleanable-ratio", "0", *_LATE),
}
"""A call of each way to change files, on a log directory of topics that nothing tells of."""

COMMAND = [sys.executable, "-P", "-m", "kseg"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(package.__file__).parent.parent)}


def spawned(*arguments: object, **options: Any) -> "subprocess.CompletedProcess[Any]":
    """Runs ``kseg`` in a process of its own; ``options``: of `subprocess.run`."""
    words = [word if isinstance(word, bytes) else str(word) for word in arguments]
    settings = {"capture_output": True, "env": ENVIRONMENT, "timeout": 400, "check": False, **options}
    return subprocess.run([*COMMAND, *words], **settings)


def on_terminal(*arguments: object) -> bytes:
    """Returns what a terminal of 80 columns is given."""
    words = [word if isinstance(word, bytes) else str(word) for word in arguments]
    process, terminal = pty.fork()
    if process == 0:
        os.execve(sys.executable, [*COMMAND, *words], {**ENVIRONMENT, "COLUMNS": "80", "TERM": "xterm"})
    shown = read_terminal(terminal)
    os.waitpid(process, 0)
    return shown


def read_terminal(terminal: int, watch: Callable[[bytes], object] = len) -> bytes:
    """All that a terminal is given until its last process ends. ``watch`` gets what there is so far."""
    shown, piece = b"", b"something"
    with open(terminal, "rb", buffering=0) as stream:
        while piece:
            try:
                piece = stream.read(65536)
            except OSError:  # Linux ends a terminal nobody holds any more with EIO
                break
            shown += piece
            watch(shown)
    return shown


@dataclass(frozen=True)
class Truth:
    """One dump by Kafka 4: of ``segment`` (relative to ``folder``), with the flags of ``variant``."""

    folder: Path
    segment: str
    variant: str
    path: Path

    @property
    def text(self) -> bytes:
        return gzip.decompress(self.path.read_bytes())

    @property
    def died(self) -> bool:
        """Whether Kafka's tool ended with an exception, so that ``text`` is only what came before it."""
        return self.path.with_name(self.path.name.removesuffix("txt.gz") + "stderr.gz").exists()

    @property
    def flags(self) -> list[str]:
        decoder = DECODERS.get(self.segment.partition("/")[0].rpartition("-")[0])
        return FLAGS[self.variant] + ([decoder] if self.variant == "decoded" and decoder else [])


def truths() -> list[Truth]:
    """Every dump of Kafka 4 below testdata."""
    found = []
    for path in sorted(TESTDATA.glob("**/truth/**/*.dump-4.*txt.gz")):
        file, rest = re.split(r"\.dump-4\.\d\.\d\.", path.name)
        folder = next(parent.parent for parent in path.parents if parent.name == "truth")
        partition = path.parent.name
        if partition == "truth":
            partition = next(folder.glob(f"*/{file}")).parent.name
        found.append(Truth(folder, f"{partition}/{file}", rest.removesuffix("txt.gz").rstrip("."), path))
    return found


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def raw(value: Any) -> bytes | None:
    """The bytes that a key or value in JSON stands for."""
    if isinstance(value, dict):
        assert list(value) == ["base64"]
        return b64decode(value["base64"], validate=True)
    return None if value is None else value.encode()


def consumed_record(record: dict[str, Any]) -> tuple[Any, ...]:
    """A line of a consumer file. Consumers since 0.10 give a v0 record the timestamp -1, as if it were unset."""
    unset = record["timestamp"] in (None, -1)
    return (
        record["offset"],
        None if unset else (record["timestamp"], record["timestampType"]),
        *(None if record[part] is None else b64decode(record[part]) for part in ("key", "value")),
        [value if value is None else b64decode(value) for _, value in record["headers"]],
    )


def our_record(record: dict[str, Any]) -> tuple[Any, ...]:
    unset = record.get("timestamp") in (None, -1)
    return (
        record["offset"],
        None if unset else (record["timestamp"], record["timestampType"]),
        *(raw(record[part]) for part in ("key", "value")),
        [raw(header["value"]) for header in record.get("headers", [])],
    )


def ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(TESTDATA)) for path in paths]
