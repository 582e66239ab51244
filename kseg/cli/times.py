"""Points and ranges of time on the command line, as people write them."""

import time
from typing import Any

import click

from kseg.segment.times import LAST_TIMESTAMP, parse_time_expression

EXAMPLES = "2026-01-31, '2026-01-31 09:00', 2026-01-31T09:00:00Z, yesterday, -2h or 1769850000000"


class TimeRange(click.ParamType):  # type: ignore[type-arg]
    """``FROM..TO``, inclusive, either end may be omitted; one time is a range of its own. Yields (first, last) in ms.

    A time without seconds or time of day means the whole minute or day.
    """

    name = "FROM..TO"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        first, dots, last = str(value).partition("..")
        now_ms = int(time.time() * 1000)
        low, high = parse_time_expression(first, now_ms), parse_time_expression(last if dots else first, now_ms)
        if not (first or last) or (first and low is None) or (last and high is None):
            self.fail(f"{value!r} is no range of times: FROM..TO, FROM.. or ..TO, of times as {EXAMPLES}", param, ctx)
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
        found = parse_time_expression(str(value), int(time.time() * 1000))
        if found is None:
            self.fail(f"{value!r} is no time such as {EXAMPLES}", param, ctx)
        return found[0]


now_option = click.option(
    "--now", "now_ms", type=TimePoint(), help="Use this time as the current time, as 2026-01-31 (local) or -2h."
)
