"""The offsets and leader epochs of one segment, and whether all of it is intact."""

from dataclasses import dataclass, field

from kseg.kernel.layout.rows import BATCH_LAST_OFFSET, BATCH_STATE, BATCH_WIDTH, CRC_RIGHT
from kseg.recovery.broker.epoch_cache import EpochChanges
from kseg.segment.reader import SegmentReader
from kseg.segment.survey import FULL, BatchProblem, HeaderRows, SegmentSurvey
from kseg.sidefiles.leader_epochs import EpochEntry
from kseg.stores.buffers import Buffers
from kseg.stores.source import open_source


@dataclass(slots=True)
class SegmentSpan:
    """``next_offset``: that after the last batch, -1 if there is none; ``epochs``: where each leader epoch begins."""

    next_offset: int = -1
    is_intact: bool = True
    epochs: list[EpochEntry] = field(default_factory=list)


def span_of(path: str, buffers: Buffers, level: int = FULL) -> SegmentSpan:
    """Reads a segment at a level of `kseg.segment.survey`. Raises PathError."""
    span = SegmentSpan()
    changes = EpochChanges(lambda epoch, offset: span.epochs.append(EpochEntry(epoch, offset)))
    with open_source(path) as source:
        reader = SegmentReader(source, scratch=buffers.scratch, scan_options=SegmentSurvey.scan_options(level))
        for item in SegmentSurvey(reader, level, buffers=buffers):
            if isinstance(item, HeaderRows):
                if level >= FULL:
                    states = item.rows[BATCH_STATE : item.count * BATCH_WIDTH : BATCH_WIDTH].tolist()
                    span.is_intact &= all(state & CRC_RIGHT for state in states)
                span.next_offset = item.rows[(item.count - 1) * BATCH_WIDTH + BATCH_LAST_OFFSET] + 1
                changes.add(item)
            elif not isinstance(item, BatchProblem):
                span.is_intact = False
    return span
