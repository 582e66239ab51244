"""The strip of a partition: its segments to scale, with their known offsets and times.

Only names, sizes, checkpoints, indexes and a few batch headers are read, whatever the size of the logs.
"""

import os
from collections.abc import Iterator
from struct import Struct
from typing import Any

from kseg.errors import KsegError
from kseg.formats.json_values import name_value
from kseg.formats.suffixes import INDEX, TRANSACTION_INDEX
from kseg.kernel.layout.headers import (
    ENTRY_MAGIC,
    ENTRY_OFFSET,
    MAGIC_V2,
    V1_TIMESTAMP,
    V2_HEADER_BYTES,
    V2_MAX_TIMESTAMP,
)
from kseg.logdir.log_directory import LogDirectory, directory_around
from kseg.positioned import read_at
from kseg.segment.files import SegmentFile, list_segments
from kseg.segment.indexes import OFFSET_ENTRY
from kseg.segment.seek import index_path
from kseg.sidefiles.problems import entries_of
from kseg.sidefiles.transaction_index import read_transaction_index
from kseg.stores.regular_files import open_regular

MAX_ANCHORS = 240
"""Approximate limit of batches of a partition whose offset and time are read."""
MAX_SEGMENTS = 2000
"""Limit of segments of a partition that are drawn."""
MAX_ABORTED = 1000
"""Limit of aborted transactions of a partition that are drawn."""
MAX_TXNINDEX_BYTES = 1 << 20

_INT64 = Struct(">q")


class Strips:
    """Makes strips; log directories are read once."""

    def __init__(self) -> None:
        self._roots: dict[str, LogDirectory | None] = {}

    def of(self, directory: str) -> dict[str, Any] | None:
        """Returns the strip of a partition directory; None if it cannot be listed or has no segment."""
        try:
            found = [file for file in list_segments(directory) if file.is_segment and not file.leftover]
        except (KsegError, OSError):
            return None
        drawn = found[:MAX_SEGMENTS]
        if not drawn:
            return None
        max_anchors = max(2, MAX_ANCHORS // len(drawn))
        strip: dict[str, Any] = {
            "segments": [segment for file in drawn if (segment := _segment(file, max_anchors)) is not None],
            "segmentsLeftOut": len(found) - len(drawn),
            "aborted": list(_aborted(drawn)),
        }
        return strip | self._checkpoints(directory)

    def _checkpoints(self, directory: str) -> dict[str, int | None]:
        root = os.path.dirname(os.path.abspath(directory))
        if root not in self._roots:
            self._roots[root] = directory_around(directory)
        around = self._roots[root]
        if around is None:
            return {"logStartOffset": None, "highWatermark": None, "recoveryPoint": None}
        state = around.broker_state(os.path.basename(os.path.abspath(directory)))
        return {
            "logStartOffset": state.log_start_offset, "highWatermark": state.high_watermark,
            "recoveryPoint": state.recovery_point,
        }  # fmt: skip


def _segment(file: SegmentFile, max_anchors: int) -> dict[str, Any] | None:
    try:
        with open_regular(file.path) as stream:
            size = os.fstat(stream.fileno()).st_size
            anchors = list(_anchors(stream.fileno(), file, size, max_anchors))
    except (KsegError, OSError):
        return None
    return {"name": name_value(file.name), "base": file.base_offset, "size": size, "anchors": anchors}


def _anchors(log: int, file: SegmentFile, size: int, max_anchors: int) -> Iterator[tuple[int, int, int | None]]:
    """Yields (position, offset, timestamp) of the first batch and of batches in the index, by rising position. The
    timestamp is the largest of a v2 batch, that of a v1 message, None if there is none."""
    positions = [0, *_indexed_positions(file, max_anchors)]
    last = -1
    for position in positions:
        if not last < position < size:
            continue
        header = read_at(log, V2_HEADER_BYTES, position)
        if len(header) <= V1_TIMESTAMP + _INT64.size:
            continue
        (offset,) = _INT64.unpack_from(header, ENTRY_OFFSET)
        magic, time = header[ENTRY_MAGIC], None
        if magic == MAGIC_V2 and len(header) == V2_HEADER_BYTES:
            (time,) = _INT64.unpack_from(header, V2_MAX_TIMESTAMP)
        elif magic == 1:
            (time,) = _INT64.unpack_from(header, V1_TIMESTAMP)
        if magic > MAGIC_V2 or offset < 0:
            continue
        last = position
        yield position, offset, None if time is None or time < 0 else time


def _indexed_positions(file: SegmentFile, max_anchors: int) -> list[int]:
    """Returns positions of the .index, evenly spread; none if there is no usable index."""
    try:
        with open_regular(index_path(file, INDEX)) as stream:
            count = os.fstat(stream.fileno()).st_size // OFFSET_ENTRY.size
            step = max(1, count // max_anchors)
            chosen = range(0, count, step)
            entries = [read_at(stream.fileno(), OFFSET_ENTRY.size, i * OFFSET_ENTRY.size) for i in chosen]
    except (KsegError, OSError):
        return []
    positions = (OFFSET_ENTRY.unpack(data)[1] for data in entries if len(data) == OFFSET_ENTRY.size)
    return [position for position in positions if position > 0]


def _aborted(files: list[SegmentFile]) -> Iterator[tuple[int, int]]:
    """Yields (first offset, last offset) of aborted transactions, from the transaction indexes."""
    left = MAX_ABORTED
    for file in files:
        try:
            with open_regular(index_path(file, TRANSACTION_INDEX)) as stream:
                data = stream.read(MAX_TXNINDEX_BYTES)
        except (KsegError, OSError):
            continue
        for entry in entries_of(read_transaction_index(data)):
            if left == 0:
                return
            left -= 1
            yield entry.first_offset, entry.last_offset
