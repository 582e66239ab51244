"""Positions of fields in the headers of batches and messages, bits of their attributes, and the fields.

The tables have the name of each field and its type as in `struct`, big-endian, in the order of the bytes.
kseg.formats.record_batch and message_set explain them. kseg._build declares the constants for C.
"""

from struct import Struct, calcsize

V2_FIELDS = (
    ("baseOffset", "q"), ("batchLength", "i"), ("partitionLeaderEpoch", "i"), ("magic", "b"), ("crc", "I"),
    ("attributes", "h"), ("lastOffsetDelta", "i"), ("baseTimestamp", "q"), ("maxTimestamp", "q"), ("producerId", "q"),
    ("producerEpoch", "h"), ("baseSequence", "i"), ("recordsCount", "i"),
)  # fmt: skip
V0_FIELDS = (("offset", "q"), ("size", "i"), ("crc", "I"), ("magic", "b"), ("attributes", "b"))
V1_FIELDS = (*V0_FIELDS, ("timestamp", "q"))
V07_FIELDS = (
    (("size", "i"), ("magic", "B"), ("crc", "I")),
    (("size", "i"), ("magic", "B"), ("attributes", "B"), ("crc", "I")),
)
"""By magic."""


def struct_of(fields):
    """Returns the Struct of adjacent fields."""
    return Struct(">" + "".join(kind for _, kind in fields))


def _positions(fields):
    """Returns the position of each field and the size of all."""
    kinds = "".join(kind for _, kind in fields)
    return [calcsize(">" + kinds[:i]) for i in range(len(kinds) + 1)]


# Of a v2 batch. The overhead of an entry is its offset and its size; the size field does not count it.
(
    V2_BASE_OFFSET, _length, V2_LEADER_EPOCH, _magic, V2_CRC, V2_ATTRIBUTES, V2_LAST_OFFSET_DELTA, V2_BASE_TIMESTAMP,
    V2_MAX_TIMESTAMP, V2_PRODUCER_ID, V2_PRODUCER_EPOCH, V2_BASE_SEQUENCE, V2_COUNT, V2_HEADER_BYTES,
) = _positions(V2_FIELDS)  # fmt: skip
V2_FLAGS = V2_ATTRIBUTES + 1
"""The low byte of the attributes; the high byte is unused."""

# Of a v0 or v1 message, and of an entry of any magic since 0.8. v1 also has a timestamp. The sizes of key and value
# follow the header. In messages, of 0.7 too, a CRC ends where the bytes begin that it covers.
ENTRY_OFFSET, ENTRY_SIZE, LEGACY_CRC, ENTRY_MAGIC, LEGACY_FLAGS, V1_TIMESTAMP, V1_HEADER_BYTES = _positions(V1_FIELDS)
V0_HEADER_BYTES = V1_TIMESTAMP
ENTRY_OVERHEAD = LEGACY_CRC
CRC_BYTES = 4
V1_TIMESTAMP_BYTES = 8
SIZES_BYTES = 8
MIN_MESSAGE_BYTES = V0_HEADER_BYTES + SIZES_BYTES
SHORT_TAIL_BYTES = ENTRY_MAGIC + 1
"""Bytes up to and including the magic. A rest of a file of at most this size has no header to check."""

# Of a message of 0.7, which begins with its size: its attributes, which magic 0 lacks, their bits for the codec, the
# size of a message without attributes and payload.
_size, V07_MAGIC, V07_ATTRIBUTES, V07_MIN_BYTES = _positions(V07_FIELDS[0])
V07_SIZE_BYTES = V07_MAGIC
V07_CODEC = 3

MAGIC_V2 = 2
"""Of record batches; messages have 0 or 1."""
MIN_RECORD_BYTES = 7
"""Smallest size of a record: its length, attributes, deltas, sizes of key and value, header count."""

# Of a transaction marker. Key: int16 version, int16 type. Value: int16 version, int32 coordinator epoch.
VERSION_BYTES = 2
MARKER_KEY_BYTES = 4
MARKER_VALUE_BYTES = 6

# Bits of attributes: those of the codec, and others. The number of the bit LOG_APPEND_TIME.
CODEC = 7
LOG_APPEND_TIME = 8
TRANSACTIONAL = 16
CONTROL = 32
DELETE_HORIZON = 64
LOG_APPEND_SHIFT = 3

# Codecs; higher ones are unknown to this version.
GZIP, SNAPPY, LZ4, ZSTD = range(1, 5)
HIGHEST_CODEC = ZSTD

# Timestamp types, in the order of kseg.segment.items.TIMESTAMP_TYPES.
NO_TIME, CREATE_TIME, APPEND_TIME = range(3)

# Of an index entry. Offset index: int32 relative offset, int32 position. Time index: int64 timestamp, int32
# relative offset.
OFFSET_ENTRY_BYTES = 8
OFFSET_ENTRY_POSITION = 4
TIME_ENTRY_BYTES = 12
TIME_ENTRY_OFFSET = 8
