"""Text as a Java program reads it: broken UTF-8 becomes U+FFFD, as many of them as `new String(bytes, UTF_8)` makes.

Python's ``replace`` differs in one thing: Java takes the two or three bytes of an encoded surrogate (ED A0..BF ..) as
one broken character, Python takes each byte as one.
"""

import codecs

REPLACEMENT = "\ufffd"


def decode(data: bytes) -> str:
    """The text of `data`; never raises."""
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
