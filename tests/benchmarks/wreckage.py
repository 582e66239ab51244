"""Segments that nothing good is left of: as many bytes as an intact one, wrecked in one way each."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.segments import batches, grown

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


def headers(step: int, magic: int) -> Callable[[Path, int], Iterator[bytes]]:
    """Headers in each of which nothing but the checksum is wrong, every ``step`` bytes, that claim all behind them."""

    def blocks(_path: Path, size: int) -> Iterator[bytes]:
        rng, out, at = random.Random(3), bytearray(), 0
        while at < size:
            claim = min(size - at - 12, (1 << 31) - 1)
            head = at.to_bytes(8, "big") + max(claim, 0).to_bytes(4, "big")
            if magic == 2:
                head += bytes(4) + b"\2" + rng.randbytes(4) + bytes(22) + b"\xff" * 14 + bytes(3) + b"\1"
            else:
                head += rng.randbytes(4) + bytes(2) + b"\xff" * 4 + max(claim - 14, 0).to_bytes(4, "big")
            out += head.ljust(step, b"\xff")
            at += step
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
    "0.7 random": (".kafka", randomly),
    "0.7 zeros": (".kafka", repeated(0)),
}


def wrecked(seeds: Path, kind: str, wreck: str, mib: int, folder: Path) -> Path:
    """A file as large as ``grown`` makes one of that kind of batches, wrecked in one way; made when first asked for."""
    suffix, blocks = WRECKS[wreck]
    intact = grown(seeds, kind, mib, folder)
    path = folder / f"{kind}-{mib}-{wreck.replace(' ', '-')}" / f"{0:020}{suffix}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as out:
            for block in blocks(intact, intact.stat().st_size):
                out.write(block)
        part.rename(path)
    return path
