"""How far a log cleaner may have come, by the keys of the records that it left.

Kafka's cleaner begins at the log's start each time and keeps the last record of each key. Below the last gap that it
has made each record has a key then, and no two have the same one: of a replica, too, that was copied from a cleaned
log. Sources: Cleaner and LogToClean of Kafka 4.3.1.
"""

from collections.abc import Iterable, Iterator

from kseg.formats.rows import UndecodableError
from kseg.kernel.native import ROW_KEY, ROW_KEY_SIZE, ROW_OFFSET, ROW_WIDTH
from kseg.segment.batches import Batch

RECORDS_LOOKED_AT = 100_000


def cleaner_reach(batches: Iterable[Batch], before: int) -> int:
    """An offset behind which no cleaner has taken anything, as far as records up to offset ``before`` tell; else that.

    It is that of the first record without a key, or with the key of one before it. ``batches``: those of the log.
    """
    seen: set[int] = set()
    for offset, key in _keys(batches, before):
        if key is None or (number := hash(key)) in seen:
            return offset
        seen.add(number)
        if len(seen) >= RECORDS_LOOKED_AT:
            break
    return before


def _keys(batches: Iterable[Batch], before: int) -> Iterator[tuple[int, bytes | None]]:
    """Offsets and keys, None for no key, of records that lie in their order, up to the first at an offset."""
    last = -1
    for batch in batches:
        if not batch.is_valid or batch.is_control:
            continue
        try:
            for rows in batch.rows():
                for at in range(0, rows.count * ROW_WIDTH, ROW_WIDTH):
                    offset = rows.rows[at + ROW_OFFSET]
                    if offset >= before:
                        return
                    if offset <= last:
                        continue
                    start, size = rows.rows[at + ROW_KEY], rows.rows[at + ROW_KEY_SIZE]
                    yield offset, None if size < 0 else bytes(rows.payload[start : start + size])
                    last = offset
        except UndecodableError:
            continue  # what comes before it was read
