"""Computes digests of a segment in blocks, with several threads: hashing releases the GIL."""

import hashlib
from collections.abc import Iterator
from functools import partial

from kseg.errors import PathError
from kseg.formats.rows import Scratch, int64s
from kseg.kernel.layout.rows import BATCH_FIRST_OFFSET, BATCH_LAST_OFFSET, BATCH_POSITION, BATCH_SIZE, BATCH_WIDTH
from kseg.kernel.state import fingerprints
from kseg.runtime.threads import Pipeline
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.segment.survey import FULL, HeaderRows, SegmentSurvey
from kseg.stores.source import Source
from kseg.verification.manifest.manifest_file import Block

BLOCK_BYTES = 1 << 20
BLOCK_BATCHES = 8192
"""A block ends with the batch that reaches this size, or this number of batches."""

_PIECE_BYTES = 1 << 20


def blocks_of(source: Source, is_07: bool, is_live: bool, scratch: Scratch, pipeline: Pipeline) -> Iterator[Block]:
    """Yields the blocks of a segment, which tile it. Raises PathError if the file shrinks meanwhile."""
    return pipeline.each(
        partial(_block, source, position, end - position, rows, code)
        for position, end, rows, code in _ranges(source, is_07, is_live, scratch)
    )


def sha256_of(source: Source, position: int, size: int) -> bytes:
    """Returns the digest of current bytes of the file; of fewer if it has shrunk."""
    digest = hashlib.sha256()
    end = position + size
    while position < end and (data := source.extent.pread(min(_PIECE_BYTES, end - position), position)):
        digest.update(data)
        position += len(data)
    return digest.digest()


def _ranges(
    source: Source, is_07: bool, is_live: bool, scratch: Scratch
) -> Iterator[tuple[int, int, memoryview | None, str]]:
    """Yields (start, end, rows, code) of each block: the rows of its batches, or None and a code of damage."""
    survey = SegmentSurvey(SegmentReader(source, is_07, 0, is_live, None, scratch), FULL)
    held, start = int64s(0), 0
    for item in survey:
        if isinstance(item, HeaderRows):
            rows = item.rows[: item.count * BATCH_WIDTH]
            held = _joined(held, rows) if len(held) else rows
            while (count := _full_block(held, start)) > 0:
                cut = count * BATCH_WIDTH
                end = _end(held[:cut])
                yield start, end, held[:cut], ""
                held, start = held[cut:], end
        elif isinstance(item, Damage):
            if len(held):
                yield start, item.position, held, ""
                held = held[:0]
            yield item.position, item.end, None, item.code
            start = item.end
    if len(held):
        yield start, _end(held), held, ""


def _joined(first: memoryview, second: memoryview) -> memoryview:
    return memoryview(bytearray(first) + second).cast("q")


def _end(rows: memoryview) -> int:
    last = len(rows) - BATCH_WIDTH
    return int(rows[last + BATCH_POSITION] + rows[last + BATCH_SIZE])


def _full_block(rows: memoryview, start: int) -> int:
    """Returns the number of batches that make a block, 0 if more may be added."""
    count = min(len(rows) // BATCH_WIDTH, BLOCK_BATCHES)
    if count and _end(rows[: count * BATCH_WIDTH]) - start >= BLOCK_BYTES:
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            if _end(rows[: (middle + 1) * BATCH_WIDTH]) - start >= BLOCK_BYTES:
                high = middle
            else:
                low = middle + 1
        return low + 1
    return count if count == BLOCK_BATCHES else 0


def _block(source: Source, position: int, size: int, rows: memoryview | None, code: str) -> Block:
    if rows is None:
        return Block(position, size, sha256_of(source, position, size), code=code)
    data = source.extent.pread(size, position)
    while len(data) < size and (piece := source.extent.pread(size - len(data), position + len(data))):
        data += piece
    if len(data) < size:
        raise PathError(f"{source.path}: became shorter while its digest was made")
    count = len(rows) // BATCH_WIDTH
    packed = bytearray(count * fingerprints.MAX_FINGERPRINT_BYTES)
    written = fingerprints.pack(data, rows, count, position, packed)
    first, last = rows[BATCH_FIRST_OFFSET], rows[len(rows) - BATCH_WIDTH + BATCH_LAST_OFFSET]
    return Block(position, size, hashlib.sha256(data).digest(), count, first, last, bytes(packed[:written]))
