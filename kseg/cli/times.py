"""Points and ranges of time on the command line: ms since the epoch, or RFC 3339."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

LAST_TIMESTAMP = (1 << 63) - 1
DAY_MS = 86_400_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC_3339 = r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)?)?"


class TimeRange(click.ParamType):  # type: ignore[type-arg]
    """``FROM..TO``, both included, either end may be left out; one time stands for itself. Yields (first, last) in ms.

    A day without a time of day is all of it, in UTC.
    """

    name = "FROM..TO"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        first, dots, last = str(value).partition("..")
        low, high = parse_time(first), parse_time(last if dots else first)
        if not (first or last) or (first and low is None) or (last and high is None):
            self.fail(
                f"{value!r} is no range of times such as 2026-01-31T09:00:00Z..2026-01-31T10:00:00Z, "
                "1769850000000.. or 2026-01-31",
                param,
                ctx,
            )
        found = low[0] if low else 0, high[1] if high else LAST_TIMESTAMP
        if found[0] > found[1]:
            self.fail(f"{value!r} holds no time", param, ctx)
        return found


class TimePoint(click.ParamType):  # type: ignore[type-arg]
    """One time, in ms since the epoch."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = parse_time(str(value))
        if found is None:
            self.fail(f"{value!r} is no time such as 2026-01-31T09:00:00Z or 1769850000000", param, ctx)
        return found[0]


def parse_time(text: str) -> tuple[int, int] | None:
    """First and last ms of what a text names: the same but for a day; None where it names no time since the epoch.

    Without an offset from UTC it is UTC.
    """
    if text.isascii() and text.isdigit():
        number = int(text) if len(text) < 20 else LAST_TIMESTAMP + 1
        return (number, number) if number <= LAST_TIMESTAMP else None
    found = re.fullmatch(_RFC_3339, text, re.ASCII)
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    is_leap_second = bool(clock) and clock.endswith(":60")
    try:
        # Kafka's timestamps, as those of Unix, know no leap seconds: 23:59:60 is what comes next.
        seconds = clock[:-2] + "59" if is_leap_second else clock or "00:00:00"
        moment = datetime.fromisoformat(f"{day}T{seconds}+00:00")
        if zone and zone not in "Zz":
            moment = moment.replace(tzinfo=datetime.fromisoformat(f"{day}T00:00:00{zone}").tzinfo)
        start = (moment - _EPOCH) // timedelta(milliseconds=1)
    except ValueError:
        return None
    start += 1000 * is_leap_second + int((fraction or ".")[1:4].ljust(3, "0"))
    if start < 0:
        return None
    return start, start if clock else start + DAY_MS - 1


def show_time(timestamp: int) -> str:
    """ms since the epoch for people: RFC 3339 in UTC, and the number where no calendar reaches."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return str(timestamp)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
