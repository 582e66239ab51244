"""Side files of new segments: transaction indexes, producer snapshots, leader epochs.

They are unchanged if every batch stays in a segment with the same base offset; except snapshots, if records are
regrouped. Otherwise they are built from the batches, as a broker does when it appends and rolls.
"""

from collections.abc import Iterator

from kseg.formats.suffixes import LOG, SNAPSHOT, TRANSACTION_INDEX
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import BATCH_FIRST_OFFSET, BATCH_LEADER_EPOCH, BATCH_MAGIC, BATCH_PRODUCER_ID, BATCH_WIDTH
from kseg.segment.files import segment_stem
from kseg.segment.writer import WrittenSegment, batch_rows
from kseg.sidefiles.leader_epochs import LEADER_EPOCHS, EpochEntry, build_leader_epochs
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import (
    ProducerStateEntry,
    ProducerStates,
    build_producer_snapshot,
    order_as_broker,
    read_producer_snapshot,
)
from kseg.sidefiles.transaction_index import build_transaction_index
from kseg.stores import trees
from kseg.stores.source import open_source

"""Suffixes of files that are rebuilt with the segments."""

_CARRIED = (TRANSACTION_INDEX, SNAPSHOT)


def carried_files(directory: str) -> list[str]:
    """Returns the names of files that stay unchanged if the segments keep their offsets."""
    return [name for name in sorted(trees.listdir(directory)) if name.endswith(_CARRIED)]


def make_side_files(segments: list[WrittenSegment], seed: bytes | None) -> Iterator[tuple[str, bytes]]:
    """Yields names and contents of side files of the written segments. ``seed``: the producer snapshot at the first
    one.
    """
    states, epochs, last = ProducerStates(_entries(seed)), [], -1
    has_producers = len(states) > 0
    for number, segment in enumerate(segments):
        if number and has_producers:
            yield segment.name(SNAPSHOT), _snapshot(states)
        states.begin()
        aborted = []
        with open_source(segment.paths[LOG]) as source:
            for rows, count in batch_rows(source.buffer, 0):
                columns = count * BATCH_WIDTH
                has_producers |= max(rows[BATCH_PRODUCER_ID:columns:BATCH_WIDTH].tolist()) >= 0
                if has_producers:
                    aborted += [abort.entry for abort in states.replay(rows, count)[2] if abort.entry is not None]
                for at in range(0, columns, BATCH_WIDTH):
                    if rows[at + BATCH_MAGIC] == MAGIC_V2 and rows[at + BATCH_LEADER_EPOCH] > last:
                        last = rows[at + BATCH_LEADER_EPOCH]
                        epochs.append(EpochEntry(last, rows[at + BATCH_FIRST_OFFSET]))
        if aborted:
            yield segment.name(TRANSACTION_INDEX), build_transaction_index(aborted)
    # An empty last segment ends at its base offset, where a snapshot was taken.
    is_made = len(segments) > 1 and segments[-1].next_offset == segments[-1].base_offset
    if has_producers and not is_made:
        yield segment_stem(segments[-1].next_offset) + SNAPSHOT, _snapshot(states)
    yield LEADER_EPOCHS, build_leader_epochs(epochs)


def _entries(seed: bytes | None) -> list[ProducerStateEntry]:
    if seed is None:
        return []
    items = list(read_producer_snapshot(seed))
    return [] if problems_of(items) else entries_of(items)


def _snapshot(states: ProducerStates) -> bytes:
    return build_producer_snapshot(order_as_broker(states.entries()))
