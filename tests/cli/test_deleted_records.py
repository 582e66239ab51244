"""What was deleted stays deleted: records below the log start, and directories that a broker has moved or deleted."""

import json
import shutil
import warnings
from pathlib import Path

import pytest

import kseg
from cli.command import CLEAN, Kseg
from node.disks import dealt, rows_of, write_rows

START = 7
UUID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory with partition few-1, whose records before START were deleted by kafka-delete-records."""
    logs = Path(shutil.copytree(CLEAN, tmp_path / "logs"))
    write_rows(logs / "log-start-offset-checkpoint", [["few", "1", str(START)]])
    return logs


def offsets_in(lines: list[str]) -> list[int]:
    found = (json.loads(line) for line in lines)
    return [row["offset"] for row in found if row.get("type", "record") == "record"]


def all_offsets(logs: Path) -> list[int]:
    return [record.offset for record in kseg.open(logs / "few-1").records(ignore_log_start=True)]


@pytest.mark.parametrize("segment", ["", "00000000000000000000.log"])
def test_exports_leave_deleted_records_out(segment: str, logs: Path, kseg: Kseg) -> None:
    path = logs / "few-1" / segment
    kept = [offset for offset in all_offsets(logs) if offset >= START]
    for form in ("jsonl", "csv"):
        found = kseg("convert", "--to", form, "-o", "-", path).expect(0, "below the log start offset")
        whole = kseg("convert", "--to", form, "--ignore-log-start", "-o", "-", path).expect(0)
        assert len(whole.lines) > len(found.lines)
        if form == "jsonl":
            assert offsets_in(found.lines) == kept[: len(offsets_in(found.lines))]
            assert offsets_in(whole.lines)[0] < START


def test_python_leaves_deleted_records_out(logs: Path) -> None:
    kept = [offset for offset in all_offsets(logs) if offset >= START]
    assert [record.offset for record in kseg.open(logs / "few-1").records()] == kept
    assert [record.offset for record in kseg.open(logs / "few-1").records(offsets=(0, START))] == [START]


@pytest.mark.parametrize("ending", ["delete", "future", "stray"])
def test_the_log_start_of_a_partition_is_not_that_of_its_moved_copies(ending: str, logs: Path) -> None:
    copy = shutil.copytree(logs / "few-1", logs / f"few-1.{UUID}-{ending}")
    assert [record.offset for record in kseg.open(copy).records()] == all_offsets(logs)


def test_scans_leave_deleted_records_out(logs: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    scan = kseg.scan(logs, topics="few", columns=["offset"])
    assert min(scan.to_arrow()["offset"].to_pylist()) == START
    whole = kseg.scan(logs, topics="few", columns=["offset"], ignore_log_start=True)
    assert sorted(whole.to_arrow()["offset"].to_pylist()) == all_offsets(logs)


def test_a_dump_shows_deleted_records_and_says_so(logs: Path, kseg: Kseg) -> None:
    found = kseg("dump", "--deep-iteration", "--format", "json", logs / "few-1").expect(0, f"few-1: {START}", "deleted")
    assert offsets_in(found.lines) == all_offsets(logs)
    assert "deleted" not in kseg("dump", "--deep-iteration", "--offsets", f"{START}..", logs / "few-1").expect(0).err


def test_a_log_start_beyond_the_end_hides_nothing(logs: Path) -> None:
    write_rows(logs / "log-start-offset-checkpoint", [["few", "1", "1000000"]])
    assert [record.offset for record in kseg.open(logs / "few-1").records()] == all_offsets(logs)


def test_a_moved_partition_keeps_the_log_start_on_its_old_disk(logs: Path, tmp_path: Path) -> None:
    disks = dealt(logs, tmp_path / "disks", 2)
    home = next(disk for disk in disks if (disk / "few-1").is_dir())
    other = next(disk for disk in disks if disk != home)
    (home / "few-1").rename(other / "few-1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [record.offset for record in kseg.open([home, other]).records() if record.topic == "few"]
    assert min(found) == START


COPYING = pytest.mark.parametrize("command", [["convert", "--codec", "none"], ["recover"]])


@COPYING
def test_the_output_of_one_partition_is_taken_for_no_brokers(
    command: list[str], logs: Path, tmp_path: Path, kseg: Kseg
) -> None:
    """It has a checkpoint, but what a broker would miss there is not missed."""
    output = tmp_path / "output"
    for name in ("few-1", "cmptx-4"):
        kseg(*command, "--output", output, logs / name).expect(0)
        found = kseg("verify", "--severity", "info", output).expect(0)
        assert "starts" not in found.err
        assert "unclean-shutdown" not in found.out.decode()
    shutil.copy(logs / "meta.properties", output)
    found = kseg("verify", "--severity", "info", output).expect(0, "start not judged")
    assert "unclean-shutdown" in found.out.decode()


def test_a_metadata_log_alone_is_a_nodes(logs: Path, kseg: Kseg) -> None:
    for name in logs.iterdir():
        if name.name not in ("__cluster_metadata-0", "cleaner-offset-checkpoint"):
            shutil.rmtree(name) if name.is_dir() else name.unlink()
    assert "bad-meta-properties" in kseg("verify", logs).expect(1, "does not start").out.decode()


@COPYING
def test_a_copying_one_partition_has_the_log_start(command: list[str], logs: Path, tmp_path: Path, kseg: Kseg) -> None:
    output = tmp_path / "output"
    output.mkdir()
    write_rows(output / "log-start-offset-checkpoint", [["other", "3", "5"]])
    kseg(*command, "--output", output, logs / "few-1").expect(0)
    assert sorted(rows_of(output / "log-start-offset-checkpoint")) == [["few", "1", str(START)], ["other", "3", "5"]]


MOVED = [f"few-1.{UUID}-{ending}" for ending in ("delete", "future", "stray")]


@pytest.fixture
def moved(logs: Path) -> Path:
    """The log directory with three more copies of few-1, which a broker has moved or deleted."""
    for name in MOVED:
        shutil.copytree(logs / "few-1", logs / name)
    write_rows(logs / "log-start-offset-checkpoint", [])
    return logs


def test_copies_of_a_partition_are_not_merged_into_it(moved: Path, kseg: Kseg) -> None:
    once = len(all_offsets(moved))
    for words in (["convert", "--to", "jsonl", "-o", "-"], ["dump", "--deep-iteration", "--format", "json"]):
        for topics in ([], ["--topic", "few"]):
            found = kseg(*words, *topics, moved).expect(0, "not read", *MOVED)
            rows = [row for row in found.objects if row["type"] == "record" and row["topic"] == "few"]
            assert len(rows) == once
            assert ("--all" in found.err) == (words[0] == "dump")
    named = kseg("dump", "--deep-iteration", "--format", "json", moved / MOVED[0], moved).expect(0, *MOVED[1:])
    assert MOVED[0] not in named.err
    assert len([row for row in named.of_type("record") if MOVED[0] in row["file"]]) == once
    everything = kseg("dump", "--all", "--topic", "few", "--deep-iteration", "--format", "json", moved)
    assert len(everything.of_type("record")) == 4 * once


def test_copies_of_a_partition_are_not_merged_in_python(moved: Path) -> None:
    once = all_offsets(moved)
    with pytest.warns(kseg.SelectionWarning, match="not read"):
        found = [record.offset for record in kseg.open(moved).records() if record.topic == "few"]
    assert found == once
    assert len([file for file in kseg.open(moved).files if "/few-1" in file]) == len(kseg.open(moved / "few-1").files)


def test_copies_of_a_partition_are_not_merged_in_scans(moved: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.warns(kseg.SelectionWarning, match="not read"):
        assert kseg.scan(moved, topics="few").count_rows() == len(all_offsets(moved))
