"""Undo of files that a broker, or another change, has written since: checkpoints and leader epochs."""

from hypothesis import given
from hypothesis import strategies as st

from kseg.changes.undo import restore_start, revert_entries
from kseg.sidefiles.checkpoints import OffsetCheckpoint, build_offset_checkpoint, read_offset_checkpoint
from kseg.sidefiles.leader_epochs import EpochEntry, build_leader_epochs, starting_at

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
