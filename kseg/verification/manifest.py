"""Writes digests of segments to a manifest, and checks the segments against it later (bit rot, tampering).

A batch's own checksum does not cover its first 21 bytes (v2; 16 of v0 and v1), and after a deliberate change it can
be recomputed. A manifest covers every byte, of side files by one digest each. It is JSON Lines:

    {"type":"manifest","version":2}
    {"type":"segment","file","size"}                             of each file, then its blocks
    {"type":"block","position","size","sha256","count","firstOffset","lastOffset","batches"}
    {"type":"damage","position","size","sha256","code"}          bytes that belong to no batch
    {"type":"file","file","size","sha256"}                       of each side file, after all segments
    {"type":"total","files","bytes","batches","sha256"}          sha256: of all lines before

A block has adjacent batches of up to about 1 MiB. Its SHA-256 shows whether it has changed; ``batches``, the base64 of
their fingerprints (`kseg.kernel.scan.headers`), shows which batches have. Paths are relative to the PATH of the
manifest, or to the directory around all its PATHs, so that an archive can be moved. Version 1 has no side files.
"""

import hashlib
import json
import os
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

from kseg.errors import PathError, RequestError, errors_at
from kseg.findings.table import INFO
from kseg.formats.json_values import bytes_value
from kseg.formats.rows import Scratch, int64s
from kseg.kernel.scan.checksums import crc32c
from kseg.kernel.scan.headers import MAX_FINGERPRINT_BYTES, pack_fingerprints
from kseg.node.paths import expanded
from kseg.quantities import plural, shown_bytes
from kseg.runtime.threads import Pipeline
from kseg.segment.files import LOCK_NAME, OWN_PREFIX, SegmentFile, is_regular_file
from kseg.segment.items import Damage
from kseg.segment.paths import expand_path, segments_at
from kseg.segment.reader import SegmentReader
from kseg.segment.survey import FULL, HeaderRows, SegmentSurvey
from kseg.stores.place import Place
from kseg.stores.source import Source, is_stream, open_source
from kseg.verification.partition import CheckSettings
from kseg.verification.report import Advance, Report

VERSION = 2
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


class ManifestReader:
    """Reads a manifest from a file. Raises PathError if it is not a manifest, or was truncated or edited."""

    def __init__(self, stream: BinaryIO, path: str) -> None:
        self._stream, self._path, self._number = stream, path, 0
        self._sha256 = hashlib.sha256()
        self._row = self._next()
        if self._row.get("type") != "manifest":
            raise self._error("this is no manifest")
        version = self._row.get("version")
        if not isinstance(version, int) or not 1 <= version <= VERSION:
            raise self._error(f"a manifest of version {version!r:.20}, known are 1 to {VERSION}")
        self.version = version
        self.side_files: dict[bytes, tuple[int, str]] = {}
        """Size and SHA-256 of the side files, complete after the last of `segments`."""

    def segments(self) -> Iterator[tuple[bytes, int, Iterator[Block]]]:
        """Yields the relative path, the size and the blocks of each segment. Blocks can be read only before the next
        segment is requested."""
        self._row = self._next()
        while self._row.get("type") == "segment":
            name, size = self._name(self._row), self._number_of(self._row, "size")
            blocks = self._blocks(size)
            yield name, size, blocks
            for _ in blocks:
                pass
        while self._row.get("type") == "file" and self.version > 1:
            self.side_files[self._name(self._row)] = self._number_of(self._row, "size"), str(self._row.get("sha256"))
            self._row = self._next()
        if self._row.get("type") != "total":
            raise self._error("a line of an unexpected type")
        if self._stream.readline(1):
            raise self._error("lines follow the last one")

    def _blocks(self, segment_size: int) -> Iterator[Block]:
        position = 0
        while (row := self._next()).get("type") in ("block", "damage"):
            block = self._block(row)
            if block.position != position:
                raise self._error(f"a block at {block.position}, expected at {position}")
            position += block.size
            if position > segment_size:
                raise self._error("the blocks of a segment are longer than it")
            yield block
        self._row = row

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

    def _next(self) -> dict[str, Any]:
        self._number += 1
        line = self._stream.readline(MAX_LINE_BYTES)
        if not line:
            raise self._error("the manifest ends before its last line")
        row = None
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
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


BLOCK_BYTES = 1 << 20
BLOCK_BATCHES = 8192
"""A block ends with the batch that reaches this size, or this number of batches."""

_PIECE_BYTES = 1 << 20


def blocks_of(source: Source, is_07: bool, is_live: bool, scratch: Scratch, pipeline: Pipeline) -> Iterator[Block]:
    """Yields the blocks of a segment, which tile it; several threads compute their digests, as hashing releases the
    GIL. Raises PathError if the file shrinks meanwhile."""
    return pipeline.each(partial(_block, source, part) for part in _parts(source, is_07, is_live, scratch))


def sha256_of(source: Source, position: int, size: int) -> bytes:
    """Returns the digest of current bytes of the file; of fewer if it has shrunk."""
    digest, end = hashlib.sha256(), position + size
    while position < end and (data := source.extent.pread(min(_PIECE_BYTES, end - position), position)):
        digest.update(data)
        position += len(data)
    return digest.digest()


def _parts(source: Source, is_07: bool, is_live: bool, scratch: Scratch) -> Iterator[HeaderRows | Damage]:
    """Yields the batches of each block, and the damage between them."""
    survey = SegmentSurvey(SegmentReader(source, is_07, 0, is_live, None, scratch), FULL)
    held = HeaderRows(int64s(0), 0)
    for item in survey:
        if isinstance(item, HeaderRows):
            held = held.followed_by(item) if held.count else item
            while (count := _full_block(held)) > 0:
                yield held.part(0, count)
                held = held.part(count, held.count)
        elif isinstance(item, Damage):
            if held.count:
                yield held
                held = held.part(0, 0)
            yield item
    if held.count:
        yield held


def _full_block(headers: HeaderRows) -> int:
    """Returns the number of batches that make a block, 0 if more may be added."""
    numbers = range(min(headers.count, BLOCK_BATCHES))
    if not numbers:
        return 0
    before = bisect_left(numbers, headers[0].position + BLOCK_BYTES, key=lambda i: headers[i].end)
    if before < len(numbers):
        return before + 1
    return before if before == BLOCK_BATCHES else 0


def _block(source: Source, part: HeaderRows | Damage) -> Block:
    if isinstance(part, Damage):
        digest = sha256_of(source, part.position, part.length)
        return Block(part.position, part.length, digest, code=part.code)
    first, last = part[0], part[-1]
    data = source.extent.read(first.position, last.end)
    if len(data) < last.end - first.position:
        raise PathError(f"{source.path}: became shorter while its digest was made")
    packed = bytearray(part.count * MAX_FINGERPRINT_BYTES)
    written = pack_fingerprints(data, part.rows, part.count, first.position, packed)
    digest, fingerprints = hashlib.sha256(data).digest(), bytes(packed[:written])
    return Block(first.position, len(data), digest, part.count, first.first_offset, last.last_offset, fingerprints)


MAX_KEPT_BATCHES = 200_000
"""Limit of reported batches that differ, and of aligned batches after the first one; more are only counted."""


def _compare_segment(
    path: str, size: int, blocks: Iterator[Block], is_07: bool, max_batch_bytes: int, pipeline: Pipeline, report: Report
) -> None:
    """Compares a segment with its size and blocks in a manifest: batches changed, missing or added.

    Blocks are compared at their positions. Only if the end of the file shows that bytes moved because batches were
    removed or inserted, the batches of both are aligned by their fingerprints. Raises PathError if the segment cannot
    be read, or the manifest ends early or is inconsistent.
    """
    with open_source(path) as source:
        # The batches that have changed, the number of those not kept, and the end of the last one.
        differing, more, differs_to = list[ManifestBatch](), 0, 0
        kept, left, end = list[Block](), MAX_KEPT_BATCHES, 0
        for block, is_same in pipeline.each(partial(_compare, source, block) for block in blocks):
            end = block.position + block.size
            if (differing or not is_same) and not block.is_sound():
                raise PathError(f"{path}: the manifest's block at {block.position} is inconsistent")
            for batch in () if is_same else _changed(source, block):
                differs_to = batch.end
                if len(differing) < MAX_KEPT_BATCHES:
                    differing.append(batch)
                else:
                    more += 1
            if differing and left > 0:
                left -= max(block.count, 1)
                kept.append(block)
        is_cut = all(batch.end > source.size for batch in differing)
        if differing and differs_to == end and source.size != size and not is_cut:
            # Bytes were removed or inserted before the end.
            now = blocks_of(source, is_07, False, Scratch(max_batch_bytes), pipeline)
            _align(source, now, kept, differing[0].position, left > 0, report)
            return
        for batch in differing:
            if batch.end > source.size:
                _add(report, "manifest-missing", path, batch, "the batch is cut off or gone")
            else:
                _add(report, "manifest-changed", path, batch, _CHANGED)
        report.more("manifest-changed", path, more)
        if source.size > size:
            _add_grown(report, path, size, source.size)


def _align(
    source: Source, blocks: Iterator[Block], kept: list[Block], start: int, is_all: bool, report: Report
) -> None:
    """Compares batches of the manifest (``kept``; ``is_all``: these are all) with those of the file (``blocks``), from
    position ``start`` on."""
    before = [batch for block in kept for batch in block.batches() if batch.position >= start]
    now: list[ManifestBatch] = []
    for block in blocks:
        if block.position + block.size > start and len(now) <= MAX_KEPT_BATCHES:
            now += (batch for batch in block.batches() if batch.position >= start)
    if not is_all or len(now) > MAX_KEPT_BATCHES:
        text = "from here on the bytes are not those of the manifest; too many batches to list"
        report.add("manifest-changed", source.path, text, start, source.size - start)
        return
    # Old and new batches with equal fingerprints are aligned, in order.
    by_fingerprint: dict[tuple[int, int], list[int]] = {}
    for i in range(len(before) - 1, -1, -1):
        by_fingerprint.setdefault((before[i].size, before[i].crc), []).append(i)
    at, run = 0, list[ManifestBatch]()
    for batch in now:
        held = by_fingerprint.get((batch.size, batch.crc))
        while held and held[-1] < at:
            held.pop()
        if not held:
            run.append(batch)
            continue
        _between(report, source.path, before[at : held[-1]], run)
        at, run = held[-1] + 1, []
    _between(report, source.path, before[at:], run, is_end=True)


def _between(
    report: Report, path: str, before: list[ManifestBatch], now: list[ManifestBatch], is_end: bool = False
) -> None:
    """Reports the differences between two matching batches."""
    pairs = min(len(before), len(now))
    for batch in islice(now, pairs):
        _add(report, "manifest-changed", path, batch, _CHANGED)
    for batch in before[pairs:]:
        _add(report, "manifest-missing", path, batch, f"the batch from position {batch.position} is gone")
    if now[pairs:] and is_end:
        _add_grown(report, path, now[pairs].position, now[-1].end)
        return
    for batch in now[pairs:]:
        _add(report, "manifest-added", path, batch, "this batch is not in the manifest")


def _add(report: Report, code: str, path: str, batch: ManifestBatch, text: str) -> None:
    report.add(code, path, text, batch.position, batch.size, None if batch.last_offset < 0 else batch.last_offset)


def _add_grown(report: Report, path: str, start: int, end: int) -> None:
    report.add("manifest-grown", path, f"{end - start} bytes follow those of the manifest", start, end - start)


_CHANGED = "the bytes of the batch are not those of the manifest"


def _compare(source: Source, block: Block) -> tuple[Block, bool]:
    return block, sha256_of(source, block.position, block.size) == block.sha256


def _changed(source: Source, block: Block) -> Iterator[ManifestBatch]:
    """Yields the changed batches of a changed block; one entry for the block if the fingerprints do not show them."""
    found = False
    for batch in block.batches():
        data = source.extent.pread(min(batch.size, source.size), batch.position) if block.fingerprints else b""
        if len(data) < batch.size or crc32c(data) != batch.crc:
            found = True
            yield batch
    if not found:
        yield ManifestBatch(block.position, block.size, block.last_offset, -1)


def write_manifest(
    paths: Sequence[str], settings: CheckSettings, put: Callable[[bytes], None], advance: Advance = lambda _: None
) -> tuple[int, int, int]:
    """Passes the lines of a manifest of all segments below ``paths`` to ``put``. Returns the numbers of files, bytes
    and batches. Raises PathError."""
    sha256, scratch = hashlib.sha256(), Scratch(settings.max_batch_bytes)
    files = size = batches = 0

    def put_row(row: dict[str, Any]) -> None:
        line = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        sha256.update(line)
        put(line)

    put_row({"type": "manifest", "version": VERSION})
    with Pipeline(settings.jobs) as pipeline:
        for name, (file, is_last) in _segments(paths).items():
            with open_source(file.path) as source:
                put_row({"type": "segment", "file": bytes_value(name), "size": source.size})
                files, size = files + 1, size + source.size
                is_live = settings.is_live and is_last
                for block in blocks_of(source, settings.era.is_07 or file.is_07, is_live, scratch, pipeline):
                    put_row(block.line())
                    batches += block.count
                    advance(block.size)
    for name, path in sorted(_side_files(paths).items()):
        length, digest = _digest(path)
        put_row({"type": "file", "file": bytes_value(name), "size": length, "sha256": digest})
    put_row({"type": "total", "files": files, "bytes": size, "batches": batches, "sha256": sha256.hexdigest()})
    return files, size, batches


def check_manifest(path: str, paths: Sequence[str], settings: CheckSettings, report: Report) -> int:
    """Reports differences between the segments below ``paths`` and the manifest at ``path``. Returns the number of
    segments that are in the manifest. Raises PathError.
    """
    present, known, missing, compared = _segments(paths), set[bytes](), list[tuple[bytes, int]](), 0
    touched = set[bytes]()
    """The folders of segments that are not those of the manifest."""
    with errors_at(path):
        stream = Place(path).open()
    with stream, Pipeline(settings.jobs) as pipeline:
        reader = ManifestReader(stream, path)
        for name, size, blocks in reader.segments():
            known.add(name)
            if name not in present:
                missing.append((name, size))
                continue
            compared += 1
            file, _ = present[name]
            is_07, before = settings.era.is_07 or file.is_07, report.totals.codes.total()
            _compare_segment(file.path, size, blocks, is_07, settings.max_batch_bytes, pipeline, report)
            if report.totals.codes.total() > before:
                touched.add(os.path.dirname(name))
            report.advance(size)
    if known and not compared:
        raise PathError(f"{path}: names no segment of these paths; give each PATH from which it was written")
    root = Place(_root(paths))
    first, newest = _by_folder(present, min), _by_folder(known, max)
    touched.update(os.path.dirname(name) for name in known ^ present.keys())
    for name, size in missing:
        path = root / os.fsdecode(name)
        if _base(name) < first.get(os.path.dirname(name), -1):  # retention removes segments at the start of a log
            report.add("manifest-expired", path, f"{size} bytes; the log now begins behind it", 0, size)
        else:
            report.add("manifest-missing", path, f"the segment is missing, {size} bytes", 0, size)
    newer: dict[bytes, list[str]] = {}
    for name, (file, _) in present.items():
        folder = os.path.dirname(name)
        if name in known:
            continue
        if _base(name) > newest.get(folder, -1):  # expected in a growing log
            newer.setdefault(folder, []).append(file.path)
        else:
            report.add("manifest-added", file.path, "the manifest does not name this segment")
    for group in newer.values():
        path = Place(group[0]).parent or "."
        report.add("manifest-grown", path, f"segments that the manifest does not name: {len(group)}")
    touched |= {*map(os.path.dirname, touched)}
    if reader.version > 1:
        _compare_side_files(reader.side_files, _side_files(paths), root, touched, report)
    return compared


def _compare_side_files(
    known: dict[bytes, tuple[int, str]], present: dict[bytes, str], root: str, touched: set[bytes], report: Report
) -> None:
    """Reports side files that are not those of the manifest; as infos where the log has changed, too (``touched``:
    such folders, and their log directories)."""
    for name in sorted(known.keys() | present.keys()):
        if name not in present:
            text = f"the file is missing, {known[name][0]} bytes"
        elif name not in known:
            text = "the manifest does not name this file"
        elif _digest(present[name]) != known[name]:
            text = "the bytes of the file are not those of the manifest"
        else:
            continue
        severity = INFO if os.path.dirname(name) in touched else None
        report.add("manifest-side-file", Place(root) / os.fsdecode(name), text, severity=severity)


def _side_files(paths: Sequence[str]) -> dict[bytes, str]:
    """Returns the paths of all other files of log directories and partitions, by name as `_segments`, without those of
    kseg. Raises PathError."""
    found: dict[bytes, str] = {}
    root = _root(paths)
    for around in filter(Place.is_dir, map(Place, paths)):
        segments = {file.path for part in expand_path(around) for file in segments_at(part)}
        for folder in {around, *(Place(path).parent for path in segments)}:
            with errors_at(folder), Place(folder).entries() as entries:
                names = [entry.name for entry in entries if is_regular_file(entry)]
            for path in (Place(folder) / name for name in names if name != LOCK_NAME):
                if path not in segments and not os.path.basename(path).startswith(OWN_PREFIX):
                    found[os.fsencode(os.path.relpath(path, root))] = path
    return found


def _digest(path: str) -> tuple[int, str]:
    """Returns the size of a file and its SHA-256. Raises PathError."""
    with errors_at(path), Place(path).open() as stream:
        digest = hashlib.file_digest(stream, "sha256")
        return stream.tell(), digest.hexdigest()


def _by_folder(names: Iterable[bytes], choose: Callable[[Iterable[int]], int]) -> dict[bytes, int]:
    """Returns the lowest or highest number of a file in each folder."""
    numbers: dict[bytes, list[int]] = {}
    for name in names:
        numbers.setdefault(os.path.dirname(name), []).append(_base(name))
    return {folder: choose(found) for folder, found in numbers.items()}


def _root(paths: Sequence[str]) -> str:
    """Returns the directory to which names in the manifest are relative: the PATH, or what is around all of them."""
    roots = {path if Place(path).is_dir() else Place(path).parent or "." for path in paths}
    return roots.pop() if len(roots) == 1 else os.path.commonpath(map(os.path.abspath, roots))


def _segments(paths: Sequence[str]) -> dict[bytes, tuple[SegmentFile, bool]]:
    """Returns all segments below the paths by name, relative to `_root`, and whether each is the last of its directory.
    Raises PathError."""
    found: dict[bytes, tuple[SegmentFile, bool]] = {}
    root = _root(paths)
    for part in (part for path in paths for part in expand_path(path)):
        for file in (files := segments_at(part)):
            found[os.fsencode(os.path.relpath(file.path, root))] = file, file is files[-1]
    return found


def _base(name: bytes) -> int:
    """Returns the number at the start of a file's name, -1 if there is none."""
    digits = os.path.basename(name).split(b".")[0].split(b"-")[0]
    return int(digits) if digits.isdigit() and len(digits) <= 20 else -1


OpenOutput = Callable[[str], AbstractContextManager[Any]]
"""Opens a new file, which has a method ``write``. It appears, complete, when the block ends without an error."""


def check_manifest_path(manifest: str, paths: Sequence[str]) -> None:
    """Raises RequestError if the manifest cannot be written to its path, or the paths cannot have one."""
    if manifest == "-":
        raise RequestError("--manifest needs the name of a file")
    if any(map(is_stream, paths)):
        raise RequestError("--manifest is of files, not of standard input or a FIFO")
    if Place(manifest).lexists():
        return
    folder = os.path.realpath(Place(manifest).parent or ".")
    for path in filter(Place.is_dir, map(Place, expanded(paths))):
        if os.path.commonpath([folder, os.path.realpath(path)]) == os.path.realpath(path):
            raise RequestError(f"nothing is written into {path}: keep the manifest elsewhere")


def keep_manifest(
    manifest: str, paths: Sequence[str], settings: CheckSettings, report: Report, open_output: OpenOutput
) -> str:
    """Checks the segments below the paths against the manifest, or writes it. Returns a sentence. Raises PathError."""
    if Place(manifest).lexists():
        compared = check_manifest(manifest, paths, settings, report)
        differing = sum(count for code, count in report.totals.codes.items() if code.startswith("manifest-"))
        result = "they match" if not differing else f"differences: {differing}"
        return f"{manifest}: compared, {plural(compared, 'file', 'files')}; {result}"
    with open_output(manifest) as output:
        files, size, batches = write_manifest(paths, settings, output.write, report.advance)
    return f"{manifest}: written, {plural(files, 'file', 'files')} ({shown_bytes(size)}), {batches} batches"
