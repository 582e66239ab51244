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
