"""Parses times as people write them: days, local times, ``yesterday``, ``-2h``; and whatever `parse_time` takes.

A time without a zone is in the local time zone.
"""

import re
from datetime import UTC, date, datetime, timedelta, tzinfo

from kseg.segment.times import parse_time

UNITS_MS = {"s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_RELATIVE = r"-(\d{1,9})(s|min|m|h|d|w)"
_MOMENT = (
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?)?"
    r"(?: ?([Zz]|[+-]\d\d:?\d\d|[A-Za-z][A-Za-z0-9_+/-]+))?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time_expression(text: str, now_ms: int, zone: tzinfo | None = None) -> tuple[int, int] | None:
    """Returns the first and last ms of a time: a day or a minute is a range. None if it is malformed.

    ``zone``: for times without one, None is the local one.
    """
    if text == "now":
        return now_ms, now_ms
    if text in ("today", "yesterday"):
        here = datetime.fromtimestamp(now_ms / 1000, zone)
        return _day(here.date() - timedelta(days=text == "yesterday"), zone)
    if found := re.fullmatch(_RELATIVE, text, re.ASCII):
        past = max(0, now_ms - int(found[1]) * UNITS_MS[found[2]])
        return past, past
    found = re.fullmatch(_MOMENT, text, re.ASCII)
    if found is None or (found[3] and found[4] and found[4].strip() in "Zz"):
        return parse_time(text)
    try:
        given = _zone(found[4]) if found[4] else zone
        if not found[2]:
            return _day(datetime.fromisoformat(found[1]).date(), given)
        if found[3] and found[3][:3] == ":60":
            return parse_time(text)
        moment = _local(datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3] or ':00'}"), given)
    except (ValueError, OSError, OverflowError):
        return None
    start = (moment - _EPOCH) // timedelta(milliseconds=1)
    return (start, start if found[3] else start + 59_999) if start >= 0 else None


def _zone(text: str) -> tzinfo:
    """Raises ValueError if there is none of the name."""
    if text in "Zz" or text == "UTC":
        return UTC
    if text[0] in "+-":
        zone = datetime.fromisoformat(f"2000-01-01T00:00:00{text}").tzinfo
        assert zone is not None
        return zone
    from zoneinfo import ZoneInfo  # few times have a zone

    try:
        return ZoneInfo(text)
    except (KeyError, OSError) as error:
        raise ValueError(f"no time zone {text!r}") from error


def _local(moment: datetime, zone: tzinfo | None) -> datetime:
    return moment.astimezone() if zone is None else moment.replace(tzinfo=zone)


def _day(day: date, zone: tzinfo | None) -> tuple[int, int] | None:
    first = _local(datetime.combine(day, datetime.min.time()), zone)
    after = _local(datetime.combine(day + timedelta(days=1), datetime.min.time()), zone)
    start, end = ((moment - _EPOCH) // timedelta(milliseconds=1) for moment in (first, after))
    return (start, end - 1) if start >= 0 else None
