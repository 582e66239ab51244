"""Buffers that are reused: large enough, and one of each name; where bytes begin to differ."""

from hypothesis import given
from hypothesis import strategies as st

from kseg.stores.buffers import Buffers, common_prefix

SOME = st.binary(max_size=40)


@given(SOME, SOME, SOME)
def test_a_common_prefix_ends_before_the_first_byte_that_differs(prefix: bytes, one: bytes, other: bytes) -> None:
    a, b = prefix + one, prefix + other
    expected = next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))
    assert common_prefix(a, b) == expected


def test_a_window_is_kept_while_it_is_neither_too_small_nor_too_large() -> None:
    buffers = Buffers()
    window = buffers.window(100, 1000)
    assert len(window) == 100
    assert buffers.window(60, 100) is window
    assert len(buffers.window(101, 1000)) == 101
    assert len(buffers.window(60, 100)) == 60


def test_columns_are_kept_by_name_and_grow() -> None:
    buffers = Buffers()
    frames, headers = buffers.int64s("frames", 8), buffers.int64s("headers", 8)
    frames[0], headers[0] = 1, 2
    assert buffers.int64s("frames", 4) is frames
    assert (frames[0], headers[0]) == (1, 2)
    assert len(buffers.int64s("frames", 9)) >= 9


def test_an_object_is_made_once_for_each_name() -> None:
    buffers = Buffers()
    first: list[int] = buffers.kept("one", list)
    first.append(1)
    assert buffers.kept("one", list[int]) is first
    assert buffers.kept("other", list[int]) == []
