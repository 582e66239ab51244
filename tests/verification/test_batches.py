"""Offsets and timestamps of batches: wrong ones are reported once, at the batch."""

import shutil
import struct
from pathlib import Path

import pytest

from kseg.segment.survey import DEEP, FULL
from kseg.verification.partition import CheckSettings
from kseg.verification.report import Finding, Report
from kseg.verification.run import judge_path
from verification.log_directories import TESTDATA, check
from verification.made import batch_of, of_records, plain_record
from verification.partitions import spans

OLD = TESTDATA / "kafka-0.8.2.2" / "codecs"
DAY_MS = 24 * 3600 * 1000


def with_offset(place: Path, target: Path, number: int, offset: int) -> tuple[Path, int, int]:
    """A copy of a partition with another offset in a batch of its first segment; position and size of that."""
    folder = Path(shutil.copytree(place, target / place.name))
    path = folder / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    position, size = spans(bytes(data))[number]
    struct.pack_into(">q", data, position, offset)
    path.write_bytes(data)
    return folder, position, size


@pytest.mark.parametrize("offset", [-1, 0, 1 << 40, 3000])
@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy"])
def test_the_offset_of_a_compressed_set_whose_own_are_right(tmp_path: Path, codec: str, offset: int) -> None:
    """v0: the offsets inside are Kafka's own, and the checksum covers them."""
    folder, position, size = with_offset(OLD / f"one-{codec}-0", tmp_path, 2, offset)
    found = check(folder, DEEP)
    assert found.serious == ["wrong-base-offset"]
    wrong = found.one("wrong-base-offset")
    assert (wrong.position, wrong.length, wrong.offset) == (position, size, offset if offset >= 0 else wrong.offset)


def test_a_segment_that_reaches_into_the_next_one(tmp_path: Path) -> None:
    """The batch that does so is told, and nothing of the segments behind."""
    folder = tmp_path / "made-0"
    folder.mkdir()
    far = (500).to_bytes(8, "big") + batch_of(range(3, 6))[8:]
    for base, data in ((0, batch_of(range(3)) + far), (6, batch_of(range(6, 9))), (9, batch_of([9])), (10, b"")):
        (folder / f"{base:020}.log").write_bytes(data)
    found = check(folder, FULL)
    overlap = found.one("segments-overlap")
    first = len(batch_of(range(3)))
    assert (Path(overlap.file).name, overlap.position, overlap.length) == (f"{0:020}.log", first, len(far))
    assert (overlap.offset, "next segment begins at 6" in overlap.message) == (502, True)
    assert set(found.codes) == {"segments-overlap", "gap-unexplained"}


@pytest.mark.parametrize(("ahead_ms", "codes"), [(DAY_MS, []), (DAY_MS + 1, ["future-timestamp"])])
def test_a_timestamp_may_be_a_day_ahead(ahead_ms: int, codes: list[str], tmp_path: Path) -> None:
    """Clocks differ, also by a time zone."""
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(of_records([plain_record(0)], 0, max_timestamp=10 * DAY_MS + ahead_ms))
    found: list[Finding] = []
    judge_path(str(path), CheckSettings(FULL, 10 * DAY_MS, 1), Report(found.append), lambda _: None)
    shown = [finding for finding in found if finding.severity == "warning"]
    assert [finding.code for finding in shown] == codes
    assert all(finding.message.endswith(" is 1 d 0 h ahead of the current time") for finding in shown)


def test_a_timestamp_in_microseconds_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(of_records([plain_record(0)], 0, max_timestamp=1_790_000_000_000_000))
    found: list[Finding] = []
    judge_path(str(path), CheckSettings(FULL, 1_790_000_000_000, 1), Report(found.append), lambda _: None)
    (shown,) = [finding for finding in found if finding.code == "future-timestamp"]
    assert shown.message.endswith("; in microseconds it would be 2026-09-21T14:13:20.000Z")
