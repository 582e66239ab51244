"""Segments that nothing good is left of: as many bytes as an intact one, wrecked in one way each."""

import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.segments import batches, grown

BLOCK_BYTES = 1 << 20
SPARSE_EVERY = 64
"""Of so many blocks of random bytes, one holds an intact batch."""


def _noise(seed: str, blocks: int = 16) -> list[bytes]:
    """Blocks that are drawn from again and again: true randomness for every byte would take longer than all reading."""
    rng = random.Random(seed)
    return [rng.randbytes(BLOCK_BYTES) for _ in range(blocks)]


def randomly(_path: Path, size: int) -> Iterator[bytes]:
    rng, blocks = random.Random(1), _noise("random")
    for _ in range(size // BLOCK_BYTES):
        at = rng.randrange(BLOCK_BYTES)
        block = rng.choice(blocks)
        yield block[at:] + block[:at]


def repeated(byte: int) -> Callable[[Path, int], Iterator[bytes]]:
    def blocks(_path: Path, size: int) -> Iterator[bytes]:
        for _ in range(size // BLOCK_BYTES):
            yield bytes([byte]) * BLOCK_BYTES

    return blocks


def sparsely(path: Path, size: int) -> Iterator[bytes]:
    """Random bytes, and here and there an intact batch."""
    with path.open("rb") as file:
        real = file.read(BLOCK_BYTES)
    at, length = batches(real)[0][:2]
    for k, block in enumerate(randomly(path, size)):
        yield block[:-length] + real[at : at + length] if k % SPARSE_EVERY == 0 else block


def flipped(anywhere: bool) -> Callable[[Path, int], Iterator[bytes]]:
    """One byte wrong in every batch: in the last of it, or ``anywhere``."""

    def blocks(path: Path, _size: int) -> Iterator[bytes]:
        rng = random.Random(2)
        data = bytearray(path.read_bytes())
        for position, size, _ in batches(data):
            data[position + (rng.randrange(size) if anywhere else size - 1)] ^= 0x55
        yield bytes(data)

    return blocks


def _header(offset: int, claim: int, magic: int, crc: bytes) -> bytes:
    """Of a batch or an uncompressed message without key of ``claim`` bytes behind its length; 61, 34 or 26 bytes."""
    head = offset.to_bytes(8, "big") + claim.to_bytes(4, "big")
    if magic == 2:
        return head + bytes(4) + b"\2" + crc + bytes(22) + b"\xff" * 14 + bytes(3) + b"\1"
    timestamp = bytes(8 * magic)
    value_bytes = max(claim - 14 - len(timestamp), 0)
    return head + crc + bytes([magic, 0]) + timestamp + b"\xff" * 4 + value_bytes.to_bytes(4, "big")


def headers(step: int, magic: int) -> Callable[[Path, int], Iterator[bytes]]:
    """Headers in each of which nothing but the checksum is wrong, every ``step`` bytes, that claim all behind them."""

    def blocks(_path: Path, size: int) -> Iterator[bytes]:
        rng, out, at = random.Random(3), bytearray(), 0
        while at < size:
            claim = max(min(size - at - 12, (1 << 31) - 1), 0)
            out += _header(at, claim, magic, rng.randbytes(4)).ljust(step, b"\xff")
            at += step
            if len(out) >= BLOCK_BYTES:
                yield bytes(out)
                out.clear()
        yield bytes(out)

    return blocks


def _sealed(frame: bytes, magic: int) -> bytes:
    """The frame with the checksum that its bytes want."""
    from crc32c import crc32c

    at, crc = (17, crc32c(frame[21:])) if magic == 2 else (12, zlib.crc32(frame[16:]))
    return frame[:at] + crc.to_bytes(4, "big") + frame[at + 4 :]


def overlapping(magic: int, reach: int) -> Callable[[Path, int], Iterator[bytes]]:
    """Headers as above, at distances of which none follows from another; each claims to end where one of the next
    ``reach`` headers begins, so that whatever it is followed to looks sound. Random bytes lie between them.

    With a ``reach`` of 0 they are what they claim to be, intact frames: what the others are to be compared with.
    """

    def blocks(_path: Path, size: int) -> Iterator[bytes]:
        rng, least = random.Random(4), len(_header(0, 0, magic, bytes(4)))
        noise = _noise("between", 1)[0]
        starts = [0]
        while starts[-1] < size:
            starts.append(starts[-1] + rng.randrange(least, 4 * least))
        last, out = len(starts) - 1, bytearray()
        for number, start in enumerate(starts[:-1]):
            end = starts[min(number + 1 + (rng.randrange(reach) if reach else 0), last)]
            between = rng.randrange(BLOCK_BYTES // 2)
            head = _header(number, end - start - 12, magic, rng.randbytes(4))
            body = noise[between : between + starts[number + 1] - start - least]
            out += head + body if reach else _sealed(head + body, magic)
            if len(out) >= BLOCK_BYTES:
                yield bytes(out)
                out.clear()
        yield bytes(out)

    return blocks


WRECKS: dict[str, tuple[str, Callable[[Path, int], Iterator[bytes]]]] = {
    "random": (".log", randomly),
    "zeros": (".log", repeated(0)),
    "ones": (".log", repeated(1)),
    "twos": (".log", repeated(2)),
    "sparse": (".log", sparsely),
    "last byte": (".log", flipped(False)),
    "any byte": (".log", flipped(True)),
    "v2 headers": (".log", headers(61, 2)),
    "v0 headers": (".log", headers(26, 0)),
    "v1 headers": (".log", headers(34, 1)),
    "v2 frames": (".log", overlapping(2, 0)),
    "v2 overlapping": (".log", overlapping(2, 3000)),
    "v2 overlapping, far": (".log", overlapping(2, 300_000)),
    "v1 frames": (".log", overlapping(1, 0)),
    "v1 overlapping": (".log", overlapping(1, 3000)),
    "v0 frames": (".log", overlapping(0, 0)),
    "v0 overlapping": (".log", overlapping(0, 3000)),
    "0.7 random": (".kafka", randomly),
    "0.7 zeros": (".kafka", repeated(0)),
}


def wrecked(seeds: Path, kind: str, wreck: str, mib: int, folder: Path) -> Path:
    """A file as large as ``grown`` makes one of that kind of batches, wrecked in one way; made when first asked for."""
    suffix, blocks = WRECKS[wreck]
    intact = grown(seeds, kind, mib, folder)
    path = folder / f"{kind}-{mib}-{wreck.replace(', ', '-').replace(' ', '-')}" / f"{0:020}{suffix}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as out:
            for block in blocks(intact, intact.stat().st_size):
                out.write(block)
        part.rename(path)
    return path
