"""What a load knows of producers where bytes below the recovery point, offsets or markers are not as they should be.

The expected results are those of Kafka's own loader (UnifiedLog.create of 4.3.1) on the same directories.
"""

import struct
from pathlib import Path

import pytest

from cli.command import flip
from kseg.kernel.scan.checksums import crc32c
from kseg.recovery.workspace import BrokerRefusesError
from kseg.sidefiles.problems import entries_of
from kseg.sidefiles.producer_state import ProducerStateEntry, read_producer_snapshot
from recovery.partitions import recover
from segment.segments import sealed as resealed
from verification.producer_cases import START_MS, batch, log_of, marker, record, sealed

ABORT, COMMIT = 0, 1
NOW_MS = START_MS + 1000


def recovered(place: Path, *segments: list[bytes]) -> Path:
    partition = log_of(place, *segments)
    recover(partition, now_ms=NOW_MS)
    return partition


def producers(partition: Path, offset: int) -> dict[int, ProducerStateEntry]:
    data = (partition / f"{offset:020d}.snapshot").read_bytes()
    return {entry.producer_id: entry for entry in entries_of(read_producer_snapshot(data))}


def test_a_segment_is_replayed_to_its_end_where_the_next_name_cuts_through_it(tmp_path: Path) -> None:
    """The broker looks for the end of a replay in the segment of that name only."""
    partition = log_of(tmp_path, [batch(0, 5), batch(1, 6), batch(2, 7)], [batch(3, 8)])
    (partition / f"{1:020d}.log").write_bytes(b"")
    recover(partition, now_ms=NOW_MS)
    assert set(producers(partition, 1)) == {5, 6, 7}
    assert set(producers(partition, 4)) == {5, 6, 7, 8}


def test_a_batch_that_ends_before_it_begins_counts_for_its_producer(tmp_path: Path) -> None:
    odd = resealed(batch(4, 9, sequence=3), 23, struct.pack(">i", -1))
    partition = recovered(tmp_path, [batch(0, 5, count=4), odd])
    found = producers(partition, 4)[9]
    assert (found.last_offset, found.offset_delta, found.last_sequence) == (3, -1, -2147483646)


def test_an_empty_control_batch_makes_its_producer_known(tmp_path: Path) -> None:
    """What is left of a marker whose transaction was cleaned away."""
    partition = recovered(tmp_path, [batch(0, 5), sealed(1, 48, 0, START_MS, 6, 2, -1, b"", 0)])
    assert producers(partition, 2)[6] == ProducerStateEntry(6, -1, -1, -1, 0, -1, -1, -1)


def test_the_timestamp_of_a_marker_is_that_of_its_record(tmp_path: Path) -> None:
    odd = resealed(marker(1, COMMIT, 5), 35, struct.pack(">q", -5))
    partition = recovered(tmp_path, [batch(0, 5, transactional=True), odd])
    assert producers(partition, 2)[5].timestamp == START_MS


BAD_MARKERS = {
    "type": (marker(1, 5, 6), "its type is 5"),
    "count": (resealed(marker(1, COMMIT, 6), 57, struct.pack(">i", -1)), "it counts -1 records"),
    "key": (sealed(1, 48, 1, START_MS, 6, 0, -1, record(0, b"\0", b"x" * 6), 0), "a key of 1 bytes"),
    "value": (sealed(1, 48, 1, START_MS, 6, 0, -1, record(0, b"\0\0\0\1", b"\0"), 0), "ends too early"),
    "data under a control bit": (resealed(batch(1, 6), 21, struct.pack(">h", 32)), "a key of 3 bytes"),
}


TWO_BEGUN = [batch(0, 5, transactional=True), batch(1, 6, transactional=True)]
STOPPING = {
    **{name: ([batch(0, 5), data, batch(2, 5, sequence=1)], why) for name, (data, why) in BAD_MARKERS.items()},
    "data outside of a transaction, behind offsets that fall": (
        [batch(0, 8), batch(10, 5, transactional=True), batch(3, 7), batch(11, 5, sequence=1)],
        "outside of its open transaction",
    ),
    "transactions that begin at one offset": (
        [batch(4, 5, transactional=True), batch(4, 6, transactional=True), marker(5, COMMIT, 5), marker(6, COMMIT, 6)],
        "begins at offset 4, where another one does",
    ),
    **{  # the transaction index takes rising last offsets alone
        f"aborts at 3 and {second}": (
            [*TWO_BEGUN, marker(3, ABORT, 5), marker(second, ABORT, 6)],
            f"marker at offset {second} aborts a transaction behind that at offset 3",
        )
        for second in (2, 3)
    },
}


@pytest.mark.parametrize("name", STOPPING)
def test_what_stops_a_broker_is_refused(tmp_path: Path, name: str) -> None:
    batches, why = STOPPING[name]
    with pytest.raises(BrokerRefusesError, match=why):
        recover(log_of(tmp_path, batches), now_ms=NOW_MS)


def test_a_segment_that_lost_its_index_is_cut_behind_a_marker_that_cannot_be_read(tmp_path: Path) -> None:
    """After a clean stop only that segment is scanned, and no replay comes to the marker again."""
    bad = BAD_MARKERS["count"][0]
    partition = log_of(tmp_path, [batch(0, 5), bad, batch(2, 5, sequence=1)], [batch(3, 7)])
    (partition / f"{0:020d}.index").unlink()
    (partition / f"{4:020d}.snapshot").write_bytes(b"\0\1" + struct.pack(">I", crc32c(bytes(4), 0)) + bytes(4))
    recover(partition, now_ms=NOW_MS, was_clean=True)
    assert (partition / f"{0:020d}.log").read_bytes() == batch(0, 5) + bad
    assert (partition / f"{3:020d}.log").read_bytes() == batch(3, 7)


def test_a_replay_that_comes_to_no_batch_stops_a_broker_and_a_scan_of_all_mends_it(tmp_path: Path) -> None:
    partition = recovered(tmp_path, [batch(at, 5, sequence=at) for at in range(8)], [batch(8, 6)])
    for path in partition.glob("*.snapshot"):
        path.unlink()
    path = partition / f"{0:020d}.log"
    data = path.read_bytes()
    path.write_bytes(data[:200] + bytes(61) + data[200:])
    with pytest.raises(BrokerRefusesError, match=r"no batch begins at position \d+.*--full"):
        recover(partition, now_ms=NOW_MS, recovery_point=8)
    assert recover(partition, now_ms=NOW_MS).next_offset == 2
    assert set(producers(partition, 2)) == {5}


def test_a_transaction_that_begins_in_damage_stops_a_broker(tmp_path: Path) -> None:
    batches = [batch(0, 5), batch(1, 6, transactional=True), batch(2, 5, sequence=1)]
    partition = recovered(tmp_path, batches, [batch(3, 5, sequence=2)])
    path = partition / f"{0:020d}.log"
    path.write_bytes(bytes(100) + path.read_bytes())
    with pytest.raises(BrokerRefusesError, match="a transaction is open since offset 1, and no batch begins"):
        recover(partition, now_ms=NOW_MS, recovery_point=3)


@pytest.mark.parametrize(
    ("suffix", "content", "next_offset"),
    [
        pytest.param(".index", struct.pack(">ii", 1, -587322267), 2, id="a negative position leads to the beginning"),
        pytest.param(".log", (batch(0, 5) + batch(1, 6))[: len(batch(0, 5)) + 58], 1, id="a batch cut in its header"),
    ],
)
def test_the_end_of_a_log_that_was_stopped_cleanly(
    tmp_path: Path, suffix: str, content: bytes, next_offset: int
) -> None:
    partition = recovered(tmp_path, [batch(0, 5), batch(1, 6)])
    (partition / f"{0:020d}{suffix}").write_bytes(content)
    assert recover(partition, now_ms=NOW_MS, was_clean=True).next_offset == next_offset


def test_a_replay_looks_at_no_checksum(tmp_path: Path) -> None:
    partition = recovered(tmp_path, [batch(0, 5), batch(1, 6), batch(2, 7)], [batch(3, 8)])
    for path in partition.glob("*.snapshot"):
        path.unlink()
    flip(partition / f"{0:020d}.log", -1)
    recover(partition, now_ms=NOW_MS, recovery_point=3)
    assert set(producers(partition, 4)) == {5, 6, 7, 8}


@pytest.mark.parametrize("codec", [0, 3, 6])
def test_a_message_that_a_broker_opens_to_know_its_first_offset(tmp_path: Path, codec: int) -> None:
    """After a clean stop the magic of a v2 batch says 1: its checksum stands for the attributes of a message."""
    damaged = bytearray()
    for timestamp in range(START_MS, START_MS + 999):
        damaged = bytearray(batch(0, 5, timestamp=timestamp))
        if damaged[17] & 7 == codec:
            break
    assert damaged[17] & 7 == codec
    damaged[16] = 1
    partition = log_of(tmp_path, [bytes(damaged), batch(1, 6)])
    if codec:
        with pytest.raises(BrokerRefusesError, match="message at position 0 cannot be opened"):
            recover(partition, now_ms=NOW_MS, was_clean=True)
    else:
        assert recover(partition, now_ms=NOW_MS, was_clean=True).next_offset == 2
    assert recover(partition, now_ms=NOW_MS).next_offset == 0


NO_PRODUCERS = b"\0\1" + struct.pack(">I", crc32c(bytes(4), 0)) + bytes(4)
BEGUN = batch(1, 5, transactional=True)
ENDED_TWICE = {
    "in one read": [[BEGUN, marker(2, COMMIT, 5), BEGUN, marker(2, ABORT, 5)]],
    "of two producers": [[BEGUN, marker(2, COMMIT, 5), batch(1, 6, transactional=True), marker(3, COMMIT, 6)]],
    "by a later read": [[BEGUN, marker(2, COMMIT, 5), BEGUN], [marker(3, COMMIT, 5)]],
}


def after_a_snapshot(place: Path, *segments: list[bytes]) -> Path:
    """A partition that was stopped cleanly and has a snapshot at offset 1 alone."""
    partition = log_of(place, [batch(0, 8)], *segments)
    (partition / f"{1:020d}.snapshot").write_bytes(NO_PRODUCERS)
    return partition


@pytest.mark.parametrize("name", ENDED_TWICE)
def test_transactions_that_begin_at_one_offset_and_end_stop_a_replay(tmp_path: Path, name: str) -> None:
    """A read of a replay ends all transactions behind all of its updates."""
    partition = after_a_snapshot(tmp_path, *ENDED_TWICE[name])
    with pytest.raises(BrokerRefusesError, match="begins at offset 1, where another one does that has ended"):
        recover(partition, now_ms=NOW_MS, was_clean=True)


def test_a_transaction_that_begins_again_and_stays_open_is_taken(tmp_path: Path) -> None:
    partition = after_a_snapshot(tmp_path, [BEGUN, marker(2, COMMIT, 5), BEGUN, batch(3, 7)])
    assert recover(partition, now_ms=NOW_MS, was_clean=True).next_offset == 4


def test_a_producer_keeps_its_last_batch_where_a_read_ends_with_its_epoch(tmp_path: Path) -> None:
    ends = [marker(2, COMMIT, 5, epoch=2), marker(3, COMMIT, 5, epoch=1), batch(4, 7)]
    partition = after_a_snapshot(tmp_path, [batch(1, 5, epoch=1)], ends)
    recover(partition, now_ms=NOW_MS, was_clean=True)
    assert producers(partition, 5)[5].last_offset == 1
