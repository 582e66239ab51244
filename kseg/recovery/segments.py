"""Segments of a workspace: what a broker reads off one, and what its recovery makes of it (Kafka's LogSegment)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from kseg.kernel import indexing
from kseg.kernel.native import BATCH_LAST_OFFSET, BATCH_MAGIC, BATCH_POSITION, BATCH_SIZE, BATCH_WIDTH, be32, be64
from kseg.recovery.accepted import AcceptedBatches
from kseg.recovery.epochs import EpochChanges
from kseg.recovery.eras import Era
from kseg.recovery.index_builder import IndexBuilder
from kseg.recovery.refusal import BrokerRefusesError
from kseg.recovery.workspace import Workspace
from kseg.segment.indexes import OFFSET_ENTRY
from kseg.segment.source import Source, open_source
from kseg.segment.survey import Headers
from kseg.sidefiles.transaction_index import AbortedTxn, build_transaction_index

LOG, INDEX, TIME_INDEX, TXN_INDEX = ".log", ".index", ".timeindex", ".txnindex"
SUFFIXES = (LOG, INDEX, TIME_INDEX, TXN_INDEX)
SWAP = ".swap"
DEFAULT_INTERVAL_BYTES = 4096

LARGEST_POSITION = 0x7FFFFFFF

_LEAST_BYTES = 14
_UP_TO_MAGIC = 17
_DELTA_END = 27
_FRAMES_AT_ONCE = 1 << 12


@dataclass(slots=True)
class Recovered:
    """What a recovery made of a segment: ``valid_bytes`` of the .log are kept, up to ``next_offset``.

    ``refused``: an index does not take an offset at ``valid_bytes``; a broker then empties the segment.
    ``outside``: an offset there that the segment cannot hold.
    """

    valid_bytes: int = 0
    next_offset: int = 0
    refused: bool = False
    outside: int | None = None


class LogEnd(NamedTuple):
    """``offset`` behind the last batch, whose ``magic`` is -1 where none was found; ``bad_position``: where bytes begin
    at which a broker gives up."""

    offset: int
    magic: int = -1
    bad_position: int | None = None


class Frame(NamedTuple):
    """What bytes claim to be; ``size`` 0 for a length that no batch has."""

    size: int
    magic: int
    last_offset: int


class BrokerSegment:
    """One segment of a workspace by its base offset; names of its files are ``stem`` and two suffixes, one of its kind
    and ``suffix``."""

    def __init__(self, workspace: Workspace, stem: str, base_offset: int, suffix: str = "") -> None:
        self.workspace = workspace
        self.stem = stem
        self.base_offset = base_offset
        self.suffix = suffix

    def name(self, kind: str) -> str:
        return self.stem + kind + self.suffix

    @property
    def log(self) -> str:
        return self.name(LOG)

    @property
    def size(self) -> int:
        return self.workspace.size(self.log)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Source, int]]:
        """The file that holds the .log, and where in it that begins."""
        path, start = self.workspace.place(self.log)
        with open_source(path) as source:
            yield source, start

    def headers(self, position: int = 0, max_size: int | None = None) -> Iterator[Headers]:
        """Header rows of the batches from a position on, as far as they are intact."""
        if not 0 <= position < self.size:
            return
        with self._opened() as (source, start):
            for found in AcceptedBatches(source, start + self.size, start + position, max_size, self.workspace.jobs):
                if start:
                    for i in range(found.count):
                        found.rows[i * BATCH_WIDTH + BATCH_POSITION] -= start
                yield found

    def read(self, position: int, length: int) -> bytes:
        """Bytes of the .log."""
        return self.workspace.read_range(self.log, position, length)

    @staticmethod
    def end_of(headers: Headers) -> int:
        """The position behind the last of some batches."""
        last = (headers.count - 1) * BATCH_WIDTH
        return int(headers.rows[last + BATCH_POSITION] + headers.rows[last + BATCH_SIZE])

    def last_indexed(self) -> tuple[int, int]:
        """Offset and position of the last entry of the offset index, zeros at its end included as a broker does."""
        name = self.name(INDEX)
        entries = self.workspace.size(name) // OFFSET_ENTRY.size if name in self.workspace else 0
        if not entries:
            return self.base_offset, 0
        return self._indexed(entries - 1)

    def _indexed(self, number: int) -> tuple[int, int]:
        """Offset and position of an entry of the offset index."""
        width = OFFSET_ENTRY.size
        data = self.workspace.read_range(self.name(INDEX), number * width, width)
        relative, position = OFFSET_ENTRY.unpack(data)
        return self.base_offset + relative, position

    def lookup(self, offset: int) -> int:
        """Position from where to search for an offset."""
        name = self.name(INDEX)
        low, high = 0, self.workspace.size(name) // OFFSET_ENTRY.size if name in self.workspace else 0
        while low < high:
            middle = (low + high) // 2
            if self._indexed(middle)[0] <= offset:
                low = middle + 1
            else:
                high = middle
        return self._indexed(low - 1)[1] if low else 0

    def log_end(self, is_indexed: bool = True) -> LogEnd:
        """What lies behind the last batch, found from the last index entry on (LogSegment.readNextOffset).

        Checksums don't count. Without ``is_indexed`` the search begins at the start.
        """
        offset = self.last_indexed()[0] if is_indexed else self.base_offset
        position = self.lookup(offset) if is_indexed else 0
        found, magic, most = self.base_offset, -1, 1
        if not 0 <= position <= self.size:
            return LogEnd(found)
        while True:
            for headers in self.headers(position):
                position, at = self.end_of(headers), (headers.count - 1) * BATCH_WIDTH
                if headers.rows[at + BATCH_LAST_OFFSET] >= offset or magic >= 0:
                    found, magic = headers.rows[at + BATCH_LAST_OFFSET] + 1, headers.rows[at + BATCH_MAGIC]
            frames = list(islice(self.frames(position), most))
            for frame in frames:
                if not frame.size:
                    return LogEnd(found, magic, position)
                position += frame.size
                if frame.last_offset >= offset or magic >= 0:
                    found, magic = frame.last_offset + 1, frame.magic
            if len(frames) < most:
                return LogEnd(found, magic)
            most = min(2 * most, _FRAMES_AT_ONCE)  # where none is intact it takes no longer than where one is

    def frames(self, position: int) -> Iterator["Frame"]:
        """The batches that the bytes from a position on claim, whatever their checksums; the last of size 0 if a length
        is none (FileLogInputStream.nextBatch)."""
        if position >= self.size - _UP_TO_MAGIC:
            return
        with self._opened() as (source, start):
            while position < self.size - _UP_TO_MAGIC:
                head = bytes(source.buffer[start + position : start + min(position + _DELTA_END, self.size)])
                size, magic = be32(head, 8), head[16]
                if size < _LEAST_BYTES:
                    yield Frame(0, magic, 0)
                    return
                if size + 12 > self.size - position:
                    return
                has_delta = 2 <= magic < 128 and len(head) == _DELTA_END
                yield Frame(size + 12, magic, be64(head, 0) + (be32(head, 23) if has_delta else 0))
                position += size + 12

    def recover(
        self, interval: int, era: Era, each: "Callable[[Headers], list[AbortedTxn]]", epoch: Callable[[int, int], None]
    ) -> Recovered:
        """Scans the segment and rebuilds its indexes (LogSegment.recover). The .log is left to the caller.

        ``each`` is given the headers of accepted batches and gives back aborted transactions that they complete,
        ``epoch`` leader epoch and base offset of batches that may begin one. Raises BrokerRefusesError for what no
        index can hold.
        """
        found = Recovered(next_offset=self.base_offset)
        builder = IndexBuilder(self.base_offset, interval, era)
        aborted: list[AbortedTxn] = []
        changes = EpochChanges(epoch)
        for headers in self.headers(0, era.max_message_bytes):
            if self.end_of(headers) > LARGEST_POSITION:
                raise BrokerRefusesError(
                    f"{self.workspace.directory}/{self.log}: holds batches beyond 2 GiB, which no index can point to: "
                    "a broker does not start on it"
                )
            status, taken = builder.add(headers, self.read)
            if status == indexing.OUTSIDE:
                found.outside = headers.rows[taken * BATCH_WIDTH + BATCH_LAST_OFFSET]
            found.refused = status == indexing.NOT_RISING
            if taken:
                part = Headers(headers.rows, taken)
                if era.has_epochs:
                    changes.add(part)
                aborted += each(part)
                self._count(found, part)
            if status != indexing.DONE:
                break
        found.refused = not builder.finish() or found.refused
        self._write_indexes(builder, aborted, era)
        return found

    def _write_indexes(self, builder: IndexBuilder, aborted: list[AbortedTxn], era: Era) -> None:
        reason, keeps_room = "rebuilt from the .log", not era.checks_indexes
        self.workspace.write_index(self.name(INDEX), bytes(builder.offsets), reason, keeps_room)
        if era.has_time_index:
            self.workspace.write_index(self.name(TIME_INDEX), bytes(builder.times), reason, keeps_room)
        if aborted:
            self.workspace.write(self.name(TXN_INDEX), [build_transaction_index(aborted)], reason)
        elif era.has_producers and self.name(TXN_INDEX) in self.workspace:
            self.workspace.write(self.name(TXN_INDEX), [b""], "no transaction was aborted in this segment")

    @staticmethod
    def _count(found: Recovered, headers: Headers) -> None:
        rows, last = headers.rows, (headers.count - 1) * BATCH_WIDTH
        found.valid_bytes = rows[last + BATCH_POSITION] + rows[last + BATCH_SIZE]
        found.next_offset = rows[last + BATCH_LAST_OFFSET] + 1
