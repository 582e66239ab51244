"""The common prefix of two byte strings, against a comparison byte by byte."""

from hypothesis import given
from hypothesis import strategies as st

from kseg.stores.buffers import common_prefix

SOME = st.binary(max_size=40)


@given(SOME, SOME, SOME)
def test_it_is_the_number_of_equal_bytes_before_the_first_that_differs(prefix: bytes, one: bytes, other: bytes) -> None:
    a, b = prefix + one, prefix + other
    expected = next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))
    assert common_prefix(a, b) == expected
