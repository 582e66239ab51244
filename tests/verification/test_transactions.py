"""Sequences, epochs and transactions of producers: nothing in what brokers wrote, each break found where it is."""

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kseg.findings.table import ERROR, INFO, KINDS, WARNING
from kseg.kernel.scan.checksums import crc32c
from kseg.logdir.log_directory import BrokerState
from kseg.segment.survey import DEEP, FULL, QUICK
from verification.producer_cases import (
    ABORT,
    COMMIT,
    NOW_MS,
    START_MS,
    TESTDATA,
    TRANSACTIONS,
    batch,
    codes,
    copy_of,
    findings,
    log_of,
    marker,
    real_partitions,
    sealed,
)

HOUR_MS = 3600 * 1000
OPEN = TESTDATA / "kafka-1.1.1" / "txn" / "txn-open-0"


@pytest.mark.parametrize("level", [QUICK, FULL, DEEP])
@pytest.mark.parametrize("partition", real_partitions(), ids=lambda path: "/".join(path.parts[-3:]))
def test_nothing_is_wrong_with_what_brokers_wrote(partition: Path, level: int) -> None:
    """0.11 to 4.3.1, compacted or not: their snapshots, transaction indexes and epochs agree with the replay."""
    assert [finding for finding in findings(partition, level) if finding.severity != INFO] == []


def test_a_transaction_that_is_open_is_told() -> None:
    (found,) = findings(OPEN)
    assert (found.code, found.severity, found.offset) == ("open-transaction", INFO, 44)
    assert "producer 13 epoch 0, batches: 2" in found.message
    assert findings(OPEN, QUICK) == []


def test_a_gap_in_the_sequences_is_found(tmp_path: Path) -> None:
    first, second = batch(0, 7, sequence=0, count=3), batch(3, 7, sequence=5)
    (found,) = findings(log_of(tmp_path, [first, second]))
    assert (found.code, found.severity) == ("producer-sequence-gap", WARNING)
    assert (found.position, found.length, found.offset) == (len(first), len(second), 3)
    assert "sequence 5 where 3 is next" in found.message


def test_a_sequence_that_comes_again_is_found(tmp_path: Path) -> None:
    log = log_of(tmp_path, [batch(0, 7, sequence=1), batch(1, 7, sequence=2), batch(2, 7, sequence=1)])
    assert codes(findings(log)) == ["producer-sequence-gap"]


def test_a_new_epoch_begins_at_sequence_zero(tmp_path: Path) -> None:
    log = log_of(tmp_path, [batch(0, 7, 0, 5), batch(1, 7, 1, 0), batch(2, 7, 2, 3)])
    assert [(finding.code, finding.offset) for finding in findings(log)] == [("producer-sequence-gap", 2)]


def test_sequences_go_round(tmp_path: Path) -> None:
    last = (1 << 31) - 1
    log = log_of(tmp_path, [batch(0, 7, sequence=last - 1, count=2), batch(2, 7, sequence=0)])
    assert findings(log) == []


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([batch(0, 7, sequence=9), batch(1, 7, sequence=10)], id="the first that is left"),
        pytest.param(
            [batch(0, 7, sequence=0), batch(1, 7, sequence=5, timestamp=START_MS + 24 * HOUR_MS)], id="forgotten"
        ),
        pytest.param(
            [batch(0, 7, sequence=4), batch(1, 7, sequence=0)], id="begun anew after its records were deleted"
        ),
        pytest.param([batch(0, 7, sequence=-1), batch(1, 7, sequence=-1)], id="offset commits have none"),
        pytest.param([batch(0, 7, 0, 0), batch(1, 8, 0, 0), batch(2, 7, 0, 1), batch(3, 8, 0, 1)], id="two by turns"),
    ],
)
def test_sequences_that_brokers_accept(tmp_path: Path, batches: list[bytes]) -> None:
    assert findings(log_of(tmp_path, batches)) == []


def test_sequences_have_gaps_where_offsets_have(tmp_path: Path) -> None:
    """Which the rule for batches tells."""
    log = log_of(tmp_path, [batch(0, 7, sequence=0), batch(5, 7, sequence=5)])
    assert findings(log) == []
    assert findings(log, broker=BrokerState(is_compacted=True)) == []


def test_sequences_of_a_compacted_log_have_gaps(tmp_path: Path) -> None:
    log = log_of(tmp_path, [batch(0, 7, sequence=0), batch(1, 7, sequence=5)])
    assert codes(findings(log)) == ["producer-sequence-gap"]
    assert findings(log, broker=BrokerState(is_compacted=True)) == []


def test_what_damage_hides_is_no_gap(tmp_path: Path) -> None:
    lost = bytearray(batch(1, 7, sequence=1))
    lost[-1] ^= 1
    log = log_of(tmp_path, [batch(0, 7, sequence=0), bytes(lost), marker(2, COMMIT, 7), batch(3, 7, sequence=2)])
    assert findings(log) == []


def test_an_epoch_that_falls_is_found(tmp_path: Path) -> None:
    log = log_of(tmp_path, [batch(0, 7, 3), batch(1, 7, 2), marker(2, ABORT, 8, 4), marker(3, ABORT, 8, 3)])
    found = findings(log)
    assert [(finding.code, finding.severity, finding.offset) for finding in found] == [
        ("producer-epoch-falls", WARNING, 1),
        ("producer-epoch-falls", WARNING, 3),
    ]
    assert "epoch 2 of a batch follows 3" in found[0].message
    assert "epoch 3 of a marker follows 4" in found[1].message


def test_a_marker_of_an_older_coordinator_is_found(tmp_path: Path) -> None:
    log = log_of(tmp_path, [marker(0, COMMIT, 7, 0, 5), marker(1, COMMIT, 7, 0, 4)])
    assert [(finding.code, finding.offset) for finding in findings(log)] == [("coordinator-epoch-falls", 1)]


def test_a_batch_outside_the_open_transaction_is_found(tmp_path: Path) -> None:
    log = log_of(tmp_path, [batch(0, 7, transactional=True), batch(1, 7, sequence=1), marker(2, COMMIT, 7)])
    (found,) = findings(log)
    assert (found.code, found.severity, found.offset) == ("batch-outside-transaction", ERROR, 1)


def test_a_later_epoch_in_an_open_transaction_is_found(tmp_path: Path) -> None:
    batches = [batch(0, 7, transactional=True), batch(1, 7, 1, transactional=True), marker(2, COMMIT, 7, 1)]
    (found,) = findings(log_of(tmp_path, batches))
    assert (found.code, found.severity, found.offset) == ("hanging-transaction", WARNING, 1)
    assert "epoch 1 writes, and no marker has ended the transaction of epoch 0 that began at 0" in found.message


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


def test_a_control_batch_without_records_says_nothing(tmp_path: Path) -> None:
    """So a cleaner leaves it; ProducerAppendInfo passes over it."""
    empty = sealed(1, 48, 0, START_MS, 7, 5, -1, b"", 0)
    assert findings(log_of(tmp_path, [batch(0, 7, 0), empty, batch(2, 7, 0, 1)])) == []


def opened(*later: bytes) -> list[bytes]:
    return [batch(0, 7, transactional=True), *later]


@pytest.mark.parametrize(
    ("batches", "code"),
    [
        pytest.param(opened(), "open-transaction", id="alone"),
        pytest.param(opened(batch(1, timestamp=START_MS + HOUR_MS)), "hanging-transaction", id="by producers"),
        pytest.param(
            opened(marker(1, COMMIT, 8), marker(2, COMMIT, 8, timestamp=START_MS + HOUR_MS)),
            "hanging-transaction",
            id="by brokers",
        ),
        pytest.param(
            opened(marker(1, COMMIT, 8), batch(2, timestamp=START_MS + HOUR_MS), marker(3, COMMIT, 8)),
            "open-transaction",
            id="the clock of brokers is the better one",
        ),
        pytest.param(
            [
                marker(0, COMMIT, 8, timestamp=START_MS + 9 * HOUR_MS),
                batch(1, 7, transactional=True),
                batch(2, timestamp=START_MS + HOUR_MS),
            ],
            "open-transaction",
            id="timestamps that are no clock",
        ),
        pytest.param(opened(batch(1, timestamp=NOW_MS + 1)), "open-transaction", id="a timestamp in the future"),
    ],
)
def test_a_transaction_that_is_open_for_long_is_hanging(tmp_path: Path, batches: list[bytes], code: str) -> None:
    (found,) = findings(log_of(tmp_path, batches))
    assert found.code == code
    assert found.severity == KINDS[code].severity


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


def test_there_may_be_more_producers_than_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.sidefiles.producer_state.MAX_PRODUCERS", 16)
    log = log_of(tmp_path, [batch(offset, offset) for offset in range(20)])
    (found,) = findings(log)
    assert (found.code, found.severity) == ("too-many-producers", INFO)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_raises(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Bytes of logs and side files changed at random, files cut and removed."""
    copied = copy_of(TRANSACTIONS, tmp_path_factory.mktemp("damaged"))
    files = sorted(path for path in copied.iterdir() if path.stat().st_size)
    for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=4, unique=True)):
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(content) - 1))
            content[at] = data.draw(st.integers(0, 255))
        size = data.draw(st.integers(0, 2 * len(content)))
        path.write_bytes(content[:size]) if size else path.unlink()
    for finding in findings(copied) if any(path.suffix == ".log" for path in copied.iterdir()) else []:
        assert finding.code in KINDS


def test_a_log_that_grows_meanwhile(tmp_path: Path) -> None:
    """The side files are those of a log that has gone on since its segments were read."""
    copied = copy_of(TRANSACTIONS, tmp_path)
    last = copied / f"{154:020}.log"
    whole = last.read_bytes()
    (copied / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 190\n")
    cut = {"producer-snapshot-beyond-end", "leader-epochs-beyond-end", "transaction-index-wrong-entry"}
    last.write_bytes(whole[: 12 + int.from_bytes(whole[8:12], "big")])
    assert cut <= set(codes(findings(copied)))
    assert cut & set(codes(findings(copied, progress=lambda _: last.write_bytes(whole)))) == set()


def test_control_batches_that_end_no_transaction(tmp_path: Path) -> None:
    """Also where no producer wrote them, where records are compressed, and where the count is none: a broker dies, or
    consumers pass over what was data."""
    data = [batch(0, 5), batch(1), batch(2, 5, sequence=1), batch(3, 5, sequence=2)]
    for number, attributes in ((1, 32), (2, 32 | 1)):
        data[number] = resealed(data[number], 21, ">h", attributes)
    data[3] = resealed(resealed(data[3], 21, ">h", 48), 57, ">i", -1)
    found = [finding for finding in findings(log_of(tmp_path, data)) if finding.code == "bad-control-record"]
    assert [finding.offset for finding in found] == [1, 2, 3]
    assert "consumers skip its records" in found[0].message


def resealed(data: bytes, at: int, form: str, value: int) -> bytes:
    """A batch with another field, and the checksum that it then has."""
    data = data[:at] + struct.pack(form, value) + data[at + struct.calcsize(form) :]
    return data[:17] + struct.pack(">I", crc32c(data[21:], 0)) + data[21:]
