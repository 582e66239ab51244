"""The interpreted twin of search.h: the search for frames by regular expressions."""

import re

from cython import Py_ssize_t, bint, longlong, pointer, void

from kseg.kernel.layout.rows import Bytes
from kseg.kernel.scan.headers import could_be_frame, frame_bytes

# A magic of 0-2 sixteen bytes on, an offset that is not negative, and a length that is neither negative nor under 14
# (0.7: the magic four bytes on, the length not under 6).
_CANDIDATE = re.compile(rb"(?s)(?=[\0-\x7f].{7}(?!\0\0\0[\0-\x0d])[\0-\x7f].{7}[\0-\x02])")
_CANDIDATE_V07 = re.compile(rb"(?s)(?=(?!\0\0\0[\0-\x05])[\0-\x7f].{3}[\0\x01])")
_NOT_ZERO = re.compile(rb"[^\0]")
_CHUNK_BYTES = 1 << 16


search_state = object  # only C keeps the state of a search


def search_from(search: pointer[search_state], i: Py_ssize_t, largest_offset: longlong) -> void:
    """Starts a search at a position; without effect here."""


def next_candidate(
    p: Bytes, i: Py_ssize_t, stop: Py_ssize_t, end: Py_ssize_t, v07: bint, search: pointer[search_state] = None
) -> Py_ssize_t:
    """Returns the first position in [i, stop) with a plausible frame, by cheap checks without its CRC; else stop.

    In C it is one at which a frame could begin, to be checked by the caller.
    """
    pattern = _CANDIDATE_V07 if v07 else _CANDIDATE
    while i < stop:
        until = min(i + _CHUNK_BYTES, stop)
        for found in pattern.finditer(bytes(p[i : min(until + 17, end)])):
            at = i + found.start()
            if at >= until:
                break
            size = frame_bytes(p, at, end, v07)
            if size and could_be_frame(p, at, size, v07):
                return at
        i = until
    return stop


def zeros_ahead(p: Bytes, i: Py_ssize_t, end: Py_ssize_t) -> Py_ssize_t:
    """Returns the number of zero bytes from i on, up to end."""
    start = i
    while i < end:
        until = min(i + _CHUNK_BYTES, end)
        found = _NOT_ZERO.search(bytes(p[i:until]))
        if found:
            return i + found.start() - start
        i = until
    return i - start


def zeros_in_runs(p: Bytes, i: Py_ssize_t, end: Py_ssize_t, least: Py_ssize_t) -> Py_ssize_t:
    """Returns the number of zero bytes in [i, end) in runs of at least ``least``."""
    return sum(map(len, re.findall(rb"\0{%d,}" % least, bytes(p[i:end]))))
