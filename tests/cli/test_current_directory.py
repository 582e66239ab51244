"""Nothing is imported from the current directory, which may belong to anyone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import TESTDATA

LOGS = TESTDATA / "log-directories/4.3.1/logs"
NAMES = "signal selectors socket struct subprocess multiprocessing pickle json shutil tempfile pyarrow pandas".split()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A directory with modules that tell when they are imported."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("open(__file__ + '.imported', 'w').close()\nraise SystemExit(9)\n")
    return tmp_path


def run(words: list[str], elsewhere: Path) -> None:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    plain["PYTHONPATH"] = str(TESTDATA.parent)
    done = subprocess.run(words, cwd=elsewhere, env=plain, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, done.stderr)
    assert [path.name for path in elsewhere.iterdir() if path.suffix == ".imported"] == []


def test_by_the_program_itself(elsewhere: Path) -> None:
    run([sys.executable, "-m", "kseg", "verify", "--level", "deep", str(LOGS)], elsewhere)


def test_by_a_python_that_it_starts(elsewhere: Path) -> None:
    code = """
import sys
sys.path.remove("")  # as it is for an installed program
import subprocess
from kseg.__main__ import main
sys.argv = ["kseg", "--version"]
try:
    main()
except SystemExit:
    subprocess.run([sys.executable, "-c", "import selectors"], check=True)
"""
    run([sys.executable, "-c", code], elsewhere)


@pytest.mark.spark
@pytest.mark.slow
def test_by_workers_of_spark(elsewhere: Path) -> None:
    run([sys.executable, "-m", "kseg", "verify", "--engine", "spark", str(LOGS)], elsewhere)
