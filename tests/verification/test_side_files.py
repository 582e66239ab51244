"""Side files that are named by themselves: `kseg verify x.index` and so on."""

import shutil
from pathlib import Path

import pytest

from cli.command import flip
from kseg.segment.survey import DEEP, FULL, QUICK
from kseg.sidefiles.kinds import list_side_files
from verification.log_directories import REAL, TESTDATA, check, checkpoint, copied
from verification.partitions import STEM, message, set_entry

# What a broker's start does with files that no log consists of, and what names do to the broker.

SUFFIXES = (".log", ".index", ".timeindex")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
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


def test_the_copy_of_a_segment_beyond_the_end_is_no_loss(folder: Path) -> None:
    shutil.copy(file(folder, 0), file(folder, 9999, ".log.deleted"))
    assert check(folder).codes == ["leftover-deleted"]


@pytest.mark.parametrize(("leftover", "severity"), [(".deleted", "warning"), (".cleaned", "error")])
def test_a_segment_that_recovery_has_cut_off(folder: Path, leftover: str, severity: str) -> None:
    """A recovery that meets damage marks all later segments as deleted: for a minute they are still there."""
    mark(folder, 116, leftover)
    found = check(folder)
    lost = found.one("leftover-holds-data")
    assert (lost.severity, lost.offset, lost.file) == (severity, 116, str(file(folder, 116, ".log" + leftover)))
    assert "offsets 116 to 149" in lost.message
    assert found.one(f"leftover-{leftover[1:]}").severity == "info"


@pytest.mark.parametrize(
    ("severity", "ranges"),
    [("error", {46: 75}), ("warning", {116: 149}), ("warning", {76: 115, 116: 149}), (None, {0: 45})],
)
def test_segments_under_names_that_no_broker_uses(folder: Path, severity: str | None, ranges: dict[int, int]) -> None:
    """No gap tells of them, as a salvage takes them back. Retention may have deleted what lies before the log."""
    for base in ranges:
        file(folder, base).rename(folder / f"{base}.bak")
    found = [each for each in check(folder).findings if each.code == "leftover-holds-data"]
    assert [(each.file, each.severity, each.message) for each in found] == [
        (str(folder), severity, f"offsets {base} to {last} are in {base}.bak, and in no segment")
        for base, last in ranges.items() if severity
    ]  # fmt: skip


def test_a_segment_that_is_missing_between_others(folder: Path, tmp_path: Path) -> None:
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


def test_a_partition_that_is_being_deleted_may_lose_its_data(folder: Path) -> None:
    mark(folder, 116, ".deleted")
    moved = folder.with_name("dplain-0.0123456789abcdef0123456789abcdef-delete")
    folder.rename(moved)
    assert "leftover-holds-data" not in check(moved).codes


def test_a_swap_whose_segments_are_marked_already(folder: Path) -> None:
    swap(folder, 0, 46, index=True)
    for base in (0, 46):
        mark(folder, base, ".deleted")
    assert check(folder).serious == ["unfinished-swap"]


def test_a_swap_that_takes_in_a_segment_it_does_not_hold(folder: Path) -> None:
    """Two copies with a segment between them: the start goes by the lowest and the highest offset of all of them."""
    swap(folder, 0, index=True)
    swap(folder, 76, index=True)
    lost = check(folder).one("leftover-holds-data")
    assert (lost.file, lost.offset) == (str(file(folder, 46)), 46)


def test_a_split_that_was_not_finished(folder: Path) -> None:
    """A .cleaned file undoes every .swap from its own base offset on."""
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
def test_a_name_that_keeps_a_broker_from_starting(folder: Path, name: str) -> None:
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
def test_names_that_some_release_leaves(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"")
    assert set(check(folder).codes) <= {"leftover-deleted"}


def test_nothing_is_said_of_a_directory_that_is_no_partition(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    shutil.copytree(REAL / "dplain-0", folder)
    (folder / "abc.log").write_text("x")
    (folder / "notes.txt").write_text("x")
    assert check(folder).codes == []


TEXT = TESTDATA / "side-files" / "text"
MIX = TESTDATA / "kafka-4.3.1" / "codecs" / "codec-mix-0"


def real_side_files() -> list[Path]:
    folders = {path.parent for path in TESTDATA.glob("kafka-*/**/*") if path.is_file() and path.parent.name != "truth"}
    folders |= {path.parent for path in TEXT.glob("**/*") if path.is_file()}
    return sorted({Path(file.path) for folder in folders for file in list_side_files(str(folder))})


def test_real_files_are_right() -> None:
    files = real_side_files()
    assert {path.name[20:] if path.name[:20].isdigit() else path.name for path in files} >= {
        ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint", "meta.properties",
    }  # fmt: skip
    for path in files:
        for level in (QUICK, FULL):
            found = check(path, level)
            assert (found.findings, found.report.totals.files) == ([], 1), path


def test_real_snapshots_are_right() -> None:
    files = sorted(TESTDATA.glob("kafka-*/**/*.checkpoint")) + sorted(TESTDATA.glob("log-directories/**/*.checkpoint"))
    assert any(path.name == "bootstrap.checkpoint" for path in files)
    assert any(path.name[:20].isdigit() for path in files)
    for path in files:
        found = check(path, DEEP)
        assert (found.findings, found.report.totals.files) == ([], 1), path
        assert found.report.totals.batches >= 2


def test_a_damaged_snapshot_says_what_it_is(tmp_path: Path) -> None:
    source = next(TESTDATA.glob("kafka-4.3.1/internal/__cluster_metadata-0/*0455*.checkpoint"))
    path = Path(shutil.copy(source, tmp_path))
    flip(path, 1000, 4)
    assert [place[::2] for place in check(path).places()] == [("bad-metadata-snapshot", 166)]


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n", "leader-epochs-damaged"),
        ("leader-epoch-checkpoint", b"0\n2\n3 0\n2 5\n", "leader-epochs-unsorted"),
        ("recovery-point-offset-checkpoint", b"0\n1\nt 0\n", "unreadable-checkpoint"),
        ("cleaner-offset-checkpoint", b"9\n0\n", "unreadable-checkpoint"),
        ("partition.metadata", b"version: 0\ntopic_id: ?", "bad-partition-metadata"),
        ("meta.properties", b"version=1\n", "bad-meta-properties"),
        ("quorum-state", b"[", "bad-quorum-state"),
        (".kafka_cleanshutdown", b"{", "bad-clean-shutdown"),
    ],
)
def test_text_files(name: str, content: bytes, code: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    found = check(path)
    assert {*found.codes} == {code}
    assert (found.report.totals.files, found.report.totals.bytes) == (1, len(content))


def test_an_index_is_compared_with_the_log_beside_it(tmp_path: Path) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copyfile(MIX / f"{STEM}{suffix}", tmp_path / f"{STEM}{suffix}")
    index = tmp_path / f"{STEM}.index"
    set_entry(index, 3, second=1)
    set_entry(tmp_path / f"{STEM}.timeindex", 0, first=7)
    assert [place[::2] for place in check(index).places()] == [("index-unsorted", 24)]
    set_entry(index, 3, second=int.from_bytes(index.read_bytes()[20:24], "big") + 1)
    assert [place[::2] for place in check(index).places()] == [("index-misleads", 24)]
    assert check(index, QUICK).findings == []
    (tmp_path / f"{STEM}.log").unlink()
    assert check(index).findings == []


CACHE = TEXT / "4.3.1" / "remote-log-index-cache"


def test_copies_of_remote_indexes(tmp_path: Path) -> None:
    """They lie in a directory of their own, in a log directory, without any .log."""
    found = check(CACHE)
    assert (found.findings, found.report.totals.files, found.report.failures) == ([], 6, [])
    (tmp_path / "meta.properties").write_bytes((TEXT / "4.3.1" / "meta.properties").read_bytes())
    copied = Path(shutil.copytree(CACHE, tmp_path / CACHE.name))
    index = copied / "220_mNzJ0K1bQXS_kel3S-aw2A.index"
    index.write_bytes(index.read_bytes() + b"???")
    (copied / f"{index.name}.tmp").write_bytes(b"half of an ent")  # one that is being fetched
    for place in (copied, tmp_path):
        found = check(place)
        told = [(f.code, f.file, f.length) for f in found.findings if f.code != "unclean-shutdown"]
        assert (told, found.report.failures) == ([("index-bad-size", str(index), 3)], [])
