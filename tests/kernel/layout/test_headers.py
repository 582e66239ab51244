"""Positions of header fields in layout/headers.pxd, against the tables of fields."""

import pytest

from kseg.kernel.layout import headers as layout

V2 = {
    "baseOffset": layout.ENTRY_OFFSET, "batchLength": layout.ENTRY_SIZE, "partitionLeaderEpoch": layout.V2_LEADER_EPOCH,
    "magic": layout.ENTRY_MAGIC, "crc": layout.V2_CRC, "attributes": layout.V2_ATTRIBUTES,
    "lastOffsetDelta": layout.V2_LAST_OFFSET_DELTA, "baseTimestamp": layout.V2_BASE_TIMESTAMP,
    "maxTimestamp": layout.V2_MAX_TIMESTAMP, "producerId": layout.V2_PRODUCER_ID,
    "producerEpoch": layout.V2_PRODUCER_EPOCH, "baseSequence": layout.V2_BASE_SEQUENCE,
    "recordsCount": layout.V2_COUNT, "end": layout.V2_HEADER_BYTES,
}  # fmt: skip
V0 = {"offset": layout.ENTRY_OFFSET, "size": layout.ENTRY_SIZE, "crc": layout.LEGACY_CRC, "magic": layout.ENTRY_MAGIC}
V1 = V0 | {"attributes": layout.LEGACY_FLAGS, "timestamp": layout.V1_TIMESTAMP, "end": layout.V1_HEADER_BYTES}
V07 = {"size": 0, "magic": layout.V07_MAGIC}


@pytest.mark.parametrize(
    ("fields", "positions"),
    [
        (layout.V2_FIELDS, V2),
        (layout.V0_FIELDS, V0 | {"attributes": layout.LEGACY_FLAGS, "end": layout.V0_HEADER_BYTES}),
        (layout.V1_FIELDS, V1),
        (layout.V07_FIELDS[0], V07 | {"crc": layout.V07_ATTRIBUTES, "end": layout.V07_MIN_BYTES}),
        (layout.V07_FIELDS[1], V07 | {"attributes": layout.V07_ATTRIBUTES, "crc": 6, "end": layout.V07_MIN_BYTES + 1}),
    ],
)
def test_fields_lie_where_the_layout_says(fields, positions):
    found = {name: layout.struct_of(fields[:i]).size for i, (name, _) in enumerate((*fields, ("end", "")))}
    assert found == positions
