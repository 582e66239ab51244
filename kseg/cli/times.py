"""Points and ranges of time on the command line: ms since the epoch, or RFC 3339."""

from typing import Any

import click

from kseg.segment.times import LAST_TIMESTAMP, parse_time, show_time

__all__ = ["LAST_TIMESTAMP", "TimePoint", "TimeRange", "parse_time", "show_time"]


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
            self.fail(f"{value!r} ends before it begins", param, ctx)
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
