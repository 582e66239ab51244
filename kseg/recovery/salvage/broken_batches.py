"""Finds batches whose records are unproven: their checksum is wrong, or their records cannot be decoded.

Salvage removes those with a wrong checksum, and the others on request. Single records in them may still be decodable:
they are printed, and never written to a log.
"""

from collections.abc import Iterator

from kseg.formats.rows import Scratch
from kseg.kernel.layout.rows import CRC_RIGHT, FRAME_POSITION, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH, RECORDS_RIGHT
from kseg.kernel.scan.frame_scan import WALK_RECORDS
from kseg.recovery.salvage.header_repair import with_right_header, with_right_magic
from kseg.recovery.salvage.segment_sources import segment_sources
from kseg.recovery.workspace import Workspace
from kseg.segment.batches import Batch
from kseg.segment.files import SegmentFile, segment_file
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader
from kseg.stores.source import Source, open_source


def files_of(directory: str) -> list[SegmentFile]:
    """Returns the files of a partition directory from which salvage takes batches. Raises PathError."""
    workspace = Workspace(directory)
    return [segment_file(workspace.path(source.name)) for source in segment_sources(workspace)]


def broken_batches(file: SegmentFile, scratch: Scratch) -> Iterator[Batch]:
    """Yields the batches of a file with unproven records, except those whose header can be repaired.

    Includes batches that are truncated or have a wrong length. Raises PathError if the file cannot be read.
    """
    with open_source(file.path) as source:
        reader = SegmentReader(source, False, file.base_offset or 0, scratch=scratch, scan_options=WALK_RECORDS)
        for item in reader.runs():
            if isinstance(item, Damage):
                batch = reader.broken_batch(item)
                if batch is not None and with_right_header(source, item) is None:
                    yield batch
                continue
            states = item.rows[FRAME_STATE : item.count * FRAME_WIDTH : FRAME_WIDTH].tolist()
            for i, state in enumerate(states):
                if not state & RECORDS_RIGHT and (batch := _unproven(source, reader, item, i)) is not None:
                    yield batch


def _unproven(source: Source, reader: SegmentReader, run: Run, i: int) -> Batch | None:
    """Returns frame i if its records are unproven."""
    at = i * FRAME_WIDTH
    batch = reader.batch(run, i)
    if run.rows[at + FRAME_STATE] & CRC_RIGHT:
        return batch if any(problem.code == "undecodable-records" for problem in batch.check()) else None
    repaired = with_right_magic(source, run.rows[at + FRAME_POSITION], run.rows[at + FRAME_SIZE])
    return batch if repaired is None else None
