"""``--engine spark``: what is told where it cannot be had, and the same results as the local engine where it can."""

import contextlib
import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .command import TESTDATA, Kseg

DAMAGED = TESTDATA / "damaged/4.3.1-last-length-zero/dplain-0"
LOG_DIRECTORY = TESTDATA / "log-directories/4.3.1/logs"
COMMANDS = ["verify", "dump"]


def program(*arguments: object) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PYTHONPATH": str(TESTDATA.parent)}
    command = [sys.executable, "-m", "kseg", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=400)


@pytest.fixture
def has_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java on PATH")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_master_without_spark_is_wrong_usage(command: str, kseg: Kseg) -> None:
    done = kseg(command, "--master", "local[2]", DAMAGED)
    assert (done.status, done.out) == (2, b"")
    assert "--master goes with --engine spark" in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_without_pyspark_one_sentence_says_what_to_install(
    command: str, kseg: Kseg, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = kseg(command, "--engine", "spark", DAMAGED)
    assert (done.status, done.out) == (3, b"")
    assert done.err == "kseg: --engine spark needs PySpark: pip install 'kseg[spark]'\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_without_java_one_sentence_says_what_to_install(
    command: str, kseg: Kseg, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    done = kseg(command, "--engine", "spark", DAMAGED)
    assert (done.status, done.out) == (3, b"")
    assert "--engine spark needs Java 17 or later" in done.err
    assert done.err.count("\n") == 1
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.1\" 2018-10-16' >&2\n", "utf-8")
    java.chmod(0o755)
    done = kseg(command, "--engine", "spark", DAMAGED)
    assert (done.status, done.err.strip().endswith(" is 11")) == (3, True)


@pytest.mark.spark
@pytest.mark.usefixtures("has_spark")
def test_verify_finds_the_same_on_spark() -> None:
    arguments = ["--level", "deep", "--now", "1790000000000", "--format", "json", LOG_DIRECTORY, DAMAGED, "nowhere"]
    here = program("verify", *arguments)
    there = program("verify", "--engine", "spark", "--master", "local[1]", *arguments)
    assert here.returncode == 3
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)


@pytest.mark.parametrize(
    "question",
    [("--limit", "3"), ("--offsets", "5"), ("--hex",), ("--summary",), ("--format", "table"), ("--stop-on-damage",)],
)
def test_what_is_for_one_reader_is_refused(question: tuple[str, ...], kseg: Kseg) -> None:
    done = kseg("dump", "--engine", "spark", *question, DAMAGED)
    assert (done.status, done.out) == (2, b"")
    assert "is for the local engine" in done.err


class Here:
    """What of a session of Spark `kseg.spark.jobs.run` uses, done in this process; tasks are pickled as there."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.defaultParallelism = 2


def run_here(spark: Here, items: list[Any], work: Any, watch: Any = None) -> list[Any]:
    return [pickle.loads(pickle.dumps(found)) for found in pickle.loads(pickle.dumps(work))(items)]


@pytest.mark.parametrize("form", [["--print-data-log"], ["--format", "json", "--deep-iteration"], ["--all", "--live"]])
@pytest.mark.parametrize("part_bytes", [300, 5000, 1 << 22])
def test_rendered_parts_make_up_the_dump(
    form: list[str], part_bytes: int, kseg: Kseg, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kseg.cli import dump_on_spark
    from kseg.spark import jobs, session

    monkeypatch.setattr(dump_on_spark, "PART_BYTES", part_bytes)
    monkeypatch.setattr(dump_on_spark, "WAVE_BYTES", 3 * part_bytes)
    monkeypatch.setattr(jobs, "run", run_here)
    monkeypatch.setattr(session, "session", lambda master, cores: contextlib.nullcontext(Here()))
    paths = [LOG_DIRECTORY, *sorted((TESTDATA / "damaged").glob("*/*-0")), TESTDATA / "kafka-0.7.2/direct", "nowhere"]
    here = kseg("dump", *form, *paths)
    there = kseg("dump", "--engine", "spark", *form, *paths)
    assert here.out.count(b"\n") > 500
    assert (there.status, there.out, there.err) == (here.status, here.out, here.err)


@pytest.mark.spark
@pytest.mark.usefixtures("has_spark")
def test_dump_prints_the_same_on_spark() -> None:
    arguments = ["--print-data-log", LOG_DIRECTORY, DAMAGED, "nowhere"]
    here = program("dump", *arguments)
    there = program("dump", "--engine", "spark", "--master", "local[1]", *arguments)
    assert here.returncode == 3
    assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)
