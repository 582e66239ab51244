"""The compiled and the interpreted kernel give the same state, events and errors for the same rows of batches."""

import struct
from random import Random

from kernel.batch_rows import batch_rows
from kernel.both import tried
from kernel.rendering import int64s
from kseg.kernel.layout.rows import (
    BATCH_LAST_OFFSET,
    BATCH_MAX_TIMESTAMP,
    BATCH_POSITION,
    BATCH_WIDTH,
    DONE,
    HEADER_WIDTH,
    ROW_WIDTH,
)
from kseg.kernel.scan import headers as chain
from kseg.kernel.scan.headers import EVENT_WIDTH
from kseg.kernel.state import indexing, producers, replicas, tally
from kseg.kernel.state.producers import ABORT_WIDTH, ENTRY_WIDTH

CHAIN_STATE = (
    "base last_offset last_epoch first_offset misplaced missing largest_timestamp largest_timestamp_offset "
    "least_timestamp batches records v0 v1 v2 transactional control with_producer compressed with_horizon sparse "
    "is_after_damage"
).split()
PRODUCER_STATE = (
    "producers open oldest youngest stop largest_offset after_hole after_damage is_after_damage is_full newest_data "
    "newest_marker batches committed aborted first_ended aborts"
).split()
WALK_STATE = (
    "next is_short is_held held_entry held_offset held_value before_offset before_value end last_offset is_doubted "
    "largest has_unseen certain has_v2 pending pending_entry indexed farthest farthest_at total"
).split()

COMPARED = "is_open same different last_same events".split()
BUILD_STATE = (
    "last_position largest_timestamp largest_timestamp_offset last_offset last_timestamp last_time_offset offsets "
    "times row"
).split()


def signed(value: int, bits: int) -> int:
    """The low bits of a number, as a signed one."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def state_of(found: object, names: list[str]) -> list[object]:
    return [getattr(found, name) for name in names]


def chains(chance: Random) -> object:
    base = chance.choice((None, 0, 0, 5, 1 << 40))
    rows = batch_rows(chance, 24, base or 0, chance.choice((0.02, 0.1, 0.3)))
    latest = chance.choice((chain.NO_TIME_LIMIT, 1000))
    check = chain.Chain(base, latest, chance.choice((0, 1, 50)), int64s(EVENT_WIDTH * chance.choice((0, 1, 40))))
    found: list[object] = []
    cut = chance.randrange(25)
    for part in (rows[: cut * BATCH_WIDTH], rows[cut * BATCH_WIDTH :]):
        found += [tried(chain.follow, int64s(part), len(part) // BATCH_WIDTH + extra, check) for extra in (0, 1)]
        found += [check.written(), list(check.totals), state_of(check, CHAIN_STATE)]
    return found


def table_of(chance: Random) -> producers.ProducerTable:
    as_broker = chance.random() < 0.3
    table = producers.ProducerTable(1010, chance.choice((5, 1000)), chance.choice((0, 1, 50)), as_broker)
    table.seed = chance.choice((1, 0x9E3779B97F4A7C15 >> 1 | 1))
    table.stop = chance.choice((-1, -1, 30, 31, 32))
    table.use(int64s(ENTRY_WIDTH * 2), int64s(4))
    table.write_to(int64s(EVENT_WIDTH * chance.choice((0, 1, 60))), int64s(ABORT_WIDTH * chance.choice((1, 2, 30))))
    return table


def replays(chance: Random) -> object:
    rows = int64s(batch_rows(chance, 40, chance.choice((0, 0, 7)), chance.choice((0.0, 0.05, 0.2, 0.5))))
    table, row, found = table_of(chance), 0, []
    found.append(tried(producers.replay, table, rows, 0, 41))
    found.append(tried(producers.replay, table, rows, -1, 2))
    capacity, step = 2, chance.choice((1, 3, 40))
    for _ in range(90):
        stop = min(row + step, 40)
        row = producers.replay(table, rows, row, stop)
        found += [row, table.written(), list(table.totals), state_of(table, PRODUCER_STATE)]
        found += [table.row(index) for index in range(table.producers)]
        if row == 40:
            break
        if row == stop:
            continue
        if capacity < 8:
            capacity *= 2
            entries = int64s(ENTRY_WIDTH * capacity)
            for index in range(table.producers):
                entries[index * ENTRY_WIDTH : (index + 1) * ENTRY_WIDTH] = int64s(table.row(index))
            table.use(entries, int64s(2 * capacity))
        elif not table.aborts:
            row += 1  # a marker for the caller, or the offset at which it stops
    return [*found, snapshots(chance, table)]


def snapshots(chance: Random, table: producers.ProducerTable) -> object:
    """The table against a file of its own entries, some of which differ in one field."""
    entries, fields = [], (0, 1, 2, 3, 4, 5, 6, 7)
    for index in range(table.producers):
        entry = [table.row(index)[field] for field in fields]
        if chance.random() < 0.5:
            field = chance.choice(fields)
            entry[field] ^= chance.choice((1, 2, 1 << 14))
        sizes = (64, 16, 32, 64, 32, 64, 32, 64)
        entries.append(struct.pack(">qhiqiqiq", *map(signed, entry, sizes)))
    data = bytes(10) + b"".join(entries)
    found = []
    for width in (0, 1, 2, 4, 100):
        out = int64s(width)
        found += [tried(producers.compare, table, data, 0, len(entries), out), out.tolist()]
        found += [table.differing, table.differing_open]
    return [*found, tried(producers.compare, table, data[:-1], 0, len(entries) + (not entries), int64s(2))]


def indexes(chance: Random) -> object:
    """An index of either kind against a log, in windows of a few entries."""
    width, base = chance.choice((indexing.OFFSETS, indexing.TIMES)), chance.choice((0, 5, (1 << 63) - 50))
    rows = batch_rows(chance, 20, min(base, 1 << 40), chance.choice((0.0, 0.05, 0.2)))
    entries = []
    for at in range(0, len(rows), BATCH_WIDTH):
        if chance.random() < 0.4:
            offset, position = rows[at + BATCH_LAST_OFFSET] - base, rows[at + BATCH_POSITION]
            time = max(rows[BATCH_MAX_TIMESTAMP : at + BATCH_WIDTH : BATCH_WIDTH])
            if chance.random() < 0.3:
                offset += chance.choice((-1, 1, -30, 30))
                position += chance.choice((-1, 1, 100, -1000))
                time += chance.choice((-1, 1, -1000))
            entries.append((offset, position, time))
    if chance.random() < 0.3:
        entries.append((9999, 99999, 99999))
    data = b""
    for offset, position, time in entries:
        low = signed(offset, 32)
        is_offsets = width == indexing.OFFSETS
        data += (
            struct.pack(">ii", low, signed(position, 32)) if is_offsets else struct.pack(">qi", signed(time, 64), low)
        )
    walk = indexing.EntryWalk(width, chance.choice((1, 50)), int64s(EVENT_WIDTH * 60))
    walk.begin(base, len(entries))
    window, found, row, count = chance.choice((3, 4, 9)), [], 0, len(rows) // BATCH_WIDTH

    def move() -> None:
        at = walk.next
        loaded = min(window, len(entries) - at)
        found.append(tried(walk.move, at, loaded, data[at * width : (at + loaded) * width - 1]))
        walk.move(at, loaded, data[at * width : (at + loaded) * width] or bytes(width))

    move()
    found.append(tried(indexing.follow, walk, int64s(rows), 0, count + 1))
    while True:
        row = indexing.follow(walk, int64s(rows), row, count)
        found += [row, walk.written(), list(walk.totals), state_of(walk, WALK_STATE)]
        if row == count:
            break
        move()
    size = chance.choice((-1, walk.end, walk.end + 1, walk.end - 100))
    while indexing.drain(walk, size):
        found += [walk.written(), state_of(walk, WALK_STATE)]
        move()
    last = [walk.last_about[kind] for kind in range(indexing.KINDS)]
    return [*found, walk.written(), list(walk.totals), last, state_of(walk, WALK_STATE)]


def builds(chance: Random) -> object:
    """Indexes made from rows, with buffers that are as long as they must be, and one byte shorter."""
    base, count = chance.choice((0, 0, 5)), 12
    rows = batch_rows(chance, count, base, chance.choice((0.0, 0.1)))
    interval = chance.choice((0, 77, 78, 99, 100, 300))
    flags = [chance.random() < 0.4, chance.random() < 0.8, chance.random() < 0.3]
    found: list[object] = []
    build = indexing.IndexBuild(base, interval, *flags)
    for size, offset_bytes, time_bytes in ((16, 8, 12), (15, 8, 12), (16, 7, 12), (16, 8, 11), (16, 8, 12)):
        offsets, times = bytearray(offset_bytes * count), bytearray(time_bytes * count)
        part = int64s(rows)[: count * size]
        found += [tried(indexing.index, part, count, build, offsets, times), offsets.hex(), times.hex()]
        found.append(state_of(build, BUILD_STATE))
    return found


def changes(chance: Random) -> object:
    rows, state, found = int64s(batch_rows(chance, 20)), indexing.EpochState(), []
    width = chance.choice((1, 2, 3, 9))
    out, row = int64s(3 * width), 0
    found.append(tried(indexing.changes, rows, 0, 21, state, out))
    found.append(tried(indexing.changes, rows, 0, 20, state, out[:2]))
    found.append(tried(indexing.changes, rows, -1, 20, state, out))
    while row < 20:
        row = indexing.changes(rows, row, 20, state, out)
        found += [row, state.found, state.epoch, state.last_offset, out.tolist()]
    return found


def counts(chance: Random) -> object:
    rows, found = int64s(batch_rows(chance, 20)), int64s(tally.FORMS_WIDTH)
    for at in range(0, len(rows), BATCH_WIDTH):
        rows[at + 2] = chance.choice((0, 1, 2, 2, 3, -1))
    is_07 = chance.random() < 0.3
    refused = [
        tried(tally.count_forms, rows, 21, is_07, found),
        tried(tally.count_forms, rows, 20, is_07, found[:-1]),
    ]
    return refused, tried(tally.count_forms, rows, chance.choice((0, 7, 20)), is_07, found), found.tolist()


def packs(chance: Random) -> object:
    rows, origin = batch_rows(chance, 5, chance.choice((0, 1 << 40))), chance.choice((0, 1000))
    for at in range(0, len(rows), BATCH_WIDTH):
        rows[at + BATCH_POSITION] += origin
    size = rows[-BATCH_WIDTH] + rows[1 - BATCH_WIDTH] - origin
    data, out = chance.randbytes(size), bytearray(5 * chain.MAX_FINGERPRINT_BYTES)
    table = int64s(rows)
    found = [
        tried(chain.pack_fingerprints, data[:-1], table, 5, origin, out),
        tried(chain.pack_fingerprints, data, table, 5, origin + 1, out),
        tried(chain.pack_fingerprints, data, table, 6, origin, out),
        tried(chain.pack_fingerprints, data, table, 5, origin, out[:-1]),
    ]
    return found, tried(chain.pack_fingerprints, data, table, 5, origin, out), out.hex()


def values(chance: Random) -> object:
    registers, table = tally.REGISTERS, tally.TABLE
    found = int64s(table + 16)
    found[1], found[3] = chance.choice((4, 15)), 15
    size = chance.choice((1, 3, 7, 8, 9, 16, 20))
    for _ in range(8):
        tally.add(found, chance.randbytes(chance.randrange(size + 1)))
    refused = []
    for cap, mask, length in ((16, 15, 16), (15, 15, 15), (4, -1, 16), (4, 7, 8), (4, 7, 7)):
        small = int64s(table + length)
        small[1], small[3] = cap, mask
        refused.append(tried(tally.add, small, b"x"))
    refused.append(tried(tally.add, found[: table - 1], b"x"))
    held = [(at, value) for at, value in enumerate(found.tolist()) if value]
    return registers, held, refused


def laid_out(chance: Random, offsets: list[int]) -> tuple[bytes, memoryview, memoryview, int]:
    """(payload, rows, headers, count) of records whose fields are equal more often than not."""
    payload, rows, headers = b"-kkeyvalue", [], []
    spans = ((0, -1), (1, 0), (1, 1), (2, 1), (2, 3), (5, 5), (5, 4))
    for offset in offsets:
        count = chance.choice((0, 0, 0, 0, 1, 2))
        place = len(headers) // HEADER_WIDTH
        for _ in range(count):
            headers += [*chance.choice(spans[1:3]), *chance.choice(spans[:3])]
        key, value = chance.choice(((1, 1), (1, 1), (2, 1), *spans)), chance.choice(((5, 5), (5, 5), *spans))
        rows += [offset, chance.choice((5, 5, 5, 5, 6, -1)), -1, *key, *value, place, count, 0]
    return payload, int64s(rows or ROW_WIDTH), int64s(headers or HEADER_WIDTH), len(offsets)


def comparisons(chance: Random) -> object:
    """Records of two replicas, with out for a few events at a time."""
    sides = [laid_out(chance, sorted(chance.sample(range(14), chance.randrange(12)))) for _ in range(2)]
    payload, rows, headers, count = sides[0]
    short = ((b"", rows, headers), (payload, rows[:-1], headers), (payload, rows, headers[:0]))
    found = [tried(lambda *parts: replicas.Side(*parts).count, *parts, count + (not count)) for parts in short]
    found.append(tried(lambda: replicas.Side(payload, rows, headers, count, -1).next))
    found.append(tried(lambda: replicas.RecordComparison(int64s(replicas.EVENT_WIDTH - 1)).events))
    one, other = (replicas.Side(*parts, chance.choice((0, 0, 0, 1))) for parts in sides)
    state = replicas.RecordComparison(int64s(replicas.EVENT_WIDTH * chance.choice((1, 2, 30))))
    state.begin(chance.random() < 0.2)
    for _ in range(60):
        status = replicas.compare(one, other, state)
        found += [status, one.next, other.next, [state.event(number) for number in range(state.events)]]
        found += [tried(state.event, state.events), tried(state.event, -1), state_of(state, COMPARED)]
        if status == DONE:
            break
    return found


def tallies(chance: Random) -> object:
    """Batches, rows and sizes that are counted one by one."""
    width, table = tally.TALLY_WIDTH, tally.TABLE
    counted, seen = int64s(width), int64s(table + 32)
    seen[1], seen[3] = 20, 31
    found: list[object] = []
    for magic, least in ((0, 26), (1, 26), (2, 61), (-7, 9), (3, 61), (-1, 61)):
        for length in (least - 1, least, 90):
            data = bytearray(chance.randbytes(length))
            data[:14] = bytes(14)
            data[4] = chance.randrange(2)
            data[21:23] = bytes([0, chance.choice((0, 1, 4, 8, 16, 32, 64))])[: max(length - 21, 0)]
            found.append(tried(tally.add_batch, bytes(data[:length]), magic, counted, seen))
    payload, rows, heads, count = laid_out(chance, [chance.choice((-5, 0, 1, 2, 3, 9, 1 << 62)) for _ in range(6)])
    for is_control in (False, True):
        for has_offsets in (False, True):
            found.append(tried(tally.add_rows, payload, rows, heads, count, counted, seen, is_control, has_offsets))
    found += [tried(tally.add_rows, payload, rows[:-1], heads, count, counted, seen, False, True)]
    found += [tried(tally.add_rows, payload, rows, heads[:0], count, counted, seen, False, True)]
    found += [tried(tally.add_rows, payload, rows, heads, count, counted[:-1], seen, False, True)]
    found += [tried(tally.add_rows, b"", rows, heads, count, counted, seen, False, True)]
    for of_records in (False, True):
        found += [tried(tally.largest_of, buffer, of_records) for buffer in (counted, counted[:-1])]
    found += [tried(tally.header_keys, buffer) for buffer in (counted, counted[:-1])]
    for which in (-1, 0, 3, 4):
        found.append(
            tried(tally.add_size, counted, which, chance.choice((-1, 0, 1, 31, 32, 63, 64, 65, 127, 128, 1 << 40)))
        )
    found.append(tried(tally.add_size, counted[:-1], 0, 1))
    return [*found, *([(at, value) for at, value in enumerate(one.tolist()) if value] for one in (counted, seen))]


CASES = {
    "comparisons": (comparisons, 150),
    "tallies": (tallies, 80),
    "chains": (chains, 200),
    "replays": (replays, 300),
    "indexes": (indexes, 200),
    "builds": (builds, 60),
    "changes": (changes, 40),
    "counts": (counts, 40),
    "packs": (packs, 20),
    "values": (values, 30),
}
