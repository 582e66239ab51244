"""Decompression: results of Kafka's own reader for real streams, all options of the codecs, and malformed bytes."""

import csv
import random
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from pathlib import Path

import lz4
import pytest
import snappy
import zstandard

from formats.streams import (
    GZIP,
    LZ4,
    LZ4_HEADER,
    MIB,
    SKIPPABLE,
    SNAPPY,
    TEXT,
    XERIAL_HEADER,
    ZSTD,
    ZSTD_MAGIC,
    flipped,
    gzip_member,
    lz4_frame,
    problem_of,
    xerial,
    zstd_frame,
    zstd_raw_block,
)
from kseg.formats import compression
from kseg.formats.compressing import compress, parse_target
from kseg.formats.compression import KAFKA_0_7, DecompressionError, decompress

TESTDATA = Path(__file__).parents[2] / "testdata" / "compression"
CASES = list(csv.DictReader((TESTDATA / "cases.tsv").read_text(encoding="ascii").splitlines(), delimiter="\t"))


REAL_STREAMS = pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"].removesuffix(".bin"))


def read_case(case: dict[str, str]) -> tuple[int, bytes, int]:
    return int(case["codec"]), (TESTDATA / case["file"]).read_bytes(), int(case["magic"])


# real streams --------------------------------------------------------------------------------------------------------


@REAL_STREAMS
@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_real_stream_gives_what_kafka_reads(case, view):
    codec, stream, magic = read_case(case)
    out = decompress(codec, view(stream), magic, 64 * MIB)
    assert (len(out), zlib.crc32(out)) == (int(case["size"]), int(case["crc32"]))
    assert isinstance(out, bytes | bytearray)


@REAL_STREAMS
def test_the_ceiling_is_exact(case):
    codec, stream, magic = read_case(case)
    size = int(case["size"])
    assert len(decompress(codec, stream, magic, size)) == size
    assert problem_of(codec, stream, magic, size - 1) == "decompression-limit"
    assert reason(codec, stream, magic, size - 1) == f"records decompress to more than {size - 1} bytes"


@REAL_STREAMS
def test_a_real_stream_cut_anywhere_is_undecodable(case):
    codec, stream, magic = read_case(case)
    # A xerial stream may end before any chunk, even inside the length of one: SnappyInputStream stops silently there.
    # An empty zstd stream has no frame, which is no error to zstd-jni.
    clean = range(16, 20) if stream.startswith(b"\x82SNAPPY\0") else range(int(codec == ZSTD))
    for length in range(len(stream)):
        expected = "" if length in clean else "undecodable-records"
        assert problem_of(codec, stream[:length], magic) == expected, length


@REAL_STREAMS
def test_flipped_bytes_give_bytes_or_an_error(case):
    codec, stream, magic = read_case(case)
    problems = set()
    for position in range(len(stream)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(stream)
            damaged[position] ^= mask
            problems.add(problem_of(codec, damaged, magic, MIB))
    assert "undecodable-records" in problems


# which codec where ---------------------------------------------------------------------------------------------------


def test_codec_0_is_the_payload_itself():
    payload = memoryview(b"records")
    assert decompress(0, payload, 2, 0) is payload


def test_no_library_is_imported_before_its_first_use():
    code = (
        "import sys, kseg.formats.compression as c; c.decompress(0, b'', 2, 9)\n"
        "assert not {'snappy', 'cramjam', 'lz4', 'zstandard'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=TESTDATA.parents[1])


# gzip ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"name": b"n" * 700}, {"comment": b"c"}, {"extra": b"abc"}, {"name": b"n", "comment": b"c", "checked": True}],
)
def test_gzip_header_fields(options):
    assert decompress(GZIP, gzip_member(TEXT, **options), 2, MIB) == TEXT


def test_gzip_members_one_after_another():
    stream = gzip_member(TEXT) + gzip_member(b"") + gzip_member(b"end", name=b"n", checked=True)
    assert decompress(GZIP, stream, 2, MIB) == TEXT + b"end"


@pytest.mark.parametrize(
    "tail", [b"\0", bytes(19), bytes(4096), b"\x1f\x8b\x07" + bytes(40), b"\x1f\x8b\x08\x08" + b"n" * 40]
)
def test_gzip_tail_that_is_no_member_is_ignored(tail):
    assert decompress(GZIP, gzip_member(TEXT) + tail, 2, MIB) == TEXT


def test_gzip_member_longer_than_a_window():
    data = bytes(zlib.crc32(bytes((i & 255, i >> 8 & 255, i >> 16))) & 255 for i in range(3 * MIB // 2))
    assert decompress(GZIP, gzip_member(data) + gzip_member(data), 2, 4 * MIB) == data * 2


# snappy --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (snappy.compress(TEXT), TEXT),
        (snappy.compress(b"abc"), b"abc"),
        (snappy.compress(b""), b""),
        (XERIAL_HEADER, b""),
        (xerial(TEXT, b"", TEXT), TEXT * 2),
        (xerial(TEXT) + xerial(b"more"), TEXT + b"more"),
        (xerial(TEXT) + XERIAL_HEADER, TEXT),
        (xerial(TEXT) + bytes(3), TEXT),
        (xerial(TEXT, header=XERIAL_HEADER[:8] + bytes(8)), TEXT),
        (xerial(TEXT) + xerial(b"more", header=b"\x82SNAqqq\0" + XERIAL_HEADER[8:]), TEXT + b"more"),
        (xerial(*[bytes((i & 255,)) for i in range(1000)]), bytes(i & 255 for i in range(1000))),
    ],
    ids="bare bare-short bare-empty header chunks again again-empty rest version-0 magic many".split(),
)
def test_snappy_streams(stream, expected):
    assert decompress(SNAPPY, stream, 2, MIB) == expected


# lz4 -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_lz4_frame_options(block_size, block_checksum, content_checksum, store_size):
    data = TEXT * 30 + bytes(300_000)
    stream = lz4_frame(
        data,
        block_size=block_size,
        block_checksum=block_checksum,
        content_checksum=content_checksum,
        store_size=store_size,
    )
    assert decompress(LZ4, stream, 2, len(data)) == data
    assert decompress(LZ4, stream + b"after the end mark", 1, MIB) == data
    assert problem_of(LZ4, stream[:-1]) == "undecodable-records"


def test_lz4_header_checksum_is_ignored_for_magic_0_only():
    stream = bytearray(lz4_frame(TEXT))
    assert stream[6] == 0x82
    stream[6] = 0x1A  # KAFKA-3160
    assert decompress(LZ4, stream, 0, MIB) == TEXT
    assert problem_of(LZ4, stream, magic=1) == "undecodable-records"
    assert problem_of(LZ4, stream, magic=2) == "undecodable-records"


def test_lz4_header_checksum_covers_the_content_size():
    stream = bytearray(lz4_frame(TEXT, store_size=True))
    stream[8] ^= 1
    assert problem_of(LZ4, stream) == "undecodable-records"
    # Without a checksum a wrong content size has no effect: Kafka skips it.
    assert decompress(LZ4, stream, 0, MIB) == TEXT


def test_lz4_checksums_of_blocks_are_verified_and_those_of_content_are_not():
    of_block = bytearray(lz4_frame(TEXT, block_checksum=True))
    of_block[-5] ^= 1
    assert problem_of(LZ4, of_block) == "undecodable-records"
    of_content = bytearray(lz4_frame(TEXT, content_checksum=True))
    of_content[-1] ^= 1
    assert decompress(LZ4, of_content, 2, MIB) == TEXT
    assert problem_of(LZ4, of_content[:-1]) == "undecodable-records"


# zstd ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(700_000), TEXT * 100], ids=["0", "1", "text", "zeros", "long"])
@pytest.mark.parametrize("content_size", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
def test_zstd_frames(data, content_size, checksum):
    one = zstd_frame(data, write_content_size=content_size, write_checksum=checksum)
    stream = one + SKIPPABLE + one + SKIPPABLE
    assert decompress(ZSTD, one, 2, len(data)) == data
    assert decompress(ZSTD, stream, 2, 2 * len(data)) == data * 2
    if data:
        assert problem_of(ZSTD, stream, ceiling=2 * len(data) - 1) == "decompression-limit"
    for length in range(1, len(one)):
        assert problem_of(ZSTD, one[:length]) == "undecodable-records", length


def test_zstd_frame_written_with_flushes():
    compressor = zstandard.ZstdCompressor().compressobj()
    stream = b"".join(
        compressor.compress(TEXT) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for _ in range(50)
    )
    assert decompress(ZSTD, stream + compressor.flush(), 2, len(TEXT) * 50) == TEXT * 50


def test_zstd_content_size_is_not_compared_before_an_empty_last_block():
    claims = ZSTD_MAGIC + b"\x80\x80" + struct.pack("<I", 0x58108080)
    assert decompress(ZSTD, claims + zstd_raw_block(TEXT, last=False) + zstd_raw_block(b""), 2, MIB) == TEXT
    assert problem_of(ZSTD, claims + zstd_raw_block(TEXT)) == "undecodable-records"


def test_zstd_blocks_are_limited_by_a_small_window():
    small_window = ZSTD_MAGIC + b"\x00\x00"
    assert decompress(ZSTD, small_window + zstd_raw_block(bytes(1024)), 2, MIB) == bytes(1024)
    assert problem_of(ZSTD, small_window + zstd_raw_block(bytes(1025))) == "undecodable-records"
    compressed = zstd_frame(TEXT, write_content_size=False)
    assert compressed[4] == 0
    assert problem_of(ZSTD, small_window + compressed[6:]) == "undecodable-records"


# The reason that each malformed stream is refused for: the first rule that it breaks, with its numbers.


LARGEST_CHUNK = 512 << 20
LIBRARY = "zstd decompress error"
"""The reason begins like this if only the library finds it."""
SIZED = ZSTD_MAGIC + b"\x20"
"""The start of a zstd frame whose content size is the next byte."""


def reason(codec: int, stream: bytes, magic: int = 2, ceiling: int = MIB) -> str:
    with pytest.raises(DecompressionError) as caught:
        decompress(codec, stream, magic, ceiling)
    return str(caught.value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def block(size: int, kind: int = 0, last: bool = True) -> bytes:
    """The header of a zstd block: raw (0), run-length (1), compressed (2) or reserved (3)."""
    return struct.pack("<I", size << 3 | kind << 1 | last)[:3]


@pytest.mark.parametrize(
    ("codec", "magic", "expected"),
    [
        *((codec, 2, f"unknown compression codec {codec}") for codec in (-1, 5, 6, 7, 8)),
        (5, KAFKA_0_7, "unknown compression codec 5"), (4, 0, "message format 0 has no zstd compression"),
        (4, 1, "message format 1 has no zstd compression"), (3, KAFKA_0_7, "Kafka 0.7 has no lz4 compression"),
        (4, KAFKA_0_7, "Kafka 0.7 has no zstd compression"), (7, 0, "unknown compression codec 7"),
    ],
)  # fmt: skip
def test_codecs(codec: int, magic: int, expected: str) -> None:
    assert reason(codec, b"", magic) == expected


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"", "stream ends in a member header"),
        (gzip_member(TEXT)[:9], "stream ends in a member header"),
        (b"\x1f\x8b\x07" + bytes(20), "no member header"),
        (b"\x1f\x8b\x08\x04" + bytes(6) + b"\x03\x00ab", "stream ends in a member header"),
        (b"\x1f\x8b\x08\x04" + bytes(6) + b"\x02\x00ab", "stream ends early"),
        (b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 600, "stream ends in a member header"),
        (b"\x1f\x8b\x08\x10" + bytes(6) + b"c" * 255, "stream ends in a member header"),
        (gzip_member(TEXT, checked=True)[:11], "header checksum mismatch"),
        (flipped(gzip_member(TEXT, checked=True), 10), "header checksum mismatch"),
        (gzip_member(TEXT)[:-9], "stream ends early"),
        (gzip_member(TEXT)[:-8], "stream ends in a trailer"),
        (gzip_member(TEXT)[:-1], "stream ends in a trailer"),
        *((flipped(gzip_member(TEXT), -at), "checksum or size in the trailer is wrong") for at in range(1, 9)),
        (gzip_member(TEXT) + gzip_member(TEXT)[:-9], "stream ends early"),
        (gzip_member(TEXT) + gzip_member(TEXT)[:-1], "stream ends in a trailer"),
    ],
)
def test_gzip(stream: bytes, expected: str) -> None:
    assert reason(GZIP, stream) == f"gzip: {expected}"


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"", "a block without its size"),
        (b"\xff\xff\xff\xff\xff", "a block without its size"),
        (b"\x17\x00", None),
        (b"\x2d\x00", "a block of 2 bytes claims to hold 45"),
        (xerial(TEXT) + XERIAL_HEADER[:9], "stream ends in a header"),
        (xerial(TEXT) + XERIAL_HEADER[:15], "stream ends in a header"),
        (xerial(TEXT) + xerial(TEXT, header=XERIAL_HEADER[:8] + bytes(8)), "stream version 0"),
        (xerial(TEXT) + int32(-1) + bytes(9), "chunk length -1"),
        (xerial(TEXT) + int32(LARGEST_CHUNK + 1), f"chunk length {LARGEST_CHUNK + 1}"),
        (xerial(TEXT) + int32(LARGEST_CHUNK), "stream ends in a chunk"),
        (xerial(TEXT)[:-1], "stream ends in a chunk"),
        (xerial(TEXT) + int32(0), "a block without its size"),
        (xerial(TEXT) + int32(5) + b"\xff\xff\xff\xff\xff", "a block without its size"),
    ],
)
def test_snappy(stream: bytes, expected: str | None) -> None:
    found = reason(SNAPPY, stream)
    assert found.startswith("snappy: ")
    assert expected in (None, found.removeprefix("snappy: "))


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (LZ4_HEADER[:6], "stream ends in its header"),
        (b"\x05" + LZ4_HEADER[1:], "no frame header"),
        (bytes.fromhex("04224d18a04082"), "frame flags 0xa0"),
        (bytes.fromhex("04224d18614082"), "frame flags 0x61"),
        (bytes.fromhex("04224d18624082"), "frame flags 0x62"),
        (lz4_frame(TEXT * 9, block_linked=True, block_size=4), "blocks that depend on each other"),
        (bytes.fromhex("04224d18603082"), "block descriptor 0x30"),
        (bytes.fromhex("04224d1860c082"), "block descriptor 0xc0"),
        (bytes.fromhex("04224d18604182"), "block descriptor 0x41"),
        (lz4_frame(TEXT, store_size=True)[:14], "stream ends in its header"),
        (flipped(lz4_frame(TEXT), 6), "header checksum mismatch"),
        (LZ4_HEADER, "stream ends early"),
        (lz4_frame(TEXT)[:-1], "stream ends early"),
        (lz4_frame(TEXT, content_checksum=True)[:-1], "stream ends before its checksum"),
        (lz4_frame(TEXT, content_checksum=True)[:-4], "stream ends before its checksum"),
    ],
)
def test_lz4(stream: bytes, expected: str) -> None:
    assert reason(LZ4, stream) == f"lz4: {expected}"


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (ZSTD_MAGIC + bytes(3), "stream ends in a frame header"),
        (ZSTD_MAGIC + b"\xc0" + bytes(8), "stream ends in a frame header"),
        (SKIPPABLE[:-1], "stream ends in a skippable frame"),
        (b"not a frame", "no frame header"),
        (ZSTD_MAGIC + b"\x00\x68" + block(0), None),
        (ZSTD_MAGIC + b"\x00\x90" + block(0), f"frame asks for a window of {1 << 28} bytes"),
        (ZSTD_MAGIC + b"\x00\x91" + block(0), f"frame asks for a window of {(1 << 28) + (1 << 25)} bytes"),
        (ZSTD_MAGIC + b"\xa0" + struct.pack("<I", 1 << 31) + block(0), f"frame asks for a window of {1 << 31} bytes"),
        (SIZED + b"\0" + block(0, 3), "block of a reserved type"),
        (SIZED + b"\5" + block(5) + b"four", "stream ends in a frame"),
        (SIZED + b"\5" + block(5, 1), "stream ends in a frame"),
        (SIZED + b"\5" + block(5, last=False) + b"five!", "stream ends in a frame"),
        (SIZED + b"\6" + block(5) + b"five!", "a frame that holds at most 5 bytes claims to hold 6"),
        (SIZED + b"\6" + block(5, 1) + b"x", "a frame that holds at most 5 bytes claims to hold 6"),
        (
            ZSTD_MAGIC + b"\x60" + struct.pack("<H", 10) + block(5) + b"five!",
            "a frame that holds at most 5 bytes claims to hold 266",
        ),
        (zstd_frame(TEXT, write_checksum=True)[:-1], "stream ends before the checksum of a frame"),
        (zstd_frame(TEXT, write_checksum=True)[:-4], "stream ends before the checksum of a frame"),
        (zstd_frame(TEXT) + b"\0", "1 bytes after the last frame are not a frame"),
        (zstd_frame(TEXT) + b"not a frame", "11 bytes after the last frame are not a frame"),
        (ZSTD_MAGIC + b"\x00\x00" + block(0, 3), "block of a reserved type"),
        (ZSTD_MAGIC + b"\x08\x00" + block(0), LIBRARY),
        (ZSTD_MAGIC + b"\x01\x00\x05" + block(0), LIBRARY),
        (SIZED + b"\0" + block(1, 1) + b"x", LIBRARY),
        (SIZED + b"\2" + block(1, 1) + b"x", "a frame that holds at most 1 bytes claims to hold 2"),
        (flipped(zstd_frame(TEXT, write_checksum=True), -1), LIBRARY),
    ],
)
def test_zstd(stream: bytes, expected: str | None) -> None:
    if expected is None:
        assert decompress(ZSTD, stream, 2, MIB) == b""
    else:
        assert reason(ZSTD, stream).split(": ")[:2] == ["zstd", expected]


def test_the_largest_claims_that_are_tried() -> None:
    """Each of these is refused by its library only."""
    assert "claims" not in reason(SNAPPY, b"\x2c\x00")
    assert decompress(ZSTD, SIZED + b"\5" + block(5) + b"five!", 2, 5) == b"five!"
    assert decompress(ZSTD, SIZED + b"\5" + block(5, 1) + b"x", 2, 5) == b"xxxxx"


# Memory and time of decompression are proportional to the input and limited by the ceiling, whatever is claimed.


# hostile -------------------------------------------------------------------------------------------------------------


def bombs() -> dict[str, tuple[int, bytes]]:
    zeros = bytes(48 * MIB)
    rle_block = struct.pack("<I", 128 << 10 << 3 | 2)[:3] + b"\0"
    last_rle_block = struct.pack("<I", 128 << 10 << 3 | 3)[:3] + b"\0"
    huge_zstd_claim = ZSTD_MAGIC + b"\xe0" + struct.pack("<Q", 1 << 62) + b"\x01\0\0"
    return {
        "gzip": (GZIP, gzip_member(zeros)),
        "gzip-members": (GZIP, gzip_member(zeros[:MIB]) * 48),
        "snappy": (SNAPPY, snappy.compress(zeros)),
        "snappy-chunks": (SNAPPY, xerial(*[zeros[: MIB // 2]] * 96)),
        "snappy-claim": (SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100)),
        "lz4": (LZ4, lz4_frame(zeros, block_size=4)),
        "lz4-large-blocks": (LZ4, lz4_frame(zeros, block_size=7)),
        "lz4-checked-blocks": (LZ4, lz4_frame(zeros, block_size=7, block_checksum=True)),
        "lz4-size": (LZ4, lz4_frame(zeros, store_size=True)),
        "zstd": (ZSTD, zstd_frame(zeros)),
        "zstd-no-size": (ZSTD, zstd_frame(zeros, write_content_size=False)),
        "zstd-rle": (ZSTD, ZSTD_MAGIC + b"\x00\x38" + rle_block * 8000 + last_rle_block),
        "zstd-frames": (ZSTD, zstd_frame(zeros[:MIB]) * 48),
        "zstd-claim": (ZSTD, huge_zstd_claim),
    }


BOMBS = bombs()
DECOMPRESS_IN_CHILD = """
import sys
import cramjam, lz4.frame, snappy, zstandard
from kseg.formats.compression import DecompressionError, decompress

def highest_rss_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) // 1024

codec, ceiling, stream = int(sys.argv[1]), int(sys.argv[2]), sys.stdin.buffer.read()
before, problem = highest_rss_mib(), "none"
try:
    decompress(codec, stream, 2, ceiling)
except DecompressionError as error:
    problem = error.problem
print(problem, highest_rss_mib() - before)
"""


def decompress_in_child(codec: int, stream: bytes, ceiling: int) -> tuple[str, int]:
    """Returns the problem, and the growth of the resident set in MiB. (ru_maxrss would start at the parent's value.)"""
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc to measure memory")
    command = [sys.executable, "-c", DECOMPRESS_IN_CHILD, str(codec), str(ceiling)]
    done = subprocess.run(command, input=stream, capture_output=True, check=True, cwd=Path(__file__).parents[2])
    problem, grown = done.stdout.decode().split()
    return problem, int(grown)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_given_up_at_the_ceiling(name):
    codec, stream = BOMBS[name]
    problem, grown_mib = decompress_in_child(codec, stream, MIB)
    assert problem == ("undecodable-records" if name.endswith("-claim") else "decompression-limit")
    # Two blocks of 4 MiB, lz4's largest, and the allocator's rounding; the bombs expand to 48 MiB and more.
    assert grown_mib <= 16


def test_the_measure_of_memory_sees_a_bomb_go_off():
    codec, stream = BOMBS["lz4"]
    problem, grown_mib = decompress_in_child(codec, stream, 64 * MIB)
    assert problem == "none"
    assert grown_mib >= 40


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("codec", "unit", "lead", "tail"),
    [
        (GZIP, gzip_member(b""), b"", b""),
        (GZIP, gzip_member(b"", name=b"n"), b"", b""),
        (SNAPPY, struct.pack(">i", 3) + snappy.compress(b"x"), XERIAL_HEADER, b""),
        (SNAPPY, XERIAL_HEADER, XERIAL_HEADER, b""),
        (LZ4, struct.pack("<I", 0x80000001) + b"x", LZ4_HEADER, bytes(4)),
        (LZ4, struct.pack("<I", 1) + b"\0", LZ4_HEADER, bytes(4)),
        (ZSTD, zstd_frame(b"x"), b"", b""),
        (ZSTD, struct.pack("<II", 0x184D2A50, 0), b"", b""),
        (ZSTD, bytes(3), ZSTD_MAGIC + b"\0\0", b"\x01\0\0"),
    ],
    ids=["gzip", "gzip-name", "snappy", "xerial", "lz4-stored", "lz4-nothing", "zstd", "skippable", "zstd-blocks"],
)
def test_many_tiny_pieces_take_time_and_memory_in_proportion(codec, unit, lead, tail):
    stream = lead + unit * (MIB // 4 // len(unit)) + tail
    tracemalloc.start()
    decompress(codec, lead + unit * 100 + tail, 2, MIB)
    tracemalloc.reset_peak()
    started = time.process_time()
    out = decompress(codec, stream, 2, 2 * MIB)
    seconds = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(out) < MIB // 4
    assert peak < 6 * MIB
    assert seconds < 10


# Compressed data can be decompressed by the reader that follows Kafka's own.


TARGETS = ["gzip", "gzip:1", "gzip:9", "snappy", "lz4", "lz4:1", "lz4:17", "zstd", "zstd:-5", "zstd:22"]
DATA = [b"", b"x", b"kafka " * 40_000, random.Random(3).randbytes(100_000)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("data", DATA, ids=len)
def test_round_trip(target: str, data: bytes) -> None:
    found = parse_target(target)
    packed = compress(found, data)
    assert bytes(decompress(found.codec, packed, 2, 1 << 20)) == data
    assert bytes(decompress(found.codec, compress(found, memoryview(data)), 2, 1 << 20)) == data


def test_levels_make_a_difference() -> None:
    data = b"".join(b"%d," % (i * i % 9973) for i in range(20_000))
    assert len(compress(parse_target("zstd:19"), data)) < len(compress(parse_target("zstd:1"), data))
    assert len(compress(parse_target("lz4:17"), data)) < len(compress(parse_target("lz4"), data))


def test_defaults_are_kafkas() -> None:
    assert [str(parse_target(name)) for name in ("gzip", "snappy", "lz4", "zstd")] == [
        "gzip:6", "snappy", "lz4:9", "zstd:3",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "none", "brotli", "zstd:", "zstd:23", "gzip:0", "snappy:1", "lz4:x", "zstd:--1"])
def test_what_is_no_codec_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no codec|is no level|has no levels"):
        parse_target(text)


def test_lz4_is_found_while_another_thread_imports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is in sys.modules, and initialised, slightly before its package has it as an attribute."""
    expected = compress(parse_target("lz4:2"), b"records" * 100)
    monkeypatch.delattr(lz4, "frame")
    assert compression.addresses(LZ4)
    assert compress(parse_target("lz4:3"), b"records" * 100)
    assert decompress(3, expected, 2, 1 << 20) == b"records" * 100
