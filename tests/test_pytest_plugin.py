"""The plugin of pytest, in runs of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kseg

ROOT = Path(__file__).resolve().parent.parent
FLIPPED = ROOT / "testdata/damaged/4.3.1-last-flip-body/dplain-0"

TESTS = """
from pathlib import Path

import kseg


def test_what_is_written_is_clean(kseg_log, assert_clean):
    path = kseg_log.write("orders-0", [{"key": b"k", "value": b"v"}, {"value": None}], codec="zstd")
    assert path == kseg_log.partition("orders-0")
    with kseg_log.writer("orders-1") as writer:
        assert writer.append(value=b"v") == 0
    verdict = assert_clean(kseg_log.path, level="deep")
    assert verdict.summary.records == 3
    assert [record.value for record in kseg.open(path).records()] == [b"v", None]


def test_each_directory_is_new(kseg_log):
    assert list(kseg_log.path.iterdir()) == []


def test_damage(assert_clean):
    assert_clean(Path("dplain-0"))


def test_damage_is_ignored(assert_clean):
    assert_clean("dplain-0", ignore=["crc-mismatch", "gap-truncated"])
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # Not by its entry point, which is there only if kseg is installed: pytest takes a plugin once.
    plugins = ("no:cacheprovider", "no:xdist", "no:kseg", "kseg.pytest_plugin")
    chosen = [option for plugin in plugins for option in ("-p", plugin)]
    # Under pytest's own folder for all runs it would remove those of older ones.
    command = [sys.executable, "-m", "pytest", *chosen, f"--basetemp={folder / 'made'}", *options, "test_it.py"]
    environment = {**os.environ, "PYTHONPATH": str(Path(kseg.__file__).parents[1]), "PYTEST_ADDOPTS": ""}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(FLIPPED, tmp_path / "dplain-0")
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_the_fixtures_do_what_they_say(folder: Path) -> None:
    done = run(folder, "-q")
    assert "3 passed" in done.stdout, done.stdout
    assert "1 failed" in done.stdout, done.stdout
    assert "FAILED test_it.py::test_damage " in done.stdout
    assert "error: crc-mismatch" in done.stdout


def test_a_run_that_does_not_use_the_plugin_imports_nothing_of_kseg(folder: Path) -> None:
    (folder / "test_it.py").write_text(
        "import sys\n\ndef test_it():\n    assert not [name for name in sys.modules if name.startswith('kseg.api')]\n"
    )
    done = run(folder, "-q")
    assert "1 passed" in done.stdout, done.stdout


def test_the_plugin_is_registered() -> None:
    assert '[project.entry-points.pytest11]\nkseg = "kseg.pytest_plugin"' in (ROOT / "pyproject.toml").read_text()
