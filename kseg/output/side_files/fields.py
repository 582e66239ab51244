"""Names and values of a side file's entry, in Kafka's own camelCase."""

from typing import Any

from kseg.sidefiles.producer_state import ProducerStateEntry


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def fields(entry: Any) -> dict[str, Any]:
    """Returns every field of an entry in order, except those that its version lacks."""
    if isinstance(entry, ProducerStateEntry):
        return _producer_fields(entry)
    foreign = entry.foreign_fields() if hasattr(entry, "foreign_fields") else set()
    return {camel_case(name): value for name, value in entry._asdict().items() if name not in foreign}


def _producer_fields(entry: ProducerStateEntry) -> dict[str, Any]:
    """Returns kafka-dump-log's fields in its order; None for unset ones, and for those of a batch if none is known."""
    batch = {
        "firstSequence": entry.first_sequence,
        "lastSequence": entry.last_sequence,
        "lastOffset": entry.last_offset,
        "offsetDelta": entry.offset_delta,
        "timestamp": entry.timestamp,
    }
    return {
        "producerId": entry.producer_id,
        "producerEpoch": entry.producer_epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnFirstOffset": entry.current_txn_first_offset if entry.current_txn_first_offset >= 0 else None,
        "lastTimestamp": entry.timestamp,
    } | (batch if entry.has_batch else dict.fromkeys(batch))
