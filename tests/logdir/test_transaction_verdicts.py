"""What becomes of an open transaction, by the coordinator's record and by its age."""

import pytest

from kseg.logdir.transaction_verdicts import ENDING, HANGING, OPEN, abort_command, judge, prepared, why_hanging
from kseg.logdir.transactional_ids import TransactionState
from kseg.segment.open_transactions import LastMarker, OpenTransaction, OpenTransactions

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


@pytest.mark.parametrize(("now", "verdict"), [(71_000, OPEN), (71_001, HANGING)])
def test_what_is_older_than_its_timeout_should_have_been_aborted(now: int, verdict: str) -> None:
    judged = judge(BEGUN, {7: state("Ongoing")}, HERE, now)
    assert judged.verdict == verdict
    if verdict == HANGING:
        assert "older than its timeout" in why_hanging(judged.state, judged.age_ms)
    assert judge(BEGUN, {7: state("PrepareCommit")}, HERE, now).verdict == ENDING


@pytest.mark.parametrize(
    ("status", "marker", "is_found"),
    [
        ("PrepareCommit", LastMarker(130, 2, 5000), True),
        ("PrepareAbort", LastMarker(130, 3, 5000), True),
        ("Ongoing", LastMarker(130, 2, 5000), False),
        ("PrepareCommit", LastMarker(130, 1, 5000), False),
        ("PrepareCommit", LastMarker(110, 2, 3999), False),
    ],
)
def test_a_marker_of_what_is_still_prepared(status: str, marker: LastMarker, is_found: bool) -> None:
    """One that was written before the transaction began, or under an earlier epoch, is that of another one."""
    told = state(status)._replace(start_ms=4000, update_ms=4500)
    transactions = OpenTransactions()
    transactions.markers[7] = marker
    found = prepared({7: told}, HERE, transactions, 6000)
    assert [(each.marker, each.age_ms) for each in found] == ([(marker, 1500)] if is_found else [])
    assert prepared({7: told}, ("orders", 4), transactions, 6000) == []


def test_the_command_for_a_live_cluster() -> None:
    assert abort_command("orders", 3, 120)[-6:] == ["--topic", "orders", "--partition", "3", "--start-offset", "120"]
    assert abort_command(None, None, 5)[-6:] == ["--topic", "TOPIC", "--partition", "N", "--start-offset", "5"]
