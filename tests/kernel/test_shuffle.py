"""The loops for processors that shuffle bytes write what those for all processors write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rendering import CONTENTS, SKIP_METADATA, int64s

from kseg.kernel import jsonl, text

PIECES = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(str.encode),
    st.sampled_from([b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\xe0\x80\x80", b"\xf4\x90", b"\xc3\xa9", b"\xe2\x82"]),
    st.integers(1, 70).map(lambda n: b"a" * n),
)
VALUES = st.lists(PIECES, max_size=12).map(b"".join)


def as_text(value, out_bytes=65536):
    return rendered(
        value, out_bytes,
        lambda rows, out, state: text.text_records(
            value + b"\xbf", rows, int64s(0), 0, 1, 2, b"CreateTime", CONTENTS | SKIP_METADATA, out, state
        ),
    )  # fmt: skip


def as_json(value, out_bytes=65536):
    flags = jsonl.CONTENTS | jsonl.BASE64_VALUES
    return rendered(
        value, out_bytes,
        lambda rows, out, state: jsonl.json_records(
            value + b"\xbf", rows, int64s(0), 0, 1, 2, flags, (b"", b"{", b","), 0, 1, out, state
        ),
    )  # fmt: skip


def rendered(value, out_bytes, render):
    rows, state, out = int64s([0, 0, -1, 0, -1, 0, len(value), 0, 0, 0]), int64s(8), bytearray(out_bytes)
    status = render(rows, out, state)
    return status, bytes(out[: state[3]])


@pytest.fixture
def better():
    """Whether this processor has better loops; both modules are back to their best afterwards."""
    yield [module.use_portable(False) for module in (text, jsonl)]
    for module in (text, jsonl):
        module.use_portable(False)


def both(render, module, *arguments):
    module.use_portable(True)
    portable = render(*arguments)
    module.use_portable(False)
    return portable, render(*arguments)


@given(value=VALUES)
def test_text_is_the_same(value):
    portable, best = both(as_text, text, value)
    assert portable == best


@given(value=VALUES)
def test_base64_is_the_same(value):
    portable, best = both(as_json, jsonl, value)
    assert portable == best


@pytest.mark.parametrize("render, module", [(as_text, text), (as_json, jsonl)])
def test_both_notice_that_there_is_no_room(render, module, better):
    assert len(set(better)) == 1
    for size in range(800, 4200, 7):
        portable, best = both(render, module, bytes(range(128, 256)) * (size // 128) + b"\xff" * (size % 128), 4096)
        assert portable == best
