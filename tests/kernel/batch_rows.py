"""Random rows of batch headers, as `kseg.kernel.scan.headers` reads them: logs that mostly continue."""

from random import Random

from kernel.both import number
from kseg.kernel.layout.rows import (
    BATCH_ATTRIBUTES,
    BATCH_BASE_TIMESTAMP,
    BATCH_COUNT,
    BATCH_FIRST_OFFSET,
    BATCH_LAST_OFFSET,
    BATCH_LEADER_EPOCH,
    BATCH_MAX_TIMESTAMP,
    BATCH_WIDTH,
    CRC_RIGHT,
    RECORDS_RIGHT,
)

LOG_APPEND, TRANSACTIONAL, CONTROL, HORIZON = 8, 16, 32, 64
MARKER_BYTES = 78
ODD_FIELDS = (
    BATCH_FIRST_OFFSET, BATCH_LAST_OFFSET, BATCH_ATTRIBUTES, BATCH_LEADER_EPOCH, BATCH_BASE_TIMESTAMP,
    BATCH_MAX_TIMESTAMP, BATCH_COUNT,
)  # fmt: skip


def clipped(value: int) -> int:
    return min(max(value, -(1 << 31)), 0x7FFFFFFF)


def batch_rows(chance: Random, count: int, base: int = 0, odd: float = 0.1) -> list[int]:
    """Rows of a log from offset ``base`` on. A share ``odd`` of them has a field that does not fit."""
    rows: list[int] = []
    offset, position, epoch, sequences = base, 0, chance.choice((-1, 0, 5)), {}
    for _ in range(count):
        span = chance.choice((1, 1, 2, 5))
        magic = chance.choice((2, 2, 2, 2, 2, 2, 1, 0))
        size = chance.choice((MARKER_BYTES, 100, 300))
        state = chance.choice((CRC_RIGHT,) * 8 + (CRC_RIGHT | RECORDS_RIGHT, RECORDS_RIGHT, 0))
        if chance.random() < odd:
            offset += chance.choice((1, 2, 7, -1, -2, -5, base - offset, 1 << 31))
        epoch += chance.choice((0,) * 8 + (1, -1))
        time = chance.choice((-1, 0, 10, 20, 1000, 1000 + len(rows)))
        row = [position, size, magic, state, offset, offset + span - 1, 0, epoch, time, time + chance.randrange(3)]
        if magic == 2:
            attributes = chance.choice((0, 0, 0, 1, LOG_APPEND, HORIZON, TRANSACTIONAL, TRANSACTIONAL, CONTROL, 0x80))
            producer = chance.choice((-1, -1, 1, 2, 3, 1 << 40))
            if attributes & TRANSACTIONAL:
                producer = chance.choice((1, 2, 3))
                attributes |= chance.choice((0, CONTROL))
            sequence = sequences.get(producer, 0)
            sequences[producer] = (sequence + span) & 0x7FFFFFFF
            if chance.random() < odd:
                sequence = number(chance, sequence) % (1 << 32) - (1 << 31)
            marker = attributes & CONTROL
            row[6] = attributes
            row += [producer, chance.choice((0, 0, 0, 0, 1)), -1 if marker else sequence]
            row += [1 if marker else chance.choice((span,) * 6 + (span - 1, 0, span + 1, -1))]
            row += [chance.choice((0, 1, 1, 2, 6, 7, -1)), chance.choice((-1, 0, 0, 1))] if marker else [-1, -1]
        else:
            row[7] = -1
            row[6] = chance.choice((0, 0, 1, LOG_APPEND if magic else 0, 0x10, 0x80))
            row += [-1, -1, -1, 1, -1, -1]
            if row[6] & 7:
                row[BATCH_COUNT] = chance.choice((-1, -1, span, 1, 2))
                if chance.random() < 0.7:
                    row[BATCH_FIRST_OFFSET] = -1
        if chance.random() < odd / 2:
            field = chance.choice(ODD_FIELDS)
            found, delta = number(chance, row[field]), span - 1
            if field in (BATCH_LEADER_EPOCH, BATCH_COUNT):
                found = clipped(found)
            if field == BATCH_LAST_OFFSET and magic == 2:
                delta = clipped(found - offset)
            row[field] = found
            if field in (BATCH_FIRST_OFFSET, BATCH_LAST_OFFSET) and magic == 2:
                # The header has the difference, an int32; the sum may overflow.
                row[BATCH_LAST_OFFSET] = (row[BATCH_FIRST_OFFSET] + delta + (1 << 63)) % (1 << 64) - (1 << 63)
        assert len(row) == BATCH_WIDTH
        rows += row
        offset, position = offset + span, position + size
    return rows
