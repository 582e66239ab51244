"""The log start offsets of partitions, from the checkpoints of their log directories.

Consumers see nothing below them: records that DeleteRecords or retention has removed in the middle of a segment.
"""

import os
from collections.abc import Callable
from threading import Lock

from kseg.errors import PathError
from kseg.sidefiles.checkpoints import LOG_STARTS, OffsetCheckpoint, read_offset_checkpoint
from kseg.spark.positions import FIRST_OFFSET, Place
from kseg.stores.source import Source


class LogStarts:
    """Reads the checkpoint of each log directory once. ``opened`` opens a path and raises PathError."""

    def __init__(self, opened: Callable[[str], Source]) -> None:
        self._opened = opened
        self._known: dict[str, dict[Place, int]] = {}
        self._lock = Lock()

    def of(self, log_directory: str, place: Place) -> int:
        """Returns the log start offset of a partition, the lowest number if the checkpoint does not list it."""
        with self._lock:
            if log_directory not in self._known:
                self._known[log_directory] = self._read(os.path.join(log_directory, LOG_STARTS))
        return self._known[log_directory].get(place, FIRST_OFFSET)

    def _read(self, path: str) -> dict[Place, int]:
        try:
            with self._opened(path) as source:
                entries = list(read_offset_checkpoint(source.buffer[:]))
        except PathError:
            return {}  # archives often hold partitions alone
        return {(each.topic, each.partition): each.offset for each in entries if isinstance(each, OffsetCheckpoint)}
