"""Lists the files of a partition from which salvage takes batches.

A `.log` under another name, such as `.log.bak`, and files that a cleaning left (`.log.swap`, `.log.cleaned`) contain
batches of the partition like any segment; so does any other file that begins with batches. Files marked `.deleted` are
ignored, because a broker removes them when it starts. Compressed files and KRaft snapshots are left unchanged.
"""

from collections.abc import Container
from typing import NamedTuple

from kseg.formats.suffixes import CHECKPOINT, CLEANED, DELETED, INDEX_SUFFIXES, LOG, SIDE_SUFFIXES, SWAP
from kseg.recovery.broker.leftovers import CHECKPOINT_DELETED
from kseg.recovery.names import leading_offset
from kseg.recovery.workspace import Workspace
from kseg.segment.file_types import first_base_offset, has_intact_batch, holds_batches
from kseg.segment.files import OWN_PREFIX, SIDE_NAMES, segment_stem
from kseg.stores.archives.forms import PACKED_SUFFIXES
from kseg.stores.source import open_source


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
