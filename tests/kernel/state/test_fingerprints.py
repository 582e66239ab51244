"""Fingerprints of batches: what is packed is what is read back, and what the crc32c package computes."""

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kernel.rendering import batch, frames, int64s, record
from kseg.kernel.layout.rows import BATCH_WIDTH
from kseg.kernel.scan import headers
from kseg.verification.manifest import Block


def packed(data, origin=0):
    found = frames(data)
    count = len(found) // 4
    rows = int64s(count * BATCH_WIDTH)
    headers.read(data, found, count, False, origin, rows)
    out = bytearray(count * headers.MAX_FINGERPRINT_BYTES)
    return bytes(out[: headers.pack_fingerprints(data, rows, count, origin, out)]), count


@given(st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 300)), min_size=1, max_size=8))
def test_what_is_packed_can_be_read(batches):
    made = [batch([record(0, value=bytes(size))], base_offset=offset) for offset, size in batches]
    data = b"".join(made)
    fingerprint, count = packed(data, origin=77)
    block = Block(77, len(data), bytes(32), count, 0, 0, fingerprint)
    found = list(block.batches())
    assert block.is_sound()
    assert [part.crc for part in found] == [crc32c(part) for part in made]
    assert [part.size for part in found] == [len(part) for part in made]
    assert [part.last_offset for part in found] == [offset for offset, _ in batches]
    assert found[0].position == 77
