"""Formats of times."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from kseg.api.arguments import milliseconds_of
from kseg.quantities import in_other_unit, parse_time_expression


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


# Times as people write them.

NOW = 1790000000000  # 2026-09-21 14:13:20 UTC
DAY = 86_400_000
MIDNIGHT = 1789948800000
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("now", NOW, NOW),
        ("-2h", NOW - 2 * 3_600_000, NOW - 2 * 3_600_000),
        ("-15m", NOW - 900_000, NOW - 900_000),
        ("-15min", NOW - 900_000, NOW - 900_000),
        ("-90d", NOW - 90 * DAY, NOW - 90 * DAY),
        ("-1w", NOW - 7 * DAY, NOW - 7 * DAY),
        ("-99999999d", 0, 0),
        ("today", MIDNIGHT, MIDNIGHT + DAY - 1),
        ("yesterday", MIDNIGHT - DAY, MIDNIGHT - 1),
        ("2026-09-21", MIDNIGHT, MIDNIGHT + DAY - 1),
        ("2026-09-21 16:00", MIDNIGHT + 16 * 3_600_000, MIDNIGHT + 16 * 3_600_000 + 59_999),
        ("2026-09-21 16:00:05", MIDNIGHT + 16 * 3_600_000 + 5000, MIDNIGHT + 16 * 3_600_000 + 5000),
        ("2026-09-21T16:00:05.250", MIDNIGHT + 16 * 3_600_000 + 5250, MIDNIGHT + 16 * 3_600_000 + 5250),
        ("2026-09-21 16:00+02:00", MIDNIGHT + 14 * 3_600_000, MIDNIGHT + 14 * 3_600_000 + 59_999),
        ("2026-09-21 16:00 Europe/Berlin", MIDNIGHT + 14 * 3_600_000, MIDNIGHT + 14 * 3_600_000 + 59_999),
        ("2026-09-21 16:00Z", MIDNIGHT + 16 * 3_600_000, MIDNIGHT + 16 * 3_600_000 + 59_999),
        ("2026-09-21T16:00:00Z", MIDNIGHT + 16 * 3_600_000, MIDNIGHT + 16 * 3_600_000),
        ("2026-09-21 16:00:00.5z", MIDNIGHT + 16 * 3_600_000 + 500, MIDNIGHT + 16 * 3_600_000 + 500),
        ("2026-09-21T16:00:00.1239999 Z", MIDNIGHT + 16 * 3_600_000 + 123, MIDNIGHT + 16 * 3_600_000 + 123),
        ("2026-09-21T16:00:00+01:30", MIDNIGHT + 52_200_000, MIDNIGHT + 52_200_000),
        ("2016-12-31T23:59:60Z", 1483228800000, 1483228800000),
        ("2016-12-31T23:59:60.25 +02:00", 1483228800250 - 7_200_000, 1483228800250 - 7_200_000),
        ("1970-01-01", 0, DAY - 1),
        ("1970-01-01+02:00", 0, DAY - 7_200_001),
        ("9999-12-31", 253402214400000, 253402300799999),
        ("9999-12-31-02:00", 253402221600000, 253402307999999),
        ("0", 0, 0),
        ("1790000000000", NOW, NOW),
    ],
)
def test_a_time(text: str, first: int, last: int) -> None:
    assert parse_time_expression(text, NOW, UTC) == (first, last)


def test_what_has_no_zone_is_local() -> None:
    assert parse_time_expression("2026-09-21 16:00", NOW, EAST) == parse_time_expression("2026-09-21 14:00", NOW, UTC)
    assert parse_time_expression("2026-09-21", NOW, EAST) == (MIDNIGHT - 7_200_000, MIDNIGHT + DAY - 7_200_001)
    for second in ("16:00:00", "23:59:60"):
        in_utc = parse_time_expression(f"2026-09-21 {second}", NOW, UTC)
        assert parse_time_expression(f"2026-09-21 {second}Z", NOW, EAST) == in_utc
        assert in_utc != parse_time_expression(f"2026-09-21 {second}", NOW, EAST)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the local zone cannot be set")
@pytest.mark.parametrize("text", ["2026-03-29 02:30", "2026-10-25 02:30", "2026-03-29", "2026-09-21 16:00:05.250"])
def test_a_local_time_is_that_of_the_named_zone(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that the clocks skip, or have twice."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        found = parse_time_expression(text, NOW)
        naive = milliseconds_of(datetime.fromisoformat(text))
    time.tzset()
    assert found == parse_time_expression(f"{text} Europe/Berlin", NOW)
    assert found is not None
    assert naive == found[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-2",
        "-2y",
        "2h",
        "tomorrow",
        "2026-13-01",
        "2026-09-21 25:00",
        "2026-09-21 16:00 Nowhere/Else",
        "1969-12-31",
        "1969-12-31T23:59:59Z",
        "2026-02-30",
        "2026-09-21T16:60:00Z",
        "2026-09-21T16:00:00+99:00",
        "9" * 25,
        "\u0665",
    ],
)
def test_what_is_no_time(text: str) -> None:
    assert parse_time_expression(text, NOW, UTC) is None
