"""Sequences, epochs and transactions of producers: nothing in what brokers wrote, each break found where it is."""

import os
import shutil
import struct
from pathlib import Path

import pytest

from kseg.changes.accepted_gaps import record
from kseg.changes.disk import Disk
from kseg.findings.table import ERROR, INFO, KINDS, WARNING
from kseg.node.log_directory import BrokerState
from kseg.segment.survey import QUICK
from kseg.sidefiles.indexes import AbortedTxn, TransactionIndex, build_transaction_index
from kseg.sidefiles.producer_state import ProducerSnapshot, ProducerStateEntry, build_producer_snapshot
from segment.segments import entries as batches_of
from segment.segments import sealed as resealed
from verification.partitions import copied as copy_of
from verification.producer_cases import (
    ABORT,
    COMMIT,
    DAMAGED,
    NOW_MS,
    START_MS,
    TESTDATA,
    TRANSACTIONS,
    batch,
    codes,
    findings,
    log_of,
    marker,
    sealed,
)

# .txnindex files against the markers of their segments: each wrong entry is found, real ones are right (see
# test_transactions.py).

NAME = "00000000000000000010.txnindex"
SCANNED = BrokerState(was_clean=False, is_known=True)


def entries(path: Path) -> list[AbortedTxn]:
    return list(TransactionIndex(path.read_bytes()))


def change_entry(path: Path, number: int, **fields: int) -> None:
    found = entries(path)
    found[number] = found[number]._replace(**fields)
    path.write_bytes(build_transaction_index(found))


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
        pytest.param({"first_offset": 13}, ERROR, id="begins too late"),
        pytest.param({"first_offset": 11}, ERROR, id="begins too early"),
        pytest.param({"last_stable_offset": 20}, ERROR, id="a search stops too early"),
        pytest.param({"last_stable_offset": 14}, WARNING, id="a search goes on too far"),
    ],
)
def test_a_wrong_entry_is_found(partition: Path, fields: dict[str, int], severity: str) -> None:
    change_entry(partition / NAME, 0, **fields)
    (found,) = findings(partition)
    assert (found.code, found.severity) == ("transaction-index-wrong-entry", severity)
    assert (found.position, found.length) == (0, 34)


@pytest.mark.parametrize(
    ("version", "told"), [(1, "Kafka 4.4 does not"), (-1, "Kafka 4.4 does not"), (256, "no broker")]
)
@pytest.mark.parametrize("broker", [BrokerState(), SCANNED], ids=["clean", "scanned"])
def test_any_version_but_0_is_an_error(partition: Path, version: int, told: str, broker: BrokerState) -> None:
    """Kafka 4.4 does not start on it, with and without a clean shutdown. Brokers read one byte of two, signed: what is
    above 0 ends the start of each."""
    change_entry(partition / NAME, 1, version=version)
    (found,) = findings(partition, broker=broker)
    assert (found.code, found.severity, found.position) == ("transaction-index-damaged", ERROR, 34)
    assert found.message.startswith(f"version {version} is not 0: {told}")


def test_an_entry_without_its_marker_is_found(partition: Path) -> None:
    change_entry(partition / NAME, 1, last_offset=35)
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


def index_of(log: Path, *aborted: tuple[int, int, int, int], base: int = 0) -> Path:
    data = build_transaction_index(AbortedTxn(0, *entry) for entry in aborted)
    (log / f"{base:020}.txnindex").write_bytes(data)
    return log


def flipped(data: bytes, at: int = -1) -> bytes:
    """A batch with a wrong checksum."""
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


BEGUN = [batch(0, 7, transactional=True), marker(1, ABORT, 7), batch(2), batch(3, 8, transactional=True)]
INDEXES: dict[str, tuple[list[bytes], list[tuple[int, int, int, int]], list[str]]] = {
    "since 2.8 a marker without data has no entry": ([batch(0), marker(1, ABORT, 7)], [], []),
    "up to 2.7 it has one": ([batch(0), marker(1, ABORT, 7)], [(7, 1, 1, 2)], []),
    "begun before the log": (
        [marker(5, ABORT, 7), batch(6, 8, transactional=True), marker(7, ABORT, 8)], [(7, 2, 5, 3), (8, 4, 7, 8)], [],
    ),
    # A follower takes all batches of a fetch up before it writes its entries.
    "begun before a follower writes": ([*BEGUN, marker(4, ABORT, 8)], [(7, 0, 1, 3), (8, 3, 4, 5)], []),
    "begun later than that": (
        [*BEGUN, marker(4, ABORT, 8)], [(7, 0, 1, 6), (8, 3, 4, 5)], ["transaction-index-wrong-entry"],
    ),
    "the commit of the first transaction and the begin of the second are lost": (
        [
            BEGUN[0], flipped(marker(1, COMMIT, 7), 30), flipped(batch(2, 7, 0, 1, transactional=True)),
            batch(3, 7, 0, 2, transactional=True), marker(4, ABORT, 7),
        ],
        [(7, 2, 4, 5)], [],
    ),
}  # fmt: skip
"""Batches, entries of the index (no file if there are none), and the codes of the findings."""


@pytest.mark.parametrize("name", INDEXES)
def test_entries_of_a_transaction_index(tmp_path: Path, name: str) -> None:
    batches, aborted, told = INDEXES[name]
    base = int.from_bytes(batches[0][:8], "big")
    log = log_of(tmp_path, batches, first=base)
    if aborted:
        index_of(log, *aborted, base=base)
    assert codes(findings(log)) == told


def test_the_marker_may_lie_in_another_segment(tmp_path: Path) -> None:
    log = log_of(tmp_path, [batch(0, 7, transactional=True)], [marker(1, ABORT, 7)])
    index_of(log, (7, 0, 1, 2), base=1)
    assert codes(findings(log)) == ["producer-snapshot-missing"]
    index_of(log, (7, 0, 1, 2))
    assert "transaction-index-wrong-entry" in codes(findings(log))


@pytest.mark.parametrize(
    ("name", "code"),
    [(NAME, "transaction-index-damaged"), ("00000000000000000192.snapshot", "producer-snapshot-damaged")],
)
def test_a_file_that_is_no_file_is_told(partition: Path, name: str, code: str) -> None:
    (partition / name).unlink()
    (partition / name).mkdir()
    (found,) = findings(partition)
    assert (found.code, found.message.startswith("it cannot be read: ")) == (code, True)


def test_huge_files(partition: Path) -> None:
    """A check of zeros ends soon, and a snapshot that no broker can read is not read."""
    os.truncate(partition / NAME, 1 << 40)
    assert 0 < len(findings(partition)) < 200
    shutil.copy(TRANSACTIONS / NAME, partition)
    os.truncate(partition / LAST, 1 << 40)
    (found,) = findings(partition)
    assert (found.code, found.length) == ("producer-snapshot-damaged", 1 << 40)


# .snapshot files against the log (real ones are right, see test_transactions.py).

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
    place = tmp_path / "erased"
    place.mkdir()
    log = log_of(place, [batch(1, 7)], [batch(2)], first=0)
    (log / f"{2:020}.snapshot").write_bytes(entry)
    record(str(log), [(0, 0)], Disk())
    assert codes(findings(log)) == []


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


@pytest.mark.parametrize("name", ["1.snapshot", "x.snapshot", f"{1:020}.snapshot.deleted", f"{'٣' * 20}.snapshot"])
def test_other_names_are_left_alone(partition: Path, name: str) -> None:
    (partition / name).write_bytes(b"nonsense")
    assert findings(partition) == []


HOUR_MS = 3600 * 1000
LAST_SEQUENCE = (1 << 31) - 1
OPEN = TESTDATA / "kafka-1.1.1" / "txn" / "txn-open-0"


def opened(*later: bytes) -> list[bytes]:
    return [batch(0, 7, transactional=True), *later]


LOGS: dict[str, tuple[list[bytes], str, int]] = {
    "the first that is left": ([batch(0, 7, sequence=9), batch(1, 7, sequence=10)], "", 0),
    "forgotten": ([batch(0, 7, sequence=0), batch(1, 7, sequence=5, timestamp=START_MS + 24 * HOUR_MS)], "", 0),
    "begun anew after its records were deleted": ([batch(0, 7, sequence=4), batch(1, 7, sequence=0)], "", 0),
    "offset commits have no sequence": ([batch(0, 7, sequence=-1), batch(1, 7, sequence=-1)], "", 0),
    "two by turns": ([batch(0, 7, 0, 0), batch(1, 8, 0, 0), batch(2, 7, 0, 1), batch(3, 8, 0, 1)], "", 0),
    "they go round": ([batch(0, 7, sequence=LAST_SEQUENCE - 1, count=2), batch(2, 7, sequence=0)], "", 0),
    "one is in damage": (
        [batch(0, 7), flipped(batch(1, 7, sequence=1)), marker(2, COMMIT, 7), batch(3, 7, sequence=2)], "", 0,
    ),
    # So a cleaner leaves them; ProducerAppendInfo passes over the first, and the second is its producer's last.
    "a control batch without records": (
        [batch(0, 7, 0), sealed(1, 48, 0, START_MS, 7, 5, -1, b"", 0), batch(2, 7, 0, 1)], "", 0,
    ),
    "aborted, without records": ([batch(0, 7, transactional=True, count=0), marker(1, ABORT, 7)], "", 0),
    "a sequence comes again": (
        [batch(0, 7, sequence=1), batch(1, 7, sequence=2), batch(2, 7, sequence=1)], "producer-sequence-gap", 2,
    ),
    "an epoch does not begin at 0": (
        [batch(0, 7, 0, 5), batch(1, 7, 1, 0), batch(2, 7, 2, 3)], "producer-sequence-gap", 2,
    ),
    "the epoch of a marker falls": ([marker(0, ABORT, 8, 4), marker(1, ABORT, 8, 3)], "producer-epoch-falls", 1),
    "a later epoch in an open transaction": (
        opened(batch(1, 7, 1, transactional=True), marker(2, COMMIT, 7, 1)), "hanging-transaction", 1,
    ),
    "open": (opened(), "open-transaction", 0),
    "open for long by brokers": (
        opened(marker(1, COMMIT, 8), marker(2, COMMIT, 8, timestamp=START_MS + HOUR_MS)), "hanging-transaction", 0,
    ),
    "the clock of brokers is the better one": (
        opened(marker(1, COMMIT, 8), batch(2, timestamp=START_MS + HOUR_MS), marker(3, COMMIT, 8)),
        "open-transaction", 0,
    ),
    "timestamps that are no clock": (
        [
            marker(0, COMMIT, 8, timestamp=START_MS + 9 * HOUR_MS), batch(1, 7, transactional=True),
            batch(2, timestamp=START_MS + HOUR_MS),
        ],
        "open-transaction", 1,
    ),
    "a timestamp in the future": (opened(batch(1, timestamp=NOW_MS + 1)), "open-transaction", 0),
}  # fmt: skip
"""Batches; the code of the only finding, "" for none, and its offset."""


@pytest.mark.parametrize("name", LOGS)
def test_sequences_epochs_and_transactions(tmp_path: Path, name: str) -> None:
    batches, code, offset = LOGS[name]
    found = findings(log_of(tmp_path, batches))
    expected = [(code, KINDS[code].severity, offset)] if code else []
    assert [(finding.code, finding.severity, finding.offset) for finding in found] == expected


@pytest.mark.parametrize(("offset", "told"), [(5, []), (1, ["producer-sequence-gap"])])
def test_sequences_have_gaps_where_offsets_have_and_if_compacted(offset: int, told: list[str], tmp_path: Path) -> None:
    """The rule for batches tells of missing offsets."""
    log = log_of(tmp_path, [batch(0, 7, sequence=0), batch(offset, 7, sequence=5)])
    assert codes(findings(log)) == told
    assert findings(log, broker=BrokerState(is_compacted=True)) == []


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [(2, b"\0\0\0\0\0\0", "of type 2"), (0, b"", "of type 0"), (None, b"\0\0\0\0\0\0", "cannot be read")],
)
def test_a_control_record_that_is_no_marker_is_found(tmp_path: Path, kind: int | None, value: bytes, told: str) -> None:
    good = marker(0, COMMIT, 7)
    key = b"" if kind is None else b"\0\0" + kind.to_bytes(2, "big")
    body = b"\0\0\0" + bytes([2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    bad = sealed(1, 48, 1, START_MS, 7, 0, -1, bytes([2 * len(body)]) + body, 0)
    found = findings(log_of(tmp_path, [good, bad]))
    assert [(finding.code, finding.severity, finding.offset) for finding in found] == [("bad-control-record", ERROR, 1)]
    assert told in found[0].message


def test_an_open_transaction_is_told_where_it_begins(tmp_path: Path) -> None:
    """In the segment, and at the byte, of its first batch."""
    first = batch(0, 8)
    log = log_of(tmp_path, [first, batch(1, 7, transactional=True)], [batch(2, 7, 0, 1, transactional=True)])
    (log / f"{2:020}.snapshot").write_bytes((OPEN / "00000000000000000062.snapshot").read_bytes()[:10])
    found = next(finding for finding in findings(log) if finding.code == "open-transaction")
    assert (Path(found.file).name, found.position, found.offset) == (f"{0:020}.log", len(first), 1)


def test_the_end_of_a_transaction_may_lie_in_damage(tmp_path: Path) -> None:
    log = log_of(tmp_path, opened(b"\1" * 200, batch(2, timestamp=START_MS + HOUR_MS)))
    (found,) = findings(log)
    assert found.code == "open-transaction"
    assert found.message.endswith("its end may be in damaged bytes")


def test_one_segment_alone_tells_nothing_about_the_end_of_the_log() -> None:
    assert findings(OPEN, names=["00000000000000000000.log"]) == []


def test_a_log_that_grows_meanwhile(tmp_path: Path) -> None:
    """The side files are those of a log that has gone on since its segments were read."""
    copied = copy_of(TRANSACTIONS, tmp_path)
    last = copied / f"{154:020}.log"
    whole = last.read_bytes()
    (copied / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 190\n")
    cut = {"producer-snapshot-beyond-end", "leader-epochs-beyond-end", "transaction-index-wrong-entry"}
    last.write_bytes(batches_of(whole)[0])
    assert cut <= set(codes(findings(copied)))
    assert cut & set(codes(findings(copied, progress=lambda _: last.write_bytes(whole)))) == set()


def test_control_batches_that_end_no_transaction(tmp_path: Path) -> None:
    """Also where no producer wrote them, where records are compressed, and where the count is none: a broker dies, or
    consumers pass over what was data."""
    data = [batch(0, 5), batch(1), batch(2, 5, sequence=1), batch(3, 5, sequence=2)]
    for number, attributes in ((1, 32), (2, 32 | 1)):
        data[number] = resealed(data[number], 21, struct.pack(">h", attributes))
    data[3] = resealed(resealed(data[3], 21, struct.pack(">h", 48)), 57, struct.pack(">i", -1))
    found = [finding for finding in findings(log_of(tmp_path, data)) if finding.code == "bad-control-record"]
    assert [finding.offset for finding in found] == [1, 2, 3]
    assert "consumers skip its records" in found[0].message
