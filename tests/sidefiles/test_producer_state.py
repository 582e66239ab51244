"""The replay of producers, compared with files of real brokers and with a model of ProducerStateManager."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import BATCH_WIDTH
from kseg.kernel.state import producers as kernel
from kseg.kernel.state.producers import replay
from kseg.segment.files import list_segments
from kseg.segment.survey import FULL, BatchRow, HeaderRows, open_survey
from kseg.sidefiles import producer_state
from kseg.sidefiles.hash_order import hash_map_order
from kseg.sidefiles.indexes import build_transaction_index
from kseg.sidefiles.producer_state import (
    MARKER_IGNORED,
    MARKER_SETS_OFFSET,
    MARKER_SETS_TIMESTAMP,
    Abort,
    ProducerSnapshot,
    ProducerStateEntry,
    ProducerStates,
    build_producer_snapshot,
)
from segment.header_rows import header_row
from sidefiles.real_files import TESTDATA

NEW = TESTDATA / "verify" / "4.3.1-transactions" / "dtxn-0"
CLIENT = TESTDATA / "kafka-4.3.1" / "clients" / "librdkafka-txn-0"
OFFSETS = TESTDATA / "kafka-4.3.1" / "internal" / "__consumer_offsets-1"


def headers_of(partition: Path) -> list[tuple[int, list[HeaderRows]]]:
    """Returns (base offset, headers) of each segment."""
    found = []
    for file in list_segments(str(partition)):
        with open_survey(file, FULL) as survey:
            items = [item for item in survey if isinstance(item, HeaderRows)]
        found.append((file.base_offset or 0, items))
    return found


def replayed(partition: Path, until: int | None = None) -> tuple[ProducerStates, dict[int, list[Abort]]]:
    """Returns the state below an offset, and the aborted transactions by segment."""
    states = ProducerStates()
    aborts: dict[int, list[Abort]] = {}
    for base, items in headers_of(partition):
        for item in items:
            stopped, events, found = states.replay(item.rows, item.count, until=until)
            assert events == []
            aborts.setdefault(base, []).extend(found)
            if stopped < item.count:
                return states, aborts
    return states, aborts


SNAPSHOTS = [
    *((path, MARKER_SETS_TIMESTAMP) for path in [*NEW.glob("*.snapshot"), *CLIENT.glob("*.snapshot")]),
    *((path, MARKER_IGNORED) for path in (TESTDATA / "kafka-1.1.1" / "txn").glob("*/*.snapshot")),
    *(
        (path, MARKER_SETS_OFFSET)
        for path in (TESTDATA / "kafka-0.11.0.3" / "txn" / "txn-timeout-0").glob("*.snapshot")
    ),
]


@pytest.mark.parametrize(("path", "marker_effect"), SNAPSHOTS, ids=lambda value: getattr(value, "name", ""))
def test_a_snapshot_is_written_as_its_broker_wrote_it(path: Path, marker_effect: int) -> None:
    """Byte for byte; producers that the broker had already expired may be missing in its file."""
    written = path.read_bytes()
    kept = {entry.producer_id for entry in ProducerSnapshot(written)}
    states, _ = replayed(path.parent, int(path.stem))
    entries = [entry for entry in states.entries(marker_effect) if entry.producer_id in kept]
    assert kept
    assert sorted(entries) == sorted(ProducerSnapshot(written))
    if marker_effect == MARKER_SETS_TIMESTAMP:
        assert build_producer_snapshot(entries, hash_map_order) == written


@pytest.mark.parametrize("partition", [NEW, CLIENT, OFFSETS], ids=lambda path: path.name)
def test_a_transaction_index_is_written_as_its_broker_wrote_it(partition: Path) -> None:
    _, aborts = replayed(partition)
    files = {base: partition / f"{base:020}.txnindex" for base in aborts}
    assert any(path.exists() for path in files.values())
    for base, path in files.items():
        built = build_transaction_index(abort.entry for abort in aborts[base] if abort.entry)
        assert built == (path.read_bytes() if path.exists() else b"")


@pytest.mark.parametrize("offset", [55, 58, 106, 154])
def test_a_replay_continues_from_a_snapshot(offset: int) -> None:
    """As a broker continues from a snapshot: the result equals a replay from the beginning."""
    states = ProducerStates(ProducerSnapshot((NEW / f"{offset:020}.snapshot").read_bytes()))
    aborts = []
    for base, items in headers_of(NEW):
        for item in items if base >= offset else []:
            aborts += states.replay(item.rows, item.count)[2]
    whole, expected = replayed(NEW)
    later = [abort for base, found in expected.items() if base >= offset for abort in found]
    assert sorted(states.entries()) == sorted(whole.entries())
    assert [abort.entry for abort in aborts] == [abort.entry for abort in later]


def test_a_transaction_of_a_snapshot_may_begin_at_offset_0() -> None:
    entries = [ProducerStateEntry(k, 0, 0, 0, 0, 0, 0, first) for k, first in enumerate((-1, 0, 5))]
    states = ProducerStates(entries)
    assert [found.first_offset for found in states.ongoing()] == [0, 5]


def test_without_producers_there_is_no_table() -> None:
    without = [data(offset, -1, -1, -1, 1, False, 5) for offset in range(3)]
    states = ProducerStates()
    assert states.replay(rows_of(without), 3) == (3, [], [])
    assert (len(states), len(states._entries), states.next_offset, states.is_complete) == (0, 0, 3, True)
    assert (list(states.entries()), list(states.ongoing())) == ([], [])
    assert states.replay(rows_of([*without, data(3, 7, 0, 0, 1, False, 5)]), 4, 3) == (4, [], [])
    assert [entry.producer_id for entry in states.entries()] == [7]


def test_a_table_that_grows_forgets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of([data(offset, offset % 300, 0, offset // 300, 1, False, 5) for offset in range(900)])
    states = ProducerStates()
    assert states.replay(rows, 900) == (900, [], [])
    assert [entry.producer_id for entry in states.entries()] == list(range(300))
    assert {entry.last_sequence for entry in states.entries()} == {2}
    monkeypatch.setattr(producer_state, "MAX_PRODUCERS", 64)
    states = ProducerStates()
    assert states.replay(rows, 900)[0] == 900
    assert (len(states), states.is_full, states.is_complete) == (64, True, False)
    assert len(ProducerStates(ProducerStateEntry(i, 0, 0, 0, 0, 0, 0, -1) for i in range(100))) == 64


def test_ids_that_collide_elsewhere_are_found_soon() -> None:
    """Ids that agree in their lower or upper bits; lookups must not degrade to a search of all ids."""
    count = 20_000
    rows = rows_of([data(i, i << 40, 0, 0, 1, False, 5) for i in range(count)])
    states = ProducerStates()
    states.replay(rows, count)
    slots = states._slots.tolist()
    runs = "".join("x" if slot else " " for slot in slots).split()
    assert len(states) == count
    assert max(map(len, runs)) < 1000


def test_more_aborts_and_events_than_fit_one_call() -> None:
    batches = []
    for i in range(2000):
        batches += [data(2 * i, 1, 0, i + 5 * (i % 2), 1, True, 5), end(2 * i + 1, 1, 0, 0, False, 5)]
    states = ProducerStates(limit=10)
    stopped, events, aborts = states.replay(rows_of(batches), 4000)
    assert (stopped, len(events), len(aborts)) == (4000, 10, 2000)
    assert states.state.totals[kernel.SEQUENCE] == 1999
    states.state.clear()
    assert states.state.totals[kernel.SEQUENCE] == 0


def test_it_stops_before_an_offset() -> None:
    rows = rows_of([data(0, 1, 0, 0, 5, False, 5), data(5, 1, 0, 5, 5, False, 5), data(10, 1, 0, 10, 1, False, 5)])
    for until, row in ((0, 0), (3, 0), (5, 1), (7, 1), (10, 2), (11, 3), (None, 3)):
        assert ProducerStates().replay(rows, 3, until=until)[0] == row
    states = ProducerStates()
    states.replay(rows, 3, until=5)
    assert states.next_offset == 5
    assert states.replay(rows, 3, 1) == (3, [], [])


# A model: ProducerStateManager's state, in dictionaries.


def data(
    first: int, producer_id: int, epoch: int, sequence: int, count: int, transactional: bool, timestamp: int
) -> BatchRow:
    return header_row(
        first_offset=first, last_offset=first + count - 1, attributes=16 * transactional, producer_id=producer_id,
        producer_epoch=epoch, base_sequence=sequence, records=count, base_timestamp=timestamp, max_timestamp=timestamp,
        marker=-1, coordinator_epoch=-1,
    )  # fmt: skip


def end(first: int, producer_id: int, epoch: int, coordinator: int, commits: bool, timestamp: int) -> BatchRow:
    row = data(first, producer_id, epoch, -1, 1, True, timestamp)
    return row._replace(attributes=48, marker=int(commits), coordinator_epoch=coordinator)


def rows_of(batches: list[BatchRow]) -> memoryview:
    return HeaderRows.of(batches).rows


class Model:
    def __init__(self) -> None:
        self.entries: dict[int, list[int]] = {}
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int, int]] = []

    def take(self, batch: BatchRow) -> None:
        producer_id, first = batch.producer_id, batch.first_offset
        entry = self.entries.setdefault(producer_id, [-1, -1, -1, 0, -1, -1, -1])
        if batch.marker < 0:
            sequence, delta = batch.base_sequence, batch.last_offset - first
            entry[:5] = [
                batch.producer_epoch, -1 if sequence < 0 else (sequence + delta) % (1 << 31),
                batch.last_offset, delta, batch.max_timestamp,
            ]  # fmt: skip
            if batch.attributes & 16:
                self.open.setdefault(producer_id, first)
        else:
            if batch.marker == 0:
                others = [offset for other, offset in self.open.items() if other != producer_id]
                stable = min(others, default=first + 1)
                self.aborted.append((producer_id, self.open.get(producer_id, -1), first, stable))
            self.open.pop(producer_id, None)
            if entry[0] != batch.producer_epoch:
                entry[:4] = [batch.producer_epoch, -1, -1, 0]
            entry[4:6] = [batch.max_timestamp, batch.coordinator_epoch]

    def states(self) -> list[tuple[int, ...]]:
        return [(who, *entry[:6], self.open.get(who, -1)) for who, entry in self.entries.items()]


@st.composite
def logs(draw: st.DrawFn) -> list[BatchRow]:
    """Batches of a few producers at rising offsets, in any order."""
    found, offset = [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(0, 60))):
        who, epoch, stamp = draw(st.integers(0, 5)), draw(st.integers(0, 2)), draw(st.integers(-1, 1 << 40))
        if draw(st.booleans()):
            count = draw(st.integers(1, 4))
            sequence = draw(st.sampled_from([-1, 0, 1, 7, (1 << 31) - 2]))
            found.append(data(offset, who, epoch, sequence, count, draw(st.booleans()), stamp))
            offset += count
        else:
            found.append(end(offset, who, epoch, draw(st.integers(0, 2)), draw(st.booleans()), stamp))
            offset += 1
        offset += draw(st.sampled_from([0, 0, 0, 3]))
    return found


@given(batches=logs(), step=st.integers(1, 20))
def test_the_replay_agrees_with_the_model(batches: list[BatchRow], step: int) -> None:
    """However the rows are divided among calls."""
    model, states, aborts = Model(), ProducerStates(), []
    for at in range(0, len(batches), step):
        part = batches[at : at + step]
        aborts += states.replay(rows_of(part), len(part))[2]
        for batch in part:
            model.take(batch)
    assert list(map(tuple, states.entries())) == model.states()
    assert [abort[:4] for abort in aborts] == model.aborted
    assert [(found.first_offset, found.producer_id) for found in states.ongoing()] == sorted(
        (offset, who) for who, offset in model.open.items()
    )
    assert states.state.open == len(model.open)
    snapshot = build_producer_snapshot(states.entries())
    assert list(states.differing(ProducerSnapshot(snapshot), snapshot)) == []
    assert states.open_in_snapshot == len(model.open)


@given(data=st.data())
def test_no_rows_raise(data: st.DataObject) -> None:
    """Rows of arbitrary numbers."""
    count = data.draw(st.integers(0, 30))
    numbers = st.sampled_from([0, 1, 2, -1, 7, 16, 48, 1 << 31, (1 << 63) - 1, -(1 << 63)]) | st.integers(0, 40)
    values = data.draw(st.lists(numbers, min_size=count * BATCH_WIDTH, max_size=count * BATCH_WIDTH))
    rows = memoryview(bytearray(struct.pack(f"{len(values)}q", *values))).cast("q")
    states = ProducerStates()
    assert states.replay(rows, count)[0] == count
    assert len(list(states.entries())) == len(states)
    assert len(list(states.ongoing())) == states.state.open


def test_damage_makes_open_transactions_uncertain() -> None:
    states = ProducerStates()
    states.replay(rows_of([data(0, 1, 0, 0, 1, True, 5)]), 1)
    assert [found.is_certain for found in states.ongoing()] == [True]
    states.state.is_after_damage = True
    assert [found.is_certain for found in states.ongoing()] == [False]
    states.replay(rows_of([data(3, 2, 0, 0, 1, True, 5)]), 1)
    assert [found.is_certain for found in states.ongoing()] == [False, True]
    assert not states.is_complete


@pytest.mark.parametrize(
    "call",
    [
        lambda table: replay(table, int64s(16), -1, 1),
        lambda table: table.use(int64s(16 * kernel.ENTRY_WIDTH), int64s(33)),
    ],
    ids=["a row before the first", "slots that are no power of two"],
)
def test_what_is_no_table_is_refused(call: Any) -> None:
    """Buffers that are too short: tests/kernel/test_short_buffers.py."""
    with pytest.raises(ValueError):
        call(ProducerStates().state)


def test_an_entry_that_is_not_there_is_refused() -> None:
    with pytest.raises(IndexError):
        ProducerStates().state.row(0)
    with pytest.raises(IndexError):
        ProducerStates().state.begin_transaction(0)
