"""The compiled and the interpreted kernel read, sort and write the same records, whatever the bytes and the buffers."""

import struct
from random import Random

from kernel.both import number, tried
from kernel.random_segments import area, changed, pairs, segment, text
from kernel.rendering import batch, frames, int64s, laid_out, message, record, varint
from kseg.formats.rows import Rows
from kseg.kernel.layout import rows as layout
from kseg.kernel.layout.rows import FRAME_WIDTH, HEADER_WIDTH, INT32_MAX, ROW_WIDTH
from kseg.kernel.records import building, columns, messages
from kseg.kernel.records.records import RecordWalk


def walks(chance: Random) -> object:
    """Records read in pieces, by few rows and few header rows at a time, and the same records only checked."""
    count = chance.choice((0, 1, 2, 5, 9))
    parts = area(chance, count)
    if chance.random() < 0.2:  # a length or a key of two or three bytes' varint, and attributes
        parts.append(record(count, 5, bytes(chance.choice((8150, 8191, 8192))), b"v", pairs(chance)))
        parts.append(varint(8) + bytes([chance.choice((1, 255))]) + bytes(2) + varint(-9000) + varint(-1) + b"\0")
    data = changed(chance, b"".join(parts))
    count = chance.choice((count, len(parts)))
    header = batch(
        (), number(chance, 5), 8 * (chance.random() < 0.3), number(chance, 1000), number(chance, 2000),
        sequence=chance.choice((-1, 0, INT32_MAX - 2)), count=count + chance.choice((0, 0, 0, 1)),
        last_delta=count - 1 + chance.choice((0, 0, 1, -1)),
    )  # fmt: skip
    walk, found = RecordWalk(header), []
    rows, capacity = int64s(ROW_WIDTH * chance.choice((1, 2, 20))), chance.choice((0, 1, 3, 40))
    headers = int64s(HEADER_WIDTH * capacity)
    for _ in range(20):
        status = walk.read(data, rows, headers)
        found += [
            status,
            rows[: walk.row_count * ROW_WIDTH].tolist(),
            headers[: walk.header_count * HEADER_WIDTH].tolist(),
        ]
        found += [walk.index, walk.position, walk.flags, walk.largest_timestamp]
        if not walk.row_count:
            break
    whole = RecordWalk(header)
    return [*found, whole.read(data), whole.index, whole.position, whole.flags, whole.largest_timestamp]


def message_sets(chance: Random) -> object:
    is_07 = chance.random() < 0.25
    parts = []
    for offset in range(chance.choice((0, 1, 3, 6))):
        key, value = text(chance), text(chance)
        if is_07:
            magic = chance.randrange(2)
            body = bytes([magic]) + bytes(magic) + bytes(4) + (value or b"")
            parts.append(struct.pack(">i", len(body)) + body)
        else:
            magic, attributes = chance.choice((0, 1, 1)), chance.choice((0, 0, 0, 0, 8, 1))
            parts.append(message(offset, magic, key, value, number(chance, 50), attributes))
    data = b"".join(parts)
    if chance.random() < 0.5 and data:
        at = chance.choice((8, 12, 16, 17, chance.randrange(len(data))))
        if not is_07 and chance.random() < 0.7:
            sizes = chance.choice((14, 18, 22, 26))
            low = struct.pack(">i", chance.choice((-2, -1, 0, 1, 13, 14, 21, 22, 1000, INT32_MAX)))
            data = data[:sizes] + low + data[sizes + 4 :]
        else:
            data = data[:at] + bytes([chance.choice((0, 1, 2, 5, 13, 14, 255))]) + data[at + 1 :]
    data = data[: len(data) - chance.choice((0, 0, 0, 1, 4, 13))]
    mode = chance.choice((messages.STRICT, messages.STRICT, messages.AS_DUMPED, messages.SIZES_ONLY))
    kind = chance.choice((messages.OWN, messages.OWN, 1, 2))
    made = (chance.choice((0, 0, 7, (1 << 63) - 2)), kind, 77, mode)
    walk, found = messages.MessageWalk(*made), []
    rows = int64s(ROW_WIDTH * chance.choice((1, 2, 9)))
    for _ in range(9):
        status = walk.read(data, rows, is_07)
        found += [status, rows[: walk.row_count * ROW_WIDTH].tolist(), walk.position, walk.count, walk.last_offset]
        found.append(walk.misfits)
        if status != layout.FULL:
            break
    if not is_07:
        survey = messages.MessageWalk(*made)
        found += [survey.read(data), survey.count, survey.last_offset, survey.position]
    return found


def wanted(chance: Random, base: int) -> memoryview:
    first, last, earliest, latest = -(1 << 63), (1 << 63) - 1, -(1 << 63), (1 << 63) - 1
    if chance.random() < 0.5:
        first, last = base + chance.randrange(-1, 4), base + chance.randrange(2, 8)
    if chance.random() < 0.5:
        earliest, latest = chance.choice((5, 999, 1000, 1001)), chance.choice((1000, 1001, 1064, 9000))
    return int64s([first, last, min(earliest, (1 << 63) - 1), latest])


def columns_of(chance: Random) -> object:
    """Rows of a segment as columns: collected, filtered, measured and copied, in buffers of any size."""
    data = segment(chance)
    table = frames(data)
    count = len(table) // FRAME_WIDTH
    base = struct.unpack_from(">q", data)[0]
    asked = wanted(chance, base if base < 1 << 62 else 0)
    collector, found = columns.Collector(0), []
    rows = int64s(ROW_WIDTH * chance.choice((1, 2, 30)))
    headers = int64s(HEADER_WIDTH * chance.choice((1, 2, 60)))
    for _ in range(60):
        status = collector.collect(data, table, count, asked, rows, headers)
        found += [
            status,
            collector.frame,
            collector.is_open,
            collector.row_count,
            collector.header_count,
        ]
        found += [collector.records, collector.needed if status == layout.MORE_HEADERS else 0]
        found += columns_found(chance, data, rows, collector.row_count, headers, collector.header_count, asked)
        collector.row_count = collector.header_count = 0
        if status == layout.MORE_HEADERS:
            headers = int64s(HEADER_WIDTH * collector.needed)
        elif status != layout.FULL:
            if collector.frame >= count:
                break
            collector.go_to(collector.frame + 1)
    return found


def columns_found(
    chance: Random, data: bytes, rows: memoryview, count: int, headers: memoryview, header_count: int, asked: memoryview
) -> list[object]:
    rows, headers = int64s(rows[: count * ROW_WIDTH].tolist()), int64s(headers[: header_count * HEADER_WIDTH].tolist())
    found: list[object] = [rows.tolist(), headers.tolist(), tried(columns.count_invalid, rows, count)]
    first = chance.randrange(count + 1)
    for parts in (1, 2, 4, 7):
        for left in (0, 1, 3, 64, 65, 1000):
            found.append(tried(columns.fitting, rows, headers, first, count, parts, left))
    at = chance.choice((0, 1, 7, 9))
    length = at + count - first
    out, ints, bits = int64s(length), memoryview(bytearray(4 * length)).cast("i"), bytearray((length + 7) // 8)
    columns.kinds(rows, first, count, ints, at)
    found.append(ints.tolist())
    for scale in (1, 1000):
        found += [columns.times(rows, first, count, scale, out, bits, at), out.tolist(), bits.hex()]
    ends = memoryview(bytearray(4 * (length + 1))).cast("i")
    ends[at] = chance.choice((0, 5, INT32_MAX, INT32_MAX - 1))
    found += [tried(columns.header_ends, rows, first, count, ends, at), ends.tolist()]
    copied = int64s(header_count * HEADER_WIDTH)
    found += [columns.headers_of(rows, first, count, headers, copied), copied.tolist()]
    found += bytes_found(chance, data, rows, first, count, at)
    kept = columns.keep(rows, count, asked)
    found += [kept, rows.tolist()]
    columns.stamp(rows, kept, chance.randrange(3))
    found.append(rows.tolist())
    odd = int64s(rows.tolist())
    for k in range(kept):
        odd[k * ROW_WIDTH + 9] = chance.choice((1 << 32, 0, 1, 3 << 32, 5 << 32))
    return [*found, columns.count_invalid(odd, kept), columns.keep(odd, kept, asked), odd.tolist()]


def bytes_found(chance: Random, data: bytes, rows: memoryview, first: int, count: int, at: int) -> list[object]:
    found: list[object] = []
    length = at + count - first
    total = sum(max(rows[k * ROW_WIDTH + 4], 0) for k in range(first, count))
    for spare in (0, -1, 1):
        out, valid = bytearray(9 + total + spare), bytearray((length + 7) // 8)
        ends = memoryview(bytearray(4 * (length + 1))).cast("i")
        ends[at] = min(chance.choice((9, 9, 9, 8, 0, len(out))), len(out))
        found.append(columns.gather(data, rows, first, count, ROW_WIDTH, 3, out, ends, valid, at))
        found += [out.hex() if found[-1] != -1 else "", ends.tolist() if found[-1] != -1 else 0, valid.hex()]
    spare_ends = memoryview(bytearray(4 * (length + 1))).cast("i")
    astray = int64s(rows.tolist())
    for k in range(count):
        if chance.random() < 0.1:
            astray[k * ROW_WIDTH + 3] = chance.choice((-1, len(data), len(data) - 1, (1 << 63) - 1))
            astray[k * ROW_WIDTH + 4] = chance.choice((0, 1, 2, len(data), len(data) + 1))
    out, valid = bytearray(4000), bytearray(length // 8 + 1)
    found.append(tried(columns.gather, data, astray, first, count, ROW_WIDTH, 3, out, spare_ends, valid, at))
    for key in (b"", b"k", b"key", b"x" * 63):
        for table in (int64s(rows.tolist()), int64s(astray.tolist())):
            kept = tried(columns.keep_key, data, table, count, key)
            found += [kept, table.tolist() if isinstance(kept, int) else 0]
    return found


def rows_to_write(chance: Random, headers_allowed: bool = True) -> tuple[bytes, memoryview, memoryview, int]:
    records, offset = [], chance.choice((0, 5, 1 << 40))
    for _ in range(chance.choice((1, 1, 2, 6))):
        some = pairs(chance) if headers_allowed else []
        time = chance.choice((0, 1000, 1001, 900, -1, 1 << 40)) if chance.random() < 0.8 else number(chance)
        records.append((offset, time, text(chance), text(chance), some))
        offset += chance.choice((1, 1, 1, 2, -1, INT32_MAX, INT32_MAX + 1))
    return laid_out(records)


AREA = "end base_offset base_timestamp largest_timestamp last_offset count needed capacity".split()


def state_of(area: building.Area) -> list[object]:
    return [getattr(area, name) for name in AREA if hasattr(area, name)]


def measured(chance: Random, payload: bytes, rows: memoryview, headers: memoryview, count: int, magic: int) -> int:
    """A number of bytes that some of the rows fill exactly, or all but a byte."""
    area, stop = building.Area(magic, is_relative=True), chance.randrange(1, count + 1)
    area.begin(rows[0], 1 << 20)
    area.add(Rows(payload, rows, headers, count), 0, stop)
    return int(area.end) - chance.choice((0, 0, 1))


def areas(chance: Random) -> object:
    """Records of a batch or messages of a set, written into a buffer that grows by what the writer needs."""
    magic = chance.choice((2, 2, 1, 0))
    payload, rows, headers, count = rows_to_write(chance, magic == 2)
    base = rows[0] + chance.choice((0, 0, 0, 1, -1, -INT32_MAX, -INT32_MAX - 1))
    limit, found = chance.choice((0, 40, 100, 1 << 20, measured(chance, payload, rows, headers, count, magic))), []
    attributes, is_relative = chance.choice((0, 8)), chance.random() < 0.5
    area = building.Area(magic, is_relative, attributes, chance.choice((1, 30, 60, 3000)))
    area.begin(base, limit, chance.choice((None, None, 1000)))
    source = Rows(payload, rows, headers, count)
    found += [tried(area.add, source, *span) for span in ((0, count + 1), (-1, count), (count, count - 1))]
    first = 0
    for _ in range(30):
        done = tried(area.add, source, first, count)
        found += [done, *state_of(area), area.take().hex()]
        first = done if isinstance(done, int) else count
        if first >= count:
            break
        if area.count:
            area.begin(rows[first * ROW_WIDTH], limit)
        else:
            first += 1
    return found


def singles(chance: Random) -> object:
    # Headers make records larger than `max_bytes` says.
    payload, rows, headers, count = rows_to_write(chance, headers_allowed=chance.random() < 0.3)
    attributes, size = chance.choice((0, 8)), building.max_bytes(rows, count)
    exact = bytearray(size)
    written = tried(building.single_batches, payload, rows, headers, count, attributes, exact)
    found = [size, written, exact.hex(), building.single_batches(payload, rows, headers, 0, attributes, exact)]
    for less in (0, 1, 60, 70):
        if isinstance(written, int) and written > less:
            out = bytearray(written - less)
            found.append(tried(building.single_batches, payload, rows, headers, count, attributes, out))
    return found


CASES = {
    "walks": (walks, 200),
    "message_sets": (message_sets, 200),
    "columns_of": (columns_of, 60),
    "areas": (areas, 200),
    "singles": (singles, 40),
}
