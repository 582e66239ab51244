"""Which header may follow a batch: what its offset and its other fields must be."""

from pathlib import Path

import pytest

from kseg.kernel.scan.frames import continues, offset_continues

LOG = Path(__file__).resolve().parents[3] / "testdata/log-directories/4.3.1/logs/dplain-0/00000000000000000046.log"
HEAD = LOG.read_bytes()[:61]
FIRST = 46


@pytest.mark.parametrize(
    ("offset", "last_offset", "expected"),
    [
        (0, -1, True), (5, -1, True), (-1, -1, False),
        (5, 4, True), (5, 5, False), (5, 6, False),
        ((1 << 31) + 4, 5, True), ((1 << 31) + 5, 5, False),
    ],
)  # fmt: skip
def test_offsets_rise_by_no_more_than_a_batch_can_hold(offset: int, last_offset: int, expected: bool) -> None:
    assert offset_continues(offset, last_offset) is expected


@pytest.mark.parametrize(
    ("last_offset", "expected"), [(-1, True), (0, True), (FIRST - 1, True), (FIRST, False), (FIRST + 1, False)]
)
def test_a_real_header_continues_what_ends_below_it(last_offset: int, expected: bool) -> None:
    assert continues(HEAD, last_offset) is expected
