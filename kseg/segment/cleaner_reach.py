"""Estimates how far a log cleaner has cleaned a log, from the keys of the remaining records.

Kafka's cleaner starts at the log start each time and keeps the last record of each key. Below the last gap that it made
every record therefore has a key, and all keys are distinct. This also holds for a replica copied from a cleaned log.
Source: Cleaner and LogToClean of Kafka 4.3.1.
"""

from collections.abc import Iterable, Iterator

from kseg.formats.rows import UndecodableError
from kseg.kernel.layout.rows import ROW_KEY, ROW_KEY_SIZE, ROW_OFFSET, ROW_WIDTH
from kseg.segment.batches import Batch

MAX_CHECKED_RECORDS = 100_000


def cleaner_reach(batches: Iterable[Batch], before: int) -> int:
    """Returns an offset above which no cleaner has removed records, by the records below ``before``; else ``before``.

    It is the offset of the first record without a key, or with an earlier record's key. ``batches``: those of the log.
    """
    seen: set[int] = set()
    for offset, key in _keys(batches, before):
        if key is None or (number := hash(key)) in seen:
            return offset
        seen.add(number)
        if len(seen) >= MAX_CHECKED_RECORDS:
            break
    return before


def _keys(batches: Iterable[Batch], before: int) -> Iterator[tuple[int, bytes | None]]:
    """Yields offsets and keys (None: no key) of records with rising offsets, up to the first at offset ``before``."""
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
            continue  # the records before the error have been yielded
