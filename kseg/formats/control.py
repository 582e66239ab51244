"""Parses the records of control batches.

    key    i16 version (0), i16 type; a higher version is read as 0, a negative one is refused
    type   name             value
    0      ABORT            i16 version, i32 coordinatorEpoch          partitions with transactions
    1      COMMIT           the same
    2      LEADER_CHANGE    a flexible message each, always read as    the KRaft log
    3      SNAPSHOT_HEADER  version 0, without a version before it;    KRaft snapshots
    4      SNAPSHOT_FOOTER  its first field is called `version`        KRaft snapshots
    5      KRAFT_VERSION                                               the KRaft log and snapshots
    6      KRAFT_VOTERS                                                the KRaft log and snapshots
    other  UNKNOWN          anything

Source: ControlRecordType, EndTransactionMarker, ControlRecordUtils and DumpLogSegments of Kafka 4.3.1; KIP-98, KIP-595,
KIP-630, KIP-853.
"""

import struct
from contextlib import suppress
from typing import Any, NamedTuple

from kseg.formats import record_batch
from kseg.formats.schema import UNDERFLOW, ZERO_UUID, FieldSpan, MessageError, MessageSchema, json_text

NAMES = ("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS")
UNKNOWN = "UNKNOWN"

_KEY = struct.Struct(">hh")
_END_TXN_MARKER = struct.Struct(">hi")
# Messages by type, named as kafka-dump-log prints them.
_MESSAGES = {
    record_batch.LEADER_CHANGE: MessageSchema(
        "LeaderChange:",
        "version:i16, leaderId:i32, voters:[]{voterId:i32, voterDirectoryId:uuid(v1+)},"
        " grantingVoters:[]{voterId:i32, voterDirectoryId:uuid(v1+)}",
    ),
    record_batch.SNAPSHOT_HEADER: MessageSchema("SnapshotHeader", "version:i16, lastContainedLogTimestamp:i64"),
    record_batch.SNAPSHOT_FOOTER: MessageSchema("SnapshotFooter", "version:i16"),
    record_batch.KRAFT_VERSION: MessageSchema("KRaftVersion", "version:i16, kRaftVersion:i16"),
    record_batch.KRAFT_VOTERS: MessageSchema(
        "KRaftVoters",
        "version:i16, voters:[]{voterId:i32, voterDirectoryId:uuid, endpoints:[]{name:str, host:str, port:u16},"
        " kRaftVersionFeature:{minSupportedVersion:i16, maxSupportedVersion:i16}}",
    ),
}


class ControlRecord(NamedTuple):
    """One control record; if it is malformed, `error` is the reason and `fields` is empty.

    type_id   None if the key is unreadable
    name      of ControlRecordType
    fields    of the message, named as in Kafka's JSON
    """

    type_id: int | None
    name: str
    fields: dict[str, Any]
    error: str | None = None


def control_record(type_id: int, fields: dict[str, Any]) -> tuple[bytes, bytes]:
    """Returns key and value of a record of the KRaft log, in version 0. Raises ValueError."""
    return _KEY.pack(0, type_id), _MESSAGES[type_id].write(fields | {"version": 0}, 0)


def parse_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Parses a record of a control batch. Never raises; ignores trailing bytes after the message, as Kafka does."""
    if key is None or len(key) < _KEY.size:
        size = "no key" if key is None else f"a key of {len(key)} bytes"
        return ControlRecord(None, UNKNOWN, {}, f"{size}, where a control record has at least {_KEY.size}")
    version, type_id = _KEY.unpack_from(key)
    if version < 0:
        return ControlRecord(None, UNKNOWN, {}, f"key version {version}")
    if not 0 <= type_id < len(NAMES):
        return ControlRecord(type_id, UNKNOWN, {})
    try:
        if value is None:
            raise MessageError("no value")
        if type_id not in _MESSAGES:
            if len(value) < _END_TXN_MARKER.size:
                raise MessageError(UNDERFLOW)
            version, coordinator_epoch = _END_TXN_MARKER.unpack_from(value)
            if version < 0:
                raise MessageError(f"end transaction marker version {version}")
            fields = {"version": version, "coordinatorEpoch": coordinator_epoch}
        else:
            fields, _end = _MESSAGES[type_id].read(value, 0)
    except MessageError as error:
        reason = "value ends too early" if str(error) == UNDERFLOW else str(error)
        return ControlRecord(type_id, NAMES[type_id], {}, reason)
    if type_id == record_batch.LEADER_CHANGE and fields["version"] >= 1:
        # Kafka reads the message as version 0 but prints it in its stored version, including fields that it never read.
        for voter in fields["voters"] + fields["grantingVoters"]:
            voter["voterDirectoryId"] = ZERO_UUID
    return ControlRecord(type_id, NAMES[type_id], fields)


def known_parts(key: bytes | None, value: bytes | None) -> tuple[int, int, list[FieldSpan]]:
    """Returns how many bytes of key and value of a control record are fields of its type, and the places of texts among
    them, such as the hosts of voters. Never raises."""
    of_key = _KEY.size if key is not None and key[:1] in (b"\0", b"\xff") else 0  # numbers: no text begins so
    type_id, spans = parse_control(key, value).type_id, list[FieldSpan]()
    if type_id in (record_batch.ABORT, record_batch.COMMIT):
        return of_key, _END_TXN_MARKER.size, spans
    with suppress(MessageError):
        if type_id in _MESSAGES and value is not None:
            return of_key, _MESSAGES[type_id].read(value, 0, spans=spans)[1], spans
    return of_key, 0, []


def control_text(record: ControlRecord) -> str:
    """Returns the text that kafka-dump-log.sh 4.4.0 appends to the record's line, with a leading space, or the error
    at which it would stop."""
    if record.error is not None:
        return f" controlType: undecodable ({record.error})"
    if record.name == UNKNOWN:
        return f" controlType: {UNKNOWN}({record.type_id})"
    if record.type_id in (record_batch.ABORT, record_batch.COMMIT):
        return f" endTxnMarker: {record.name} coordinatorEpoch: {record.fields['coordinatorEpoch']}"
    return f" {_MESSAGES[record.type_id or 0].name} {json_text(record.fields)}"


def control_object(record: ControlRecord) -> dict[str, Any]:
    """Returns the record for kseg's JSON: its type, then the fields of its message, or an `error`."""
    shown: dict[str, Any] = {"type": record.name}
    if record.name == UNKNOWN and record.type_id is not None:
        shown["typeId"] = record.type_id
    shown.update(record.fields)
    if record.error is not None:
        shown["error"] = record.error
    return shown
