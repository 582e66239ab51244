"""The blocks of a manifest: a block ends at the first batch that fills it, in bytes or in batches."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import BATCH_POSITION, BATCH_SIZE, BATCH_WIDTH
from kseg.verification import manifest_file


@given(st.lists(st.integers(1, 60), max_size=30), st.integers(0, 5), st.integers(1, 100), st.integers(1, 12))
def test_a_block_ends_where_it_is_full(sizes: list[int], start: int, max_bytes: int, max_batches: int) -> None:
    rows = int64s(len(sizes) * BATCH_WIDTH)
    ends = list(accumulate(sizes, initial=start))
    for at, size in enumerate(sizes):
        rows[at * BATCH_WIDTH + BATCH_POSITION], rows[at * BATCH_WIDTH + BATCH_SIZE] = ends[at], size
    full = [count for count, end in enumerate(ends) if count and (end - start >= max_bytes or count == max_batches)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_file, "BLOCK_BYTES", max_bytes)
        patch.setattr(manifest_file, "BLOCK_BATCHES", max_batches)
        assert manifest_file._full_block(rows, start) == (full[0] if full else 0)
