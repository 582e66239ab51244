"""Codes of what can be wrong with the bytes of a segment; the table of findings says what each means.

A `Damage` has one of DAMAGE_CODES; a `Batch` that can be followed but is not right lists codes of PROBLEM_CODES.
"""

DAMAGE_CODES = frozenset(
    {"truncated-batch", "nonsense-block", "zero-block", "bad-length", "bad-magic", "unreadable-bytes"}
)

PROBLEM_CODES = frozenset(
    {
        "crc-mismatch",
        "bad-magic",
        "undecodable-records",
        "decompression-limit",
        "count-mismatch",
        "offsets-not-rising",
        "offset-out-of-range",
        "cut-message-set",
        "bytes-behind-records",
        "inner-crc-mismatch",
    }
)

HARMLESS_CODES = {"bytes-behind-records"}
"""Problems of a batch whose records are all there."""
