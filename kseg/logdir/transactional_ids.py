"""Reads __transaction_state of a log directory: transactional ids of producers, states of their transactions.

    key     i16 record type 0, then the id (i16 length, bytes)
    value   i16 version, then i64 producer id in all versions; null if the id has expired

Source: TransactionLogKey and TransactionLogValue of Kafka 4.3.1 (`kseg.decoders.schemas.transaction_state`).
"""

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from kseg.decoders.schemas.transaction_state import STATUSES, VALUES
from kseg.errors import KsegError
from kseg.formats.rows import Scratch, UndecodableError
from kseg.formats.schema import MessageError
from kseg.formats.suffixes import LOG
from kseg.kernel.layout.rows import ROW_KEY, ROW_KEY_SIZE, ROW_VALUE, ROW_VALUE_SIZE, ROW_WIDTH
from kseg.segment.batches import RecordBatch
from kseg.segment.files import SegmentFile, list_partitions, list_segments, parse_partition_name
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.stores.source import open_source

TOPIC = "__transaction_state"
MAX_BYTES = 64 << 20
"""Limit of bytes read, newest segments of each partition first: names in messages justify no longer read."""

_KEY, _VALUE, _VERSION = struct.Struct(">hh"), struct.Struct(">hq"), struct.Struct(">h")


class TransactionState(NamedTuple):
    """The last record of a transactional id. All but ``name`` are None if the record cannot be decoded;
    ``state`` also if its number is unknown.

    ``partitions``: the partitions of the ongoing transaction, as (topic, number); ``start_ms`` and ``update_ms``: when
    it began, and when its state changed last.
    """

    name: str
    producer_epoch: int | None = None
    state: str | None = None
    timeout_ms: int | None = None
    partitions: frozenset[tuple[str, int]] | None = None
    start_ms: int | None = None
    update_ms: int | None = None


def transaction_states(log_directory: str) -> dict[int, TransactionState]:
    """Returns the state in the last record of each producer id; ids that are not UTF-8 are decoded like file names.

    The id of an expired producer is known until the log cleaner removes its record.
    """
    return {producer_id: _state(*record) for producer_id, record in _last_records(log_directory).items()}


def _last_records(log_directory: str) -> dict[int, tuple[str, bytes]]:
    """Returns transactional id and value by producer id."""
    found: dict[int, tuple[str, bytes]] = {}
    scratch, left = Scratch(), MAX_BYTES
    for file in _newest_first(log_directory):
        try:
            with open_source(file.path) as source:
                left -= source.size
                if left < 0:
                    break
                found = dict(_records(SegmentReader(source, scratch=scratch))) | found
        except (KsegError, OSError):
            continue  # verification of that partition itself reports the error
    return found


def _newest_first(log_directory: str) -> list[SegmentFile]:
    """Returns the segments of all partitions of the topic, the last segment of each first."""
    try:
        partitions = [path for path in list_partitions(log_directory) if _is_of_topic(path)]
        ranked = [
            (rank, file)
            for path in partitions
            for rank, file in enumerate(reversed([file for file in list_segments(path) if file.kind == LOG]))
        ]
    except (KsegError, OSError):
        return []
    return [file for _, file in sorted(ranked, key=lambda each: each[0])]


def _is_of_topic(path: str) -> bool:
    place = parse_partition_name(os.path.basename(path))
    return place is not None and place[0] == TOPIC


def _records(reader: SegmentReader) -> Iterator[tuple[int, tuple[str, bytes]]]:
    """Yields producer id, transactional id and value of each record; skips batches that are not intact."""
    for run in reader.runs():
        if isinstance(run, Damage):
            continue
        for i in range(run.count):
            batch = reader.batch(run, i, keep=False)
            if isinstance(batch, RecordBatch) and batch.is_valid and not batch.is_control:
                yield from _records_of(batch)


def _records_of(batch: RecordBatch) -> Iterator[tuple[int, tuple[str, bytes]]]:
    try:
        for rows in batch.rows():
            columns, payload = rows.rows, rows.payload
            for at in range(0, rows.count * ROW_WIDTH, ROW_WIDTH):
                key, key_size = columns[at + ROW_KEY], columns[at + ROW_KEY_SIZE]
                value, value_size = columns[at + ROW_VALUE], columns[at + ROW_VALUE_SIZE]
                if key_size > 0 and value_size > 0:
                    name = bytes(payload[key : key + key_size])
                    content = bytes(payload[value : value + value_size])
                    pair = _pair(name, content)
                    if pair is not None:
                        yield pair[0], (pair[1], content)
    except UndecodableError:
        return


def _pair(key: bytes, value: bytes) -> tuple[int, str] | None:
    """Returns producer id and transactional id of one record; None if it has none."""
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    (record_type, length), (_, producer_id) = _KEY.unpack_from(key), _VALUE.unpack_from(value)
    name = key[_KEY.size : _KEY.size + length]
    if record_type != 0 or length < 0 or len(name) != length:
        return None
    return producer_id, os.fsdecode(name)


def _state(name: str, value: bytes) -> TransactionState:
    message, (version,) = VALUES[0], _VERSION.unpack_from(value)
    if not message.lowest <= version <= message.highest:
        return TransactionState(name)
    try:
        fields, _ = message.read(value, version, _VERSION.size)
    except MessageError:
        return TransactionState(name)
    number = fields["transactionStatus"]
    return TransactionState(
        name,
        fields["producerEpoch"],
        STATUSES[number] if 0 <= number < len(STATUSES) else None,
        fields["transactionTimeoutMs"],
        frozenset(
            (each["topic"], partition)
            for each in fields["transactionPartitions"] or ()
            for partition in each["partitionIds"]
        ),
        fields["transactionStartTimestampMs"],
        fields["transactionLastUpdateTimestampMs"],
    )
