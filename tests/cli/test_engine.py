"""``--engine spark``: what is told where it cannot be had, and the same results as the local engine where it can."""

import contextlib
import importlib.util
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cleaner.partitions import PAIRS, write_checkpoint
from cli.command import CLEAN, LOGS, TESTDATA, ZEROED, Kseg, files, spawned
from kseg.limits import MAX_BATCH_BYTES
from kseg.spark.jobs import _worked
from node.disks import dealt

TRANSACTIONS, COMPRESSED = PAIRS[2], PAIRS[1]
COMMANDS = ["verify", "dump", "compact", "convert"]


@pytest.fixture
def arguments(command: str, tmp_path: Path) -> list[object]:
    """What a command cannot do without."""
    return ["--output", tmp_path / "out"] if command == "convert" else []


def program(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return spawned(*arguments, text=True)


@pytest.fixture
def has_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java on PATH")


@pytest.mark.parametrize("command", COMMANDS)
def test_without_pyspark(command: str, arguments: list[object], kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = kseg(command, "--engine", "spark", *arguments, ZEROED).expect(3, out=b"")
    assert done.err == "kseg: --engine spark needs PySpark: pip install 'kseg[spark]'\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_without_java_one_sentence_says_what_to_install(
    command: str, arguments: list[object], kseg: Kseg, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.delitem(sys.modules, "pyspark.sql", raising=False)  # a session of other tests needs no Java
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    done = kseg(command, "--engine", "spark", *arguments, ZEROED)
    done.expect(3, "--engine spark needs Java 17 or later", out=b"")
    assert done.err.count("\n") == 1
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.1\" 2018-10-16' >&2\n", "utf-8")
    java.chmod(0o755)
    done = kseg(command, "--engine", "spark", *arguments, ZEROED)
    assert (done.status, done.err.strip().endswith(" is 11")) == (3, True)


@pytest.mark.spark
@pytest.mark.usefixtures("has_spark")
@pytest.mark.parametrize(
    "words",
    [("verify", "--level", "deep", "--now", "1790000000000", "--format", "json"), ("dump", "--print-data-log")],
    ids=" ".join,
)
def test_spark_tells_the_same(words: tuple[str, ...]) -> None:
    here = program(*words, LOGS, ZEROED, "nowhere")
    there = program(*words, "--engine", "spark", "--master", "local[1]", LOGS, ZEROED, "nowhere")
    assert here.returncode == 3
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)


def run_here(spark: object, items: list[Any], work: Any) -> list[Any]:
    """What `kseg.spark.jobs.run` does on Spark, done in this process; tasks are pickled as there."""
    task = pickle.loads(pickle.dumps(partial(_worked, os.getcwd(), work, MAX_BATCH_BYTES)))
    return [pickle.loads(pickle.dumps(found)) for found in task(items)]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("form", [["--print-data-log"], ["--format", "json", "--deep-iteration"], ["--all", "--live"]])
@pytest.mark.parametrize("part_bytes", [300, 5000, 1 << 22])
def test_rendered_parts_tile(form: list[str], part_bytes: int, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    from kseg.spark import jobs, session

    monkeypatch.setattr(jobs, "PART_BYTES", part_bytes)
    monkeypatch.setattr(jobs, "WAVE_BYTES", 3 * part_bytes)
    monkeypatch.setattr(jobs, "run", run_here)
    monkeypatch.setattr(session, "session", lambda master, cores: contextlib.nullcontext(object()))
    paths = [LOGS, *sorted((TESTDATA / "damaged").glob("*/*-0")), TESTDATA / "kafka-0.7.2/direct", "nowhere"]
    here = kseg("dump", *form, *paths)
    there = kseg("dump", "--engine", "spark", *form, *paths)
    assert here.out.count(b"\n") > 500
    assert (there.status, there.out, there.err) == (here.status, here.out, here.err)


def logs(folder: Path) -> Path:
    """A log directory with partitions to be compacted, one of which is damaged."""
    for pair in PAIRS:
        pair.copy(folder)
    write_checkpoint(folder, TRANSACTIONS.name, TRANSACTIONS.checkpoint or 0)
    shutil.copytree(COMPRESSED.before, folder / "e-damaged-0")
    path = next((folder / "e-damaged-0").glob("*.log"))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    return folder


def told(text: str, folder: Path) -> str:
    """What a command says, without the speed, the seconds, the place and its free space."""
    text = re.sub(r" \([\d.]+ \w+/s\)|, [\d.]+ \w+ are free|\"seconds\": ?[\d.]+", "", text)
    return text.replace(str(folder), "")


COMPACTION = (
    "--min-cleanable-ratio", "0", "--now", "1795253296701", "--segment-bytes", "32768", "--topic", "*-*",
    "--drop-null-keys",
)  # fmt: skip


def outcomes(
    command: str, make: Callable[[Path], list[object]], kseg: Kseg, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[tuple[int, str, list[str], dict[str, bytes]]]:
    """What both engines say and leave of what ``make`` makes in a folder; Spark's tasks run in this process."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from kseg.spark import session
    from spark.cluster import Cluster

    monkeypatch.setattr(session, "session", lambda master, cores: contextlib.nullcontext(Cluster()))
    found = []
    for engine in ("local", "spark"):
        folder = tmp_path / engine
        folder.mkdir()
        monkeypatch.chdir(folder)
        done = kseg(command, "--engine", engine, *make(folder))
        # Tasks put a partition in place as a whole, where a process of its own may free segments one by one.
        own = ("map of keys", "of disk space before old ones are deleted")
        lines = [line for line in told(done.err, folder).splitlines() if not any(text in line for text in own)]
        found.append((done.status, told(done.out.decode(), folder), lines, files(folder, kept=False)))
    return found


@pytest.mark.sampled(6)
@pytest.mark.parametrize("options", [(), ("-n", "-v"), ("--no-quarantine",), ("--output", "out"), ("--format", "json")])
def test_compact_tasks(options: tuple[str, ...], kseg: Kseg, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here, there = outcomes(
        "compact", lambda folder: [*COMPACTION, *options, logs(folder / "logs")], kseg, monkeypatch, tmp_path
    )
    assert there == here
    assert here[0] == 1
    assert "damaged at position" in "".join(here[2])


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("has_spark")
def test_a_compaction_whose_driver_is_killed_is_repeated(tmp_path: Path) -> None:
    """Killed while tasks write: nothing of the partition has changed, and what they wrote is taken away."""
    here, there = logs(tmp_path / "here"), logs(tmp_path / "there")
    program("compact", *COMPACTION, here)
    before, environment = files(there, kept=False), os.environ | {"PYTHONPATH": str(TESTDATA.parent)}
    command = [sys.executable, "-m", "kseg", "compact", "--engine", "spark", "--master", "local[1]", *COMPACTION]
    with subprocess.Popen([*command, there], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as driver:
        while driver.poll() is None and not list(there.glob("*/.kseg-quarantine/0*/*/*/*.log")):
            time.sleep(0.005)
        driver.kill()
        driver.communicate()
    assert driver.returncode == -signal.SIGKILL
    assert files(there, kept=False) == before
    done = program("compact", "--engine", "spark", "--master", "local[1]", *COMPACTION, there)
    assert done.returncode == 1
    assert files(there, kept=False) == files(here, kept=False)
    assert not list(there.glob("*/.kseg-quarantine/0*"))


CONVERSIONS = [
    ("--codec", "zstd", "--output", "out"),
    ("--codec", "lz4", "--in-place"),
    ("--to", "v1", "--in-place"),
    ("--to", "v0", "--lossy", "--codec", "gzip", "--in-place", "--format", "json"),
    ("--codec", "none", "--in-place", "-n"),
    ("--codec", "none", "--skip-damage", "--isolation", "read_committed", "--output", "out"),
]


@pytest.mark.parametrize("options", CONVERSIONS)
def test_convert_tasks(options: tuple[str, ...], kseg: Kseg, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def make(folder: Path) -> list[object]:
        found = shutil.copytree(LOGS, folder / "logs"), shutil.copytree(ZEROED, folder / ZEROED.name)
        return [*options, *found[: 1 + ("--in-place" in options)]]

    here, there = outcomes("convert", make, kseg, monkeypatch, tmp_path)
    assert there == here


def disks(folder: Path, count: int = 2) -> Path:
    """The directory that holds the disks of a node."""
    return dealt(CLEAN, folder, count)[0].parent


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words",
    [
        ("verify", "--level", "deep", "--now", "1790000000000", "--format", "json"),
        ("dump", "--print-data-log"),
        ("compact", "--min-cleanable-ratio", "0", "--now", "1795253296701"),
        ("convert", "--codec", "zstd", "--in-place"),
        ("convert", "--codec", "zstd", "--output", "out"),
    ],
    ids=" ".join,
)
def test_several_disks(words: tuple[str, ...], kseg: Kseg, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The metadata log on the first disk has the policy of the partition on the second."""

    def make(folder: Path) -> list[object]:
        return [*words[1:], *sorted(disks(folder / "disks").iterdir())]

    here, there = outcomes(words[0], make, kseg, monkeypatch, tmp_path)
    assert there == here
    assert here[0] == 0
    assert not any("is unknown" in line for line in here[2])


@pytest.mark.spark
@pytest.mark.usefixtures("has_spark")
@pytest.mark.parametrize(
    ("words", "make", "status"),
    [
        (("compact", *COMPACTION), logs, 1),
        (("convert", "--codec", "zstd", "--in-place"), partial(shutil.copytree, LOGS), 0),
        (("compact", "--min-cleanable-ratio", "0", "--now", "1795253296701"), disks, 0),
    ],
    ids=["compact", "convert", "a node of several disks"],
)
def test_spark_changes_same(words: tuple[str, ...], make: Callable[[Path], Path], status: int, tmp_path: Path) -> None:
    here, there = make(tmp_path / "here"), make(tmp_path / "there")
    local = program(*words, here)
    spark = program(*words, "--engine", "spark", "--master", "local[1]", there)
    assert local.returncode == status
    assert (spark.returncode, told(spark.stdout, there)) == (local.returncode, told(local.stdout, here))
    assert told(spark.stderr, there) == told(local.stderr, here)
    assert files(there, kept=False) == files(here, kept=False)
