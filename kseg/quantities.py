"""Commands, counts, sizes, times and durations as people read and write them: ``3 d 4 h``, ``yesterday``."""

import os
import re
import shlex
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta, tzinfo

# Commands and names as text that a shell takes as it stands.

_PLAIN_IN_QUOTES = {"\\": "\\\\", "'": "\\'"}


def shell_line(argv: Iterable[str]) -> str:
    """Returns a command as one line, which bash runs unchanged and every terminal shows."""
    return " ".join(map(quoted, argv))


def quoted(word: str) -> str:
    """Returns a word quoted for a shell. Bytes that are no UTF-8 and characters that a terminal does not print need
    bash's ``$'..'``, all other words what every shell knows.
    """
    return shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'"


def _escaped(char: str) -> str:
    if char.isprintable():
        return _PLAIN_IN_QUOTES.get(char, char)
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))


def named_path(path: str) -> str:
    """Returns a path that no command takes for an option."""
    return f"./{path}" if path.startswith("-") and path != "-" else path


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def shown_bytes(count: int) -> str:
    """Returns ``1536`` as ``1.5 KiB``."""
    size, unit = float(count), 0
    while abs(size) >= 1023.95 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def plural(count: int, one: str, many: str, form: str = "") -> str:
    """Returns the number with the singular or plural noun. ``form``: "," separates thousands."""
    return f"{count:{form}} {one if count == 1 else many}"


# Times and durations in ms.

FIRST_TIMESTAMP, LAST_TIMESTAMP = -(1 << 63), (1 << 63) - 1
DAY_MS = 86_400_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CENTURY = (946_684_800_000, 4_102_444_800_000)
"""2000 and 2100, in ms."""


def show_time(timestamp: int) -> str:
    """Formats ms since the epoch: RFC 3339 in UTC, or the number if it is beyond the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp)
    except OverflowError:
        return str(timestamp)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


MINUTES, SECONDS, MILLISECONDS = 16, 19, 23
"""Columns of a time without its zone."""


def shown_time(ms: int, precision: int = MILLISECONDS) -> str:
    """Like `show_time`, for sentences: ``2026-01-02 03:04:05.678Z``, or less of it."""
    text = show_time(ms)
    return f"{text.replace('T', ' ')[:precision]}Z" if text.endswith("Z") else text


def in_other_unit(timestamp: int) -> str:
    """Returns "in microseconds it would be ..." if a timestamp far in the future is one of this century in a smaller
    unit, which producers send by mistake; "" otherwise."""
    for unit, per_ms in (("microseconds", 1000), ("nanoseconds", 1_000_000)):
        if _CENTURY[0] <= timestamp // per_ms < _CENTURY[1]:
            return f"in {unit} it would be {show_time(timestamp // per_ms)}"
    return ""


def is_in_seconds(timestamp: int) -> bool:
    """Whether a timestamp is in this century if its unit is seconds; in ms it is then in 1970."""
    return _CENTURY[0] <= timestamp * 1000 < _CENTURY[1]


def show_span(ms: int) -> str:
    """Formats a duration in its two largest units, without its sign; below a minute in seconds and ms."""
    seconds, rest = divmod(abs(ms), 1000)
    if seconds < 60:
        return f"{seconds}.{rest:03d} s"
    for unit, smaller, size, per in (("d", "h", 86400, 3600), ("h", "min", 3600, 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // per} {smaller}"
    return f"{seconds // 60} min {seconds % 60} s"


# Times as people write them: days, local times, ``yesterday``, ``-2h``. Without a zone they are in the local time zone.

UNITS_MS = {"s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_RELATIVE = r"-(\d{1,9})(s|min|m|h|d|w)"
_MOMENT = (
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?)?"
    r"(?: ?([Zz]|[+-]\d\d:?\d\d|[A-Za-z][A-Za-z0-9_+/-]+))?"
)


def parse_time_expression(text: str, now_ms: int, zone: tzinfo | None = None) -> tuple[int, int] | None:
    """Returns the first and last ms of a time: a day or a minute is a range. None if it is malformed or ends before the
    epoch.

    ``zone``: for times without one, None is the local one.
    """
    if text == "now":
        return now_ms, now_ms
    if text in ("today", "yesterday"):
        here = datetime.fromtimestamp(now_ms / 1000, zone)
        return _day(here.date() - timedelta(days=text == "yesterday"), zone)
    if text.isascii() and text.isdigit():
        number = int(text) if len(text) < 20 else LAST_TIMESTAMP + 1
        return (number, number) if number <= LAST_TIMESTAMP else None
    if found := re.fullmatch(_RELATIVE, text, re.ASCII):
        past = max(0, now_ms - int(found[1]) * UNITS_MS[found[2]])
        return past, past
    if (found := re.fullmatch(_MOMENT, text, re.ASCII)) is None:
        return None
    date_text, minute, second, zone_name = found.groups()
    # Kafka's timestamps, like Unix time, have no leap seconds: 23:59:60 is the next second.
    is_leap_second = second is not None and second.startswith(":60")
    second = ":59" + second[3:] if is_leap_second else second or ":00"
    try:
        zone = _zone(zone_name) if zone_name else zone
        if not minute:
            return _day(date.fromisoformat(date_text), zone)
        moment = local_time(datetime.fromisoformat(f"{date_text}T{minute}{second}"), zone)
    except (ValueError, OSError, OverflowError):
        return None
    start = (moment - _EPOCH) // timedelta(milliseconds=1) + 1000 * is_leap_second
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


def local_time(moment: datetime, zone: tzinfo | None = None) -> datetime:
    """Returns a naive time with its zone, None for the local one. Raises ValueError, OSError or OverflowError."""
    if zone is not None:
        return moment.replace(tzinfo=zone)
    # `astimezone` takes a time that the clocks skip for another one than a named zone does.
    return _EPOCH + timedelta(seconds=moment.replace(microsecond=0).timestamp(), microseconds=moment.microsecond)


def _day(day: date, zone: tzinfo | None) -> tuple[int, int] | None:
    start = _midnight(day, zone)
    # After the last day of `datetime`, often written for no end, there is no midnight.
    end = start + DAY_MS if day == date.max else _midnight(day + timedelta(days=1), zone)
    return (max(start, 0), end - 1) if end > 0 else None


def _midnight(day: date, zone: tzinfo | None) -> int:
    return (local_time(datetime.combine(day, datetime.min.time()), zone) - _EPOCH) // timedelta(milliseconds=1)
