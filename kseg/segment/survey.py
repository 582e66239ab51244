"""One pass over a segment for verification: header rows, damage and problems, in file order.

Intact batches are read in windows, in several threads if the file is large (`kseg.segment.slices`). From the first
bytes that are not intact, `SegmentReader` reads the rest.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple, Self, TypeVar

from kseg.formats.rows import BytesLike, Scratch, UndecodableError, int64s
from kseg.kernel.layout import rows as layout
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2
from kseg.kernel.scan.frames import SKIP_CHECKSUMS, WALK_RECORDS
from kseg.kernel.scan.headers import read as read_headers
from kseg.segment.files import SegmentFile
from kseg.segment.items import Batch, Damage, Message, Message07, RecordBatch
from kseg.segment.reader import UNREADABLE, SegmentReader, open_segment
from kseg.segment.slices import in_parts, is_worth_parts
from kseg.stores.extent import Extent
from kseg.stores.source import Source, is_disk_error, unreadable_error
from kseg.stores.windows import WINDOW_BYTES, Buffers, Windows

T = TypeVar("T")

QUICK, FULL, DEEP = 0, 1, 2
"""Levels: headers only; also checksums; also every record, decompressed."""
SCAN_OPTIONS = (SKIP_CHECKSUMS, 0, WALK_RECORDS)


class BatchRow(NamedTuple):
    """The header of one batch: a row of BATCH_* columns (`kseg.kernel.layout.rows`)."""

    position: int
    size: int
    magic: int
    state: int
    first_offset: int
    last_offset: int
    attributes: int
    epoch: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int
    marker: int
    coordinator_epoch: int

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.size

    @property
    def has_right_crc(self) -> bool:
        return bool(self.state & layout.CRC_RIGHT)


class _Column:
    """The values of a field of `BatchRow` in all rows."""

    def __init__(self, name: str) -> None:
        self._number = BatchRow._fields.index(name)

    def __get__(self, headers: "HeaderRows", _owner: object = None) -> list[int]:
        return headers.rows[self._number : headers.count * layout.BATCH_WIDTH : layout.BATCH_WIDTH].tolist()


@dataclass(slots=True, eq=False)
class HeaderRows:
    """``count`` adjacent batches: a table of BATCH_* columns, read as `BatchRow`, or by whole columns."""

    rows: memoryview
    count: int

    positions, sizes, magics, states = map(_Column, ("position", "size", "magic", "state"))
    firsts, lasts, attributes, epochs = map(_Column, ("first_offset", "last_offset", "attributes", "epoch"))
    base_timestamps, max_timestamps = map(_Column, ("base_timestamp", "max_timestamp"))
    records, markers = map(_Column, ("records", "marker"))
    producer_ids, producer_epochs, sequences = map(_Column, ("producer_id", "producer_epoch", "base_sequence"))

    @classmethod
    def of(cls, rows: Sequence[BatchRow]) -> "HeaderRows":
        """Returns a table of these rows."""
        return cls(memoryview(array("q", chain.from_iterable(rows))), len(rows))

    def __getitem__(self, i: int) -> BatchRow:
        at = range(self.count)[i] * layout.BATCH_WIDTH
        return BatchRow(*self.rows[at : at + layout.BATCH_WIDTH])

    def __setitem__(self, i: int, row: BatchRow) -> None:
        self.rows[i * layout.BATCH_WIDTH : (i + 1) * layout.BATCH_WIDTH] = memoryview(array("q", row))

    def __iter__(self) -> Iterator[BatchRow]:
        return map(self.__getitem__, range(self.count))

    @property
    def end(self) -> int:
        """The position after the last batch."""
        return self[-1].end

    def shift(self, by: int) -> None:
        """Moves the positions."""
        for at in range(layout.BATCH_POSITION, self.count * layout.BATCH_WIDTH, layout.BATCH_WIDTH):
            self.rows[at] += by

    def part(self, first: int, stop: int) -> "HeaderRows":
        """Returns the rows ``first`` to ``stop``."""
        return HeaderRows(self.rows[first * layout.BATCH_WIDTH : stop * layout.BATCH_WIDTH], stop - first)

    def followed_by(self, other: "HeaderRows") -> "HeaderRows":
        """Returns these rows and others."""
        rows = b"".join(each.rows[: each.count * layout.BATCH_WIDTH].tobytes() for each in (self, other))
        return HeaderRows(memoryview(bytearray(rows)).cast("q"), self.count + other.count)


def headers_of(data: BytesLike, spans: Sequence[tuple[int, int]], origin: int = 0) -> HeaderRows:
    """Returns the headers of batches at these (position, size) of ``data``, whose checksums are right; ``origin`` is
    added to their positions."""
    frames = array("q", chain.from_iterable((at, size, data[at + ENTRY_MAGIC], layout.CRC_RIGHT) for at, size in spans))
    rows = int64s(len(spans) * layout.BATCH_WIDTH)
    read_headers(data, memoryview(frames), len(spans), False, origin, rows)
    return HeaderRows(rows, len(spans))


class BatchProblem(NamedTuple):
    """A problem of the records of the batch at ``position``, which has a valid checksum; ``code`` as in Problem.

    ``unread``, in the first problem of a batch: the records that its header claims beyond those that were read, without
    control records.
    """

    code: str
    position: int
    size: int
    offset: int
    message: str
    unread: int = 0


Item = HeaderRows | Damage | BatchProblem


def open_survey(
    file: SegmentFile | str,
    level: int,
    buffers: Buffers | None = None,
    jobs: int = 1,
    *,
    scratch: Scratch | None = None,
    source: Source | None = None,
    base_offset: int | None = None,
    live: bool = False,
) -> "SegmentSurvey":
    """Returns a pass over a file; used in a `with` statement, it closes the file. Raises PathError.

    ``scratch``: that of ``buffers`` by default. See `open_segment` and `SegmentSurvey` for the rest.
    """
    if scratch is None and buffers is not None:
        scratch = buffers.scratch
    options = SCAN_OPTIONS[level]
    reader = open_segment(file, scratch, source=source, base_offset=base_offset, live=live, scan_options=options)
    return SegmentSurvey(reader, level, jobs, buffers)


class SegmentSurvey:
    """A pass at one of the levels. ``position`` is the end of the last item.

    With ``buffers``, the rows of an item are overwritten by the next item; otherwise they belong to the caller.
    """

    def __init__(self, reader: SegmentReader, level: int, jobs: int = 1, buffers: Buffers | None = None) -> None:
        """``reader`` has the scan options of the level: `open_survey` makes one."""
        self.reader = reader
        self._buffers = buffers
        self.source: Source = reader.source
        self.level = level
        self.jobs = jobs
        self.position = 0
        self._last_batch = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.reader.__exit__(*error)

    def __iter__(self) -> Iterator[Item]:
        """Yields items that tile the file; problems of batches follow their headers."""
        size = self.source.size
        # Headers alone are best read from a mapped file, unless it has only a few pages.
        if size and not self.reader.is_07 and not self.reader.is_cut and (self.level != QUICK or size <= WINDOW_BYTES):
            if (proven := self.source.proven) is not None and self.level <= FULL:
                for rows, count in proven.headers():
                    yield from self._recorded([HeaderRows(rows, count)])
                self.position = proven.end
                self.source = self.reader.source = self.source.behind_proven()  # a reader of only the rest
            if self.position < size:
                yield from self._windows(self.source.extent, size)
        if self.position < self.reader.end:
            yield from self._rest()

    def _windows(self, extent: Extent, size: int) -> Iterator[Item]:
        """Reads from the position on in windows, in several threads if the file is large."""
        if is_worth_parts(size - self.position, self.jobs):
            max_bytes = self.reader.scratch.max_batch_bytes
            parts = in_parts(extent, self.position, size, self.jobs, lambda: partial(self._part, Buffers(max_bytes)))
            for reached, items in up_to_disk_error(parts):
                self.position = reached
                yield from self._recorded(items)
            return
        buffers = self._buffers
        rows = None if buffers is None else partial(buffers.int64s, "headers")
        windows = _windows(extent, self.position, size, self.level, self.reader.scratch, buffers)
        for items in _items_in(windows, self.level, self.reader.scratch, rows):
            yield from self._recorded(items)
        self.position = windows.position

    def _part(self, buffers: Buffers, start: int, end: int) -> tuple[int, list[Item]]:
        """Reads a part in one of several threads."""
        windows = _windows(self.source.extent, start, end, self.level, buffers.scratch, buffers)
        items = list(chain.from_iterable(_items_in(windows, self.level, buffers.scratch)))
        return windows.position, items

    def _recorded(self, items: list[Item]) -> list[Item]:
        """Returns the items, after recording their last batch."""
        for item in items:
            if isinstance(item, HeaderRows):
                self._last_batch = item.rows[(item.count - 1) * layout.BATCH_WIDTH + layout.BATCH_POSITION]
        return items

    def _rest(self) -> Iterator[Item]:
        """Yields the items of `SegmentReader` from the position on."""
        reader = self.reader
        if self.position:
            reader.begin_at(self.position, self._last_batch)
            self.source.expect_jumps(False)
        for item in reader.runs():
            if isinstance(item, Damage):
                yield item
                continue
            rows = reader.headers(item)
            batch_of = partial(reader.batch, item, keep=False)
            found = open_unproven(rows, item.count, batch_of) if self.level == DEEP else []
            yield HeaderRows(rows, item.count)
            yield from found
        self.position = reader.end


def open_unproven(rows: memoryview, count: int, batch_of: Callable[[int], Batch]) -> list[BatchProblem]:
    """Opens the valid batches in ``rows`` that the kernel did not prove right: compressed ones, and those with errors.

    ``batch_of(i)`` returns the batch of row i. Returns the problems of their records. Columns that need the records
    (first offset and count of a compressed message, missing keys) are filled in.
    """
    found: list[BatchProblem] = []
    states = rows[layout.BATCH_STATE : count * layout.BATCH_WIDTH : layout.BATCH_WIDTH].tolist()
    for i, state in enumerate(states):
        if state & (layout.CRC_RIGHT | layout.RECORDS_RIGHT) != layout.CRC_RIGHT:
            continue
        at, batch = i * layout.BATCH_WIDTH, batch_of(i)
        seen = batch.survey()
        if isinstance(batch, Message | Message07) and rows[at + layout.BATCH_COUNT] < 0:
            rows[at + layout.BATCH_COUNT] = seen.count
            if isinstance(batch, Message) and seen.first_offset is not None:
                rows[at + layout.BATCH_FIRST_OFFSET] = seen.first_offset
        if seen.last_offset is not None and any(code == "wrong-base-offset" for code, _ in seen.problems):
            rows[at + layout.BATCH_LAST_OFFSET] = seen.last_offset
        if not seen.problems:
            rows[at + layout.BATCH_STATE] |= layout.RECORDS_RIGHT
        if seen.has_null_key:
            rows[at + layout.BATCH_STATE] |= layout.NULL_KEYS
        offset = batch.last_offset if batch.base_offset is None else batch.base_offset
        is_counted = isinstance(batch, RecordBatch) and not batch.is_control
        unread = max(batch.header.record_count - seen.count, 0) if is_counted else 0
        for code, text in seen.problems:
            found.append(BatchProblem(code, batch.position, batch.size, offset, text, unread))
            unread = 0
    return found


def _windows(extent: Extent, start: int, end: int, level: int, scratch: Scratch, buffers: Buffers | None) -> Windows:
    return Windows(extent, start, end, SCAN_OPTIONS[level], scratch.max_batch_bytes, buffers)


def _items_in(
    windows: Windows, level: int, scratch: Scratch, take: Callable[[int], memoryview] | None = None
) -> Iterator[list[Item]]:
    """Yields lists of items, each header rows and the problems after them. ``take``: see `Windows.headers`."""
    for rows, count, unproven in up_to_disk_error(windows.headers(take)):
        found: list[Item] = [HeaderRows(rows, count)]
        if unproven is not None and level == DEEP:
            window, frame_rows, frames, origin = unproven
            last = rows[len(rows) - frames * layout.BATCH_WIDTH :]
            found += open_unproven(last, frames, partial(_batch_in, window, frame_rows, origin, scratch))
        yield found


def up_to_disk_error(found: Iterable[T]) -> Iterator[T]:
    """Stops at a disk error, which `SegmentReader` then reads around. Raises OSError for other failures."""
    try:
        yield from found
    except OSError as error:
        if not is_disk_error(error):
            raise


def _batch_in(window: memoryview, rows: memoryview, origin: int, scratch: Scratch, i: int) -> Batch:
    """Returns frame i of the rows of a window that starts at ``origin`` in the file."""
    frame = rows[i * layout.FRAME_WIDTH : (i + 1) * layout.FRAME_WIDTH]
    position, size, magic = (frame[at] for at in (layout.FRAME_POSITION, layout.FRAME_SIZE, layout.FRAME_MAGIC))
    kind = RecordBatch if magic >= MAGIC_V2 else Message
    return kind(window[position : position + size], origin + position, size, magic, True, scratch)


def record_count(path: str, buffers: Buffers | None = None) -> int | None:
    """Returns the number of records of a .log, including markers, by its headers; None if they do not give it.

    They do not give it for compressed v0 and v1 messages, and for damage. Raises PathError if the file, or a part of
    it, cannot be read.
    """
    total = 0
    with open_survey(path, QUICK, buffers) as survey:
        for item in survey:
            if isinstance(item, Damage) and item.code == UNREADABLE:
                raise unreadable_error(path, survey.source.unreadable)
            if not isinstance(item, HeaderRows):
                return None
            counts = item.records
            if min(counts) < 0:
                return None
            total += sum(counts)
    return total


# How far a cleaner has cleaned a log, from the keys of the remaining records.
#
# Kafka's cleaner starts at the log start each time and keeps the last record of each key. Below the last gap that it
# made every record therefore has a key, and all keys are distinct. This also holds for a replica copied from a
# cleaned log. Source: Cleaner and LogToClean of Kafka 4.3.1.

MAX_CHECKED_RECORDS = 100_000


def cleaner_reach(batches: Iterable[Batch], before: int) -> int:
    """Returns an offset above which no cleaner has removed records, by the records below ``before``; else ``before``.

    It is the offset of the first record without a key, or with an earlier record's key. ``batches``: those of the log.
    """
    seen, last = set[int](), -1
    for batch in batches:
        if not batch.is_valid or batch.is_control:
            continue
        with suppress(UndecodableError):  # the records before the error count
            for offset, key, _ in chain.from_iterable(rows.entries() for rows in batch.rows()):
                if offset >= before or len(seen) >= MAX_CHECKED_RECORDS:
                    return before
                if offset <= last:
                    continue
                if key is None or (number := hash(key)) in seen:
                    return offset
                seen.add(number)
                last = offset
    return before
