"""The offset in the name of a file of a partition, as brokers read it."""

from kseg.recovery.refusal import BrokerRefusesError

_LIMIT = 1 << 63


def leading_offset(name: str) -> int | None:
    """The number that a name begins with, up to its first dot (LogFileUtils.offsetFromFile); None without one."""
    stem, dot, _ = name.partition(".")
    digits = stem[1:] if stem[:1] in ("-", "+") else stem
    if not dot or not (digits.isascii() and digits.isdigit()) or len(digits.lstrip("0")) > 19:
        return None
    offset = int(stem)
    return offset if -_LIMIT <= offset < _LIMIT else None


def offset_of(name: str) -> int:
    """As `leading_offset`. Raises BrokerRefusesError for a name without a number."""
    offset = leading_offset(name)
    if offset is None:
        raise BrokerRefusesError(f"{name}: its name is no offset: a broker does not start with it; move it away")
    return offset


def segment_stem(offset: int) -> str:
    """The name of a segment's files without their suffix (LogFileUtils.filenamePrefixFromOffset): 20 digits."""
    return f"{'-' if offset < 0 else ''}{abs(offset):020d}"
