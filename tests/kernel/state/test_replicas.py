"""The comparison of two replicas' records in the kernel, against one made of Python dicts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import int64s, laid_out
from kseg.kernel.layout.rows import DONE
from kseg.kernel.state import replicas


def compared(a, b, epochs_differ=False, capacity=50):
    """(events as (kind, first, last, records, what), state) when all is done that both have rows for."""
    state, found = replicas.RecordComparison(int64s(capacity * replicas.EVENT_WIDTH)), []
    state.begin(epochs_differ)
    one, two = replicas.Side(*laid_out(a)), replicas.Side(*laid_out(b))
    while True:
        status = replicas.compare(one, two, state)
        found += [state.event(i) for i in range(state.events)]
        if status == DONE:
            return found, state
        assert state.events == capacity


def record(offset, key=b"k", value=b"v", timestamp=5, headers=()):
    return offset, timestamp, key, value, headers


@pytest.mark.parametrize(
    "other, what",
    [
        (record(1), 0),
        (record(1, key=b"K"), replicas.KEY),
        (record(1, key=None), replicas.KEY),
        (record(1, value=b""), replicas.VALUE),
        (record(1, value=b"w", key=b""), replicas.KEY | replicas.VALUE),
        (record(1, timestamp=6), replicas.TIMESTAMP),
        (record(1, timestamp=-1), 0),
        (record(1, headers=((b"a", b"b"),)), replicas.HEADERS),
    ],
)
def test_what_differs(other, what):
    found, _ = compared([record(1)], [other])
    assert found == ([(replicas.DIFFERENT, 1, 1, 1, what)] if what else [])
    both, _ = compared([record(1)], [other], epochs_differ=True)
    assert both == [(replicas.DIFFERENT, 1, 1, 1, what | replicas.EPOCH)]


@pytest.mark.parametrize(
    "headers", [((b"a", None),), ((b"a", b""),), ((b"b", b"x"),), ((b"a", b"x"), (b"a", b"x")), ()]
)
def test_headers_are_compared_in_their_order(headers):
    ours = ((b"a", b"x"),)
    assert compared([record(1, headers=ours)], [record(1, headers=ours)])[0] == []
    (event,) = compared([record(1, headers=ours)], [record(1, headers=headers)])[0]
    assert event[4] == replicas.HEADERS


def test_null_is_not_empty():
    assert compared([record(1, value=None)], [record(1, value=None)])[0] == []
    assert compared([record(1, value=None)], [record(1, value=b"")])[0][0][4] == replicas.VALUE


values = st.dictionaries(st.integers(0, 30), st.sampled_from([b"a", b"b"]), min_size=1, max_size=20)


@given(values, values, st.integers(1, 5))
def test_events_are_those_of_dicts(here, there, capacity):
    found, state = compared(
        [record(offset, value=here[offset]) for offset in sorted(here)],
        [record(offset, value=there[offset]) for offset in sorted(there)],
        capacity=capacity,
    )
    end = min(max(here), max(there))
    seen = [offset for offset in sorted(here.keys() | there.keys()) if offset <= end]
    kinds = {
        offset: replicas.ONLY_B if offset not in here else replicas.ONLY_A if offset not in there
        else replicas.DIFFERENT if here[offset] != there[offset] else None
        for offset in seen
    }  # fmt: skip
    told = {}
    for kind, first, last, count, _ in found:
        inside = [offset for offset in seen if first <= offset <= last]
        assert {kinds[offset] for offset in inside} == {kind}
        assert len(inside) == count
        told |= dict.fromkeys(inside, kind)
    assert told == {offset: kind for offset, kind in kinds.items() if kind}
    numbers = {None: state.same, replicas.DIFFERENT: state.different}
    assert numbers == {kind: sum(one == kind for one in kinds.values()) for kind in numbers}
