"""The result of ``kseg.open``: all items of a segment, a partition or a log directory, in order."""

import os
from collections.abc import Iterator

from kseg.errors import UnsupportedError
from kseg.formats.rows import Scratch
from kseg.limits import MAX_BATCH_BYTES
from kseg.segment.batches import Batch
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage, Record
from kseg.segment.paths import walk_path
from kseg.segment.reader import SegmentReader
from kseg.stores.source import open_source


class Log:
    """The segments at a path. Iterating yields `Batch` and `Damage` items; `records` yields the records of all batches.

    Raises PathError if there is nothing to read, UnsupportedError for a file that is not a segment.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, live: bool = False, max_batch_bytes: int = MAX_BATCH_BYTES
    ) -> None:
        self.path = os.fspath(path)
        self.live = live
        self.max_batch_bytes = max_batch_bytes
        self.files: list[SegmentFile] = list(walk_path(self.path))
        for file in self.files:
            if file.kind and not file.is_segment:
                raise UnsupportedError(f"{file.path}: {file.kind} files hold no batches")

    def __iter__(self) -> Iterator[Batch | Damage]:
        for file in self.files:
            yield from self.items(file)

    def items(self, file: SegmentFile) -> Iterator[Batch | Damage]:
        """Yields the items of one of ``files``; their ranges tile it exactly."""
        scratch = Scratch(self.max_batch_bytes)
        with open_source(file.path) as source:
            yield from SegmentReader(source, file.kind == ".kafka", file.base_offset or 0, self.live, scratch=scratch)

    def records(self) -> Iterator[Record]:
        """Yields the records of every batch, including control records, in file order."""
        for item in self:
            if isinstance(item, Batch):
                yield from item


def open_path(path: str | os.PathLike[str], *, live: bool = False, max_batch_bytes: int = MAX_BATCH_BYTES) -> Log:
    """Opens a segment file, a partition directory, a log directory, or ``-`` (standard input) for reading.

    ``live``: a partial batch at the end of a file is being written and is not damage. ``max_batch_bytes`` limits the
    decompressed size of one batch.
    """
    return Log(path, live=live, max_batch_bytes=max_batch_bytes)
