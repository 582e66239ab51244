"""The walk along header rows, against a judgement of each entry by itself, in windows of any size."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import (
    BATCH_COUNT,
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_MAGIC,
    BATCH_MAX_TIMESTAMP,
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_STATE,
    BATCH_WIDTH,
)
from kseg.kernel.scan.chain import EVENT_WIDTH
from kseg.kernel.state import index_entries as kernel
from kseg.sidefiles import indexes
from kseg.verification.indexes import IndexWalk

SIZE = 100
Log = list[tuple[int, int, int]]
"""First offset, last offset and largest timestamp of each batch; all have SIZE bytes."""


def rows_of(log: Log) -> memoryview:
    rows = int64s(max(1, len(log)) * BATCH_WIDTH)
    for i, (first, last, timestamp) in enumerate(log):
        at = i * BATCH_WIDTH
        rows[at + BATCH_POSITION], rows[at + BATCH_SIZE] = i * SIZE, SIZE
        rows[at + BATCH_MAGIC], rows[at + BATCH_STATE], rows[at + BATCH_COUNT] = 2, 1, last - first + 1
        rows[at + BATCH_FIRST_OFFSET], rows[at + BATCH_LAST_OFFSET] = first, last
        rows[at + BATCH_MAX_TIMESTAMP] = timestamp
    return rows


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log, offset = [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 30))):
        last = offset + draw(st.integers(0, 4))
        log.append((offset, last, draw(st.integers(1, 50))))
        offset = last + 1 + draw(st.sampled_from([0, 0, 0, 3]))
    return log


def walk_of(width: int, data: bytes, log: Log, cut: int, window: int, path: Path) -> IndexWalk:
    """Shows the batches in two calls, with windows of so many entries."""
    path.write_bytes(data)
    walk = IndexWalk(width, 1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexes, "FIRST_BYTES", min(16 << 10, window * width))
        patch.setattr(indexes, "READ_BYTES", window * width)
        patch.setattr(indexes, "_ZEROS", bytes(window * width))
        assert walk.open(str(path), 0)
        for part in (log[:cut], log[cut:]):
            rows = rows_of(log)[log.index(part[0]) * BATCH_WIDTH :] if part else rows_of([])
            walk.follow(rows, len(part))
        walk.drain(len(log) * SIZE)
    walk.close()
    return walk


@given(st.data(), logs(), st.integers(0, 30), st.integers(3, 9), st.sampled_from(["last", "first", "append"]))
def test_entries_as_brokers_write_them(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, log: Log, cut: int, window: int, form: str
) -> None:
    indexed = data.draw(
        st.builds(lambda picks: [i for i in range(1, len(log)) if picks >> i & 1], st.integers(0, 1 << 30))
    )
    packed, times = b"", b""
    largest = -1
    for k, i in enumerate(indexed):
        until = indexed[k + 1] - 1 if k + 1 < len(indexed) else len(log) - 1
        offset = {"last": log[i][1], "first": log[i][0], "append": log[until][1]}[form]
        packed += struct.pack(">ii", offset, i * SIZE)
        seen = log[: i + 1]
        if max(stamp for *_, stamp in seen) > largest:
            largest = max(stamp for *_, stamp in seen)
            times += struct.pack(">qi", largest, next(last for _, last, stamp in seen if stamp == largest))
    path = tmp_path_factory.mktemp("walk") / "0.index"
    assert walk_of(kernel.OFFSETS, packed, log, cut, window, path).events == []
    walk = walk_of(kernel.TIMES, times, log, cut, window, path)
    assert walk.events == []
    assert walk.state.largest == max(stamp for *_, stamp in log)


@given(
    logs(), st.integers(0, 30), st.integers(3, 9),
    st.lists(st.tuples(st.integers(0, 150), st.integers(1, 33 * SIZE)), max_size=12, unique=True),
)  # fmt: skip
def test_any_rising_entries(
    tmp_path_factory: pytest.TempPathFactory, log: Log, cut: int, window: int, pairs: list[tuple[int, int]]
) -> None:
    """Offsets and positions that rise, of which some lead astray: exactly those are told."""
    offsets, positions = sorted({a for a, _ in pairs}), sorted({b for _, b in pairs})
    expected = {}
    kept = list(zip(offsets, positions, strict=False))
    for entry, (offset, position) in enumerate(kept):
        if position >= len(log) * SIZE:
            expected[entry] = {kernel.BEYOND}
        elif position % SIZE:
            expected[entry] = {kernel.NO_BATCH}
        else:
            first, last, _ = log[position // SIZE]
            if offset < first:
                expected[entry] = {kernel.TOO_LOW}
            elif offset not in (first, last):
                expected[entry] = {kernel.IMPRECISE, None}
    path = tmp_path_factory.mktemp("walk") / "0.index"
    packed = b"".join(struct.pack(">ii", *pair) for pair in kept)
    walk = walk_of(kernel.OFFSETS, packed, log, cut, window, path)
    found = {event.entry: event.kind for event in walk.events}
    pending = walk.state.pending_entry if walk.state.pending >= 0 else None
    for entry, (offset, _) in enumerate(kept):
        if pending == entry:
            assert offset > log[-1][1]
        else:
            assert found.get(entry) in expected.get(entry, {None}), (entry, kept)
    assert set(found) <= set(expected)


@given(
    logs(), st.integers(0, 30), st.integers(3, 9),
    st.lists(st.tuples(st.integers(-3, 150), st.integers(1, 60)), max_size=12),
)  # fmt: skip
def test_any_time_entries(
    tmp_path_factory: pytest.TempPathFactory, log: Log, cut: int, window: int, pairs: list[tuple[int, int]]
) -> None:
    """In any order: what is told of an entry in line is what the log's timestamps up to its offset say."""
    path = tmp_path_factory.mktemp("walk") / "0.timeindex"
    walk = walk_of(kernel.TIMES, b"".join(struct.pack(">qi", t, o) for o, t in pairs), log, cut, window, path)
    found = {event.entry: event.kind for event in walk.events}
    assert len(found) == len(walk.events)
    for entry, (offset, timestamp) in enumerate(pairs):
        kind = found.get(entry)
        if kind == kernel.UNSORTED:
            continue
        if offset < 0 or offset > log[-1][1]:
            assert kind == (kernel.BELOW_BASE if offset < 0 else kernel.BEYOND)
            continue
        largest = max((stamp for first, _, stamp in log if first <= offset), default=-1)
        told = kernel.TOO_OLD if timestamp < largest else kernel.TOO_NEW if timestamp > largest else None
        # An offset between two batches may stand for the one behind it.
        assert kind == told or not any(first <= offset <= last for first, last, _ in log)


def test_counts_are_exact_where_events_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(b"".join(struct.pack(">ii", i, 7 + i) for i in range(5000)))
    walk = IndexWalk(kernel.OFFSETS, 8)
    assert walk.open(str(path), 0)
    walk.follow(rows_of([(0, 6000, 1)]), 1)
    walk.drain(SIZE)
    walk.close()
    assert [event.entry for event in walk.events] == [*range(8), *range(93, 101)]
    assert (walk.count(kernel.NO_BATCH), walk.count(kernel.BEYOND)) == (93, 4907)
    assert walk.last_entry(kernel.BEYOND) == 4999


def test_offsets_near_the_largest_do_not_overflow(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(struct.pack(">iiii", 5, 100, 0x7FFFFFFF, 200))
    walk = IndexWalk(kernel.OFFSETS, 8)
    assert walk.open(str(path), (1 << 63) - 7)
    walk.drain(-1)
    walk.close()
    assert [(event.kind, event.entry) for event in walk.events] == [(kernel.BELOW_BASE, 1)]


def test_buffers_that_are_too_short_are_refused() -> None:
    walk = kernel.EntryWalk(kernel.TIMES, 8, int64s(EVENT_WIDTH))
    with pytest.raises(ValueError, match="too short"):
        kernel.follow(walk, rows_of([]), 0, 2)
    with pytest.raises(ValueError, match="too short"):
        walk.move(0, 2, bytes(12))
    with pytest.raises(ValueError, match="no such index"):
        kernel.EntryWalk(10, 8, int64s(EVENT_WIDTH))
