"""Plans of the Python interface: what the commands show, and what they do."""

import html
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kseg
from api.consumed import TESTDATA
from cli.command import caller, files, flip

NOW = 1_800_000_000_000
FLIPPED = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
HEALTHY = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
LOG_DIRECTORY = TESTDATA / "log-directories/4.3.1/logs"
METADATA = TESTDATA / "log-directories/4.4.0/logs"
VOTER = TESTDATA / "damaged/findings/leader-copy-missing/cluster/node2"
DELETED = TESTDATA / "damaged/findings/leftover-holds-data/dplain-0"
STORE, IMAGE = TESTDATA / "remote/local/remote", LOG_DIRECTORY / "dplain-0" / f"{0:020}.log"
COMPACTED = TESTDATA / "compaction/4.3.1/before/c-tomb-short-0"
RETAINED = TESTDATA / "retention/4.3.1/before/r-time-half-0"

contents = partial(files, kept=False)
Make = Callable[..., kseg.Plan]
Told = Callable[..., tuple[int, list[dict[str, Any]]]]
CASES: dict[str, tuple[Path, Make, dict[str, object]]] = {
    "recover": (FLIPPED, kseg.recover, {"now": NOW}),
    "recover-salvage": (FLIPPED, kseg.recover, {"mode": "salvage", "now": NOW}),
    "recover-directory": (LOG_DIRECTORY, kseg.recover, {"now": NOW}),
    "restore": (DELETED, kseg.restore, {"undelete": True, "now": NOW}),
    "quorum": (METADATA, kseg.quorum, {"rewrite": True}),
    "quorum-survivor": (VOTER, kseg.quorum, {"survivor": ["2=new:9093"]}),
    "reindex": (HEALTHY, kseg.reindex, {"snapshots": True}),
    "compact": (COMPACTED, kseg.compact, {"now": NOW, "min_cleanable_ratio": 0, "memory_bytes": 1 << 20}),
    "retain": (RETAINED, kseg.retain, {"now": NOW, "retention_ms": 1000, "policy": "delete"}),
    "convert": (HEALTHY, kseg.convert, {"codec": "zstd"}),
}
OPTIONS = {"survivor": ["--survivor", "--endpoints"], "memory_bytes": ["--memory"], "codec": ["--in-place", "--codec"]}
"""Of arguments whose options have other names, or need others."""


def words_of(name: str, arguments: dict[str, object]) -> Iterator[object]:
    """The command line of a case."""
    yield name.partition("-")[0]
    for each, value in arguments.items():
        yield from OPTIONS.get(each, [f"--{each.replace('_', '-')}"])
        yield from value if isinstance(value, list) else [] if value is True else [value]


def copied(source: Path, folder: Path) -> Path:
    made = folder / source.name
    shutil.copytree(source, made, symlinks=True)
    return made


@pytest.fixture
def told(capfdbinary: pytest.CaptureFixture[bytes]) -> Told:
    """The status and the objects of a command line."""
    command = caller(capfdbinary)

    def run(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
        done = command(*arguments)
        return done.status, done.objects

    return run


def objects(plan: kseg.Plan) -> list[dict[str, Any]]:
    return [untimed(json.loads(line)) for line in plan.to_json().splitlines()]


def untimed(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "seconds"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_what_the_command_shows_and_does(tmp_path: Path, name: str, told: Told) -> None:
    source, make, given = CASES[name]
    words = [*words_of(name, given)]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    path = copied(source, tmp_path / "a")
    before = contents(path)
    plan = make(path, **given)
    status, rows = told(*words, "--dry-run", "--format", "json", path)
    assert contents(path) == before
    assert objects(plan) == list(map(untimed, rows))
    shown = [row for row in rows if row["type"] == "action"]
    names = ("action", "file", "reason", "newSize", "target", "removedBytes")
    assert list(map(tuple, plan.actions)) == [tuple(row.get(name) for name in names) for row in shown]
    assert bool(plan) == (status == 1) == bool(shown)
    if name not in ("recover-directory", "reindex"):
        assert plan
    result = plan.apply()
    assert result.changed == bool(plan)
    other = copied(source, tmp_path / "b")
    status, _ = told(*words, "--format", "json", other)
    assert plan.damage_remains == result.damage_remains == (status == 1)
    assert {key: data for key, data in contents(path).items() if "checkpoint" not in key} == {
        key: data for key, data in contents(other).items() if "checkpoint" not in key
    }


def test_a_new_quorum_that_lacks_records_says_so(tmp_path: Path, told: Told) -> None:
    path = copied(METADATA, tmp_path)
    flip(path / "__cluster_metadata-0" / f"{0:020}.log", -5)
    words = ("quorum", "--new", 9, "--listener", "C://h:1", "--format", "json", "--output", tmp_path / "command")
    assert told(*words, path)[0] == 1
    plan = kseg.quorum(path, new=9, listener="C://h:1", output=tmp_path / "new")
    assert (plan.damage_remains, plan.apply().damage_remains) == (True, True)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda output: kseg.restore(from_remote=STORE, output=output), ["restore", "--from-remote", STORE]),
        (lambda output: kseg.carve(IMAGE, output=output), ["carve", IMAGE]),
    ],
    ids=["restore", "carve"],
)
def test_a_plan_of_new_partitions_is_the_commands(make: Make, words: list[object], tmp_path: Path, told: Told) -> None:
    output = tmp_path / "out"
    plan = make(output)
    status, rows = told(*words, "--output", output, "--dry-run", "--format", "json")
    assert (status, objects(plan)) == (1, rows)
    assert {action.action for action in plan.actions} == {"create"}
    assert plan.apply().changed
    made = {row["directory"] for row in rows if row["type"] in ("rebuilt", "carved")}
    assert made == set(map(str, output.glob("*-[0-9]")))


def test_what_is_lost_is_named() -> None:
    plan = kseg.recover(FLIPPED)
    assert plan.lost
    first = plan.lost[0]
    assert isinstance(first, kseg.Lost)
    assert Path(first.file).is_file()
    assert first.length > 0
    assert sum(lost.length for lost in plan.lost) <= sum(action.removed_bytes for action in plan.actions)


def test_a_change_is_undone(tmp_path: Path, told: Told) -> None:
    path = copied(FLIPPED, tmp_path)
    before = contents(path)
    result = kseg.recover(path, mode="salvage").apply()
    assert isinstance(result, kseg.Result)
    assert all(os.path.isdir(kept) for kept in result.kept)
    assert result.kept
    assert contents(path) != before
    plan = kseg.undo(path)
    _, rows = told("undo", "--dry-run", "--format", "json", path)
    assert objects(plan) == rows
    assert plan
    assert plan.apply().changed
    assert contents(path) == before
    with pytest.raises(kseg.KsegError):
        kseg.undo(path)


def test_what_goes_is_kept_elsewhere_or_not_at_all(tmp_path: Path) -> None:
    path, place = copied(FLIPPED, tmp_path), tmp_path / "kept"
    (kept,) = kseg.recover(path, keep=place).apply().kept
    assert Path(kept).is_relative_to(place)
    (tmp_path / "other").mkdir()
    assert kseg.recover(copied(FLIPPED, tmp_path / "other"), keep=False).apply().kept == ()


def test_a_conversion_to_an_output_is_what_the_command_shows_and_does(tmp_path: Path, told: Told) -> None:
    path, new, other = copied(HEALTHY, tmp_path), tmp_path / "new", tmp_path / "other"
    before = contents(path)
    plan = kseg.convert(path, codec="zstd", output=new)
    assert plan
    assert not new.exists()
    _, rows = told("convert", "--codec", "zstd", "--dry-run", "--format", "json", "-o", new, path)
    assert objects(plan) == list(map(untimed, rows))
    result = plan.apply()
    assert (result.changed, result.kept) == (True, ())
    told("convert", "--codec", "zstd", "--format", "json", "-o", other, path)
    assert contents(new) == contents(other)
    assert contents(path) == before
    with pytest.raises(kseg.PathError):
        plan.apply()
    with pytest.raises(kseg.PathError, match="already exists"):
        kseg.convert(path, codec="zstd", output=new)


def test_a_range_is_converted_to_segments_tables_and_lines(tmp_path: Path, told: Told) -> None:
    path, new = copied(HEALTHY, tmp_path), tmp_path / "new"
    offsets = [record.offset for record in kseg.open(path).records(offsets=(20, 60))]
    assert offsets
    assert kseg.convert(path, offsets=(20, 60), output=new).apply().changed
    assert [record.offset for record in kseg.open(new / path.name).records()] == offsets
    lines = tmp_path / "lines.jsonl"
    plan = kseg.convert(path, to="jsonl", offsets=(20, 60), output=lines)
    assert not lines.exists()
    plan.apply()
    assert [action.size for action in plan.actions] == [lines.stat().st_size]
    rows = [json.loads(line) for line in lines.read_bytes().splitlines()]
    assert [row["offset"] for row in rows if row["type"] == "record" and "control" not in row] == offsets
    _, rows_of_command = told("convert", "--to", "jsonl", "--offsets", "20..60", path)
    assert rows == rows_of_command
    with pytest.raises(kseg.PathError, match="already exists"):
        kseg.convert(path, to="jsonl", output=lines)
    day = kseg.convert(path, to="csv", time=("1970-01-01", "1970-01-02"), output=tmp_path / "none.csv")
    day.apply()
    assert (tmp_path / "none.csv").read_bytes().count(b"\n") == 1


def test_an_output_lies_outside_of_logs(tmp_path: Path) -> None:
    path = copied(HEALTHY, tmp_path)
    with pytest.raises(kseg.PathError, match="is inside the partition"):
        kseg.convert(path, output=path / "new")
    logs = copied(LOG_DIRECTORY, tmp_path)
    with pytest.raises(kseg.PathError, match="is the log directory"):
        kseg.convert(logs, to="csv", output=logs)
    with pytest.raises(kseg.RequestError, match="keep"):
        kseg.convert(path, output=tmp_path / "new", keep=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda path, **change: kseg.recover(path, mode="salvage", **change),
        kseg.reindex,
        lambda path, **change: kseg.compact(path, topics="orders", force_policy=True, now=NOW, **change),
        lambda path, **change: kseg.retain(path, topics="orders", retention_ms=1, policy="delete", now=NOW, **change),
        lambda path, **change: kseg.convert(path, codec="zstd", **change),
    ],
    ids=["recover", "reindex", "compact", "retain", "convert"],
)
def test_archives_are_changed_to_an_output_only(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "logs.tar.gz"
    with tarfile.open(path, "w:gz") as made:
        made.add(COMPACTED, "logs/orders-0")
    for place in (path, "s3://bucket/logs"):
        with pytest.raises(kseg.PathError, match="never changed: give --output"):
            make(place)
    plan = make(path, output=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert plan.apply().changed == bool(plan)
    if plan:
        rows = {(r.offset, r.key, r.value) for r in kseg.open(COMPACTED).records()}
        assert {(r.offset, r.key, r.value) for r in kseg.open(tmp_path / "new/orders-0").records()} <= rows


@pytest.mark.parametrize("action", ["replace", "create"])
def test_a_plan_is_not_applied_to_other_files(tmp_path: Path, action: str) -> None:
    path = copied(FLIPPED, tmp_path)
    plan = kseg.recover(path, mode="salvage")
    with Path(next(each.file for each in plan.actions if each.action == action)).open("ab") as log:
        log.write(b"more")
    before = contents(path)
    with pytest.raises(kseg.PathError, match="has changed since"):
        plan.apply()
    assert contents(path) == before


def test_nothing_to_plan_for_is_an_error(tmp_path: Path) -> None:
    for make in (kseg.recover, kseg.reindex, kseg.compact, kseg.retain, kseg.undo):
        with pytest.raises(kseg.PathError, match="no such file"):
            make(tmp_path / "missing-0")


def test_a_plan_is_shown_as_a_table() -> None:
    plan = kseg.recover(FLIPPED)
    table = plan._repr_html_()
    assert table.startswith("<table><caption>recover: actions: ")
    assert table.count("<tr>") == 1 + len(plan.actions)
    assert "Failed" not in table
    assert repr(plan).startswith("<Plan recover: actions: ")
    assert "nothing to do" in repr(kseg.reindex(HEALTHY))
    assert not kseg.reindex(HEALTHY)


def test_the_table_of_a_plan_lists_the_paths_that_failed(tmp_path: Path) -> None:
    missing = tmp_path / "<b>-0"
    plan = kseg.recover([FLIPPED, missing])
    assert repr(plan).endswith(", failed: 1>")
    assert plan._repr_html_().endswith(
        f"</table><p>Failed:</p><ul><li>{html.escape(str(plan.errors[str(missing)]))}</li></ul>"
    )
    assert "&lt;b&gt;-0" in plan._repr_html_()


def test_an_export_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(kseg.UnsupportedError, match="pip install"):
        kseg.convert(HEALTHY, to="parquet", output=tmp_path / "records.parquet")
