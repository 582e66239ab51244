"""Batches of which nothing but the codec changes: which of a run they are, whether their records are right, and the
header around the area once it is compressed anew.
"""

try:
    from kseg.kernel import cython
except ImportError:
    import cython

if cython.compiled:
    from cython.cimports.kseg.kernel.expand import Room, expand_area
    from cython.cimports.kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        be32,
        be64,
        crc32c,
        native_setup,
    )
    from cython.cimports.kseg.kernel.packing import Packer, pack_area
    from cython.cimports.kseg.kernel.plain import read_header
    from cython.cimports.kseg.kernel.records import pass_records
    from cython.cimports.kseg.kernel.search import could_be_frame
    from cython.cimports.libc.string import memcpy
else:
    from kseg.kernel.expand import Room
    from kseg.kernel.native import (
        FRAME_MAGIC,
        FRAME_POSITION,
        FRAME_SIZE,
        FRAME_STATE,
        FRAME_WIDTH,
        be32,
        be64,
        crc32c,
        native_setup,
    )
    from kseg.kernel.packing import Packer
    from kseg.kernel.plain import read_header
    from kseg.kernel.records import pass_records
    from kseg.kernel.search import could_be_frame

COMPILED = cython.compiled

HEADER_BYTES = cython.declare(cython.Py_ssize_t, 61)
CONTROL = cython.declare(cython.int, 32)
CODEC_BITS = cython.declare(cython.int, 7)
LARGEST_CODEC = cython.declare(cython.int, 4)
SHORT = cython.declare(cython.Py_ssize_t, 16384)  # less is done sooner than Python's lock is given away and taken back
NO_ROOM = cython.declare(cython.Py_ssize_t, -2)
LARGEST_OFFSET = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)

DONE, FULL, LEFT = 0, 1, 2

native_setup()


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def count_choices(
    p: cython.pointer[cython.const[cython.uchar]],
    frames: cython.pointer[cython.const[cython.longlong]],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    kept: cython.int,
    most_bytes: cython.longlong,
    state: cython.pointer[cython.longlong],
) -> cython.Py_ssize_t:
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    frame: cython.Py_ssize_t
    taken: cython.longlong = 0
    delta: cython.longlong
    for i in range(first, stop):
        frame = i * FRAME_WIDTH
        at = frames[frame + FRAME_POSITION]
        if frames[frame + FRAME_MAGIC] != 2 or not frames[frame + FRAME_STATE] & 1:
            return i
        if frames[frame + FRAME_SIZE] < HEADER_BYTES or p[at + 22] & CONTROL or be32(p, at + 57) <= 0:
            return i
        if not could_be_frame(p, at, frames[frame + FRAME_SIZE], False):
            return i
        if p[at + 22] & CODEC_BITS == kept or p[at + 22] & CODEC_BITS > LARGEST_CODEC:
            return i
        delta = be32(p, at + 23)
        if be64(p, at) < state[0] or delta < 0 or be64(p, at) >= LARGEST_OFFSET - delta:
            return i
        if taken and taken + frames[frame + FRAME_SIZE] > most_bytes:
            return i
        taken += frames[frame + FRAME_SIZE]
        state[0] = be64(p, at) + delta + 1
        state[1] = taken
    return stop


@cython.cfunc
def check_frames(
    length: cython.Py_ssize_t,
    frames: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
):
    """ValueError unless there are rows of frames first to stop, and these lie within so many bytes."""
    last: cython.Py_ssize_t = (stop - 1) * FRAME_WIDTH
    if first < 0 or len(frames) < stop * FRAME_WIDTH:
        raise ValueError("a buffer is too short")
    if first < stop and frames[last + FRAME_POSITION] + frames[last + FRAME_SIZE] > length:
        raise ValueError("frames lie outside the buffer")


def choose(
    buffer: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
    kept: cython.int,
    most_bytes: cython.longlong,
    state: cython.longlong[::1],
) -> int:
    """How far intact v2 batches go, from frame ``first`` on, that hold records in another codec than ``kept``.

    ``frames`` are rows FRAME_* of ``buffer``. ``state`` (int64[2]): 0 NEXT_OFFSET (in and out) that the next one must
    not be below; 1 BYTES (out) of those found, at most ``most_bytes`` but for a single one.
    """
    if len(state) < 2:
        raise ValueError("a buffer is too short")
    check_frames(len(buffer), frames, first, stop)
    if first >= stop:
        return first
    if cython.compiled:
        return count_choices(
            cython.address(buffer[0]), cython.address(frames[0]), first, stop, kept, most_bytes,
            cython.address(state[0]),
        )  # fmt: skip
    else:
        return count_choices(buffer, frames, first, stop, kept, most_bytes, state)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def check_records(
    p: cython.pointer[cython.const[cython.uchar]],
    at: cython.Py_ssize_t,
    records: cython.pointer[cython.const[cython.uchar]],
    end: cython.Py_ssize_t,
) -> cython.bint:
    batch: cython.longlong[8]
    cursor: cython.longlong[8]
    if not cython.compiled:
        batch, cursor = [0] * 8, [0] * 8
    read_header(p, at, batch)
    if batch[0] > batch[6] + 1:
        return False
    cursor[0] = cursor[1] = cursor[2] = cursor[3] = cursor[4] = 0
    cursor[5] = -1
    cursor[6] = -1
    return pass_records(records, end, cursor, batch) == 0 and not cursor[4] & 3


def are_right(
    buffer: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, records: cython.const[cython.uchar][::1]
) -> bool:
    """Whether ``records`` are what the v2 batch header at ``at`` says, and their offsets lie in its range and rise."""
    found: cython.bint
    if at < 0 or at + 61 > len(buffer):
        raise ValueError("a buffer is too short")
    if len(records) == 0:
        return False
    if cython.compiled:
        if records.shape[0] < SHORT:
            return check_records(cython.address(buffer[0]), at, cython.address(records[0]), records.shape[0])
        with cython.nogil:
            found = check_records(cython.address(buffer[0]), at, cython.address(records[0]), records.shape[0])
        return found
    else:
        return check_records(buffer, at, records, len(records))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def write_header(
    out: cython.pointer[cython.uchar], at: cython.Py_ssize_t, end: cython.Py_ssize_t, codec: cython.int
) -> cython.void:
    k: cython.int
    value: cython.longlong = end - at - 12
    for k in range(4):
        out[at + 8 + k] = (value >> (8 * (3 - k))) & 255
    out[at + 22] = (out[at + 22] & 0xF8) | codec
    value = crc32c(0, out, at + 21, end)
    for k in range(4):
        out[at + 17 + k] = (value >> (8 * (3 - k))) & 255


def seal(out: cython.uchar[::1], at: cython.Py_ssize_t, codec: cython.int) -> None:
    """Sets length, codec and checksum of the v2 batch that begins at ``at`` and ends with ``out``."""
    if at < 0 or at + 61 > len(out):
        raise ValueError("a buffer is too short")
    if cython.compiled:
        if out.shape[0] - at < SHORT:
            write_header(cython.address(out[0]), at, out.shape[0], codec)
            return
        with cython.nogil:
            write_header(cython.address(out[0]), at, out.shape[0], codec)
    else:
        write_header(out, at, len(out), codec)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pack_frames(
    p: cython.pointer[cython.const[cython.uchar]],
    frames: cython.pointer[cython.const[cython.longlong]],
    stop: cython.Py_ssize_t,
    largest: cython.longlong,
    room: cython.pointer[cython.uchar],
    room_bytes: cython.Py_ssize_t,
    opener: cython.p_void,
    target: cython.int,
    packer: cython.p_void,
    out: cython.pointer[cython.uchar],
    capacity: cython.Py_ssize_t,
    state: cython.pointer[cython.longlong],
) -> cython.int:
    """As `repack`, or 3 where there has to be more room for records."""
    at: cython.Py_ssize_t
    held: cython.Py_ssize_t
    packed: cython.Py_ssize_t
    codec: cython.int
    records: cython.pointer[cython.const[cython.uchar]]
    if cython.compiled:
        while state[0] < stop:
            at = frames[state[0] * FRAME_WIDTH + FRAME_POSITION]
            held = frames[state[0] * FRAME_WIDTH + FRAME_SIZE] - HEADER_BYTES
            if held <= 0:
                return 2
            records = p + at + HEADER_BYTES
            codec = p[at + 22] & CODEC_BITS
            if codec:
                held = expand_area(codec, 2, records, held, room, room_bytes, opener)
                if held < 0:
                    return 3 if held == NO_ROOM else 2
                records = room
            if held == 0 or held > largest or not check_records(p, at, records, held):
                return 2
            state[2] = HEADER_BYTES + held + held // 256 + 64  # as much as libzstd or liblz4 ever asks for
            if capacity - state[1] < state[2]:
                return 1
            memcpy(out + state[1], p + at, HEADER_BYTES)
            packed = pack_area(
                target, packer, records, held, out + state[1] + HEADER_BYTES, capacity - state[1] - HEADER_BYTES
            )
            if packed < 0:
                return 2
            packed += state[1] + HEADER_BYTES
            write_header(out, state[1], packed, target)
            state[1] = packed
            state[0] += 1
    return 0


def repack(
    buffer: cython.const[cython.uchar][::1],
    frames: cython.const[cython.longlong][::1],
    largest: cython.longlong,
    room: Room,
    packer: Packer,
    out: cython.uchar[::1],
    state: cython.longlong[::1],
) -> int:
    """Writes v2 batches, with their records as the packer packs them, to ``out``: DONE, FULL or LEFT, for the caller to
    do (its records are not right, or more than ``largest`` bytes, or it is compressed in a way that only Python knows).

    ``frames`` are rows FRAME_* of ``buffer``. ``state`` (int64[3]): 0 NEXT frame (in and out), 1 BYTES in ``out`` (in
    and out), 2 NEEDED bytes of ``out`` where it is FULL. An interpreted kernel leaves all.
    """
    status: cython.int = 3
    stop: cython.Py_ssize_t = len(frames) // FRAME_WIDTH
    last: cython.Py_ssize_t = (stop - 1) * FRAME_WIDTH
    if len(state) < 3 or not 0 <= state[0] or not 0 <= state[1] <= len(out):
        raise ValueError("no such state")
    if state[0] >= stop:
        return DONE
    if frames[FRAME_POSITION] < 0 or frames[last + FRAME_POSITION] + frames[last + FRAME_SIZE] > len(buffer):
        raise ValueError("frames lie outside the buffer")
    if not cython.compiled or not packer.is_usable:
        return LEFT
    if len(out) == 0:
        state[2] = HEADER_BYTES
        return FULL
    if cython.compiled:
        while status == 3:
            with cython.nogil:
                status = pack_frames(
                    cython.address(buffer[0]), cython.address(frames[0]), stop, largest, cython.address(room.out[0]),
                    room.capacity, room.zstd, packer.codec, packer.context, cython.address(out[0]), out.shape[0],
                    cython.address(state[0]),
                )  # fmt: skip
            if status == 3 and not room.extend(buffer[frames[state[0] * FRAME_WIDTH + FRAME_POSITION] + 22] & 7):
                return LEFT
    return status
