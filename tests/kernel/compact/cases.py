"""The compiled and the interpreted kernel keep the same last offsets, and the same records of a compaction."""

from random import Random

from kernel.both import tried
from kernel.random_segments import segment
from kernel.rendering import header_rows, int64s
from kseg.formats.compression import expansion_buffer
from kseg.kernel.compact import survivors
from kseg.kernel.compact.key_map import ENTRY_WIDTH, SKIP, KeyMap, KeyReader, Secret
from kseg.kernel.layout.headers import V2_HEADER_BYTES
from kseg.kernel.layout.rows import (
    BATCH_POSITION,
    BATCH_SIZE,
    BATCH_WIDTH,
    DONE,
    FULL,
    MORE_ROWS,
    NEEDS_PACKING,
    NOT_PLAIN,
    ROW_WIDTH,
)
from kseg.kernel.records import building

SECRET = bytes(range(16))


def keys_of(chance: Random, count: int) -> tuple[memoryview, memoryview]:
    """Hashes that share halves and slots, and offsets."""
    halves = [0, 1, -1, 1 << 62, (1 << 63) - 1, -(1 << 63), 1 << 33]
    hashes = [chance.choice(halves) for _ in range(2 * count)]
    return int64s(hashes), int64s([chance.randrange(40) for _ in range(count)])


def maps(chance: Random) -> object:
    """Tables of a few slots, which collide and fill."""
    slots = chance.choice((2, 3, 8, 30))
    most = chance.choice((slots - 1, max(slots // 2, 1)))
    found: list[object] = []
    table, one = int64s(ENTRY_WIDTH * slots), KeyMap(Secret(SECRET))
    one.use(table, slots, most)
    count = chance.choice((1, 5, 14, 20))
    hashes, offsets = keys_of(chance, count)
    found += [one.put(hashes, offsets, count), one.count, table.tolist()]
    found += [one.find(hashes[2 * k], hashes[2 * k + 1]) for k in range(count)]
    buckets = chance.choice((1, 2, 5))
    bounds, out = int64s(buckets + 2), int64s(ENTRY_WIDTH * one.count)
    one.scatter(bounds, out)
    found += [bounds.tolist(), out.tolist()]
    return [*found, merged(chance, one, table, out)]


def merged(chance: Random, one: KeyMap, table: memoryview, entries: memoryview) -> object:
    slots, least, found = chance.choice((1, 3, 9, 40)), chance.choice((-1, 0, 10, 20, 39)), []
    space, other = int64s(ENTRY_WIDTH * slots), KeyMap(Secret(SECRET))
    other.use(space, slots, slots - 1)
    some, offsets = keys_of(chance, 6)
    other.put(some, offsets, 6)
    found += [tried(other.merge, entries, least), other.count, space.tolist()]
    answers = int64s(len(entries))
    found += [other.look_up(entries, answers), answers.tolist()]
    larger = KeyMap(Secret(SECRET))
    table = int64s(ENTRY_WIDTH * 64)
    larger.use(table, 64, 63)
    found.append(tried(larger.move, table, 0, one.slots))
    one.clear()
    return [*found, table.tolist(), one.count, one.slots]


def area_of(data: bytes, rows: memoryview, batch: int) -> bytes:
    """What stands for the decompressed records of a batch."""
    at = rows[batch * BATCH_WIDTH + BATCH_POSITION]
    return data[at + V2_HEADER_BYTES : at + rows[batch * BATCH_WIDTH + BATCH_SIZE]]


def read(chance: Random, data: bytes, batches: memoryview, count: int, key_map: KeyMap | None) -> list[object]:
    """Offsets of the keys as buffers of a few keys at a time show them. They go into the map."""
    verdicts = int64s([chance.choice((0, 0, 0, SKIP)) for _ in range(count)])
    reader = KeyReader(Secret(SECRET), chance.choice((0, 0, batches[4], batches[4] + 1, batches[5])))
    rows, width = int64s(ROW_WIDTH * chance.choice((1, 3, 12))), chance.choice((1, 2, 9))
    hashes, offsets, expansion = int64s(2 * width), int64s(width), expansion_buffer(1 << 20)
    found, opened, tried_one = [], None, False
    for _ in range(60):
        status = reader.read(data, batches, count, verdicts, rows, hashes, offsets, expansion, opened)
        found += [status, reader.frame, reader.is_open, reader.keys, offsets[: reader.keys].tolist()]
        if key_map:
            key_map.put(hashes, offsets, reader.keys)
        reader.keys, opened = 0, opened if reader.is_open else None
        if status == DONE:
            break
        if status == NOT_PLAIN and opened is None and batches[reader.frame * BATCH_WIDTH + 2] == 2 and not tried_one:
            opened, tried_one = area_of(data, batches, reader.frame), True
        elif status != FULL:
            reader.go_to(reader.frame + 1)
            tried_one = False
    return found


def compactions(chance: Random) -> object:
    data = segment(chance)
    batches, count = header_rows(data)
    key_map = KeyMap(Secret(SECRET))
    key_map.use(int64s(ENTRY_WIDTH * 300), 300, 299)
    found = read(chance, data, batches, count, key_map)
    key_map.latest_offset = chance.choice((-1, batches[4], batches[5], (1 << 63) - 1))
    writer = survivors.Survivors(key_map, survivors.Counts())
    writer.now_ms, writer.retention_ms = chance.choice((0, 1000, 1001, 5000)), chance.choice((0, 100))
    writer.keeps_format, writer.keeps_tombstones = chance.random() < 0.3, chance.random() < 0.5
    writer.has_horizons = chance.random() < 0.7
    every = survivors.DISCARD, survivors.KEEP_EMPTY, survivors.ALL, survivors.EMPTY_TXN
    verdicts = int64s([sum(one for one in every if chance.random() < 0.2) for _ in range(count)])
    rows, keep = int64s(ROW_WIDTH * chance.choice((1, 4, 12))), bytearray(chance.choice((1, 4, 12)))
    out, opened, expansion = bytearray(chance.choice((1, 300, 5000))), None, expansion_buffer(1 << 20)
    last = -1
    for _ in range(60):
        status = writer.write(data, batches, count, verdicts, rows, keep, out, expansion, opened)
        opened = None
        found += [status, writer.frame, writer.size, writer.counts.as_dict(), out[: writer.size].hex()]
        if status == DONE:
            break
        if status == FULL:
            found.append(writer.needed)
            out, writer.size = bytearray(max(writer.needed, len(out))), 0
        elif status == MORE_ROWS:
            found.append(writer.needed)
            rows, keep = int64s(ROW_WIDTH * writer.needed), bytearray(writer.needed)
        elif status == NEEDS_PACKING:
            start = writer.size + V2_HEADER_BYTES
            found += [writer.area_size, out[start : start + writer.area_size].hex(), writer.base_timestamp]
            found += [writer.max_timestamp, writer.attributes, writer.kept]
            writer.go_to(writer.frame + 1)
        elif batches[writer.frame * BATCH_WIDTH + 2] == 2 and writer.frame != last:
            opened, last = area_of(data, batches, writer.frame), writer.frame
        else:
            writer.go_to(writer.frame + 1)
    return [*found, marked(chance, key_map), sealed(chance)]


def marked(chance: Random, key_map: KeyMap) -> object:
    """Records that survive by the map, and by ranges of offsets."""
    payload, count = b"kkeyx", chance.choice((1, 3, 64, 65))
    rows = []
    for k in range(count):
        rows += [k, 0, -1, chance.choice((0, 1)), chance.choice((-1, 0, 1, 3)), 4, chance.choice((-1, 0, 1)), 0, 0, 0]
    found = []
    for erased in (None, int64s([0, 1, 5, 60])):
        writer, keep = survivors.Survivors(key_map, survivors.Counts(), erased), bytearray(count)
        writer.keeps_tombstones = chance.random() < 0.5
        writer.mark(payload, int64s(rows), count, keep)
        found += [keep.hex(), writer.counts.as_dict()]
    return found


def sealed(chance: Random) -> object:
    out, at = bytearray(64), chance.choice((0, 3))
    fields = chance.choice((0, 8, 0x70)), 1000, 9000, chance.choice((0, 3, -1))
    building.seal(out, at, at + V2_HEADER_BYTES, bytes(range(61)), *fields)
    return out.hex()


CASES = {"maps": (maps, 120), "compactions": (compactions, 200)}
