"""``--era`` and the interval of indexes on the command line."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg

CASES = TESTDATA / "recovery"
STEM = f"{0:020d}"


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
    assert (directory / f"{STEM}.log").read_bytes() == b""


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
    index = directory / f"{STEM}.index"
    first = index.read_bytes()
    assert kseg("reindex", "--check", "--era", "1.1.1", directory).status == 0
    done = kseg("reindex", directory)
    assert (done.status, index.read_bytes() > first) == (0, True)
    assert "index.interval.bytes 1024, as" in done.err


def test_an_unknown_release_is_wrong_usage(kseg: Kseg, tmp_path: Path) -> None:
    done = kseg("recover", "--era", "7.7", tmp_path)
    assert (done.status, "7.7 is no release that kseg knows" in done.err) == (2, True)
