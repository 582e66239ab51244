"""The compiled and the interpreted kernel give the same state, events and errors for the same rows of batches."""

import struct
from random import Random

from kernel.batch_rows import batch_rows
from kernel.both import tried
from kernel.rendering import int64s, laid_out
from kseg.kernel.layout.rows import BATCH_LAST_OFFSET, BATCH_MAX_TIMESTAMP, BATCH_POSITION, BATCH_WIDTH, DONE
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
        found += [chain.follow(int64s(part), len(part) // BATCH_WIDTH, check), check.written(), list(check.totals)]
        found.append(state_of(check, CHAIN_STATE))
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
        found += [producers.compare(table, data, 0, len(entries), out), out.tolist()]
        found += [table.differing, table.differing_open]
    return found


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
        walk.move(at, loaded, data[at * width : (at + loaded) * width] or bytes(width))

    move()
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
    """Indexes made from rows."""
    base, count = chance.choice((0, 0, 5)), 12
    rows = batch_rows(chance, count, base, chance.choice((0.0, 0.1)))
    interval = chance.choice((0, 77, 78, 99, 100, 300))
    flags = [chance.random() < 0.4, chance.random() < 0.8, chance.random() < 0.3]
    found: list[object] = []
    build = indexing.IndexBuild(base, interval, *flags)
    for _ in range(2):
        offsets, times = bytearray(indexing.OFFSETS * count), bytearray(indexing.TIMES * count)
        found += [indexing.index(int64s(rows), count, build, offsets, times), offsets.hex(), times.hex()]
        found.append(state_of(build, BUILD_STATE))
    return found


def changes(chance: Random) -> object:
    rows, state, found = int64s(batch_rows(chance, 20)), indexing.EpochState(), []
    width = chance.choice((1, 2, 3, 9))
    out, row = int64s(3 * width), 0
    while row < 20:
        row = indexing.changes(rows, row, 20, state, out)
        found += [row, state.found, state.epoch, state.last_offset, out.tolist()]
    return found


def counts(chance: Random) -> object:
    rows, found = int64s(batch_rows(chance, 20)), int64s(tally.FORMS_WIDTH)
    for at in range(0, len(rows), BATCH_WIDTH):
        rows[at + 2] = chance.choice((0, 1, 2, 2, 3, -1))
    is_07 = chance.random() < 0.3
    tally.count_forms(rows, chance.choice((0, 7, 20)), is_07, found)
    return found.tolist()


def packs(chance: Random) -> object:
    rows, origin = batch_rows(chance, 5, chance.choice((0, 1 << 40))), chance.choice((0, 1000))
    for at in range(0, len(rows), BATCH_WIDTH):
        rows[at + BATCH_POSITION] += origin
    size = rows[-BATCH_WIDTH] + rows[1 - BATCH_WIDTH] - origin
    data, out = chance.randbytes(size), bytearray(5 * chain.MAX_FINGERPRINT_BYTES)
    table = int64s(rows)
    return chain.pack_fingerprints(data, table, 5, origin, out), out.hex()


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
    held = [(at, value) for at, value in enumerate(found.tolist()) if value]
    return registers, held, refused


def records(chance: Random, offsets: list[int]) -> tuple[bytes, memoryview, memoryview, int]:
    """(payload, rows, headers, count) of records whose fields are equal more often than not."""
    texts = (None, b"", b"k", b"key", b"value", b"valu")
    return laid_out(
        (
            offset, chance.choice((5, 5, 5, 5, 6, -1)), chance.choice((b"k", b"k", b"k", *texts)),
            chance.choice((b"value", b"value", *texts)),
            [(chance.choice((b"", b"k")), chance.choice(texts[:3])) for _ in range(chance.choice((0, 0, 0, 0, 1, 2)))],
        )
        for offset in offsets
    )  # fmt: skip


def comparisons(chance: Random) -> object:
    """Records of two replicas, with out for a few events at a time."""
    sides = [records(chance, sorted(chance.sample(range(14), chance.randrange(12)))) for _ in range(2)]
    one, other = (replicas.Side(*parts, chance.choice((0, 0, 0, 1))) for parts in sides)
    state = replicas.RecordComparison(int64s(replicas.EVENT_WIDTH * chance.choice((1, 2, 30))))
    state.begin(chance.random() < 0.2)
    found: list[object] = []
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
    payload, rows, heads, count = records(chance, [chance.choice((-5, 0, 1, 2, 3, 9, 1 << 62)) for _ in range(6)])
    for is_control in (False, True):
        for has_offsets in (False, True):
            tally.add_rows(payload, rows, heads, count, counted, seen, is_control, has_offsets)
    found += [tally.largest_of(counted, False), tally.largest_of(counted, True), tally.header_keys(counted)]
    for which in (0, 3):
        tally.add_size(counted, which, chance.choice((-1, 0, 1, 31, 32, 63, 64, 65, 127, 128, 1 << 40)))
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
