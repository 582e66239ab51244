"""The interpreted twin of escape.h: functions that write parts of a line.

All write at out[o] and return the position behind. The caller ensures the space for ``put`` and for numbers;
``put_limited`` returns OUTPUT_FULL if it would pass a limit. `java`, `visible` and `json_value` convert bytes to text.
"""

import re
from binascii import b2a_base64
from json.encoder import encode_basestring

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_LETTERS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def put_raw(out, o, text, size):
    out[o : o + size] = text[:size]
    return o + size


def put(out, o, text):
    return put_raw(out, o, text, len(text))


def put_int(out, o, value):
    digits = b"%d" % value
    return put_raw(out, o, digits, len(digits))


def forget(_counters):
    """Resets the cached digits of escape.h; without effect here."""


def put_near(_kept, out, o, value):
    return put_int(out, o, value)


def put_limited(out, o, limit, text):
    return OUTPUT_FULL if o + len(text) > limit else put_raw(out, o, text, len(text))


def java(raw):
    """Returns bytes as Java decodes and prints them. A surrogate becomes one U+FFFD in Java, three in Python."""
    try:
        raw.decode()
        return raw
    except UnicodeDecodeError:
        return _SURROGATE.sub(b"\xff", raw).decode("utf-8", "replace").encode()


def visible(raw):
    """`java` for a terminal: control characters (C0, DEL, C1) as \\n, \\r, \\t or \\xNN."""
    return _CONTROL.sub(lambda found: _LETTERS.get(found[0]) or rf"\x{ord(found[0]):02x}", java(raw).decode()).encode()


def json_value(p, position, size, as_base64=False):
    """Returns bytes as a JSON string if they are UTF-8, else as an object with base64; null for a negative size."""
    if size < 0:
        return b"null"
    raw = bytes(p[position : position + size])
    text = None if as_base64 else utf8(raw)
    return b'{"base64":"%s"}' % b2a_base64(raw, newline=False) if text is None else encode_basestring(text).encode()


def utf8(raw):
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
