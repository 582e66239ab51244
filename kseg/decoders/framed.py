"""Decoders for __cluster_metadata (and KRaft snapshots) and __remote_log_metadata, whose records have one framing.

    value   uvarint frame version (1), uvarint apiKey, uvarint version, then the message, and no trailing bytes
    key     none

kafka-dump-log.sh prints Java objects built from the records of __remote_log_metadata. The texts are therefore those of
their ``toString``, and values that their constructors reject are errors. Source: AbstractApiMessageSerde,
MetadataRecordSerde, RemoteLogMetadataSerde and DumpLogSegments of Kafka 4.4.0; KIP-405, KIP-631.
"""

import base64
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from kseg.decoders.decoded import Decoded, Headers, undecodable_json
from kseg.decoders.schemas import CLUSTER_METADATA, REMOTE_LOG_METADATA
from kseg.formats.schema import INT16_MAX, FieldSpan, MessageError, MessageSchema, Wire, json_text, without_unknown_tags

if TYPE_CHECKING:
    from kseg.formats.program import Program

FRAME_VERSION = 1


class FramedRecord(NamedTuple):
    """One record: its apiKey, message version and fields."""

    api_key: int
    version: int
    fields: dict[str, Any]


def read_framed(
    data: bytes | None, records: Mapping[int, MessageSchema], spans: list[FieldSpan] | None = None
) -> FramedRecord:
    """Reads the record in `data`; `spans` are those of `MessageSchema.read`.

    Raises MessageError with the text of Kafka's MetadataParseException.
    """
    if data is None:
        raise MessageError("Error while reading frame version")
    wire = Wire(data)
    frame_version = _small(wire, "frame version")
    if frame_version == 0:
        raise MessageError(
            "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview "
            "release of KRaft in 2.8 to newer versions are not supported."
        )
    if frame_version != FRAME_VERSION:
        raise MessageError(
            f"Could not deserialize metadata record due to unknown frame version {frame_version}"
            f"(only frame version {FRAME_VERSION} is supported)"
        )
    api_key, version = _small(wire, "type"), _small(wire, "version")
    if api_key not in records:
        raise MessageError(f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {api_key}")
    try:
        fields, end = records[api_key].read(data, version, wire.position, spans=spans)
    except MessageError as error:
        raise MessageError(f"Failed to deserialize record with type {api_key}") from error
    if end < len(data):
        raise MessageError(f"Found {len(data) - end} byte(s) of garbage after {api_key}")
    return FramedRecord(api_key, version, fields)


def framed(record: FramedRecord, records: Mapping[int, MessageSchema]) -> bytes:
    """Returns the bytes of a record. Raises ValueError for what its version cannot hold."""
    fields = records[record.api_key].write(record.fields, record.version)
    return bytes((FRAME_VERSION, record.api_key, record.version)) + fields


def type_name(message: MessageSchema) -> str:
    """Returns the constant of Kafka's MetadataRecordType: TOPIC_RECORD for ``TopicRecord``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", message.name).upper()


def _small(wire: Wire, name: str) -> int:
    try:
        number = wire.uvarint()
    except MessageError as error:
        raise MessageError(f"Error while reading {name}") from error
    if number > INT16_MAX:
        raise MessageError(f"Value for {name} was too large.")
    low = number & 0xFFFF
    return low - 0x10000 if low > INT16_MAX else low


REDACTED = "<redacted>"

CONFIG, DELEGATION_TOKEN, USER_SCRAM_CREDENTIAL, REMOVE_DELEGATION_TOKEN = 4, 10, 11, 26
_SECRET_FIELDS = {
    DELEGATION_TOKEN: ("tokenId",),
    USER_SCRAM_CREDENTIAL: ("salt", "storedKey", "serverKey"),
    REMOVE_DELEGATION_TOKEN: ("tokenId",),
}
# Broker settings of ConfigDef.Type.PASSWORD, with or without a listener prefix, and common names for them in plug-ins.
SECRET_CONFIG = re.compile(r"password|secret|credential|token|jaas\.config|keystore\.key|certificate", re.IGNORECASE)


class ClusterMetadataDecoder:
    """Decodes __cluster_metadata; with `redact`, secrets become ``<redacted>`` in texts and in objects."""

    def __init__(self, redact: bool = False):
        self._redact = redact

    @cached_property
    def program(self) -> "Program | None":
        """None if secrets must be redacted, which only `decode` can do."""
        from kseg.formats.program import framed_program

        names = {api_key: type_name(message) for api_key, message in CLUSTER_METADATA.items()}
        return None if self._redact else framed_program(CLUSTER_METADATA, names)

    def decode(self, key: bytes | None, value: bytes | None, offset: int, headers: Headers = ()) -> Decoded:
        """Decodes one record; see `kseg.decoders.decoded.Decoder`. The key is ignored: these records have none."""
        try:
            record = read_framed(value, CLUSTER_METADATA)
        except MessageError as error:
            text = f"Error at {offset}, skipping. {error}"
            # Undecodable bytes may contain a secret too.
            shown = {"error": text} if self._redact else undecodable_json(value, text)
            return Decoded(None, text, None, shown)
        fields = record.fields
        if self._redact:
            fields = without_unknown_tags(fields)  # fields of a newer release may be secret
            redact(record.api_key, fields)
        shown = {"type": type_name(CLUSTER_METADATA[record.api_key]), "version": record.version, "data": fields}
        return Decoded(None, json_text(shown), None, shown)


def redact(api_key: int, fields: dict[str, Any]) -> None:
    """Replaces the secrets among `fields` of a record of type `api_key`, in place."""
    for name in _SECRET_FIELDS.get(api_key, ()):
        fields[name] = REDACTED
    if api_key == CONFIG and fields["value"] is not None and SECRET_CONFIG.search(fields["name"]):
        fields["value"] = REDACTED


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
            record = read_framed(value, REMOTE_LOG_METADATA)
            message = REMOTE_LOG_METADATA[record.api_key]
            shown = {"type": type_name(message), "version": record.version, "data": record.fields}
            return Decoded(None, _object_text(record.api_key, record.fields), None, shown)
        except MessageError as error:
            text = f"Error at offset {offset}, skipping. {error}"
            return Decoded(None, text, None, shown or undecodable_json(value, text))


def _java_text(name: str, **fields: Any) -> str:
    return f"{name}{{{', '.join(f'{field}={value}' for field, value in fields.items())}}}"


def _topic_id_partition(fields: dict[str, Any]) -> str:
    return f"{fields['id']}:{fields['name']}-{fields['partition']}"


def _segment_id(fields: dict[str, Any]) -> str:
    segment = fields["remoteLogSegmentId"]
    partition = _topic_id_partition(segment["topicIdPartition"])
    return _java_text("RemoteLogSegmentId", topicIdPartition=partition, id=segment["id"])


def _state(fields: dict[str, Any]) -> str:
    if (state := fields.get("remotePartitionDeleteState")) is not None:
        if not 0 <= state < len(DELETE_STATES):
            raise MessageError("null")  # Kafka's requireNonNull has no message here
        return DELETE_STATES[state]
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


_SHOWN: dict[str, Callable[[dict[str, Any]], str]] = {
    "remoteLogSegmentId": _segment_id,
    "topicPartition": lambda fields: _topic_id_partition(fields["topicIdPartition"]),
    "segmentLeaderEpochs": _epochs,
    "customMetadata": _custom_metadata,
    "state": _state,
    "txnIdxEmpty": lambda fields: "true" if fields.get("txnIndexEmpty", False) else "false",
}
"""Texts of fields that are not printed as they are."""

_CLASSES = {
    0: (
        "RemoteLogSegmentMetadata",
        "remoteLogSegmentId startOffset endOffset brokerId maxTimestampMs eventTimestampMs segmentLeaderEpochs "
        "segmentSizeInBytes customMetadata state txnIdxEmpty",
    ),
    1: ("RemoteLogSegmentMetadataUpdate", "remoteLogSegmentId customMetadata state eventTimestampMs brokerId"),
    2: ("RemotePartitionDeleteMetadata", "topicPartition state eventTimestampMs brokerId"),
    3: (
        "RemoteLogSegmentMetadataSnapshot",
        "segmentId startOffset endOffset maxTimestampMs segmentLeaderEpochs segmentSizeInBytes customMetadata state "
        "txnIdxEmpty",
    ),
}
"""Java classes of the records by apiKey, with the fields that their texts show."""


def _object_text(api_key: int, fields: dict[str, Any]) -> str:
    """Returns the text of the Java object of a record. Raises MessageError where its constructor fails."""
    name, shown = _CLASSES[api_key]
    start, end = fields.get("startOffset", 0), fields.get("endOffset", 0)
    if api_key == 0 and start < 0:
        raise MessageError(f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    if api_key == 0 and end < start:
        raise MessageError(
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}"
        )
    if api_key == 3:
        _state(fields)  # checked first
    return _java_text(name, **{field: _SHOWN.get(field, itemgetter(field))(fields) for field in shown.split()})
