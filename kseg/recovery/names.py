"""Parses the offset in a file name as brokers do."""

from kseg.recovery.refusal import BrokerRefusesError

_LIMIT = 1 << 63


def leading_offset(name: str) -> int | None:
    """Returns the number before the first dot of a name (LogFileUtils.offsetFromFile); None if there is none."""
    stem, dot, _ = name.partition(".")
    digits = stem[1:] if stem[:1] in ("-", "+") else stem
    if not dot or not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > 19:
        return None
    offset = int(stem)
    return offset if -_LIMIT <= offset < _LIMIT else None


def offset_of(name: str) -> int:
    """Like `leading_offset`, but raises BrokerRefusesError for a name without a number."""
    offset = leading_offset(name)
    if offset is None:
        raise BrokerRefusesError(f"{name}: its name is no offset: a broker does not start with it; move it away")
    return offset
