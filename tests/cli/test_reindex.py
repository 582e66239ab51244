"""``reindex --check`` reports indexes that are missing or wrong, not those that only differ from a rebuild."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

CLEAN = TESTDATA / "log-directories/4.3.1-rounds/clean"
STEM = f"{0:020}"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CLEAN / "txn-5", tmp_path / "txn-5"))


def check(kseg: Kseg, partition: Path) -> tuple[int, str]:
    done = kseg("reindex", "--check", partition)
    return done.status, done.out.decode()


def test_indexes_as_brokers_leave_them_are_no_difference(kseg: Kseg) -> None:
    assert kseg("reindex", "--dry-run", CLEAN).status == 1
    assert check(kseg, CLEAN) == (0, "")


def test_a_right_index_is_no_difference(kseg: Kseg, partition: Path) -> None:
    index = partition / f"{STEM}.index"
    index.write_bytes(index.read_bytes()[8:])
    assert check(kseg, partition) == (0, ""), "brokers may write fewer entries"
    assert kseg("reindex", "--dry-run", partition).status == 1
    assert kseg("reindex", partition).status == 0
    assert kseg("reindex", "--dry-run", partition).status == 0


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        (".index", lambda entries: entries[:4] + b"\0\0\0\7" + entries[8:], "no batch begins at position 7"),
        (".index", lambda entries: entries[8:16] + entries[:8] + entries[16:], "entry before"),
        (".index", lambda entries: b"\x7f" + entries[1:], "behind"),
        (".timeindex", lambda entries: b"\x7f" + entries[1:], "it is above those behind it"),
        (".timeindex", lambda entries: entries[:-12], "the largest of the segment is"),
        (".txnindex", lambda entries: entries[:2] + bytes(8) + entries[10:], "producer"),
        (".index", None, "rebuilt"),
        (".txnindex", None, "rebuilt"),
    ],
)
def test_a_wrong_index_is_named(kseg: Kseg, partition: Path, name: str, change: object, reason: str) -> None:
    index = partition / f"{STEM}{name}"
    if callable(change):
        index.write_bytes(change(index.read_bytes()))
    else:
        index.unlink()
    status, text = check(kseg, partition)
    assert (status, text.count("replace ") + text.count("create ")) == (1, 1)
    assert index.name in text
    assert reason in " ".join(text.split())
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    assert check(kseg, partition) == (status, text)
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before
