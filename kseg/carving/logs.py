"""The logs that the pieces of an image make: in the order of offsets, each batch once."""

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from operator import add, gt

from kseg.carving.copies import Copies
from kseg.carving.evidence import EXPANDED_BYTES, Joining, LogPieces
from kseg.carving.image import Piece
from kseg.formats.rows import Scratch
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2
from kseg.segment.batches import Message


@dataclass
class CarvedLog:
    """One log to be written. ``runs``: adjacent batches of pieces, in the order of offsets.

    ``stands_aside``: it does not get the topic's name, because its batches are versions from before a compaction, or
    contradict those of the log that has the name, or because no node could start with it. ``partition``: -1 if it is
    unknown. ``named_by``: "like", "records", "transactions", "checkpoint", "directory", "commits" or "";
    ``matched``: how often each of the last four tells of it. ``candidates``: what it may be, if nothing decides.
    ``keys``: those of its records that choose its partition.
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
    _taken: list[tuple[int, int]] = field(default_factory=list)

    @property
    def directory(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def next_offset(self) -> int:
        return self.runs[-1].next_offset

    @property
    def size(self) -> int:
        return sum(run.end - run.position for run in self.runs)

    @cached_property
    def first_offset(self) -> int:
        """The first offset; that of a compressed v0 or v1 message stands inside."""
        first = self.runs[0]
        if first[0].first_offset >= 0 or first.magic >= MAGIC_V2:
            return first.first_offset
        return _inside(first, 0)[0]

    @cached_property
    def records(self) -> int:
        """Records of all batches; compressed v0 and v1 messages are opened for it."""
        total = 0
        for run in self.runs:
            counts = run.records
            total += sum(counts)
            for i, count in enumerate(counts) if min(counts) < 0 else ():
                total += 0 if count >= 0 else 1 + _inside(run, i)[1]
        return total

    @cached_property
    def gaps(self) -> int:
        """Places at which offsets are missing, as far as headers tell: not before compressed v0 and v1 messages."""
        found, last = 0, -1
        for run in self.runs:
            firsts, lasts = run.firsts, run.lasts
            found += last >= 0 and firsts[0] > last + 1
            found += sum(map(gt, firsts[1:], map(add, lasts, repeat(1))))
            last = lasts[-1]
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
        for run in runs:
            i = bisect_left(self._taken, (run.next_offset,))
            if i and self._taken[i - 1][1] > run.first_offset:
                return False
        return True

    def add(self, runs: list[Piece]) -> None:
        for run in runs:
            insort(self._taken, (run.first_offset, run.next_offset))
            insort(self.runs, run, key=lambda found: found.first_offset)


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
            layer.add(runs)
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
