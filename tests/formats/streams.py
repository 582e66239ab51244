"""Compressed streams of each codec, from the libraries and from hand-made frames."""

import struct
import zlib

import lz4.frame
import snappy
import zstandard

from kseg.formats.compression import DecompressionError, decompress

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
MIB = 1 << 20
TEXT = b"a record, another record; " * 400 + bytes(range(256))
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
LZ4_HEADER = bytes.fromhex("04224d18604082")
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
SKIPPABLE = struct.pack("<II", 0x184D2A53, 5) + b"skip!"


def gzip_member(
    data: bytes, name: bytes = b"", comment: bytes = b"", extra: bytes = b"", checked: bool = False
) -> bytes:
    flags = 2 * checked + 4 * bool(extra) + 8 * bool(name) + 16 * bool(comment)
    header = bytes((0x1F, 0x8B, 8, flags)) + bytes(6)
    header += struct.pack("<H", len(extra)) + extra if extra else b""
    header += name + b"\0" if name else b""
    header += comment + b"\0" if comment else b""
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF) if checked else b""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    trailer = struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
    return header + deflate.compress(data) + deflate.flush() + trailer


def flipped(stream: bytes, at: int, bit: int = 1) -> bytes:
    found = bytearray(stream)
    found[at] ^= bit
    return bytes(found)


def xerial(*chunks: bytes, header: bytes = XERIAL_HEADER) -> bytes:
    blocks = [snappy.compress(chunk) for chunk in chunks]
    return header + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def lz4_frame(data: bytes, **options: object) -> bytes:
    return lz4.frame.compress(data, **{"block_linked": False, "store_size": False, **options})


def zstd_frame(data: bytes, **options: bool) -> bytes:
    return zstandard.ZstdCompressor(level=3, **options).compress(data)


def zstd_raw_block(data: bytes, last: bool = True) -> bytes:
    return struct.pack("<I", len(data) << 3 | last)[:3] + data


def problem_of(codec: int, stream: bytes, magic: int = 2, ceiling: int = 64 * MIB) -> str:
    """Returns the problem that `decompress` raises; "" if it succeeds."""
    try:
        decompress(codec, stream, magic, ceiling)
    except DecompressionError as error:
        message, problem = str(error), error.problem
    else:
        return ""
    assert message.splitlines() == [message]
    return problem
