"""Keeps the results of segment scans for a load that scans a segment twice.

A broker scans a segment without an index while it loads, and once more after an unclean stop. The second scan differs
only if the producers at the segment's base do, because an earlier segment has made a new snapshot of them.
"""

from dataclasses import dataclass

from kseg.formats.suffixes import SEGMENT_SUFFIXES
from kseg.recovery.broker.producer_state import SNAPSHOT_REASON, ProducerStateManager
from kseg.recovery.broker.segments import BrokerSegment
from kseg.recovery.spill import File
from kseg.recovery.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The result of a scan that began with these ``producers`` (`ProducerStateManager.fingerprint`): the ``files`` of
    the segment afterwards, its leader ``epochs`` with their start offsets, and the snapshot at its end: offset, name
    and file."""

    producers: int
    files: tuple[File | None, ...]
    epochs: list[tuple[int, int]]
    snapshot: tuple[int, str, File] | None


class ScanCache:
    """Scans by the name of the .log."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._scans: dict[str, ScanResult] = {}

    def knows(self, segment: BrokerSegment) -> bool:
        """Whether the segment was scanned before."""
        return segment.log in self._scans

    def keep(
        self, segment: BrokerSegment, producers: int, epochs: list[tuple[int, int]], manager: ProducerStateManager
    ) -> None:
        """Stores a scan. ``producers``: `ProducerStateManager.fingerprint` at the segment's base; ``manager`` has the
        state at its end."""
        offset = manager.end_offset
        name = manager.offsets.get(offset)
        snapshot = (offset, name, self._workspace.files[name]) if name is not None else None
        self._scans[segment.log] = ScanResult(producers, self._files(segment), epochs, snapshot)

    def recall(
        self, segment: BrokerSegment, producers: int, manager: ProducerStateManager
    ) -> list[tuple[int, int]] | None:
        """Returns the epochs of a stored scan with the same input, and restores its snapshot; None if there is none."""
        scan = self._scans.get(segment.log)
        if scan is None or scan.producers != producers or scan.files != self._files(segment):
            return None
        if scan.snapshot is not None:
            offset, name, file = scan.snapshot
            self._workspace.restore(name, file, SNAPSHOT_REASON)
            manager.offsets[offset] = name
        return scan.epochs

    def _files(self, segment: BrokerSegment) -> tuple[File | None, ...]:
        return tuple(self._workspace.files.get(segment.name(kind)) for kind in SEGMENT_SUFFIXES)
