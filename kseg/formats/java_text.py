"""Text as Java writes it: strings from malformed UTF-8, and floating point numbers.

Malformed UTF-8 becomes as many U+FFFD as `new String(bytes, UTF_8)` makes. Python's ``replace`` differs in one case:
Java replaces the two or three bytes of an encoded surrogate (ED A0..BF ..) by one character, Python replaces each byte.
"""

import codecs
import struct

REPLACEMENT = "\ufffd"


def decode(data: bytes) -> str:
    """Returns the text of `data`; never raises."""
    return data.decode("utf-8", "kseg-java")


def _replace_like_java(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    if data[start] == 0xED and start + 1 < len(data) and 0xA0 <= data[start + 1] <= 0xBF:
        whole = start + 2 < len(data) and data[start + 2] & 0xC0 == 0x80
        return REPLACEMENT, start + (3 if whole else 2)
    return REPLACEMENT, error.end


codecs.register_error("kseg-java", _replace_like_java)


# Floating point numbers as Java formats them since JDK 19: Float.toString and Double.toString.
#
# The result is the shortest decimal that reads back as the number, and the nearest of these. If one digit is enough,
# the nearest decimal of two digits is used (4.9E-324, not 5E-324). From 10^-3 up to 10^7 the notation is plain,
# otherwise scientific.

_FLOAT = struct.Struct(">f")
_MAX_DIGITS = 9
"""This many digits distinguish all floats."""


def double_text(number: float) -> str:
    """Double.toString."""
    return _special(number) or _layout(*_digits_of(repr(abs(number)), abs(number)), number)


def float_text(number: float) -> str:
    """Float.toString; ``number`` is a value that a 32-bit float can have."""
    return _special(number) or _layout(*_shortest_float(abs(number)), number)


def _special(number: float) -> str:
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if str(number).startswith("-") else "0.0"
    return ""


def _digits_of(text: str, number: float) -> tuple[str, int]:
    """Returns the significant digits, and the exponent of the first; ``text`` is a Python notation of ``number``."""
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    first = int(exponent or 0) + len(whole) - 1 - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if len(digits) == 1:
        mantissa, exponent = f"{number:.1e}".split("e")
        return _trimmed(mantissa.replace(".", ""), int(exponent))
    return digits, first


def _shortest_float(number: float) -> tuple[str, int]:
    packed = _FLOAT.pack(number)
    is_power_of_2 = packed[1] & 0x7F == packed[2] == packed[3] == 0
    for count in range(2, _MAX_DIGITS + 1):
        mantissa, exponent = f"{number:.{count - 1}e}".split("e")
        digits, last = mantissa.replace(".", ""), int(exponent) - count + 1
        if _reads_back(f"{digits}e{last}", packed):
            break
        # The gap below a power of 2 is half the gap above: the nearest decimal may be outside, and the next one inside.
        following = str(int(digits) + 1)
        if is_power_of_2 and _reads_back(f"{following}e{last}", packed):
            digits = following
            break
    return _trimmed(digits, last + len(digits) - 1)


def _reads_back(text: str, packed: bytes) -> bool:
    try:
        return _FLOAT.pack(float(text)) == packed
    except OverflowError:  # more than half a gap above the largest float
        return False


def _trimmed(digits: str, exponent: int) -> tuple[str, int]:
    return digits.rstrip("0") or "0", exponent


def _layout(digits: str, exponent: int, number: float) -> str:
    """Formats ``digits``, read with a point after the first, times 10^exponent."""
    sign = "-" if number < 0 else ""
    if -3 <= exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    if 0 <= exponent < 7:
        padded = digits.ljust(exponent + 2, "0")
        return f"{sign}{padded[: exponent + 1]}.{padded[exponent + 1 :]}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"
