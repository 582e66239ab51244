"""v2 batches of which nothing but the codec changes: the header stays, and what was compressed is compressed anew."""

import threading
from typing import Any, NamedTuple

from kseg.formats.areas import build_batch
from kseg.formats.compressing import Target, compress_many, compressor, is_worth_many
from kseg.formats.libzstd import room
from kseg.formats.record_batch import HEADER_BYTES, RecordBatchHeader, open_records, parse_header, survey_records
from kseg.formats.rows import UndecodableError
from kseg.kernel.expand import Room
from kseg.kernel.native import FRAME_POSITION, FRAME_SIZE, FRAME_WIDTH
from kseg.kernel.recoding import are_right, seal
from kseg.segment.items import Damage, Problem

_of_thread = threading.local()


Recoded = list["bytearray | Refusal"]
"""Whole batches end to end, and between them what is left out."""


class Refused(Exception):
    """A batch that is not as it should be; ``problem`` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Place(NamedTuple):
    """Where a batch lies in its file, and its offsets as far as they are known."""

    position: int
    size: int
    first_offset: int | None = None
    last_offset: int | None = None


class Refusal(NamedTuple):
    """A batch that is left out, and the offsets that go with it."""

    damage: Damage
    gaps: list[tuple[int, int]]


def refused_at(place: Place, refused: Refused) -> Refusal:
    """The batch at a place, and why it is left out."""
    damage = Damage(refused.problem.code, place.position, place.size, refused.problem.message)
    is_known = place.first_offset is not None and place.last_offset is not None
    return Refusal(damage, [(place.first_offset or 0, place.last_offset or 0)] if is_known else [])


def recode(buffer: Any, frames: list[int], origin: int, target: Target, max_bytes: int) -> Recoded:
    """The batches at frames of the buffer (rows FRAME_* end to end) in another codec; may run on any thread.

    ``origin``: where the buffer lies in the file. What is not right is told in its place.
    """
    out, found = bytearray(), Recoded()
    expand, codec = _room(max_bytes).expand, target.codec
    compress = compressor(target) if codec else None
    ahead = _compressed_ahead(buffer, frames, target) if is_worth_many(target, len(frames) // FRAME_WIDTH) else {}
    for frame in range(0, len(frames), FRAME_WIDTH):
        position = frames[frame + FRAME_POSITION]
        end = position + frames[frame + FRAME_SIZE]
        records = buffer[position + HEADER_BYTES : end]
        old = buffer[position + 22] & 7
        if old:
            records = expand(old, 2, records)
        if records is None or len(records) > max_bytes or not are_right(buffer, position, records):
            try:
                header = parse_header(buffer, position)
                out += build_batch(header, opened(buffer[position:end], header, max_bytes), target)
            except Refused as refused:
                found += [out, refused_at(_place(buffer, position, end, origin), refused)]
                out = bytearray()
            continue
        at = len(out)
        out += buffer[position : position + HEADER_BYTES]
        out += records if compress is None else ahead.get(position) or compress(records)
        seal(out, at, codec)
    return [*found, out]


def _compressed_ahead(buffer: Any, frames: list[int], target: Target) -> dict[int, Any]:
    """Compressed records by the positions of their batches: of plain batches, where there are many."""
    areas = {}
    for frame in range(0, len(frames), FRAME_WIDTH):
        position = frames[frame + FRAME_POSITION]
        area = buffer[position + HEADER_BYTES : position + frames[frame + FRAME_SIZE]]
        if len(area) and not buffer[position + 22] & 7:
            areas[position] = area
    found = compress_many(target, list(areas.values()))
    return {} if found is None else dict(zip(areas, found, strict=True))


def _place(buffer: Any, position: int, end: int, origin: int) -> Place:
    header = parse_header(buffer, position)
    return Place(origin + position, end - position, header.base_offset, header.last_offset)


def _room(max_bytes: int) -> Room:
    kept = getattr(_of_thread, "room", None)
    if kept is None or kept[0] != max_bytes:
        kept = _of_thread.room = (max_bytes, room(max_bytes))
    found: Room = kept[1]
    return found


def opened(data: Any, header: RecordBatchHeader, max_bytes: int) -> Any:
    """The records of a batch as bytes, valid until the thread opens another one. Raises Refused."""
    try:
        payload, start = open_records(data, header, max_bytes, _room(max_bytes))
    except UndecodableError as error:
        raise Refused(Problem(error.problem, str(error))) from error
    if problems := survey_records(payload, start, header)[0]:
        raise Refused(Problem(*problems[0]))
    return memoryview(payload)[start:]


def checked(data: Any, header: RecordBatchHeader, max_bytes: int) -> bytes:
    """The batch itself, whose records are right. Raises Refused."""
    opened(data, header, max_bytes)
    return bytes(data)


def recompressed(data: Any, header: RecordBatchHeader, target: Target, max_bytes: int) -> bytes:
    """The batch with another codec. Raises Refused."""
    return build_batch(header, opened(data, header, max_bytes), target)
