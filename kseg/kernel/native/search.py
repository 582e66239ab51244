"""The interpreted twin of search.h: the search for frames by regular expressions."""

import re

from kseg.kernel.layout.headers import (
    CODEC,
    ENTRY_MAGIC,
    ENTRY_OVERHEAD,
    ENTRY_SIZE,
    HIGHEST_CODEC,
    MAGIC_V2,
    SIZES_BYTES,
    V0_HEADER_BYTES,
    V07_MAGIC,
    V07_MIN_BYTES,
    V07_SIZE_BYTES,
    V1_TIMESTAMP_BYTES,
    V2_BASE_SEQUENCE,
    V2_COUNT,
    V2_FLAGS,
    V2_HEADER_BYTES,
    V2_LAST_OFFSET_DELTA,
    V2_PRODUCER_ID,
)
from kseg.kernel.layout.rows import be32, be64

# A magic of 0-2 sixteen bytes on, an offset that is not negative, and a length that is neither negative nor under 14
# (0.7: the magic four bytes on, the length not under 6).
_CANDIDATE = re.compile(rb"(?s)(?=[\0-\x7f].{7}(?!\0\0\0[\0-\x0d])[\0-\x7f].{7}[\0-\x02])")
_CANDIDATE_V07 = re.compile(rb"(?s)(?=(?!\0\0\0[\0-\x05])[\0-\x7f].{3}[\0\x01])")
_NOT_ZERO = re.compile(rb"[^\0]")
_CHUNK_BYTES = 1 << 16


def frame_bytes(p, i, end, v07):
    """Returns the size of the frame at i; 0 if its magic is unknown or its length fits no header or exceeds ``end``."""
    if v07:
        if end - i < V07_MIN_BYTES:
            return 0
        magic = p[i + V07_MAGIC]
        size = V07_SIZE_BYTES + be32(p, i)
        return 0 if magic > 1 or size < V07_MIN_BYTES + magic or size > end - i else size
    if end - i < V0_HEADER_BYTES + SIZES_BYTES:
        return 0
    magic = p[i + ENTRY_MAGIC]
    size = ENTRY_OVERHEAD + be32(p, i + ENTRY_SIZE)
    least = V2_HEADER_BYTES if magic == MAGIC_V2 else V0_HEADER_BYTES + SIZES_BYTES + V1_TIMESTAMP_BYTES * magic
    return 0 if magic > MAGIC_V2 or size > end - i or size < least else size


def could_be_frame(p, i, size, v07):
    """A cheap check of a frame found by search: whether its fields hold values that a writer can have set."""
    if v07:
        return size > V07_MIN_BYTES + p[i + V07_MAGIC]
    if p[i] >= 128:
        return False
    if p[i + ENTRY_MAGIC] == MAGIC_V2:
        return (
            (p[i + V2_FLAGS] & CODEC) <= HIGHEST_CODEC
            and p[i + V2_LAST_OFFSET_DELTA] < 128
            and be64(p, i + V2_PRODUCER_ID) >= -1
            and be32(p, i + V2_BASE_SEQUENCE) >= -1
            and p[i + V2_COUNT] < 128
        )
    fields = i + V0_HEADER_BYTES + V1_TIMESTAMP_BYTES * p[i + ENTRY_MAGIC]
    rest = i + size - fields - SIZES_BYTES
    key_size = max(be32(p, fields), 0)
    return key_size <= rest and key_size + max(be32(p, fields + 4 + key_size), 0) == rest


search_state = object  # only C keeps the state of a search


def search_from(search, i, largest_offset):
    """Starts a search at a position; without effect here."""


def next_candidate(p, i, stop, end, v07, _search=None):
    """Returns the first position in [i, stop) with a plausible frame, by cheap checks without its CRC; else stop."""
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


def zeros_ahead(p, i, end):
    """Returns the number of zero bytes from i on, up to end."""
    start = i
    while i < end:
        until = min(i + _CHUNK_BYTES, end)
        found = _NOT_ZERO.search(bytes(p[i:until]))
        if found:
            return i + found.start() - start
        i = until
    return i - start


def zeros_in_runs(p, i, end, least):
    """Returns the number of zero bytes in [i, end) in runs of at least ``least``."""
    return sum(map(len, re.findall(rb"\0{%d,}" % least, bytes(p[i:end]))))
