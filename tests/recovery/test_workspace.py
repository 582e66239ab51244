"""The directory as it would be: what is read from it, and the plan that makes it so."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from failing_disk import PAGE, FailDisk
from kseg.changes.apply import Keeping, apply
from kseg.changes.plan import Range
from kseg.errors import PathError, UnsupportedError
from kseg.recovery import workspace as module
from kseg.recovery.workspace import Workspace
from recovery.partitions import PLAIN, TESTDATA, contents, copy_of, recover, salvage
from recovery.salvage.test_segment_files import log_of
from segment.segments import entries

# Bytes that the disk cannot give: salvage reads around them, and keeps the file they lie in.


@pytest.mark.parametrize("page", [0, 1, 3])
def test_batches_around_unreadable_bytes_are_kept(tmp_path: Path, page: int, fail_disk: FailDisk) -> None:
    """At the begin of a file, within it, and at its end."""
    partition = copy_of(PLAIN, tmp_path)
    whole, path = log_of(partition), min(partition.glob("*.log"))
    data = path.read_bytes()
    assert len(data) > 3 * PAGE
    lost, at = list[bytes](), 0
    for batch in entries(data):
        if at < (page + 1) * PAGE and at + len(batch) > page * PAGE:
            lost.append(batch)
        at += len(batch)
    inode = path.stat().st_ino
    fail_disk(path, page * PAGE, (page + 1) * PAGE)
    found = salvage(partition)
    assert log_of(partition) == [batch for batch in whole if batch not in lost]
    assert [cut.loss.code for cut in found.cuts] == ["unreadable-bytes"]
    kept = [one for one in (partition / ".kseg-quarantine").rglob("*") if one.is_file() and one.stat().st_ino == inode]
    assert len(kept) == 1  # whole: what the disk cannot give now it may give to other means
    shutil.rmtree(partition)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "orders-0"
    path.mkdir()
    (path / "a").write_bytes(b"0123456789")
    (path / "b").write_bytes(b"bbbb")
    return path


def carried_out(workspace: Workspace, directory: Path) -> dict[str, bytes]:
    expected = {name: workspace.read(name) for name in workspace.files}
    apply(workspace.plan(), "test", Keeping(keeps=False))
    assert contents(directory) == expected
    return expected


A, B = b"0123456789", b"bbbb"


@pytest.mark.parametrize(
    ("acts", "expected"),
    [
        pytest.param([("write", "b", [b"bb", b"bb"])], {"a": A, "b": B}, id="nothing changed"),
        pytest.param(
            [("delete", "b"), ("rename", "a", "c"), ("truncate", "c", 4), ("write", "d", [b"new"])],
            {"c": b"0123", "d": b"new"}, id="cut, renamed, deleted and new",
        ),
        pytest.param(
            [("write", "d", [Range("a", 6, 4), b"!"]), ("truncate", "a", 6), ("truncate", "d", 3)],
            {"a": A[:6], "b": B, "d": b"678"}, id="pieces of a file that is cut",
        ),
        pytest.param([("rename", "a", "b")], {"b": A}, id="renamed in the place of another"),
        pytest.param([("rename", "a", "c"), ("write", "a", [A])], {"a": A, "c": A, "b": B}, id="like one renamed away"),
    ],
)  # fmt: skip
def test_a_directory_becomes_what_was_planned(
    directory: Path, acts: list[tuple[Any, ...]], expected: dict[str, bytes]
) -> None:
    workspace = Workspace(str(directory))
    for act, *arguments in acts:
        getattr(workspace, act)(*arguments, "reason")
    assert bool(workspace.plan()) is (expected != {"a": A, "b": B})
    assert carried_out(workspace, directory) == expected


def test_pieces_are_ranges_of_files(directory: Path) -> None:
    workspace = Workspace(str(directory))
    workspace.write("d", [*workspace.slice("a", 6, 4), b"!"], "moved")
    workspace.truncate("d", 3, "cut")
    assert workspace.slice("d", 0, 9) == (Range("a", 6, 3),)


def test_room_at_the_end_of_an_index_is_let_be_only_where_it_may(directory: Path) -> None:
    (directory / "i").write_bytes(b"12345678" + bytes(80))
    workspace = Workspace(str(directory))
    workspace.write_index("i", b"12345678", "rebuilt", lambda: True)
    assert not workspace.plan()
    workspace.write_index("i", b"12345678", "rebuilt", lambda: False)
    assert carried_out(workspace, directory)["i"] == b"12345678"


def test_much_new_content_lies_in_temporary_files(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPILL_BYTES", 1000)
    monkeypatch.setattr(module, "SPILL_PART_BYTES", 500)
    monkeypatch.setattr(Workspace, "made_bytes", 0)
    workspace = Workspace(str(directory))
    for k in range(20):
        workspace.write(f"i{k}", [bytes([k]) * 200, Range("a", 0, 3)], "made")
    held = [piece for file in workspace.files.values() for piece in file.pieces if isinstance(piece, bytes)]
    assert sum(map(len, held)) <= 1000
    names = set(contents(directory))
    assert names == {"a", "b"}
    expected = carried_out(workspace, directory)
    assert expected["i7"] == b"\7" * 200 + b"012"


def test_links_and_missing_directories(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(PathError):
        Workspace(str(tmp_path / "nothing"))
    (directory / "link").symlink_to("a")
    with pytest.raises(PathError, match="symbolic link"):
        Workspace(str(directory))


def test_a_side_file_without_end_is_not_read(directory: Path) -> None:
    with open(directory / "a", "r+b") as file:
        file.truncate(module.MAX_SIDE_FILE_BYTES + 1)
    with pytest.raises(UnsupportedError, match="no file of its kind"):
        Workspace(str(directory)).read("a")


def test_a_file_that_became_shorter_is_told(directory: Path) -> None:
    workspace = Workspace(str(directory))
    (directory / "a").write_bytes(b"0")
    with pytest.raises(module.KsegError, match="shorter"):
        workspace.read("a")


def bytes_read_by(work: "Callable[[], object]") -> int:
    """How many bytes this process has read meanwhile, from files and caches alike."""
    counter = Path("/proc/self/io")

    def read_so_far() -> int:
        return int(counter.read_text().split("rchar:")[1].split()[0])

    before = read_so_far()
    work()
    return read_so_far() - before


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs Linux's /proc/self/io")
@pytest.mark.parametrize("name", ["00000000000000000116.index", "00000000000000000116.timeindex"])
def test_the_hole_of_a_preallocated_index_is_not_read(tmp_path: Path, name: str) -> None:
    directory = copy_of(TESTDATA / "log-directories/4.3.1/logs/dplain-0", tmp_path)
    recover(directory)
    with open(directory / name, "r+b") as stream:
        stream.truncate(1 << 30)
    assert bytes_read_by(lambda: recover(directory)) < 1 << 20
    assert (directory / name).stat().st_size == 1 << 30, "a broker keeps preallocated bytes"


def test_an_index_with_an_entry_behind_its_zeros_is_rebuilt(tmp_path: Path) -> None:
    directory = copy_of(TESTDATA / "log-directories/4.3.1/logs/dplain-0", tmp_path)
    recover(directory)
    index = directory / "00000000000000000116.index"
    rebuilt = index.read_bytes()
    with open(index, "r+b") as stream:
        stream.truncate(1 << 20)
        stream.seek((1 << 20) - 8)
        stream.write(bytes.fromhex("0000000500000400"))
    recover(directory)
    assert index.read_bytes() == rebuilt
