"""Manifests and journals that anyone may have edited: a wrong field is refused or harmless, never a traceback."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kseg.changes.driver.command import Recording
from kseg.changes.driver.undoing import UndoOptions, known_changes, purge_changes, undo
from kseg.changes.undo import complete_interrupted, complete_interrupted_in_log_directory
from kseg.cli.main import main
from kseg.errors import KsegError

SOURCE = Path(__file__).parents[2] / "testdata/log-directories/4.3.1/logs"
WRONG = (None, -1, 1 << 70, "../x", [None], {"a": None}, "prepared", "committed")
DELETED = object()
Row = dict[str, Any]


def edited(row: Any, wrong: object) -> Iterator[Any]:
    """Copies of a JSON value, in each of which one value at any depth is replaced or deleted."""
    items = row.items() if isinstance(row, dict) else enumerate(row) if isinstance(row, list) else ()
    for key, value in items:
        if isinstance(row, list) and key > 1:
            return  # its items are alike
        copy = row.copy()
        if wrong is DELETED:
            del copy[key]
        else:
            copy[key] = wrong
        yield copy
        for inner in edited(value, wrong):
            copy = row.copy()
            copy[key] = inner
            yield copy


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory with a finished change of one partition by itself, and of the directory as a whole."""
    path = tmp_path / "logs"
    path.mkdir()
    for name in ("dplain-0", "other-0"):
        shutil.copytree(SOURCE / "dplain-0", path / name)
        last = max((path / name).glob("*.log"))
        last.write_bytes(last.read_bytes() + bytes(100))
    (path / "meta.properties").write_bytes((SOURCE / "meta.properties").read_bytes())
    return path


def survives(call: Callable[[], object]) -> None:
    """Calls a function; only errors for people are fine."""
    try:
        call()
    except KsegError:
        pass


def everything(logs: Path) -> list[Callable[[], object]]:
    """Whatever reads the records of changes, the harmless calls first."""
    places, dry = [str(logs / "dplain-0"), str(logs)], UndoOptions(is_dry=True)
    return [
        lambda: known_changes(places, Recording()),
        lambda: undo(places, dry, Recording()),
        lambda: purge_changes(places, dry, Recording(), lambda _: None),
        lambda: complete_interrupted(places[0]),
        lambda: complete_interrupted_in_log_directory(places[1]),
        lambda: undo(places, UndoOptions(), Recording()),
    ]


def files(logs: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in logs.rglob("*") if path.is_file()}


@pytest.mark.sampled(18)
@pytest.mark.parametrize("wrong", [DELETED, *WRONG], ids=lambda wrong: "deleted" if wrong is DELETED else repr(wrong))
@pytest.mark.parametrize("record", ["manifest", "journal"])
def test_edited_records(record: str, wrong: object, logs: Path, tmp_path: Path) -> None:
    is_manifest = record == "manifest"
    with pytest.raises(SystemExit):
        main(["recover", "--mode", "salvage", "--quiet", str(logs / "dplain-0" if is_manifest else logs)])
    (found,) = logs.rglob("manifest.json") if is_manifest else logs.glob(".kseg-change-*")
    text = found.read_text()
    rows = [json.loads(text)] if is_manifest else [*map(json.loads, text.splitlines())]
    kept = tmp_path / "kept"
    shutil.copytree(logs, kept)
    for k, row in enumerate(rows):
        for other in edited(row, wrong):
            found.write_text("".join(json.dumps(each) + "\n" for each in [*rows[:k], other, *rows[k + 1 :]]))
            before = files(logs)
            for call in everything(logs):
                survives(call)
            if files(logs) != before:
                shutil.rmtree(logs)
                shutil.copytree(kept, logs)
            assert {path.name for path in tmp_path.iterdir()} == {"kept", "logs"}
