"""The result of ``kseg.open``: all items and records of segments, partitions and log directories, in order."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from weakref import finalize

from kseg.api.archives import readable
from kseg.api.argument_types import checked
from kseg.api.arguments import (
    ISOLATIONS,
    ON_DAMAGE,
    Keys,
    Paths,
    Range,
    TimeRange,
    is_second,
    keys_of,
    paths_of,
    wanted_of,
)
from kseg.api.items import Batch, Damage, Record, item_of, records_of_chunk
from kseg.errors import DamageError, UnsupportedError
from kseg.export.chunk import NAMES
from kseg.export.decoding import LeftOut
from kseg.export.scanning import DamageLog, PartReader, ScanRequest, damage_text, parts_of_scan
from kseg.formats.rows import Scratch
from kseg.limits import CHUNK_BYTES, MAX_BATCH_BYTES
from kseg.runtime.threads import usable_cores
from kseg.segment import batches as segment_batches
from kseg.segment import items as segment_items
from kseg.segment.files import SegmentFile
from kseg.segment.paths import roots_of, walk_path
from kseg.segment.reader import SegmentReader
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.source import open_source


class Log:
    """The segments at some paths. Iterating yields `Batch` and `Damage` items that tile each file.

    Files are opened when they are read. The end of a ``with`` block frees the temporary files of archives, as the end
    of the object does.
    """

    def __init__(self, paths: tuple[str, ...], is_live: bool, max_batch_bytes: int, keys: PrivateKeys) -> None:
        self._is_live, self._max_batch_bytes = is_live, max_batch_bytes
        with ExitStack() as archives:
            self._paths = archives.enter_context(readable(paths, keys))
            self._files = [file for path in self._paths for root in roots_of(path) for file in walk_path(root)]
            for file in self._files:
                if file.kind and not file.is_segment:
                    raise UnsupportedError(f"{file.path}: {file.kind} files hold no batches")
            self._archives = archives.pop_all()
        finalize(self, self._archives.close)

    @property
    def files(self) -> list[str]:
        """The paths of the segments, in order."""
        return [file.path for file in self._files]

    def __enter__(self) -> "Log":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._archives.close()

    def __iter__(self) -> Iterator[Batch | Damage]:
        for file in self._files:
            yield from self._items(file)

    def _items(self, file: SegmentFile) -> Iterator[Batch | Damage]:
        scratch = Scratch(self._max_batch_bytes)
        with open_source(file.path) as source:
            reader = SegmentReader(source, file.is_07, file.base_offset or 0, self._is_live, scratch=scratch)
            for item in reader:
                yield item_of(item, file)

    @checked
    def records(
        self,
        *,
        offsets: Range | None = None,
        time: TimeRange | None = None,
        key: bytes | None = None,
        isolation: str = "read_uncommitted",
        on_damage: str = "raise",
    ) -> Iterator[Record]:
        """Yields the records of the log in order, without control records. Records below the log start offset, which no
        consumer gets, are included.

        ``offsets`` and ``time`` are pairs that include both ends; None leaves an end open. A time is ms since the
        epoch, text as on the command line, or a datetime; a record without a timestamp is in no range of times.
        ``key``: only records with this key. ``isolation``: "read_uncommitted" or "read_committed". ``on_damage``:
        "raise" raises DamageError at damage and at batches that cannot be read, "skip" logs them and continues.
        Raises RequestError for invalid arguments.
        """
        is_committed = is_second("isolation", isolation, ISOLATIONS)
        report = DamageLog(logging.getLogger("kseg")) if is_second("on_damage", on_damage, ON_DAMAGE) else raise_damage
        request = ScanRequest(
            self._paths, wanted_of(offsets, time, key), is_committed=is_committed, is_live=self._is_live,
            max_batch_bytes=self._max_batch_bytes,
        )  # fmt: skip
        return _records(self, request, PartReader(request, NAMES, 1, report, usable_cores(), CHUNK_BYTES // 8))

    def __repr__(self) -> str:
        more = f" and {len(self._paths) - 1} more" if len(self._paths) > 1 else ""
        return f"<Log {self._paths[0][-80:]!r}{more}: segments: {len(self._files)}>"


def _records(_log: Log, request: ScanRequest, reader: PartReader) -> Iterator[Record]:
    """Keeps the log, and with it its archives, until the end."""
    for part, chunk in reader.chunks_of(part for _, part in parts_of_scan(request)):
        yield from records_of_chunk(chunk, part.file)


def raise_damage(file: SegmentFile, left_out: LeftOut) -> None:
    """Raises DamageError with the item."""
    raise DamageError(damage_text(file, left_out), _item_at(file, left_out))


def _item_at(file: SegmentFile, left_out: LeftOut) -> Batch | Damage:
    with open_source(file.path) as source:
        reader = SegmentReader(source, file.is_07, file.base_offset or 0)
        reader.begin_at(left_out.position)
        item = next(iter(reader))
    is_batch = isinstance(item, segment_batches.Batch) and item.size == left_out.length
    return item_of(item if is_batch else segment_items.Damage(*left_out), file)


@checked
def open_log(
    path: Paths, *, live: bool = False, max_batch_bytes: int = MAX_BATCH_BYTES, private_keys: Keys | None = None
) -> Log:
    """Opens segments, partitions, log directories, or ``-`` (standard input) for reading: one path, several, or globs.

    ``live``: a partial batch at the end of a file is being written and is not damage. ``max_batch_bytes`` limits the
    decompressed size of one batch. Remote storage is read as the log directory of its live segments; ``private_keys``
    has the PEM files for encrypted segments by the ids of their key pairs. Raises PathError if there is nothing to
    read, UnsupportedError for a file that is not a segment.
    """
    return Log(paths_of(path), live, max_batch_bytes, keys_of(private_keys))
