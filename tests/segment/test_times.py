"""Formats of times."""

import pytest

from kseg.segment.times import in_other_unit


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (1_790_000_000_000, ""),
        (4_102_444_800_000, ""),
        (1_790_000_000_000_000, "in microseconds it would be 2026-09-21T14:13:20.000Z"),
        (1_790_000_000_000_000_000, "in nanoseconds it would be 2026-09-21T14:13:20.000Z"),
        (946_684_800_000_000, "in microseconds it would be 2000-01-01T00:00:00.000Z"),
        (946_684_799_999_999, ""),
        (4_102_444_799_999_999, "in microseconds it would be 2099-12-31T23:59:59.999Z"),
        (4_102_444_800_000_000, ""),
        ((1 << 63) - 1, ""),
        (-1, ""),
    ],
)
def test_a_timestamp_in_a_smaller_unit(timestamp: int, text: str) -> None:
    assert in_other_unit(timestamp) == text
