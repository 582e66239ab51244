"""The examples of kseg(3) and kseg-changes(3) run, in order, in a directory with the files that they name."""

import os
import re
import shutil
from pathlib import Path

import pytest

import kseg
from api.consumed import TESTDATA

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("polars", reason="polars is not installed")
pytest.importorskip("duckdb", reason="duckdb is not installed")

PAGES = [(TESTDATA.parent / "man" / name).read_text("utf-8") for name in ("kseg.3", "kseg-changes.3")]
DESCRIPTIONS = "".join(page.split(".Sh DESCRIPTION", 1)[1] for page in PAGES)
EXAMPLES = re.findall(r"^\.Bd -literal\n(.*?)^\.Ed$", DESCRIPTIONS, re.MULTILINE | re.DOTALL)


def code_of(example: str) -> str:
    return example.replace('"/archive/kafka-logs"', '"archive/kafka-logs"').replace("\\e", "\\").replace("\\-", "-")


def test_every_public_name_is_explained() -> None:
    text = "".join(PAGES)
    assert [name for name in kseg.__all__ if name != "__version__" and not re.search(rf"\b{name}\b", text)] == []


def test_every_public_function_and_class_is_in_an_example() -> None:
    shown = "\n".join(EXAMPLES)
    functions = [name for name in kseg.__all__ if name.islower() and not name.startswith("__")]
    assert [name for name in functions if f"kseg.{name}(" not in shown] == []


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(TESTDATA / "log-directories/4.3.1/logs/dplain-0", tmp_path / "orders-0")
    shutil.copytree(TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0", tmp_path / "crashed-0")
    shutil.copytree(TESTDATA / "compaction/4.3.1/before/c-tomb-short-0", tmp_path / "compacted-0")
    shutil.copytree(TESTDATA / "log-directories/4.3.1/logs", tmp_path / "archive/kafka-logs")
    os.rename(tmp_path / "archive/kafka-logs/dplain-0", tmp_path / "archive/kafka-logs/orders-0")
    monkeypatch.chdir(tmp_path)
    names = {"kseg": kseg}
    assert len(EXAMPLES) > 7
    for example in EXAMPLES:
        exec(compile(code_of(example), "kseg.3", "exec"), names)
