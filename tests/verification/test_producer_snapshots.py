""".snapshot files against the log (real ones are right, see test_transactions.py)."""

import shutil
from pathlib import Path

import pytest

from kseg.findings.table import ERROR, INFO, WARNING
from kseg.logdir.log_directory import BrokerState
from kseg.segment.survey import QUICK
from kseg.sidefiles.producer_state import ProducerSnapshot, ProducerStateEntry, build_producer_snapshot
from verification.producer_cases import DAMAGED, START_MS, TRANSACTIONS, batch, codes, copy_of, findings, log_of, marker

LAST = "00000000000000000192.snapshot"
INSIDE = "00000000000000000058.snapshot"
CLEAN = BrokerState(was_clean=True, is_known=True)
UNCLEAN = BrokerState(was_clean=False, is_known=True)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return copy_of(TRANSACTIONS, tmp_path)


def change(path: Path, number: int, **fields: int) -> None:
    entries = list(ProducerSnapshot(path.read_bytes()))
    entries[number] = entries[number]._replace(**fields)
    path.write_bytes(build_producer_snapshot(entries))


def test_a_snapshot_damaged_under_a_real_broker_is_found(partition: Path) -> None:
    shutil.copy(DAMAGED / "snapshot-corrupt-last-clean" / "dtxn-0" / LAST, partition)
    (found,) = findings(partition)
    assert (found.code, found.severity, Path(found.file).name) == ("producer-snapshot-damaged", WARNING, LAST)
    assert (found.position, found.length) == (6, 96)
    assert findings(partition, QUICK) == []


@pytest.mark.parametrize("size", [0, 1, 5, 9, 11, 60, 101, 103])
def test_a_snapshot_of_the_wrong_size_is_found(partition: Path, size: int) -> None:
    path = partition / LAST
    path.write_bytes((path.read_bytes() + b"\0")[:size])
    assert codes(findings(partition)) == ["producer-snapshot-damaged"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (LAST, {"producer_id": 77}),
        (LAST, {"producer_epoch": 1}),
        (LAST, {"timestamp": START_MS}),
        (LAST, {"coordinator_epoch": 9}),
        (LAST, {"current_txn_first_offset": 180}),
        (INSIDE, {"last_sequence": 1}),
        (INSIDE, {"last_offset": 52}),
        (INSIDE, {"offset_delta": 2}),
        (INSIDE, {"timestamp": START_MS}),
        (INSIDE, {"current_txn_first_offset": -1}),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else next(iter(value)),
)
def test_what_the_log_does_not_bear_out_is_found(partition: Path, name: str, fields: dict[str, int]) -> None:
    """The first has seen a marker of each producer last, the second one an open transaction."""
    entries = list(ProducerSnapshot((partition / name).read_bytes()))
    number = next((i for i, entry in enumerate(entries) if entry.has_batch), 0)
    assert entries[number].has_batch == (name == INSIDE)
    change(partition / name, number, **fields)
    (found,) = findings(partition)
    assert (found.code, found.severity, Path(found.file).name) == ("producer-snapshot-mismatch", WARNING, name)
    assert found.position == 10 + 46 * number
    assert findings(partition, broker=BrokerState(is_compacted=True)) == [], "a cleaner removes batches"


def test_a_broker_may_have_forgotten_producers(partition: Path) -> None:
    """By its clock and the records' timestamps they were idle for a day, or it had no snapshot at a clean start."""
    (partition / LAST).write_bytes(build_producer_snapshot([]))
    assert findings(partition) == []
    shutil.copy(TRANSACTIONS / LAST, partition)
    entry = next(iter(ProducerSnapshot((partition / LAST).read_bytes())))
    known = {"last_sequence": -1, "last_offset": -1, "offset_delta": 0, "coordinator_epoch": -1}
    change(partition / LAST, 0, **known)
    assert entry != next(iter(ProducerSnapshot((partition / LAST).read_bytes())))
    assert findings(partition) == []


def test_an_open_transaction_is_never_forgotten(tmp_path: Path) -> None:
    log = log_of(tmp_path, [batch(0, 7, transactional=True), batch(1, 8, transactional=True)], [batch(2)])
    state = ProducerStateEntry(8, 0, 0, 1, 0, START_MS, -1, 1)
    (log / f"{2:020}.snapshot").write_bytes(build_producer_snapshot([state]))
    found = [finding for finding in findings(log) if finding.severity != INFO]
    assert codes(found) == ["producer-snapshot-mismatch"]
    assert "producer 7, which has a transaction open, is not in it" in found[0].message
    # Up to 2.3 a broker dropped what lies below the log start.
    broker = BrokerState(log_start_offset=1)
    assert [finding for finding in findings(log, broker=broker) if finding.severity != INFO] == []


def test_a_producer_that_the_log_does_not_know_is_found_if_the_log_is_whole(tmp_path: Path) -> None:
    entry = build_producer_snapshot([ProducerStateEntry(9, 0, 0, 0, 0, START_MS, -1, -1)])
    for first, expected in ((0, ["producer-snapshot-mismatch"]), (10, [])):
        place = tmp_path / str(first)
        place.mkdir()
        log = log_of(place, [batch(first, 7)], [batch(first + 1)], first=first)
        (log / f"{first + 1:020}.snapshot").write_bytes(entry)
        assert codes(findings(log)) == expected


def test_a_snapshot_beyond_the_end_of_the_log_is_found(partition: Path) -> None:
    last = partition / "00000000000000000154.log"
    content = last.read_bytes()
    last.write_bytes(content[:-78])  # the last batch, a marker
    found = [finding for finding in findings(partition) if finding.code == "producer-snapshot-beyond-end"]
    assert [(finding.severity, finding.offset, Path(finding.file).name) for finding in found] == [(ERROR, 191, LAST)]
    assert "producer-snapshot-beyond-end" not in codes(findings(partition, is_live=True))
    last.write_bytes(content[:-7])
    assert "producer-snapshot-beyond-end" not in codes(findings(partition)), "that bytes are missing is told already"
    last.write_bytes(content[:-78])
    beyond = BrokerState(high_watermark=192)
    assert "producer-snapshot-beyond-end" not in codes(findings(partition, broker=beyond)), "so is that the end is lost"


def test_snapshots_that_are_missing_are_found(partition: Path) -> None:
    for path in partition.glob("*.snapshot"):
        path.unlink()
    for broker, severity in ((CLEAN, WARNING), (BrokerState(), WARNING), (UNCLEAN, INFO)):
        (found,) = findings(partition, broker=broker)
        assert (found.code, found.severity, found.file) == ("producer-snapshot-missing", severity, str(partition))


def test_a_log_that_was_never_closed_has_no_snapshot_yet(tmp_path: Path) -> None:
    log = log_of(tmp_path, [batch(0, 7)])
    assert findings(log) == []
    assert codes(findings(log, broker=CLEAN)) == ["producer-snapshot-missing"]


def test_a_log_without_producers_needs_no_snapshot(tmp_path: Path) -> None:
    assert findings(log_of(tmp_path, [batch(0)], [batch(1)]), broker=CLEAN) == []


def test_a_snapshot_inside_a_batch_or_a_gap_is_held_against_nothing(tmp_path: Path) -> None:
    entry = build_producer_snapshot([ProducerStateEntry(9, 0, 0, 0, 0, START_MS, -1, -1)])
    log = log_of(tmp_path, [batch(0, 7), batch(1, 7, 0, 1, count=5)])
    (log / f"{3:020}.snapshot").write_bytes(entry)
    assert findings(log) == []


def test_markers_in_snapshots_of_old_releases(tmp_path: Path) -> None:
    """0.11 takes the marker's offset for that of a batch, 1.0 and 1.1 keep the timestamp of the last data."""
    log = log_of(tmp_path, [batch(0, 7, transactional=True), marker(1, 1, 7, 0, 3, timestamp=START_MS + 5)], [batch(2)])
    path = log / f"{2:020}.snapshot"
    new = ProducerStateEntry(7, 0, 0, 0, 0, START_MS + 5, 3, -1)
    for entry in (new, new._replace(last_offset=1), new._replace(timestamp=START_MS)):
        path.write_bytes(build_producer_snapshot([entry]))
        assert findings(log) == []
    path.write_bytes(build_producer_snapshot([new._replace(last_offset=2)]))
    assert codes(findings(log)) == ["producer-snapshot-mismatch"]


def test_a_file_that_is_no_file_is_told(partition: Path) -> None:
    (partition / LAST).unlink()
    (partition / LAST).mkdir()
    (found,) = findings(partition)
    assert (found.code, found.message) == ("producer-snapshot-damaged", "it cannot be read: Is a directory")


def test_a_huge_file_is_not_read(partition: Path) -> None:
    with open(partition / LAST, "r+b") as file:
        file.truncate(1 << 40)
    (found,) = findings(partition)
    assert (found.code, found.length) == ("producer-snapshot-damaged", 1 << 40)


@pytest.mark.parametrize("name", ["1.snapshot", "x.snapshot", f"{1:020}.snapshot.deleted", f"{'٣' * 20}.snapshot"])
def test_other_names_are_left_alone(partition: Path, name: str) -> None:
    (partition / name).write_bytes(b"nonsense")
    assert findings(partition) == []
