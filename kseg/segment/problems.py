"""Codes of damage and problems in the bytes of a segment; the findings table explains them.

A `Damage` has one of DAMAGE_CODES; a `Batch` with errors lists codes of PROBLEM_CODES.
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
        "compressed-twice",
        "bytes-behind-records",
        "inner-crc-mismatch",
    }
)

HARMLESS_CODES = {"bytes-behind-records"}
"""Problems of a batch that do not affect its records."""

READABLE_CODES = HARMLESS_CODES | {"compressed-twice"}
"""Problems of a batch of which kseg reads all records, though Kafka may not."""
