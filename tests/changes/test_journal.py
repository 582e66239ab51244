"""The journal of a log directory after a power cut, and after half a line."""

import json
import os
import random
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from changes.failing import QUICK
from changes.power import PowerDisk
from kseg.changes import journal as journal_module
from kseg.changes.disk import Disk
from kseg.changes.journal import (
    UNDOING,
    DirectoryMove,
    Journal,
    RootFile,
    journals,
    read_root_file,
    remove_temporary_files,
    replace_file,
)
from kseg.errors import KsegError

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")


def created(logs: Path) -> tuple[Journal, PowerDisk]:
    logs.mkdir()
    disk = PowerDisk(logs)
    journal = Journal(str(logs), 1, "recover", 1_790_000_000_000, True, {})
    journal.create(disk)
    return journal, disk


@pytest.mark.parametrize("seed", range(12))
def test_each_line_is_durable_once_it_is_written(seed: int, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    journal, disk = created(logs)
    names = ["orders-0", "orders-1", "orders-2"]
    for name in names:
        journal.append(disk, {"partition": name})
    disk.cut(random.Random(seed))
    (found,) = journals(str(logs))
    assert (found.command, found.partitions, found.size) == ("recover", names, journal.size)


@pytest.mark.parametrize("seed", range(6))
def test_a_removed_journal_stays_removed(seed: int, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    journal, disk = created(logs)
    journal.remove(disk)
    disk.cut(random.Random(seed))
    assert journals(str(logs)) == []


def test_half_a_line_is_replaced_by_the_next_one(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 1, "recover", 1_790_000_000_000, True, {})
    journal.create(QUICK)
    with open(journal.path, "ab") as file:
        file.write(b'{"partition":"ord')
    (found,) = journals(str(tmp_path))
    found.append(QUICK, {"partition": "orders-7"})
    assert journals(str(tmp_path))[0].partitions == ["orders-7"]


POINTS = RootFile(b"0\n0\n", 17, 0o644)
FILES = {"recovery-point-offset-checkpoint": POINTS, ".kafka_cleanshutdown": None}
ROWS: list[dict[str, Any]] = [
    {"begunNs": 123},
    {"partition": "orders-0"},
    {"partition": "orders-1"},
    {"partition": "orders-0"},
    {"undone": "orders-1"},
    {"moves": [["orders-0", "orders-7", 4711, 900]]},
    {"planned": {"log-start-offset-checkpoint": b64encode(b"0\n1\na 0 7\n").decode()}},
    {"left": {"recovery-point-offset-checkpoint": POINTS.row(), ".kafka_cleanshutdown": None}},
    {"restored": ["recovery-point-offset-checkpoint"]},
    {"state": UNDOING},
]


def journal_in(directory: Path, number: int = 3, **more: Any) -> Journal:
    journal = Journal(str(directory), number, "recover", 1_790_000_000_000, False, dict(FILES), **more)
    journal.create(QUICK)
    return journal


def test_the_whole_journal_is_read_again(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    assert journals(str(tmp_path)) == [journal]
    for row in ROWS:
        journal.append(QUICK, row)
        assert journals(str(tmp_path)) == [journal]
    assert (journal.begun_ns, journal.partitions, journal.undone) == (123, ["orders-0", "orders-1"], ["orders-1"])
    assert journal.moves == [DirectoryMove("orders-0", "orders-7", 4711, 900)]
    assert journal.planned == {"log-start-offset-checkpoint": b"0\n1\na 0 7\n"}
    assert journal.left == FILES
    assert (journal.restored, journal.state) == (["recovery-point-offset-checkpoint"], UNDOING)
    assert journal.size == Path(journal.path).stat().st_size
    assert (journal.group, Path(journal.path).name) == ("3.1790000000000", ".kseg-change-3.jsonl")
    journal.remove(QUICK)
    assert list(tmp_path.iterdir()) == []


def test_journals_are_sorted_by_number(tmp_path: Path) -> None:
    for number in (10, 9, 1, 999_999_999):
        journal_in(tmp_path, number)
    for name in (".kseg-change-0.jsonl", ".kseg-change-01.jsonl", ".kseg-change-1000000000.jsonl", ".kseg-change-2"):
        (tmp_path / name).write_bytes(b"")
    assert [journal.number for journal in journals(str(tmp_path))] == [1, 9, 10, 999_999_999]


def test_a_copy_of_a_journal_by_a_hard_link_stays_as_it_is(tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    os.link(journal.path, tmp_path / "copy")
    before = (tmp_path / "copy").read_bytes()
    journal.append(Disk(), {"partition": "orders-0"})
    assert (tmp_path / "copy").read_bytes() == before
    assert journals(str(tmp_path)) == [journal]


@pytest.mark.parametrize(
    "row",
    [
        {"begunNs": "x"}, {"partition": "a/b"}, {"partition": 7}, {"undone": ".."},
        {"moves": [["orders-0", "orders-7", 1]]}, {"moves": [["orders", "orders-7", 1, 2]]},
        {"moves": [["orders-0", "../orders-7", 1, 2]]}, {"moves": None},
        {"planned": {"server.properties": ""}}, {"planned": []}, {"left": {"x": None}}, {"left": {"x-checkpoint": {}}},
        {"restored": ["log-start-offset-checkpoint"]}, {"restored": ["x"]}, {"state": "open"}, {"state": "gone"}, 7,
    ],
)  # fmt: skip
def test_lines_that_no_release_writes(row: Any, tmp_path: Path) -> None:
    journal = journal_in(tmp_path)
    with open(journal.path, "ab") as file:
        file.write(json.dumps(row).encode() + b"\n")
    with pytest.raises(KsegError, match="is no journal"):
        journals(str(tmp_path))


@pytest.mark.parametrize(
    "changes", [{"version": 2}, {"version": None}, {"timeMs": "x"}, {"known": {"x": None}}, {"known": None}]
)
def test_first_lines_that_no_release_writes(changes: dict[str, Any], tmp_path: Path) -> None:
    path = Path(journal_in(tmp_path).path)
    row = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(KsegError, match="is no journal"):
        journals(str(tmp_path))


def test_root_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / ".kafka_cleanshutdown"
    assert read_root_file(str(tmp_path), path.name) is None
    path.write_bytes(b"12345")
    path.chmod(0o755)
    os.utime(path, ns=(5, 1_700_000_000_000_000_001))
    expected = RootFile(b"12345", 1_700_000_000_000_000_001, 0o644)
    assert read_root_file(str(tmp_path), path.name) == expected
    assert RootFile.of(expected.row() | {"mode": 0o4755}) == expected
    assert RootFile.of(None) is None
    monkeypatch.setattr(journal_module, "MAX_ROOT_FILE_BYTES", 5)
    assert read_root_file(str(tmp_path), path.name) == RootFile.of(expected.row()) == expected
    monkeypatch.setattr(journal_module, "MAX_ROOT_FILE_BYTES", 4)
    with pytest.raises(KsegError):
        read_root_file(str(tmp_path), path.name)
    with pytest.raises(ValueError, match="5"):
        RootFile.of(expected.row())
    (tmp_path / "folder").mkdir()
    with pytest.raises(KsegError):
        read_root_file(str(tmp_path), "folder")


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_file_of_the_root_is_replaced(mode: int, tmp_path: Path) -> None:
    path = tmp_path / ".kafka_cleanshutdown"
    path.write_bytes(b"old")
    path.chmod(mode)
    replace_file(str(path), b"new", Disk())
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", mode)
    replace_file(str(path), b"newer", Disk(), RootFile(b"", 1_700_000_000_000_000_001, 0o640))
    status = path.stat()
    assert (path.read_bytes(), status.st_mode & 0o777) == (b"newer", 0o640)
    assert status.st_mtime_ns == 1_700_000_000_000_000_001
    (tmp_path / ".kseg-new-kafka_cleanshutdown").write_bytes(b"left")
    replace_file(str(path), b"newest", Disk())
    assert [(found.name, found.read_bytes()) for found in tmp_path.iterdir()] == [(path.name, b"newest")]


def test_temporary_files_are_removed(tmp_path: Path) -> None:
    for name in (".kseg-new-a", ".kseg-change-1.jsonl", ".kseg-ne", "kseg-new-b"):
        (tmp_path / name).write_bytes(b"")
    remove_temporary_files(str(tmp_path), Disk())
    assert sorted(path.name for path in tmp_path.iterdir()) == [".kseg-change-1.jsonl", ".kseg-ne", "kseg-new-b"]


def test_a_journal_that_vanishes_is_no_other_release_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", lambda _path: [".kseg-change-1.jsonl"])
    with pytest.raises(KsegError, match=r"\.kseg-change-1\.jsonl: No such file"):
        journals(str(tmp_path))
