"""The interpreted twin of search.h: regular expressions find what C looks for byte by byte."""

import re

# A magic of 0-2 sixteen bytes on, an offset that is not negative, and a length that is neither negative nor under 14
# (0.7: the magic four bytes on, the length not under 6).
_CANDIDATE = re.compile(rb"(?s)(?=[\0-\x7f].{7}(?!\0\0\0[\0-\x0d])[\0-\x7f].{7}[\0-\x02])")
_CANDIDATE_V07 = re.compile(rb"(?s)(?=(?!\0\0\0[\0-\x05])[\0-\x7f].{3}[\0\x01])")
_NOT_ZERO = re.compile(rb"[^\0]")
_CHUNK_BYTES = 1 << 16


def next_candidate(p, i, stop, end, v07):
    """The first position in [i, stop) at which a frame that fits before ``end`` could begin, else stop."""
    pattern = _CANDIDATE_V07 if v07 else _CANDIDATE
    while i < stop:
        until = min(i + _CHUNK_BYTES, stop)
        found = pattern.search(bytes(p[i : min(until + 17, end)]))
        if found:
            return min(i + found.start(), stop)
        i = until
    return stop


def zeros_ahead(p, i, end):
    """Zero bytes from i on, up to end."""
    start = i
    while i < end:
        until = min(i + _CHUNK_BYTES, end)
        found = _NOT_ZERO.search(bytes(p[i:until]))
        if found:
            return i + found.start() - start
        i = until
    return i - start


def zeros_in_runs(p, i, end, least):
    """How many of the bytes [i, end) are zeros in runs of at least ``least``."""
    return sum(map(len, re.findall(rb"\0{%d,}" % least, bytes(p[i:end]))))
