"""Events and numbers of the walk from header to header, row by row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import int64s
from kseg.kernel.layout.rows import (
    BATCH_ATTRIBUTES,
    BATCH_BASE_TIMESTAMP,
    BATCH_COUNT,
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_LEADER_EPOCH,
    BATCH_MAGIC,
    BATCH_MAX_TIMESTAMP,
    BATCH_PRODUCER_ID,
    BATCH_STATE,
    BATCH_WIDTH,
)
from kseg.kernel.scan import headers as chain
from kseg.kernel.scan.headers import EVENT_WIDTH

LATEST_MS = 10_000
VALID, INVALID = 1, 0


def row(first, last, **fields):
    """Columns of a valid v2 batch without gaps, unless told otherwise."""
    return {
        BATCH_MAGIC: fields.get("magic", 2),
        BATCH_STATE: fields.get("state", VALID),
        BATCH_FIRST_OFFSET: first,
        BATCH_LAST_OFFSET: last,
        BATCH_ATTRIBUTES: fields.get("attributes", 0),
        BATCH_LEADER_EPOCH: fields.get("epoch", 0),
        BATCH_BASE_TIMESTAMP: fields.get("base_timestamp", 50),
        BATCH_MAX_TIMESTAMP: fields.get("max_timestamp", 100),
        BATCH_PRODUCER_ID: fields.get("producer", -1),
        BATCH_COUNT: fields.get("count", last - first + 1),
    }


def fresh_state(base=-1, limit=100, capacity=50):
    return chain.Chain(base, LATEST_MS, limit, int64s(capacity * EVENT_WIDTH))


def followed(rows, state):
    """The events of a call, as (kind, row, a, b, c)."""
    flat = int64s(BATCH_WIDTH * len(rows))
    for i, columns in enumerate(rows):
        for column, value in columns.items():
            flat[i * BATCH_WIDTH + column] = value
    count = chain.follow(flat, len(rows), state)
    assert len(state.written()) == count
    return state.written()


def events_of(rows, base=0):
    return followed(rows, fresh_state(base))


@pytest.mark.parametrize(
    "rows, base, expected",
    [
        ([row(0, 4), row(7, 9)], 0, (chain.GAP, 1, 5, 7, 0)),
        ([row(3, 4)], 0, (chain.GAP, 0, 0, 3, 0)),
        ([row(0, 4), row(3, 8)], 0, (chain.NOT_RISING, 1, 4, 3, 0)),
        ([row(0, 4), row(0, 4)], 0, (chain.NOT_RISING, 1, 4, 0, 0)),
        ([row(0, 4), row(99, 103), row(10, 12)], 0, (chain.WRONG_OFFSET, 1, 5, 99, 0)),
        ([row(0, 4), row(1, 5), row(10, 12)], 0, (chain.WRONG_OFFSET, 1, 5, 1, 0)),
        ([row(5, 6)], 10, (chain.OUTSIDE, 0, 5, 0, 0)),
        ([row(0, 4), row(5, 1 << 32)], 0, (chain.OUTSIDE, 1, 1 << 32, 0, 0)),
        ([row(0, 0, attributes=0x80)], 0, (chain.ATTRIBUTES, 0, 0x80, 0, 0)),
        ([row(0, 0, attributes=0x10, magic=1)], 0, (chain.ATTRIBUTES, 0, 0x10, 0, 0)),
        ([row(0, 1, count=3)], 0, (chain.COUNT, 0, 3, 2, 0)),
        ([row(0, 1, count=-1)], 0, (chain.COUNT, 0, -1, 2, 0)),
        ([row(0, 0, epoch=5), row(1, 1, epoch=4)], 0, (chain.EPOCH_FALLS, 1, 5, 4, 0)),
        ([row(0, 0, epoch=5), row(1, 1, epoch=-1), row(2, 2, epoch=5)], 0, (chain.EPOCH_FALLS, 1, 5, -1, 0)),
        ([row(0, 0, max_timestamp=LATEST_MS + 1)], 0, (chain.LATE, 0, LATEST_MS + 1, 0, 0)),
        ([row(0, 4), row(5, 6, state=INVALID), row(7, 9)], 0, (chain.INVALID, 1, 4, 0, 0)),
    ],
)
def test_events(rows, base, expected):
    assert events_of(rows, base) == [expected]


@pytest.mark.parametrize(
    "rows",
    [
        [row(0, 0, attributes=0x7F, base_timestamp=5)],
        [row(0, 0, max_timestamp=LATEST_MS)],
        [row(0, 9, count=2), row(10, 10, count=0)],
        [row(0, 0, epoch=3), row(1, 1, epoch=-1, magic=1), row(2, 2, epoch=3)],
        [row(0, (1 << 31) - 1)],
    ],
    ids=["all known attributes", "now", "compacted", "a format without epochs", "as far as an index reaches"],
)
def test_what_is_no_event(rows):
    assert events_of(rows) == []


def test_behind_an_unbelievable_batch_offsets_may_jump_and_it_is_told():
    wrong = row(77, 80, state=INVALID)
    assert events_of([row(0, 4), wrong, row(9, 10), row(12, 12)]) == [
        (chain.INVALID, 1, 4, 0, 0), (chain.GAP, 2, 5, 9, 1), (chain.GAP, 3, 11, 12, 0),
    ]  # fmt: skip


def test_what_a_broken_batch_says_is_believed_where_its_neighbours_agree():
    state = fresh_state(0)
    events = followed([row(0, 4), row(5, 8, state=INVALID), row(9, 10)], state)
    assert [kind for kind, *_ in events] == [chain.INVALID]
    assert (state.last_offset, state.is_after_damage) == (10, False)


def test_compressed_messages_tell_only_their_last_offset():
    closed = {"magic": 1, "attributes": 1, "count": -1}
    rows = [row(-1, 4, **closed), row(-1, 9, **closed), row(-1, 9, **closed), row(-1, 20, **closed)]
    assert events_of(rows) == [(chain.NOT_RISING, 2, 9, 9, 0)]


CLOSED = {"magic": 1, "attributes": 1, "count": -1}
"""A compressed set that was not opened, whose first offset is -1."""
OPENED = {"magic": 1, "attributes": 1}


@pytest.mark.parametrize(
    "rows, expected",
    [
        pytest.param(
            [row(0, 4), row(8, 9), row(5, 7), row(10, 12)],
            [(chain.GAP, 1, 5, 8, 0), (chain.NOT_RISING, 2, 9, 5, 0)],
            id="two batches that were swapped",
        ),
        pytest.param([row(0, 4), row(0, 4), row(5, 7)], [(chain.NOT_RISING, 1, 4, 0, 0)], id="one that is twice"),
        pytest.param([row(0, 4), row(2, 3), row(4, 8)], [(chain.NOT_RISING, 1, 4, 2, 0)], id="a step of one offset"),
        pytest.param(
            [row(0, 4), row(2, 4), row(7, 9)], [(chain.NOT_RISING, 1, 4, 2, 0)], id="one that has its place there"
        ),
        pytest.param(
            [row(0, 4), row(50, 59), row(5, 7), row(8, 9), row(10, 10)],
            [(chain.GAP, 1, 5, 50, 0), (chain.NOT_RISING, 2, 59, 5, 0)],
            id="one from far behind",
        ),
        pytest.param([row(0, 4), row(1 << 40, 2 + (1 << 40)), row(8, 9)], [(chain.WRONG_OFFSET, 1, 5, 1 << 40, 0)]),
        pytest.param(
            [row(-1, 4, **CLOSED), row(-1, 1 << 40, **CLOSED), row(-1, 9, **CLOSED), row(10, 12)],
            [(chain.OUTSIDE, 1, 1 << 40, 0, 0)],
            id="a set whose place is unknown",
        ),
        pytest.param(
            [row(0, 4, **OPENED), row(-1, 1 << 40, magic=1, attributes=1, count=3), row(8, 9, **OPENED)],
            [(chain.OUTSIDE, 1, 1 << 40, 0, 0)],
            id="a set of three with a place for it",
        ),
        pytest.param(
            [row(0, 4, **OPENED), row(-1, 1 << 40, magic=1, attributes=1, count=3), row(99, 99, **OPENED)],
            [(chain.OUTSIDE, 1, 1 << 40, 0, 0), (chain.GAP, 2, 5, 99, 0)],
            id="a set of three and more that is missing",
        ),
        pytest.param(
            [row(-1, 4, **CLOSED), row(-1, 500, **CLOSED), row(-1, 9, **CLOSED), row(-1, 12, **CLOSED)],
            [(chain.WRONG_OFFSET, 1, 5, 500, 1)],
            id="a set far ahead of those behind it",
        ),
        pytest.param(
            [row(0, 4), row(-1, 8, state=INVALID, **CLOSED), row(9, 10)], [(chain.INVALID, 1, 4, 0, 0)], id="wrong set"
        ),
        pytest.param([row(0, 3, state=INVALID), row(4, 5)], [(chain.INVALID, 0, -1, 0, 0)], id="the first is wrong"),
    ],
)
def test_one_fault_is_told_once(rows, expected):
    assert events_of(rows) == expected


def test_holes_in_sets_that_were_opened():
    state = fresh_state(0)
    followed([row(0, 9, count=2, state=3, **OPENED), row(10, 19, count=2, **OPENED), row(-1, 29, **CLOSED)], state)
    assert state.sparse == 1, "what is not known to be right tells nothing"


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_counts_as_one_record_until_it_is_opened(magic):
    state = fresh_state(0)
    shut, opened = row(-1, 9, magic=magic, attributes=1, count=-1), row(10, 14, magic=magic, attributes=1, count=5)
    followed([shut, opened, row(15, 15, count=-1)], state)
    assert (state.batches, state.records) == (3, 6)


def test_numbers():
    state = fresh_state(0)
    followed(
        [
            row(0, 0, magic=0, max_timestamp=-1), row(1, 1, magic=1, max_timestamp=30),
            row(2, 5, attributes=0x10, producer=1, max_timestamp=70, base_timestamp=20),
            row(6, 6, attributes=0x30, producer=1), row(7, 9, attributes=0x44, count=1, base_timestamp=1),
            row(10, 12, state=INVALID),
        ],
        state,
    )  # fmt: skip
    numbers = {
        "batches": 6, "records": 7, "v0": 1, "v1": 1, "v2": 3, "transactional": 2, "control": 1, "with_producer": 2,
        "compressed": 1, "largest_timestamp": 100, "largest_timestamp_offset": 6, "first_offset": 0, "sparse": 1,
        "missing": 0, "with_horizon": 1, "least_timestamp": 20, "last_offset": 9,
    }  # fmt: skip
    assert {name: getattr(state, name) for name in numbers} == numbers


def test_events_are_bounded_and_counts_are_exact():
    gaps = [row(10 * i, 10 * i) for i in range(1, 31)]
    state = fresh_state(0, limit=7)
    assert len(followed(gaps, state)) == 7
    assert state.totals[chain.GAP] == 30
    state = fresh_state(0, capacity=3)
    assert len(followed(gaps, state)) == 3
    assert state.totals[chain.GAP] == 30
    assert state.missing == 10 + 29 * 9


def test_a_log_that_is_cleared_has_no_events():
    state = fresh_state(0)
    followed([row(3, 4)], state)
    assert (state.totals[chain.GAP], state.last_about[chain.GAP]) == (1, 0)
    state.clear()
    assert (state.written(), sum(state.totals)) == ([], 0)


offsets = st.integers(-5, 60) | st.sampled_from([1 << 31, (1 << 63) - 1, (1 << 62) + 1, -(1 << 62), -(1 << 63)])
rows_of_any_kind = st.lists(
    st.builds(
        row, offsets, offsets, magic=st.integers(0, 3), state=st.integers(0, 1), epoch=st.integers(-1, 3),
        count=st.integers(-1, 5), attributes=st.integers(0, 300), max_timestamp=st.integers(-1, 2 * LATEST_MS),
    ),
    max_size=12,
)  # fmt: skip


@given(rows_of_any_kind, st.integers(-1, 20), st.integers(0, 12))
def test_two_calls_tell_no_less_than_one(rows, base, cut):
    """Only what looks at the next batch, WRONG_OFFSET and INVALID that is believed, may differ at the border."""
    together, apart = fresh_state(base), fresh_state(base)
    followed(rows, together)
    if rows[:cut]:
        followed(rows[:cut], apart)
    if rows[cut:]:
        followed(rows[cut:], apart)
    for name in ("batches", "records", "v2", "largest_timestamp"):
        assert getattr(together, name) == getattr(apart, name), name
    for kind in (chain.INVALID, chain.ATTRIBUTES, chain.COUNT, chain.EPOCH_FALLS, chain.LATE):
        assert together.totals[kind] == apart.totals[kind]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=20), st.integers(0, 1000))
def test_gaps_are_found_exactly(spans, base):
    """``spans``: (offsets of a batch, offsets missing before it)."""
    rows, expected, at = [], [], base
    for i, (size, missing) in enumerate(spans):
        if missing:
            expected.append((chain.GAP, i, at, at + missing, 0))
        rows.append(row(at + missing, at + missing + size - 1))
        at += missing + size
    assert events_of(rows, base) == expected


sound_batches = st.lists(
    st.fixed_dictionaries(
        {
            "size": st.integers(1, 4), "hole": st.sampled_from([0, 0, 0, 1]),
            "epoch_steps": st.sampled_from([0, 0, 0, 1]),
            "attributes": st.sampled_from([0, 0, 0, 1, 4, 8, 12, 0x10, 0x30, 0x40]), "producer": st.integers(-1, 1),
            "base_timestamp": st.integers(-1, 60), "max_timestamp": st.integers(-1, LATEST_MS),
        }
    ),
    max_size=30,
)  # fmt: skip


@given(sound_batches, st.sampled_from([-1, 0, 7]))
def test_numbers_of_any_sound_chain(batches, base):
    """Each number is what its name says, however few rows differ from those before them."""
    rows, at, epoch = [], max(base, 0), 0
    for batch in batches:
        epoch += batch["epoch_steps"]
        fields = {name: batch[name] for name in ("attributes", "producer", "base_timestamp", "max_timestamp")}
        rows.append(row(at, at + batch["size"], epoch=epoch, count=batch["size"] + 1 - batch["hole"], **fields))
        at += batch["size"] + 1
    state = fresh_state(base)
    assert followed(rows, state) == []

    def having(bits):
        return sum(bool(batch["attributes"] & bits) for batch in batches)

    times = [batch["max_timestamp"] for batch in batches]
    largest = max([*times, -1])
    largest_at = rows[times.index(largest)][BATCH_LAST_OFFSET] if largest >= 0 else -1
    firsts = [
        batch["base_timestamp"] for batch in batches if batch["base_timestamp"] >= 0 and not batch["attributes"] & 0x40
    ]
    assert (state.batches, state.v2) == (len(rows), len(rows))
    assert (state.transactional, state.control, state.with_horizon) == (having(0x10), having(0x20), having(0x40))
    data = [batch for batch in batches if not batch["attributes"] & 0x20]
    assert state.records == sum(batch["size"] + 1 - batch["hole"] for batch in data)
    assert state.sparse == sum(batch["hole"] for batch in batches)
    assert (state.compressed, state.with_producer) == (having(7), sum(b["producer"] >= 0 for b in batches))
    assert (state.largest_timestamp, state.largest_timestamp_offset) == (largest, largest_at)
    assert state.least_timestamp == min(firsts, default=-1)
    assert (state.last_offset, state.last_epoch) == ((at - 1, epoch) if rows else (-1, -1))
