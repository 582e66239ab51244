"""``kseg redact``: what it says, what it refuses, and that a twin is written completely or not at all."""

import shutil
from pathlib import Path

import pytest

import kseg as package
from cli.command import LOGS, TESTDATA, Kseg, files, unchanged

INTERNAL = TESTDATA / "kafka-4.4.0/internal"


def test_a_log_directory_is_told_by_partition(kseg: Kseg, tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    with unchanged(LOGS):
        done = kseg("redact", "--format", "json", "--output", twin, LOGS).expect(0)
    rows = {Path(row["directory"]).name: row for row in done.of_type("redacted")}
    assert rows.keys() == {"twin", *(path.name for path in LOGS.iterdir() if path.is_dir())}
    assert sum(row["records"] for row in rows.values()) == done.objects[-1]["records"] > 0
    assert rows["dplain-0"]["values"] > 0 == rows["dplain-0"]["randomBytes"]
    assert files(twin).keys() == files(LOGS).keys()
    kseg("redact", "--output", twin, LOGS).expect(3, "already exists")


@pytest.mark.parametrize("spelling", ["dplain-0/", "dplain-0/.", "../dplain-0/"])
@pytest.mark.parametrize("command", [("redact",), ("convert", "--codec", "zstd")], ids=["redact", "convert"])
def test_a_partition_spelled_otherwise_keeps_its_log_start(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], spelling: str
) -> None:
    logs = shutil.copytree(LOGS, tmp_path / "logs")
    (logs / "log-start-offset-checkpoint").write_text("0\n1\ndplain 0 46\n")
    (tmp_path / "dplain-0").symlink_to(logs / "dplain-0")
    monkeypatch.chdir(logs)
    kseg(*command, "--output", tmp_path / "new", spelling).expect(0)
    assert (tmp_path / "new/log-start-offset-checkpoint").read_text() == "0\n1\ndplain 0 46\n"


def test_a_dry_run_writes_nothing(kseg: Kseg, tmp_path: Path) -> None:
    done = kseg("redact", "--dry-run", "--format", "json", "--output", tmp_path / "twin", LOGS).expect(1)
    assert {row["action"] for row in done.of_type("action")} == {"create"}
    assert not done.of_type("redacted")
    assert not (tmp_path / "twin").exists()


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["/there/is/none"], 2, "needs --output"),
        (["--output", "out", "one", "two"], 2, "one PATH"),
        (["--output", "out", "/there/is/none"], 3, "No such file"),
        (["--output", "out", "-"], 3, "standard input"),
        (["--output", "s3://bucket/out", LOGS], 3, "object stores"),
    ],
)
def test_what_is_refused(
    kseg: Kseg, words: list[object], status: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kseg("redact", *words).expect(status, text)
    assert not any(tmp_path.iterdir())


def test_groups_join_under_other_names(kseg: Kseg, tmp_path: Path) -> None:
    """The groups that consumers committed, in the partition that their coordinator reads."""
    kseg("redact", "-q", "--output", tmp_path / "twin", INTERNAL).expect(0)
    rows = [kseg("groups", "--format", "json", place).objects for place in (INTERNAL, tmp_path / "twin")]
    groups, twins = ({row["group"] for row in each if row.get("group")} for each in rows)
    assert len(groups) == len(twins) > 0
    assert not groups & twins
    numbers = [
        sorted(
            str([row.get(name) for name in ("type", "topic", "partition", "offset", "coordinatorPartition")])
            for row in each
        )
        for each in rows
    ]
    assert numbers[0] == numbers[1]


def test_names_of_topics_go_too_on_demand(kseg: Kseg, tmp_path: Path) -> None:
    kseg("redact", "-q", "--names", "--output", tmp_path / "twin", LOGS).expect(0)
    assert {path.name for path in (tmp_path / "twin").glob("*-[0-9]")} & {
        path.name for path in LOGS.glob("d*-0")
    } == set()


def test_python_plans_the_same(tmp_path: Path) -> None:
    plan = package.redact(LOGS, output=tmp_path / "twin")
    assert {action.action for action in plan.actions} == {"create"}
    assert not (tmp_path / "twin").exists()
    assert plan.apply().changed
    assert files(tmp_path / "twin").keys() == files(LOGS).keys()


def test_sizes_are_those_of_the_twin(kseg: Kseg, tmp_path: Path) -> None:
    """Compressed batches are packed anew."""
    partition, twin = TESTDATA / "log-directories/4.4.0/logs/cmptx-1", tmp_path / "twin"
    done = kseg("redact", "--format", "json", "--output", twin, partition).expect(0)
    found = {path.name: path.stat().st_size for path in (twin / partition.name).iterdir()}
    assert {Path(row["file"]).name: row["newSize"] for row in done.of_type("action")} == found
    assert done.objects[-1]["newBytes"] == sum(found.values())
