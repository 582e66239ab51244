"""Reads the message sets inside captured answers to a fetch (`kseg.formats.fetch_response`) as segments are read."""

from collections.abc import Iterator

from kseg.formats.fetch_response import MessageSet, parse
from kseg.formats.rows import Scratch
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.segment.source import Source


def message_sets(source: Source, scratch: Scratch) -> Iterator[tuple[MessageSet, SegmentReader] | Damage]:
    """Each message set of a capture with a reader of it, and damage where bytes are none.

    Positions count from the start of the file. Offsets of 0.7, which are positions in a log, count from the start of
    the set: a capture does not say where in the log that was. A last message that the broker cut is no damage; it is
    if bytes of the capture itself are missing.
    """
    for part in parse(source.buffer, source.size):
        if not isinstance(part, MessageSet):
            code = "nonsense-block" if part.end > part.start else "truncated-batch"
            yield Damage(code, part.start, part.end - part.start, part.reason)
            continue
        reader = SegmentReader(source, part.era_07, -part.start, max_bytes=part.end, scratch=scratch)
        reader.begin_at(part.start)
        reader.is_cut = part.missing == 0
        yield part, reader
