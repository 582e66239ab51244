"""The journal of a log directory: durable, read again field by field, and nothing else is believed."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from changes.failing import QUICK
from changes.power import PowerDisk
from kseg.changes import journal as journal_module
from kseg.changes.disk import Disk
from kseg.changes.journal import UNDOING, DirectoryMove, Journal, RootFile, journals, read_root_file, replace_file
from kseg.changes.manifest import Author
from kseg.errors import KsegError

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")


def created(logs: Path) -> tuple[Journal, PowerDisk]:
    logs.mkdir()
    disk = PowerDisk(logs)
    journal = Journal(str(logs), 1, "recover", 1_790_000_000_000, True, {})
    journal.note(disk)
    return journal, disk


@pytest.mark.parametrize("seed", range(12))
def test_each_note_is_durable_once_it_is_written(seed: int, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    journal, disk = created(logs)
    names = ["orders-0", "orders-1", "orders-2"]
    for k in range(len(names)):
        journal.note(disk, partitions=names[: k + 1])
    disk.cut(random.Random(seed))
    (found,) = journals(str(logs))
    assert (found.command, found.partitions) == ("recover", names)


@pytest.mark.parametrize("seed", range(6))
def test_a_removed_journal_stays_removed(seed: int, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    journal, disk = created(logs)
    journal.remove(disk)
    disk.cut(random.Random(seed))
    assert journals(str(logs)) == []


POINTS = RootFile(b"0\n0\n", 17, 0o644)
FILES = {"recovery-point-offset-checkpoint": POINTS, ".kafka_cleanshutdown": None}
NOTES: list[dict[str, Any]] = [
    {"root": "ab12"},
    {"partitions": ["orders-0", "orders-1"]},
    {"undone": ["orders-1"]},
    {"moves": [DirectoryMove("orders-0", "orders-7", 4711, 900)]},
    {"planned": {"log-start-offset-checkpoint": b"0\n1\na 0 7\n"}},
    {"replaced": {"log-start-offset-checkpoint": [b"0\n0\n", b""]}},
    {"left": FILES},
    {"restored": ["recovery-point-offset-checkpoint"]},
    {"state": UNDOING},
]


def journal_in(directory: Path, number: int = 3, **more: Any) -> Journal:
    journal = Journal(str(directory), number, "recover", 1_790_000_000_000, False, dict(FILES), **more)
    journal.note(QUICK)
    return journal


def test_the_whole_journal_is_read_again(tmp_path: Path) -> None:
    journal = journal_in(tmp_path, path_name="orders-0", author=Author.present(("undo", "x")))
    assert journals(str(tmp_path)) == [journal]
    for note in NOTES:
        journal.note(QUICK, **note)
        (found,) = journals(str(tmp_path))
        assert found == journal
        assert all(getattr(found, name) == value for name, value in note.items())
    assert (journal.group, Path(journal.path).name) == ("3.1790000000000", ".kseg-change-3.jsonl")
    journal.remove(QUICK)
    assert list(tmp_path.iterdir()) == []


def test_contents_that_were_planned_before_are_known(tmp_path: Path) -> None:
    journal, name = journal_in(tmp_path), "log-start-offset-checkpoint"
    for content in (b"1", b"2", b"3"):
        journal.plan(QUICK, {name: content})
    assert journals(str(tmp_path))[0].contents(name) == [b"1", b"2", b"3"]


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
    journal.note(Disk(), partitions=["orders-0"])
    assert (tmp_path / "copy").read_bytes() == before
    assert journals(str(tmp_path)) == [journal]


LATER = "log-start-offset-checkpoint"


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 3}, {"version": None}, {"timeMs": "x"}, {"known": {"x": None}}, {"known": None}, {"root": 7},
        {"partitions": ["a/b"]}, {"partitions": [7]}, {"partitions": 7}, {"undone": [".."]}, {"pathName": "a/b"},
        {"moves": [["orders-0", "orders-7", 1]]}, {"moves": [["orders", "orders-7", 1, 2]]},
        {"moves": [["orders-0", "../orders-7", 1, 2]]}, {"moves": None}, {"author": {"user": "a"}},
        {"planned": {"server.properties": ""}}, {"planned": []}, {"replaced": {"x": []}}, {"replaced": {LATER: "a"}},
        {"left": {"x": None}}, {"left": {"x-checkpoint": {}}}, {"left": {LATER: {"content": "?", "mode": 1}}},
        {"restored": [LATER]}, {"restored": ["x"]}, {"state": "prepared"}, {"state": "gone"}, {"state": None},
    ],
)  # fmt: skip
def test_journals_that_no_release_writes(changes: dict[str, Any], tmp_path: Path) -> None:
    path = Path(journal_in(tmp_path).path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(KsegError, match="is no journal"):
        journals(str(tmp_path))


def test_half_a_journal_is_none(tmp_path: Path) -> None:
    path = Path(journal_in(tmp_path).path)
    bad = (b"7", b"", b"\n", b"{}\n", b"[]\n", b"\xff\n", b'{"version":1}\n')
    for content in (*bad, path.read_bytes()[:-9]):
        path.write_bytes(content)
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
    Journal(str(tmp_path), 1, "recover", 1, False, {path.name: expected}).note(QUICK)
    monkeypatch.setattr(journal_module, "MAX_ROOT_FILE_BYTES", 5)
    assert read_root_file(str(tmp_path), path.name) == journals(str(tmp_path))[0].known[path.name] == expected
    monkeypatch.setattr(journal_module, "MAX_ROOT_FILE_BYTES", 4)
    with pytest.raises(KsegError):
        read_root_file(str(tmp_path), path.name)
    with pytest.raises(KsegError, match=r"ValueError\(5\)"):
        journals(str(tmp_path))
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


def test_a_journal_that_vanishes_is_no_other_release_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", lambda _path: [".kseg-change-1.jsonl"])
    with pytest.raises(KsegError, match=r"\.kseg-change-1\.jsonl: No such file"):
        journals(str(tmp_path))
