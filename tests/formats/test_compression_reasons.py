"""The reason that each malformed stream is refused for: the first rule that it breaks, with its numbers."""

import struct

import pytest

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
    xerial,
    zstd_frame,
)
from kseg.formats.compression import KAFKA_0_7, decompress
from kseg.formats.decompressed import DecompressionError

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


def flipped(stream: bytes, at: int) -> bytes:
    found = bytearray(stream)
    found[at] ^= 1
    return bytes(found)


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
        (bytes.fromhex("04224d18404082"), "blocks that depend on each other"),
        (bytes.fromhex("04224d18603082"), "block descriptor 0x30"),
        (bytes.fromhex("04224d1860c082"), "block descriptor 0xc0"),
        (bytes.fromhex("04224d18604182"), "block descriptor 0x41"),
        (lz4_frame(TEXT, store_size=True)[:14], "stream ends in its header"),
        (flipped(LZ4_HEADER, 6), "header checksum mismatch"),
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


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_ceiling(codec: int) -> None:
    streams = {GZIP: gzip_member(TEXT), SNAPPY: xerial(TEXT), LZ4: lz4_frame(TEXT), ZSTD: zstd_frame(TEXT)}
    most = len(TEXT) - 1
    assert reason(codec, streams[codec], ceiling=most) == f"records decompress to more than {most} bytes"
    assert decompress(codec, streams[codec], 2, most + 1) == TEXT


def test_the_largest_claims_that_are_tried() -> None:
    """Each of these is refused by its library only."""
    assert "claims" not in reason(SNAPPY, b"\x2c\x00")
    assert decompress(ZSTD, SIZED + b"\5" + block(5) + b"five!", 2, 5) == b"five!"
    assert decompress(ZSTD, SIZED + b"\5" + block(5, 1) + b"x", 2, 5) == b"xxxxx"
