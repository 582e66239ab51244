"""Segments of a workspace: lookups and recovery as in Kafka's LogSegment."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from kseg.errors import PathError, is_system_error
from kseg.formats.message_set import MIN_SIZE
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import Scratch, UndecodableError, int64s
from kseg.formats.suffixes import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX
from kseg.kernel.layout.headers import ENTRY_MAGIC, ENTRY_OVERHEAD, ENTRY_SIZE, MAGIC_V2
from kseg.kernel.layout.rows import (
    BATCH_SIZE,
    BATCH_WIDTH,
    DONE,
    FRAME_MAGIC,
    FRAME_SIZE,
    FRAME_WIDTH,
    ROW_OFFSET,
    be32,
    sum_of,
)
from kseg.kernel.scan.headers import read as read_headers
from kseg.kernel.state import indexing
from kseg.recovery.workspace import BrokerRefusesError, TransactionConflictError, Workspace, leading_offset
from kseg.releases.release import Era
from kseg.segment.batches import Message
from kseg.segment.files import METADATA_TOPIC, parse_partition_name
from kseg.segment.reader import crc_holds
from kseg.segment.seek import OFFSET_ENTRY, TIME_ENTRY
from kseg.segment.slices import in_parts, is_worth_parts
from kseg.segment.survey import HeaderRows, headers_of
from kseg.segment.writer import SegmentIndexes
from kseg.sidefiles.checkpoints import EpochEntry
from kseg.sidefiles.indexes import AbortedTxn, build_transaction_index
from kseg.stores.source import Source, check_readable, open_source, unreadable_error
from kseg.stores.windows import LARGEST_WINDOW_BYTES, Buffers, Windows

# The leader epochs of a partition, with the rules of Kafka's LeaderEpochFileCache.

_CHANGES_AT_ONCE = 64


class LeaderEpochs:
    """Entries (epoch, start offset), both rising. ``is_strict``: an epoch that contradicts them is ignored (1.1 and
    older)."""

    def __init__(self, entries: Iterable[EpochEntry] = (), is_strict: bool = False) -> None:
        self._is_strict = is_strict
        self.entries: list[EpochEntry] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def latest(self) -> int | None:
        return self.entries[-1].epoch if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Adds an entry, and removes those that it contradicts; if ``is_strict``, an entry that contradicts others is
        ignored instead. Does nothing if the latest entry has this epoch from this offset or a lower one on."""
        last = self.entries[-1] if self.entries else None
        if last is not None and last.epoch == epoch and start_offset >= last.start_offset:
            return
        if self._is_strict and last is not None and (epoch <= last.epoch or start_offset < last.start_offset):
            return
        while not self._is_strict and self.entries:
            if self.entries[-1].epoch < epoch and self.entries[-1].start_offset < start_offset:
                break
            self.entries.pop()
        self.entries.append(EpochEntry(epoch, start_offset))

    def assign_from_batch(self, epoch: int, start_offset: int, lowest: int = 0) -> None:
        """Adds the epoch of a batch in a recovery: only if it is above the latest and at least ``lowest``."""
        if epoch >= lowest and (self.latest is None or epoch > self.latest):
            self.assign(epoch, start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes the entries that start at or after an offset."""
        if end_offset >= 0 and self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries = [entry for entry in self.entries if entry.start_offset < end_offset]


class EpochChanges:
    """Calls ``report`` with epoch and base offset of each v2 batch whose leader epoch differs from the previous
    batch's."""

    def __init__(self, report: Callable[[int, int], None]) -> None:
        self._report = report
        self._state, self._found = indexing.EpochState(), int64s(_CHANGES_AT_ONCE * indexing.CHANGE_WIDTH)

    def add(self, headers: HeaderRows) -> None:
        done = 0
        while done < headers.count:
            done = indexing.changes(headers.rows, done, headers.count, self._state, self._found)
            for i in range(self._state.found):
                epoch, start_offset, _ = self._found[i * indexing.CHANGE_WIDTH : (i + 1) * indexing.CHANGE_WIDTH]
                if epoch >= 0:
                    self._report(epoch, start_offset)


# Builds the offset and time index of a segment from its batches as a broker's recovery does.


class IndexBuilder(SegmentIndexes):
    """Builds indexes by the rules of an era; ``path`` is the path of the .log, for messages."""

    def __init__(self, base_offset: int, interval_bytes: int, era: Era, path: str) -> None:
        super().__init__(
            base_offset, interval_bytes, era.uses_first_offset, era.has_time_index, not era.checks_offset_range
        )
        self._era, self._path = era, path
        self._scratch: list[Scratch] = []  # one, once a message must be decompressed

    def add(self, headers: HeaderRows, read: Callable[[int, int], bytes]) -> tuple[int, int]:
        """Adds batches. Returns a status of `kseg.kernel.state.indexing` and the number of batches added.

        ``read`` returns bytes of the .log by position and length. Raises BrokerRefusesError if a broker needs the first
        offset of a message and cannot decompress it.
        """
        if self._era.uses_first_offset and min(headers.firsts) < 0:
            # The first offset of a compressed v0 or v1 message is inside; those that will be indexed are opened.
            last, interval = self._state.last_position, self._state.interval
            for i, position in enumerate(headers.positions):
                if position - last <= interval:
                    continue
                last, row = position, headers[i]
                if row.first_offset < 0 and row.magic < MAGIC_V2:
                    self._scratch = self._scratch or [Scratch()]
                    data = read(position, row.size)
                    first = first_offset_of(data, position, row.magic, self._scratch[0], self._path)
                    headers[i] = row._replace(first_offset=first)
        return self.take(headers.rows, headers.count)


def first_offset_of(data: bytes, position: int, magic: int, scratch: Scratch, path: str) -> int:
    """Returns the offset of the first record of a v0 or v1 message in the .log ``path``. Raises BrokerRefusesError if
    it cannot be decompressed."""
    try:
        message = Message(data, position, len(data), magic, True, scratch)
        for found in message.rows():
            if found.count:
                return int(found.rows[ROW_OFFSET])
    except UndecodableError:
        pass  # reported below, as a message without records is
    raise BrokerRefusesError(
        f"{path}: the message at position {position} cannot be opened, and a broker that looks for its first offset "
        "does not start; --full scans the log and cuts it at a wrong checksum, --mode salvage keeps what is intact"
    )


# Reads the batches of a segment that a broker's recovery accepts, up to the first that it rejects.
#
# Rules: Kafka's FileLogInputStream and RecordBatch.ensureValid. Only the size and the outer checksum count. Unlike
# kseg's readers, a broker does not check the magic byte of v2, which no checksum covers: any magic above 2 is read as
# v2.


class AcceptedBatches:
    """Iterates over `HeaderRows` of a source's first ``size`` bytes; ``position`` is the end of the accepted batches.

    ``max_size``: max.message.bytes of a broker that treats larger messages as corrupt; such a broker does not know v2,
    whose checksum is at another place. ``jobs`` threads read a large file.
    """

    def __init__(
        self, source: Source, size: int, position: int = 0, max_size: int | None = None, jobs: int = 1
    ) -> None:
        self._source = source
        self._size = size
        self._max_size = max_size
        self._max_magic = 127 if max_size is None else 1
        self._jobs = jobs
        self.position = position

    def __iter__(self) -> Iterator[HeaderRows]:
        for found in self._intact():
            kept = self._known(found)
            if kept:
                yield HeaderRows(found.rows, kept)
            if kept < found.count:
                self.position = found[kept].position
                return

    def _intact(self) -> Iterator[HeaderRows]:
        """Yields batches with right checksums, up to the first wrong one."""
        extent = self._source.extent
        if is_worth_parts(self._size - self.position, self._jobs):
            for reached, some in in_parts(extent, self.position, self._size, self._jobs, self._reading):
                self.position = reached
                yield from some
        while self.position < self._size:
            windows = Windows(extent, self.position, self._size, walk=False)
            yield from _headers_in(windows)
            self.position = windows.position
            if self.position >= self._size or (found := self._beyond_windows()) is None:
                return
            self.position = found.end
            yield found

    def _reading(self) -> Callable[[int, int], tuple[int, list[HeaderRows]]]:
        buffers = Buffers()

        def part(start: int, end: int) -> tuple[int, list[HeaderRows]]:
            windows = Windows(self._source.extent, start, end, walk=False, buffers=buffers)
            found = list(_headers_in(windows))
            return windows.position, found

        return part

    def _known(self, found: HeaderRows) -> int:
        """Returns the number of batches before the first that an old broker takes for corrupt: larger than its
        max.message.bytes, or of a magic that it does not know."""
        if self._max_size is None:
            return found.count
        each = enumerate(zip(found.sizes, found.magics, strict=True))
        largest = self._max_size + ENTRY_OVERHEAD
        return next((i for i, (size, magic) in each if size > largest or magic > self._max_magic), found.count)

    def _beyond_windows(self) -> HeaderRows | None:
        """Returns the batch at the position if its checksum is right and no window contains it: a v2 batch with a wrong
        magic, or one that is larger than the largest window."""
        head = bytes(self._source.buffer[self.position : self.position + HEADER_BYTES])
        if len(head) < HEADER_BYTES or head[ENTRY_MAGIC] > self._max_magic:
            return None
        magic, size = head[ENTRY_MAGIC], be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD
        if size > self._size - self.position or (self._max_size is not None and size - ENTRY_OVERHEAD > self._max_size):
            return None
        if not (size > LARGEST_WINDOW_BYTES or (magic > MAGIC_V2 and size >= HEADER_BYTES)):
            return None
        if not crc_holds(self._source.buffer, self.position, self.position + size, magic >= MAGIC_V2):
            return None
        return headers_of(self._source.buffer[self.position : self.position + size], [(0, size)], self.position)


def _headers_in(windows: Windows) -> Iterator[HeaderRows]:
    for rows, count, _ in windows.headers():
        yield HeaderRows(rows, count)


LARGEST_POSITION = 0x7FFFFFFF

_UP_TO_MAGIC = ENTRY_MAGIC + 1
_FRAMES_AT_ONCE = 1 << 12

_WARM_ENTRIES = 1024
"""The last entries of an offset index, which a lookup searches first (AbstractIndex)."""


class ReplayResult(NamedTuple):
    """The result of replaying ``batches``, and the aborted transactions that end in them.

    ``refusal``: why a broker stops at the next batch, "" if it does not. ``is_cut``: the last batch stops a
    replay, but a scan of its segment only truncates the log after it. ``is_conflict``: the next batch contradicts
    another one.
    """

    batches: int
    aborted: list[AbortedTxn]
    is_cut: bool = False
    refusal: str = ""
    is_conflict: bool = False

    def error(self, path: str, hint: str) -> BrokerRefusesError:
        """Returns the refusal as an error. ``path`` is the path of the .log, ``hint`` the consequence and the
        remedy."""
        kind = TransactionConflictError if self.is_conflict else BrokerRefusesError
        return kind(f"{path}: {self.refusal}: {hint}")


def replay_nothing(headers: HeaderRows) -> ReplayResult:
    """Accepts all batches, for logs without producers."""
    return ReplayResult(headers.count, [])


@dataclass(slots=True)
class Recovered:
    """The result of a segment's recovery: ``valid_bytes`` of the .log are kept, up to ``next_offset``.

    ``is_refused``: an index rejects an offset at ``valid_bytes``; a broker then empties the segment. ``outside``: an
    offset at ``valid_bytes`` that overflows the segment's indexes, None if there is none.
    """

    valid_bytes: int = 0
    next_offset: int = 0
    is_refused: bool = False
    outside: int | None = None


class LogEnd(NamedTuple):
    """``offset`` after the last batch; ``bad_position``: position of bytes at which a broker fails."""

    offset: int
    bad_position: int | None = None


class BadFrameError(Exception):
    """The length at ``position`` is none of a batch; a broker that reads it fails."""

    def __init__(self, position: int) -> None:
        super().__init__(f"no batch begins at position {position}")
        self.position = position


class BrokerSegment:
    """One segment of a workspace. A file name is ``stem``, the suffix of the file's kind, and ``suffix`` (such as
    .swap)."""

    def __init__(self, workspace: Workspace, stem: str, base_offset: int, suffix: str = "") -> None:
        self.workspace = workspace
        self.stem = stem
        self.base_offset = base_offset
        self.suffix = suffix
        self.keeps_preallocated = True
        """Whether the indexes of the last segment may stay preallocated, as while a broker runs."""

    def name(self, kind: str) -> str:
        return self.stem + kind + self.suffix

    @property
    def log(self) -> str:
        return self.name(LOG)

    @property
    def path(self) -> str:
        """That of the .log, for messages."""
        return f"{self.workspace.directory}/{self.log}"

    @property
    def size(self) -> int:
        return self.workspace.size(self.log)

    def headers(self, position: int = 0, max_size: int | None = None) -> Iterator[HeaderRows]:
        """Yields header rows of the batches from a position up to the first that is not intact."""
        if not 0 <= position < self.size:
            return
        path, start = self.workspace.location(self.log)  # the real file that contains the .log, and where
        with open_source(path) as source:
            batches = AcceptedBatches(source, start + self.size, start + position, max_size, self.workspace.jobs)
            try:
                for found in batches:
                    if start:
                        found.shift(-start)
                    yield found
            except OSError as error:
                if not is_system_error(error):
                    raise
                check_readable(source.path)
                raise PathError(f"{source.path}: {error.strerror or error}") from error

    def read(self, position: int, length: int) -> bytes:
        """Returns bytes of the .log."""
        return self.workspace.read_range(self.log, position, length)

    def last_indexed(self) -> tuple[int, int]:
        """Returns offset and position of the last entry of the offset index; like a broker, counts trailing zeros as
        entries."""
        entries = self._index_entries
        return self._indexed(entries - 1) if entries else (self.base_offset, 0)

    @property
    def _index_entries(self) -> int:
        """Number of entries of the offset index, 0 if there is none."""
        name = self.name(INDEX)
        return self.workspace.size(name) // OFFSET_ENTRY.size if name in self.workspace else 0

    def _indexed(self, number: int) -> tuple[int, int]:
        """Returns offset and position of an entry of the offset index."""
        width = OFFSET_ENTRY.size
        data = self.workspace.read_range(self.name(INDEX), number * width, width)
        relative, position = OFFSET_ENTRY.unpack(data)
        return self.base_offset + relative, position

    def lookup(self, offset: int) -> int:
        """Returns the position from which to search for an offset, at least 0; for an unsorted index, the result of
        Kafka's binary search (LogSegment.translateOffset, AbstractIndex)."""
        entries = self._index_entries
        if not entries:
            return 0
        low, high = 0, max(0, entries - 1 - _WARM_ENTRIES)
        if self._indexed(high)[0] < offset:
            low, high = high, entries - 1
        elif self._indexed(0)[0] > offset:
            return 0
        while low < high:
            middle = (low + high + 1) // 2
            found = self._indexed(middle)
            if found[0] == offset:
                return max(found[1], 0)
            if found[0] > offset:
                high = middle - 1
            else:
                low = middle
        return max(self._indexed(low)[1], 0)

    def position_of(self, offset: int, by_first: bool = True) -> int | None:
        """Returns the position where a broker starts to read for an offset (LogSegment.translateOffset); None if the
        offset is after the last batch.

        ``by_first``: first offsets are compared, as since 4.1. Raises BadFrameError, and BrokerRefusesError if a
        message whose first offset is needed cannot be decompressed.
        """
        before: tuple[int, int] | None = None
        for headers in self.claimed(self.lookup(offset)):
            found = enumerate(self._searched_offsets(headers, by_first))
            at, first = next(((i, each) for i, each in found if each >= offset), (None, 0))
            if at is not None:
                if at:
                    before = headers[at - 1].position, headers[at - 1].last_offset
                if by_first and first > offset and before and before[1] >= offset:
                    return before[0]
                return headers[at].position
            before = headers[-1].position, headers[-1].last_offset
        return before[0] if before and before[1] >= offset else None

    def _searched_offsets(self, headers: HeaderRows, by_first: bool) -> Iterator[int]:
        """Yields the offset of each batch that a search compares. The first offset of a compressed v0 or v1 message is
        inside: the message is decompressed when it is reached, whatever its checksum. Raises BrokerRefusesError if it
        cannot be decompressed."""
        offsets = headers.firsts if by_first else headers.lasts
        if not by_first or min(offsets) >= 0:
            yield from offsets
            return
        for row in headers:
            if row.first_offset >= 0 or row.magic >= MAGIC_V2:
                yield row.first_offset
                continue
            data = self.read(row.position, row.size)
            yield first_offset_of(data, row.position, row.magic, Scratch(), self.path)

    def log_end(self, is_indexed: bool = True, by_first: bool = True) -> LogEnd:
        """Finds the end of the log, starting from the last index entry (LogSegment.readNextOffset).

        Checksums are not verified. Without ``is_indexed`` the search starts at position 0; ``by_first``: as in
        `position_of`.
        """
        offset = self.last_indexed()[0] if is_indexed else self.base_offset
        end, is_found = self.base_offset, False
        try:
            for headers in self.claimed(self.lookup(offset) if is_indexed else 0):
                is_found = is_found or any(each >= offset for each in self._searched_offsets(headers, by_first))
                last = headers[-1].last_offset
                end = sum_of(last, 1) if is_found or last >= offset else self.base_offset
        except BadFrameError as error:
            return LogEnd(end, error.position)
        return LogEnd(end)

    def claimed(self, position: int, end: int | None = None) -> Iterator[HeaderRows]:
        """Yields header rows of the batches from a position to ``end``, whatever their checksums
        (FileLogInputStream.nextBatch).

        Raises BadFrameError at a length that is none of a batch.
        """
        end, max_frames, taken = self.size if end is None else end, 1, 1
        while taken == max_frames:
            for headers in self.headers(position):
                count = headers.count
                while count and headers.first(count).end > end:
                    count -= 1
                if count:
                    yield headers.first(count)
                    position = headers.first(count).end
                if count < headers.count:
                    return
            # Ever more frames, so that a run of batches with wrong checksums is not slow.
            max_frames, taken = min(2 * max_frames, _FRAMES_AT_ONCE), 0
            for headers in self._unproven(position, end, max_frames):
                yield headers
                position, taken = headers.end, taken + 1

    def _unproven(self, position: int, end: int, max_frames: int) -> Iterator[HeaderRows]:
        """Yields the next batches one by one, without verifying checksums; ``max_frames``: their largest number."""
        if position >= end - _UP_TO_MAGIC:
            return
        frame = int64s(FRAME_WIDTH)
        path, start = self.workspace.location(self.log)
        with open_source(path) as source:
            for _ in range(max_frames):
                if position >= end - _UP_TO_MAGIC:
                    return
                head = bytes(source.buffer[start + position : start + min(position + HEADER_BYTES, self.size)])
                size, magic = be32(head, ENTRY_SIZE), head[ENTRY_MAGIC] - (head[ENTRY_MAGIC] >> 7 << 8)
                is_whole = size + ENTRY_OVERHEAD <= end - position
                if size < MIN_SIZE or (is_whole and magic >= MAGIC_V2 and len(head) < HEADER_BYTES):
                    if source.look_for_unreadable():
                        raise unreadable_error(source.path, source.unreadable)
                    raise BadFrameError(position)
                if not is_whole:
                    return
                rows = int64s(BATCH_WIDTH)
                frame[FRAME_SIZE], frame[FRAME_MAGIC] = min(size + ENTRY_OVERHEAD, len(head)), magic
                read_headers(head, frame, 1, False, position, rows)
                rows[BATCH_SIZE] = size + ENTRY_OVERHEAD
                yield HeaderRows(rows, 1)
                position += size + ENTRY_OVERHEAD

    def recover(
        self,
        interval: int,
        era: Era,
        replay: Callable[[HeaderRows], ReplayResult],
        add_epoch: Callable[[int, int], None] = lambda _epoch, _offset: None,
    ) -> Recovered:
        """Scans the segment and rebuilds its indexes (LogSegment.recover). The caller truncates the .log.

        ``replay`` replays the producers of accepted batches, given their headers; ``add_epoch`` receives leader epoch
        and base offset of batches that may start an epoch. Raises BrokerRefusesError for positions that no index can
        store, and if the replay stops a broker.
        """
        found = Recovered(next_offset=self.base_offset)
        builder = IndexBuilder(self.base_offset, interval, era, self.path)
        aborted: list[AbortedTxn] = []
        changes = EpochChanges(add_epoch)
        for headers in self.headers(0, era.max_message_bytes):
            if headers.end > LARGEST_POSITION:
                raise BrokerRefusesError(
                    f"{self.path}: holds batches beyond 2 GiB, which no index can point to: "
                    "a broker does not start on it"
                )
            replayed = replay(headers)
            status, taken = DONE, 0
            if replayed.batches:
                status, taken = builder.add(headers.first(replayed.batches), self.read)
            if status == indexing.OUTSIDE:
                found.outside = headers[taken].last_offset
            found.is_refused = status == indexing.NOT_RISING
            if taken:
                part = headers.first(taken)
                if era.has_epochs:
                    changes.add(part)
                aborted += replayed.aborted
                self._check_aborted(aborted, len(replayed.aborted))
                found.valid_bytes = part.end
                found.next_offset = part[-1].last_offset + 1
            if status != DONE or replayed.is_cut:
                break
            if replayed.refusal:
                raise replayed.error(self.path, "a broker does not start on it; kseg recover --mode salvage")
        found.is_refused = not builder.finish() or found.is_refused
        self._write_indexes(builder, aborted, era)
        return found

    def _check_aborted(self, aborted: list[AbortedTxn], new: int) -> None:
        """Raises BrokerRefusesError if one of the last ``new`` transactions ends no later than the previous one: a
        broker's transaction index accepts only rising offsets (TransactionIndex.append)."""
        for one, two in pairwise(aborted[max(len(aborted) - new - 1, 0) :]):
            if two.last_offset <= one.last_offset:
                raise BrokerRefusesError(
                    f"{self.path}: the marker at offset {two.last_offset} aborts a "
                    f"transaction behind that at offset {one.last_offset}: no transaction index takes that, and a "
                    "broker does not start on it; kseg recover --mode salvage"
                )

    def _write_indexes(self, builder: IndexBuilder, aborted: list[AbortedTxn], era: Era) -> None:
        reason = "rebuilt from the .log"
        place = parse_partition_name(os.path.basename(os.path.abspath(self.workspace.directory)))
        is_left_open = era.leaves_metadata_indexes_open and place is not None and place[0] == METADATA_TOPIC

        def keeps_preallocated() -> bool:
            """Only the indexes of a segment to which a broker would append are preallocated."""
            bases = (leading_offset(name) or 0 for name in self.workspace.names(LOG))
            is_kept = (is_left_open or self.keeps_preallocated) and not era.checks_indexes
            return is_kept and all(base <= self.base_offset for base in bases)

        self.workspace.write_index(self.name(INDEX), bytes(builder.offsets), reason, keeps_preallocated)
        if era.has_time_index:
            last = TIME_ENTRY.size if is_left_open else 0
            self.workspace.write_index(self.name(TIME_INDEX), bytes(builder.times), reason, keeps_preallocated, last)
        if aborted:
            self.workspace.write(self.name(TRANSACTION_INDEX), [build_transaction_index(aborted)], reason)
        elif era.has_producers and self.name(TRANSACTION_INDEX) in self.workspace:
            self.workspace.write(self.name(TRANSACTION_INDEX), [b""], "no transaction was aborted in this segment")
