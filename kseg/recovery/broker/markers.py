"""Reads transaction markers as a broker's producer replay does, including malformed ones with a right checksum.

Sources: ProducerAppendInfo.append, EndTransactionMarker, DefaultRecordBatch.iterator of Kafka 4.3.1.
"""

from typing import NamedTuple

from kseg.formats.control import parse_control
from kseg.formats.decompressed import DecompressionError
from kseg.formats.record_batch import ABORT, COMMIT
from kseg.formats.rows import Scratch, UndecodableError
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.segment.batches import RecordBatch
from kseg.segment.items import TIMESTAMP_TYPES, records_of

_CREATE_TIME = TIMESTAMP_TYPES.index("CreateTime")


class Marker(NamedTuple):
    """``type`` is ABORT or COMMIT; ``timestamp`` in ms."""

    type: int
    coordinator_epoch: int
    timestamp: int


class BadMarkerError(Exception):
    """The first record of a control batch is no transaction marker.

    ``is_invalid_record``: its bytes are no record (InvalidRecordException). Then a scan truncates the log after the
    batch, and a replay stops the broker. For any other reason both stop the broker.
    """

    def __init__(self, reason: str, is_invalid_record: bool) -> None:
        super().__init__(reason)
        self.is_invalid_record = is_invalid_record


def read_marker(data: bytes, scratch: Scratch) -> Marker:
    """Returns the marker of a control batch, whose record count is at least one. Raises BadMarkerError."""
    batch = RecordBatch(data, 0, len(data), MAGIC_V2, True, scratch)
    count, is_compressed = batch.header.record_count, batch.header.codec != 0
    if count < 0:
        raise BadMarkerError(f"it counts {count} records", True)
    first = None
    try:
        for rows in batch.rows():
            if first is None:
                first = next(records_of(rows, _CREATE_TIME))
            if count > 1 and not is_compressed:
                break  # a broker reads only the first record
    except UndecodableError as error:
        raise BadMarkerError(str(error), not isinstance(error.__cause__, DecompressionError)) from error
    if first is None:
        raise BadMarkerError("it has no record", True)
    control, value = parse_control(first.key, first.value), first.value
    if control.type_id is None:
        raise BadMarkerError(control.error or "", first.key is not None)
    if control.type_id not in (ABORT, COMMIT):
        raise BadMarkerError(f"its type is {control.type_id}, which is neither ABORT nor COMMIT", False)
    if control.error is not None:
        raise BadMarkerError(control.error, value is not None and len(value) >= 2 and value[0] >= 128)
    return Marker(control.type_id, control.fields["coordinatorEpoch"], first.timestamp or 0)
