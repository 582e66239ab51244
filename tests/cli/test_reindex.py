"""``reindex --check`` reports indexes that are missing or wrong, not those that only differ from a rebuild."""

import os
import shutil
from pathlib import Path

import pytest

from cli.command import CLEAN, PLAIN, TESTDATA, Kseg, copying

# ``--era`` and the interval of indexes on the command line.

CASES = TESTDATA / "recovery"
ERA_STEM = f"{0:020d}"


def copy_of(case: str, target: Path) -> Path:
    (found,) = (CASES / case / "before").iterdir()
    return Path(shutil.copytree(found, target / found.name))


@pytest.mark.parametrize("version", ["0.10.2", "0.10.2.2", "0.10"])
def test_recover_follows_a_release(kseg: Kseg, tmp_path: Path, version: str) -> None:
    directory = copy_of("0.10.2.2-len-negative", tmp_path)
    assert kseg("recover", "--era", version, directory).status == 0
    for path in (CASES / "0.10.2.2-len-negative" / "after" / directory.name).iterdir():
        assert (directory / path.name).read_bytes() == path.read_bytes()


def test_max_message_bytes_is_that_of_the_broker(kseg: Kseg, tmp_path: Path) -> None:
    directory = copy_of("0.10.2.2-len-negative", tmp_path)
    assert kseg("recover", "--era", "0.10.2", "--max-message-bytes", "20", directory).status == 0
    assert (directory / f"{ERA_STEM}.log").read_bytes() == b""


def test_0_7_is_told_by_its_files(kseg: Kseg, tmp_path: Path) -> None:
    directory = copy_of("0.7.2-flip-payload", tmp_path)
    assert kseg("recover", directory).status == 0
    for path in (CASES / "0.7.2-flip-payload" / "after" / directory.name).iterdir():
        assert (directory / path.name).read_bytes() == path.read_bytes()
    assert kseg("recover", "--mode", "salvage", directory).status == 3


def test_reindex_follows_a_release_and_says_the_interval(kseg: Kseg, tmp_path: Path) -> None:
    """Up to 1.1 an entry has the first offset of its batch, later the last."""
    directory = copy_of("1.1.1-trunc-half-batch", tmp_path)
    assert kseg("recover", "--era", "1.1", directory).status == 0
    index = directory / f"{ERA_STEM}.index"
    first = index.read_bytes()
    assert kseg("reindex", "--check", "--era", "1.1.1", directory).status == 0
    done = kseg("reindex", directory)
    assert (done.status, index.read_bytes() > first) == (0, True)
    assert "index.interval.bytes 1024, as" in done.err


# Indexes that are larger than any broker makes one: told, and not read.

HUGE_STEM = f"{46:020}"


@pytest.mark.parametrize(("suffix", "width"), [(".index", 8), (".timeindex", 12), (".txnindex", 34)])
def test_a_hole_in_the_middle_of_an_index(suffix: str, width: int, tmp_path: Path, kseg: Kseg) -> None:
    partition = Path(shutil.copytree(PLAIN, tmp_path / "dplain-0"))
    path, size = partition / f"{HUGE_STEM}{suffix}", (20 << 30) // width * width
    with open(path, "ab") as file:
        os.truncate(file.fileno(), size - width)
    with open(path, "ab") as file:
        file.write(b"\1" * width)
    found = kseg("verify", "--format", "json", path).objects[:-1]
    code = {".index": "index-corrupt", ".timeindex": "time-index-corrupt", ".txnindex": "transaction-index-damaged"}
    assert found[0]["code"] == code[suffix]
    assert found[0]["repair"][:2] == ["kseg", "reindex"]
    kseg("dump", path).expect(1, f"has {size} bytes, more than any index")
    if suffix != ".txnindex":
        (action,) = [row for row in kseg("reindex", "-n", "--format", "json", partition).objects if "action" in row]
        assert (action["action"], action["file"].rpartition("/")[2]) == ("replace", path.name)


STEM = f"{0:020}"
partition = copying(CLEAN / "txn-5", "txn-5")


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
