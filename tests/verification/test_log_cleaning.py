"""What the log cleaner would meet in a compacted partition."""

from pathlib import Path

import pytest

from kseg.segment.survey import DEEP, FULL
from verification.log_directories import check, checkpoint, copied, kraft


def compacted(tmp_path: Path) -> Path:
    """A partition that the cleaner has worked on, as its checkpoint says."""
    logs = copied(tmp_path)
    (logs / "cleaner-offset-checkpoint").write_text(checkpoint("dplain 0 46"))
    return logs / "dplain-0"


def damage(path: Path, position: int, data: bytes) -> None:
    bytes_ = bytearray(path.read_bytes())
    bytes_[position : position + len(data)] = data
    path.write_bytes(bytes_)


def test_damage_that_stops_the_cleaner(tmp_path: Path) -> None:
    folder = compacted(tmp_path)
    path = folder / f"{46:020}.log"
    path.write_bytes(path.read_bytes() + bytes(4096))
    found = check(folder).one("cleaner-blocked")
    assert (found.file, found.position, found.severity) == (str(path), 13340, "warning")


def test_damage_that_the_cleaner_would_hide(tmp_path: Path) -> None:
    folder = compacted(tmp_path)
    damage(folder / f"{46:020}.log", 9312 + 100, b"\xff")
    found = check(folder).one("cleaner-hides-damage")
    assert (found.position, found.length, found.offset) == (9312, 2370, 57)
    assert found.message.startswith("the first batch of this segment with a wrong checksum")


def test_the_cleaner_does_not_touch_the_active_segment(tmp_path: Path) -> None:
    folder = compacted(tmp_path)
    damage(folder / f"{116:020}.log", 7129 + 100, b"\xff")
    found = check(folder)
    assert "crc-mismatch" in found.codes
    assert "cleaner-hides-damage" not in found.codes


def test_nothing_is_said_where_no_cleaner_works(tmp_path: Path) -> None:
    folder = copied(tmp_path) / "dplain-0"
    path = folder / f"{46:020}.log"
    path.write_bytes(path.read_bytes() + bytes(4096))
    assert not {"cleaner-blocked", "record-without-key"} & set(check(folder, DEEP).codes)


def test_records_without_a_key(tmp_path: Path) -> None:
    """dplain was never compacted: a topic whose policy is changed later is like this."""
    folder = compacted(tmp_path)
    assert "record-without-key" not in check(folder, FULL).codes, "only records tell"
    found = check(folder, DEEP)
    shown = [finding for finding in found.findings if finding.code == "record-without-key"]
    assert [Path(finding.file).name[:20] for finding in shown] == [f"{base:020}" for base in (0, 46, 76)]
    assert found.report.totals.codes["record-without-key"] > len(shown), "one is shown for a segment, all are counted"


@pytest.mark.parametrize("partition", ["__consumer_offsets-0", "__transaction_state-0"])
def test_compacted_partitions_of_a_broker_are_clean(tmp_path: Path, partition: str) -> None:
    logs = kraft(tmp_path, partition)
    assert check(logs, DEEP).serious == []
