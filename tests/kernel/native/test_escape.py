"""The loops for processors that shuffle bytes write what those for all processors write."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import int64s
from kseg.kernel.layout.headers import CREATE_TIME
from kseg.kernel.layout.rows import TOO_SMALL
from kseg.kernel.native import escape
from kseg.kernel.render.lines import BASE64_VALUES, CONTENTS, SKIP_METADATA, use_loops
from kseg.kernel.render.rendering import Renderer

PIECES = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(str.encode),
    st.sampled_from([b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\xe0\x80\x80", b"\xf4\x90", b"\xc3\xa9", b"\xe2\x82"]),
    st.integers(1, 70).map(lambda n: b"a" * n),
)
VALUES = st.lists(PIECES, max_size=12).map(b"".join)


def as_text(value, out_bytes=65536):
    return rendered(value, out_bytes, Renderer(CONTENTS | SKIP_METADATA))


def as_json(value, out_bytes=65536):
    return rendered(value, out_bytes, Renderer(CONTENTS | BASE64_VALUES, (b"", b"{", b",")))


def rendered(value, out_bytes, renderer):
    rows, out = int64s([0, 0, -1, 0, -1, 0, len(value), 0, 0, 0]), bytearray(out_bytes)
    status = renderer.print_records(value + b"\xbf", rows, int64s(0), 1, 2, CREATE_TIME, out)
    return status, bytes(out[: renderer.written])


STEP_BYTES = 128


def by_each(render, *arguments):
    """What the loops that every processor has write, and those that shuffle bytes where this one can."""
    written = []
    for level in range(use_loops(0) + 1):
        use_loops(level)
        written.append(render(*arguments))
    return written


@given(value=VALUES)
def test_text_is_the_same(value):
    portable, *others = by_each(as_text, value)
    assert others == [portable] * len(others)


EDGES = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff")
"""At the bounds of what may begin a sequence, and of what may follow there."""


def test_any_four_bytes_at_any_place_of_a_block_are_shown_as_java_shows_them():
    value = b"".join(bytes(four) + b"a" for four in product(EDGES, repeat=4))
    assert len(value) == 5 * len(EDGES) ** 4
    expected = escape.java(value)
    for found in by_each(as_text, value, 4 * len(value)):
        assert found[1].partition(b" payload: ")[2] == expected + b"\n"


@given(value=st.lists(st.sampled_from(EDGES), max_size=200).map(bytes))
def test_what_nearly_is_text_is_the_same(value):
    portable, *others = by_each(as_text, value)
    assert others == [portable] * len(others)


@given(value=VALUES)
def test_base64_is_the_same(value):
    portable, *others = by_each(as_json, value)
    assert others == [portable] * len(others)


@pytest.mark.parametrize("render", [as_text, as_json])
def test_all_notice_that_the_output_is_full(render):
    for size in range(800, 4200, 7):
        value = bytes(range(128, 256)) * (size // 128) + b"\xff" * (size % 128)
        whole = render(value)
        for found in by_each(render, value, 4096):
            # A loop that takes larger steps may notice only at the end that all has gone in.
            assert found == (TOO_SMALL, b"") or (found == whole and len(whole[1]) <= 4096)
            assert found == whole or len(whole[1]) > 4096 - 5 * STEP_BYTES  # a renderer keeps a few in reserve
