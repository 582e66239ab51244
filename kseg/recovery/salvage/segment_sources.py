"""Lists the files of a partition from which salvage takes batches, and the batches in them whose records are unproven.

A `.log` under another name, such as `.log.bak`, and files that a cleaning left (`.log.swap`, `.log.cleaned`) contain
batches of the partition like any segment; so does any other file that begins with batches. Files marked `.deleted` are
ignored, because a broker removes them when it starts. Compressed files and KRaft snapshots are left unchanged.
"""

from collections.abc import Container, Iterator
from typing import NamedTuple

from kseg.formats.rows import Scratch
from kseg.formats.suffixes import CHECKPOINT, CLEANED, DELETED, INDEX_SUFFIXES, LOG, SIDE_SUFFIXES, SWAP
from kseg.kernel.layout.rows import CRC_RIGHT, FRAME_POSITION, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH, RECORDS_RIGHT
from kseg.kernel.scan.frame_scan import WALK_RECORDS
from kseg.recovery.broker.load_steps import CHECKPOINT_DELETED
from kseg.recovery.salvage.header_repair import with_right_header, with_right_magic
from kseg.recovery.workspace import Workspace, leading_offset
from kseg.segment.batches import Batch
from kseg.segment.file_types import first_base_offset, has_intact_batch, holds_batches
from kseg.segment.files import OWN_PREFIX, SIDE_NAMES, SegmentFile, segment_file, segment_stem
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.stores.archives.forms import PACKED_SUFFIXES
from kseg.stores.source import open_source

# Finds batches whose records are unproven: their checksum is wrong, or their records cannot be decoded.
#
# Salvage removes those with a wrong checksum, and the others on request. Single records in them may still be
# decodable: they are printed, and never written to a log.


def files_of(directory: str) -> list[SegmentFile]:
    """Returns the files of a partition directory from which salvage takes batches. Raises PathError."""
    workspace = Workspace(directory)
    return [segment_file(workspace.path(source.name)) for source in segment_sources(workspace)]


def broken_batches(file: SegmentFile, scratch: Scratch) -> Iterator[Batch]:
    """Yields the batches of a file with unproven records, except those whose header can be repaired.

    Includes batches that are truncated or have a wrong length. Raises PathError if the file cannot be read.
    """
    with open_segment(file, scratch, scan_options=WALK_RECORDS) as reader:
        for item in reader.runs():
            if isinstance(item, Damage):
                batch = reader.broken_batch(item)
                if batch is not None and with_right_header(reader.source, item) is None:
                    yield batch
                continue
            states = item.rows[FRAME_STATE : item.count * FRAME_WIDTH : FRAME_WIDTH].tolist()
            for i, state in enumerate(states):
                if not state & RECORDS_RIGHT and (batch := _unproven(reader, item, i)) is not None:
                    yield batch


def _unproven(reader: SegmentReader, run: Run, i: int) -> Batch | None:
    """Returns frame i if its records are unproven."""
    at = i * FRAME_WIDTH
    batch = reader.batch(run, i)
    if run.rows[at + FRAME_STATE] & CRC_RIGHT:
        return batch if any(problem.code == "undecodable-records" for problem in batch.check()) else None
    repaired = with_right_magic(reader.source, run.rows[at + FRAME_POSITION], run.rows[at + FRAME_SIZE])
    return batch if repaired is None else None


class SegmentSource(NamedTuple):
    """One file. ``base``: the offset in its name, None if there is none; ``is_named``: whether brokers use such
    names."""

    name: str
    base: int | None
    is_named: bool


def segment_sources(workspace: Workspace) -> list[SegmentSource]:
    """Returns the segments by base offset, then all other files with batches by name. Raises PathError if a file cannot
    be opened."""
    found = []
    for name in workspace.names():
        if not name.endswith((DELETED, *PACKED_SUFFIXES)) and (_is_log(name) or _holds_batches(workspace, name)):
            base = leading_offset(name)
            base = base if base is not None and base >= 0 else None
            found.append(SegmentSource(name, base, name == segment_stem(base or 0) + LOG))
    return sorted(found, key=lambda source: (not source.is_named, source.base or 0, source.name))


def _is_log(name: str) -> bool:
    return name.endswith(LOG) or LOG + "." in name


def _holds_batches(workspace: Workspace, name: str) -> bool:
    """Whether a file with another name has an intact batch near its start; a side file must begin with a batch, too.

    The entries of an index can resemble the header of a batch, but not one whose checksum is right.
    """
    if name in SIDE_NAMES or name.startswith(OWN_PREFIX) or CHECKPOINT in name:
        return False
    with open_source(workspace.path(name)) as source:
        if name.endswith(SIDE_SUFFIXES):
            return first_base_offset(source) is not None and has_intact_batch(source)
        return holds_batches(source, "")


def is_of_broker(source: SegmentSource) -> bool:
    """Whether a broker reads or removes files with such a name."""
    return source.name.endswith((LOG, SWAP, CLEANED, *SIDE_SUFFIXES))


def remove_broker_leftovers(workspace: Workspace, sources: Container[str]) -> None:
    """Removes the files that a broker removes when it starts, or that keep it from starting, except those in
    ``sources``."""
    for name in workspace.names():
        if name in sources:
            continue
        if name.endswith(DELETED) and not name.endswith(CHECKPOINT_DELETED):
            workspace.delete(name, "was to be deleted")
        elif name.endswith((SWAP, CLEANED)):
            workspace.delete(name, "was left by an unfinished cleaning, and has no batches")
        elif name.endswith(INDEX_SUFFIXES) and _stem_of(name) is None:
            workspace.delete(name, "belongs to no segment")


def _stem_of(name: str) -> str | None:
    """Returns the name of an index without its suffix, None if brokers use no such name."""
    stem = name.partition(".")[0]
    is_named = len(stem) == 20 and stem.isascii() and stem.isdigit() and leading_offset(name) is not None
    return stem if is_named and name.count(".") == 1 else None
