"""Decodes text as Java does: malformed UTF-8 becomes as many U+FFFD as `new String(bytes, UTF_8)` makes.

Python's ``replace`` differs in one case: Java replaces the two or three bytes of an encoded surrogate (ED A0..BF ..) by
one character, Python replaces each byte.
"""

import codecs

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
