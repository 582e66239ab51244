"""The transaction state of a cleaning, for batches in a given order."""

from kseg.cleaner.transactions import CleanedTransactions
from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import (
    BATCH_ATTRIBUTES,
    BATCH_COUNT,
    BATCH_LAST_OFFSET,
    BATCH_MARKER,
    BATCH_PRODUCER_ID,
    BATCH_WIDTH,
)
from kseg.sidefiles.indexes import AbortedTxn

ABORT, COMMIT, DATA, PLAIN, EMPTY = 0, 1, -1, -2, -3


def judged(followed: CleanedTransactions, *batches: tuple[int, int]) -> list[int]:
    """Judges batches of one offset each, from 0 on, given as (attributes, producer)."""
    rows = int64s(len(batches) * BATCH_WIDTH)
    for i, (what, producer) in enumerate(batches):
        at = i * BATCH_WIDTH
        rows[at + BATCH_LAST_OFFSET], rows[at + BATCH_PRODUCER_ID], rows[at + BATCH_COUNT] = i, producer, what != EMPTY
        rows[at + BATCH_ATTRIBUTES] = 0 if what == PLAIN else 16 if what == DATA else 48
        rows[at + BATCH_MARKER] = max(what, -1)
    return followed.discardable(rows, len(batches))


def aborted(producer: int, first: int, last: int) -> AbortedTxn:
    return AbortedTxn(0, producer, first, last, last + 1)


def test_aborted_data_is_removed_and_its_marker_stays_for_the_index() -> None:
    followed, transaction = CleanedTransactions(), aborted(7, 1, 3)
    followed.add([transaction])
    assert judged(followed, (PLAIN, -1), (DATA, 7), (DATA, 8), (ABORT, 7), (COMMIT, 8)) == [0, 1, 0, 0, 0]
    assert followed.kept == [transaction]


def test_markers_of_transactions_without_data_may_go() -> None:
    followed = CleanedTransactions()
    followed.add([aborted(7, 0, 1)])
    assert judged(followed, (PLAIN, -1), (ABORT, 7), (COMMIT, 8), (EMPTY, 9)) == [0, 1, 1, 1]
    assert followed.kept == []


def test_a_producer_can_abort_and_then_commit() -> None:
    followed = CleanedTransactions()
    followed.add([aborted(7, 0, 1)])
    assert judged(followed, (DATA, 7), (ABORT, 7), (DATA, 7), (COMMIT, 7), (COMMIT, 7)) == [1, 0, 0, 0, 1]


def test_without_transactions_nothing_is_decoded() -> None:
    assert judged(CleanedTransactions(), (PLAIN, -1), (PLAIN, 5)) == []
