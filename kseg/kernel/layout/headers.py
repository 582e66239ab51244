"""Positions of fields in the headers of batches and messages, bits of their attributes (headers.pxd), and the fields.

The tables have the name of each field and its type as in `struct`, big-endian, in the order of the bytes.
"""

from struct import Struct

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
