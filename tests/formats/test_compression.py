"""Decompression: results of Kafka's own reader for real streams, all options of the codecs, and malformed bytes."""

import csv
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

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
    gzip_member,
    lz4_frame,
    problem_of,
    xerial,
    zstd_frame,
    zstd_raw_block,
)
from kseg.formats.compression import CODEC_NAMES, decompress

TESTDATA = Path(__file__).parents[2] / "testdata" / "compression"
CASES = list(csv.DictReader((TESTDATA / "cases.tsv").read_text(encoding="ascii").splitlines(), delimiter="\t"))


def real_streams() -> list:
    return [pytest.param(case, id=case["file"].removesuffix(".bin")) for case in CASES]


def read_case(case: dict[str, str]) -> tuple[int, bytes, int]:
    return int(case["codec"]), (TESTDATA / case["file"]).read_bytes(), int(case["magic"])


# real streams --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", real_streams())
@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_real_stream_gives_what_kafka_reads(case, view):
    codec, stream, magic = read_case(case)
    out = decompress(codec, view(stream), magic, 64 * MIB)
    assert (len(out), zlib.crc32(out)) == (int(case["size"]), int(case["crc32"]))
    assert isinstance(out, bytes | bytearray)


@pytest.mark.parametrize("case", real_streams())
def test_the_ceiling_is_exact(case):
    codec, stream, magic = read_case(case)
    size = int(case["size"])
    assert len(decompress(codec, stream, magic, size)) == size
    assert problem_of(codec, stream, magic, size - 1) == "decompression-limit"


@pytest.mark.parametrize("case", real_streams())
def test_a_real_stream_cut_anywhere_is_undecodable(case):
    codec, stream, magic = read_case(case)
    # A xerial stream may end before any chunk, even inside the length of one: SnappyInputStream stops silently there.
    # An empty zstd stream has no frame, which is no error to zstd-jni.
    clean = range(16, 20) if stream.startswith(b"\x82SNAPPY\0") else range(int(codec == ZSTD))
    for length in range(len(stream)):
        expected = "" if length in clean else "undecodable-records"
        assert problem_of(codec, stream[:length], magic) == expected, length


@pytest.mark.parametrize("case", real_streams())
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


def test_codec_names_are_by_id():
    assert CODEC_NAMES == ("none", "gzip", "snappy", "lz4", "zstd")


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
    ids=[
        "bare",
        "bare-short",
        "bare-empty",
        "header",
        "chunks",
        "again",
        "again-empty",
        "rest",
        "version-0",
        "magic",
        "many",
    ],
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


def test_zstd_empty_stream_is_no_error():
    assert decompress(ZSTD, b"", 2, 0) == b""


def test_zstd_in_several_threads_at_once():
    frames = [(bytes((i,)) * 5000 + TEXT, zstd_frame(bytes((i,)) * 5000 + TEXT)) for i in range(8)]
    wrong = []

    def work(data, frame):
        wrong.extend(i for i in range(200) if decompress(ZSTD, frame, 2, MIB) != data)

    threads = [threading.Thread(target=work, args=pair) for pair in frames]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


LEADS = [
    b"",
    b"\x1f\x8b\x08\0",
    XERIAL_HEADER,
    LZ4_HEADER,
    b"\x04\x22\x4d\x18",
    ZSTD_MAGIC,
    ZSTD_MAGIC + b"\x20",
    SKIPPABLE,
]


@given(codec=st.integers(0, 7), magic=st.sampled_from([-7, 0, 1, 2]), lead=st.sampled_from(LEADS), rest=st.binary())
def test_random_bytes_raise_nothing_else(codec, magic, lead, rest):
    problem_of(codec, lead + rest, magic, MIB)


@given(
    codec=st.sampled_from([GZIP, SNAPPY, LZ4, ZSTD]),
    data=st.binary(max_size=4000),
    cut=st.integers(0, 4000),
    junk=st.binary(max_size=40),
)
def test_junk_inside_a_good_stream_raises_nothing_else(codec, data, cut, junk):
    encode = {GZIP: gzip_member, SNAPPY: xerial, LZ4: lz4_frame, ZSTD: zstd_frame}[codec]
    stream = encode(data)
    assert decompress(codec, stream, 2, 4000) == data
    problem_of(codec, stream[:cut] + junk + stream[cut:], 2, MIB)
