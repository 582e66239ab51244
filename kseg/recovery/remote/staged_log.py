"""A .log file that is being made from a remote or a local segment: copied, judged, and cut where that is needed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kseg.changes.disk import Disk, umask
from kseg.formats.rows import Scratch
from kseg.kernel.layout.rows import (
    BATCH_LAST_OFFSET,
    BATCH_LEADER_EPOCH,
    BATCH_MAGIC,
    BATCH_POSITION,
    BATCH_STATE,
    BATCH_WIDTH,
)
from kseg.kernel.scan.frame_scan import CRC_RIGHT
from kseg.segment.batches import Batch
from kseg.segment.reader import SegmentReader
from kseg.segment.survey import FULL, BatchProblem, Headers, SegmentSurvey
from kseg.stores.buffers import Buffers
from kseg.stores.remote.segment import RemoteSegment
from kseg.stores.remote.transformation import ChunkError
from kseg.stores.source import open_source

_EPOCH_AT = 12
"""Position of partitionLeaderEpoch in a batch of magic 2, which its checksum does not cover."""


@dataclass(slots=True)
class LogFacts:
    """``next_offset`` is the offset after the last intact batch, -1 if there is none."""

    is_intact: bool = True
    next_offset: int = -1


@contextmanager
def new_file(path: str, disk: Disk) -> Iterator[int]:
    """Yields the descriptor of a new file, which is synced at the end. Raises OSError."""
    descriptor = disk.create(path)
    try:
        yield descriptor
        os.fchmod(descriptor, 0o666 & ~umask())
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def fetch(segment: RemoteSegment, path: str, disk: Disk) -> list[str]:
    """Writes the log of a remote segment to a new file. Returns a sentence for each chunk that does not restore.

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


def judged(path: str, buffers: Buffers) -> LogFacts:
    """Checks the checksums of all batches of a segment. Raises PathError."""
    facts = LogFacts()
    with open_source(path) as source:
        reader = SegmentReader(source, scratch=buffers.scratch, manner=SegmentSurvey.manner(FULL))
        for item in SegmentSurvey(reader, FULL, buffers=buffers):
            if isinstance(item, Headers):
                states = item.rows[BATCH_STATE : item.count * BATCH_WIDTH : BATCH_WIDTH].tolist()
                facts.is_intact &= all(state & CRC_RIGHT for state in states)
                facts.next_offset = item.rows[(item.count - 1) * BATCH_WIDTH + BATCH_LAST_OFFSET] + 1
            elif not isinstance(item, BatchProblem):
                facts.is_intact = False
    return facts


def cut(path: str, first: int, last: int, disk: Disk) -> LogFacts:
    """Keeps the intact batches of a file whose offsets lie in ``first`` to ``last``. Raises OSError, PathError."""
    facts, target = LogFacts(), path + ".cut"
    with new_file(target, disk) as descriptor, open_source(path) as source:
        for item in SegmentReader(source, scratch=Scratch()):
            if not isinstance(item, Batch) or not item.is_valid:
                continue
            base = item.last_offset if item.base_offset is None else item.base_offset
            if first <= base and item.last_offset <= last and base >= facts.next_offset:
                disk.write(descriptor, item.data)
                facts.next_offset = item.last_offset + 1
    disk.rename(target, path)
    return facts


def reset_epochs(path: str, buffers: Buffers) -> None:
    """Sets the partition leader epoch of all batches to 0. Raises OSError, PathError."""
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        with open_source(path) as source:
            reader = SegmentReader(source, scratch=buffers.scratch, manner=SegmentSurvey.manner(FULL))
            for item in SegmentSurvey(reader, FULL, buffers=buffers):
                if not isinstance(item, Headers):
                    continue
                for at in range(0, item.count * BATCH_WIDTH, BATCH_WIDTH):
                    if item.rows[at + BATCH_MAGIC] == 2 and item.rows[at + BATCH_LEADER_EPOCH] != 0:
                        os.pwrite(descriptor, bytes(4), item.rows[at + BATCH_POSITION] + _EPOCH_AT)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
