"""Decides which records a compaction retains (Cleaner.shouldRetainRecord), by their rows (ROW_*) and the key map."""

import cython
from cython.cimports.kseg.kernel.compact.key_hash import KeyHash, hash_key
from cython.cimports.kseg.kernel.compact.key_map import KeyMap, last_offset, prefetch_slot
from cython.cimports.kseg.kernel.layout.pointers import bytes_in, bytes_out, int64s_in
from cython.cimports.kseg.kernel.layout.rows import ROW_KEY, ROW_KEY_SIZE, ROW_OFFSET, ROW_VALUE_SIZE, ROW_WIDTH

COUNTS = (
    "records", "kept", "superseded", "tombstones", "no_key", "discarded_records", "discarded_markers", "copied",
    "rewritten", "emptied", "dropped",
)  # fmt: skip


class Counts:
    """Numbers of records read, kept and removed: superseded by a later record, tombstones, without a key, of aborted
    transactions, markers. Numbers of batches copied unchanged, rewritten, reduced to a header, and dropped.
    """

    def __init__(self):
        self.records = self.kept = self.superseded = self.tombstones = self.no_key = 0
        self.discarded_records = self.discarded_markers = 0
        self.copied = self.rewritten = self.emptied = self.dropped = 0

    def add(self, other) -> None:
        """Adds the counts of ``other``."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_dict(self) -> dict[str, int]:
        """Returns the counts by name."""
        return {name: getattr(self, name) for name in COUNTS}


def judge(key_map, payload, rows, count, is_protected, keep, counts):
    """Marks the records to keep. Returns their number. ``is_protected``: tombstones of the batch must stay for now."""
    keys: KeyHash[GROUP]
    key: cython.pointer[KeyHash]
    first: cython.Py_ssize_t = 0
    stop: cython.Py_ssize_t
    k: cython.Py_ssize_t
    row: cython.Py_ssize_t
    kept: cython.longlong = 0
    found: cython.longlong
    latest: cython.longlong = key_map.latest_offset
    if not cython.compiled:
        keys = [KeyHash() for _ in range(GROUP)]
    while first < count:
        stop = min(first + GROUP, count)
        for k in range(first, stop):
            row = k * ROW_WIDTH
            if rows[row + ROW_KEY_SIZE] >= 0 and rows[row + ROW_OFFSET] <= latest:
                key = cython.address(keys[k - first])
                hash_key(payload, rows[row + ROW_KEY], rows[row + ROW_KEY_SIZE], key_map.secret, key)
                prefetch_slot(key_map, key.high)
        for k in range(first, stop):
            row = k * ROW_WIDTH
            keep[k] = 0
            if rows[row + ROW_OFFSET] > latest:
                keep[k] = 1
            elif rows[row + ROW_KEY_SIZE] < 0:
                counts.no_key += 1
            else:
                found = last_offset(key_map, cython.address(keys[k - first]))
                if rows[row + ROW_OFFSET] < found:
                    counts.superseded += 1
                elif rows[row + ROW_VALUE_SIZE] < 0 and not is_protected:
                    counts.tombstones += 1
                else:
                    keep[k] = 1
            kept += keep[k]
        first = stop
    return kept


def has_tombstone(rows, count, keep):
    """Whether a kept record is a tombstone."""
    k: cython.Py_ssize_t
    for k in range(count):
        if keep[k] and rows[k * ROW_WIDTH + ROW_VALUE_SIZE] < 0:
            return True
    return False


def judge_rows(
    key_map: KeyMap,
    payload: cython.const[cython.uchar][::1],
    rows: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    is_protected: cython.bint,
    keep: cython.uchar[::1],
    counts: Counts,
) -> int:
    """`judge` for ``count`` rows with positions in ``payload``; adds them to ``counts.records``.

    Raises ValueError if a buffer is too short, or if the map has no table.
    """
    key_map.check()
    if len(rows) < count * ROW_WIDTH or len(keep) < count:
        raise ValueError("a buffer is too short")
    if count <= 0 or len(payload) == 0:
        return 0
    counts.records += count
    return judge(key_map, bytes_in(payload), int64s_in(rows), count, is_protected, bytes_out(keep), counts)
