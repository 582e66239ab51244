"""The record framing of the three coordinators (__consumer_offsets, __transaction_state, __share_group_state).

    key     i16 record type, then the key message of that type (not flexible)
    value   i16 version, then the value message in that version; null is a tombstone

Trailing bytes after either message are ignored. Source: CoordinatorRecordSerde and DumpLogSegments of Kafka 4.4.0.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from kseg.decoders.decoded import Decoded, Headers, undecodable_json
from kseg.formats.program import Program, Switch, coordinator_program
from kseg.formats.schema import MessageError, MessageSchema, json_text

TOMBSTONE = "<DELETE>"

_PREFIX = struct.Struct(">h")


class CoordinatorDecoder:
    """Decodes the records of one coordinator; `refine` (record type, value fields) may change the fields in place.

    `switch` is the kernel's description of the same messages.
    """

    def __init__(
        self,
        keys: Mapping[int, MessageSchema],
        values: Mapping[int, MessageSchema],
        refine: Callable[[int, dict[str, Any]], None] | None = None,
        switch: Switch | None = None,
    ):
        self._keys = keys
        self._values = values
        self._refine = refine
        self._switch = switch

    @cached_property
    def program(self) -> Program:
        return coordinator_program(self._keys, self._values, self._switch)

    def decode(self, key: bytes | None, value: bytes | None, offset: int, headers: Headers = ()) -> Decoded:
        """Decodes one record; see `kseg.decoders.decoded.Decoder`."""
        if key is None:
            # Kafka's tool stops only here, with an exception of this text; kseg prints the text and continues.
            missing = (
                f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)"
            )
            return Decoded(missing, None, None, undecodable_json(value, missing))
        try:
            record_type = _prefix(key, "key")
        except MessageError as error:
            return _skipped(key, value, offset, str(error))
        if record_type not in self._keys:
            unknown = f"Unknown record type {record_type} at offset {offset}, skipping."
            return Decoded(unknown, None, undecodable_json(key, unknown), undecodable_json(value, unknown))
        return self._decode_type(record_type, key, value, offset)

    def _decode_type(self, record_type: int, key: bytes, value: bytes | None, offset: int) -> Decoded:
        try:
            shown = {"type": str(record_type), "data": _message(self._keys[record_type], key, record_type, "key")}
        except MessageError as error:
            return _skipped(key, value, offset, str(error))
        if value is None:
            return Decoded(json_text(shown), TOMBSTONE, shown, None)
        try:
            content = self._value(record_type, value)
        except MessageError as error:
            return _skipped(key, value, offset, str(error))._replace(key=shown)
        printed = {**content, "data": self._values[record_type].printed(content["data"])}
        return Decoded(json_text(shown), json_text(printed), shown, content)

    def _value(self, record_type: int, value: bytes) -> dict[str, Any]:
        message = self._values[record_type]
        version = _prefix(value, "value")
        if not message.lowest <= version <= message.highest:
            raise MessageError(f"Found an unknown record version {version} for {record_type} type")
        fields = _message(message, value, version, "value")
        if self._refine is not None:
            self._refine(record_type, fields)
        return {"version": str(version), "data": fields}


def _prefix(data: bytes, name: str) -> int:
    if len(data) < _PREFIX.size:
        raise MessageError(f"Could not read version from {name}'s buffer.")
    (number,) = _PREFIX.unpack_from(data)
    return int(number)


def _message(message: MessageSchema, data: bytes, version: int, name: str) -> dict[str, Any]:
    try:
        fields, _end = message.read(data, version, _PREFIX.size)
    except MessageError as error:
        raise MessageError(
            f"Could not read record with version {version} from {name}'s buffer due to: {error}."
        ) from error
    return fields


def _skipped(key: bytes, value: bytes | None, offset: int, error: str) -> Decoded:
    text = f"Error at offset {offset}, skipping. {error}"
    return Decoded(text, None, undecodable_json(key, text), undecodable_json(value, text))
