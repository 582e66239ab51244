"""The kernel's lz4 and zstd decompression gives the libraries' output, accepts nothing that they refuse, and writes
nothing beyond the output."""

import random
import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.streams import LZ4, LZ4_HEADER, MIB, SKIPPABLE, TEXT, ZSTD, ZSTD_MAGIC, lz4_frame, zstd_frame
from kseg import kernel
from kseg.formats import compression
from kseg.formats.compression import DecompressionError, decompress
from kseg.kernel.codecs.expand import ExpansionBuffer

compiled = pytest.mark.skipif(not kernel.COMPILED, reason="the interpreted kernel leaves all to the libraries")

WORDS = [b"offset", b"a", b"{'key': ", b"0" * 40, b"\0" * 7, bytes(range(200)), b"xy", b"value of a record, "]


def library_output(codec, stream, magic=2, ceiling=64 * MIB):
    """Returns the libraries' output for a stream; None if they refuse it."""
    try:
        return decompress(codec, stream, magic, ceiling)
    except DecompressionError:
        return None


def expanded(codec, stream, magic=2, limit=64 * MIB):
    view = compression.expansion_buffer(limit).expand(codec, magic, stream)
    return None if view is None else bytes(view)


@st.composite
def texts(draw):
    """Bytes with matches of every kind: short and long, near and far, overlapping."""
    pieces = draw(st.lists(st.one_of(st.sampled_from(WORDS), st.binary(max_size=30)), max_size=60))
    out = bytearray()
    for piece in pieces:
        out += piece
        if out and draw(st.booleans()):
            distance = draw(st.integers(1, min(len(out), 1 << 16)))
            for _ in range(draw(st.integers(1, 90))):
                out.append(out[-distance])
    return bytes(out) * draw(st.sampled_from([1, 1, 1, 2, 50]))


OPTIONS = st.fixed_dictionaries(
    {
        "block_size": st.sampled_from([4, 5, 6, 7]),
        "block_checksum": st.booleans(),
        "content_checksum": st.booleans(),
        "store_size": st.booleans(),
        "compression_level": st.sampled_from([-5, 0, 9]),
    }
)


@compiled
@given(data=texts(), options=OPTIONS, magic=st.sampled_from([0, 1, 2]))
def test_lz4_frames_of_every_kind_are_expanded(data, options, magic):
    assert expanded(LZ4, lz4_frame(data, **options), magic) == data


@compiled
@pytest.mark.parametrize("size", [0, 1, 12, 13, 65535, 65536, 65537, 1 << 20, 5_000_000])
@pytest.mark.parametrize("kind", ["zeros", "random", "mixed"])
def test_sizes_about_those_of_blocks(kind, size):
    random.seed(size)
    noise = random.randbytes(size // 3 + 1)
    mixed = (noise + bytes(40) + noise * 2)[:size]
    data = {"zeros": bytes(size), "random": random.randbytes(size), "mixed": mixed}[kind]
    for block_size in (4, 7):
        assert expanded(LZ4, lz4_frame(data, block_size=block_size)) == data
    assert expanded(ZSTD, zstd_frame(data)) == data
    assert expanded(ZSTD, zstd_frame(data, write_content_size=False)) == data


def _sequence(literals, distance, length):
    """Returns one sequence of an LZ4 block, without a match if the distance is 0."""
    out = bytearray([min(len(literals), 15) << 4 | (min(length - 4, 15) if distance else 0)])
    out += _more(len(literals)) + literals
    if distance:
        out += struct.pack("<H", distance) + _more(length - 4)
    return bytes(out)


def _more(length):
    return b"" if length < 15 else b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255])


@compiled
@pytest.mark.parametrize("max_bytes", [65536, 100_000, 131_071, 131_072, 131_073, 180_000, 196_608])
def test_blocks_are_expanded_into_a_buffer_that_just_fits(max_bytes):
    for size in (131_072, 100_000, 196_608):
        data = (TEXT * 20)[:size]
        found = expanded(LZ4, lz4_frame(data, block_size=4), limit=max_bytes)
        assert found == (data if size <= max_bytes else None)


def assert_no_more_than_the_libraries(codec, stream, magic=2, data=None):
    """``data``: the content of a zstd stream with a checksum, before it was damaged. libzstd versions refuse different
    malformed streams, so the system's need not agree with zstandard's; a checksum makes both right."""
    found = expanded(codec, stream, magic, limit=MIB)
    if found is None:
        return
    if codec == LZ4:
        assert found == library_output(codec, stream, magic)
    else:
        assert magic == 2
        assert data is None or found == data


@given(
    codec=st.sampled_from([LZ4, ZSTD]),
    data=texts(),
    options=OPTIONS,
    cut=st.floats(0, 1),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=3),
    magic=st.sampled_from([0, 2]),
)
def test_streams_that_are_cut_or_changed(codec, data, options, cut, changes, magic):
    stream = bytearray(lz4_frame(data, **options) if codec == LZ4 else zstd_frame(data, write_checksum=True))
    for place, byte in changes:
        stream[int(place * (len(stream) - 1))] = byte
    assert_no_more_than_the_libraries(codec, bytes(stream), magic, data)
    short = stream[: int(cut * len(stream))]
    assert_no_more_than_the_libraries(codec, bytes(short), magic, data if short else b"")


def test_every_byte_of_a_frame_changed_and_every_length():
    streams = [
        (LZ4, lz4_frame(TEXT[-400:], block_checksum=True, content_checksum=True, store_size=True)),
        (LZ4, lz4_frame(TEXT[-400:])),
        (ZSTD, zstd_frame(TEXT[-400:], write_checksum=True)),
    ]
    for codec, stream in streams:
        for at in range(len(stream)):
            assert_no_more_than_the_libraries(codec, stream[:at], data=TEXT[-400:] if at else b"")
            for flip in (0x01, 0x80, 0xFF):
                changed = stream[:at] + bytes([stream[at] ^ flip]) + stream[at + 1 :]
                assert_no_more_than_the_libraries(codec, changed, data=TEXT[-400:])


@pytest.mark.parametrize(
    "codec, stream",
    [
        (LZ4, lz4_frame(TEXT * 9, block_linked=True, block_size=4)),
        (LZ4, LZ4_HEADER + struct.pack("<I", 0x80010001) + bytes(65537) + bytes(4)),
        (LZ4, LZ4_HEADER + struct.pack("<I", 0x7FFFFFFF) + bytes(100)),
        (LZ4, lz4_frame(TEXT)[:6] + b"\x1a" + lz4_frame(TEXT)[7:]),
        (LZ4, SKIPPABLE + lz4_frame(TEXT)),
        (ZSTD, bytes.fromhex("27b52ffd") + zstd_frame(TEXT)[4:]),
        (ZSTD, ZSTD_MAGIC + b"\x00\x90" + b"\x01\0\0"),
        (ZSTD, ZSTD_MAGIC + b"\xe0" + struct.pack("<Q", 1 << 27 | 2) + b"\x01\0\0"),
        (ZSTD, ZSTD_MAGIC + b"\x20\x00" + struct.pack("<I", 1 << 3 | 3)[:3] + b"x"),
        (ZSTD, zstd_frame(TEXT) + b"\0"),
        (ZSTD, ZSTD_MAGIC + b"\x00\x00" + zstd_frame(TEXT, write_content_size=False)[6:]),
    ],
    ids="linked large claim header skippable old window segment claims-0 zero small-window".split(),
)
def test_streams_that_are_refused(codec, stream):
    assert library_output(codec, stream) is None
    assert expanded(codec, stream) is None


@compiled
@pytest.mark.parametrize(
    "codec, stream",
    [(LZ4, lz4_frame(TEXT) + b"\0"), (ZSTD, zstd_frame(TEXT) + SKIPPABLE[:-1])],
    ids=["lz4", "zstd"],
)
def test_streams_with_trailing_bytes_are_left_to_python(codec, stream):
    assert library_output(codec, stream) == TEXT
    assert expanded(codec, stream) is None


@compiled
def test_lz4_checksums():
    stream = bytearray(lz4_frame(TEXT, block_checksum=True, content_checksum=True))
    stream[-1] ^= 1
    assert expanded(LZ4, bytes(stream)) == TEXT, "Kafka does not verify the checksum of the content"
    stream[-9] ^= 1
    assert expanded(LZ4, bytes(stream)) is None
    old = bytearray(lz4_frame(TEXT))
    old[6] ^= 1
    assert expanded(LZ4, bytes(old), magic=0) == TEXT, "KAFKA-3160"
    assert expanded(LZ4, bytes(old), magic=1) is None


@compiled
@pytest.mark.parametrize("codec, pack", [(LZ4, lz4_frame), (ZSTD, zstd_frame)])
def test_a_match_does_not_reach_into_another_block_or_batch(codec, pack):
    secret = b"left behind by the batch before "
    buffer = compression.expansion_buffer(MIB)
    assert bytes(buffer.expand(codec, 2, pack(secret * 100))) == secret * 100
    block = _sequence(b"12345", 6, 20) + _sequence(b"the end", 0, 0)
    stream = LZ4_HEADER + struct.pack("<I", len(block)) + block + bytes(4)
    assert buffer.expand(LZ4, 2, stream) is None
    two = struct.pack("<I", 1 << 31 | 16) + b"sixteen bytes..." + struct.pack("<I", len(block)) + block
    assert buffer.expand(LZ4, 2, LZ4_HEADER + two + bytes(4)) is None


@compiled
def test_a_buffer_grows_as_it_is_needed_and_no_further():
    buffer = compression.expansion_buffer(4 * MIB)
    assert buffer.expand(LZ4, 2, lz4_frame(b"small")) == b"small"
    first = buffer.capacity
    assert first <= MIB
    held = buffer.expand(LZ4, 2, lz4_frame(bytes(3 * MIB)))
    assert held == bytes(3 * MIB)
    assert buffer.expand(LZ4, 2, lz4_frame(bytes(4 * MIB))) == bytes(4 * MIB)
    assert buffer.expand(LZ4, 2, lz4_frame(bytes(4 * MIB + 1))) is None
    assert buffer.expand(ZSTD, 2, zstd_frame(bytes(4 * MIB + 1))) is None
    assert buffer.expand(ZSTD, 2, zstd_frame(b"after")) == b"after"
    assert buffer.capacity == 4 * MIB


@compiled
def test_a_claimed_size_is_not_allocated():
    buffer = compression.expansion_buffer(1 << 40)
    claim = ZSTD_MAGIC + b"\xe0" + struct.pack("<Q", 1 << 26) + b"\x01\0\0"
    assert buffer.expand(ZSTD, 2, claim) is None
    assert buffer.expand(LZ4, 2, bytes.fromhex("04224d18607073") + struct.pack("<I", 3 << 20) + bytes(50)) is None
    assert buffer.capacity <= compression.LARGEST_BUFFER_BYTES


@compiled
def test_nothing_is_written_beyond_the_buffer():
    """A stream may fill the buffer to its last byte; one byte more is refused."""
    noise = bytes(range(256)) * 64
    data = noise + TEXT + noise
    buffer = compression.expansion_buffer(len(data))
    for codec, stream in ((LZ4, lz4_frame(data)), (ZSTD, zstd_frame(data))):
        assert bytes(buffer.expand(codec, 2, stream)) == data
        assert buffer.capacity == len(data)
        if codec == LZ4:
            assert buffer.expand(codec, 2, lz4_frame(data + b"x")) is None


@compiled
def test_buffers_of_several_threads_are_independent():
    streams = [(codec, bytes([i]) * 5000 + TEXT * i) for i in range(1, 5) for codec in (LZ4, ZSTD)]
    wrong = []

    def work(codec, data):
        buffer, stream = compression.expansion_buffer(MIB), (lz4_frame if codec == LZ4 else zstd_frame)(data)
        wrong.extend(i for i in range(200) if buffer.expand(codec, 2, stream) != data)

    threads = [threading.Thread(target=work, args=stream) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@compiled
def test_views_of_a_buffer_that_has_grown_stay_good():
    buffer = compression.expansion_buffer(8 * MIB)
    view = buffer.expand(LZ4, 2, lz4_frame(TEXT))
    buffer.extend(LZ4)
    buffer.expand(LZ4, 2, lz4_frame(bytes(5 * MIB)))
    assert view == TEXT
    assert buffer.expand(LZ4, 2, lz4_frame(TEXT)) == TEXT


def test_both_libraries_of_zstd_have_the_functions():
    assert compression.addresses(ZSTD), "neither the system's library nor that inside zstandard"
    assert compression.addresses_in(ZSTD, "no-such-library.so.1") is None


@compiled
def test_without_a_library_all_is_left_to_compression():
    """A buffer of a kernel without libraries; in a new process, because each library is looked up once."""
    import subprocess
    import sys
    from pathlib import Path

    script = (
        "from kseg.formats import compression\n"
        "from kseg.kernel.codecs.expand import ExpansionBuffer\n"
        "stream = bytes.fromhex('28b52ffd2003190000616263')\n"
        "assert compression.decompress(4, stream, 2, 99) == b'abc'\n"
        "assert ExpansionBuffer(1 << 20, lambda _: None).expand(4, 2, stream) is None\n"
        "stream = bytes.fromhex('04224d186040820300008061626300000000')\n"
        "assert compression.decompress(3, stream, 2, 99) == b'abc'\n"
        "assert ExpansionBuffer(1 << 20, lambda _: None).expand(3, 2, stream) is None\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])


def test_a_buffer_of_no_bytes():
    assert ExpansionBuffer(0, compression.addresses).expand(LZ4, 2, lz4_frame(b"xyz")) is None
    assert compression.expansion_buffer(1).expand(ZSTD, 2, b"") is None
