"""The first step of a load: removes or renames the files of a crash (.deleted, .cleaned, .swap), by era.

A .swap is a complete new segment that replaces others, after compaction or a split (KAFKA-6264). Before 3.0 it is
recovered when all others are loaded (`kseg.recovery.broker.loading`); since then it is only renamed.
"""

from kseg.formats.suffixes import CHECKPOINT, CLEANED, DELETED, INDEX, INDEX_SUFFIXES, LOG, SWAP
from kseg.recovery.broker.segments import BrokerSegment
from kseg.recovery.names import leading_offset, offset_of
from kseg.recovery.refusal import BrokerRefusesError
from kseg.recovery.workspace import Workspace
from kseg.releases.recovery import SWAP_LOG_RENAMED, SWAP_RECOVERED, Era

_LONG_MAX = (1 << 63) - 1
_LOG_SWAP = LOG + SWAP
CHECKPOINT_DELETED = CHECKPOINT + DELETED
"""KRaft snapshots marked as deleted (Snapshots.DELETE_SUFFIX), which a load leaves."""


def handle_leftovers(workspace: Workspace, era: Era) -> list[str]:
    """Removes and renames files as the era does. Returns the stems of .log.swap files that must be recovered or, since
    3.0, were renamed. Raises BrokerRefusesError for a name that stops a broker."""
    if not era.deletes_leftovers:
        return []
    swaps = _remove_leftovers(workspace, era)
    stems = [name.removesuffix(_LOG_SWAP) for name in swaps if name.endswith(_LOG_SWAP)]
    if era.swap_handling == SWAP_LOG_RENAMED:
        _rename_at_once(workspace, swaps)
        return []
    if era.swap_handling == SWAP_RECOVERED:
        return stems
    _rename_all(workspace, swaps, era.searches_by_first_offset)
    return stems


def _remove_leftovers(workspace: Workspace, era: Era) -> list[str]:
    """Returns the .swap files that remain."""
    swaps, cleaned = [], []
    for name in workspace.names():
        if name.endswith(DELETED) and not name.endswith(CHECKPOINT_DELETED):
            workspace.delete(name, "was to be deleted")
        elif name.endswith(CLEANED):
            cleaned.append(name)
        elif name.endswith(SWAP):
            swaps.append(name)
    if era.swap_handling == SWAP_RECOVERED:
        for name in list(swaps):
            _clear_indexes(workspace, name, era, swaps)
    if era.marks_splits:
        lowest = min((offset_of(name) for name in cleaned), default=_LONG_MAX)
        for name in list(swaps):
            if offset_of(name) >= lowest:
                swaps.remove(name)
                workspace.delete(name, "is part of a split that was not finished")
    for name in cleaned:
        workspace.delete(name, "is output of a cleaning that was not finished")
    return swaps


def _clear_indexes(workspace: Workspace, name: str, era: Era, swaps: list[str]) -> None:
    """Removes the indexes of a .swap, or those that it replaces; they are rebuilt."""
    kinds = INDEX_SUFFIXES if era.has_producers else (INDEX,)
    stem = next((name.removesuffix(kind + SWAP) for kind in kinds if name.endswith(kind + SWAP)), None)
    if stem is not None and era.deletes_index_swaps:
        swaps.remove(name)
        workspace.delete(name, "belongs to a swap whose indexes are rebuilt")
    elif stem is not None or name.endswith(_LOG_SWAP):
        for kind in kinds:
            workspace.delete((stem or name.removesuffix(_LOG_SWAP)) + kind, "is replaced by a cleaned segment")


def _rename_at_once(workspace: Workspace, swaps: list[str]) -> None:
    for name in swaps:
        target = name.removesuffix(SWAP)
        if target.endswith(INDEX):
            workspace.delete(name, "belongs to a swap whose indexes are rebuilt")
        elif target.endswith(LOG):
            workspace.delete(target.removesuffix(LOG) + INDEX, "is replaced by a cleaned segment")
            workspace.rename(name, target, "completes an interrupted swap")


def _rename_all(workspace: Workspace, swaps: list[str], by_first: bool) -> None:
    """Replaces all segments from the base of the lowest new one to the end of the highest."""
    lowest, highest = _LONG_MAX, -1
    for name in swaps:
        if name.endswith(_LOG_SWAP):
            base = offset_of(name)
            lowest = min(lowest, base)
            end = BrokerSegment(workspace, name.removesuffix(_LOG_SWAP), base, SWAP).log_end(by_first=by_first)
            if end.bad_position is not None:
                raise BrokerRefusesError(
                    f"{workspace.directory}/{name}: no batch begins at position {end.bad_position}: a broker does not "
                    "start on it; kseg recover --mode salvage"
                )
            highest = max(highest, end.offset)
    for name in workspace.names():
        if not name.endswith(SWAP) and (offset := leading_offset(name)) is not None and lowest <= offset < highest:
            workspace.delete(name, "is replaced by a cleaned segment")
    for name in swaps:
        workspace.rename(name, name.removesuffix(SWAP), "completes an interrupted swap")
