"""The files of a partition from which salvage takes batches, and the batches in them that it does not keep.

A `.log` under another name, such as `.log.bak`, and files that a cleaning left (`.log.swap`, `.log.cleaned`) contain
batches of the partition like any segment; so does any other file that begins with batches. Files marked `.deleted` are
ignored, because a broker removes them when it starts. Compressed files and KRaft snapshots are left unchanged.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from kseg.findings.table import DROP_UNDECODABLE, KINDS
from kseg.formats.record_batch import ABORT, COMMIT, HEADER_BYTES, KRAFT_VOTERS, LEADER_CHANGE
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import CHECKPOINT, CLEANED, DELETED, INDEX_SUFFIXES, LOG, SIDE_SUFFIXES, SWAP
from kseg.kernel.layout.headers import CONTROL, MAGIC_V2, TRANSACTIONAL
from kseg.kernel.layout.rows import CRC_RIGHT, FRAME_STATE, FRAME_WIDTH, RECORDS_RIGHT
from kseg.kernel.scan.frames import WALK_RECORDS
from kseg.recovery.broker.loading import CHECKPOINT_DELETED
from kseg.recovery.broker.producer_state import BadMarkerError, produced, read_marker
from kseg.recovery.salvage.header_repair import with_right_header, with_right_magic
from kseg.recovery.workspace import Workspace, leading_offset
from kseg.segment.batches import Batch
from kseg.segment.files import OWN_PREFIX, SIDE_NAMES, SegmentFile, segment_file, segment_stem
from kseg.segment.items import Damage, Problem
from kseg.segment.paths import first_base_offset, has_intact_batch, holds_batches
from kseg.segment.reader import open_segment
from kseg.segment.survey import BatchProblem, BatchRow, HeaderRows
from kseg.stores.archives.forms import PACKED_SUFFIXES
from kseg.stores.source import Source, open_source

# Finds intact batches that salvage does not keep: those at which a broker's loader fails, and those that the user
# drops.
#
# The loader decodes the first record of a control batch with a producer id (`read_marker`): if it is malformed, the
# broker does not start, or truncates the log. A control batch without a producer id hides its records from consumers.
# The loader also rejects a producer that writes outside of its open transaction (`transaction_conflicts`).

UNDECODABLE = frozenset(code for code, kind in KINDS.items() if kind.repair == DROP_UNDECODABLE)
"""Problems of records under a right checksum for which a batch is dropped on request."""

_KEY_SIZE_AT, _KEY_VERSION_AT, _VALUE_SIZE_AT, _VALUE_VERSION_AT = (HEADER_BYTES + i for i in (4, 5, 9, 10))
_KEY_SIZE, _VALUE_SIZE = 8, 12
"""Sizes of a marker's key and value, as zigzag varints: 4 and 6 bytes."""


@dataclass(slots=True)
class BatchFilter:
    """Decides which intact batches of one partition are not kept: those on which no broker starts; with
    ``drops_undecodable``, those with a problem in UNDECODABLE; those that contain one of ``offsets``.

    ``dropped_offsets``: the ``offsets`` found in a batch so far.
    """

    drops_undecodable: bool = False
    offsets: frozenset[int] = frozenset()
    dropped_offsets: set[int] = field(default_factory=set)

    def rejected(
        self, source: Source, headers: HeaderRows, problems: Iterable[BatchProblem], scratch: Scratch
    ) -> dict[int, Problem]:
        """Returns the batches among ``headers`` that are not kept, by row, with the reasons."""
        by_position = dict[int, Problem]()
        if self.drops_undecodable:
            for problem in problems:
                if problem.code in UNDECODABLE:
                    by_position.setdefault(problem.position, Problem(problem.code, f"{problem.message}; dropped"))
        positions = enumerate(headers.positions if by_position else ())
        found = {row: by_position[position] for row, position in positions if position in by_position}
        for row, attributes in enumerate(headers.attributes):
            if attributes & CONTROL and attributes > 0 and row not in found:
                if why := _bad_marker(source, headers[row], scratch):
                    found[row] = Problem("bad-control-record", why)
        for row, (magic, first, last) in enumerate(zip(headers.magics, headers.firsts, headers.lasts, strict=True)):
            if magic >= MAGIC_V2 and last < first:
                text = f"begins at offset {first} and ends at {last}: an index that refuses it empties the segment"
                found.setdefault(row, Problem("batch-out-of-order", text))
        for offset in self.offsets:
            for row, (first, last) in enumerate(zip(headers.firsts, headers.lasts, strict=True)):
                if first <= offset <= last and headers[row].has_right_crc:
                    found[row] = Problem("dropped-batch", f"holds offset {offset}; dropped as asked for")
                    self.dropped_offsets.add(offset)
        return {row: why for row, why in found.items() if headers[row].has_right_crc}


def _bad_marker(source: Source, row: BatchRow, scratch: Scratch) -> str:
    """Returns what is wrong with a control batch, "" for nothing."""
    if row.magic < MAGIC_V2 or row.records == 0:
        return ""
    if row.producer_id < 0:
        is_of_kraft = LEADER_CHANGE <= row.marker <= KRAFT_VOTERS
        return "" if is_of_kraft else "a control batch of no producer: consumers pass over its records"
    data = bytes(source.buffer[row.position : row.end])
    if row.marker in (ABORT, COMMIT) and row.coordinator_epoch >= 0 and len(data) > _VALUE_VERSION_AT:
        # A marker of the sizes that brokers write is right, unless a version is negative: it is not decoded.
        has_known_sizes = (data[_KEY_SIZE_AT], data[_VALUE_SIZE_AT]) == (_KEY_SIZE, _VALUE_SIZE)
        if has_known_sizes and max(data[_KEY_VERSION_AT], data[_VALUE_VERSION_AT]) < 1 << 7:
            return ""
    try:
        read_marker(data, scratch)
    except BadMarkerError as error:
        return f"a control batch that ends no transaction: {error}: a broker does not load it"
    return ""


# Finds producers that write outside of their own open transaction; a broker does not start on such a log.
#
# ProducerAppendInfo.appendDataBatch of Kafka 4.3.1 raises InvalidTxnStateException for a batch that is not
# transactional while its producer has a transaction open. A producer is either transactional or not: the producer
# snapshots say which, else the kind of batch of which it has fewer is left out; markers are transactional. For equal
# numbers the kind that is rarer in the log is left out, then the kind with fewer records.

_CODE = "transaction-state"
_LOG = -1
"""Stands for all producers, whose ids are at least 0."""


def transaction_conflicts(
    headers: Callable[[], Iterable[HeaderRows]], known: Mapping[int, bool] | None = None
) -> dict[int, Problem]:
    """Returns the batches to leave out, by first offset. Each call of ``headers`` yields all batches of the log,
    rising; ``known``: whether producers are transactional."""
    batches, records = Counter[tuple[int, bool]](), Counter[tuple[int, bool]]()
    for producer_id, attributes, _, count in chain.from_iterable(map(produced, headers())):
        is_transactional = attributes & TRANSACTIONAL > 0
        batches[producer_id, is_transactional] += 1
        batches[_LOG, is_transactional] += 1
        records[producer_id, is_transactional] += max(count, 0)

    def keeps_transactional(producer_id: int) -> bool:
        for counts, one in ((batches, producer_id), (batches, _LOG), (records, producer_id)):
            if counts[one, True] != counts[one, False]:
                return counts[one, True] > counts[one, False]
        return True

    found = dict[int, Problem]()
    open_firsts = defaultdict[int, list[int]](list)
    """The first offsets of the data batches of each producer's open transaction."""
    for producer_id, attributes, first, _ in chain.from_iterable(map(produced, headers())):
        if attributes & CONTROL:
            open_firsts[producer_id].clear()
        elif attributes & TRANSACTIONAL:
            open_firsts[producer_id].append(first)
        elif open_firsts[producer_id]:
            text = f"producer {producer_id} writes outside of its open transaction: a broker does not load it"
            if (known or {}).get(producer_id, keeps_transactional(producer_id)):
                found[first] = Problem(_CODE, text)
            else:
                found.update({first: Problem(_CODE, text) for first in open_firsts.pop(producer_id)})
    return found


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
                if state & RECORDS_RIGHT:
                    continue
                batch = reader.batch(item, i)
                if state & CRC_RIGHT:
                    is_unproven = any(problem.code == "undecodable-records" for problem in batch.check())
                else:
                    is_unproven = with_right_magic(reader.source, batch.position, batch.size) is None
                if is_unproven:
                    yield batch


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
        is_log = name.endswith(LOG) or LOG + "." in name
        if not name.endswith((DELETED, *PACKED_SUFFIXES)) and (is_log or _holds_batches(workspace, name)):
            base = leading_offset(name)
            base = base if base is not None and base >= 0 else None
            found.append(SegmentSource(name, base, name == segment_stem(base or 0) + LOG))
    return sorted(found, key=lambda source: (not source.is_named, source.base or 0, source.name))


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


def remove_leftovers(workspace: Workspace, sources: Container[str]) -> None:
    """Removes the files that a broker removes when it starts, or that keep it from starting, except those in
    ``sources``."""
    for name in workspace.names():
        if name in sources:
            continue
        if name.endswith(DELETED) and not name.endswith(CHECKPOINT_DELETED):
            workspace.delete(name, "was to be deleted")
        elif name.endswith((SWAP, CLEANED)):
            workspace.delete(name, "was left by an unfinished cleaning, and has no batches")
        elif name.endswith(INDEX_SUFFIXES):
            stem, _, rest = name.partition(".")
            is_of_broker = len(stem) == 20 and stem.isascii() and stem.isdigit() and leading_offset(name) is not None
            if not is_of_broker or "." in rest:
                workspace.delete(name, "belongs to no segment")
