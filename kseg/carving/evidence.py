"""Which pieces belong to one log: what proves it, what speaks for it, and what contradicts it.

Proofs join at once: a batch cut between two pieces whose checksum is right, copies of a batch in both, two versions of
a batch before and after compaction, a producer snapshot that names batches in both. Continuation is weighed in bits:
how seldom another piece of the image would fit as well by chance. It joins two pieces only if the sum is high, and
exceeds that of the next best choice by far.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain, combinations, groupby, islice, pairwise
from math import log2
from operator import attrgetter, itemgetter

from kseg.carving.image import BLOCK_BYTES, MAX_VERSIONS, SEQUENCES, SMALLEST_BLOCK_BYTES, CopiedRun, Copies, Piece
from kseg.carving.side_files import SideFiles
from kseg.decoders import FOR_TOPIC, decoder
from kseg.formats.rows import ALL, Rows, Scratch, UndecodableError
from kseg.kernel.layout.headers import CODEC, CONTROL, ENTRY_MAGIC, MAGIC_V2
from kseg.kernel.layout.rows import DONE
from kseg.kernel.records.columns import Collector
from kseg.kernel.scan import pieces as kernel
from kseg.limits import FIRST_WINDOW_BYTES
from kseg.segment.items import Message, Record, RecordBatch
from kseg.segment.items import records_of as records
from kseg.segment.survey import BatchRow
from kseg.segment.writer import LARGEST_DELTA
from kseg.sidefiles.checkpoints import EpochEntry
from kseg.sidefiles.indexes import OffsetIndexEntry, TimeIndexEntry
from kseg.sidefiles.producer_state import ProducerStateEntry

CONFIDENCE_BITS = 7
"""A continuation is taken if chance yields one in 128 such offers, or fewer."""

FEW_OFFERS = 16
"""With more offers, more must speak for each: errors do not become more than with so few."""

PRESENCE_BITS = 3
"""That most pieces have a continuation counts only if at least seven of eight have one."""

MARGIN_BITS = 4
"""Bits by which the best choice must exceed the next."""

MOST_STARTS = 256
"""Of more pieces that begin at one offset, none is taken for the continuation of another."""

NEAR_PIECES = 3
"""A piece is near another on the disk if it is one of the next three."""

USUAL_SHAPE_BITS = 2
"""Records of one log seldom differ more in their mean size."""

SAMPLE = 128
"""Pieces of a similar offset whose times and sequence numbers are compared; more would not change the weights."""

FEW_BATCHES = 3
"""Copies of fewer batches can be by chance."""

STRONG_BYTES = 64
"""A smaller message without a timestamp can stand in two partitions alike."""

EXPANDED_BYTES = 4 << 20
"""Bytes that a batch may expand to, whose records are compared or sampled."""

EXPANSION = 64
"""A batch of at least LEAST_BYTES that expands more is a bomb, or tells too little for its cost."""
LEAST_BYTES = 1024

COMPARED_SHARE = 4
"""Records of so many times the bytes of all pieces are compared, and of LEAST_COMPARED_BYTES."""
LEAST_COMPARED_BYTES = 64 << 20

SAMPLED_RECORDS, SAMPLED_VALUES = 64, 8
"""Records to recognise a topic by: the keys of all, and the values of the first."""

Records = dict[int, tuple[bytes | None, bytes | None]]
"""Keys and values by offset."""

_first_offset = attrgetter("first_offset")

_KEY_FIELDS = {"__consumer_offsets": ("group", "groupId"), "__transaction_state": ("transactionalId",)}
"""The fields of the keys by which coordinators choose a partition."""


class LogPieces:
    """Pieces that are taken for one log, in the order of offsets. ``evidence``: how often each kind joined two of them.

    ``older``: pieces that are versions of batches before a compaction, of which the log has newer ones. ``different``:
    one of each kind of pieces that have the same headers.
    """

    def __init__(self, piece: Piece) -> None:
        self.pieces = [piece]
        self.different = [piece]
        self._known = {piece.summary[kernel.PIECE_HASH]}
        self.evidence: Counter[str] = Counter()
        self.like = piece.like
        self.older: set[Piece] = set()
        self.starts, self.ends = {piece.first_offset}, {piece.next_offset}
        self._longest = piece.next_offset - piece.first_offset
        self._last_batches = {
            key: [(span.last_offset, span.last_sequence)]
            for key, span in piece.producers.items()
            if span.last_sequence >= 0
        }

    def overlapping(self, piece: Piece) -> Iterator[Piece]:
        """Yields the different pieces that may share offsets with another log's piece, none if it has an equal one: the
        pieces of a log do not contradict each other."""
        if piece.summary[kernel.PIECE_HASH] in self._known:
            return iter(())
        low = bisect_left(self.different, piece.first_offset - self._longest, key=_first_offset)
        high = bisect_left(self.different, piece.next_offset, lo=low, key=_first_offset)
        return (mine for mine in self.different[low:high] if mine.next_offset > piece.first_offset)

    def last_sequence(self, producer: tuple[int, int], offset: int) -> int | None:
        """Returns the last sequence number of a producer epoch below the offset, None if there is none."""
        batches = self._last_batches.get(producer, [])
        i = bisect_left(batches, (offset,))
        return batches[i - 1][1] if i else None

    def take(self, other: "LogPieces") -> None:
        """Adds all of another log."""
        for piece in other.pieces:
            insort(self.pieces, piece, key=_first_offset)
        for piece in other.different:
            if piece.summary[kernel.PIECE_HASH] not in self._known:
                insort(self.different, piece, key=_first_offset)
        self._known |= other._known
        for producer, batches in other._last_batches.items():
            mine = self._last_batches.setdefault(producer, [])
            for batch in batches:
                insort(mine, batch)
        self.older |= other.older
        self.starts |= other.starts
        self.ends |= other.ends
        self._longest = max(self._longest, other._longest)
        self.like = self.like or other.like
        self.evidence += other.evidence


class Joining:
    """Joins pieces into logs. ``undecided``: pairs of pieces that may belong together."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = pieces
        self.logs: dict[Piece, LogPieces] = {piece: LogPieces(piece) for piece in pieces}
        self.copies = Copies(pieces)
        self.undecided: list[tuple[Piece, Piece]] = []
        self._internal_topic = cache(lambda piece: internal_topic([piece])[0])
        self._scratch = Scratch()
        self._effort = LEAST_COMPARED_BYTES + COMPARED_SHARE * sum(piece.byte_count for piece in pieces)

    def run(self, found: SideFiles) -> list[LogPieces]:
        """Joins by all evidence but that of torn batches, which `join` has taken before."""
        self._join_copies_and_versions()
        self._join_snapshots(found.snapshots)
        self._join_indexes(found.indexes)
        self._join_time_indexes(found.time_indexes)
        self._join_epochs(found.epochs)
        for _ in range(5):
            if not self._join_continuations():
                break
        return list({id(log): log for log in self.logs.values()}.values())

    def join_all(self, pieces: Iterable[Piece], why: str) -> None:
        """Joins each piece with the next one."""
        for one, two in pairwise(pieces):
            self.join(one, two, why)

    def _are_of_one_log(self, pieces: Iterable[Piece]) -> bool:
        return len({self.logs[piece] for piece in pieces}) == 1

    def join(self, one: Piece, two: Piece, why: str, times: int = 1) -> bool:
        """Takes the logs of two pieces for one, unless something contradicts it. Returns whether they are one now."""
        mine, other = self.logs[one], self.logs[two]
        if mine is other:
            mine.evidence[why] += times
            return True
        if mine.like and other.like and mine.like != other.like:
            return False
        if len(mine.pieces) < len(other.pieces):
            mine, other = other, mine
        if any(contradict(found, piece) for piece in other.different for found in mine.overlapping(piece)):
            return False
        mine.take(other)
        mine.evidence[why] += times
        for piece in other.pieces:
            self.logs[piece] = mine
        return True

    # Copies and versions

    def _join_copies_and_versions(self) -> None:
        weak: dict[tuple[Piece, Piece], int] = defaultdict(int)
        short: dict[tuple[Piece, int], list[tuple[Piece, CopiedRun]]] = defaultdict(list)
        for piece, i, run, known in self.copies.find():
            if run is None:
                self._compare_versions(piece, i, known)
            elif run.original is not piece:
                if not any(map(_is_strong, piece.part(run.first, run.stop))):
                    weak[run.original, piece] += run.stop - run.first
                elif run.stop - run.first < FEW_BATCHES:
                    short[run.original, run.k].append((piece, run))
                else:
                    self.join(piece, run.original, "copies", run.stop - run.first)
        for (original, _), found in short.items():
            # Programs write the same to several partitions: such a batch tells nothing.
            different = {one.summary[kernel.PIECE_HASH]: one for one in (original, *(piece for piece, _ in found))}
            longest = sorted(different.values(), key=len, reverse=True)[:MAX_VERSIONS]
            if not any(contradict(one, two) for one, two in combinations(longest, 2)):
                for piece, run in found:
                    self.join(piece, original, "copies", run.stop - run.first)
        for (one, two), count in weak.items():
            if count >= FEW_BATCHES or count == min(len(one), len(two)):
                self.join(one, two, "copies")

    def _compare_versions(self, piece: Piece, i: int, known: list[tuple[Piece, int]]) -> None:
        mine = self._records(piece, i) if known else {}
        for other, k in known:
            if piece[i].magic < MAGIC_V2 or (piece[i].attributes ^ other[k].attributes) & (CONTROL | CODEC):
                continue
            order = _version_order(mine, self._records(other, k))
            if order is not None and self.join(piece, other, "versions"):
                if order:
                    self.logs[piece].older.add(piece if order > 0 else other)
                return

    def _records(self, piece: Piece, i: int) -> Records:
        """Returns the records of a batch; none if they cannot be read, or once too many were compared."""
        found: Records = {}
        if self._effort > 0 and piece[i].magic >= MAGIC_V2:
            with suppress(UndecodableError):
                for rows in batch_of(piece, i, self._scratch).rows():
                    self._effort -= len(rows.payload)
                    found.update((offset, (key, value)) for offset, key, value in rows.entries())
        return found

    def _batches_with(self, wanted: set[int], first: str, *others: str) -> Iterator[tuple[Piece, tuple[int, ...]]]:
        """Yields columns of the batches that have a wanted value in the first, and their pieces."""
        for piece in self.pieces if wanted else ():
            values = getattr(piece, first)
            if not wanted.isdisjoint(values):
                for row in zip(values, *(getattr(piece, name) for name in others), strict=True):
                    if row[0] in wanted:
                        yield piece, row

    # Producer snapshots

    def _join_snapshots(self, snapshots: Iterable[list[ProducerStateEntry]]) -> None:
        fields = attrgetter("last_offset", "producer_id", "producer_epoch", "timestamp", "first_sequence")
        entries = [[fields(entry) for entry in snapshot if entry.has_batch] for snapshot in snapshots]
        where: dict[tuple[int, ...], list[Piece]] = {entry: [] for snapshot in entries for entry in snapshot}
        columns = "lasts", "producer_ids", "producer_epochs", "max_timestamps", "sequences"
        for piece, row in self._batches_with({entry[0] for entry in where}, *columns):
            if row in where:
                where[row].append(piece)
        for snapshot in entries:
            matches: list[tuple[Piece, int]] = []
            for entry in snapshot:
                found = where[entry]
                if self._are_of_one_log(found):
                    matches.append((found[0], entry[-1]))
            # A producer begins in several partitions at once: its first batch in another one can have the same offset.
            count = Counter(self.logs[piece] for piece, _ in matches)
            named = [piece for piece, sequence in matches if sequence or count[self.logs[piece]] > 1]
            self.join_all(named, "snapshot")

    # Indexes, and leader epochs

    def _join_indexes(self, indexes: list[list[OffsetIndexEntry]]) -> None:
        """Joins the pieces of one segment: that at its start, and those with later entries at the positions that they
        would have in the file, as extents are moved by whole blocks. Batches of equal sizes could be of any partition:
        the steps must differ. All pieces that fit must be of one log."""
        wanted: dict[tuple[int, int], list[tuple[Piece, OffsetIndexEntry]]] = defaultdict(list)
        for start, index in self._starts_of(indexes):
            for entry in index:
                place = (start.position + entry.position) % BLOCK_BYTES
                wanted[start.first_offset + entry.offset, place].append((start, entry))
        fit: dict[Piece, dict[tuple[Piece, int], list[OffsetIndexEntry]]] = defaultdict(lambda: defaultdict(list))
        for piece, (last, position) in self._batches_with({offset for offset, _ in wanted}, "lasts", "positions"):
            for start, entry in wanted.get((last, position % BLOCK_BYTES), ())[:MAX_VERSIONS]:
                at = entry.position - (position - piece.position)
                if at >= start.byte_count:
                    fit[start][piece, at].append(entry)
        for start, matches in fit.items():
            found = []
            for (piece, _), entries in matches.items():
                steps = {(two.offset - one.offset, two.position - one.position) for one, two in pairwise(entries)}
                found += [piece] * (len(steps) > 1)
            if self._are_of_one_log(found):
                self.join(start, found[0], "index")

    def _starts_of(self, indexes: list[list[OffsetIndexEntry]]) -> Iterator[tuple[Piece, list[OffsetIndexEntry]]]:
        """Yields the first piece of the segment of each index: with its first two entries, if only one log has them."""
        heads: dict[OffsetIndexEntry, list[int]] = defaultdict(list)
        for number, index in enumerate(indexes):
            if len(heads[index[0]]) < MAX_VERSIONS:
                heads[index[0]].append(number)
        starts: dict[int, list[Piece]] = defaultdict(list)
        reach = max((index[1].position for index in indexes), default=0)
        for piece in self.pieces if heads else ():
            if piece.position % SMALLEST_BLOCK_BYTES == 0 and not piece.is_cut_before:
                count = piece.first_ending_behind(piece.position + reach, 0) + 1
                rows, base, origin = piece.part(0, min(count, len(piece))), piece.first_offset, piece.position
                places = zip(rows.lasts, rows.positions, strict=True)
                known = {OffsetIndexEntry(last - base, position - origin) for last, position in places}
                for number in (number for entry in known & heads.keys() for number in heads[entry]):
                    if indexes[number][1] in known:
                        starts[number].append(piece)
        for number, found in starts.items():
            if self._are_of_one_log(found):
                yield found[0], indexes[number]

    def _join_time_indexes(self, indexes: list[list[TimeIndexEntry]]) -> None:
        """Joins the pieces of one segment: its index has the largest timestamp so far and the offset of its batch,
        relative to the segment's base offset. Only logs that match several entries count, and only if no other log
        matches one of these."""
        wanted = {entry.timestamp for index in indexes for entry in index}
        where: dict[int, list[tuple[Piece, int]]] = defaultdict(list)
        for piece, (time, last) in self._batches_with(wanted, "max_timestamps", "lasts"):
            if len(where[time]) <= MAX_VERSIONS:
                where[time].append((piece, last))
        for index in indexes:
            by_base: dict[int, dict[TimeIndexEntry, set[Piece]]] = defaultdict(lambda: defaultdict(set))
            for entry in index:
                alike = where.get(entry.timestamp, ())
                for piece, last in alike if len(alike) <= MAX_VERSIONS else ():
                    by_base[last - entry.offset][entry].add(piece)
            matches = max(by_base.values(), key=len, default={})
            count = Counter(self.logs[piece] for pieces in matches.values() for piece in pieces)
            if all(self._are_of_one_log(pieces) for pieces in matches.values()):
                named = [piece for pieces in matches.values() for piece in pieces if count[self.logs[piece]] > 1]
                self.join_all(sorted(set(named), key=_first_offset), "time index")

    def _join_epochs(self, files: list[list[EpochEntry]]) -> None:
        """Joins the pieces in which epochs begin at the offsets of a leader-epoch-checkpoint, if by chance hardly
        another piece would have such a beginning, and no other log has it."""
        wanted = {entry for file in files for entry in file}
        where: dict[EpochEntry, list[Piece]] = defaultdict(list)
        starts: list[int] = []
        for piece in self.pieces if wanted else ():
            epochs, firsts = piece.epochs, piece.firsts
            for i in [0, *(i for i, (one, two) in enumerate(pairwise(epochs), 1) if one < two)]:
                starts.append(firsts[i])
                if (entry := EpochEntry(epochs[i], firsts[i])) in wanted:
                    where[entry].append(piece)
        starts.sort()
        for file in files:
            named: list[Piece] = []
            for entry in file:
                found, offset = where.get(entry, []), entry.start_offset
                alike = bisect_left(starts, 2 * offset) - bisect_left(starts, offset // 2)
                if offset and self._are_of_one_log(found) and 1.5 * offset >= alike << CONFIDENCE_BITS:
                    named.append(found[0])
            self.join_all(named, "leader epochs")

    # Continuation

    def _join_continuations(self) -> int:
        """Joins pieces that continue each other by their offsets and more. Returns how many it joined."""
        pieces: list[Piece] = []
        count: Counter[tuple[int, ...]] = Counter()
        for piece in self.pieces:  # at most MAX_VERSIONS of one log that differ only in their places
            kind = piece.summary[kernel.PIECE_HASH], piece.is_cut_before, piece.is_cut_after, piece.continues_at
            key = id(self.logs[piece]), *kind
            count[key] += 1
            if count[key] <= MAX_VERSIONS:
                pieces.append(piece)
        self._by_start = sorted((piece for piece in pieces if piece.first_offset > 0), key=_first_offset)
        self._measure_order()
        forward: dict[Piece, list[tuple[float, Piece]]] = defaultdict(list)
        backward: dict[Piece, list[tuple[float, Piece]]] = defaultdict(list)
        for piece in pieces:
            offset, log = piece.continues_at, self.logs[piece]
            first, stop = self._starting(offset, offset + 1)
            if offset < 0 or offset in log.starts or stop - first > MOST_STARTS:
                continue
            alike = None
            for other in self._by_start[first:stop]:
                if other.is_cut_before != piece.is_cut_after or offset in self.logs[other].ends:
                    continue
                alike = alike or _Alike(self._by_start, *self._starting(offset // 2, 2 * offset), offset)
                bits = self._bits(piece, other, alike)
                if bits is not None:
                    forward[piece].append((bits, other))
                    backward[other].append((bits, piece))
        for found in (*forward.values(), *backward.values()):
            found.sort(key=itemgetter(0), reverse=True)
        joined, self.undecided = 0, []
        offers = [(bits, piece, other) for piece, found in forward.items() for bits, other in found]
        enough = CONFIDENCE_BITS + max(0.0, log2((len(offers) + 1) / FEW_OFFERS))
        for bits, piece, other in sorted(offers, key=itemgetter(0), reverse=True):
            one, two = self.logs[piece], self.logs[other]
            if one is two:
                continue
            rivals = [bits for bits, rival in forward[piece] if self.logs[rival] is not two][:1]
            rivals += [bits for bits, rival in backward[other] if self.logs[rival] is not one][:1]
            is_clear = bits >= enough and bits - max(rivals, default=0) >= MARGIN_BITS
            if is_clear and self.join(piece, other, "continuation"):
                joined += 1
            else:
                self.undecided.append((piece, other))
        return joined

    def _starting(self, low: int, high: int) -> tuple[int, int]:
        """Returns the range in ``_by_start`` of the pieces whose first offset is in [low, high)."""
        first = bisect_left(self._by_start, low, key=_first_offset)
        return first, bisect_left(self._by_start, high, lo=first, key=_first_offset)

    def _measure_order(self) -> None:
        """Counts how often a continuation that is proved stands near on the disk, and how often there is any: where no
        piece lacks one, the only one that fits is hardly a stranger's."""
        near = proved = 0
        by_place = {(piece.source, piece.number): piece for piece in self.pieces if piece.number >= 0}
        for piece in self.pieces:
            if piece.next_offset in self.logs[piece].starts:
                proved += 1
                others = (by_place.get((piece.source, piece.number + i)) for i in range(1, NEAR_PIECES + 1))
                continuing = (other for other in others if other and other.first_offset == piece.next_offset)
                near += any(self.logs[other] is self.logs[piece] for other in continuing if piece.number >= 0)
        self._nearness = (near + 0.5) / (proved + 1)
        starts = {piece.first_offset for piece in self.pieces}
        without = sum(piece.next_offset not in starts for piece in self.pieces)
        bits = log2((len(self.pieces) + 1) / (without + 1))
        self._presence_bits = bits if bits >= PRESENCE_BITS else 0.0

    def _bits(self, piece: Piece, other: Piece, alike: "_Alike") -> float | None:
        """Returns the weight of ``other`` as the continuation of ``piece``; None if something contradicts it."""
        if 0 <= other[0].epoch < piece[-1].epoch or other.magic < piece.magic:
            return None
        if self._internal_topic(piece) != self._internal_topic(other):
            return None
        producers = self._producer_bits(piece, other, alike)
        if producers is None:
            return None
        bits = alike.offset_bits + producers + alike.time_bits(piece, other) + self._presence_bits
        if piece.source is other.source and 0 < other.number - piece.number <= NEAR_PIECES:
            bits += max(0.0, log2(self._nearness * len(self.pieces) / NEAR_PIECES))
        if (piece[0].attributes ^ other[0].attributes) & CODEC:
            bits -= 2
        if bool(piece.producers) != bool(other.producers):
            bits -= 4
        if piece.record_bytes and other.record_bytes:
            bits -= max(0.0, abs(log2(piece.record_bytes / other.record_bytes)) - USUAL_SHAPE_BITS)
        return bits

    def _producer_bits(self, piece: Piece, other: Piece, alike: "_Alike") -> float | None:
        bits, log, unknown, continued = 0.0, self.logs[piece], 0, 0
        for producer, span in other.producers.items():
            if span.first_sequence < 0:
                continue
            last = log.last_sequence(producer, other.first_offset)
            if last is None:
                unknown += span.first_sequence > 0
            elif (last + 1) % SEQUENCES != span.first_sequence:
                return None
            else:
                continued += 1
                bits += alike.sequence_bits(producer, span.first_sequence)
        if not continued and piece.producers and other.producers:
            bits -= 2
        return bits - 2 * unknown


class _Alike:
    """The pieces that begin at offsets of the same size: how well others than the right one would fit by chance."""

    def __init__(self, by_start: list[Piece], first: int, stop: int, offset: int) -> None:
        self._step = (stop - first) // SAMPLE + 1
        self._pieces = by_start[first : stop : self._step]
        self.offset_bits = offset_bits(offset, stop - first)

    @cached_property
    def _times(self) -> list[int]:
        return sorted(piece.summary[kernel.PIECE_FIRST_TIME] for piece in self._pieces)

    @cached_property
    def _sequences(self) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = defaultdict(list)
        for piece in self._pieces:
            for producer, span in piece.producers.items():
                found[producer].append(span.first_sequence)
        return found

    def time_bits(self, piece: Piece, other: Piece) -> float:
        last, first = piece.summary[kernel.PIECE_LAST_TIME], other.summary[kernel.PIECE_FIRST_TIME]
        if first <= 0 or last <= 0:
            return 0.0
        gap, times = abs(first - last), self._times
        return log2(len(times) / max(1, bisect_right(times, last + gap) - bisect_left(times, last - gap)))

    def sequence_bits(self, producer: tuple[int, int], sequence: int) -> float:
        """The weight of a sequence number that continues: the more, the larger it is and the fewer begin with it."""
        alike = self._sequences.get(producer, ())
        near = self._step * sum(sequence // 2 <= other <= 2 * sequence for other in alike)
        return max(0.0, log2((1.5 * sequence + 1) / max(1, near)))


def offset_bits(offset: int, alike: int) -> float:
    """The weight of an offset above 0: the more, the larger it is, and the fewer are of its size.

    Programs stop at round ones: at 500 a hundred times as often as at others.
    """
    round_by = 1
    while offset % (10 * round_by) == 0:
        round_by *= 10
    return max(0.0, log2(1.5 * offset / max(1, alike) / round_by))


def _is_strong(row: BatchRow) -> bool:
    """Whether a copy of the batch can hardly stand in another partition."""
    if row.magic >= MAGIC_V2:
        return not row.attributes & CONTROL and row.records > 0 and row.max_timestamp > 0
    return row.size >= STRONG_BYTES


def contradict(one: Piece, two: Piece) -> bool:
    """Whether two pieces cannot be of one log: batches of v2 that overlap without being versions of each other."""
    if one.next_offset <= two.first_offset or two.next_offset <= one.first_offset:
        return False
    return kernel.contradict(one.rows, *_overlap(one, two), two.rows, *_overlap(two, one))


def _overlap(piece: Piece, other: Piece) -> tuple[int, int]:
    """Returns the first and the last (exclusive) of the batches that may overlap the other piece."""
    numbers, last_offset = range(len(piece)), piece.last_offset
    low = bisect_left(numbers, other.first_offset, key=last_offset)
    return low, min(bisect_left(numbers, other.next_offset, lo=low, key=last_offset) + 1, len(piece))


def _version_order(mine: Records, other: Records) -> int | None:
    """Compares the records of two batches of equal offsets and producers: 1 if the first is older (has more records),
    -1 if the second is, 0 if they have the same number; None if records differ, or have nothing in common."""
    common = mine.keys() & other.keys()
    if (not common and mine and other) or any(mine[offset] != other[offset] for offset in common):
        return None
    if sum(len(key or b"") + len(value or b"") for key, value in map(mine.__getitem__, common)) < 8 and len(common) < 3:
        return None
    return (len(mine) > len(other)) - (len(mine) < len(other))


# Records


def internal_topic(runs: list[Piece], sampled: int = SAMPLED_RECORDS) -> tuple[str, list[str]]:
    """Returns the internal topic whose decoder reads all records of a sample, and the keys that choose a partition."""
    # Records to recognise a topic by: of those with one key and a value the first.
    sample, known = [], set()
    for record in islice(records_of(runs), sampled):
        if record.key not in known:
            sample.append(record)
            if record.key is not None and record.value is not None:
                known.add(record.key)
    if not sample:
        return "", []
    for topic, name in FOR_TOPIC.items():
        decode, keys = decoder(name).decode, []
        for number, record in enumerate(sample):
            found = decode(record.key, record.value if number < SAMPLED_VALUES or record.key is None else None, 0)
            has_failed = any(isinstance(each, dict) and "error" in each for each in (found.key, found.value))
            if has_failed or (found.key is None and found.value is None):
                break
            data = found.key["data"] if isinstance(found.key, dict) else {}
            keys += [data[field] for field in _KEY_FIELDS.get(topic, ()) if field in data]
            if topic == "__share_group_state":
                keys.append(f"{data['groupId']}:{data['topicId']}:{data['partition']}")
        else:
            return topic, keys
    return "", []


def records_of(runs: list[Piece]) -> Iterator[Record]:
    """Yields the data records of v2 batches."""
    scratch = Scratch()
    for run in runs:
        for i, rows in rows_of(run, scratch):
            if rows is not None:
                yield from records(rows)
            elif run[i].magic >= MAGIC_V2 and not run[i].attributes & CONTROL:
                yield from batch_of(run, i, scratch)


def rows_of(run: Piece, scratch: Scratch) -> Iterator[tuple[int, Rows | None]]:
    """Yields the records of v2 batches that are neither compressed nor of a producer, many batches at once, and for
    each other batch its number with None. Rows must be used before the next are asked for."""
    first = 0
    for part in run.windows(FIRST_WINDOW_BYTES):
        columns = zip(part.magics, part.attributes, part.producer_ids, strict=True)
        is_plain = [each[0] == MAGIC_V2 and not each[1] & (CODEC | CONTROL) and each[2] < 0 for each in columns]
        for plain, group in groupby(range(len(part)), key=is_plain.__getitem__):
            numbers = list(group)
            if plain:
                for i, rows in _plain_rows(part.part(numbers[0], numbers[-1] + 1), scratch):
                    yield first + numbers[i], rows
            else:
                yield from ((first + i, None) for i in numbers)
        first += len(part)


def _plain_rows(run: Piece, scratch: Scratch) -> Iterator[tuple[int, Rows | None]]:
    start, collector = run.position, Collector(0)
    buffer = run.source.buffer[start : run.end]
    positions = (position - start for position in run.positions)
    frames = array("q", chain.from_iterable(zip(positions, run.sizes, run.magics, run.states, strict=True)))
    while True:
        status = collector.collect(buffer, memoryview(frames), len(run), ALL, scratch.rows, scratch.headers)
        if collector.row_count:
            yield 0, Rows(buffer, scratch.rows, scratch.headers, collector.row_count)
            collector.row_count = collector.header_count = 0
        elif status == DONE:
            return
        else:
            yield collector.frame, None
            collector.go_to(collector.frame + 1)


def batch_of(piece: Piece, i: int, scratch: Scratch) -> RecordBatch:
    """Returns batch i of v2, of which at most EXPANDED_BYTES are expanded; read before the scratch gets another."""
    data = piece.data(i)
    scratch.max_batch_bytes = min(EXPANDED_BYTES, EXPANSION * max(len(data), LEAST_BYTES))
    return RecordBatch(data, 0, len(data), MAGIC_V2, True, scratch)


# The logs that the pieces of an image make: in the order of offsets, each batch once.


@dataclass
class CarvedLog:
    """One log to be written. ``runs``: adjacent batches of pieces, in the order of offsets.

    ``stands_aside``: it does not get the topic's name, because its batches are versions from before a compaction, or
    contradict those of the log that has the name, or because no node could start with it. ``partition``: -1 if it is
    unknown. ``named_by``: "like", "records", "transactions", "checkpoint", "directory", "commits" or "";
    ``matched``: how often each of the last four tells of it. ``candidates``: what it may be, if nothing decides.
    ``keys``: those of its records that choose its partition. ``newest``: the batches of an internal topic that are read
    to name other logs. ``snapshots``: KRaft snapshots of a log of metadata, by file name.
    """

    log: LogPieces
    runs: list[Piece]
    stands_aside: bool = False
    topic: str = ""
    partition: int = -1
    named_by: str = ""
    matched: Counter[str] = field(default_factory=Counter)
    candidates: list[tuple[str, int]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    newest: list[Piece] = field(default_factory=list)
    snapshots: dict[str, "CarvedLog"] = field(default_factory=dict)

    @property
    def directory(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def next_offset(self) -> int:
        return self.runs[-1].next_offset

    @property
    def size(self) -> int:
        return sum(run.byte_count for run in self.runs)

    @cached_property
    def first_offset(self) -> int:
        """The first offset; that of a compressed v0 or v1 message stands inside, where a wrong one counts for none."""
        first, last = self.runs[0], self.runs[0][0].last_offset
        if first[0].first_offset >= 0 or first.magic >= MAGIC_V2:
            return first.first_offset
        inside = _inside(first, 0)[0]
        return inside if max(0, last - LARGEST_DELTA) <= inside <= last else last

    @cached_property
    def records(self) -> int:
        """Records of all batches; compressed v0 and v1 messages are opened for it."""
        total = 0
        for run in self.runs:
            total += run.summary[kernel.PIECE_RECORDS]
            for i, count in enumerate(run.records) if run.summary[kernel.PIECE_FEWEST_RECORDS] < 0 else ():
                total += 0 if count >= 0 else 1 + _inside(run, i)[1]
        return total

    @cached_property
    def gaps(self) -> int:
        """Places at which offsets are missing, as far as headers tell: not before compressed v0 and v1 messages."""
        found, last = 0, -1
        for run in self.runs:
            found += last >= 0 and run[0].first_offset > last + 1
            found += run.summary[kernel.PIECE_GAPS]
            last = run[-1].last_offset
        return found

    def epoch_at(self, offset: int) -> int | None:
        """Returns the leader epoch of the batch with an offset, None if there is none."""
        i = bisect_left(self.runs, offset, key=lambda run: run.next_offset - 1)
        if i == len(self.runs) or self.runs[i].first_offset > offset:
            return None
        run = self.runs[i]
        row = run[bisect_left(range(len(run)), offset, key=run.last_offset)]
        return row.epoch if 0 <= row.first_offset <= offset and row.magic >= MAGIC_V2 else None

    def has_room(self, runs: list[Piece]) -> bool:
        """Whether no batch overlaps those that are there."""
        before = ((run, bisect_left(self.runs, run.next_offset, key=_first_offset)) for run in runs)
        return not any(i and self.runs[i - 1].next_offset > run.first_offset for run, i in before)


def _inside(run: Piece, i: int) -> tuple[int, int]:
    """Returns the first offset in a compressed v0 or v1 message, and its number of records."""
    data = run.data(i)
    message = Message(data, 0, len(data), data[ENTRY_MAGIC], True, Scratch(EXPANDED_BYTES))
    message.offset_before = lambda: -1
    first, count = message.extent()
    return message.last_offset if first is None else first, count


def carved_logs(joining: Joining, logs: Iterable[LogPieces]) -> Iterator[CarvedLog]:
    """Yields the logs of an image; several of one, where batches of it exclude each other."""
    used: dict[Piece, bytearray] = {}
    for log in logs:
        layers: list[CarvedLog] = []
        for piece in _newest_first(joining, log):
            runs = list(_unused(joining.copies, piece, used))
            if not runs:
                continue
            stands_aside = piece in log.older
            layer = next(
                (layer for layer in layers if layer.stands_aside >= stands_aside and layer.has_room(runs)), None
            )
            if layer is None:
                layer = CarvedLog(log, [], stands_aside or bool(layers))
                layers.append(layer)
            for run in runs:
                insort(layer.runs, run, key=_first_offset)
        yield from layers


def _newest_first(joining: Joining, log: LogPieces) -> list[Piece]:
    """Returns the pieces of an image, those first that --like holds a part of, and the versions that others replaced
    last; with them what continues only them."""
    ends, starts = defaultdict(set), defaultdict(set)
    for piece in log.pieces:
        ends[piece.next_offset].add(piece)
        starts[piece.first_offset].add(piece)
    waiting = list(log.older)
    while waiting:
        older = waiting.pop()
        for beside in (ends[older.first_offset], starts[older.next_offset]):
            if len(beside) == 1 and not beside & log.older:
                log.older |= beside
                waiting += beside
    shared = {piece for piece in log.pieces if any(run.original.like for run in joining.copies.of(piece))}
    pieces = [piece for piece in log.pieces if piece.like is None]
    return sorted(pieces, key=lambda piece: (piece not in shared, piece in log.older))


def _unused(copies: Copies, piece: Piece, used: dict[Piece, bytearray]) -> Iterator[Piece]:
    """Yields the runs of batches of a piece that no log has yet, and marks them: a byte for each batch of originals."""
    if piece not in copies.originals and not copies.of(piece):
        yield piece
        return
    marks = bytearray()
    for first, stop, original, k in copies.tiles(piece):
        taken, end = used.setdefault(original, bytearray(len(original))), k + stop - first
        marks += taken[k:end]
        taken[k:end] = b"\1" * (stop - first)
    first = marks.find(0)
    while first >= 0:
        stop = marks.find(1, first)
        stop = len(piece) if stop < 0 else stop
        yield piece.part(first, stop)
        first = marks.find(0, stop)
