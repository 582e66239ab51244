"""Topics with names as long as brokers allow: kseg's own names stay within the limit of file systems."""

import shutil
from pathlib import Path

import pytest

from cli.command import PLAIN, Kseg, files, flip, unchanged
from kseg.segment.files import bounded

LENGTHS = (205, 243, 249)


@pytest.fixture(params=LENGTHS)
def partition(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    found = Path(shutil.copytree(PLAIN, tmp_path / "logs" / f"{'t' * request.param}-0"))
    flip(found / f"{116:020}.log")
    return found


def test_bytes_are_kept_elsewhere(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    before = files(partition)
    kseg("recover", "-q", "--mode", "salvage", "--quarantine", tmp_path / "kept", partition).expect(0)
    assert files(partition) != before
    assert [len(path.name) <= 255 for path in (tmp_path / "kept").iterdir()] == [True]
    kseg("undo", "-q", partition).expect(0)
    assert files(partition) == before


@pytest.mark.parametrize("words", [("recover", "--mode", "salvage"), ("compact", "--force-policy", "--drop-null-keys")])
def test_the_result_is_written_elsewhere(kseg: Kseg, partition: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    shutil.copy(PLAIN / f"{116:020}.log", partition)
    kseg(*words, "-q", "--output", tmp_path / "out", partition).expect(0)
    assert (tmp_path / "out" / partition.name).is_dir()
    assert [name for name in files(tmp_path / "out") if name.startswith(".kseg-")] == []


def test_a_quarantine_that_cannot_be_made_leaves_no_trace(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    place = tmp_path / "kept" / ("d" * 300)
    place.parent.mkdir()
    with unchanged(partition):
        kseg("recover", "-q", "--mode", "salvage", "--quarantine", place, partition).expect(3)
    assert not (partition / ".kseg-quarantine").exists()
    kseg("recover", "-q", "--mode", "salvage", partition).expect(0)


def test_names_that_are_cut_stay_apart() -> None:
    first, second = (bounded("t" * 250 + f"-{i}", 240) for i in (0, 1))
    assert (first != second, len(first), bounded("short-0", 240)) == (True, 240, "short-0")
