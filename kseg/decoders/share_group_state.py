"""Decoder for __share_group_state: snapshots of the delivery state of share groups per partition, and updates to them.

Source: ShareCoordinatorRecordSerde and DumpLogSegments (``--share-group-state-decoder``) of Kafka 4.3.1; KIP-932.
"""

from kseg.decoders.coordinator import CoordinatorDecoder
from kseg.decoders.schemas.share_group_state import KEYS, VALUES


def decoder() -> CoordinatorDecoder:
    return CoordinatorDecoder(KEYS, VALUES)
