"""Judges the open transactions of a partition by the coordinator's records: open, hanging or ending.

Source: KIP-664 (hanging transactions), TransactionState of Kafka 4.3.1.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kseg.limits import TRANSACTION_LIMIT_MS
from kseg.logdir.transactional_ids import TransactionState
from kseg.segment.open_transactions import LastMarker, OpenTransaction, OpenTransactions

OPEN, HANGING, ENDING = "open", "hanging", "ending"
_ENDING_STATES = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_ONGOING = "Ongoing"
_ABORT_DELAY_MS = 10_000
"""Default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""


class Prepared(NamedTuple):
    """A transaction that the coordinator does not complete although its marker is in the partition.

    ``age_ms``: since its state changed last, None if unknown.
    """

    producer_id: int
    state: TransactionState
    marker: LastMarker
    age_ms: int | None


class Judged(NamedTuple):
    """``verdict`` is OPEN, HANGING or ENDING. ``state`` is None if no __transaction_state names the producer."""

    transaction: OpenTransaction
    state: TransactionState | None
    age_ms: int | None
    verdict: str


def judge(
    transaction: OpenTransaction,
    states: Mapping[int, TransactionState],
    partition: tuple[str | None, int | None],
    now_ms: int | None,
) -> Judged:
    """Judges one open transaction of a partition, given by topic and number. ``now_ms``: a time at which the
    coordinator was running, in ms since the epoch; None if unknown."""
    state, age_ms = states.get(transaction.producer_id), transaction.age_ms(now_ms)
    verdict = verdict_of(transaction.producer_epoch, state, partition, age_ms)
    return Judged(transaction, state, age_ms, HANGING if _is_overdue(state, age_ms) else verdict)


def verdict_of(
    producer_epoch: int, state: TransactionState | None, partition: tuple[str | None, int | None], age_ms: int | None
) -> str:
    """Returns OPEN, HANGING or ENDING; ``state``: the coordinator's record of the producer."""
    if state is None or state.state is None:
        # The record may be on another broker. Then only the age counts: brokers allow no longer timeout by default.
        return HANGING if age_ms is not None and age_ms > TRANSACTION_LIMIT_MS else OPEN
    if state.state in _ENDING_STATES:
        return ENDING
    return OPEN if _is_known(producer_epoch, state, partition) else HANGING


def _is_overdue(state: TransactionState | None, age_ms: int | None) -> bool:
    """Whether the coordinator should have aborted a transaction: it is older than its timeout."""
    timeout_ms = state.timeout_ms if state is not None and state.state == _ONGOING else None
    return timeout_ms is not None and age_ms is not None and age_ms > timeout_ms + _ABORT_DELAY_MS


def why_hanging(state: TransactionState | None, age_ms: int | None = None) -> str:
    """Returns the reason for the verdict HANGING."""
    if state is None or state.state is None:
        return "hanging by its age, unless a __transaction_state that is not here has its producer"
    if _is_overdue(state, age_ms):
        return "hanging: it is older than its timeout, and the coordinator has not aborted it"
    return "hanging: the coordinator does not know this transaction, so nothing ends it"


def prepared(
    states: Mapping[int, TransactionState],
    partition: tuple[str | None, int | None],
    transactions: OpenTransactions,
    now_ms: int | None,
) -> list[Prepared]:
    """Returns the transactions of a partition that are prepared, and whose marker it already has.

    A coordinator whose markers other partitions reject keeps a transaction in this state for ever (KAFKA-19999).
    """
    still_open = {each.producer_id for each in transactions.found}
    found = []
    for producer_id, state in states.items():
        marker = transactions.markers.get(producer_id)
        if (
            marker is not None
            and state.state in _ENDING_STATES
            and producer_id not in still_open
            and partition in (state.partitions or ())
            and marker.producer_epoch >= (state.producer_epoch or 0)
            and marker.timestamp >= (state.start_ms or 0)  # not that of an earlier transaction
        ):
            age_ms = None if now_ms is None or state.update_ms is None else now_ms - state.update_ms
            found.append(Prepared(producer_id, state, marker, age_ms))
    return found


def _is_known(producer_epoch: int, state: TransactionState, partition: tuple[str | None, int | None]) -> bool:
    """Whether the coordinator has this transaction, and will end it."""
    return (
        state.state == _ONGOING
        and state.producer_epoch == producer_epoch
        and state.partitions is not None
        and partition in state.partitions
    )


def abort_command(topic: str | None, partition: int | None, first_offset: int) -> list[str]:
    """Returns the command that aborts a transaction on a live cluster (Kafka 3.0 and later)."""
    return [
        "kafka-transactions.sh", "--bootstrap-server", "HOST:9092", "abort", "--topic", topic or "TOPIC",
        "--partition", "N" if partition is None else str(partition), "--start-offset", str(first_offset),
    ]  # fmt: skip
