"""Disk space: what ``kseg compact`` says that it needs, what it refuses, and how it gets along with little."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleaner.building import BatchFields, build_record_batch
from cleaner.partitions import PAIRS, checkpoint, files, new_records, records, write_log
from cli.command import Kseg

ABORTED = PAIRS[3]
SMALL = ("--segment-bytes", "16384")
FREE = "kseg.cleaner.disk_space.free_bytes"


def everything(directory: Path) -> dict[str, bytes]:
    found = [path for path in directory.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


@pytest.fixture
def spare(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    with tempfile.TemporaryDirectory(dir=shm) as found:
        yield Path(found)


def test_a_dry_run_names_the_space_that_the_run_takes(kseg: Kseg, tmp_path: Path) -> None:
    partition = ABORTED.copy(tmp_path)
    for more in ((), ("--no-quarantine", *SMALL)):
        dry = kseg("compact", "-n", "--format", "json", *ABORTED.options_with(*more), partition)
        [row], [summary] = dry.of_type("compaction"), dry.of_type("summary")
        # What is replaced is kept, and still takes its space when the checkpoint is written.
        checkpoint = 0 if more else (tmp_path / "cleaner-offset-checkpoint").stat().st_size
        assert 0 < row["peakBytes"] == summary["peakBytes"] - checkpoint
        text = kseg("compact", "-n", *ABORTED.options_with(*more), partition)
        assert f"at most {row['peakBytes'] / 1024:.1f} KiB of disk space" in text.err
        copy = Path(shutil.copytree(partition, tmp_path / f"copy{len(more)}" / partition.name))
        shutil.copy(tmp_path / "cleaner-offset-checkpoint", copy.parent)
        done = kseg("compact", "--format", "json", *ABORTED.options_with(*more), copy)
        assert done.of_type("compaction")[0]["peakBytes"] == row["peakBytes"]
        assert done.of_type("summary")[0]["peakBytes"] == summary["peakBytes"]
    assert row["peakBytes"] < sum(len(data) for data in files(partition, ".log").values())


def test_the_space_of_a_commit_of_all_is_that_of_new_files(kseg: Kseg, tmp_path: Path) -> None:
    partition = ABORTED.copy(tmp_path)
    before = files(partition, ".log", ".index", ".timeindex", ".txnindex")
    [row] = kseg("compact", "--format", "json", *ABORTED.options, partition).of_type("compaction")
    after = files(partition, ".log", ".index", ".timeindex", ".txnindex")
    new = sum(len(data) for name, data in after.items() if before.get(name) != data)
    assert new <= row["peakBytes"] <= sum(map(len, after.values()))


@pytest.mark.parametrize("options", [(), ("--no-quarantine", *SMALL)])
def test_too_little_space_is_refused_before_anything_is_written(
    kseg: Kseg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    partition = ABORTED.copy(tmp_path)
    dry = kseg("compact", "-n", "--format", "json", *ABORTED.options_with(*options), partition)
    needed, before = dry.of_type("compaction")[0]["peakBytes"] + (64 << 10), everything(tmp_path)
    monkeypatch.setattr(FREE, lambda _place: needed - 1)
    done = kseg("compact", *ABORTED.options_with(*options), partition)
    assert done.status == 3
    assert f"new files may take {(needed - (64 << 10)) / 1024:.1f} KiB" in done.err
    assert "nothing was changed" in done.err
    assert ("--no-quarantine, or" in done.err) == (not options)
    assert everything(tmp_path) == before
    assert "it would be refused" in kseg("compact", "-n", *ABORTED.options_with(*options), partition).err
    monkeypatch.setattr(FREE, lambda _place: needed)
    assert kseg("compact", *ABORTED.options_with(*options), partition).status == 0
    assert records(partition) == records(ABORTED.after)


def test_with_a_quarantine_on_another_disk_each_segment_is_put_in_place_by_itself(
    kseg: Kseg, tmp_path: Path, spare: Path
) -> None:
    partition = ABORTED.copy(tmp_path)
    before = everything(tmp_path)
    arguments = ("compact", *ABORTED.options_with(*SMALL), "--quarantine", spare, "--format", "json", partition)
    done = kseg(*arguments)
    assert done.status == 0
    assert len(list(spare.iterdir())) > 2
    assert done.of_type("compaction")[0]["peakBytes"] < 30_000
    assert records(partition) == records(ABORTED.after)
    assert checkpoint(tmp_path, ABORTED.name) == ABORTED.checkpoint_after
    dry = kseg("undo", "-n", "--format", "json", partition)
    assert dry.status == 1
    inactive = sorted(files(partition, ".log"))[:-1]
    assert {row["file"] for row in dry.of_type("action")} >= {str(partition / name) for name in inactive}
    assert kseg("undo", partition).status == 0
    assert everything(tmp_path) == before
    assert list(spare.iterdir()) == []


def test_several_rounds_in_small_steps_are_undone_as_one(kseg: Kseg, tmp_path: Path, spare: Path) -> None:
    rows = [(b"key-%d" % (i % 4000), b"%d" % i) for i in range(8000)]
    batches = [build_record_batch(new_records(rows[i : i + 500], i), BatchFields()) for i in range(0, 8000, 500)]
    logs = tmp_path / "logs"
    for name in ("t-0", "u-0"):
        write_log(logs / name, batches, 50_000)
    before = everything(logs)
    few = ("--memory", "64K", "--include-active", "--segment-bytes", "100K", "--until-clean", "--quarantine", spare)
    assert kseg("compact", *few, logs / "t-0").status == 0
    assert len(records(logs / "t-0")) == 4000
    assert kseg("undo", logs / "t-0").status == 0
    assert everything(logs) == before
    assert kseg("compact", *few, "--topic", "*", logs).status == 0
    for name in ("t-0", "u-0"):  # one of two partitions alone
        assert len(records(logs / name)) == 4000
        assert kseg("undo", logs / name).status == 0
    assert {name: data for name, data in everything(logs).items() if name in before} == before


def test_a_full_place_for_old_files_is_refused(
    kseg: Kseg, tmp_path: Path, spare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = ABORTED.copy(tmp_path)
    before = everything(tmp_path)
    monkeypatch.setattr(FREE, lambda place: 100_000 if os.stat(place).st_dev == spare.stat().st_dev else 1 << 40)
    done = kseg("compact", *ABORTED.options, "--quarantine", spare, partition)
    assert (done.status, "of old files are to be kept in" in done.err) == (3, True)
    assert everything(tmp_path) == before


def test_damage_in_the_clean_part_stops_small_steps_before_the_first(kseg: Kseg, tmp_path: Path) -> None:
    partition = PAIRS[4].copy(tmp_path)
    path = sorted(partition.glob("*.log"))[-3]
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    before = everything(tmp_path)
    assert kseg("compact", *PAIRS[4].options_with(*SMALL), "--no-quarantine", partition).status == 1
    assert everything(tmp_path) == before
