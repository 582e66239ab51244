"""What becomes of an open transaction, by the coordinator's record and by its age."""

import shutil
from pathlib import Path

import pytest

from kseg.findings.table import KINDS
from kseg.formats.record_batch import build_batch
from kseg.limits import TRANSACTION_LIMIT_MS
from kseg.node import coordinators
from kseg.node.coordinators import (
    ENDING,
    HANGING,
    OPEN,
    Coordinators,
    GroupOffset,
    TransactionState,
    abort_command,
    judge,
    prepared,
    waiting_groups,
)
from kseg.node.node import Nodes
from kseg.segment.isolation import LastMarker, OpenTransaction, OpenTransactions
from kseg.verification.repairs import Repairs
from kseg.verification.report import Finding
from verification.partitions import TESTDATA

# Groups that wait behind a last stable offset.

COMMITTED = Path(__file__).resolve().parents[2] / "testdata" / "kafka-4.3.1" / "committed"
PLACE = ("orders", 0)


def test_offsets_are_those_that_groups_have_committed() -> None:
    found = Coordinators([str(COMMITTED)]).group_offsets
    assert found is not None
    assert {("billing", 10), ("audit", 14), ("ahead", 99)} <= {(each.group, each.offset) for each in found[PLACE]}


def test_groups_at_the_stable_offset_come_first_and_those_beyond_read_uncommitted_records() -> None:
    offsets = {PLACE: [GroupOffset("b", 7, None), GroupOffset("c", 9, None), GroupOffset("a", 9, None)]}
    offsets[PLACE] += [GroupOffset("beyond", 10, None)]
    assert [each.group for each in waiting_groups(offsets, PLACE, 9) or ()] == ["a", "c", "b"]
    assert waiting_groups(offsets, ("orders", 1), 9) == []


def test_commits_for_an_earlier_topic_of_the_name_are_left_out() -> None:
    offsets = {PLACE: [GroupOffset("new", 1, "id"), GroupOffset("old", 1, "other"), GroupOffset("none", 1, None)]}
    assert [each.group for each in waiting_groups(offsets, PLACE, 9, "id") or ()] == ["new", "none"]
    assert len(waiting_groups(offsets, PLACE, 9) or ()) == 3


def test_without_committed_offsets_nothing_is_known(tmp_path: Path) -> None:
    assert Coordinators([str(tmp_path)]).group_offsets is None
    assert Coordinators([str(tmp_path / "none")]).group_offsets is None
    assert waiting_groups(None, PLACE, 9) is None
    assert waiting_groups({}, (None, None), 9) is None


def test_damage_hides_only_the_commits_in_it(tmp_path: Path) -> None:
    shutil.copytree(COMMITTED, tmp_path / "logs")
    log = max((tmp_path / "logs").glob("__consumer_offsets-*/*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[-30:-20] = bytes(10)
    log.write_bytes(data)
    found = Coordinators([str(tmp_path / "logs")]).group_offsets
    assert found is not None
    assert "billing" in {each.group for each in found[PLACE]}


def test_no_more_of_commits_is_read_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinators, "MAX_BYTES", 1000)
    assert Coordinators([str(COMMITTED)]).group_offsets is None


# The transactional ids of producers, by __transaction_state in the same log directory.

STATE = TESTDATA / "verify" / "4.3.1-transactional-ids" / "__transaction_state-0"
LOGS = TESTDATA / "log-directories" / "4.3.1-rounds" / "kill"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The log directory of a broker that was killed, with its __transaction_state."""
    copied = Path(shutil.copytree(LOGS, tmp_path / "logs"))
    shutil.copytree(STATE, copied / STATE.name)
    return copied


def settled(logs: Path, producer_id: int, code: str = "hanging-transaction", **more: int) -> Finding:
    segment = str(logs / "txn-0" / "00000000000000000435.log")
    details = {"producerId": producer_id, "producerEpoch": 0, **more}
    return Repairs(Nodes()).with_repair(Finding(code, KINDS[code].severity, segment, 5, None, 540, "open", details))


def test_the_log_directory_names_a_producer(logs: Path) -> None:
    found = settled(logs, 5)
    assert found.details["transactionalId"] == "tx-txn-2"
    assert found.message == "open; its transactional id is tx-txn-2"
    assert settled(logs, 5, "batch-outside-transaction").details["transactionalId"] == "tx-txn-2"


def test_what_is_not_known_is_null(logs: Path) -> None:
    assert settled(logs, 999).details["transactionalId"] is None
    assert settled(logs, 999).message == "open"
    shutil.rmtree(logs / STATE.name)
    assert settled(logs, 5).details["transactionalId"] is None
    assert "transactionalId" not in settled(logs, 5, "producer-sequence-gap").details


def test_without_a_coordinator_the_age_decides_and_the_command_is_named(logs: Path) -> None:
    old = settled(logs, 999, "open-transaction", ageMs=TRANSACTION_LIMIT_MS + 1, firstOffset=540)
    assert "hanging by its age, unless a __transaction_state that is not here has its producer" in old.message
    assert old.details["abort"][-6:] == ["--topic", "txn", "--partition", "0", "--start-offset", "540"]
    young = settled(logs, 999, "open-transaction", ageMs=TRANSACTION_LIMIT_MS, firstOffset=540)
    assert young.message == "open"


def test_damage_hides_only_what_it_destroys(logs: Path) -> None:
    log = logs / STATE.name / f"{0:020}.log"
    whole = Coordinators([str(logs)]).transaction_states
    data = bytearray(log.read_bytes())
    data[80:90] = bytes(10)
    log.write_bytes(data)
    left = Coordinators([str(logs)]).transaction_states
    assert left
    assert left.items() <= whole.items()


def test_no_more_is_read_than_is_allowed(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinators, "MAX_STATE_BYTES", 1000)
    assert Coordinators([str(logs)]).transaction_states == {}


def test_an_id_that_is_no_utf8_is_kept(tmp_path: Path) -> None:
    value = b"\0\0" + bytes(7) + b"\7" + bytes(8)
    no_ids = [(b"\0\0\0\2x", value), (b"\0\1\0\1x", value), (b"\0\0\xff\xfex", value), (b"\0\0\0\1x", b"\0")]
    log = tmp_path / "__transaction_state-0" / f"{0:020d}.log"
    log.parent.mkdir()
    log.write_bytes(build_batch(0, 0, 0, [(b"\0\0\0\2\xff\xfe", value), *no_ids]))
    states = Coordinators([str(tmp_path)]).transaction_states
    assert {producer_id: state.name for producer_id, state in states.items()} == {7: "\udcff\udcfe"}


HERE = ("orders", 3)
BEGUN = OpenTransaction(7, 2, 120, 1000)


def state(name: str, epoch: int = 2, partitions: tuple[tuple[str, int], ...] = (HERE,)) -> TransactionState:
    return TransactionState("pay", epoch, name, 60_000, frozenset(partitions))


OLD_MS = BEGUN.first_timestamp + TRANSACTION_LIMIT_MS


@pytest.mark.parametrize(
    ("told", "now", "verdict"),
    [
        (state("Ongoing"), 2000, OPEN),
        (state("Ongoing", epoch=3), 2000, HANGING),
        (state("Ongoing", partitions=(("orders", 4),)), 2000, HANGING),
        (state("PrepareCommit"), 2000, ENDING),
        (state("PrepareAbort"), 2000, ENDING),
        (state("CompleteAbort"), 2000, HANGING),
        (state("Empty", partitions=()), 2000, HANGING),
        (state("Dead", partitions=()), 2000, HANGING),
        # What is older than its timeout should have been aborted.
        (state("Ongoing"), 71_000, OPEN),
        (state("Ongoing"), 71_001, HANGING),
        (state("PrepareCommit"), 71_001, ENDING),
        # Without a record that can be read the age decides.
        *((told, *by_age) for told in (None, TransactionState("pay"))
          for by_age in ((None, OPEN), (OLD_MS, OPEN), (OLD_MS + 1, HANGING))),
    ],
)  # fmt: skip
def test_the_coordinator_decides(told: TransactionState | None, now: int | None, verdict: str) -> None:
    judged = judge(BEGUN, {} if told is None else {7: told}, HERE, now)
    assert (judged.verdict, judged.state) == (verdict, told)
    assert bool(judged.why) == (verdict == HANGING)
    assert ("older than its timeout" in judged.why) == (now == 71_001 and verdict == HANGING)


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
    assert abort_command(None, None, 5)[-6:] == ["--topic", "TOPIC", "--partition", "N", "--start-offset", "5"]
