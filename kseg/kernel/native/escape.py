"""The interpreted twin of escape.h: functions that write parts of a line.

All write at out[o] and return the position behind. The caller ensures the space for ``put`` and for numbers;
Those with a limit return OUTPUT_FULL if they would pass it, and NOT_UTF8 for bytes that are no text.
"""

import re
from binascii import b2a_base64
from json.encoder import encode_basestring

from cython import Py_ssize_t, bint, longlong, void

from kseg.kernel.layout.rows import NOT_UTF8, OUTPUT_FULL, Bytes, OutBytes

Text = bytes
can_shuffle = 0

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")
_LETTERS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def put_raw(out: OutBytes, o: Py_ssize_t, text: Bytes, size: Py_ssize_t) -> Py_ssize_t:
    out[o : o + size] = text[:size]
    return o + size


def put(out: OutBytes, o: Py_ssize_t, text: Text) -> Py_ssize_t:
    return put_raw(out, o, text, len(text))


def put_int(out: OutBytes, o: Py_ssize_t, value: longlong) -> Py_ssize_t:
    digits = b"%d" % value
    return put_raw(out, o, digits, len(digits))


def put_number(out: OutBytes, o: Py_ssize_t, text: Text, value: longlong) -> Py_ssize_t:
    return put_int(out, put(out, o, text), value)


def put_field(
    out: OutBytes, o: Py_ssize_t, is_json: bint, text: Text, name: Text, value: longlong, may_be_unset: bint
) -> Py_ssize_t:
    if is_json and may_be_unset and value == -1:
        return put(out, put(out, o, name), b"null")
    return put_number(out, o, name if is_json else text, value)


def shuffle_setup() -> void:
    """Finds out what the processor can do; each renderer calls it when it is imported. Without effect here."""


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


def put_java(out: OutBytes, o: Py_ssize_t, limit: Py_ssize_t, p: Bytes, start: Py_ssize_t, n: Py_ssize_t) -> Py_ssize_t:
    return put_limited(out, o, limit, java(bytes(p[start : start + n])))


def put_visible(
    out: OutBytes, o: Py_ssize_t, limit: Py_ssize_t, p: Bytes, start: Py_ssize_t, n: Py_ssize_t
) -> Py_ssize_t:
    return put_limited(out, o, limit, visible(bytes(p[start : start + n])))


def put_json(out: OutBytes, o: Py_ssize_t, limit: Py_ssize_t, p: Bytes, start: Py_ssize_t, n: Py_ssize_t) -> Py_ssize_t:
    try:
        text = bytes(p[start : start + n]).decode()
    except UnicodeDecodeError:
        return NOT_UTF8
    return put_limited(out, o, limit, encode_basestring(text).encode())


def put_base64(
    out: OutBytes, o: Py_ssize_t, limit: Py_ssize_t, p: Bytes, start: Py_ssize_t, n: Py_ssize_t
) -> Py_ssize_t:
    return put_limited(out, o, limit, b2a_base64(bytes(p[start : start + n]), newline=False))
