"""The offset and time index of one segment, built from its batches as a broker's recovery builds them."""

from collections.abc import Callable

from kseg.formats.rows import Scratch, UndecodableError
from kseg.kernel.layout.rows import BATCH_FIRST_OFFSET, BATCH_MAGIC, BATCH_POSITION, BATCH_SIZE, BATCH_WIDTH, ROW_OFFSET
from kseg.recovery.refusal import BrokerRefusesError
from kseg.releases.recovery import Era
from kseg.segment.batches import Message
from kseg.segment.indexes import SegmentIndexes
from kseg.segment.survey import Headers


class IndexBuilder(SegmentIndexes):
    """Indexes by the rules of an era; ``place`` is the .log for errors."""

    def __init__(self, base_offset: int, interval_bytes: int, era: Era, place: str) -> None:
        super().__init__(base_offset, interval_bytes, era.uses_first_offset, era.has_time_index, not era.checks_range)
        self._era, self._place = era, place
        self._scratch: list[Scratch] = []  # one, when a message is to be opened

    def add(self, headers: Headers, read: Callable[[int, int], bytes]) -> tuple[int, int]:
        """A status of `kseg.kernel.state.indexing`, and how many of the batches were taken.

        ``read`` gives bytes of the .log by position and length. Raises BrokerRefusesError where a broker has to open a
        message for its first offset, and cannot.
        """
        if self._era.uses_first_offset:
            self._open_messages(headers, read)
        return self.take(headers.rows, headers.count)

    def _open_messages(self, headers: Headers, read: Callable[[int, int], bytes]) -> None:
        """Finds the first offset of compressed v0 and v1 messages that will be indexed."""
        rows, end = headers.rows, headers.count * BATCH_WIDTH
        if min(rows[BATCH_FIRST_OFFSET:end:BATCH_WIDTH].tolist()) >= 0:
            return
        last, interval = self._state.last_position, self._state.interval
        for i, position in enumerate(rows[BATCH_POSITION:end:BATCH_WIDTH].tolist()):
            if position - last <= interval:
                continue
            last, at = position, i * BATCH_WIDTH
            if rows[at + BATCH_FIRST_OFFSET] < 0 and rows[at + BATCH_MAGIC] < 2:
                self._scratch = self._scratch or [Scratch()]
                data = read(position, rows[at + BATCH_SIZE])
                magic = rows[at + BATCH_MAGIC]
                rows[at + BATCH_FIRST_OFFSET] = first_offset_of(data, position, magic, self._scratch[0], self._place)


def first_offset_of(data: bytes, position: int, magic: int, scratch: Scratch, place: str) -> int:
    """Offset of the first record of a v0 or v1 message in the .log ``place``. Raises BrokerRefusesError where it cannot
    be opened."""
    try:
        message = Message(data, position, len(data), magic, True, scratch)
        for found in message.rows():
            if found.count:
                return int(found.rows[ROW_OFFSET])
    except UndecodableError:
        pass  # told below, as for a message that holds none
    raise BrokerRefusesError(
        f"{place}: the message at position {position} cannot be opened, and a broker that looks for its first offset "
        "does not start; --full scans the log and cuts it at a wrong checksum, --mode salvage keeps what is intact"
    )
