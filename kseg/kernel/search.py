"""Interpreted only: finds where a frame could begin with a regular expression, which C does byte by byte."""

import re

# A magic of 0-2 sixteen bytes on, and a length that is neither negative nor under 14 (0.7: four bytes on, under 5).
_CANDIDATE = re.compile(rb"(?s)(?=.{8}(?!\0\0\0[\0-\x0d])[\0-\x7f].{7}[\0-\x02])")
_CANDIDATE_V07 = re.compile(rb"(?s)(?=(?!\0\0\0[\0-\x04])[\0-\x7f].{3}[\0\x01])")
_CHUNK_BYTES = 1 << 16


def next_candidate(p, i, stop, v07):
    """The next position before stop whose bytes pass the expression, else stop."""
    pattern = _CANDIDATE_V07 if v07 else _CANDIDATE
    while i < stop:
        until = min(i + _CHUNK_BYTES, stop)
        found = pattern.search(bytes(p[i : until + 17]))
        if found:
            return min(i + found.start(), stop)
        i = until
    return stop
