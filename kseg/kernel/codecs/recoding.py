"""Changes the codec of v2 batches: selects the batches, checks their records, compresses them and adapts the header."""

import cython
from cython.cimports.kseg.kernel.codecs.expand import pack_area
from cython.cimports.kseg.kernel.native.search import could_be_frame
from cython.cimports.kseg.kernel.records.cursor import (
    Area,
    FrameCursor,
    check_frames,
    extend,
    open_frame,
    rest_is_right,
    use_frames,
)

native_setup()


class BatchSelection:
    """Selects batches to recode. ``next_offset``: least base offset of the next batch; ``size``: bytes selected."""

    def __init__(self, next_offset=0):
        self.next_offset = next_offset
        self.size = 0

    def select(
        self,
        buffer: BytesIn,
        frames: Int64sIn,
        first: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
        kept: cython.int,
        max_bytes: cython.longlong,
    ) -> int:
        """Returns the end of the run of intact v2 batches from frame ``first`` on whose codec is not ``kept``.

        ``frames`` are rows FRAME_* of ``buffer``. The run has at most ``max_bytes`` bytes, or is a single batch. Raises
        ValueError if frames lie outside the buffer.
        """
        check_frames(len(buffer), frames, first, stop, FRAME_WIDTH)
        self.size = 0
        return count_selected(self, bytes_in(buffer), int64s_in(frames), first, stop, kept, max_bytes)


def count_selected(selection, p, frames, first, stop, kept, max_bytes):
    """`BatchSelection.select` for checked buffers: returns the end of the run."""
    for i in range(first, stop):
        frame = i * FRAME_WIDTH
        at = frames[frame + FRAME_POSITION]
        size = frames[frame + FRAME_SIZE]
        if frames[frame + FRAME_MAGIC] != MAGIC_V2 or not frames[frame + FRAME_STATE] & CRC_RIGHT:
            return i
        if size < V2_HEADER_BYTES or p[at + V2_FLAGS] & CONTROL or be32(p, at + V2_COUNT) <= 0:
            return i
        codec = p[at + V2_FLAGS] & CODEC
        if not could_be_frame(p, at, size, False) or codec == kept or codec > HIGHEST_CODEC:
            return i
        base = be64(p, at + V2_BASE_OFFSET)
        delta = be32(p, at + V2_LAST_OFFSET_DELTA)
        if base < selection.next_offset or delta < 0 or base >= INT64_MAX - delta:
            return i
        if selection.size and selection.size + size > max_bytes:
            return i
        selection.size += size
        selection.next_offset = base + delta + 1
    return stop


class Repacking(FrameCursor):
    """Compresses v2 batches again. Not thread-safe. Batches with more than ``largest`` bytes of records are left to the
    caller. ``unpacked``: a buffer for decompressed records.

    ``size``: bytes in the output. The caller sets it and ``frame``.
    """

    def __init__(self, unpacked, packer, largest):
        FrameCursor.__init__(self)
        self.unpacked = unpacked
        self.packer = packer
        self.largest = largest
        self.size = 0

    def repack(self, buffer: BytesIn, frames: Int64sIn, out: BytesOut) -> int:
        """Writes the batches of ``buffer`` (rows FRAME_*) from ``frame`` on to ``out``, behind ``size`` bytes.

        Returns DONE, FULL (the output has less than ``needed`` free bytes) or NOT_PLAIN. Batches that the caller must
        repack have broken or large records, or a codec that only Python decompresses. In an interpreted kernel all do.
        """
        status: cython.int = NEEDS_BUFFER
        stop: cython.Py_ssize_t = len(frames) // FRAME_WIDTH
        if not 0 <= self.size <= len(out):
            raise ValueError("no such state")
        if self.frame >= stop:
            return DONE
        use_frames(self, buffer, frames, stop, FRAME_WIDTH, self.unpacked, None)
        if not cython.compiled or not self.packer.is_usable:
            return NOT_PLAIN
        self.out, self.capacity = bytes_out(out), len(out)
        while status == NEEDS_BUFFER:
            with cython.nogil:
                status = pack_frames(self)
            if status == NEEDS_BUFFER:
                status = extend(self, self.unpacked)
        return status


def pack_frames(repacking):
    """`Repacking.repack` without the GIL; NEEDS_BUFFER: extend the expansion buffer and call again."""
    records: cython.pointer[Area] = cython.address(repacking.area)
    while repacking.frame < repacking.stop:
        status = open_frame(repacking)
        if status != DONE:
            return status
        at = repacking.frames[repacking.frame * FRAME_WIDTH + FRAME_POSITION]
        held = records.end - records.first
        if held == 0 or held > repacking.largest or not rest_is_right(records):
            return NOT_PLAIN
        # An upper bound of the compressed size for libzstd and liblz4.
        repacking.needed = V2_HEADER_BYTES + held + held // 256 + 64
        if repacking.capacity - repacking.size < repacking.needed:
            return FULL
        area = put_bytes(repacking.out, repacking.size, repacking.p, at, V2_HEADER_BYTES)
        packed = pack_area(
            repacking.packer, records.payload + records.first, held, repacking.out + area, repacking.capacity - area
        )
        if packed < 0:
            return NOT_PLAIN
        at = repacking.size
        end = area + packed
        put_big(repacking.out, at + ENTRY_SIZE, end - at - ENTRY_OVERHEAD, 4)
        repacking.out[at + V2_FLAGS] -= repacking.out[at + V2_FLAGS] & CODEC
        repacking.out[at + V2_FLAGS] |= repacking.packer.codec
        put_big(repacking.out, at + V2_CRC, crc32c(0, repacking.out, at + V2_ATTRIBUTES, end), 4)
        repacking.size = end
        repacking.frame += 1
    return DONE
