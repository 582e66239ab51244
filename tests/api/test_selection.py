"""Selections of topics and partitions: an empty one selects nothing, a wrong name is an error, a glob a warning."""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA
from changes.trees import contents

FLIPPED = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
SOURCES = {
    "reindex": TESTDATA / "damaged/4.3.1-control-clean/dplain-0",
    "compact": TESTDATA / "compaction/4.3.1/before/c-tomb-short-0",
    "retain": TESTDATA / "retention/4.3.1/before/r-time-half-0",
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory with partitions of topics of two names, one of them damaged."""
    root = tmp_path / "logs"
    for name in ("audit-a-0", "audit-b-0", "orders-1"):
        shutil.copytree(FLIPPED, root / name)
    return root


def rows(path: Path, **selection: Any) -> int:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return kseg.scan(path, on_damage="skip", columns=["offset"], **selection).to_arrow().num_rows


CHANGES: dict[str, Callable[..., kseg.Plan]] = {
    "recover": kseg.recover,
    "reindex": lambda path, **more: kseg.reindex(path, index_interval_bytes=100, **more),
    "compact": lambda path, **more: kseg.compact(
        path, min_cleanable_ratio=0, memory_bytes=1 << 20, force_policy=True, **more
    ),
    "retain": lambda path, **more: kseg.retain(path, retention_ms=1, policy="delete", **more),
    "convert": lambda path, **more: kseg.convert(path, codec="gzip", skip_damage=True, **more),
    "convert-to": lambda path, **more: kseg.convert(
        path, codec="gzip", skip_damage=True, output=path.parent / "out", **more
    ),
    "undo": kseg.undo,
}


@pytest.mark.parametrize("selection", [{"topics": []}, {"topics": ()}, {"partitions": []}, {"partitions": ()}])
def test_an_empty_selection_has_no_rows(selection: dict[str, Any], logs: Path) -> None:
    for path in (logs, logs / "orders-1", [logs / "orders-1", logs]):
        assert rows(path, **selection) == 0  # type: ignore[arg-type]
    assert kseg.scan(logs, **selection).splits() == []


@pytest.mark.parametrize("topics", ["nope", "ORDERS", ["orders", "nope"], "audit"])
def test_a_name_that_is_not_there_is_refused(topics: str | list[str], logs: Path) -> None:
    with pytest.raises(kseg.RequestError, match="no partition of topic"):
        rows(logs, topics=topics)


def test_a_glob_that_matches_nothing_is_a_warning(logs: Path) -> None:
    with pytest.warns(kseg.SelectionWarning, match=r"no topic matches 'nope\*'"):
        assert rows(logs, topics="nope*") == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows(logs, topics="audit-*") == 2 * rows(logs, topics="orders") > 0
        assert rows(logs / "orders-1", topics=["orders"]) == rows(logs, topics="orders")


@pytest.mark.parametrize("name", CHANGES)
def test_changes_act_on_no_more_than_was_named(name: str, logs: Path) -> None:
    for part in logs.iterdir() if name in SOURCES else ():
        shutil.rmtree(part)
        shutil.copytree(SOURCES[name], part)
    make, before = CHANGES[name], contents(logs.parent)
    if name == "undo":
        kseg.recover(logs).apply()
        before = contents(logs.parent)
    for path in (logs, logs / "orders-1", [logs]):
        if name == "convert-to" and isinstance(path, list):
            continue
        for topics in ([], ()):
            plan = make(path, topics=topics)
            assert not plan
            plan.apply()
        with pytest.raises(kseg.RequestError, match="no partition of topic 'nope'"):
            make(path, topics=["orders", "nope"])
        with pytest.warns(kseg.SelectionWarning):
            assert not make(path, topics="nope*")
    with pytest.raises(kseg.RequestError):
        make(logs / "orders-1", topics="audit-a")
    assert contents(logs.parent) == before
    plan = make(logs, topics="audit-*")
    assert {Path(action.file).parent.name for action in plan.actions} - {"logs"} == {"audit-a-0", "audit-b-0"}
