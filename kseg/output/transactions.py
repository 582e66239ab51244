"""Prints open transactions as text and as JSON Lines."""

from typing import Any

from kseg.formats.json_values import encode, name_value
from kseg.output.notices import on_one_line
from kseg.segment.files import SegmentFile
from kseg.segment.open_transactions import OpenTransaction
from kseg.segment.times import show_span


def text_line(transaction: OpenTransaction, now: int | None, name: str | None) -> str:
    """Returns one line similar to kafka-dump-log's. ``now`` is in ms since the epoch, None if unknown.

    ``name``: the transactional id.
    """
    age_ms = transaction.age_ms(now)
    fields = {
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "transactionalId": None if name is None else on_one_line(name),
        "firstOffset": transaction.first_offset,
        "firstTimestamp": transaction.first_timestamp,
        "age": None if age_ms is None else show_span(age_ms),
        "batches": transaction.batches,
    }
    return " ".join(f"{name}: {'none' if value is None else value}" for name, value in fields.items())


def json_line(
    transaction: OpenTransaction, now: int | None, path: str, place: SegmentFile | None, name: str | None
) -> bytes:
    """Returns one object. ``path``: the path given by the user; ``place``: any segment of the partition; ``name``: as
    above.
    """
    found: dict[str, Any] = {
        "type": "openTransaction",
        "file": name_value(path),
        "topic": name_value(place.topic) if place else None,
        "partition": place.partition if place else None,
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "transactionalId": name_value(name),
        "firstOffset": transaction.first_offset,
        "firstTimestamp": transaction.first_timestamp,
        "ageMs": transaction.age_ms(now),
        "batches": transaction.batches,
    }
    return encode(found) + b"\n"
