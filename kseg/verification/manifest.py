"""Writes digests of segments to a manifest, and checks the segments against it later (bit rot, tampering).

A batch's own checksum does not cover its first 21 bytes (v2; 16 of v0 and v1), and after a deliberate change it can
be recomputed. A manifest covers every byte. It has no side files, because brokers rebuild them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Protocol

from kseg.errors import PathError, RequestError
from kseg.formats.rows import Scratch
from kseg.kernel.scan.checksums import crc32c
from kseg.quantities import shown_bytes
from kseg.runtime.threads import Pipeline
from kseg.segment.files import SegmentFile
from kseg.segment.paths import expand_path, segments_at
from kseg.stores import trees
from kseg.stores.regular_files import open_regular
from kseg.stores.source import STANDARD_INPUT, Source, open_source
from kseg.verification.manifest_file import (
    Block,
    ManifestBatch,
    ManifestLines,
    ManifestReader,
    ManifestSegment,
    blocks_of,
    sha256_of,
)
from kseg.verification.partition import Advance, CheckSettings
from kseg.verification.report import Report

# Checks one segment against its blocks in a manifest: batches changed, missing or added.
#
# Blocks are compared at their positions. Only if the end of the file shows that bytes moved because batches were
# removed or inserted, the batches of both are aligned by their fingerprints.

MAX_KEPT_BATCHES = 200_000
"""Limit of reported batches that differ, and of aligned batches after the first one; more are only counted."""


@dataclass(slots=True)
class _Differences:
    """Batches of the manifest that have changed, in order; ``more``: the number of those not kept."""

    batches: list[ManifestBatch] = field(default_factory=list)
    more: int = 0
    last: ManifestBatch | None = None

    def add(self, batches: Iterator[ManifestBatch]) -> None:
        for batch in batches:
            self.last = batch
            if len(self.batches) < MAX_KEPT_BATCHES:
                self.batches.append(batch)
            else:
                self.more += 1


@dataclass(slots=True)
class SegmentCheck:
    """Compares a segment with its entry in a manifest."""

    file: SegmentFile
    is_07: bool
    max_batch_bytes: int
    pipeline: Pipeline
    report: Report

    def run(self, entry: ManifestSegment) -> None:
        """Compares. Raises PathError if the segment cannot be read, or the manifest ends early or is inconsistent."""
        with open_source(self.file.path) as source:
            differences, kept, left, end = _Differences(), list[Block](), MAX_KEPT_BATCHES, 0
            for block, is_same in self.pipeline.each(partial(_compare, source, block) for block in entry.blocks):
                end = block.position + block.size
                if (differences.last or not is_same) and not block.is_sound():
                    raise PathError(f"{self.file.path}: the manifest's block at {block.position} is inconsistent")
                if not is_same:
                    differences.add(_changed(source, block))
                if differences.last and left > 0:
                    left -= max(block.count, 1)
                    kept.append(block)
            if differences.last and differences.last.end == end and _has_moved(source, entry, differences):
                self._align(source, kept, differences, left > 0)
                return
            self._report_in_place(source, differences)
            if source.size > entry.size:
                text = f"{source.size - entry.size} bytes follow those of the manifest"
                self.report.add("manifest-grown", self.file.path, text, entry.size, source.size - entry.size)

    def _report_in_place(self, source: Source, differences: _Differences) -> None:
        for batch in differences.batches:
            if batch.end > source.size:
                self._add("manifest-missing", batch, "the batch is cut off or gone")
            else:
                self._add("manifest-changed", batch, _CHANGED)
        self.report.more("manifest-changed", self.file.path, differences.more)

    def _align(self, source: Source, kept: list[Block], differences: _Differences, is_all: bool) -> None:
        start = differences.batches[0].position
        before = [batch for block in kept for batch in block.batches() if batch.position >= start]
        blocks = blocks_of(source, self.is_07, False, Scratch(self.max_batch_bytes), self.pipeline)
        now: list[ManifestBatch] = []
        for block in blocks:
            if block.position + block.size > start and len(now) <= MAX_KEPT_BATCHES:
                now += (batch for batch in block.batches() if batch.position >= start)
        if not is_all or len(now) > MAX_KEPT_BATCHES:
            text = "from here on the bytes are not those of the manifest; too many batches to list"
            self.report.add("manifest-changed", self.file.path, text, start, source.size - start)
            return
        self._add_aligned(before, now)

    def _add_aligned(self, before: list[ManifestBatch], now: list[ManifestBatch]) -> None:
        """Reports the differences of old and new batches; those with equal fingerprints are aligned, in order."""
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
            self._between(before[at : held[-1]], run)
            at, run = held[-1] + 1, []
        self._between(before[at:], run, is_end=True)

    def _between(self, before: list[ManifestBatch], now: list[ManifestBatch], is_end: bool = False) -> None:
        """Reports the differences between two matching batches."""
        pairs = min(len(before), len(now))
        for batch in islice(now, pairs):
            self._add("manifest-changed", batch, _CHANGED)
        for batch in before[pairs:]:
            self._add("manifest-missing", batch, f"the batch from position {batch.position} is gone")
        if now[pairs:] and is_end:
            first, end = now[pairs].position, now[-1].end
            text = f"{end - first} bytes follow those of the manifest"
            self.report.add("manifest-grown", self.file.path, text, first, end - first)
            return
        for batch in now[pairs:]:
            self._add("manifest-added", batch, "this batch is not in the manifest")

    def _add(self, code: str, batch: ManifestBatch, text: str) -> None:
        offset = None if batch.last_offset < 0 else batch.last_offset
        self.report.add(code, self.file.path, text, batch.position, batch.size, offset)


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


def _has_moved(source: Source, entry: ManifestSegment, differences: _Differences) -> bool:
    """Whether the bytes up to the end differ because bytes were removed or inserted before them."""
    is_cut = all(batch.end > source.size for batch in differences.batches)
    return source.size != entry.size and not is_cut


@dataclass(slots=True)
class _Found:
    """A segment below a PATH; ``is_last``: whether it is the last of its directory. ``name`` is relative to the
    PATH."""

    file: SegmentFile
    name: bytes
    is_last: bool


def write_manifest(
    paths: Iterable[str], settings: CheckSettings, put: Callable[[bytes], None], advance: Advance = lambda _: None
) -> ManifestLines:
    """Passes the lines of a manifest of all segments below ``paths`` to ``put``. Raises PathError."""
    lines, scratch = ManifestLines(), Scratch(settings.max_batch_bytes)
    put(lines.head())
    with Pipeline(settings.jobs) as pipeline:
        for found in _segments(paths).values():
            with open_source(found.file.path) as source:
                put(lines.segment(found.name, source.size))
                is_live = settings.is_live and found.is_last
                for block in blocks_of(source, settings.is_07 or found.file.is_07, is_live, scratch, pipeline):
                    put(lines.block(block))
                    advance(block.size)
    put(lines.total())
    return lines


def check_manifest(
    path: str, paths: Iterable[str], settings: CheckSettings, report: Report, advance: Advance = lambda _: None
) -> int:
    """Reports differences between the segments below ``paths`` and the manifest at ``path``. Returns the number of
    segments that are in the manifest. Raises PathError.
    """
    present = _segments(paths)
    known: set[bytes] = set()
    compared = 0
    try:
        stream = open_regular(path)
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error
    with stream, Pipeline(settings.jobs) as pipeline:
        missing = []
        for entry in ManifestReader(stream, path).entries():
            known.add(entry.name)
            found = present.get(entry.name)
            if found is None:
                missing.append((entry.name, entry.size))
                continue
            compared += 1
            is_07 = settings.is_07 or found.file.is_07
            SegmentCheck(found.file, is_07, settings.max_batch_bytes, pipeline, report).run(entry)
            advance(entry.size)
    if known and not compared:
        raise PathError(f"{path}: names no segment of these paths; give the PATH from which it was written")
    root = next(iter(paths), "")
    _report_missing(missing, present, root, report)
    _report_new(known, present, report)
    return compared


def _segments(paths: Iterable[str]) -> dict[bytes, _Found]:
    """Returns all segments below the paths by name, relative to the path. Raises PathError."""
    found: dict[bytes, _Found] = {}
    for path in paths:
        if path == STANDARD_INPUT:
            raise PathError("a manifest is of files, not of standard input")
        root = path if trees.isdir(path) else os.path.dirname(path) or "."
        for part in expand_path(path):
            files = segments_at(part)
            for file in files:
                name = os.fsencode(os.path.relpath(file.path, root))
                if name in found:
                    text = f"{file.path} and {found[name].file.path} would have the same name in the manifest"
                    raise PathError(f"{text}: make one of each PATH")
                found[name] = _Found(file, name, file is files[-1])
    return found


def _base(name: bytes) -> int:
    """Returns the number at the start of a file's name, -1 if there is none."""
    digits = os.path.basename(name).split(b".")[0].split(b"-")[0]
    return int(digits) if digits.isdigit() and len(digits) <= 20 else -1


def _report_missing(missing: list[tuple[bytes, int]], present: dict[bytes, _Found], root: str, report: Report) -> None:
    """Reports missing segments of the manifest; at the start of a log retention removes them."""
    first: dict[bytes, int] = {}
    for name in present:
        folder = os.path.dirname(name)
        first[folder] = min(first.get(folder, _base(name)), _base(name))
    for name, size in missing:
        path = os.path.join(root if trees.isdir(root) else os.path.dirname(root), os.fsdecode(name))
        if _base(name) < first.get(os.path.dirname(name), -1):
            text = f"{size} bytes; the log now begins behind it"
            report.add("manifest-expired", path, text, 0, size)
        else:
            report.add("manifest-missing", path, f"the segment is missing, {size} bytes", 0, size)


def _report_new(known: set[bytes], present: dict[bytes, _Found], report: Report) -> None:
    """Reports segments that the manifest does not have; newer ones are expected in a growing log."""
    newer: dict[bytes, list[_Found]] = {}
    newest: dict[bytes, int] = {}
    for name in known:
        folder = os.path.dirname(name)
        newest[folder] = max(newest.get(folder, -1), _base(name))
    for name, found in present.items():
        if name in known:
            continue
        folder = os.path.dirname(name)
        if _base(name) > newest.get(folder, -1):
            newer.setdefault(folder, []).append(found)
        else:
            report.add("manifest-added", found.file.path, "the manifest does not name this segment")
    for group in newer.values():
        path = os.path.dirname(group[0].file.path) or "."
        report.add("manifest-grown", path, f"segments that the manifest does not name: {len(group)}")


_STANDARD_OUTPUT = "-"


class ManifestOutput(Protocol):
    """A sequential output."""

    def write(self, data: bytes) -> None: ...


OpenOutput = Callable[[str], AbstractContextManager[ManifestOutput]]
"""Opens a new file that appears, complete, when the block ends without an error."""


def check_manifest_path(manifest: str, paths: Sequence[str]) -> None:
    """Raises RequestError if the manifest cannot be written to its path, or the paths cannot have one."""
    if manifest == _STANDARD_OUTPUT:
        raise RequestError("--manifest needs the name of a file")
    if STANDARD_INPUT in paths:
        raise RequestError("--manifest is of files, not of standard input")
    if os.path.lexists(manifest):
        return
    folder = os.path.realpath(os.path.dirname(manifest) or ".")
    for path in filter(os.path.isdir, paths):
        if os.path.commonpath([folder, os.path.realpath(path)]) == os.path.realpath(path):
            raise RequestError(f"nothing is written into {path}: keep the manifest elsewhere")


def _differences(report: Report) -> int:
    """Returns the number of findings so far about differences from a manifest."""
    return sum(count for code, count in report.totals.codes.items() if code.startswith("manifest-"))


def keep_manifest(
    manifest: str,
    paths: Sequence[str],
    settings: CheckSettings,
    report: Report,
    advance: Advance,
    open_output: OpenOutput,
) -> str:
    """Checks the segments below the paths against the manifest, or writes it. Returns a sentence. Raises PathError."""
    if os.path.lexists(manifest):
        before = _differences(report)
        compared = check_manifest(manifest, paths, settings, report, advance)
        differing = _differences(report) - before
        result = "they match" if not differing else f"differences: {differing}"
        return f"{manifest}: compared, {compared} files; {result}"
    with open_output(manifest) as output:
        lines = write_manifest(paths, settings, output.write, advance)
    return f"{manifest}: written, {lines.files} files ({shown_bytes(lines.bytes)}), {lines.batches} batches"
