"""The compiled and the interpreted kernel select the same batches to recode, and find the same runs of plain ones."""

from random import Random

from kernel.both import number
from kernel.random_segments import area, segment
from kernel.rendering import batch, frames, int64s, message
from kseg.formats.rows import ALL
from kseg.kernel.layout.rows import FRAME_MAGIC, FRAME_STATE, FRAME_WIDTH, FULL, HEADER_WIDTH, ROW_WIDTH
from kseg.kernel.records.columns import Collector
from kseg.kernel.scan.frames import recodable


def alike(chance: Random) -> bytes:
    """Batches or messages that mostly continue one another with the same header fields."""
    magic, offset, parts = chance.choice((2, 2, 1, 0)), chance.choice((0, (1 << 63) - 6)), []
    attributes, time = chance.choice((0, 0, 8)), 1000
    for _ in range(chance.choice((1, 3, 6))):
        odd = chance.random() < 0.15
        own = chance.choice((8, 16, 1, 0x40)) if odd else attributes
        time = number(chance, 1000) if chance.random() < 0.1 else time
        if magic < 2:
            parts.append(message(offset, magic, None, b"v", time, own))
            offset += 1
            continue
        count = chance.choice((1, 2))
        parts.append(
            batch(
                area(chance, count), offset, own, 1000, time, producer=chance.choice((-1, -1, -1, -1, 0)),
                last_delta=chance.choice((count - 1,) * 6 + (count, count - 2, -1)),
                count=chance.choice((count,) * 6 + (0, -1, count + 1)),
            )
        )  # fmt: skip
        offset = min(offset + count + chance.choice((0, 0, 0, 1, -1)), (1 << 63) - 1)
    return b"".join(parts)


def changed_rows(chance: Random, data: bytes) -> memoryview:
    table = frames(data)
    if chance.random() < 0.2 and len(table):
        at = chance.randrange(len(table) // FRAME_WIDTH) * FRAME_WIDTH
        table[at + chance.choice((FRAME_MAGIC, FRAME_STATE))] = chance.choice((0, 1, 2, 3))
    return table


def runs(chance: Random) -> object:
    data = alike(chance) if chance.random() < 0.8 else segment(chance)
    table = frames(data)
    count, found, first = len(table) // FRAME_WIDTH, [], 0
    if chance.random() < 0.2:
        table[chance.randrange(count) * FRAME_WIDTH + FRAME_STATE] = 0
    next_offset, rows, headers = (
        chance.choice((0, 0, 1, (1 << 63) - 6)),
        int64s(3 * ROW_WIDTH),
        int64s(HEADER_WIDTH * 9),
    )
    while first < count:
        run = Collector(first, next_offset)
        while (status := run.collect(data, table, count, ALL, rows, headers)) == FULL:
            found += [run.row_count, rows[: run.row_count * ROW_WIDTH].tolist(), run.next_offset]
            run.row_count = run.header_count = 0
        found += [status, run.frame, run.is_open, run.next_offset, run.magic, run.kind, run.time, run.row_count]
        next_offset, first = run.next_offset, max(run.frame, first + 1)
    return found


def selections(chance: Random) -> object:
    data = alike(chance) if chance.random() < 0.5 else segment(chance)
    table = changed_rows(chance, data)
    count, found, first = len(table) // FRAME_WIDTH, [], 0
    next_offset = chance.choice((0, 0, 1, (1 << 63) - 6))
    kept = chance.choice((0, 1, 4))
    size = table[1] if count else 0
    most = chance.choice((0, size, size - 1, 2 * size, 2 * size - 1, 1 << 20))
    while first < count:
        done, next_offset, run_bytes = recodable(data, table, first, count, next_offset, kept, most)
        found += [done, next_offset, run_bytes]
        first = max(done, first + 1)
    return found


CASES = {"runs": (runs, 250), "selections": (selections, 150)}
