"""Commands name the transactional id of a producer where __transaction_state of the same log directory has it."""

import shutil
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    copied = Path(shutil.copytree(TESTDATA / "log-directories" / "4.3.1-rounds" / "kill", tmp_path / "logs"))
    state = TESTDATA / "verify" / "4.3.1-transactional-ids" / "__transaction_state-0"
    shutil.copytree(state, copied / state.name)
    return copied


def test_verify_and_dump_name_it(logs: Path, kseg: Kseg) -> None:
    for words in (["verify", "--format", "json"], ["dump", "--open-transactions", "--format", "json"]):
        for path in (logs, logs / "txn-0"):
            facts = [row.get("details", row) for row in kseg(*words, path).objects]
            named = {row["producerId"]: row["transactionalId"] for row in facts if "transactionalId" in row}
            assert named == {5: "tx-txn-2", 1015: "hang-a"}
    assert "its transactional id is tx-txn-2" in kseg("verify", "--severity", "info", logs).out.decode()
    assert " transactionalId: tx-txn-2 " in kseg("dump", "--open-transactions", logs).out.decode()


def test_the_state_is_told_from_elsewhere_too(logs: Path, kseg: Kseg, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    ask = ("dump", "--open-transactions", "--format", "json")
    beside = {row["producerId"]: row for row in kseg(*ask, logs).objects}
    (logs / "__transaction_state-0").rename(other / "__transaction_state-0")
    alone = {row["producerId"]: row for row in kseg(*ask, logs).objects}
    told = {row["producerId"]: row for row in kseg(*ask, "--transaction-state", other, logs).objects}
    assert told == beside
    assert {row["state"] for row in alone.values()} == {row["transactionalId"] for row in alone.values()} == {None}
    assert beside[1015]["state"] == "Ongoing"
    assert beside[1015]["timeoutMs"] > 0
    assert kseg("dump", "--transaction-state", other, logs).status == 2
    assert kseg(*ask, "--transaction-state", other / "none", logs).status == 3


@pytest.fixture
def watched(logs: Path) -> Path:
    """The log directory with committed offsets, and the partition of which they are."""
    committed = TESTDATA / "kafka-4.3.1" / "committed"
    for partition in committed.glob("__consumer_offsets-*"):
        shutil.copytree(partition, logs / partition.name)
    shutil.copytree(logs / "txn-0", logs / "orders-0")
    (logs / "orders-0" / "partition.metadata").unlink()
    return logs


def test_verify_joins_open_transactions_with_their_coordinator(watched: Path, kseg: Kseg) -> None:
    findings = [row for row in kseg("verify", "--format", "json", watched).objects if row["type"] == "finding"]
    opened = {
        (Path(row["file"]).parent.name, row["details"]["producerId"]): row
        for row in findings
        if row["code"] == "open-transaction"
    }
    known, forgotten = opened["txn-0", 1015]["details"], opened["txn-0", 5]["details"]
    assert (known["state"], known["verdict"], known["abort"]) == ("Ongoing", "open", None)
    assert known["timeoutMs"] == 800_000
    assert (forgotten["state"], forgotten["verdict"]) == ("Empty", "hanging")
    assert forgotten["abort"][-2:] == ["--start-offset", str(forgotten["firstOffset"])]
    assert "state Ongoing, timeout 13 min 20 s" in opened["txn-0", 1015]["message"]
    message = opened["txn-0", 5]["message"]
    assert "hanging: the coordinator does not know this transaction, so nothing ends it" in message
    lines = kseg("verify", "--severity", "info", watched / "txn-0").lines
    at = lines.index(f"    {' '.join(forgotten['abort'])}")
    assert (lines[at - 1], message in lines[at - 2]) == ("to abort the transaction, on a live cluster:", True)


def test_groups_wait_behind_the_last_stable_offset(watched: Path, kseg: Kseg) -> None:
    rows = kseg("dump", "--open-transactions", "--format", "json", watched / "orders-0").objects
    groups = {each["group"]: each["offset"] for each in rows[0]["waitingGroups"]}
    assert groups.items() >= {"billing": 10, "audit": 14, "ahead": 99}.items()
    text = kseg("dump", "--open-transactions", watched / "orders-0").lines
    assert any(line.endswith(f" waitingGroups: {len(groups)}") for line in text)
    assert "waiting: ahead at 99, 60 offsets before it" in text
    details = [
        row["details"]
        for row in kseg("verify", "--format", "json", watched / "orders-0").objects
        if row.get("code") == "open-transaction" and "lastStableOffset" in row["details"]
    ]
    assert [each["waitingGroups"] for each in details] == [rows[0]["waitingGroups"]]
    assert [each["waitingOffsets"] for each in details] == [rows[0]["waitingOffsets"]]


def test_without_committed_offsets_the_groups_are_not_known(logs: Path, kseg: Kseg) -> None:
    rows = kseg("dump", "--open-transactions", "--format", "json", logs).objects
    assert {row["waitingGroups"] for row in rows} == {None}
    assert kseg("dump", "--open-transactions", logs).lines[3].endswith(" waitingGroups: unknown")
