"""Docstrings of public names: each has an example that runs, so that `help` and editors show how a name is used."""

import doctest
import inspect
import shutil
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA, copy_named

for _name in ("pyarrow", "pandas", "polars", "duckdb"):
    pytest.importorskip(_name, reason=f"{_name} is not installed")

NAMES = [name for name in kseg.__all__ if name != "__version__"]
METHODS = [
    kseg.Log.records, kseg.Scan.splits, kseg.Scan.scanner, kseg.LogDirectoryWriter.append, kseg.Writer.append,
    kseg.Writer.extend,
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the examples name."""
    copy_named(tmp_path)
    for partition in (TESTDATA / "kafka-4.3.1/committed").glob("*-[0-9]"):
        shutil.copytree(partition, tmp_path / "kafka-logs" / partition.name)
    (tmp_path / "cut-0").mkdir()
    (tmp_path / "cut-0" / f"{0:020}.log").write_bytes((tmp_path / "disk.img").read_bytes()[:629])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "item", [*(getattr(kseg, name) for name in NAMES), *METHODS], ids=lambda item: item.__qualname__
)
def test_the_examples_run(item: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = inspect.getdoc(item)
    assert text is not None
    (test,) = doctest.DocTestFinder(recurse=False).find(text, item.__qualname__, globs={"kseg": kseg}) or [None]
    assert test is not None, "there is no example"
    failures = doctest.DocTestRunner(verbose=False).run(test).failed
    assert not failures, capsys.readouterr().out


def test_help_shows_arguments_and_text() -> None:
    for name in NAMES:
        item = getattr(kseg, name)
        assert "kwargs" not in str(inspect.signature(item)) if inspect.isfunction(item) else item.__doc__
