"""The good offsets before and behind a batch with something wrong: what a consumer can seek to."""

from pathlib import Path
from typing import Any

import pytest

from kseg.segment.survey import DEEP, FULL
from kseg.verification.partition import CheckSettings
from kseg.verification.run import judge_path
from verification.made import batch_of, of_records, plain_record
from verification.partitions import Found, sealed


def undecodable(first: int) -> bytes:
    """A batch of two offsets whose records make no sense, under a right checksum."""
    batch = bytearray(batch_of(range(first, first + 2)))
    batch[61] = 0xFF
    return sealed(bytes(batch))


def facts(folder: Path, *segments: bytes, level: int = DEEP, bases: tuple[int, ...] = (0,)) -> dict[int, Any]:
    """By the first offset of a finding: the last good offset before it and the next one behind it."""
    for base, data in zip(bases, segments, strict=True):
        (folder / f"{base:020}.log").write_bytes(data)
    found = Found()
    judge_path(str(folder), CheckSettings(level, 10**13), found.report, lambda _: None)
    return {
        finding.details["firstOffset"]: (finding.details["lastGoodOffset"], finding.details["nextGoodOffset"])
        for finding in found.findings
        if finding.code in ("undecodable-records", "crc-mismatch", "count-mismatch")
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "a-0"
    made.mkdir()
    return made


def test_an_undecodable_batch_lies_between_good_ones(folder: Path) -> None:
    data = batch_of(range(3)) + undecodable(3) + batch_of(range(5, 7))
    assert facts(folder, data) == {3: (2, 5)}


def test_several_in_a_row_share_their_good_neighbours(folder: Path) -> None:
    data = batch_of(range(3)) + undecodable(3) + undecodable(5) + undecodable(7) + batch_of(range(9, 12))
    assert facts(folder, data) == {3: (2, 9), 5: (2, 9), 7: (2, 9)}


def test_at_the_ends_of_a_log_there_is_none(folder: Path) -> None:
    data = undecodable(0) + batch_of(range(2, 4)) + undecodable(4)
    assert facts(folder, data) == {0: (None, 2), 4: (3, None)}


def test_they_lie_in_other_segments_too(folder: Path) -> None:
    first, second = batch_of(range(3)) + undecodable(3), undecodable(5) + batch_of(range(7, 9))
    assert facts(folder, first, second, bases=(0, 5)) == {3: (2, 7), 5: (2, 7)}


def test_a_batch_with_a_wrong_checksum_in_the_next_segment(folder: Path) -> None:
    bad = bytearray(batch_of(range(3, 5)))
    bad[-1] ^= 1
    data = batch_of(range(3)), bytes(bad) + batch_of(range(5, 7))
    for level in (FULL, DEEP):
        assert facts(folder, *data, bases=(0, 3), level=level) == {3: (2, 5)}


def test_a_batch_with_a_wrong_checksum_is_not_good(folder: Path) -> None:
    bad = bytearray(batch_of(range(3, 5)))
    bad[-1] ^= 1
    data = batch_of(range(3)) + bytes(bad) + undecodable(5) + batch_of(range(7, 9))
    assert facts(folder, data) == {3: (2, 7), 5: (2, 7)}


def test_a_batch_that_is_only_odd_is_good(folder: Path) -> None:
    odd = bytearray(of_records([plain_record(0, attributes=1)], 0))
    odd[:8] = (2).to_bytes(8, "big")
    data = batch_of(range(2)) + bytes(odd) + undecodable(3) + batch_of(range(5, 6))
    assert facts(folder, data) == {3: (2, 5)}


def test_damage_beside_it(folder: Path) -> None:
    data = batch_of(range(3)) + undecodable(3) + bytes(200) + undecodable(5) + batch_of(range(7, 9))
    assert facts(folder, data) == {3: (2, 7), 5: (2, 7)}


def test_a_wrong_count_at_each_level(folder: Path) -> None:
    many = bytearray(batch_of(range(3, 5)))
    many[57:61] = (9).to_bytes(4, "big")
    data = batch_of(range(3)) + sealed(bytes(many)) + batch_of(range(5, 7))
    for level in (FULL, DEEP):
        assert facts(folder, data, level=level) == {3: (2, 5)}
