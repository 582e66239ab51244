"""An undo of changed leader epochs, of bytes that were kept elsewhere, and of several changes."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changes.failing import QUICK
from changes.trees import contents, make, plan_of, quarantine, tree
from kseg.changes.apply import Keeping, apply
from kseg.changes.disk_space import freeing_steps
from kseg.changes.full_disk import apply_without_record
from kseg.changes.manifest import Change, ChangedSinceError
from kseg.changes.quarantine import changes, freed_by_removing, read_change
from kseg.changes.undo import changes_of, last_change, plan_all, plan_undo, purge, restore_start, revert_entries, undo
from kseg.errors import KsegError
from kseg.sidefiles.checkpoints import (
    EpochEntry,
    OffsetCheckpoint,
    build_leader_epochs,
    build_offset_checkpoint,
    read_offset_checkpoint,
    starting_at,
)

EPOCHS = "leader-epoch-checkpoint"
LOG = bytes(range(256)) * 10


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    make(directory, {"a.log": LOG, "b.log": b"second", EPOCHS: b"0\n2\n0 0\n3 40\n"})
    return directory


def cut(
    partition: Path, name: str = "a.log", size: int = 100, keeping: Keeping | None = None, group: str = ""
) -> Change:
    change = apply(plan_of(partition, ("truncate", name, size, "is cut")), "test", keeping, group=group)
    assert change is not None
    return change


def test_another_file_with_the_content_of_leader_epochs(partition: Path) -> None:
    apply(plan_of(partition, ("write", "b.log", [b"0\n1\n3 50\n"], "test")), "test")
    (partition / "b.log").write_bytes(b"0\n2\n3 50\n4 90\n")
    with pytest.raises(ChangedSinceError):
        undo(last_change(str(partition)))


@pytest.mark.parametrize("is_moved", [False, True])
def test_purging_bytes_kept_elsewhere(is_moved: bool, partition: Path, tmp_path: Path) -> None:
    place = tmp_path / "kept"
    cut(partition, keeping=Keeping(elsewhere=str(place)))
    if is_moved:
        partition = partition.rename(tmp_path / "moved-0")
        place = place.rename(tmp_path / "other")
    change = last_change(str(partition), str(place) if is_moved else "")
    assert freed_by_removing([change]) == (len(LOG) - 100, 0)
    purge(change)
    assert list(place.iterdir()) == []
    assert contents(partition)["a.log"] == LOG[:100]
    assert not quarantine(partition).exists()


@pytest.mark.parametrize("steps", [[], [("delete", "b.log", "holds records to erase")]], ids=["purge", "delete"])
def test_changes_are_purged_without_room_for_a_record(steps: list[tuple[str, str, str]], partition: Path) -> None:
    cut(partition)
    plan = plan_of(partition, *steps, purges=[1])
    freeing = freeing_steps(plan)
    assert freeing is not None
    apply_without_record(plan, freeing, QUICK)
    assert not quarantine(partition).exists()
    assert (partition / "b.log").exists() is not bool(steps)


def test_several_changes_are_planned_newest_first(partition: Path) -> None:
    before = tree(partition)
    for name, size, group in (("a.log", 900, "7"), ("b.log", 3, "7"), ("a.log", 100, "8"), ("a.log", 50, "7")):
        cut(partition, name, size, group=group)
    assert [change.number for change in changes(str(partition))] == [1, 2, 3, 4]
    assert last_change(str(partition)).number == 4
    assert [change.number for change in changes_of(str(partition), "7")] == [4, 2, 1]
    assert changes_of(str(partition), "9") == []
    plans = plan_all([read_change(str(partition), number) for number in (4, 3, 2, 1)])
    assert [(step.action, step.file, step.size) for plan in plans for step in plan.steps] == [
        ("extend", "a.log", 100), ("extend", "a.log", 900), ("extend", "b.log", 6), ("extend", "a.log", len(LOG)),
    ]  # fmt: skip
    with pytest.raises(ChangedSinceError, match="has changed since"):
        plan_undo(read_change(str(partition), 3))
    for _ in range(4):
        undo(last_change(str(partition)))
    assert tree(partition) == before
    with pytest.raises(KsegError, match="there is no change to undo"):
        last_change(str(partition))


@pytest.mark.parametrize("damage", ["longer", "shorter", "other", "missing"])
def test_kept_bytes_that_have_changed(damage: str, partition: Path) -> None:
    cut(partition)
    (kept,) = (quarantine(partition) / "1" / "old").iterdir()
    data = kept.read_bytes()
    if damage == "missing":
        kept.unlink()
    else:
        kept.write_bytes({"longer": data + b"x", "shorter": data[:-1], "other": b"x" + data[1:]}[damage])
    with pytest.raises(KsegError, match="is missing or has changed since; nothing was undone"):
        undo(last_change(str(partition)))
    assert contents(partition)["a.log"] == LOG[:100]
    if damage == "other":
        undo(last_change(str(partition)), is_checked=True)
        assert contents(partition)["a.log"] == LOG[:100] + b"x" + data[1:]


def test_a_change_that_kept_nothing(partition: Path) -> None:
    cut(partition, keeping=Keeping(keeps=False), group="7")
    with pytest.raises(KsegError, match="'test' kept nothing; it cannot be undone"):
        undo(last_change(str(partition)))


def test_a_renamed_file_that_is_gone(partition: Path) -> None:
    apply(plan_of(partition, ("rename", "a.log", "c.log", "has another name")), "test")
    os.unlink(partition / "c.log")
    with pytest.raises(ChangedSinceError):
        undo(last_change(str(partition)))


Offsets = dict[str, int]
offsets = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), max_size=6)


def content(found: Offsets) -> bytes:
    return build_offset_checkpoint({(topic, 0): offset for topic, offset in found.items()})


def parsed(data: bytes) -> Offsets:
    return {entry.topic: entry.offset for entry in read_offset_checkpoint(data) if isinstance(entry, OffsetCheckpoint)}


@given(offsets, offsets, offsets)
def test_only_entries_of_the_change_are_reverted(known: Offsets, left: Offsets, others: Offsets) -> None:
    touched = {topic for topic in known.keys() | left.keys() if known.get(topic) != left.get(topic)}
    since = {topic: left[topic] for topic in left if topic in touched}
    since |= {topic: offset for topic, offset in others.items() if topic not in touched}
    found = revert_entries(content(since), content(known), content(left))
    assert found is not None
    back = parsed(found)
    if since == left and content(since) == content(left):
        assert back == known
        return
    assert {topic: back.get(topic) for topic in touched} == {topic: known.get(topic) for topic in touched}
    assert {topic: back[topic] for topic in back if topic not in touched} == {
        topic: since[topic] for topic in since if topic not in touched
    }
    assert revert_entries(found, content(known), content(left)) is not None


def test_an_entry_changed_again_is_not_reverted() -> None:
    assert revert_entries(content({"a": 3}), content({"a": 1}), content({"a": 2})) is None
    assert revert_entries(b"nonsense", content({"a": 1}), content({"a": 2})) is None


@st.composite
def epochs(draw: st.DrawFn) -> list[EpochEntry]:
    steps = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=6))
    epoch, offset, found = 0, draw(st.integers(0, 5)), []
    for more, further in steps:
        found.append(EpochEntry(epoch, offset))
        epoch, offset = epoch + more, offset + further
    return found


@given(epochs(), st.integers(0, 60), st.integers(0, 9))
def test_the_start_is_restored_and_later_epochs_are_kept(known: list[EpochEntry], start: int, more: int) -> None:
    left = starting_at(known, start)
    added = [EpochEntry(left[-1].epoch + 1, left[-1].start_offset + more + 1)]
    found = restore_start(build_leader_epochs(known), build_leader_epochs(left + added))
    assert found == (None if left == known else build_leader_epochs(known + added))


def test_a_different_start_is_not_restored() -> None:
    known = build_leader_epochs([EpochEntry(0, 0), EpochEntry(2, 500)])
    for now in ([EpochEntry(1, 100)], [EpochEntry(2, 400)], [EpochEntry(7, 600)], []):
        assert restore_start(known, build_leader_epochs(now)) is None
    assert restore_start(known, b"nonsense") is None
