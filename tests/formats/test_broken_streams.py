"""What a broken stream holds before its fault."""

import gzip
import random
import struct

import pytest
import snappy
import zstandard

from formats.streams import GZIP, LZ4, MIB, SKIPPABLE, SNAPPY, ZSTD, flipped, lz4_frame, xerial, zstd_frame
from kseg.formats.compression import leading_bytes

TEXT = random.Random(1).randbytes(30_000).hex().encode() + b"a record, another record; " * 9000
HALF = len(TEXT) // 2


def frame(**options: object) -> bytes:
    return lz4_frame(TEXT, **{"block_size": 4, **options})


BLOCKS = xerial(*(TEXT[i : i + 32768] for i in range(0, len(TEXT), 32768)))
ZSTD_STREAM = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
STREAMS = {GZIP: gzip.compress(TEXT), SNAPPY: BLOCKS, LZ4: frame(), ZSTD: ZSTD_STREAM}


@pytest.mark.parametrize(
    ("codec", "stream"),
    [
        pytest.param(GZIP, gzip.compress(TEXT)[:-8] + bytes(8), id="gzip: wrong trailer"),
        pytest.param(GZIP, gzip.compress(TEXT)[:-8], id="gzip: no trailer"),
        pytest.param(GZIP, gzip.compress(TEXT[:-1]) + gzip.compress(TEXT[-1:])[:15], id="gzip: a small member cut"),
        pytest.param(LZ4, frame()[:-4], id="lz4: no end mark"),
        pytest.param(LZ4, frame(block_linked=True), id="lz4: linked blocks"),
        pytest.param(LZ4, flipped(frame(block_checksum=True), -5), id="lz4: wrong block checksum"),
        pytest.param(LZ4, flipped(frame(store_size=True), 8), id="lz4: wrong content size"),
        pytest.param(LZ4, flipped(frame(), 6), id="lz4: wrong header checksum"),
        pytest.param(ZSTD, flipped(ZSTD_STREAM, -1), id="zstd: wrong checksum"),
        pytest.param(ZSTD, ZSTD_STREAM[:-1], id="zstd: checksum cut"),
        pytest.param(ZSTD, flipped(ZSTD_STREAM, 6), id="zstd: wrong content size"),
        pytest.param(ZSTD, SKIPPABLE + ZSTD_STREAM + b"\0", id="zstd: bytes behind"),
        *(
            pytest.param(
                ZSTD,
                b"".join(zstd_frame(part, write_checksum=has_checksum) for part in (TEXT[:HALF], TEXT[HALF:])),
                id=f"zstd: two frames, checksum {has_checksum}",
            )
            for has_checksum in (True, False)
        ),
        pytest.param(SNAPPY, BLOCKS + struct.pack(">i", 9) + b"\x09", id="snappy: an empty block cut"),
        *(
            # Added to the position, the length leads to the last n bytes.
            pytest.param(
                SNAPPY,
                BLOCKS + struct.pack(">i", -len(BLOCKS) - 4 - n) + snappy.compress(b"x") + bytes(n),
                id=f"snappy: a negative length, {n} bytes left",
            )
            for n in (1, 4)
        ),
    ],
)
def test_a_stream_whose_content_is_whole(codec, stream):
    assert bytes(leading_bytes(codec, stream, MIB)) == TEXT


@pytest.mark.parametrize(
    ("codec", "stream", "least"),
    [
        pytest.param(GZIP, gzip.compress(TEXT), 50_000, id="gzip"),
        pytest.param(LZ4, frame(), 50_000, id="lz4"),
        pytest.param(LZ4, frame(block_size=7), 50_000, id="lz4: one block"),
        pytest.param(LZ4, frame(block_linked=True), 50_000, id="lz4: linked blocks"),
        pytest.param(SNAPPY, BLOCKS, 30_000, id="snappy"),
        pytest.param(SNAPPY, snappy.compress(TEXT), 30_000, id="snappy: one block"),
        pytest.param(ZSTD, ZSTD_STREAM, 0, id="zstd"),
    ],
)
def test_any_cut_leaves_what_was_before_it(codec, stream, least):
    before = 0
    for size in [*range(0, len(stream), len(stream) // 40), len(stream)]:
        found = bytes(leading_bytes(codec, stream[:size], MIB))
        assert TEXT.startswith(found)
        assert len(found) >= before
        before = len(found)
    assert before == len(TEXT)
    assert len(leading_bytes(codec, stream[: len(stream) * 9 // 10], MIB)) >= least


@pytest.mark.parametrize("codec", STREAMS)
def test_a_ceiling(codec):
    stream = STREAMS[codec][:-20]
    whole = bytes(leading_bytes(codec, stream, MIB))
    for ceiling in (0, 1, HALF, len(TEXT) - 1):
        assert bytes(leading_bytes(codec, stream, ceiling)) == whole[:ceiling]


@pytest.mark.parametrize("codec", STREAMS)
def test_any_bytes_end(codec):
    stream = STREAMS[codec]
    random.seed(codec)
    for _ in range(60):
        at = random.randrange(len(stream))
        assert len(leading_bytes(codec, flipped(stream, at, 1 << random.randrange(8)), MIB)) <= MIB
        assert len(leading_bytes(codec, stream[:at] + random.randbytes(200), MIB)) <= MIB


def test_a_fault_in_a_block_ends_the_stream():
    stream = flipped(frame(), 7 + 4 + int.from_bytes(frame()[7:11], "little") + 4 + 30)  # in the second block
    found = bytes(leading_bytes(LZ4, stream, MIB))
    assert found[: 64 << 10] == TEXT[: 64 << 10]
