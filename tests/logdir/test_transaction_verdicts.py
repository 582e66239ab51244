"""What becomes of an open transaction, by the coordinator's record and by its age."""

import pytest

from kseg.logdir.transaction_verdicts import ENDING, HANGING, OPEN, abort_command, judge
from kseg.logdir.transactional_ids import TransactionState
from kseg.segment.open_transactions import OpenTransaction

HERE = ("orders", 3)
BEGUN = OpenTransaction(7, 2, 120, 1000)


def state(name: str, epoch: int = 2, partitions: tuple[tuple[str, int], ...] = (HERE,)) -> TransactionState:
    return TransactionState("pay", epoch, name, 60_000, frozenset(partitions))


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        (state("Ongoing"), OPEN),
        (state("Ongoing", epoch=3), HANGING),
        (state("Ongoing", partitions=(("orders", 4),)), HANGING),
        (state("PrepareCommit"), ENDING),
        (state("PrepareAbort"), ENDING),
        (state("CompleteAbort"), HANGING),
        (state("Empty", partitions=()), HANGING),
        (state("Dead", partitions=()), HANGING),
    ],
)
def test_the_coordinator_decides(told: TransactionState, verdict: str) -> None:
    assert judge(BEGUN, {7: told}, HERE, 2000).verdict == verdict


@pytest.mark.parametrize(("now", "verdict"), [(None, OPEN), (1000 + 20 * 60_000, OPEN), (1001 + 20 * 60_000, HANGING)])
def test_without_a_record_the_age_decides(now: int | None, verdict: str) -> None:
    judged = judge(BEGUN, {8: state("Ongoing")}, HERE, now)
    assert (judged.verdict, judged.state) == (verdict, None)
    assert judge(BEGUN, {7: TransactionState("pay")}, HERE, now).verdict == verdict


def test_the_command_for_a_live_cluster() -> None:
    assert abort_command("orders", 3, 120)[-6:] == ["--topic", "orders", "--partition", "3", "--start-offset", "120"]
    assert abort_command(None, None, 5)[-6:] == ["--topic", "TOPIC", "--partition", "N", "--start-offset", "5"]
