"""Creates the .log files of a rebuilt partition: fetches, checks and trims them, and resets leader epochs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kseg.changes.disk import Disk
from kseg.formats.rows import Scratch
from kseg.recovery.broker.epoch_reset import epoch_positions
from kseg.recovery.segment_span import SegmentSpan
from kseg.segment.batches import Batch
from kseg.segment.reader import SegmentReader
from kseg.segment.survey import FULL, HeaderRows, SegmentSurvey
from kseg.stores.buffers import Buffers
from kseg.stores.remote.segment import RemoteSegment
from kseg.stores.remote.transformation import ChunkError
from kseg.stores.source import open_source


@contextmanager
def new_file(path: str, disk: Disk) -> Iterator[int]:
    """Yields the descriptor of a new file, which is synced at the end. Raises OSError."""
    descriptor = disk.create(path)
    try:
        yield descriptor
        disk.set_default_mode(descriptor)
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def fetch(segment: RemoteSegment, path: str, disk: Disk) -> list[str]:
    """Writes the log of a remote segment to a new file. Returns a sentence for each chunk that cannot be restored.

    Such a chunk is filled with zeros. Raises OSError, and as `RemoteSegment.read_chunks`.
    """
    failures: list[str] = []
    with new_file(path, disk) as descriptor:
        for number, data in segment.read_chunks():
            if isinstance(data, ChunkError):
                begin, end = segment.chunks.original_range(number)
                failures.append(f"{segment.path()}: chunk {number}: {data}")
                data = bytes(end - begin)
            disk.write(descriptor, data)
    return failures


def trim(path: str, first: int, last: int, disk: Disk) -> SegmentSpan:
    """Rewrites a file with only its intact batches of offsets ``first`` to ``last``. Raises OSError, PathError."""
    span, target = SegmentSpan(), path + ".trimmed"
    with new_file(target, disk) as descriptor, open_source(path) as source:
        for item in SegmentReader(source, scratch=Scratch()):
            if not isinstance(item, Batch) or not item.is_valid:
                continue
            base = item.last_offset if item.base_offset is None else item.base_offset
            if first <= base and item.last_offset <= last and base >= span.next_offset:
                disk.write(descriptor, item.data)
                span.next_offset = item.last_offset + 1
    disk.rename(target, path)
    return span


def reset_epochs_in_place(path: str, buffers: Buffers) -> None:
    """Sets the partition leader epoch of all batches to 0. Raises OSError, PathError."""
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        with open_source(path) as source:
            reader = SegmentReader(source, scratch=buffers.scratch, scan_options=SegmentSurvey.scan_options(FULL))
            for item in SegmentSurvey(reader, FULL, buffers=buffers):
                if not isinstance(item, HeaderRows):
                    continue
                for position in epoch_positions(item):
                    os.pwrite(descriptor, bytes(4), position)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
