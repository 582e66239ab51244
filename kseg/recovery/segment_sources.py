"""The files of a partition out of which salvage takes batches.

A `.log` under a name that no broker gives it, as `.log.bak`, and what a cleaning left (`.log.swap`, `.log.cleaned`),
hold batches of the partition like any segment. Files marked `.deleted` do not count: a broker removes them when it
starts. Packed ones stay as they are.
"""

from typing import NamedTuple

from kseg.recovery.names import leading_offset
from kseg.recovery.segments import LOG, SUFFIXES, SWAP
from kseg.recovery.workspace import Workspace
from kseg.segment.files import PACKED_SUFFIXES

CLEANED, DELETED = ".cleaned", ".deleted"
_CHECKPOINT_DELETED = ".checkpoint.deleted"


class SegmentSource(NamedTuple):
    """One file. ``base``: the offset in its name, None without one; ``is_named``: whether a broker gives such names."""

    name: str
    base: int | None
    is_named: bool


def segment_sources(workspace: Workspace) -> list[SegmentSource]:
    """Segments by base offset, then all other files that hold batches, by name."""
    found = []
    for name in workspace.names():
        if name.endswith(LOG) or (LOG + "." in name and not name.endswith((DELETED, *PACKED_SUFFIXES))):
            base = leading_offset(name)
            base = base if base is not None and base >= 0 else None
            found.append(SegmentSource(name, base, name == f"{base or 0:020d}{LOG}"))
    return sorted(found, key=lambda source: (not source.is_named, source.base or 0, source.name))


def is_of_broker(source: SegmentSource) -> bool:
    """Whether a broker reads or removes a file by such a name; others are none of its business if no batch lies in
    them."""
    return source.name.endswith((LOG, LOG + SWAP, LOG + CLEANED))


def remove_leftovers(workspace: Workspace) -> None:
    """Removes what no segment is made of and a broker removes when it starts, or does not start with."""
    for name in workspace.names():
        if name.endswith(DELETED) and not name.endswith(_CHECKPOINT_DELETED):
            workspace.delete(name, "was to be deleted")
        elif name.endswith((SWAP, CLEANED)) and not name.endswith((LOG + SWAP, LOG + CLEANED)):
            workspace.delete(name, "was left by a cleaning that did not end; no batches lie in it")
        elif name.endswith(SUFFIXES[1:]) and _stem_of(name) is None:
            workspace.delete(name, "belongs to no segment")


def _stem_of(name: str) -> str | None:
    """The name of an index without its suffix, None where no broker names one so."""
    stem = name.partition(".")[0]
    is_named = len(stem) == 20 and stem.isascii() and stem.isdigit() and leading_offset(name) is not None
    return stem if is_named and name.count(".") == 1 else None
