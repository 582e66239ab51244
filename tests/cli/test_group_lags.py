"""Where groups stand: coordinators by the partitions that real brokers chose, records in a lag, share groups."""

import pytest

from cli.command import TESTDATA, Kseg
from kseg import open as open_log
from kseg.sidefiles.hash_order import coordinator_partition

COMMITTED = TESTDATA / "kafka-4.3.1" / "committed"
SHARED = TESTDATA / "kafka-4.3.1" / "internal"
LIST = ("groups", "--format", "json")


def test_brokers_write_where_the_coordinator_reads(kseg: Kseg) -> None:
    found = {(row["group"], row["offsetsPartition"]) for row in kseg(*LIST, COMMITTED).of_type("committedOffset")}
    assert {partition for _, partition in found} == {0, 1}
    assert {(group, coordinator_partition(group, 2)) for group, _ in found} == found


@pytest.mark.parametrize(
    ("group", "partition"), [("", 0), ("a", 47), ("\U0001f600", 49), ("billing", 9), ("polygenelubricants", 0)]
)
def test_a_coordinator_is_chosen_as_kafka_chooses_it(group: str, partition: int) -> None:
    """As Utils.abs(group.hashCode()) % 50 of Kafka: the last two hashes are -109829509 and -2^31."""
    assert coordinator_partition(group, 50) == partition


def test_records_in_a_lag_are_those_that_can_be_read(kseg: Kseg) -> None:
    rows = [row for row in kseg(*LIST, COMMITTED).of_type("committedOffset") if row["lag"]]
    assert rows
    for row in rows:
        first = max(row["offset"], row["logStartOffset"])
        log = open_log(COMMITTED / f"{row['topic']}-{row['partition']}")
        assert row["lagRecords"] == len(list(log.records(offsets=(first, None))))


def test_share_groups_have_a_row_for_each_partition(kseg: Kseg) -> None:
    rows = kseg(*LIST, SHARED).of_type("shareGroupOffset")
    wanted: dict[tuple[str, str, int], int] = {}
    dumped = kseg("dump", "--print-data-log", "--decode", "auto", "--format", "json", SHARED / "__share_group_state-0")
    for row in dumped.of_type("record"):
        key = row["key"]["data"]
        start = -1 if row["value"] is None else row["value"]["data"].get("startOffset", -1)
        if start >= 0:
            wanted[key["groupId"], key["topicId"], key["partition"]] = start
    assert wanted
    assert {(row["group"], row["topicId"], row["partition"]): row["startOffset"] for row in rows} == wanted
    assert {row["topic"] for row in rows} == {"g-in"}  # by the metadata log: its partitions are not here
    assert "share group share-0: g-in-0 from" in kseg("groups", SHARED).out.decode()


def test_share_groups_are_those_of_the_time(kseg: Kseg) -> None:
    """Offsets are those of another topic."""
    state = SHARED / "__share_group_state-0"
    records = kseg("dump", "--deep-iteration", "--format", "json", state).of_type("record")
    last = sorted(row["timestamp"] for row in records)[0]
    rows = kseg(*LIST, "--time", f"..{last}", SHARED).of_type("shareGroupOffset")
    assert {row["recordOffset"] for row in rows} == {row["offset"] for row in records if row["timestamp"] <= last}
    assert not kseg(*LIST, "--offsets", "..99", SHARED).of_type("shareGroupOffset")
