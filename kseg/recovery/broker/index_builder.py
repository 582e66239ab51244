"""Builds the offset and time index of a segment from its batches as a broker's recovery does."""

from collections.abc import Callable

from kseg.formats.rows import Scratch, UndecodableError
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import BATCH_FIRST_OFFSET, BATCH_MAGIC, BATCH_POSITION, BATCH_SIZE, BATCH_WIDTH, ROW_OFFSET
from kseg.recovery.refusal import BrokerRefusesError
from kseg.releases.recovery import Era
from kseg.segment.batches import Message
from kseg.segment.indexes import SegmentIndexes
from kseg.segment.survey import HeaderRows


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
        if self._era.uses_first_offset:
            self._open_messages(headers, read)
        return self.take(headers.rows, headers.count)

    def _open_messages(self, headers: HeaderRows, read: Callable[[int, int], bytes]) -> None:
        """Finds the first offset of compressed v0 and v1 messages that will be indexed."""
        rows, end = headers.rows, headers.count * BATCH_WIDTH
        if min(rows[BATCH_FIRST_OFFSET:end:BATCH_WIDTH].tolist()) >= 0:
            return
        last, interval = self._state.last_position, self._state.interval
        for i, position in enumerate(rows[BATCH_POSITION:end:BATCH_WIDTH].tolist()):
            if position - last <= interval:
                continue
            last, at = position, i * BATCH_WIDTH
            if rows[at + BATCH_FIRST_OFFSET] < 0 and rows[at + BATCH_MAGIC] < MAGIC_V2:
                self._scratch = self._scratch or [Scratch()]
                data = read(position, rows[at + BATCH_SIZE])
                magic = rows[at + BATCH_MAGIC]
                rows[at + BATCH_FIRST_OFFSET] = first_offset_of(data, position, magic, self._scratch[0], self._path)


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
