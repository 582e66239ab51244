"""Decoder for __remote_log_metadata, the topic of the topic-based RemoteLogMetadataManager: copied remote segments.

kafka-dump-log.sh prints Java objects built from the records. The texts are therefore those of their ``toString``, and
values that their constructors reject are errors. Source: RemoteLogMetadataSerde and DumpLogSegments
(``--remote-log-metadata-decoder``) of Kafka 4.3.1; KIP-405.
"""

import base64
from collections.abc import Callable
from typing import Any

from kseg.decoders.decoded import Decoded, Headers, undecodable_json
from kseg.decoders.framed import read_framed, type_name
from kseg.decoders.schemas.remote_log_metadata import RECORDS
from kseg.formats.schema import MessageError

SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
DELETE_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")

_NO_VALUE = (
    'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
    '"org.apache.kafka.common.record.internal.Record.value()" is null'
)


class RemoteLogMetadataDecoder:
    """Decodes __remote_log_metadata."""

    def decode(self, key: bytes | None, value: bytes | None, offset: int, headers: Headers = ()) -> Decoded:
        """Decodes one record; see `kseg.decoders.decoded.Decoder`. The key is ignored: these records have none."""
        shown: Any = None
        try:
            if value is None:
                raise MessageError(_NO_VALUE)
            record = read_framed(value, RECORDS)
            message = RECORDS[record.api_key]
            shown = {"type": type_name(message), "version": record.version, "data": record.fields}
            return Decoded(None, _TEXTS[record.api_key](record.fields), None, shown)
        except MessageError as error:
            text = f"Error at offset {offset}, skipping. {error}"
            return Decoded(None, text, None, shown or undecodable_json(value, text))


def decoder() -> RemoteLogMetadataDecoder:
    return RemoteLogMetadataDecoder()


def _segment_metadata(fields: dict[str, Any]) -> str:
    start, end = fields["startOffset"], fields["endOffset"]
    if start < 0:
        raise MessageError(f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    if end < start:
        raise MessageError(
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}"
        )
    epochs = _epochs(fields)
    return _java_text(
        "RemoteLogSegmentMetadata",
        remoteLogSegmentId=_segment_id(fields),
        startOffset=start,
        endOffset=end,
        brokerId=fields["brokerId"],
        maxTimestampMs=fields["maxTimestampMs"],
        eventTimestampMs=fields["eventTimestampMs"],
        segmentLeaderEpochs=epochs,
        segmentSizeInBytes=fields["segmentSizeInBytes"],
        customMetadata=_custom_metadata(fields),
        state=_segment_state(fields),
        txnIdxEmpty=_txn_index_empty(fields),
    )


def _segment_metadata_update(fields: dict[str, Any]) -> str:
    return _java_text(
        "RemoteLogSegmentMetadataUpdate",
        remoteLogSegmentId=_segment_id(fields),
        customMetadata=_custom_metadata(fields),
        state=_segment_state(fields),
        eventTimestampMs=fields["eventTimestampMs"],
        brokerId=fields["brokerId"],
    )


def _partition_delete_metadata(fields: dict[str, Any]) -> str:
    state = fields["remotePartitionDeleteState"]
    if not 0 <= state < len(DELETE_STATES):
        raise MessageError("null")  # Kafka's requireNonNull has no message here
    return _java_text(
        "RemotePartitionDeleteMetadata",
        topicPartition=_topic_id_partition(fields["topicIdPartition"]),
        state=DELETE_STATES[state],
        eventTimestampMs=fields["eventTimestampMs"],
        brokerId=fields["brokerId"],
    )


def _segment_metadata_snapshot(fields: dict[str, Any]) -> str:
    state = _segment_state(fields)
    return _java_text(
        "RemoteLogSegmentMetadataSnapshot",
        segmentId=fields["segmentId"],
        startOffset=fields["startOffset"],
        endOffset=fields["endOffset"],
        maxTimestampMs=fields["maxTimestampMs"],
        segmentLeaderEpochs=_epochs(fields),
        segmentSizeInBytes=fields["segmentSizeInBytes"],
        customMetadata=_custom_metadata(fields),
        state=state,
        txnIdxEmpty=_txn_index_empty(fields),
    )


_TEXTS: dict[int, Callable[[dict[str, Any]], str]] = {
    0: _segment_metadata,
    1: _segment_metadata_update,
    2: _partition_delete_metadata,
    3: _segment_metadata_snapshot,
}


def _java_text(name: str, **fields: Any) -> str:
    return f"{name}{{{', '.join(f'{field}={value}' for field, value in fields.items())}}}"


def _topic_id_partition(fields: dict[str, Any]) -> str:
    return f"{fields['id']}:{fields['name']}-{fields['partition']}"


def _segment_id(fields: dict[str, Any]) -> str:
    segment = fields["remoteLogSegmentId"]
    partition = _topic_id_partition(segment["topicIdPartition"])
    return _java_text("RemoteLogSegmentId", topicIdPartition=partition, id=segment["id"])


def _segment_state(fields: dict[str, Any]) -> str:
    state = fields["remoteLogSegmentState"]
    if not 0 <= state < len(SEGMENT_STATES):
        raise MessageError("state can not be null")
    return SEGMENT_STATES[state]


def _epochs(fields: dict[str, Any]) -> str:
    offsets = {entry["leaderEpoch"]: entry["offset"] for entry in fields["segmentLeaderEpochs"]}
    if not offsets:
        raise MessageError("segmentLeaderEpochs can not be null or empty")
    return "{" + ", ".join(f"{epoch}={offsets[epoch]}" for epoch in sorted(offsets)) + "}"


def _custom_metadata(fields: dict[str, Any]) -> str:
    encoded = fields["customMetadata"]
    if encoded is None:
        return "Optional.empty"
    return f"Optional[CustomMetadata{{{len(base64.b64decode(encoded))} bytes}}]"


def _txn_index_empty(fields: dict[str, Any]) -> str:
    return "true" if fields.get("txnIndexEmpty", False) else "false"
