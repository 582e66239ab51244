"""The format of a manifest: digests of segments as JSON Lines, and how they are computed.

    {"type":"manifest","version":1}
    {"type":"segment","file","size"}                             of each file, then its blocks
    {"type":"block","position","size","sha256","count","firstOffset","lastOffset","batches"}
    {"type":"damage","position","size","sha256","code"}          bytes that belong to no batch
    {"type":"total","files","bytes","batches","sha256"}          sha256: of all lines before

A block has adjacent batches of up to about 1 MiB. Its SHA-256 shows whether it has changed; ``batches``, the base64 of
their fingerprints (`kseg.kernel.state.fingerprints`), shows which batches have. Paths are relative to the PATH of the
manifest, so that an archive can be moved.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, NamedTuple

from kseg.errors import PathError
from kseg.formats.json_values import bytes_value
from kseg.formats.rows import Scratch, int64s
from kseg.kernel.layout.rows import BATCH_FIRST_OFFSET, BATCH_LAST_OFFSET, BATCH_POSITION, BATCH_SIZE, BATCH_WIDTH
from kseg.kernel.state import fingerprints
from kseg.runtime.threads import Pipeline
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.segment.survey import FULL, HeaderRows, SegmentSurvey
from kseg.stores.source import Source

VERSION = 1
MAX_LINE_BYTES = 1 << 20
_LOW_64_BITS = (1 << 64) - 1


class ManifestBatch(NamedTuple):
    """One batch of a block: position and size in bytes, last offset (-1 for damage), CRC-32C of all its bytes."""

    position: int
    size: int
    last_offset: int
    crc: int

    @property
    def end(self) -> int:
        return self.position + self.size


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes ``[position, position + size)`` of a file. For damage ``count`` is 0, and ``code`` is its kind."""

    position: int
    size: int
    sha256: bytes
    count: int = 0
    first_offset: int = -1
    last_offset: int = -1
    fingerprints: bytes = b""
    code: str = ""

    def batches(self) -> Iterator[ManifestBatch]:
        """Yields its batches in order; for damage one entry for all its bytes.

        Raises ValueError if the fingerprints end inside a number.
        """
        if not self.fingerprints:
            yield ManifestBatch(self.position, self.size, -1, int.from_bytes(self.sha256[:4], "little"))
            return
        at, position, last = 0, self.position, 0
        for _ in range(self.count):
            size, at = _varint(self.fingerprints, at)
            delta, at = _varint(self.fingerprints, at)
            last = (last + (delta >> 1 ^ -(delta & 1)) + (1 << 63) & _LOW_64_BITS) - (1 << 63)
            crc = int.from_bytes(self.fingerprints[at : at + 4], "little")
            at += 4
            yield ManifestBatch(position, size, last, crc)
            position += size

    def is_sound(self) -> bool:
        """Whether the fingerprints of an untrusted file are consistent."""
        try:
            ends = [batch.end for batch in self.batches()]
        except ValueError:
            return False
        return len(ends) == max(self.count, 1) and ends[-1] == self.position + self.size and len(self.sha256) == 32

    def line(self) -> dict[str, Any]:
        """Returns the block as an object of the manifest."""
        row: dict[str, Any] = {"type": "damage" if self.code else "block", "position": self.position, "size": self.size}
        row["sha256"] = self.sha256.hex()
        if self.code:
            row["code"] = self.code
        else:
            row |= {"count": self.count, "firstOffset": self.first_offset, "lastOffset": self.last_offset}
            row["batches"] = b64encode(self.fingerprints).decode()
        return row


@dataclass(slots=True)
class ManifestSegment:
    """A segment of a manifest: its relative path as bytes, and its size."""

    name: bytes
    size: int
    blocks: Iterator[Block] = field(default_factory=lambda: iter(()))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    raise ValueError("a number has no end")


class ManifestLines:
    """Builds the lines of a manifest."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.files = self.bytes = self.batches = 0

    def head(self) -> bytes:
        return self._line({"type": "manifest", "version": VERSION})

    def segment(self, name: bytes, size: int) -> bytes:
        self.files += 1
        self.bytes += size
        return self._line({"type": "segment", "file": bytes_value(name), "size": size})

    def block(self, block: Block) -> bytes:
        self.batches += block.count
        return self._line(block.line())

    def total(self) -> bytes:
        row = {"type": "total", "files": self.files, "bytes": self.bytes, "batches": self.batches}
        return self._line(row | {"sha256": self._sha256.hexdigest()})

    def _line(self, row: dict[str, Any]) -> bytes:
        line = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self._sha256.update(line)
        return line


class ManifestReader:
    """Reads a manifest from a file. Raises PathError if it is not a manifest, or was truncated or edited."""

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self._stream = stream
        self._path = path
        self._number = 0
        self._sha256 = hashlib.sha256()
        self._ahead: dict[str, Any] | None = None
        head = self._next()
        if head.get("type") != "manifest":
            raise self._error("this is no manifest")
        if head.get("version") != VERSION:
            raise self._error(f"a manifest of version {head.get('version')!r:.20}, known is {VERSION}")

    def entries(self) -> Iterator[ManifestSegment]:
        """Yields the segments. The blocks of each can be read only before the next segment is requested."""
        row = self._next()
        while row.get("type") == "segment":
            entry = ManifestSegment(self._name(row), self._number_of(row, "size"))
            entry.blocks = self._blocks(entry)
            yield entry
            for _ in entry.blocks:
                pass
            row = self._take()
        if row.get("type") != "total":
            raise self._error("a line of an unexpected type")
        if self._stream.readline(1):
            raise self._error("lines follow the last one")

    def _blocks(self, entry: ManifestSegment) -> Iterator[Block]:
        position = 0
        while True:
            row = self._next()
            if row.get("type") not in ("block", "damage"):
                self._ahead = row
                return
            block = self._block(row)
            if block.position != position:
                raise self._error(f"a block at {block.position}, expected at {position}")
            position += block.size
            if position > entry.size:
                raise self._error("the blocks of a segment are longer than it")
            yield block

    def _block(self, row: dict[str, Any]) -> Block:
        position, size = self._number_of(row, "position"), self._number_of(row, "size")
        try:
            digest = bytes.fromhex(row["sha256"])
            if row["type"] == "damage":
                return Block(position, size, digest, code=str(row["code"]))
            first, last = int(row["firstOffset"]), int(row["lastOffset"])
            packed = b64decode(row["batches"], validate=True)
            return Block(position, size, digest, self._number_of(row, "count"), first, last, packed)
        except (KeyError, TypeError, ValueError, Base64Error) as error:
            raise self._error("a block with a missing or wrong field") from error

    def _take(self) -> dict[str, Any]:
        row, self._ahead = self._ahead, None
        return self._next() if row is None else row

    def _next(self) -> dict[str, Any]:
        self._number += 1
        line = self._stream.readline(MAX_LINE_BYTES)
        if not line:
            raise self._error("the manifest ends before its last line")
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._error("this is no JSON object") from error
        if not isinstance(row, dict):
            raise self._error("this is no JSON object")
        if row.get("type") == "total" and row.get("sha256") != self._sha256.hexdigest():
            raise self._error("the lines before are not those that were written: their SHA-256 is another")
        self._sha256.update(line)
        return row

    def _number_of(self, row: dict[str, Any], name: str) -> int:
        value = row.get(name)
        if not isinstance(value, int) or not 0 <= value < 1 << 63:
            raise self._error(f"{name} is no number of bytes")
        return value

    def _name(self, row: dict[str, Any]) -> bytes:
        value = row.get("file")
        try:
            if isinstance(value, str):
                return value.encode()
            if isinstance(value, dict) and isinstance(value.get("base64"), str):
                return b64decode(value["base64"], validate=True)
        except ValueError as error:
            raise self._error("a wrong name") from error
        raise self._error("a segment without a name")

    def _error(self, text: str) -> PathError:
        return PathError(f"{self._path}: line {self._number}: {text}")


# Computes digests of a segment in blocks, with several threads: hashing releases the GIL.

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
