"""Codes of what can be wrong with the bytes of a segment: stable names, one sentence each.

A `Damage` has one of DAMAGE_CODES; a `Batch` that can be followed but is not right lists codes of PROBLEM_CODES.
"""

DAMAGE_CODES = {
    "truncated-batch": "A batch begins here, but bytes of it are missing at its end.",
    "nonsense-block": "These bytes belong to no batch.",
    "zero-block": "These bytes belong to no batch and are all zero.",
    "bad-length": "A batch begins here whose length field is wrong.",
    "bad-magic": "A batch begins here whose format byte (magic) names no format.",
}

PROBLEM_CODES = {
    "crc-mismatch": "The checksum of the batch is not that of its bytes.",
    "bad-magic": "The format byte (magic) of the batch names no format.",
    "undecodable-records": "The records of the batch cannot be decoded.",
    "decompression-limit": "The batch decompresses to more bytes than the limit allows (--max-batch-bytes).",
    "count-mismatch": "The batch claims more records than its offset range has room for.",
    "offsets-not-rising": "The offsets inside the batch do not rise.",
    "offset-out-of-range": "A record's offset lies outside the range of its batch.",
    "inner-crc-mismatch": "The checksum of a message inside a compressed v0, v1 or 0.7 message is wrong.",
}

PROBLEMS = {**DAMAGE_CODES, **PROBLEM_CODES}
