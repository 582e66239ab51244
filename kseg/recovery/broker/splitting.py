"""Splits a segment whose offsets overflow the 32-bit index: 2^31 - 1 above the base offset (KAFKA-6264).

Compaction by brokers before 1.0 could create such segments. Since 2.0 a broker splits them when it starts
(LocalLog.splitOverflowedSegment): a part ends before the first batch that does not fit, and the next part begins there.
"""

from typing import NamedTuple

from kseg.formats.rows import Scratch
from kseg.formats.suffixes import INDEX_SUFFIXES, LOG
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import BATCH_LAST_OFFSET, BATCH_MAGIC, BATCH_SIZE, BATCH_WIDTH, be64
from kseg.recovery.broker.index_builder import first_offset_of
from kseg.recovery.broker.segments import BrokerSegment
from kseg.recovery.refusal import BrokerRefusesError
from kseg.segment.files import segment_stem
from kseg.segment.writer import LARGEST_DELTA

_REASON = "its offsets overflow the 32-bit index of one segment"


class _Part(NamedTuple):
    base: int
    start: int
    end: int


def split(segment: BrokerSegment, outside: int) -> list[str]:
    """Replaces the segment in the workspace by its parts, without indexes. Returns their names without suffix.

    Raises BrokerRefusesError if a broker does not split it because no offset is too high, or fails in it.
    """
    workspace, log = segment.workspace, segment.log
    parts = _parts(segment, outside)
    pieces = [workspace.slice(log, part.start, part.end - part.start) for part in parts]
    stems = [segment_stem(part.base) for part in parts]
    if len(set(stems)) < len(stems) or any(stem != segment.stem and stem + LOG in workspace for stem in stems):
        raise _refusal(segment, outside, "and a part of it would take the path of another segment")
    for suffix in INDEX_SUFFIXES:
        workspace.delete(segment.name(suffix), _REASON)
    if stems[0] != segment.stem:
        workspace.rename(log, stems[0] + LOG, _REASON)
    workspace.truncate(stems[0] + LOG, parts[0].end, _REASON)
    for stem, content in list(zip(stems, pieces, strict=True))[1:]:
        workspace.write(stem + LOG, content, _REASON)
    return stems


def _parts(segment: BrokerSegment, outside: int) -> list[_Part]:
    end = segment.log_end(is_indexed=False, by_first=False)
    if end.bad_position is not None or end.offset - 1 - segment.base_offset <= LARGEST_DELTA:
        raise _refusal(segment, outside, "and its last offset is not too high")
    scratch, position = Scratch(), 0
    parts: list[_Part] = []
    for headers in segment.claimed(0):
        for at in range(0, headers.count * BATCH_WIDTH, BATCH_WIDTH):
            last_offset, size = headers.rows[at + BATCH_LAST_OFFSET], headers.rows[at + BATCH_SIZE]
            if not parts or not 0 <= last_offset - parts[-1].base <= LARGEST_DELTA:
                base = _base_of(segment, position, size, headers.rows[at + BATCH_MAGIC], scratch)
                if not 0 <= last_offset - base <= LARGEST_DELTA or base < 0:
                    raise _refusal(segment, outside, f"and the batch at position {position} fits none")
                parts.append(_Part(base, position, position))
            position += size
            parts[-1] = parts[-1]._replace(end=position)
    if position < segment.size:
        raise _refusal(segment, outside, f"and no batch begins at position {position}, where a broker looks for one")
    return parts


def _base_of(segment: BrokerSegment, position: int, size: int, magic: int, scratch: Scratch) -> int:
    if magic >= MAGIC_V2:
        return be64(segment.read(position, 8), 0)
    path = f"{segment.workspace.directory}/{segment.log}"
    return first_offset_of(segment.read(position, size), position, magic, scratch, path)


def _refusal(segment: BrokerSegment, outside: int, why: str) -> BrokerRefusesError:
    return BrokerRefusesError(
        f"{segment.workspace.directory}/{segment.log}: holds offset {outside}, which does not fit a segment that "
        f"begins at {segment.base_offset}, {why}: a broker does not start on it; kseg recover --mode salvage"
    )
