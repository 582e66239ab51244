"""Finds in raw bytes what segments have left: whole batches, joined to pieces, and cut batches.

Unlike `kseg.segment.reader`, which follows the frames of one segment, only a right checksum makes a batch here: a
plausible header hides nothing behind it. Batches are v2 batches and messages of v0 and v1; 0.7 has no offsets to go by.
A piece is what one file held: batches one behind the other that continue each other.
"""

import mmap
import random
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from itertools import accumulate, chain, islice, pairwise, takewhile
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from kseg.formats.message_set import MIN_BYTES
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import BytesLike, int64s, sparse_int64s
from kseg.kernel.layout import headers as fields
from kseg.kernel.layout import rows as layout
from kseg.kernel.scan import frames, headers
from kseg.kernel.scan import pieces as kernel
from kseg.kernel.scan.checksums import crc32, crc32c
from kseg.kernel.scan.frames import ONLY_USUAL, FrameScan
from kseg.limits import FRAMES_PER_CALL, SEARCH_BYTES, WINDOW_BYTES
from kseg.runtime.threads import Pipeline
from kseg.segment.survey import BatchRow, HeaderRows, headers_of
from kseg.stores.archives.spool import current_spool
from kseg.stores.extent import NEAR_BYTES, next_data
from kseg.stores.source import Source
from kseg.stores.windows import claimed_bytes, equal_bytes

HELD_BYTES = 64 << 20
"""Bytes of tables of batches that are held in memory: half a million batches."""

_ROWS_AT_ONCE = 1 << 16
"""Rows whose columns are Python numbers at a time."""

LARGEST_OFFSET = 1 << 56
"""A larger offset is that of a batch whose first bytes are foreign: checksums leave out the offset and the length."""

SMALLEST_BLOCK_BYTES = 512
"""Files begin at multiples of this."""

SLICE_BYTES = 16 << 20
"""Bytes that one thread searches at a time, which bounds the rows of all threads. A slice of a small image is smaller,
so that each core has some."""

BLOCK_BYTES = 4096
"""The block of nearly every file system: files begin at multiples of it, and cuts between extents are there."""

LEAST_SLICE_BYTES = 4 << 20

REACH_BYTES = 64 << 20
"""How far behind its slice a batch may end. A header that claims more is none: prefix checksums of that range are all
that keeps hostile headers linear, and no broker's limit of messages comes near it."""

VAIN_SHARE, VAIN_BYTES = 4, 1 << 20
"""Headers behind whole batches may claim so much that is none, beside what was searched; then prefix checksums serve
for these too."""

_ALIKE_BYTES = fields.V2_ATTRIBUTES
"""The first bytes of a file may be those that a batch would end in which was cut before: hardly more of them than a
batch has up to its checksum, and producers write what stands inside a batch."""

_LEADING_ZEROS = 64
"""More zeros than a batch may begin with."""


def batch_rows(source: Source, jobs: int, advance: Callable[[int], None]) -> Iterator[memoryview]:
    """Yields tables of batches (BATCH_*, see `kseg.kernel.layout.rows`) in order of position; none overlap.

    ``advance`` is called with numbers of bytes that were read.
    """
    end, size = 0, source.size
    step = max(LEAST_SLICE_BYTES, min(SLICE_BYTES, size // jobs // BLOCK_BYTES * BLOCK_BYTES))
    with Pipeline(jobs) as pipeline:
        parts = [(start, min(start + step, size)) for start in range(0, size, step)]
        tasks = (partial(_rows_in, source, start, stop) for start, stop in parts)
        for (start, stop), tables in zip(parts, pipeline.each(tasks), strict=True):
            for table in tables:
                # A batch that reaches into this slice hides what seems to begin inside it.
                first = 0
                while first < len(table) and (position := table[first + layout.BATCH_POSITION]) < end:
                    if position % BLOCK_BYTES == 0 and end - position <= _ALIKE_BYTES:
                        break
                    first += layout.BATCH_WIDTH
                if first < len(table):
                    yield table[first:]
                    end = HeaderRows(table, len(table) // layout.BATCH_WIDTH).end
            advance(stop - start)
            source.forget(start, stop)


def _rows_in(source: Source, start: int, stop: int) -> list[memoryview]:
    """Returns tables of the batches that begin in [start, stop)."""
    buffer, found = source.buffer, []
    end = min(source.size, stop + REACH_BYTES)
    direct, searcher = FrameScan(), FrameScan(options=ONLY_USUAL)
    searcher.largest_offset = LARGEST_OFFSET  # of a hundred headers by chance, 99 have a larger one
    rows = int64s(FRAMES_PER_CALL * layout.FRAME_WIDTH)
    position, searched, vain = start, start - REACH_BYTES, 0
    while position < stop:
        # Checksums of claims that prove wrong are taken only as far as what was found pays for them.
        follower = direct if vain <= VAIN_SHARE * (position - start) + VAIN_BYTES else searcher
        if follower is searcher and not searcher.has_prefixes:
            searcher.use_prefixes(position, end - position)
            searched = position
        follower.position = position
        status = frames.scan(follower, buffer, end, rows)
        count = follower.count
        while count and rows[(count - 1) * layout.FRAME_WIDTH + layout.FRAME_POSITION] >= stop:
            count -= 1
        if count:
            table = int64s(count * layout.BATCH_WIDTH)
            headers.read(buffer, rows, count, False, 0, table)
            found.append(table)
        if follower.position >= stop:
            break
        before, position = position, follower.position
        if status == layout.IRREGULAR:
            vain += _claimed_bytes(source, position, end)
            block = position - position % BLOCK_BYTES
            if before < block and 0 < position - block <= _ALIKE_BYTES:
                # By chance the first bytes of another file can be right for the end of a cut batch.
                if frames.find(searcher, buffer, block, block + 1, end) == block:
                    position = block
                    continue
                vain += _claimed_bytes(source, block, end)
            if position - searched >= REACH_BYTES:  # what lies between needs no prefix checksums
                searcher.use_prefixes(position, end - position)
            position = searched = _next_batch(source, searcher, position + 1, stop, end)
    return found


def _claimed_bytes(source: Source, position: int, end: int) -> int:
    """Returns the length that a header at the position claims, if it is one."""
    head = bytes(source.buffer[position : min(position + MIN_BYTES, end)])
    size = claimed_bytes(head) if len(head) == MIN_BYTES else 0
    return size if 0 < size <= end - position and head[fields.ENTRY_MAGIC] <= fields.MAGIC_V2 else 0


def _next_batch(source: Source, searcher: FrameScan, start: int, stop: int, end: int) -> int:
    """Returns the position of the next whole batch, ``stop`` if none begins before it."""
    while start < stop:
        data = next_data(source.extent, start, stop)
        if data - start > NEAR_BYTES:
            # Nothing begins in a hole but a batch whose first bytes are zeros.
            start = data - _LEADING_ZEROS
            searcher.use_prefixes(start, end - start)
        part = min(start + SEARCH_BYTES, stop)
        found = frames.find(searcher, source.buffer, start, part, end)
        if found >= 0:
            return found
        start = max(part, searcher.position)
    return stop


# Pieces

SEQUENCES = 1 << 31


class ProducerSpan(NamedTuple):
    """What a piece has of one producer epoch: its first and last sequence number, -1 if it has only markers, and its
    last offset."""

    first_sequence: int
    last_sequence: int
    last_offset: int


class ImageBytes(Protocol):
    """What a piece needs of a `Source`."""

    path: str
    size: int

    @property
    def buffer(self) -> Any:
        """Its bytes, to be sliced."""


class Piece(HeaderRows):
    """Adjacent batches of ``source``, whose offsets rise.

    ``number`` counts pieces in the order of their positions. ``like``: the partition of --like that holds it; None for
    a piece of an image. ``is_cut_after``: behind it is a part of a batch, which ends below ``continues_at``, -1 if that
    is unknown; ``is_cut_before``: before it is the end of a batch whose start is elsewhere.
    """

    def __init__(self, source: ImageBytes, rows: memoryview, number: int = -1, like: str | None = None) -> None:
        super().__init__(rows, len(rows) // layout.BATCH_WIDTH)
        self.source = source
        self.number = number
        self.like = like
        self.continues_at = self.next_offset
        self.is_cut_after = self.is_cut_before = False
        self.has_lost_offset = False
        """Whether the bytes of its first offset may be those of another file."""

    def __len__(self) -> int:
        return self.count

    def part(self, first: int, stop: int) -> "Piece":
        """Returns the batches ``first`` to ``stop`` (exclusive)."""
        rows = self.rows[first * layout.BATCH_WIDTH : stop * layout.BATCH_WIDTH]
        found = Piece(self.source, rows, self.number, self.like)
        found.is_cut_after = self.is_cut_after and stop == len(self)
        return found

    def last_offset(self, i: int) -> int:
        return self.rows[i * layout.BATCH_WIDTH + layout.BATCH_LAST_OFFSET]

    def first_ending_behind(self, position: int, first: int) -> int:
        """Returns the number of the first batch, from ``first`` on, that ends behind a position."""
        return bisect_right(range(len(self)), position, lo=first, key=lambda i: self[i].end)

    def windows(self, size: int = WINDOW_BYTES) -> Iterator["Piece"]:
        """Yields the batches in parts: the first of about ``size``, each other twice as large up to WINDOW_BYTES."""
        first = 0
        while first < len(self):
            stop = max(first + 1, self.first_ending_behind(self[first].position + size, first))
            yield self.part(first, stop)
            first, size = stop, min(2 * size, WINDOW_BYTES)

    def data(self, i: int) -> bytes:
        """Returns the bytes of batch i."""
        row = self[i]
        return bytes(self.source.buffer[row.position : row.end])

    @property
    def position(self) -> int:
        return self[0].position

    @property
    def byte_count(self) -> int:
        """The bytes of all batches."""
        return self.end - self.position

    @cached_property
    def first_offset(self) -> int:
        """The first offset; of a compressed v0 or v1 message, whose first offset is inside, the last one."""
        first = self[0]
        return first.first_offset if first.first_offset >= 0 else first.last_offset

    @cached_property
    def next_offset(self) -> int:
        return self[-1].last_offset + 1

    @property
    def fits_a_log(self) -> bool:
        """Whether a log can hold its batches, by their offsets: all of a piece, or none."""
        first = self[0]
        is_told = first.first_offset >= 0 or first.magic < fields.MAGIC_V2
        return not self.has_lost_offset and is_told and 0 <= self.first_offset <= first.last_offset <= LARGEST_OFFSET

    @property
    def magic(self) -> int:
        return self[0].magic

    @cached_property
    def summary(self) -> list[int]:
        """PIECE_* numbers of all batches (`kseg.kernel.scan.pieces`). PIECE_HASH is the same for copies elsewhere."""
        return kernel.summarize(self.rows, len(self))

    @property
    def record_bytes(self) -> float:
        """The mean size of records, compressed; 0 if headers do not tell their number."""
        is_known = self.summary[kernel.PIECE_FEWEST_RECORDS] > 0
        return self.byte_count / self.summary[kernel.PIECE_RECORDS] if is_known else 0.0

    @cached_property
    def producers(self) -> dict[tuple[int, int], ProducerSpan]:
        """By producer id and epoch, without batches that have none."""
        first: dict[tuple[int, int], int] = {}
        last: dict[tuple[int, int], int] = {}
        has_producers = self.summary[kernel.PIECE_LARGEST_PRODUCER] >= 0
        for start in range(0, len(self) if has_producers else 0, _ROWS_AT_ONCE):
            part = self.part(start, start + _ROWS_AT_ONCE)
            producers = list(zip(part.producer_ids, part.producer_epochs, strict=True))
            numbers = range(start, start + len(part))
            for key, number in dict(zip(reversed(producers), reversed(numbers), strict=True)).items():
                first.setdefault(key, number)
            last |= dict(zip(producers, numbers, strict=True))
        return {key: self._span(key, first[key], last[key]) for key in first if key[0] >= 0}

    def _span(self, producer: tuple[int, int], first: int, last: int) -> ProducerSpan:
        """Returns what batches ``first`` to ``last`` have of a producer; markers at either end have no sequence."""

        def has_sequence(row: BatchRow) -> bool:
            return row.base_sequence >= 0 and (row.producer_id, row.producer_epoch) == producer

        start = next(filter(has_sequence, map(self.__getitem__, range(first, last + 1))), None)
        end = next(filter(has_sequence, map(self.__getitem__, range(last, first - 1, -1))), None)
        if start is None or end is None:
            return ProducerSpan(-1, -1, self.last_offset(last))
        last_sequence = (end.base_sequence + end.last_offset - end.first_offset) % SEQUENCES
        return ProducerSpan(start.base_sequence, last_sequence, self.last_offset(last))


def pieces_of(source: ImageBytes, tables: Iterable[memoryview], like: str | None = None) -> list[Piece]:
    """Divides tables of batches, in order of position, into pieces, also of batches that fit no log
    (`Piece.fits_a_log`). Many tables are moved to the spool."""
    rows = _together(table.cast("B") for table in tables)
    count = len(rows) // layout.BATCH_WIDTH
    if not count:
        return []
    starts = sparse_int64s(count)
    bounds = [0, *starts[: kernel.breaks(rows, count, SMALLEST_BLOCK_BYTES, LARGEST_OFFSET, starts)], count]
    whole = Piece(source, rows, like=like)
    return [whole.part(i, k) for i, k in pairwise(bounds)]


def without_lost_offsets(pieces: list[Piece], shift: int) -> Iterator[Piece]:
    """Yields the pieces. A first batch whose offset begins in the block before is a piece by itself, which fits no log,
    unless the offset of the next batch confirms it: checksums leave it out, and that block may be of another file.
    ``shift``: where blocks begin; an image may begin at any byte, and then its blocks are not known."""
    places = Counter(piece.position % BLOCK_BYTES for piece in pieces)
    is_known = places[shift] == max(places.values(), default=0)
    for piece in pieces:
        crc_at = fields.LEGACY_CRC if piece.magic < fields.MAGIC_V2 else fields.V2_CRC
        is_parted = is_known and 0 < -(piece.position - shift) % BLOCK_BYTES <= crc_at
        if not is_parted or (len(piece) > 1 and piece[1].first_offset == piece.last_offset(0) + 1):
            yield piece
            continue
        first = piece.part(0, 1)
        first.has_lost_offset = True
        yield first
        if len(piece) > 1:
            yield piece.part(1, len(piece))


def _together(tables: Iterator[memoryview]) -> memoryview:
    """Returns all rows of tables as one."""
    held = bytearray()
    for table in tables:
        held += table
        if len(held) > HELD_BYTES:
            extent = current_spool().add(chain([memoryview(held)], tables))
            mapped = mmap.mmap(extent.descriptor, extent.size or 0, access=mmap.ACCESS_READ, offset=extent.start)
            extent.close()
            return memoryview(mapped).cast("q")
    return memoryview(held).cast("q")


# Cut batches


_EFFORT = 8
"""The checksums that are tried for cut batches may read so many times the image."""

_MOST_ENDS = 1 << 18
"""Positions that are held at which files may end."""

_ZEROS = bytes(BLOCK_BYTES)

_LAST_ZEROS = 64
"""A batch ends in fewer zeros: those of its last record."""

_LEAST_EFFORT = 1024
"""Bytes that could be read while one piece comes into question, even if no checksum is tried."""


class Mended:
    """The bytes of a batch that stood in two ``places``, as (path, start, end): what `Piece` needs of a source."""

    def __init__(self, source: ImageBytes, *places: tuple[int, int]) -> None:
        self.buffer: Any = b"".join(bytes(source.buffer[start:end]) for start, end in places)
        self.path, self.size = source.path, len(self.buffer)
        self.places = [(source.path, start, end) for start, end in places]


class TornBatches:
    """The headers behind pieces whose batch is not whole there, and those whose rest was found elsewhere.

    ``count`` of batches whose rest was not found, ``given_up`` of those among them for which it was not sought
    everywhere; ``ranges``: the bytes that they claim behind their pieces.
    """

    def __init__(self, pieces: list[Piece]) -> None:
        self.count = self.given_up = 0
        self.ranges: list[tuple[int, int]] = []
        self._pieces = pieces
        self._shift = block_shift(pieces)
        self._by_alignment: dict[int, list[Piece]] = defaultdict(list)
        for piece in pieces:
            self._by_alignment[piece.position % BLOCK_BYTES].append(piece)
        for alike in self._by_alignment.values():
            alike.sort(key=attrgetter("first_offset"))
        self._size = max((piece.source.size for piece in pieces), default=0)
        self._effort = _EFFORT * self._size
        self._ends_left = _MOST_ENDS

    def mended(self) -> Iterator[tuple[Piece, ...]]:
        """Yields the piece before, the batch whose rest was found, and the piece behind that rest, unless the batch is
        the last of a file."""
        torn: list[tuple[Piece, _Claim]] = []
        for piece in self._pieces:
            # Its place in blocks tells whether a piece begins or ends inside a file: files begin at blocks, and zeros
            # fill their last one.
            piece.is_cut_before = (piece.position - self._shift) % SMALLEST_BLOCK_BYTES != 0
            tail = -(piece.end - self._shift) % BLOCK_BYTES
            piece.is_cut_after = any(bytes(piece.source.buffer[piece.end : piece.end + tail]))
            if piece.is_cut_after:
                piece.continues_at = -1
            claim = _claim(piece)
            found = claim and self._rest(piece, claim)
            if found:
                yield piece, *found
            elif claim:
                torn.append((piece, claim))
        ends = self._ends({self._used_bytes(piece, claim) for piece, claim in torn})
        for piece, claim in torn:
            places = ends.get(self._used_bytes(piece, claim), [])
            tried = (self._joined(piece, end, claim) for end in takewhile(lambda _: self._effort >= 0, places))
            batch = next(filter(None, tried), None)
            if batch is None:
                self.count += 1
                self.given_up += self._effort < 0 or self._ends_left <= 0
                self.ranges.append((piece.end, piece.end + claim.size))
                piece.continues_at = claim.next_offset
            else:
                yield piece, batch

    def _used_bytes(self, piece: Piece, claim: "_Claim") -> int:
        """Returns how much of its last block a batch takes that is cut at blocks."""
        return (piece.end + claim.size - self._shift) % BLOCK_BYTES

    def _ends(self, wanted: set[int]) -> dict[int, list[int]]:
        """Returns the positions between the pieces where files may end that take so much of their last block: zeros
        fill the rest of it, and batches may end in a few."""
        found: dict[int, list[int]] = defaultdict(list)
        by_used: dict[int, list[int]] = defaultdict(list)
        for size in wanted:
            for used in range(max(1, size - _LAST_ZEROS), size + 1):
                by_used[used].append(size)
        for at, stop in self._between() if by_used else ():
            source: Any = self._pieces[0].source
            while at + BLOCK_BYTES <= stop and self._ends_left > 0:
                at += (next_data(source.extent, at, stop) - at) // BLOCK_BYTES * BLOCK_BYTES
                window = source.buffer[at : min(at + WINDOW_BYTES, stop)]
                for match in re.finditer(rb"\0", bytes(window[BLOCK_BYTES - 1 :: BLOCK_BYTES])):
                    first = match.start() * BLOCK_BYTES
                    block = bytes(window[first : first + BLOCK_BYTES])
                    sizes = by_used[len(block.rstrip(b"\0"))] if block != _ZEROS else []
                    for size in sizes:
                        found[size].append(at + first + size)
                    self._ends_left -= len(sizes)
                source.forget(at, at + len(window))
                at += WINDOW_BYTES
        return found

    def _between(self) -> Iterator[tuple[int, int]]:
        """Yields the ranges between the pieces, from the next block on."""
        end = 0
        for position, piece_end in [*((piece.position, piece.end) for piece in self._pieces), (self._size, 0)]:
            yield end + (self._shift - end) % BLOCK_BYTES, position
            end = piece_end

    def _rest(self, piece: Piece, claim: "_Claim") -> tuple[Piece, Piece] | None:
        """Returns the whole batch and the piece behind its rest. Blocks are multiples of BLOCK_BYTES, so few pieces
        come into question: those that begin where the batch would end in a block, with the next offsets first."""
        alike = self._by_alignment.get((piece.end + claim.size) % BLOCK_BYTES, [])
        first = bisect_left(alike, claim.next_offset, key=attrgetter("first_offset"))
        for following in islice(alike, first, None):
            if following.first_offset - claim.next_offset >= 1 << 31:
                break
            batch = self._joined(piece, following.position, claim)
            if batch is not None:
                return batch, following
            if self._effort < 0:
                break
        return None

    def _joined(self, piece: Piece, end: int, claim: "_Claim") -> Piece | None:
        """Returns the whole batch, if its rest ends at a position."""
        buffer, start, size = piece.source.buffer, piece.end, claim.size
        self._effort -= _LEAST_EFFORT
        first_cut = start + claim.header_bytes + (self._shift - start - claim.header_bytes) % BLOCK_BYTES
        head, at = 0, start + claim.checked_from
        for cut in range(first_cut, start + size, BLOCK_BYTES):
            rest = size - (cut - start)
            self._effort -= rest + cut - at
            if self._effort < 0:
                return None
            head, at = claim.checksum(buffer[at:cut], head), cut
            place = end - rest
            if place >= 0 and claim.checksum(buffer[place:end], head) == claim.stored:
                batch = Mended(piece.source, (start, cut), (place, end))
                return Piece(batch, headers_of(batch.buffer, [(0, batch.size)]).rows)
        return None


class _Claim(NamedTuple):
    """What a header says of its batch. ``checked_from``: where the bytes of its checksum begin, in the batch."""

    size: int
    next_offset: int
    header_bytes: int
    checked_from: int
    stored: int
    checksum: Callable[[BytesLike, int], int]


def block_shift(pieces: list[Piece]) -> int:
    """Returns where blocks begin in an image, modulo their size: where most files begin."""
    positions = [piece.position % BLOCK_BYTES for piece in pieces if piece.position % SMALLEST_BLOCK_BYTES == 0]
    common = Counter(positions).most_common(1)
    return common[0][0] if common else 0


def _claim(piece: Piece) -> _Claim | None:
    """Returns what a header behind the piece claims; None if there is none that continues it."""
    start = piece.end
    head = bytes(piece.source.buffer[start : start + HEADER_BYTES])
    if len(head) < MIN_BYTES or not piece.magic <= head[fields.ENTRY_MAGIC] <= fields.MAGIC_V2:
        return None
    size, first = claimed_bytes(head), layout.be64(head, 0)
    if not 0 <= first - piece.next_offset < 1 << 31:
        return None
    if head[fields.ENTRY_MAGIC] < fields.MAGIC_V2:
        stored = int.from_bytes(head[fields.LEGACY_CRC : fields.ENTRY_MAGIC], "big")
        return _Claim(size, first + 1, MIN_BYTES, fields.ENTRY_MAGIC, stored, crc32) if size >= MIN_BYTES else None
    if min(size, len(head)) < HEADER_BYTES:
        return None
    delta = layout.be32(head, fields.V2_LAST_OFFSET_DELTA)
    if delta < 0 or layout.be32(head, fields.V2_LEADER_EPOCH) < piece[-1].epoch:
        return None
    stored = int.from_bytes(head[fields.V2_CRC : fields.V2_ATTRIBUTES], "big")
    return _Claim(size, first + delta + 1, HEADER_BYTES, fields.V2_ATTRIBUTES, stored, crc32c)


MAX_VERSIONS = 16
"""Different batches of equal offsets and producers that are compared: more are many partitions' alike, or hostile."""

HELD_TABLE_BYTES = 64 << 20
"""A larger table of keys is moved to the spool."""


class CopiedRun(NamedTuple):
    """The batches ``first`` to ``stop`` (exclusive) of a piece are those of ``original`` from number ``k`` on."""

    first: int
    stop: int
    original: Piece
    k: int


class Copies:
    """The runs of batches that earlier pieces have too, by piece, in order. The original of a run is no copy itself.
    `find` also yields possible versions of a batch.

    ``originals``: the pieces of which others have copies.
    """

    def __init__(self, pieces: list[Piece]) -> None:
        self.originals: set[Piece] = set()
        self._runs: dict[Piece, list[CopiedRun]] = defaultdict(list)
        self._pieces = pieces
        self._starts = list(accumulate(map(len, pieces), initial=0))

    def of(self, piece: Piece) -> list[CopiedRun]:
        return self._runs.get(piece, [])

    def tiles(self, piece: Piece) -> Iterator[CopiedRun]:
        """Yields all batches of a piece as runs: those that stand nowhere else are their own originals."""
        at = 0
        for run in [*self.of(piece), CopiedRun(len(piece), len(piece), piece, 0)]:
            if run.first > at:
                yield CopiedRun(at, run.first, piece, at)
            yield run
            at = run.stop

    def find(self) -> Iterator[tuple[Piece, int, CopiedRun | None, list[tuple[Piece, int]]]]:
        """Finds copies in all pieces. Yields a piece, the number of a batch in it, and the run of copies that begins
        there; if there is none, the batches of which it may be a version."""
        index = kernel.KeyIndex(_table(self._starts[-1]), random.getrandbits(62))
        for piece, number in zip(self._pieces, self._starts, strict=False):
            i = stop = 0
            is_told = piece.summary[kernel.PIECE_LEAST_MAGIC] >= fields.MAGIC_V2  # by the rows
            for window in piece.windows():
                data = b"" if is_told else piece.source.buffer[window.position : window.end], window.position
                stop += len(window)
                while i < stop and (i := index.add(*data, piece.rows, i, stop, number)) < stop:
                    known = [self._batch(found) for found in index.alike(*data, piece.rows, i)]
                    run = self._run(piece, i, known)
                    yield piece, i, run, known
                    if run is None and len(known) < MAX_VERSIONS:
                        index.add(*data, piece.rows, i, i + 1, number, beside=True)
                    i = i + 1 if run is None else run.stop

    def _batch(self, number: int) -> tuple[Piece, int]:
        at = bisect_right(self._starts, number) - 1
        return self._pieces[at], number - self._starts[at]

    def _run(self, piece: Piece, i: int, known: list[tuple[Piece, int]]) -> CopiedRun | None:
        """Adds the run that begins at batch i, if it is one of the known ones."""
        for other, k in known:
            copied = self.of(other)
            behind = bisect_left(copied, k, key=attrgetter("first"))
            most = (copied[behind].first if behind < len(copied) else len(other)) - k
            count = _equal_batches(piece, i, other, k, min(most, i - k) if other is piece else most)
            if count:
                self.originals.add(other)
                self._runs[piece].append(CopiedRun(i, i + count, other, k))
                return self._runs[piece][-1]
        return None


def _table(count: int) -> memoryview:
    """Returns the zeros of a `KeyIndex` for so many batches. Raises SpoolFullError, KsegError."""
    slots = 1 << (count + count // 2).bit_length()
    if 8 * slots <= HELD_TABLE_BYTES:
        return sparse_int64s(slots)
    return memoryview(current_spool().new_mapping(8 * slots)).cast("q")


def _equal_batches(piece: Piece, i: int, other: Piece, k: int, most: int) -> int:
    """Returns how many batches, at most so many, are the same in both pieces from i and from k on."""
    start, other_start = piece[i].position, other[k].position
    size = min(piece.end - start, other[k + most - 1].end - other_start)
    same = equal_bytes(
        lambda wanted, at: piece.source.buffer[start + at : start + at + wanted],
        lambda wanted, at: other.source.buffer[other_start + at : other_start + at + wanted],
        size,
        piece[i].size,
    )
    for source, at in ((piece.source, start), (other.source, other_start)):
        if isinstance(source, Source):
            source.forget(at, at + same)
    return piece.first_ending_behind(start + same, i) - i
