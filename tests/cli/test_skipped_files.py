"""No command passes over in silence what looks like a segment, or a log directory further down."""

import gzip
import shutil
from pathlib import Path

import pytest

from cli.command import Kseg
from failing_disk import PAGE, FailDisk

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
LOGS = TESTDATA / "log-directories/4.3.1/logs"
SEGMENT = "00000000000000000116.log"
COMMANDS = [
    ["dump"], ["recover", "-n"], ["compact", "-n"], ["retain", "-n"], ["reindex", "-n"],
    ["convert", "--to", "jsonl"], ["convert", "--to", "v2", "--output", "out"],
]  # fmt: skip


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outer").mkdir()
    return Path(shutil.copytree(LOGS, tmp_path / "outer" / "data-1"))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_other_names_and_packed_segments_are_told(command: list[str], logs: Path, kseg: Kseg) -> None:
    assert "not read" not in kseg(*command, logs).err
    shutil.rmtree("out", ignore_errors=True)
    partition = logs / "dplain-0"
    shutil.copy(partition / SEGMENT, partition / "segment-old.log.bak")
    (partition / f"{SEGMENT}.gz").write_bytes(gzip.compress((partition / SEGMENT).read_bytes()))
    (partition / "00000000000000000200.log").symlink_to("00000000000000000200.log")
    (partition / "notes.txt").write_text("not Kafka's\n")
    shutil.copy(partition / SEGMENT, logs / "evidence")
    done = kseg(*command, logs)
    names = f"{SEGMENT}.gz, 00000000000000000200.log, segment-old.log.bak"
    packed = partition / f"{SEGMENT}.gz"
    hints = "kseg verify shows more; kseg dump reads a packed segment that it is given by name"
    assert f"{partition}: not read: {names} ({hints})" in done.err
    assert kseg("dump", packed).status == 0
    assert f"{logs}: not read: evidence (kseg verify shows more)" in done.err


def test_salvage_passes_over_what_it_cannot_read(logs: Path, kseg: Kseg) -> None:
    partition = logs / "dplain-0"
    shutil.copy(partition / SEGMENT, partition / "segment-old.log.bak")
    (partition / f"{SEGMENT}.gz").write_bytes(gzip.compress((partition / SEGMENT).read_bytes()))
    for path in (logs, partition):
        done = kseg("recover", "--mode", "salvage", "-n", path)
        assert f"{partition}: not read: {SEGMENT}.gz (kseg" in done.err


@pytest.mark.parametrize("command", [*COMMANDS, ["undo", "--list"]], ids=" ".join)
def test_a_directory_above_names_the_log_directories(command: list[str], logs: Path, kseg: Kseg) -> None:
    done = kseg(*command, logs.parent)
    assert done.status == 3
    assert f"{logs.parent}: neither a partition nor a log directory; log directories in it: {logs}" in done.err


@pytest.mark.parametrize("command", [["dump"], *COMMANDS[-2:]], ids=" ".join)
def test_packed_segments_alone_are_no_empty_partition(command: list[str], tmp_path: Path, kseg: Kseg) -> None:
    partition = tmp_path / "dplain-0"
    partition.mkdir()
    (partition / f"{SEGMENT}.gz").write_bytes(gzip.compress((LOGS / "dplain-0" / SEGMENT).read_bytes()))
    done = kseg(*command, partition)
    assert done.status == 3
    assert f"not read: {SEGMENT}.gz" in done.err


def test_a_manifest_that_matches_says_so(logs: Path, kseg: Kseg) -> None:
    assert "written, 4 files" in kseg("verify", "--manifest", "m", logs).err
    assert "m: compared, 4 files; they match" in kseg("verify", "--manifest", "m", logs).err
    with (logs / "dplain-0" / SEGMENT).open("r+b") as file:
        file.seek(200)
        file.write(b"x")
    assert "m: compared, 4 files; differences: 1" in kseg("verify", "--manifest", "m", logs).err


def test_sectors_that_cannot_be_read(logs: Path, kseg: Kseg, fail_disk: FailDisk) -> None:
    damaged = logs / "dplain-0" / SEGMENT
    other = shutil.copytree(LOGS, logs.parent.parent / "other")
    with (other / "dplain-0" / SEGMENT).open("r+b") as file:
        file.seek(300)
        file.write(b"x")
    fail_disk(damaged, PAGE, PAGE + 512)
    fail_disk(logs / "replication-offset-checkpoint", 0, 1)
    done = kseg("verify", "--format", "json", logs, other)
    found = {(row["code"], row["file"]) for row in done.objects if row["type"] == "finding"}
    assert done.status == 1
    assert ("unreadable-bytes", str(damaged)) in found
    assert ("crc-mismatch", str(other / "dplain-0" / SEGMENT)) in found
    dumped = kseg("dump", "--format", "json", damaged)
    rows = [row for row in dumped.objects if row["type"] == "damage"]
    assert (dumped.status, [row["code"] for row in rows]) == (1, ["unreadable-bytes"])
    assert sum(row["type"] == "batch" for row in dumped.objects) > 1


def test_a_file_cut_short_while_it_is_dumped(logs: Path, kseg: Kseg, monkeypatch: pytest.MonkeyPatch) -> None:
    from kseg.stores.source import Source

    monkeypatch.setattr(Source, "current_size", lambda source: source.size // 2)
    done = kseg("dump", logs / "dplain-0" / SEGMENT)
    assert done.status == 1
    assert "the file shrank while it was read: 7137 of 14274 bytes are left" in done.err
