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
    assert "its transactional id is tx-txn-2" in kseg("verify", logs).out.decode()
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
