"""Checks one segment against its blocks in a manifest: batches changed, missing or added.

Blocks are compared at their positions. Only if the end of the file shows that bytes moved because batches were removed
or inserted, the batches of both are aligned by their fingerprints.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from kseg.errors import PathError
from kseg.formats.rows import Scratch
from kseg.kernel.scan.checksums import crc32c
from kseg.runtime.threads import Pipeline
from kseg.segment.files import SegmentFile
from kseg.stores.source import Source, open_source
from kseg.verification.manifest.digests import blocks_of, sha256_of
from kseg.verification.manifest.manifest_file import Block, ManifestBatch, ManifestSegment
from kseg.verification.report import Report

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
            offset = None if batch.last_offset < 0 else batch.last_offset
            if batch.end > source.size:
                text = "the batch is cut off or gone"
                self.report.add("manifest-missing", self.file.path, text, batch.position, batch.size, offset)
            else:
                self.report.add("manifest-changed", self.file.path, _CHANGED, batch.position, batch.size, offset)
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
        _Alignment(self.file.path, self.report).add_findings(before, now)


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


class _Alignment:
    """Aligns old and new batches with equal fingerprints, in order."""

    def __init__(self, path: str, report: Report) -> None:
        self._path = path
        self._report = report

    def add_findings(self, before: list[ManifestBatch], now: list[ManifestBatch]) -> None:
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
            self._report.add("manifest-grown", self._path, text, first, end - first)
            return
        for batch in now[pairs:]:
            self._add("manifest-added", batch, "this batch is not in the manifest")

    def _add(self, code: str, batch: ManifestBatch, text: str) -> None:
        offset = None if batch.last_offset < 0 else batch.last_offset
        self._report.add(code, self._path, text, batch.position, batch.size, offset)
