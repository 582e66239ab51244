"""Finds batches with a wrong checksum. Salvage removes them, but single records in them may still be decodable.

Such records are unproven: they are printed, and never written to a log.
"""

from collections.abc import Iterator

from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import Scratch
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2
from kseg.kernel.layout.rows import CRC_RIGHT, FRAME_POSITION, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH
from kseg.recovery.salvage.header_repair import with_right_header, with_right_magic
from kseg.recovery.salvage.segment_sources import segment_sources
from kseg.recovery.workspace import Workspace
from kseg.segment.batches import Batch, RecordBatch
from kseg.segment.files import SegmentFile, segment_file
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.stores.source import Source, open_source

_BROKEN_FRAMES = ("truncated-batch", "bad-length")


def files_of(directory: str) -> list[SegmentFile]:
    """Returns the files of a partition directory from which salvage takes batches. Raises PathError."""
    workspace = Workspace(directory)
    return [segment_file(workspace.path(source.name)) for source in segment_sources(workspace)]


def broken_batches(file: SegmentFile, scratch: Scratch) -> Iterator[Batch]:
    """Yields the batches of a file with a wrong checksum, except those whose header can be repaired.

    Includes v2 batches that are truncated or have a wrong length. Raises PathError if the file cannot be read.
    """
    with open_source(file.path) as source:
        reader = SegmentReader(source, False, file.base_offset or 0, scratch=scratch)
        for item in reader.runs():
            if isinstance(item, Damage):
                yield from _cut_short(source, item, scratch)
                continue
            for i in _wrong(item):
                at = i * FRAME_WIDTH
                if with_right_magic(source, item.rows[at + FRAME_POSITION], item.rows[at + FRAME_SIZE]) is None:
                    yield reader.batch(item, i)


def _wrong(run: Run) -> list[int]:
    states = run.rows[FRAME_STATE : run.count * FRAME_WIDTH : FRAME_WIDTH].tolist()
    return [i for i, state in enumerate(states) if not state & CRC_RIGHT]


def _cut_short(source: Source, damage: Damage, scratch: Scratch) -> Iterator[Batch]:
    if damage.code not in _BROKEN_FRAMES or damage.length < HEADER_BYTES:
        return
    if with_right_header(source, damage) is None:
        data = bytes(source.buffer[damage.position : damage.end])
        if data[ENTRY_MAGIC] == MAGIC_V2:
            yield RecordBatch(data, damage.position, len(data), MAGIC_V2, False, scratch)
