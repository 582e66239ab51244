"""The transactional ids of producers, by __transaction_state in the same log directory."""

import shutil
from pathlib import Path

import pytest

from kseg.findings.table import KINDS
from kseg.limits import TRANSACTION_LIMIT_MS
from kseg.logdir import transactional_ids
from kseg.verification.repairs import Repairs
from kseg.verification.report import Finding
from verification.partitions import TESTDATA

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
    return Repairs().with_repair(Finding(code, KINDS[code].severity, segment, 5, None, 540, "open", details))


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
    whole = transactional_ids.transaction_states(str(logs))
    data = bytearray(log.read_bytes())
    data[80:90] = bytes(10)
    log.write_bytes(data)
    left = transactional_ids.transaction_states(str(logs))
    assert left
    assert left.items() <= whole.items()


def test_no_more_is_read_than_is_allowed(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_ids, "MAX_BYTES", 1000)
    assert transactional_ids.transaction_states(str(logs)) == {}


def test_an_id_that_is_no_utf8_is_kept(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert transactional_ids._pair(b"\0\0\0\2\xff\xfe", b"\0\0" + bytes(7) + b"\7" + bytes(8)) == (7, "\udcff\udcfe")
    for key, value in ((b"\0\0\0\2x", b"\0\0" + bytes(16)), (b"\0\1\0\1x", b"\0\0" + bytes(16)), (b"\0\0\0\1x", b"\0")):
        assert transactional_ids._pair(key, value) is None
