"""Steps of a broker's load: leftovers of a crash, sanity of indexes, segments to split, leader epochs to reset."""

from collections.abc import Iterator
from typing import NamedTuple

from kseg.changes.plan import Piece
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import (
    CHECKPOINT,
    CLEANED,
    DELETED,
    INDEX,
    INDEX_SUFFIXES,
    LOG,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
)
from kseg.kernel.layout.headers import MAGIC_V2, V2_LEADER_EPOCH
from kseg.kernel.layout.rows import be64
from kseg.recovery.broker.segments import BrokerSegment, first_offset_of
from kseg.recovery.workspace import BrokerRefusesError, Workspace, leading_offset, offset_of
from kseg.releases.recovery import SWAP_LOG_RENAMED, SWAP_RECOVERED, Era
from kseg.segment.files import segment_stem
from kseg.segment.seek import OFFSET_ENTRY, TIME_ENTRY
from kseg.segment.survey import HeaderRows
from kseg.segment.times import show_time
from kseg.segment.writer import LARGEST_DELTA
from kseg.sidefiles.indexes import TransactionIndex

# Checks whether a broker's start accepts the indexes of a segment (sanityCheck of OffsetIndex, TimeIndex and
# TransactionIndex). Since 2.3 only the transaction index is checked.
#
# Since 4.4 a broker does not start on a transaction index with another version than 0: such an index is rewritten if
# its entries are right.


def index_problem(segment: BrokerSegment, era: Era) -> str | None:
    """Returns a problem of the indexes, None if there is none. The segment has an offset index.

    Raises BrokerRefusesError for a transaction index that stops a broker.
    """
    if era.checks_indexes:
        found = offset_index_problem(segment, era) or _time_index_problem(segment, era)
        if found:
            return found
    return _transaction_index_problem(segment, era) if era.has_producers else None


def offset_index_problem(segment: BrokerSegment, era: Era) -> str | None:
    """Returns a problem of the offset index, None if there is none or no such file."""
    name, workspace = segment.name(INDEX), segment.workspace
    if name not in workspace:
        return None
    size = workspace.size(name)
    last, _ = segment.last_indexed()
    if size >= OFFSET_ENTRY.size and last < segment.base_offset + era.empty_index_is_at_base:
        return f"{name}: the last entry is at offset {last}"
    return f"{name}: {size} bytes are no whole number of entries" if size % OFFSET_ENTRY.size else None


def _time_index_problem(segment: BrokerSegment, era: Era) -> str | None:
    name, workspace, width = segment.name(TIME_INDEX), segment.workspace, TIME_ENTRY.size
    if not era.has_time_index or name not in workspace:
        return None
    size = workspace.size(name)
    if size >= width:
        first, _ = TIME_ENTRY.unpack(workspace.read_range(name, 0, width))
        last, relative = TIME_ENTRY.unpack(workspace.read_range(name, (size // width - 1) * width, width))
        if last < first or relative < 0:
            return f"{name}: the last entry is of {show_time(last)}"
    return f"{name}: {size} bytes are no whole number of entries" if size % width else None


def correct_index_versions(segment: BrokerSegment) -> None:
    """Rewrites a transaction index whose entries are right but for their versions."""
    name, workspace = segment.name(TRANSACTION_INDEX), segment.workspace
    if name in workspace:
        index = TransactionIndex(workspace.read(name), segment.base_offset)
        if any(entry.version for entry in index) and (right := index.with_right_versions()) is not None:
            workspace.write(name, [right], "with version 0, the only one on which a broker starts")


def _transaction_index_problem(segment: BrokerSegment, era: Era) -> str | None:
    name, workspace = segment.name(TRANSACTION_INDEX), segment.workspace
    if name not in workspace:
        return None
    for entry in TransactionIndex(workspace.read(name), segment.base_offset):
        if entry.version_as_kafka_reads_it > 0 or (entry.version and era.refuses_index_versions):
            raise BrokerRefusesError(
                f"{workspace.directory}/{name}: has a version that stops a broker; kseg reindex rebuilds it, "
                "kseg recover --mode salvage leaves one out that is still a .swap"
            )
        if entry.last_offset < segment.base_offset:
            return f"{name}: an entry ends at offset {entry.last_offset}"
    return None


# Leftovers: the first step of a load removes or renames the files of a crash (.deleted, .cleaned, .swap), by era.
#
# A .swap is a complete new segment that replaces others, after compaction or a split (KAFKA-6264). Before 3.0 it is
# recovered when all others are loaded (`kseg.recovery.broker.loading`); since then it is only renamed.

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


# Sets the leader epochs of a planned segment to 0, so that consumer groups of a new cluster can continue.
#
# A consumer that commits an offset stores the batch's leader epoch with it, and waits as long as the leader has a
# lower one. Checksums of batches do not cover the field.

_ZERO = bytes(4)
"""The new bytes of partitionLeaderEpoch."""


def epoch_positions(headers: HeaderRows) -> Iterator[int]:
    """Yields the positions of leader epochs other than 0 in batches that have the field."""
    for magic, epoch, position in zip(headers.magics, headers.epochs, headers.positions, strict=True):
        if magic == MAGIC_V2 and epoch != 0:
            yield position + V2_LEADER_EPOCH


def reset_epochs(workspace: Workspace, segment: BrokerSegment) -> None:
    """Replaces the content of the segment's .log in the workspace."""
    pieces: list[Piece] = []
    done = 0
    for headers in segment.headers():
        for position in epoch_positions(headers):
            pieces += workspace.slice(segment.log, done, position - done)
            pieces.append(_ZERO)
            done = position + len(_ZERO)
    if pieces:
        pieces += workspace.slice(segment.log, done, segment.size - done)
        workspace.write(segment.log, pieces, "leader epochs are set to 0")


# Splits a segment whose offsets overflow the 32-bit index: 2^31 - 1 above the base offset (KAFKA-6264).
#
# Compaction by brokers before 1.0 could create such segments. Since 2.0 a broker splits them when it starts
# (LocalLog.splitOverflowedSegment): a part ends before the first batch that does not fit, and the next part begins
# there.

_REASON = "its offsets overflow the 32-bit index of one segment"


class _Part(NamedTuple):
    base: int
    start: int
    end: int


def split(segment: BrokerSegment, outside: int) -> list[str]:
    """Replaces the segment in the workspace by its parts, without indexes. Returns their names without suffix.

    Raises BrokerRefusesError if a broker does not split it because no offset is too high, or fails in it.
    """
    workspace, log = segment.workspace, segment.log
    parts = _parts(segment, outside)
    pieces = [workspace.slice(log, part.start, part.end - part.start) for part in parts]
    stems = [segment_stem(part.base) for part in parts]
    if len(set(stems)) < len(stems) or any(stem != segment.stem and stem + LOG in workspace for stem in stems):
        raise _refusal(segment, outside, "and a part of it would take the path of another segment")
    for suffix in INDEX_SUFFIXES:
        workspace.delete(segment.name(suffix), _REASON)
    if stems[0] != segment.stem:
        workspace.rename(log, stems[0] + LOG, _REASON)
    workspace.truncate(stems[0] + LOG, parts[0].end, _REASON)
    for stem, content in list(zip(stems, pieces, strict=True))[1:]:
        workspace.write(stem + LOG, content, _REASON)
    return stems


def _parts(segment: BrokerSegment, outside: int) -> list[_Part]:
    end = segment.log_end(is_indexed=False, by_first=False)
    if end.bad_position is not None or end.offset - 1 - segment.base_offset <= LARGEST_DELTA:
        raise _refusal(segment, outside, "and its last offset is not too high")
    scratch, position = Scratch(), 0
    parts: list[_Part] = []
    for headers in segment.claimed(0):
        for last_offset, size, magic in zip(headers.lasts, headers.sizes, headers.magics, strict=True):
            if not parts or not 0 <= last_offset - parts[-1].base <= LARGEST_DELTA:
                base = _base_of(segment, position, size, magic, scratch)
                if not 0 <= last_offset - base <= LARGEST_DELTA or base < 0:
                    raise _refusal(segment, outside, f"and the batch at position {position} fits none")
                parts.append(_Part(base, position, position))
            position += size
            parts[-1] = parts[-1]._replace(end=position)
    if position < segment.size:
        raise _refusal(segment, outside, f"and no batch begins at position {position}, where a broker looks for one")
    return parts


def _base_of(segment: BrokerSegment, position: int, size: int, magic: int, scratch: Scratch) -> int:
    if magic >= MAGIC_V2:
        return be64(segment.read(position, 8), 0)
    return first_offset_of(segment.read(position, size), position, magic, scratch, segment.path)


def _refusal(segment: BrokerSegment, outside: int, why: str) -> BrokerRefusesError:
    return BrokerRefusesError(
        f"{segment.path}: holds offset {outside}, which does not fit a segment that "
        f"begins at {segment.base_offset}, {why}: a broker does not start on it; kseg recover --mode salvage"
    )
