"""Writes segments anew without the records to erase, by the rewriting of the log cleaner.

Batches that lose nothing are copied, markers of transactions too. A batch that loses all of its records goes, unless
the cleaner would keep it empty: the last one of an active producer, and that which ends the log.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import NamedTuple

from kseg.cleaner.log import CleanerSegment, CleaningThreads, Producers, RecordBuffers, Window, as_verdicts
from kseg.cleaner.rounds import CleanedGroup, Filtered, OffsetMap, filter_window
from kseg.cleaner.settings import CleanerSettings
from kseg.erasure.search import Criteria, Ranges, SearchedFile, matches_of
from kseg.errors import UnsupportedError
from kseg.formats.rows import UndecodableError, int64s
from kseg.kernel.compact import survivors as kernel
from kseg.kernel.compact.survivors import Counts
from kseg.kernel.layout.headers import CONTROL, ENTRY_MAGIC, MAGIC_V2
from kseg.segment.files import segment_file
from kseg.segment.items import Batch, Damage
from kseg.segment.reader import open_segment
from kseg.segment.survey import headers_of
from kseg.segment.writer import SegmentWriter
from kseg.sidefiles.indexes import build_transaction_index
from kseg.stores.windows import Buffers

_COPY_BYTES = 1 << 20
_CRC_OF_V2, _CRC = 17, 12
"""Where the checksum of a batch, or of a message, begins."""


class Rewriting(NamedTuple):
    """What all segments of a log share. ``offset_map``: an empty one."""

    criteria: Criteria
    producers: Producers
    settings: CleanerSettings
    offset_map: OffsetMap
    workers: CleaningThreads

    def rewrite(self, segment: CleanerSegment, found: SearchedFile, folder: str | None) -> CleanedGroup:
        """Writes a segment to ``folder``, without the records found; with None only counts. Raises UnsupportedError,
        OSError."""
        counts = Counts()
        writer = SegmentWriter(folder, segment.base_offset, self.settings.interval_bytes)
        try:
            if found.is_odd:
                self._write_items(segment, writer, counts)
            else:
                self._write_windows(segment, found, writer, counts)
            if aborted := segment.aborted():
                writer.add_aborted(build_transaction_index(aborted))
            written = writer.finish(segment.mtime_ns)
        except ValueError as error:
            text = f"{segment.path}: cannot be written anew: {error}; repair it first (kseg verify names the command)"
            raise UnsupportedError(text) from error
        finally:
            writer.close()
        new = CleanerSegment(segment.base_offset, segment.mtime_ns, written.paths, written.sizes)
        return CleanedGroup([segment], new, Counter(counts.as_dict()))

    def _write_windows(
        self, segment: CleanerSegment, found: SearchedFile, writer: SegmentWriter, counts: Counts
    ) -> None:
        before, erased, lasts = segment.base_offset - 1, _table(found.ranges), [last for _, last in found.ranges]

        def filtering(window: Window) -> Callable[[RecordBuffers, Window], Filtered]:
            nonlocal before
            verdicts = self._verdicts(window, found.ranges, lasts, before)
            before = window[-1].last_offset
            return partial(filter_window, self.offset_map, self.settings, True, verdicts, erased=erased)

        for filtered in self.workers.each(segment.path, Buffers(), filtering, lambda _: None):
            counts.add(filtered.counts)
            for piece in filtered.pieces:
                writer.append(piece)

    def _verdicts(self, window: Window, ranges: Ranges, lasts: list[int], before: int) -> memoryview:
        """Returns one verdict per batch. ``lasts``: the ends of the ranges; ``before``: the last offset before."""
        found = as_verdicts([], window.count)
        for i, (first, last, attributes) in enumerate(zip(window.firsts, window.lasts, window.attributes, strict=True)):
            k = bisect_left(lasts, before + 1 if first < 0 else first)  # a compressed message does not store its first
            before = last
            if attributes & CONTROL or k == len(lasts) or ranges[k][0] > last:
                found[i] = kernel.COPY
            elif last == self.producers.end_offset - 1:
                found[i] = kernel.KEEP_EMPTY
        for i in self.producers.last_batches(window):
            if found[i] != kernel.COPY:
                found[i] = kernel.KEEP_EMPTY
        return found

    def _write_items(self, segment: CleanerSegment, writer: SegmentWriter, counts: Counts) -> None:
        """Writes a segment item by item, with its damage."""
        buffers = self.workers.buffers[0]
        with open_segment(segment_file(segment.path)) as reader:
            for item in reader:
                if isinstance(item, Damage):
                    for at in range(item.position, item.end, _COPY_BYTES):
                        writer.append_unread(bytes(reader.buffer[at : min(at + _COPY_BYTES, item.end)]))
                    continue
                for data in self._without_matches(item, segment.path, buffers, counts):
                    try:
                        writer.append(data)
                    except ValueError:
                        if item.is_valid:
                            raise
                        writer.append_unread(data)  # its header is damaged

    def _without_matches(self, item: Batch, path: str, buffers: RecordBuffers, counts: Counts) -> list[bytes]:
        """Returns what is left of a batch. A wrong checksum stays wrong."""
        matches = None
        try:
            matches = None if item.is_control else matches_of(self.criteria, item, with_keys=False)
        except UndecodableError:
            pass  # it was reported by the search
        if matches is None or not matches.offsets:
            counts.copied += 1
            return [bytes(item.data)]
        rows = headers_of(item.data, [(0, item.size)]).rows
        window = Window(rows, 1, memoryview(item.data), item.position, path)
        ranges = [(offset, offset) for offset in matches.offsets]
        verdicts = self._verdicts(window, ranges, matches.offsets, matches.offsets[0] - 1)
        filtered = filter_window(self.offset_map, self.settings, True, verdicts, buffers, window, _table(ranges))
        counts.add(filtered.counts)
        if item.is_valid:
            return filtered.pieces
        found = [bytearray(piece) for piece in filtered.pieces]
        for piece in found:
            piece[_CRC_OF_V2 if piece[ENTRY_MAGIC] >= MAGIC_V2 else _CRC] ^= 0xFF
        return [bytes(piece) for piece in found]


def _table(ranges: Ranges) -> memoryview:
    """Returns ranges as the column that the kernel takes."""
    found = int64s(2 * len(ranges))
    for k, bound in enumerate(chain.from_iterable(ranges)):
        found[k] = bound
    return found
