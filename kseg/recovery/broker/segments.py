"""Segments of a workspace: lookups and recovery as in Kafka's LogSegment, what a recovery removes and what it leaves:
intact batches in removed bytes, and damage that stays in the log."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from kseg.changes.accepted_gaps import accepted_gaps
from kseg.errors import PathError, is_system_error
from kseg.formats.message_set import MIN_BYTES, MIN_SIZE
from kseg.formats.record_batch import HEADER_BYTES, offsets_of
from kseg.formats.rows import Scratch, UndecodableError, int64s
from kseg.formats.suffixes import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX
from kseg.kernel.layout import rows as layout
from kseg.kernel.layout.headers import ENTRY_MAGIC, ENTRY_OVERHEAD, ENTRY_SIZE, MAGIC_V2, V2_COUNT
from kseg.kernel.scan import headers as kernel
from kseg.kernel.state import indexing
from kseg.recovery.result import Loss, Remaining
from kseg.recovery.workspace import BrokerRefusesError, Workspace, leading_offset
from kseg.releases.release import Era
from kseg.segment.files import METADATA_TOPIC, directory_name, parse_partition_name
from kseg.segment.items import Damage, Message
from kseg.segment.reader import UNREADABLE, crc_holds, open_segment
from kseg.segment.seek import OFFSET_ENTRY, TIME_ENTRY
from kseg.segment.slices import in_parts, is_worth_parts
from kseg.segment.survey import HeaderRows, headers_of
from kseg.segment.writer import SegmentIndexes
from kseg.sidefiles.checkpoints import EpochEntry
from kseg.sidefiles.indexes import AbortedTxn, build_transaction_index
from kseg.stores.source import Source, check_readable, open_source, unreadable_error
from kseg.stores.windows import LARGEST_WINDOW_BYTES, Buffers, Windows


class LeaderEpochs:
    """The leader epochs of a partition, with the rules of Kafka's LeaderEpochFileCache: entries (epoch, start offset),
    both rising. ``is_strict``: an epoch that contradicts them is ignored (1.1 and older)."""

    def __init__(self, entries: Iterable[EpochEntry] = (), is_strict: bool = False) -> None:
        self._is_strict = is_strict
        self.entries: list[EpochEntry] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

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
        if epoch >= lowest and (not self.entries or epoch > self.entries[-1].epoch):
            self.assign(epoch, start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes the entries that start at or after an offset."""
        if end_offset >= 0 and self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries = [entry for entry in self.entries if entry.start_offset < end_offset]


def epoch_changes(headers: HeaderRows, state: indexing.EpochState) -> Iterator[tuple[int, int]]:
    """Yields epoch and base offset of each v2 batch whose leader epoch differs from the previous batch's. ``state`` is
    that of the batches before, and updated."""
    found = int64s(headers.count * indexing.CHANGE_WIDTH)
    indexing.changes(headers.rows, 0, headers.count, state, found)
    for at in range(0, state.found * indexing.CHANGE_WIDTH, indexing.CHANGE_WIDTH):
        epoch, start_offset, _ = found[at : at + indexing.CHANGE_WIDTH]
        if epoch >= 0:
            yield epoch, start_offset


@dataclass(slots=True)
class AcceptedBatches:
    """Iterates over `HeaderRows` of a source's first ``size`` bytes, up to the first batch that a broker's recovery
    rejects; ``position`` is the end of the accepted batches.

    Rules: Kafka's FileLogInputStream and RecordBatch.ensureValid. Only the size and the outer checksum count. Unlike
    kseg's readers, a broker does not check the magic byte of v2, which no checksum covers: any magic above 2 is read as
    v2.

    ``max_size``: max.message.bytes of a broker that treats larger messages as corrupt; such a broker does not know v2,
    whose checksum is at another place. ``jobs`` threads read a large file. ``buffers`` are used if given.
    """

    source: Source
    size: int
    position: int = 0
    max_size: int | None = None
    jobs: int = 1
    buffers: Buffers | None = None

    def __iter__(self) -> Iterator[HeaderRows]:
        for found in self._intact():
            kept = found.count
            if self.max_size is not None:
                # An old broker takes a batch for corrupt that is larger, or of a magic that it does not know.
                largest, each = self.max_size + ENTRY_OVERHEAD, zip(found.sizes, found.magics, strict=True)
                wrong = (i for i, (size, magic) in enumerate(each) if size > largest or magic > 1)
                kept = next(wrong, kept)
            if kept:
                yield found.part(0, kept)
            if kept < found.count:
                self.position = found[kept].position
                return

    def _intact(self) -> Iterator[HeaderRows]:
        """Yields batches with right checksums, up to the first wrong one."""
        extent = self.source.extent
        if is_worth_parts(self.size - self.position, self.jobs):
            parts = in_parts(extent, self.position, self.size, self.jobs, lambda: partial(self._part, Buffers()))
            for reached, batches in parts:
                self.position = reached
                yield from batches
        while self.position < self.size:
            windows = Windows(extent, self.position, self.size, walk=False, buffers=self.buffers)
            yield from (HeaderRows(rows, count) for rows, count, _ in windows.headers())
            self.position = windows.position
            if self.position >= self.size or (found := self._beyond_windows()) is None:
                return
            self.position = found.end
            yield found

    def _part(self, buffers: Buffers, start: int, end: int) -> tuple[int, list[HeaderRows]]:
        windows = Windows(self.source.extent, start, end, walk=False, buffers=buffers)
        found = [HeaderRows(rows, count) for rows, count, _ in windows.headers()]
        return windows.position, found

    def _beyond_windows(self) -> HeaderRows | None:
        """Returns the batch at the position if its checksum is right and no window contains it: a v2 batch with a wrong
        magic, or one that is larger than the largest window."""
        head = bytes(self.source.buffer[self.position : self.position + HEADER_BYTES])
        if len(head) < HEADER_BYTES or head[ENTRY_MAGIC] > (127 if self.max_size is None else 1):
            return None
        magic, size = head[ENTRY_MAGIC], layout.be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD
        is_beyond = size > LARGEST_WINDOW_BYTES or (magic > MAGIC_V2 and size >= HEADER_BYTES)
        if not is_beyond or size > self.size - self.position:
            return None
        if not crc_holds(self.source.buffer, self.position, self.position + size, magic >= MAGIC_V2):
            return None
        return headers_of(self.source.buffer[self.position : self.position + size], [(0, size)], self.position)


LARGEST_POSITION = 0x7FFFFFFF

NEEDS_SALVAGE = "a broker does not start on it; kseg recover --mode salvage"

_UP_TO_MAGIC = ENTRY_MAGIC + 1
_FRAMES_AT_ONCE = 1 << 12

_WARM_ENTRIES = 1024
"""The last entries of an offset index, which a lookup searches first (AbstractIndex)."""


class ReplayResult(NamedTuple):
    """The result of replaying ``batches``, and the aborted transactions that end in them.

    ``refusal``: why a broker stops at the next batch, "" if it does not. ``error``: the exception to raise for it,
    `TransactionConflictError` if the next batch contradicts an earlier one. ``is_cut``: the last batch stops a replay,
    but a scan of its segment only truncates the log after it.
    """

    batches: int
    aborted: list[AbortedTxn]
    is_cut: bool = False
    refusal: str = ""
    error: type[BrokerRefusesError] = BrokerRefusesError


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
    """``offset`` after the last batch; ``problem``: why a broker fails behind it, "" if it does not."""

    offset: int
    problem: str = ""


class BadFrameError(Exception):
    """A length is none of a batch; a broker that reads it fails."""


class BrokerSegment:
    """One segment of a workspace. File names are ``stem``, the suffix of a kind, and ``suffix`` (such as .swap)."""

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

    def refusal(self, why: str, hint: str = NEEDS_SALVAGE) -> BrokerRefusesError:
        """Returns the error of a segment at which a broker stops. ``hint``: the consequence and the remedy."""
        return BrokerRefusesError(f"{self.path}: {why}: {hint}")

    @property
    def size(self) -> int:
        return self.workspace.size(self.log)

    def headers(self, position: int = 0, max_size: int | None = None) -> Iterator[HeaderRows]:
        """Yields header rows of the batches from a position up to the first that is not intact."""
        if not 0 <= position < self.size:
            return
        workspace = self.workspace
        path, start = workspace.location(self.log)  # the real file that contains the .log, and where
        with open_source(path) as source, workspace.borrowed_buffers() as buffers:
            batches = AcceptedBatches(source, start + self.size, start + position, max_size, workspace.jobs, buffers)
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

    def last_indexed(self) -> int:
        """Returns the offset of the last entry of the offset index, the base offset if there is none; like a broker,
        counts trailing zeros as entries."""
        entries = self._index_entries
        return self._indexed(entries - 1)[0] if entries else self.base_offset

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
            is_inside = row.first_offset < 0 and row.magic < MAGIC_V2
            yield self.first_offset_at(row.position, row.size, row.magic) if is_inside else row.first_offset

    def log_end(self, is_indexed: bool = True, by_first: bool = True) -> LogEnd:
        """Finds the end of the log, starting from the last index entry (LogSegment.readNextOffset).

        Checksums are not verified. Without ``is_indexed`` the search starts at position 0; ``by_first``: as in
        `position_of`.
        """
        offset = self.last_indexed() if is_indexed else self.base_offset
        end, is_found = self.base_offset, False
        try:
            for headers in self.claimed(self.lookup(offset) if is_indexed else 0):
                is_found = is_found or any(each >= offset for each in self._searched_offsets(headers, by_first))
                last = headers[-1].last_offset
                end = layout.sum_of(last, 1) if is_found or last >= offset else self.base_offset
        except BadFrameError as error:
            return LogEnd(end, str(error))
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
                while count and headers.part(0, count).end > end:
                    count -= 1
                if count:
                    yield headers.part(0, count)
                    position = headers.part(0, count).end
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
        frame = int64s(layout.FRAME_WIDTH)
        path, start = self.workspace.location(self.log)
        with open_source(path) as source:
            for _ in range(max_frames):
                if position >= end - _UP_TO_MAGIC:
                    return
                head = bytes(source.buffer[start + position : start + min(position + HEADER_BYTES, self.size)])
                size, magic = layout.be32(head, ENTRY_SIZE), head[ENTRY_MAGIC] - (head[ENTRY_MAGIC] >> 7 << 8)
                is_whole = size + ENTRY_OVERHEAD <= end - position
                if size < MIN_SIZE or (is_whole and magic >= MAGIC_V2 and len(head) < HEADER_BYTES):
                    if source.look_for_unreadable():
                        raise unreadable_error(source.path, source.unreadable)
                    raise BadFrameError(f"no batch begins at position {position}")
                if not is_whole:
                    return
                rows = int64s(layout.BATCH_WIDTH)
                frame[layout.FRAME_SIZE], frame[layout.FRAME_MAGIC] = min(size + ENTRY_OVERHEAD, len(head)), magic
                kernel.read(head, frame, 1, False, position, rows)
                rows[layout.BATCH_SIZE] = size + ENTRY_OVERHEAD
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
        takes_any = not era.checks_offset_range
        builder = SegmentIndexes(self.base_offset, interval, era.uses_first_offset, era.has_time_index, takes_any)
        aborted: list[AbortedTxn] = []
        epochs = indexing.EpochState()
        for headers in self.headers(0, era.max_message_bytes):
            if headers.end > LARGEST_POSITION:
                why = "holds batches beyond 2 GiB, which no index can point to"
                raise self.refusal(why, "a broker does not start on it")
            replayed = replay(headers)
            status, taken = layout.DONE, 0
            if replayed.batches:
                if era.uses_first_offset:
                    self._open_indexed(headers.part(0, replayed.batches), builder)
                status, taken = builder.take(headers.rows, replayed.batches)
            if status == layout.OFFSET_OUTSIDE:
                found.outside = headers[taken].last_offset
            found.is_refused = status == layout.OFFSET_FALLS
            if taken:
                part = headers.part(0, taken)
                for change in epoch_changes(part, epochs) if era.has_epochs else ():
                    add_epoch(*change)
                aborted += replayed.aborted
                for one, two in pairwise(aborted[max(len(aborted) - len(replayed.aborted) - 1, 0) :]):
                    if two.last_offset <= one.last_offset:  # TransactionIndex.append accepts only rising offsets
                        raise BrokerRefusesError(
                            f"{self.path}: the marker at offset {two.last_offset} aborts a transaction behind that at "
                            f"offset {one.last_offset}: no transaction index takes that, and a broker does not start "
                            "on it; kseg recover --mode salvage"
                        )
                found.valid_bytes = part.end
                found.next_offset = part[-1].last_offset + 1
            if status != layout.DONE or replayed.is_cut:
                break
            if replayed.refusal:
                raise replayed.error(f"{self.path}: {replayed.refusal}: {NEEDS_SALVAGE}")
        found.is_refused = not builder.finish() or found.is_refused
        self._write_indexes(builder, aborted, era)
        return found

    def _open_indexed(self, headers: HeaderRows, builder: SegmentIndexes) -> None:
        """Fills in the first offsets of compressed v0 and v1 messages, which are inside, for those that ``builder``
        will index. Raises BrokerRefusesError if a broker cannot decompress one."""
        if min(headers.firsts) >= 0:
            return
        last = builder.state.last_position
        for i, position in enumerate(headers.positions):
            if position - last <= builder.state.interval:
                continue
            last, row = position, headers[i]
            if row.first_offset < 0 and row.magic < MAGIC_V2:
                headers[i] = row._replace(first_offset=self.first_offset_at(position, row.size, row.magic))

    def first_offset_at(self, position: int, size: int, magic: int) -> int:
        """Returns the first offset in a v0 or v1 message. Raises BrokerRefusesError if it cannot be decompressed."""
        try:
            message = Message(self.read(position, size), position, size, magic, True, self.workspace.scratch)
            for found in message.rows():
                if found.count:
                    return int(found.rows[layout.ROW_OFFSET])
        except UndecodableError:
            pass  # reported below, as a message without records is
        raise BrokerRefusesError(
            f"{self.path}: the message at position {position} cannot be opened, and a broker that looks for its first "
            "offset does not start; --full scans the log and cuts it at a wrong checksum, --mode salvage keeps what is "
            "intact"
        )

    def _write_indexes(self, builder: SegmentIndexes, aborted: list[AbortedTxn], era: Era) -> None:
        reason = "rebuilt from the .log"
        place = parse_partition_name(directory_name(self.workspace.directory))
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


SegmentOf = Callable[[str, int], BrokerSegment]
"""Returns the segment of a stem and base offset."""

# Finds damage that a broker's recovery leaves in a log, from the headers of the kept batches.
#
# The headers come from the scan of segments; nothing more is read. Segments that are not scanned, and records under
# right checksums, are not checked: `kseg.verification` does that.

MAX_EVENTS_PER_KIND = 3
"""Limit of listed problems of one kind per segment."""

GAP = "gap-unexplained"
_CODES = {
    kernel.GAP: (GAP, "does not go on from the one before it"),
    kernel.NOT_RISING: ("batch-out-of-order", "does not begin behind the one before it"),
    kernel.WRONG_OFFSET: ("wrong-base-offset", "has a base offset that does not fit its neighbours"),
    kernel.OUTSIDE: ("offset-outside-segment", "has an offset that its segment cannot hold"),
    kernel.COUNT: ("count-mismatch", "claims more records than it has offsets for"),
}


class SegmentRemains:
    """The problems found by a scan of one segment, whose batches ``chain`` has followed."""

    def __init__(self, segment: BrokerSegment) -> None:
        self.file = segment.log
        events = int64s(MAX_EVENTS_PER_KIND * kernel.KINDS * kernel.EVENT_WIDTH)
        self.chain = kernel.Chain(segment.base_offset, limit=MAX_EVENTS_PER_KIND, rows=events)
        self.found: list[Remaining] = []

    def add(self, headers: HeaderRows) -> None:
        """Adds batches. Those that a broker reads as v2 despite their magic come one at a time (`AcceptedBatches`)."""
        first = headers[0]
        if first.magic > MAGIC_V2 and len(self.found) < MAX_EVENTS_PER_KIND:
            text = f"names no format in its magic, which is {first.magic}"
            self.found.append(Remaining(self.file, first.position, first.first_offset, "bad-magic", text))
        kernel.follow(headers.rows, headers.count, self.chain)
        for kind, i, a, b, _ in self.chain.written():
            if kind in _CODES:
                row = headers[i]
                offset = row.first_offset if row.first_offset >= 0 else row.last_offset
                missing = (a, b - 1) if kind == kernel.GAP else None
                self.found.append(Remaining(self.file, row.position, offset, *_CODES[kind], missing))


def remaining(directory: str, bases: Iterable[int], scanned: Mapping[int, SegmentRemains]) -> list[Remaining]:
    """Returns the problems in the scanned segments among those with these bases, and between them.

    Leaves out accepted gaps, and all gaps if the batches show that the log was compacted.
    """
    bases = sorted(bases)
    found = [one for base in bases if base in scanned for one in scanned[base].found]
    for before, base in pairwise(bases):  # between a scanned segment and the next one
        if before in scanned and base in scanned:
            last, file = max(scanned[before].chain.last_offset, before - 1), scanned[base].file
            if base <= last:
                text = "starts below the end of the previous segment"
                found.append(Remaining(file, 0, base, "segments-overlap", text))
            elif base > last + 1:
                found.append(Remaining(file, 0, base, *_CODES[kernel.GAP], (last + 1, base - 1)))
    if any(one.missing for one in found):
        # A log cleaner leaves batches with fewer records than offsets.
        is_thinned = any(scanned[base].chain.sparse > 0 for base in bases if base in scanned)
        missing = sorted(one.missing for one in found if one.missing)
        accepted = accepted_gaps(directory).among(missing, bases[0])
        found = [one for one in found if not one.missing or not (is_thinned or one.missing in accepted)]
    return sorted(found)


def lost_behind(path: str, position: int) -> Loss:
    """Returns the loss from a position of a .log on. Raises PathError if any of its bytes cannot be read."""
    code, state = "", kernel.Chain()
    with open_segment(path) as reader:
        if position:
            reader.begin_at(position)
        for number, item in enumerate(reader.runs()):
            if isinstance(item, Damage):
                if item.code == UNREADABLE:
                    raise unreadable_error(path, reader.source.unreadable)
                code = item.code if number == 0 else code
                continue
            headers = HeaderRows(reader.headers(item), item.count)
            if number == 0 and not headers[0].has_right_crc:
                code = "crc-mismatch"
            for i, row in enumerate(headers if min(headers.records) < 0 else ()):
                # The headers of compressed messages of v0 and v1 lack their first offset and count.
                if row.records < 0 and row.has_right_crc:
                    seen = reader.batch(item, i, keep=False).survey()
                    first = row.first_offset if seen.first_offset is None else seen.first_offset
                    headers[i] = row._replace(records=seen.count, first_offset=first)
            kernel.follow(headers.rows, item.count, state)
    batches = state.v0 + state.v1 + state.v2
    first, last = (state.first_offset, state.last_offset) if batches else (-1, -1)
    return Loss(batches, state.records, first, last, state.least_timestamp, state.largest_timestamp, code)


def intact_in(path: str, ranges: Sequence[Damage], scratch: Scratch) -> list[Loss]:
    """Returns the intact batches at the start of each of these ranges. Raises PathError if the file is unreadable."""
    if not ranges:
        return []
    with open_source(path) as source:
        proven_end = 0 if source.proven is None else source.proven.end
        behind = source.behind_proven() if min(range_.position for range_ in ranges) >= proven_end else source
        return [_intact_in(behind, range_, scratch) for range_ in ranges]


def _intact_in(source: Source, range_: Damage, scratch: Scratch) -> Loss:
    found, start = Loss(code=range_.code), range_.position
    while start + MIN_BYTES <= range_.end:
        head = bytes(source.buffer[start : start + HEADER_BYTES])
        end = start + layout.be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD
        is_v2 = head[ENTRY_MAGIC] == MAGIC_V2
        is_whole = start + (HEADER_BYTES if is_v2 else MIN_BYTES) <= end <= range_.end and head[ENTRY_MAGIC] <= MAGIC_V2
        if not is_whole or not crc_holds(source.buffer, start, end):
            break
        first, last = offsets_of(head)
        records = layout.be32(head, V2_COUNT) if is_v2 else 0
        if not is_v2:
            data = bytes(source.buffer[start:end])
            seen = Message(data, 0, len(data), data[ENTRY_MAGIC], True, scratch).survey()
            first, records = first if seen.first_offset is None else seen.first_offset, seen.count
        found.add(Loss(1, max(records, 0), max(first, 0), max(last, 0)))
        start = end
    return found
