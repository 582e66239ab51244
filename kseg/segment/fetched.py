"""Reads the message sets in captured fetch responses (`kseg.formats.fetch_response`) like segments."""

from collections.abc import Iterator

from kseg.formats.fetch_response import MessageSet, parse
from kseg.formats.rows import Scratch
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.stores.source import Source


def message_sets(source: Source, scratch: Scratch) -> Iterator[tuple[MessageSet, SegmentReader] | Damage]:
    """Yields each message set of a capture with a reader for it, and damage for all other bytes.

    Positions are relative to the file. 0.7 offsets, which are positions in a log, are relative to the set: a capture
    does not contain its position in the log. A last message truncated by the broker is not damage; bytes missing at the
    end of the capture are.
    """
    for part in parse(source.buffer, source.size):
        if not isinstance(part, MessageSet):
            code = "nonsense-block" if part.end > part.start else "truncated-batch"
            yield Damage(code, part.start, part.end - part.start, part.reason)
            continue
        reader = SegmentReader(source, part.is_07, -part.start, max_bytes=part.end, scratch=scratch)
        reader.begin_at(part.start)
        reader.is_cut = part.missing == 0
        yield part, reader
