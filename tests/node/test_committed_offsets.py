"""The replay of __consumer_offsets: its memory is bounded, and it agrees with a model for arbitrary records."""

import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleaner.building import NewRecord, build_record_batch
from kseg.decoders import keyed
from kseg.node.coordinators import CommittedOffsets
from kseg.segment.items import RecordBatch
from segment.reading import items_at

LOG = (
    Path(__file__).resolve().parent.parent.parent
    / "testdata/kafka-4.3.1/committed/__consumer_offsets-1/00000000000000000000.log"
)
BATCHES = list(items_at(LOG))


def replayed(batches: list) -> CommittedOffsets:
    found = CommittedOffsets()
    for batch in batches:
        found.add(batch)
    return found


def commit(place: bytes, offset: int, version: int = 0) -> tuple[bytes, bytes]:
    return b"\0\1" + place, struct.pack(">hqhq", version, offset, 0, 7)


PLACE = b"\0\1g\0\1t\0\0\0\3"


def batch(*records: tuple[int, bytes | None, bytes | None]) -> RecordBatch:
    """A batch of records with these offsets, keys and values."""
    data = build_record_batch([NewRecord(offset, 0, key, value) for offset, key, value in records])
    return RecordBatch(data, 0, len(data), 2, True)


def test_the_key_versions_mean_the_same() -> None:
    key, value = commit(PLACE, 5)
    found = replayed([batch((0, b"\0\0" + PLACE, value), (1, key, commit(PLACE, 6)[1] + b"behind"))])
    known = {"group": "g", "topic": "t", "partition": 3, "recordOffset": 1, "offset": 6, "commitTimestamp": 7}
    (each,) = found.found()
    assert known.items() <= each.items()
    assert not each["metadata"]
    found.add(batch((2, b"\0\0" + PLACE + b"more", None)))
    assert list(found.found()) == []


def test_no_text_is_made_of_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed, "json_text", lambda _: pytest.fail("nobody reads it"))
    found = replayed([*BATCHES, batch((0, *commit(PLACE, 5)), (1, b"\0\1" + PLACE[:-1] + b"\4", b"\0\x63"))])
    assert {each["error"] is None for each in found.found()} == {True, False}


def test_positions_are_those_of_the_decoded_commits() -> None:
    found = replayed([*BATCHES, batch((0, *commit(PLACE, 5)), (1, *commit(PLACE[:-1] + b"\4", -1, 4)))])
    expected = [
        (c["topic"].encode(), c["partition"], c["offset"], c["leaderEpoch"])
        for c in found.found()
        if c["error"] is None
    ]
    assert set(expected) <= set(found.positions())
    assert len(expected) > 1
    assert list(replayed([batch((0, b"\0\1" + PLACE, b"\0\3"))]).positions()) == []


@pytest.mark.parametrize(
    "key",
    [b"\0\1", b"\0\1\0", b"\0\1\xff\xff", b"\0\1\0\1g\xff\xfe\0\0\0\3", b"\0\0\0\1g\0\2t\0\0\0", b"\0\1\x7f\xffg"],
)
def test_a_key_that_is_cut_is_counted(key: bytes) -> None:
    found = replayed([batch((0, key, commit(PLACE, 1)[1]))])
    assert (found.undecodable, list(found.found())) == (1, [])


def test_the_newest_commit_counts_even_where_it_cannot_be_read() -> None:
    good = commit(PLACE, 5)
    (found,) = replayed([batch((0, *good), (1, *commit(PLACE, 6, version=99)))]).found()
    assert (found["offset"], found["recordOffset"]) == (None, 1)
    assert "unknown record version 99" in found["error"]
    (found,) = replayed([batch((0, *good), (1, b"\0\0" + PLACE, b"\0\1"))]).found()
    assert found["error"] is not None


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"\0\0", b"\0\1", b"\0\2", b"\0", b"\0\x63", b""]),
            st.sampled_from([PLACE, PLACE[:-1], PLACE + b"x", b"\0\2\xff\xc0\0\0\0\0\0\0"]) | st.binary(max_size=12),
            st.none() | st.binary(max_size=30) | st.integers(0, 5).map(lambda version: commit(PLACE, 1, version)[1]),
        ),
        min_size=1,
    )
)
def test_any_records_give_offsets_or_errors(parts: list[tuple[bytes, bytes, bytes | None]]) -> None:
    found = replayed([batch(*((i, prefix + key, value) for i, (prefix, key, value) in enumerate(parts)))])
    for offset in found.found():
        assert (offset["offset"] is None) == (offset["error"] is not None)
        assert 0 <= offset["recordOffset"] < len(parts)


def test_what_is_held_does_not_grow_with_the_log() -> None:
    whole = replayed(BATCHES)
    held = sorted(whole.found(), key=str)
    tracemalloc.start()
    for _ in range(50):
        for batch in BATCHES:
            whole.add(batch)
    now, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sorted(whole.found(), key=str) == held
    assert now < 1 << 16


def test_nothing_is_left_of_transactions_that_have_ended() -> None:
    found = replayed(BATCHES)
    assert found.pending == 0
    assert not found._pending
    assert not found._pending_in


def test_a_producer_is_pending_until_its_marker() -> None:
    markers = [i for i, batch in enumerate(BATCHES) if batch.is_control]
    # The last pending commit had been removed before its marker.
    assert [replayed(BATCHES[:i]).pending for i in markers] == [1, 1, 1, 1, 1, 0]
    assert {replayed(BATCHES[: i + 1]).pending for i in markers} == {0}
