"""Memory and time of decompression are proportional to the input and limited by the ceiling, whatever is claimed."""

import struct
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
import snappy

from formats.streams import (
    GZIP,
    LZ4,
    LZ4_HEADER,
    MIB,
    SNAPPY,
    XERIAL_HEADER,
    ZSTD,
    ZSTD_MAGIC,
    gzip_member,
    lz4_frame,
    xerial,
    zstd_frame,
)
from kseg.formats.compression import decompress

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
from kseg.formats.compression import decompress
from kseg.formats.decompressed import DecompressionError

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
