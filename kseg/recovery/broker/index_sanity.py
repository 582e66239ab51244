"""Checks whether a broker's start accepts the indexes of a segment (sanityCheck of OffsetIndex, TimeIndex and
TransactionIndex). Since 2.3 only the transaction index is checked.

Since 4.4 a broker does not start on a transaction index with another version than 0: such an index is rewritten if its
entries are right."""

from kseg.formats.suffixes import INDEX, TIME_INDEX, TRANSACTION_INDEX
from kseg.recovery.broker.segments import BrokerSegment
from kseg.recovery.refusal import BrokerRefusesError
from kseg.releases.recovery import Era
from kseg.segment.indexes import OFFSET_ENTRY, TIME_ENTRY
from kseg.segment.times import show_time
from kseg.sidefiles.transaction_index import TransactionIndex


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


def _transaction_index_problem(segment: BrokerSegment, era: Era) -> str | None:
    name, workspace = segment.name(TRANSACTION_INDEX), segment.workspace
    if name not in workspace:
        return None
    index = TransactionIndex(workspace.read(name), segment.base_offset)
    if era.refuses_index_versions and any(entry.version for entry in index):
        right = index.with_right_versions()
        if right is not None:
            workspace.write(name, [right], "with version 0, the only one on which a broker starts")
            index = TransactionIndex(right, segment.base_offset)
    for entry in index:
        if entry.version_as_kafka_reads_it > 0 or (entry.version and era.refuses_index_versions):
            raise BrokerRefusesError(
                f"{workspace.directory}/{name}: has a version that stops a broker; kseg reindex rebuilds it, "
                "kseg recover --mode salvage leaves one out that is still a .swap"
            )
        if entry.last_offset < segment.base_offset:
            return f"{name}: an entry ends at offset {entry.last_offset}"
    return None
