""".txnindex files against the markers of their segments: each wrong entry is found, real ones are right (see
test_transactions.py)."""

import shutil
import struct
from pathlib import Path

import pytest

from kseg.findings.table import ERROR, INFO, WARNING
from kseg.logdir.log_directory import BrokerState
from kseg.segment.survey import QUICK
from kseg.sidefiles.indexes import AbortedTxn, TransactionIndex, build_transaction_index
from verification.producer_cases import (
    ABORT,
    COMMIT,
    DAMAGED,
    TESTDATA,
    TRANSACTIONS,
    batch,
    codes,
    copy_of,
    findings,
    log_of,
    marker,
)

NAME = "00000000000000000010.txnindex"
SCANNED = BrokerState(was_clean=False, is_known=True)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return copy_of(TRANSACTIONS, tmp_path)


def entries(path: Path) -> list[AbortedTxn]:
    return list(TransactionIndex(path.read_bytes()))


def change(path: Path, number: int, **fields: int) -> None:
    found = entries(path)
    found[number] = found[number]._replace(**fields)
    path.write_bytes(build_transaction_index(found))


def test_the_case_has_what_it_is_to_show() -> None:
    assert [(entry.producer_id, *entry[2:]) for entry in entries(TRANSACTIONS / NAME)] == [
        (4, 12, 22, 15),
        (5, 27, 34, 24),
    ]


def test_missing_files_are_found(partition: Path) -> None:
    for path in partition.glob("*.txnindex"):
        path.unlink()
    found = findings(partition)
    assert {(finding.code, finding.severity) for finding in found} == {("transaction-index-missing", ERROR)}
    assert [(Path(finding.file).name, finding.offset) for finding in found] == [
        (NAME, 22),
        ("00000000000000000058.txnindex", 58),
        ("00000000000000000106.txnindex", 130),
        ("00000000000000000154.txnindex", 166),
    ]
    assert findings(partition, QUICK) == []
    assert {finding.severity for finding in findings(partition, broker=SCANNED)} == {WARNING}, "a start rebuilds them"


def test_nothing_is_missing_in_a_copy_of_the_segments_alone(partition: Path) -> None:
    for path in partition.iterdir():
        if path.suffix != ".log":
            path.unlink()
    assert [finding for finding in findings(partition) if finding.severity != INFO] == []


def test_one_segment_is_held_against_the_file_beside_it(partition: Path) -> None:
    (partition / NAME).unlink()
    found = findings(partition, names=["00000000000000000010.log"])
    assert codes(found) == ["transaction-index-missing"]
    assert findings(partition, names=["00000000000000000058.log"]) == []


def test_entries_that_are_missing_are_found(partition: Path) -> None:
    path = partition / NAME
    path.write_bytes(path.read_bytes()[34:])
    (found,) = findings(partition)
    assert (found.code, found.severity, found.offset) == ("transaction-index-incomplete", ERROR, 22)
    assert found.message == "producer 4: offsets 12 to 22 have no entry"


def test_an_empty_file_is_incomplete(partition: Path) -> None:
    (partition / NAME).write_bytes(b"")
    assert codes(findings(partition)) == ["transaction-index-incomplete"] * 2


@pytest.mark.parametrize("case", ["txnindex-corrupt-clean", "txnindex-wrong-values-clean"])
def test_what_was_damaged_under_a_real_broker_is_found(partition: Path, case: str) -> None:
    """That broker did not start on the first, and rebuilt the second."""
    shutil.copy(DAMAGED / case / "dtxn-0" / NAME, partition)
    found = findings(partition)
    assert {finding.code for finding in found} == {"transaction-index-damaged"}
    assert (found[0].position, found[0].length) == (0, 34)
    again = findings(partition, broker=SCANNED)
    assert again[0].severity == (ERROR if case == "txnindex-corrupt-clean" else WARNING)


@pytest.mark.parametrize(
    ("fields", "severity"),
    [
        pytest.param({"producer_id": 6}, ERROR, id="another producer"),
        pytest.param({"first_offset": 13}, ERROR, id="begins too late"),
        pytest.param({"first_offset": 11}, ERROR, id="begins too early"),
        pytest.param({"last_stable_offset": 20}, ERROR, id="a search stops too early"),
        pytest.param({"last_stable_offset": 14}, WARNING, id="a search goes on too far"),
    ],
)
def test_a_wrong_entry_is_found(partition: Path, fields: dict[str, int], severity: str) -> None:
    change(partition / NAME, 0, **fields)
    (found,) = findings(partition)
    assert (found.code, found.severity) == ("transaction-index-wrong-entry", severity)
    assert (found.position, found.length) == (0, 34)


@pytest.mark.parametrize("version", [1, -1, 256])
@pytest.mark.parametrize("broker", [BrokerState(), SCANNED], ids=["clean", "scanned"])
def test_any_version_but_0_is_an_error(partition: Path, version: int, broker: BrokerState) -> None:
    """Kafka 4.4 does not start on it, with and without a clean shutdown."""
    change(partition / NAME, 1, version=version)
    (found,) = findings(partition, broker=broker)
    assert (found.code, found.severity, found.position) == ("transaction-index-damaged", ERROR, 34)
    assert found.message.startswith(f"version {version} is not 0: ")


def test_an_entry_without_its_marker_is_found(partition: Path) -> None:
    change(partition / NAME, 1, last_offset=35)
    found = findings(partition)
    assert [(finding.code, finding.position) for finding in found] == [
        ("transaction-index-wrong-entry", 34),
        ("transaction-index-incomplete", None),
    ]


@pytest.mark.parametrize(
    ("name", "severity"), [(NAME, WARNING), ("00000000000000000154.txnindex", ERROR)], ids=["closed", "active"]
)
def test_part_of_an_entry_is_found(partition: Path, name: str, severity: str) -> None:
    """Where the file is still written to, what a broker adds cannot be read any more."""
    path = partition / name
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"\0\0\0")
    (found,) = findings(partition)
    assert (found.code, found.severity) == ("transaction-index-damaged", severity)
    assert (found.position, found.length) == (size, 3)
    assert codes(findings(partition, is_live=True)) == ([] if severity == ERROR else ["transaction-index-damaged"])


def test_version_numbers_are_read_as_brokers_read_them(partition: Path) -> None:
    """One byte of two, signed: what is above 0 ends the broker's start, and 0xFFFF does not."""
    path = partition / NAME
    for version, told in ((0x0100, "no broker starts"), (0xFFFF, "is not 0"), (1, "is not 0")):
        path.write_bytes(struct.pack(">H", version) + path.read_bytes()[2:])
        (found,) = findings(partition)
        assert found.code == "transaction-index-damaged"
        assert told in found.message


def index_of(log: Path, *aborted: tuple[int, int, int, int], base: int = 0) -> Path:
    data = build_transaction_index(AbortedTxn(0, *entry) for entry in aborted)
    (log / f"{base:020}.txnindex").write_bytes(data)
    return log


def test_up_to_2_7_a_marker_without_data_has_an_entry(tmp_path: Path) -> None:
    log = log_of(tmp_path, [batch(0), marker(1, ABORT, 7)])
    assert findings(log) == [], "since 2.8 it has none"
    assert findings(index_of(log, (7, 1, 1, 2))) == []


def test_a_transaction_may_have_begun_before_the_log(tmp_path: Path) -> None:
    log = log_of(tmp_path, [marker(5, ABORT, 7), batch(6, 8, transactional=True), marker(7, ABORT, 8)], first=5)
    assert findings(index_of(log, (7, 2, 5, 3), (8, 4, 7, 8), base=5)) == []


def test_a_follower_writes_stable_offsets_of_transactions_that_began_later(tmp_path: Path) -> None:
    """All batches of a fetch are taken up before its entries are written."""
    begun = [batch(0, 7, transactional=True), marker(1, ABORT, 7), batch(2), batch(3, 8, transactional=True)]
    log = log_of(tmp_path, [*begun, marker(4, ABORT, 8)])
    assert findings(index_of(log, (7, 0, 1, 3), (8, 3, 4, 5))) == []
    assert codes(findings(index_of(log, (7, 0, 1, 6), (8, 3, 4, 5)))) == ["transaction-index-wrong-entry"]


def test_the_marker_may_lie_in_another_segment(tmp_path: Path) -> None:
    log = log_of(tmp_path, [batch(0, 7, transactional=True)], [marker(1, ABORT, 7)])
    index_of(log, (7, 0, 1, 2), base=1)
    assert codes(findings(log)) == ["producer-snapshot-missing"]
    index_of(log, (7, 0, 1, 2))
    assert "transaction-index-wrong-entry" in codes(findings(log))


def test_of_aborted_records_that_a_cleaner_removed_nothing_is_needed(tmp_path: Path) -> None:
    """The batch itself is kept without records where it is the producer's last."""
    emptied = bytearray(batch(0, 7, transactional=True, count=0))
    log = log_of(tmp_path, [bytes(emptied), marker(1, ABORT, 7)])
    assert findings(log) == []


def test_what_damage_hides_makes_no_entry_wrong(tmp_path: Path) -> None:
    """The commit of the first transaction and the begin of the second are lost."""
    lost = bytearray(marker(1, COMMIT, 7) + batch(2, 7, 0, 1, transactional=True))
    lost[30] ^= 1
    lost[-1] ^= 1
    begun = batch(0, 7, transactional=True)
    log = log_of(tmp_path, [begun, bytes(lost), batch(3, 7, 0, 2, transactional=True), marker(4, ABORT, 7)])
    assert findings(index_of(log, (7, 2, 4, 5))) == []


def test_a_file_that_is_no_file_is_told(partition: Path) -> None:
    (partition / NAME).unlink()
    (partition / NAME).mkdir()
    (found,) = findings(partition)
    assert found.code == "transaction-index-damaged"
    assert "not a regular file" in found.message


def test_a_huge_file_of_zeros_ends_soon(partition: Path) -> None:
    with open(partition / NAME, "r+b") as file:
        file.truncate(1 << 40)
    found = findings(partition)
    assert 0 < len(found) < 200


def test_real_abort_markers_without_entries() -> None:
    """An index of a compacted log of 0.11 keeps what its cleaner kept."""
    assert findings(TESTDATA / "kafka-0.11.0.3" / "txn" / "compact-txn-0") == []
