"""Recompresses v2 batches, and reads uniform uncompressed batches many at a time.

All header fields except codec, size and CRC stay the same. In formats before v2 each uncompressed message is a batch,
and one Python call for each would take a hundred times as long as processing its bytes.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kseg.errors import DamageError
from kseg.formats.areas import build_batch
from kseg.formats.codec_libraries import expansion_buffer
from kseg.formats.compressing import Target, packer
from kseg.formats.record_batch import RecordBatchHeader, open_records, parse_header, survey_records
from kseg.formats.rows import ALL, BytesLike, Rows, Scratch, Sliceable, UndecodableError, int64s
from kseg.kernel.codecs.expand import ExpansionBuffer
from kseg.kernel.codecs.recoding import Repacking
from kseg.kernel.files.system import lengthen
from kseg.kernel.layout.headers import APPEND_TIME
from kseg.kernel.layout.rows import FRAME_POSITION, FRAME_SIZE, FRAME_WIDTH, FULL, HEADER_WIDTH, MORE_HEADERS
from kseg.kernel.records.columns import Collector
from kseg.limits import MAX_HEADERS
from kseg.segment.items import Damage, Problem


class UniformRows(NamedTuple):
    """Uncompressed batches of one ``magic``: their ``frames`` (rows FRAME_*) and records.

    ``append_time`` in ms, None for CreateTime.
    """

    frames: memoryview
    rows: Rows
    magic: int
    append_time: int | None

    @property
    def data(self) -> Any:
        """All their bytes."""
        last = len(self.frames) - FRAME_WIDTH
        return self.rows.payload[self.frames[FRAME_POSITION] : self.frames[last] + self.frames[last + FRAME_SIZE]]


def uniform_rows(
    collector: Collector, buffer: Sliceable, frames: memoryview, stop: int, scratch: Scratch
) -> Iterator[UniformRows]:
    """Yields the records of the next uniform frames up to ``stop``. The collector is then at the frame behind them.

    Raises DamageError if the bytes have changed since they were checked.
    """
    max_headers = MAX_HEADERS * HEADER_WIDTH
    while True:
        first = collector.frame
        status = collector.collect(buffer, frames, stop, ALL, scratch.rows, scratch.headers)
        if collector.row_count:
            read = frames[first * FRAME_WIDTH : collector.frame * FRAME_WIDTH]
            rows = Rows(buffer, scratch.rows, scratch.headers, collector.row_count)
            yield UniformRows(read, rows, collector.magic, collector.time if collector.kind == APPEND_TIME else None)
            collector.row_count = collector.header_count = 0
        elif status == MORE_HEADERS and len(scratch.headers) < max_headers:
            scratch.headers = int64s(max_headers)
        elif collector.is_open:
            raise DamageError("a batch changed while it was read; nothing was written")
        else:
            return


_of_thread = threading.local()

_TRIED_BYTES = 64 << 10
"""Output space that the kernel gets at first. If it skips many batches, larger buffers would be moved each time."""

Recoded = list[Any]
"""Complete batches end to end (bytearray), and between them the omitted batches (Refusal)."""


class Refused(Exception):
    """An invalid batch; ``problem`` is the reason."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class BatchLocation(NamedTuple):
    """Position of a batch in its file, and its offsets if known."""

    position: int
    size: int
    first_offset: int | None = None
    last_offset: int | None = None


class Refusal(NamedTuple):
    """An omitted batch, and its offsets."""

    damage: Damage
    gaps: list[tuple[int, int]]


def refused_at(location: BatchLocation, refused: Refused) -> Refusal:
    """Returns the refusal of the batch at a location."""
    damage = Damage(refused.problem.code, location.position, location.size, refused.problem.message)
    is_known = location.first_offset is not None and location.last_offset is not None
    return Refusal(damage, [(location.first_offset or 0, location.last_offset or 0)] if is_known else [])


def recode(buffer: Sliceable, frames: memoryview, origin: int, target: Target, max_bytes: int) -> Recoded:
    """Recompresses the batches at frames of the buffer (rows FRAME_*); may run on any thread.

    ``origin``: position of the buffer in the file. Invalid batches are reported in their location.
    """
    found: Recoded = [bytearray()]
    count, frame = len(frames) // FRAME_WIDTH, 0
    packing: _Packing = _kept(("packing", target, max_bytes), lambda: _Packing(target, max_bytes))
    while frame < count:
        frame = packing.recode(buffer, frames, frame, found[-1])
        if frame < count:
            position, size = (frames[frame * FRAME_WIDTH + column] for column in (FRAME_POSITION, FRAME_SIZE))
            header = parse_header(buffer, position)
            try:
                found[-1] += recompressed(buffer[position : position + size], header, target, max_bytes)
            except Refused as refused:
                location = BatchLocation(origin + position, size, header.base_offset, header.last_offset)
                found += [refused_at(location, refused), bytearray()]
        frame += 1
    return found


class _Packing:
    """State of one thread for recompressing batches in the kernel."""

    def __init__(self, target: Target, max_bytes: int) -> None:
        found = packer(target)
        self._repacking = None if found is None else Repacking(_expansion(max_bytes), found, max_bytes)

    def recode(self, buffer: Sliceable, frames: memoryview, first: int, out: bytearray) -> int:
        """Appends the batches from frame ``first`` on to ``out``. Returns the first frame that the kernel skips."""
        repacking, status = self._repacking, FULL
        if repacking is None:
            return first
        repacking.frame, repacking.size = first, len(out)
        lengthen(out, min(_expected(frames, first), _TRIED_BYTES))
        while status == FULL:
            status = repacking.repack(buffer, frames, out)
            if status == FULL:
                lengthen(out, repacking.needed + _expected(frames, repacking.frame))
        del out[repacking.size :]
        return int(repacking.frame)


def _expected(frames: memoryview, first: int) -> int:
    """Returns the expected output size of the frames from ``first`` on, if the codec does not shrink them."""
    last = len(frames) - FRAME_WIDTH
    size = frames[last + FRAME_POSITION] + frames[last + FRAME_SIZE] - frames[first * FRAME_WIDTH + FRAME_POSITION]
    return size + size // 64


def _expansion(max_bytes: int) -> ExpansionBuffer:
    found: ExpansionBuffer = _kept(("expansion", max_bytes), lambda: expansion_buffer(max_bytes))
    return found


def _kept(name: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """Returns this thread's object of that name; only the object with the latest parameters is cached."""
    kept: dict[str, tuple[Any, Any]] = _of_thread.__dict__
    if name[0] not in kept or kept[name[0]][0] != name:
        kept[name[0]] = (name, make())
    return kept[name[0]][1]


def opened(data: BytesLike, header: RecordBatchHeader, max_bytes: int) -> BytesLike:
    """Returns the records of a batch as bytes, valid until the thread's next call. Raises Refused."""
    try:
        payload, start = open_records(data, header, max_bytes, _expansion(max_bytes))
    except UndecodableError as error:
        raise Refused(Problem(error.problem, str(error))) from error
    if problems := survey_records(payload, start, header)[0]:
        raise Refused(Problem(*problems[0]))
    return memoryview(payload)[start:]


def checked(data: BytesLike, header: RecordBatchHeader, max_bytes: int) -> bytes:
    """Returns the batch unchanged after checking its records. Raises Refused."""
    opened(data, header, max_bytes)
    return bytes(data)


def recompressed(data: BytesLike, header: RecordBatchHeader, target: Target, max_bytes: int) -> bytes:
    """Returns the batch with another codec. Raises Refused."""
    return build_batch(header, opened(data, header, max_bytes), target)
