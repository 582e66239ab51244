"""Judges the open transactions of a partition by the coordinator's records: open, hanging or ending.

Source: KIP-664 (hanging transactions), TransactionState of Kafka 4.3.1.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kseg.limits import TRANSACTION_LIMIT_MS
from kseg.logdir.transactional_ids import TransactionState
from kseg.segment.open_transactions import OpenTransaction

OPEN, HANGING, ENDING = "open", "hanging", "ending"
_ENDING_STATES = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_ONGOING = "Ongoing"


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
    """Judges one open transaction of a partition, given by topic and number. ``now_ms``: the current time in ms since
    the epoch, None if unknown."""
    state, age_ms = states.get(transaction.producer_id), transaction.age_ms(now_ms)
    return Judged(transaction, state, age_ms, verdict_of(transaction.producer_epoch, state, partition, age_ms))


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
