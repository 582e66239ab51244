"""What a broker's start does with files that no log consists of, and what names do to the broker."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.findings.table import KINDS
from verification.log_directories import REAL, TESTDATA, check, checkpoint, copied
from verification.made import message

SUFFIXES = (".log", ".index", ".timeindex")
BASES = (0, 46, 76, 116)


def partition(tmp_path: Path) -> Path:
    return copied(tmp_path) / "dplain-0"


def file(folder: Path, base: int, suffix: str = ".log") -> Path:
    return folder / f"{base:020}{suffix}"


def mark(folder: Path, base: int, leftover: str) -> None:
    """Renames a segment as the cleaner, retention or a recovery does."""
    for suffix in SUFFIXES:
        file(folder, base, suffix).rename(file(folder, base, suffix + leftover))


def swap(folder: Path, *bases: int, index: bool = False) -> Path:
    """A .log.swap of the bytes of these segments, as a cleaner leaves it that was killed."""
    made = file(folder, bases[0], ".log.swap")
    made.write_bytes(b"".join(file(folder, base).read_bytes() for base in bases))
    if index:
        shutil.copy(file(folder, bases[0], ".index"), file(folder, bases[0], ".index.swap"))
    return made


def test_segments_that_retention_has_taken(tmp_path: Path) -> None:
    folder = partition(tmp_path)
    mark(folder, 0, ".deleted")
    found = check(folder)
    assert found.codes == ["leftover-deleted"]
    assert found.findings[0].message.startswith("files: 3 (")


def test_the_copy_of_a_segment_beyond_the_end_is_no_loss(tmp_path: Path) -> None:
    folder = partition(tmp_path)
    shutil.copy(file(folder, 0), file(folder, 9999, ".log.deleted"))
    assert check(folder).codes == ["leftover-deleted"]


@pytest.mark.parametrize(("leftover", "severity"), [(".deleted", "warning"), (".cleaned", "error")])
def test_a_segment_that_recovery_has_cut_off(tmp_path: Path, leftover: str, severity: str) -> None:
    """A recovery that meets damage marks all later segments as deleted: for a minute they are still there."""
    folder = partition(tmp_path)
    mark(folder, 116, leftover)
    found = check(folder)
    lost = found.one("leftover-holds-data")
    assert (lost.severity, lost.offset, lost.file) == (severity, 116, str(file(folder, 116, ".log" + leftover)))
    assert "offsets 116 to 149" in lost.message
    assert found.one(f"leftover-{leftover[1:]}").severity == "info"


def test_a_segment_that_is_missing_between_others(tmp_path: Path) -> None:
    folder = partition(tmp_path)
    mark(folder, 46, ".deleted")
    assert check(folder).one("leftover-holds-data").offset == 46
    (tmp_path / "logs" / "cleaner-offset-checkpoint").write_text(checkpoint("dplain 0 76"))
    assert "leftover-holds-data" not in check(folder).codes, "a cleaner leaves such holes"


def test_a_segment_that_a_cleaner_has_replaced(tmp_path: Path) -> None:
    """In a copy without its log directory, whose first segment was emptied: the older form of it is no loss."""
    place = TESTDATA / "kafka-0.10.2.2" / "codecs" / "compact-lz4-0"
    folder = Path(shutil.copytree(place, tmp_path / place.name))
    file(folder, 952, ".log.deleted").write_bytes(b"".join(message(offset, b"old") for offset in range(1165, 1280)))
    assert check(folder).serious == []
    file(folder, 2500, ".log.deleted").write_bytes(message(2500, b"newer than all"))
    assert check(folder).serious == ["leftover-holds-data"]


def test_a_partition_that_is_being_deleted_may_lose_its_data(tmp_path: Path) -> None:
    folder = partition(tmp_path)
    mark(folder, 116, ".deleted")
    moved = folder.with_name("dplain-0.0123456789abcdef0123456789abcdef-delete")
    folder.rename(moved)
    assert "leftover-holds-data" not in check(moved).codes


def test_a_swap_beside_the_segments_it_replaces(tmp_path: Path) -> None:
    folder = partition(tmp_path)
    made = swap(folder, 0, 46)
    found = check(folder)
    assert found.serious == ["unfinished-swap", "swap-without-index"]
    assert found.one("unfinished-swap").file == str(made)
    assert found.one("unfinished-swap").message == "offsets 0 to 75; segments that a start removes for it: 2"


def test_a_swap_whose_segments_are_marked_already(tmp_path: Path) -> None:
    folder = partition(tmp_path)
    swap(folder, 0, 46, index=True)
    for base in (0, 46):
        mark(folder, base, ".deleted")
    assert check(folder).serious == ["unfinished-swap"]


def test_a_swap_that_takes_in_a_segment_it_does_not_hold(tmp_path: Path) -> None:
    """Two copies with a segment between them: the start goes by the lowest and the highest offset of all of them."""
    folder = partition(tmp_path)
    swap(folder, 0, index=True)
    swap(folder, 76, index=True)
    lost = check(folder).one("leftover-holds-data")
    assert (lost.file, lost.offset) == (str(file(folder, 46)), 46)


def test_a_split_that_was_not_finished(tmp_path: Path) -> None:
    """A .cleaned file undoes every .swap from its own base offset on."""
    folder = partition(tmp_path)
    swap(folder, 46, index=True)
    file(folder, 46, ".log.cleaned").write_bytes(b"")
    found = check(folder)
    assert found.codes == ["leftover-cleaned"]
    assert found.findings[0].message.startswith("files: 3 (")


@pytest.mark.parametrize(
    "name",
    [
        "abc.log",
        "abc.index",
        "x.timeindex",
        ".snapshot",
        "x.log.swap",
        "x.cleaned",
        f"{1 << 63}.log",
        "9" * 20 + ".log",
    ],
)
def test_a_name_that_keeps_a_broker_from_starting(tmp_path: Path, name: str) -> None:
    folder = partition(tmp_path)
    (folder / name).write_bytes(b"")
    found = check(folder)
    assert found.one("broker-would-not-start").file == str(folder / name)
    assert set(found.serious) == {"broker-would-not-start"}


@pytest.mark.parametrize(
    "name",
    [
        "leader-epoch-checkpoint.tmp", "partition.metadata.tmp", f"{116:020}.txnindex", f"{0:020}.snapshot.deleted",
        f"{5:020}-{1:010}.checkpoint", f"{5:020}-{1:010}-17.checkpoint.part", f"{5:020}-{1:010}.checkpoint.deleted",
    ],
)  # fmt: skip
def test_names_that_some_release_leaves(tmp_path: Path, name: str) -> None:
    folder = partition(tmp_path)
    (folder / name).write_bytes(b"")
    assert set(check(folder).codes) <= {"leftover-deleted"}


def test_a_name_of_fewer_digits(tmp_path: Path) -> None:
    folder = partition(tmp_path)
    file(folder, 116).rename(folder / "116.log")
    found = check(folder).one("unpadded-name")
    assert found.message.startswith("a broker opens 00000000000000000116.log instead")


def test_files_that_no_broker_knows(tmp_path: Path) -> None:
    folder = partition(tmp_path)
    for name in ("notes.txt", f"{0:020}.log.bak"):
        (folder / name).write_text("x")
    assert check(folder).one("unknown-file").message == (
        "files that no broker knows: 00000000000000000000.log.bak, notes.txt"
    )


def test_nothing_is_said_of_a_directory_that_is_no_partition(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    shutil.copytree(REAL / "dplain-0", folder)
    (folder / "abc.log").write_text("x")
    (folder / "notes.txt").write_text("x")
    assert check(folder).codes == []


def test_segments_of_0_7_have_names_of_their_own() -> None:
    for folder in sorted((TESTDATA / "kafka-0.7.2" / "direct").glob("*-0")):
        assert not set(check(folder).codes) & {"unknown-file", "unpadded-name", "broker-would-not-start"}


STEMS = st.sampled_from(
    [f"{base:020}" for base in (0, 46, 116, 999)] + ["5", "-3", "+7", "x", "", "9" * 30, "\u0663" * 20]
)
ENDINGS = st.sampled_from([*SUFFIXES, ".snapshot", ".txnindex", ".checkpoint", ".kafka", ".tmp", ""])
LEFTOVERS = st.sampled_from(["", ".deleted", ".cleaned", ".swap", ".swap.deleted"])


@given(st.data())
def test_no_name_and_no_bytes_raise(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = partition(tmp_path_factory.mktemp("names"))
    whole = file(folder, 46).read_bytes()
    for _ in range(data.draw(st.integers(1, 5))):
        name = data.draw(STEMS) + data.draw(ENDINGS) + data.draw(LEFTOVERS)
        cut = whole[data.draw(st.integers(0, 300)) :][: data.draw(st.integers(0, len(whole)))]
        if name:
            (folder / name).write_bytes(cut)
    found = check(folder)
    assert set(found.codes) <= set(KINDS)
    assert found.report.is_whole
