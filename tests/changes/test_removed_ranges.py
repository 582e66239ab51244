"""The ranges that a replacement no longer has, against a set of positions."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kseg.changes.delta import RemovedRanges

SIZE = 30
STAYING = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, 12)), max_size=6)


@given(STAYING, st.booleans(), st.integers(0, SIZE), st.integers(0, SIZE))
def test_ranges_are_those_of_a_set(staying: list[tuple[int, int]], is_sorted: bool, position: int, length: int) -> None:
    staying = sorted(staying) if is_sorted else staying
    found = RemovedRanges(SIZE, iter(staying))
    assert found.are_within_file == all(start + size <= SIZE for start, size in staying)
    stays = {at for start, size in staying for at in range(start, start + size)}
    removed = [at for at in range(SIZE) if at not in stays]
    ranges = list(found)
    assert [at for start, size in ranges for at in range(start, start + size)] == removed
    assert all(size > 0 for _, size in ranges)
    assert all(one[0] + one[1] <= two[0] for one, two in pairwise(ranges))
    assert (found.size, found.shared_bytes) == (len(removed), SIZE - len(removed))
    places = {at: place for place, at in enumerate(removed)}
    length = min(length, SIZE - position)
    parts = list(found.split(position, length))
    expected = [(at, places.get(at, -1)) for at in range(position, position + length)]
    assert [(at + i, -1 if place < 0 else place + i) for at, size, place in parts for i in range(size)] == expected
    assert all(size > 0 for _, size, _ in parts)
