"""Decoder for __transaction_state: one record per state change of a transactional id.

Source: TransactionCoordinatorRecordSerde and DumpLogSegments (``--transaction-log-decoder``) of Kafka 4.3.1; KIP-98,
KIP-890.
"""

from kseg.decoders.coordinator import CoordinatorDecoder
from kseg.decoders.schemas.transaction_state import KEYS, VALUES


def decoder() -> CoordinatorDecoder:
    return CoordinatorDecoder(KEYS, VALUES)
