"""Checksums, each path of this machine against a CRC computed bit by bit, and CRCs of ranges out of prefix CRCs."""

import mmap
import platform
import random
import re
import struct
from pathlib import Path

import pytest

from kseg.kernel import COMPILED
from kseg.kernel.layout import rows as native
from kseg.kernel.render.lines import use_loops
from kseg.kernel.scan import checksums as checksum

CASTAGNOLI, IEEE = 0x82F63B78, 0xEDB88320
AT_HWCAP = 16
SEEDS = (0, 1, 0xFFFFFFFF, 0xFFFFFFF0, 0x80000000)
BEST = {CASTAGNOLI: checksum.crc32c, IEEE: checksum.crc32}


def bitwise_prefixes(polynomial, data, crc=0):
    """Yields the finalised CRC of each prefix of ``data``, the empty one first."""
    register = ~crc & 0xFFFFFFFF
    yield crc
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ polynomial if register & 1 else register >> 1
        yield ~register & 0xFFFFFFFF


def compute_by(polynomial, path, data, crc=0):
    checksum.use_path(path)
    found = BEST[polynomial](data, crc)
    checksum.use_path(checksum.implementation())
    return found


@pytest.fixture(scope="module")
def noise():
    return random.Random(20260817).randbytes(300_000)


polynomials = pytest.mark.parametrize("polynomial", [CASTAGNOLI, IEEE], ids=["crc32c", "crc32"])
every_path = pytest.mark.parametrize("path", checksum.paths())


@every_path
def test_check_values(path):
    assert compute_by(CASTAGNOLI, path, b"123456789") == 0xE3069283
    assert compute_by(IEEE, path, b"123456789") == 0xCBF43926


@pytest.mark.sampled(3)
@every_path
@polynomials
def test_every_short_length_at_every_alignment(path, polynomial, noise):
    view = memoryview(noise)
    for start in range(64):
        seed = SEEDS[start % len(SEEDS)]
        for n, expected in enumerate(bitwise_prefixes(polynomial, noise[start : start + 700], seed)):
            assert compute_by(polynomial, path, view[start : start + n], seed) == expected, (start, n, seed)


@pytest.mark.sampled(3)
@every_path
@polynomials
def test_long_lengths(path, polynomial, noise):
    choose, view = random.Random(7), memoryview(noise)
    for longest, every in ((5000, 3), (5000, 1), (20_000, 97), (200_000, 9973)):
        start, seed = choose.randrange(1000), choose.getrandbits(32)
        for n, expected in enumerate(bitwise_prefixes(polynomial, noise[start : start + longest], seed)):
            if n % every == 0 or n == longest:
                assert compute_by(polynomial, path, view[start : start + n], seed) == expected, (start, n, seed)


@polynomials
def test_all_paths_agree_on_random_ranges(polynomial, noise):
    choose, view = random.Random(11), memoryview(noise)
    for _ in range(3000):
        start, seed = choose.randrange(5000), choose.getrandbits(32)
        n = choose.randrange(choose.choice((64, 600, 5000)))
        (head,) = {compute_by(polynomial, path, view[start : start + n], seed) for path in checksum.paths()}
        middle = start + choose.randint(0, n)
        assert BEST[polynomial](view[middle : start + n], BEST[polynomial](view[start:middle], seed)) == head


@polynomials
def test_kinds_of_buffer(polynomial, noise, tmp_path):
    path = tmp_path / "noise"
    path.write_bytes(noise[:5001])
    *_, expected = bitwise_prefixes(polynomial, noise[:5001])
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        kinds = [noise[:5001], bytearray(noise[:5001]), memoryview(noise)[:5001], mapped]
        assert [BEST[polynomial](kind) for kind in kinds] == [expected] * 4
    assert BEST[polynomial](b"") == 0
    assert BEST[polynomial](b"", 0xFFFFFFFF) == 0xFFFFFFFF


def test_implementation_is_the_last_path():
    assert checksum.implementation() == checksum.paths()[-1]
    assert (checksum.paths()[0] == "table") == COMPILED
    with pytest.raises(ValueError):
        checksum.use_path("abacus")


def cpu_flags():
    """What this processor can do, as Linux names it; nothing elsewhere."""
    if platform.machine() == "aarch64":
        # An emulator has auxiliary vectors of its own, but may show the host's /proc/cpuinfo.
        file = Path("/proc/self/auxv")
        entries = dict(struct.iter_unpack("=QQ", file.read_bytes())) if file.exists() else {}
        return {"crc32"} if entries.get(AT_HWCAP, 0) >> 7 & 1 else set()
    file = Path("/proc/cpuinfo")
    return set(re.findall(r"\w+", file.read_text())) if file.exists() else set()


@pytest.mark.skipif(
    not (COMPILED and cpu_flags()), reason="no paths to choose from, or no Linux to tell what there should be"
)
def test_every_path_that_the_processor_can_run_is_offered():
    """Else no test would run it."""
    flags, machine = cpu_flags(), platform.machine()
    expected = ["table"]
    expected += ["sse42"] * (machine == "x86_64" and {"sse4_2", "pclmulqdq"} <= flags)
    expected += ["armv8"] * (machine == "aarch64" and "crc32" in flags)
    assert checksum.paths() == tuple(expected)
    level = int(machine == "x86_64" and "avx2" in flags)
    assert use_loops(1) == level


# Of the interpreted twins; tests of scan.frames find frames by those of C.
ranges = pytest.mark.parametrize("polynomial, compute", [(CASTAGNOLI, native.crc32c_range), (IEEE, native.crc32_range)])


@ranges
def test_range_is_the_crc_of_the_bytes_between(polynomial, compute, noise):
    choose, view = random.Random(3), memoryview(noise)
    for _ in range(300):
        start = choose.randrange(len(noise))
        end = choose.choice((start, start + 1, choose.randrange(start, len(noise)), min(start + 256, len(noise))))
        prefixes = BEST[polynomial](view[:start]), BEST[polynomial](view[:end])
        assert compute(*prefixes, end - start) == BEST[polynomial](view[start:end]), (start, end)


def carry_less(a, b, modulus):
    """a * b modulo ``modulus``, polynomials with bit i for x^i: not the order of bits that the kernel computes in."""
    product = 0
    for i in range(b.bit_length()):
        product ^= (a << i) * (b >> i & 1)
    while product.bit_length() > 32:
        product ^= modulus << (product.bit_length() - modulus.bit_length())
    return product


def mirrored(word):
    return int(f"{word:032b}"[::-1], 2)


@ranges
def test_range_over_lengths_that_no_test_could_read(polynomial, compute):
    modulus = 1 << 32 | mirrored(polynomial)
    choose = random.Random(5)
    for n in [2**31 - 1, 2**32 - 1, 2**31, *(choose.getrandbits(32) for _ in range(40))]:
        before, through = choose.getrandbits(32), choose.getrandbits(32)
        power, square, bits = 1, 2, 8 * n
        while bits:
            power = carry_less(power, square, modulus) if bits & 1 else power
            square, bits = carry_less(square, square, modulus), bits >> 1
        expected = through ^ mirrored(carry_less(mirrored(before), power, modulus))
        assert compute(before, through, n) == expected, (before, through, n)


def test_interpreted_twins_compute_the_same(noise):
    for n in (0, 1, 9, 1000):
        assert native.crc32c(5, noise, 3, 3 + n) == checksum.crc32c(noise[3 : 3 + n], 5)
        assert native.crc32(5, noise, 3, 3 + n) == checksum.crc32(noise[3 : 3 + n], 5)
    assert native.crc32c(5, noise, 3, 2) == native.crc32(5, noise, 3, 2) == 5


def test_interpreted_loads_are_signed_and_big_endian():
    packed = struct.pack(">xhiq", -2, -3, -4)
    assert (native.be16(packed, 1), native.be32(packed, 3), native.be64(packed, 7)) == (-2, -3, -4)
