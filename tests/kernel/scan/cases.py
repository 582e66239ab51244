"""The compiled and the interpreted kernel find the same frames, headers, counts and offsets in the same bytes."""

import struct
from random import Random
from zlib import crc32

from fuzz.batches import out_of_place
from kernel.batch_rows import batch_rows
from kernel.both import number, tried
from kernel.random_segments import segment
from kernel.rendering import int64s
from kseg.kernel.layout.rows import BATCH_WIDTH, DONE, FRAME_WIDTH, FULL, HEADER_WIDTH, ROW_WIDTH
from kseg.kernel.records.columns import HeaderOffsets
from kseg.kernel.scan import frames, headers, pieces
from kseg.kernel.scan.frames import LONG_RUNS, SKIP_CHECKSUMS, WALK_RECORDS, FrameScan
from kseg.kernel.state import tally

TALLY_WIDTH = tally.TALLY_WIDTH
TABLE = tally.TABLE

FIELDS = (
    (0, ">q"), (8, ">i"), (12, ">i"), (16, ">b"), (17, ">B"), (18, ">i"), (21, ">H"), (22, ">B"), (22, ">i"),
    (23, ">i"), (26, ">i"), (30, ">i"), (43, ">q"), (51, ">h"), (53, ">i"), (57, ">i"),
)  # fmt: skip
"""Positions and types of fields of headers of any magic."""


def messages_07(chance: Random) -> bytes:
    parts = []
    for _ in range(chance.choice((1, 3, 9))):
        magic, value = chance.randrange(2), chance.randbytes(chance.choice((0, 1, 20)))
        body = bytes([magic]) + bytes([chance.choice((0, 0, 1))] * magic)
        parts.append(struct.pack(">i", len(body) + 4 + len(value)) + body + crc32(value).to_bytes(4, "big") + value)
    return b"".join(parts)


def scans(chance: Random) -> object:
    """Frames found with and without judgement of broken ones; then their headers, counts and offsets."""
    is_07 = chance.random() < 0.2
    data = messages_07(chance) if is_07 else segment(chance) + segment(chance)
    data = out_of_place(data, chance) if chance.random() < 0.75 else data
    options = chance.choice((0, 0, 0, WALK_RECORDS, SKIP_CHECKSUMS, LONG_RUNS))
    scan, found = FrameScan(is_07, options), []
    if chance.random() < 0.7:
        scan.use_prefixes(0, len(data))
        scan.largest = chance.choice((0, 100, 1 << 20, 1 << 20))
    scan.budget = chance.choice((0, 0, 1, 200))
    rows = int64s(FRAME_WIDTH * chance.choice((1, 3, 30)))
    end = len(data) - chance.choice((0, 0, 0, 1, 17))
    everything: list[int] = []
    for _ in range(80):
        status = frames.scan(scan, data, end, rows)
        taken = rows[: scan.count * FRAME_WIDTH].tolist()
        everything += taken
        found += [status, taken, scan.position, scan.last_offset]
        if status == DONE:
            break
        if status != FULL:
            at = frames.find(scan, data, scan.position + 1, end, end, chance.choice((-1, scan.position)))
            found += [at, scan.position]
            if at < 0:
                break
            scan.position = at
    found.append([frames.find(FrameScan(is_07), data, start, end, end) for start in (-1, 0, 1, 60, end - 1, end)])
    return [*found, read(chance, data, everything, is_07)]


def read(chance: Random, data: bytes, table: list[int], is_07: bool) -> object:
    frame_rows, count = int64s(table or FRAME_WIDTH), len(table) // FRAME_WIDTH
    out, origin = int64s(BATCH_WIDTH * count), chance.choice((0, 1000))
    headers.read(data, frame_rows, count, is_07, origin, out)
    if not count:
        return out.tolist()
    return [out.tolist(), counts(chance, data, frame_rows, count, is_07), offsets(chance, out, count)]


def counts(chance: Random, data: bytes, table: memoryview, count: int, is_07: bool) -> object:
    counted, producers, keys = int64s(TALLY_WIDTH), int64s(TABLE + 64), int64s(TABLE + 64)
    producers[1] = keys[1] = 40
    producers[3] = keys[3] = 63
    rows, headers_out = int64s(ROW_WIDTH * chance.choice((1, 2, 20))), int64s(HEADER_WIDTH * chance.choice((1, 2, 60)))
    buffers = counted, producers, keys, rows, headers_out
    found: list[object] = []
    first = 0
    while first < count:
        done = tally.add_frames(data, table, first, count, is_07, *buffers)
        found.append(done)
        first = max(done, first) + (done < count)
    held = [[(at, value) for at, value in enumerate(one.tolist()) if value] for one in (counted, producers, keys)]
    return [*found, held]


def offsets(chance: Random, rows: memoryview, count: int) -> object:
    first = chance.choice((-(1 << 63), rows[4], rows[5], rows[4] + 1))
    last = chance.choice(((1 << 63) - 1, rows[5], rows[len(rows) - BATCH_WIDTH + 5], rows[len(rows) - BATCH_WIDTH + 4]))
    wanted, out, found = int64s([first, last, 0, 0]), int64s(chance.choice((1, 2, 7))), []
    progress = HeaderOffsets(chance.choice((0, 6, 7, 14, 1 << 20)))
    for _ in range(40):
        end = progress.fill(rows, count, wanted, out, 0)
        found += [end, out[:end].tolist(), progress.batch, progress.delta, progress.next_given(rows, count)]
        if progress.batch == count:
            break
        if end < len(out):
            progress.batch += 1
    return found


def heads(chance: Random) -> object:
    """Headers with fields at limits: what continues what, and how long it claims to be."""
    data = bytearray(segment(chance) + bytes(chance.choice((0, 17, 61))))
    last = chance.choice(
        (-1, 0, struct.unpack_from(">q", data)[0] - 1, number(chance, struct.unpack_from(">q", data)[0]))
    )
    for _ in range(chance.choice((0, 1, 1, 2))):
        at, form = chance.choice(FIELDS)
        bits = 8 * struct.calcsize(form)
        value = number(chance, struct.unpack_from(form, data, at)[0]) if len(data) >= at + bits // 8 else 0
        value %= 1 << bits
        if form[1].islower() and value >> (bits - 1):
            value -= 1 << bits
        if len(data) >= at + bits // 8:
            struct.pack_into(form, data, at, value)
    whole = bytes(data)
    size = struct.unpack_from(">i", whole, 8)[0] + 12
    found: list[object] = [frames.continues(whole[:61], last)]
    found += [frames.continues(whole[:length], last) for length in (0, 17, 25, 26, 29, 30, 33, 34, 60)]
    for end in {26, 27, 34, 61, len(whole), min(max(size, 0), len(whole)), min(max(size - 1, 0), len(whole))}:
        for largest in (0, size - 12, size - 13, 1 << 20):
            for is_07 in (False, True):
                found.append(frames.claimed_end(whole, 0, min(end, len(whole)), is_07, largest))
    found += [frames.leading_zeros(whole[at:]) for at in (0, len(whole) - 1, len(whole), len(whole) - 17)]
    return [*found, [frames.long_zeros(whole, least) for least in (1, 2, 8, 17, 61, 62)]]


def pieces_of_images(chance: Random) -> object:
    """Rows of batches, some of them twice, as an image has them: breaks, known keys, contradictions."""
    count, data = chance.choice((1, 5, 40)), chance.randbytes(400)
    table = batch_rows(chance, count)
    table += table[: BATCH_WIDTH * chance.randrange(count + 1)]
    adjacent = int64s(table)
    for row in range(0, len(table), BATCH_WIDTH):
        table[row] = chance.randrange(430)
    rows, total = int64s(table), len(table) // BATCH_WIDTH
    out = int64s([0] * (total - chance.choice((0, 0, 0, 1))))
    compared, block = chance.choice((rows, adjacent)), chance.choice((0, 1, 512))
    largest = chance.choice((-1, 20, 1 << 56, number(chance)))
    found: list[object] = [tried(pieces.breaks, compared, total, block, largest, out), out.tolist()]
    index, i = pieces.KeyIndex(int64s([0] * chance.choice((1, 64, 256))), number(chance)), 0
    while i < total:
        stop = tried(index.add, data, chance.choice((0, 1)), rows, i, total, 1000)
        i = stop if isinstance(stop, int) else i
        found += [stop, tried(index.alike, data, 0, rows, i), tried(index.add, data, 0, rows, i, i + 1, 0, True)]
        i += 1
    i, k = chance.randrange(total), chance.randrange(total + 2)
    return [*found, tried(pieces.contradict, rows, 0, i, rows, i, k), tried(pieces.contradict, rows, k, i, rows, 0, i)]


CASES = {"pieces": (pieces_of_images, 60), "scans": (scans, 60), "heads": (heads, 200)}
