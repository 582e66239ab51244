"""Streams with limits of a micro-batch, for PySpark 4.2 and later.

A limit is reached segment by segment, in turns over the partition directories; a micro-batch has at least one segment.
"""

from collections.abc import Iterator
from itertools import chain, zip_longest

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kseg.spark.planning import end_of
from kseg.spark.streams import (
    ClosedSegment,
    DirectoryProgress,
    KsegStreamReader,
    Offset,
    StreamProgress,
    offset_of,
    progress_of,
)
from kseg.stores.trees import size_of


class LimitedStreamReader(KsegStreamReader, SupportsTriggerAvailableNow):
    """The stream reader with ``maxFilesPerTrigger``, ``maxBytesPerTrigger`` and ``maxOffsetsPerTrigger``."""

    _target: StreamProgress | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns a limit of the options; if there are several, `latestOffset` respects all."""
        stream = self._options.stream
        kinds = ((ReadMaxFiles, stream.max_files), (ReadMaxBytes, stream.max_bytes), (ReadMaxRows, stream.max_offsets))
        return next((kind(limit) for kind, limit in kinds if limit is not None), ReadAllAvailable())

    def prepareForTriggerAvailableNow(self) -> None:
        """Ends the query after the segments that are closed now."""
        self._target = self.closed()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # type: ignore[override]
        """Returns the offset after the next micro-batch.

        Raises PathError if a path does not exist, KsegError if a segment that was there before is gone unread.
        """
        with self.stores():
            return self._after_micro_batch(progress_of(start), not isinstance(limit, ReadAllAvailable))

    def _after_micro_batch(self, progress: StreamProgress, is_limited: bool) -> Offset:
        files = size = offsets = 0
        for directory, closed in _in_turns(self.unread(progress)):
            if self._target is not None and closed.next > self._target.get(directory, DirectoryProgress()).next:
                continue
            files, size = files + 1, size + size_of(closed.file.path)
            offsets += self._end_of(closed) - closed.base_offset
            if is_limited and files > 1 and self._is_above(files, size, offsets):
                break
            segments = progress.get(directory, DirectoryProgress()).segments
            progress[directory] = DirectoryProgress(closed.next, segments + 1)
        return offset_of(progress)

    def _end_of(self, closed: ClosedSegment) -> int:
        """Returns the offset after a segment. Only the last one is opened for it, and only if offsets are limited."""
        is_last = closed.next == closed.base_offset + 1 and self._options.stream.includes_last
        return end_of(closed.file) if is_last and self._options.stream.max_offsets else closed.next

    def _is_above(self, files: int, size: int, offsets: int) -> bool:
        stream = self._options.stream
        limits = ((files, stream.max_files), (size, stream.max_bytes), (offsets, stream.max_offsets))
        return any(limit is not None and number > limit for number, limit in limits)


def _in_turns(unread: dict[str, list[ClosedSegment]]) -> Iterator[tuple[str, ClosedSegment]]:
    """Yields the first segment of each directory, then the second ones, and so on."""
    by_directory = ([(directory, closed) for closed in files] for directory, files in unread.items())
    return (found for found in chain.from_iterable(zip_longest(*by_directory)) if found is not None)
