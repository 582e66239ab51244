"""Times, keys and formats as they are given on the command line."""

import pytest

from kseg.options.values import content_format, key_bytes, limit_of_ms, time_point, time_range
from kseg.segment.times import LAST_TIMESTAMP, parse_time, show_time

NINE = 1769850000000


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0", (0, 0)),
        (str(NINE), (NINE, NINE)),
        ("2026-01-31T09:00:00Z", (NINE, NINE)),
        ("2026-01-31 09:00:00.5z", (NINE + 500, NINE + 500)),
        ("2026-01-31T09:00:00.1239999Z", (NINE + 123, NINE + 123)),
        ("2026-01-31T10:30:00+01:30", (NINE, NINE)),
        ("2026-01-31T09:00:00", (NINE, NINE)),
        ("2026-01-31", (NINE - 9 * 3600_000, NINE + 15 * 3600_000 - 1)),
        ("2016-12-31T23:59:60Z", (1483228800000, 1483228800000)),
        ("9" * 25, None),
        ("1969-12-31T23:59:59Z", None),
        ("2026-02-30", None),
        ("2026-01-31T25:00:00Z", None),
        ("2026-01-31T09:60:00Z", None),
        ("2026-01-31T09:00:00+99:00", None),
        ("-5", None),
        ("٥", None),
        ("now", None),
        ("", None),
    ],
)
def test_a_time(text: str, expected: tuple[int, int] | None) -> None:
    assert parse_time(text) == expected


def test_a_range_of_times() -> None:
    assert time_range(f"{NINE}..") == (NINE, LAST_TIMESTAMP)
    assert time_range(f"..{NINE}") == (0, NINE)
    assert time_range(f"{NINE}") == (NINE, NINE)
    assert time_range("2026-01-31..2026-02-01") == (NINE - 9 * 3600_000, NINE + 39 * 3600_000 - 1)
    assert time_range("2026-01-31T09:00:00Z..2026-01-31T09:00:00.5Z") == (NINE, NINE + 500)


@pytest.mark.parametrize("text", ["", "..", "a..b", "5..4", "1...2", "2026-01-31..someday"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError):
        time_range(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("3600000", 3600000), ("90s", 90000), ("5min", 300000), ("12h", 43200000), ("7d", 604800000),
        ("1w", 604800000), ("-1", -1), ("0ms", 0), ("999999999999999999d", (1 << 63) - 1),
    ],
)  # fmt: skip
def test_a_limit_of_age(text: str, ms: int) -> None:
    assert limit_of_ms(text) == ms


@pytest.mark.parametrize("text", ["", "soon", "-2", "7y", "1.5h", "\u0661", "d"])
def test_what_is_no_limit_of_age(text: str) -> None:
    with pytest.raises(ValueError):
        limit_of_ms(text)


def test_a_point() -> None:
    assert time_point("2026-01-31T09:00:00Z") == NINE
    with pytest.raises(ValueError):
        time_point("soon")


def test_times_are_shown() -> None:
    assert show_time(NINE) == "2026-01-31T09:00:00.000Z"
    assert show_time(LAST_TIMESTAMP) == str(LAST_TIMESTAMP)


@pytest.mark.parametrize(
    "text, key",
    [
        ("order-1", b"order-1"),
        ("a:b", b"a:b"),
        ("hex:00FF", b"\0\xff"),
        ("base64:AP8=", b"\0\xff"),
        ("utf8:hex:00", b"hex:00"),
        ("é", "é".encode()),
        ("\udcff", b"\xff"),
        ("", b""),
    ],
)
def test_a_key(text: str, key: bytes) -> None:
    assert key_bytes(text) == key


@pytest.mark.parametrize("text", ["hex:0", "base64:A", "base64:?"])
def test_what_is_no_key(text: str) -> None:
    with pytest.raises(ValueError):
        key_bytes(text)


def test_a_format_is_loaded_at_once() -> None:
    assert content_format("int") == "int"
    with pytest.raises(ValueError, match="no format"):
        content_format("int64")
