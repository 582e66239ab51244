"""Buffers that are reused: large enough, and one of each name."""

from kseg.stores.windows import Buffers


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
