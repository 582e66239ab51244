"""Compressed data can be decompressed by the reader that follows Kafka's own."""

import random

import lz4
import pytest

from kseg.formats import codec_libraries
from kseg.formats.compressing import compress, parse_target
from kseg.formats.compression import LZ4, decompress

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
    assert codec_libraries.addresses(LZ4)
    assert compress(parse_target("lz4:3"), b"records" * 100)
    assert decompress(3, expected, 2, 1 << 20) == b"records" * 100
