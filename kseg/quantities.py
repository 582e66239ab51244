"""Counts, sizes and times in sentences for people."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def shown_bytes(count: int) -> str:
    """Returns ``1536`` as ``1.5 KiB``."""
    size, unit = float(count), 0
    while abs(size) >= 1023.95 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


MINUTES, SECONDS, MILLISECONDS = 16, 19, 23
"""Columns of a time without its zone."""


def shown_time(ms: int, precision: int = MILLISECONDS) -> str:
    """Returns milliseconds since the epoch as UTC, or the number itself if it is outside the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return f"{f'{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}'[:precision]}Z"


def plural(count: int, one: str, many: str, form: str = "") -> str:
    """Returns the number with the singular or plural noun. ``form``: "," separates thousands."""
    return f"{count:{form}} {one if count == 1 else many}"
