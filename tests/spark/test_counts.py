"""Mode counts counts the records of mode records, without their bytes."""

from pathlib import Path
from typing import Any

import pytest

from kseg.errors import KsegError
from spark.reading import rows_of

TESTDATA = Path(__file__).resolve().parent.parent.parent / "testdata"
TRANSACTIONS = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
SMALL = sorted({path.parent for path in TESTDATA.glob("kafka-*/*/*-0/*.log") if path.stat().st_size < 1 << 18})
PARTITIONS = SMALL[:: len(SMALL) // 30]
pytestmark = pytest.mark.spark


def assert_equal(paths: list[Path], **options: str) -> int:
    records = rows_of(*paths, columns=["topic", "partition", "offset"], **options)
    counts = rows_of(*paths, mode="counts", **options)
    places = {(row["topic"], row["partition"]) for row in records}
    assert places == {(row["topic"], row["partition"]) for row in counts}
    for place in places:
        offsets = [row["offset"] for row in records if (row["topic"], row["partition"]) == place]
        found = [row for row in counts if (row["topic"], row["partition"]) == place]
        assert sum(row["count"] for row in found) == len(offsets)
        assert min(row["firstOffset"] for row in found) == min(offsets)
        assert max(row["lastOffset"] for row in found) == max(offsets)
    return len(records)


@pytest.mark.parametrize("options", [{}, {"splitBytes": "3k"}], ids=["whole", "split"])
def test_counts_are_those_of_the_records(options: dict[str, str]) -> None:
    assert len({path.parent.parent for path in PARTITIONS}) > 5  # of several releases
    assert assert_equal(PARTITIONS, **options) > 300


@pytest.mark.parametrize(
    "options",
    [
        {"startOffset": "3", "endOffset": "9"},
        {"startTimestamp": "2000-01-01", "endTimestamp": "2100-01-01"},
        {"isolation": "read_committed"},
        {"isolation": "read_committed", "splitBytes": "1k", "startOffset": "4"},
    ],
    ids=str,
)
def test_options_of_records_hold(options: dict[str, Any]) -> None:
    assert assert_equal([TRANSACTIONS], **options) > 0


def test_damage_is_left_out_or_ends_the_query(tmp_path: Path) -> None:
    (log,) = sorted((TESTDATA / "kafka-4.3.1/clients/librdkafka-gzip-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[40] ^= 1
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / log.name).write_bytes(data)
    assert assert_equal([tmp_path / "orders-0"]) < len(rows_of(log))
    with pytest.raises(KsegError, match="crc-mismatch"):
        rows_of(tmp_path / "orders-0", mode="counts", onDamage="fail")
