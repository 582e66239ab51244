"""Decoders for user keys and values: the formats of --key-format and --value-format, and Kafka's class names for them.

    auto       utf8 if the bytes are valid UTF-8, else base64  utf8    text; in JSON other bytes become an object
    base64 hex                                                json     the document itself
    short int long float double   Kafka's serializers         uuid     text (Kafka's serializer) or 16 bytes
    string     UTF-8 as Java decodes it, with U+FFFD          bytes    printable ASCII and \\xHH (Kafka's Bytes)
    boolean void                  Kafka's serializers         confluent   output of Schema Registry serializers
    module:callable               a user's function           avro        the same, decoded with schemas

confluent is a magic byte 0 and the schema's id (int32), or a magic byte 1 and its GUID (16 bytes), then the payload.
Newer serializers write these 5 or 17 bytes into a record header __key_schema_id or __value_schema_id. Arbitrary bytes
may begin like that, and a zero byte is valid UTF-8: auto assumes a schema only if there is such a header, avro only if
`kseg.decoders.registry` has it and the payload matches; other bytes are shown as by utf8. With a Protobuf schema the
payload is shown as it is, with the message indexes before it: zigzag varints, preceded by their count.

A user's function with a parameter ``headers`` receives the record's headers, as Kafka's deserializers do.

Bytes that do not match the format give a text with the reason, never an exception.
"""

import base64
import json
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple
from uuid import UUID

from kseg.decoders.avro import AvroError, need_fastavro
from kseg.decoders.decoded import Decoded, Headers, undecodable_json
from kseg.decoders.registry import AVRO, JSON_SCHEMA, PARTITION, PROTOBUF, SchemaName, Schemas, place_beside, schemas_at
from kseg.errors import KsegError, PathError, UnsupportedError
from kseg.formats import java_text
from kseg.formats.java_text import double_text, float_text
from kseg.formats.json_values import encode, number_value
from kseg.segment.files import SegmentFile

SCHEMA_HEADERS = b"__key_schema_id", b"__value_schema_id"
_UNCHANGED = frozenset(("auto", "utf8", "base64", "bytes", "confluent", "avro"))
"""Formats whose JSON form loses no byte, unless a schema was used."""

_UUID = re.compile(r"([0-9a-f]{1,8})-([0-9a-f]{1,4})-([0-9a-f]{1,4})-([0-9a-f]{1,4})-([0-9a-f]{1,12})", re.IGNORECASE)
_SCHEMA_ID = struct.Struct(">i")
_ID_BYTES, _GUID_BYTES = 5, 17
_SHOWN_BYTES = 32
"""Bytes of an unreadable value in its text."""


class Shown(NamedTuple):
    """One key or value: its text, its JSON form, and the schema with which it was decoded."""

    text: str
    value: Any
    schema: SchemaName | None = None


Format = Callable[[bytes], Shown]


class FormatError(ValueError):
    """Unknown format or class; the message is a sentence for users."""


class UnfitError(ValueError):
    """Bytes that do not match the format."""


class ValuesDecoder:
    """The `Decoder` of user keys and values, in two formats for `load`. ``schemas``: those of the format avro.

    Raises FormatError as `load` does.
    """

    implies_contents = False

    def __init__(self, key_format: str = "utf8", value_format: str = "utf8", schemas: Schemas | None = None) -> None:
        self.schemas = schemas
        self._names = key_format, value_format
        self._formats = [load(name) for name in self._names]

    def decode(self, key: bytes | None, value: bytes | None, offset: int, headers: Headers = ()) -> Decoded:
        """Decodes one record. The formats auto, confluent and avro look for a schema in ``headers``."""
        parts = zip(self._names, self._formats, (key, value), SCHEMA_HEADERS, strict=True)
        shown = [
            None if data is None else self._shown(name, form, data, headers, header)
            for name, form, data, header in parts
        ]
        marks: dict[str, Any] = {}
        for part, name, each in zip(("key", "value"), self._names, shown, strict=True):
            if each is not None and each.schema is not None:
                marks |= {f"{part}Format": name, f"{part}Schema": each.schema}
            elif each is not None and name not in _UNCHANGED:
                marks[f"{part}Format"] = name
        (key_text, key_value), (text, value_shown) = ((None, None) if each is None else each[:2] for each in shown)
        return Decoded(key_text, text, key_value, value_shown, marks or None)

    def _shown(self, name: str, form: Format, data: bytes, headers: Headers, schema_header: bytes) -> Shown:
        try:
            if isinstance(form, _UserFunction):
                return form(data, headers)
            if name == "avro" and self.schemas is not None:
                written = written_with(data, headers, schema_header)
                return (None if written is None else _by_schema(self.schemas, written)) or form(data)
            if name in ("auto", "confluent") and (found := _by_header(data, headers, schema_header)) is not None:
                return _with_schema(found.schema, data)
            return form(data)
        except UnfitError as error:
            shown = "0x" + data[:_SHOWN_BYTES].hex() if data else "nothing"
            if len(data) > _SHOWN_BYTES:
                shown += f"... of {len(data)} bytes"
            return Shown(f"<{error}: {shown}>", undecodable_json(data, str(error)))


def by_schemas(
    place: str | None, warn: Callable[[str], None], formats: tuple[str, str], is_needed: bool = True
) -> Callable[[SegmentFile], ValuesDecoder | None]:
    """Returns a function from a file to the decoder with the schemas at ``place``; None: in its log directory.

    It returns None for a file without schemas unless they are needed. ``formats``: of keys and values. Raises
    UnsupportedError without fastavro; the function raises PathError and KsegError as `schemas_at`.
    """
    is_needed = is_needed or place is not None
    if is_needed:
        need_fastavro()

    @cache
    def decoder_at(found: str) -> ValuesDecoder | None:
        try:
            need_fastavro()
            return ValuesDecoder(*formats, schemas_at(found, warn))
        except KsegError as error:
            if is_needed:
                raise
            is_lacking = isinstance(error, UnsupportedError)
            warn(f"{found}: is not used: {error}" if is_lacking else f"{error}; its schemas are not used")
            return None

    def choose(file: SegmentFile) -> ValuesDecoder | None:
        found = place_beside(file) if place is None else place
        if found is None and is_needed:
            raise PathError(
                f"{file.path}: there is no {PARTITION} in its log directory: give --schemas (in Python schemas=)"
            )
        return None if found is None else decoder_at(found)

    return choose


def load(name: str) -> Format:
    """Returns the format for a name, a Kafka class name or a ``module:callable``. Raises FormatError for any other."""
    if known := FORMATS.get(name) or CLASSES.get(name):
        return known
    if ":" in name:
        return _UserFunction(name)
    if "." in name:
        raise FormatError(f"{name}: no class that kseg has an equivalent of; module:callable names a Python function")
    raise FormatError(f"{name}: no format; there are {', '.join(FORMATS)} and module:callable")


def _base64(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode()}


def _text(text: str) -> Shown:
    return Shown(text, text)


def _utf8_or(data: bytes, text: Callable[[bytes], str]) -> Shown:
    try:
        return _text(data.decode())
    except UnicodeDecodeError:
        return Shown(text(data), _base64(data))


def _auto(data: bytes) -> Shown:
    return _utf8_or(data, lambda data: "base64:" + _base64(data)["base64"])


def _utf8(data: bytes) -> Shown:
    return _utf8_or(data, java_text.decode)


def _bytes(data: bytes) -> Shown:
    text = "".join(chr(b) if 32 <= b <= 126 and b != 92 else f"\\x{b:02X}" for b in data)
    return Shown(text, _base64(data))


def _json(data: bytes) -> Shown:
    try:
        document = json.loads(data.decode(), parse_constant=_refused, parse_float=_finite)
        return Shown(json.dumps(document, ensure_ascii=False, separators=(",", ":")), document)
    except UnicodeDecodeError:
        raise UnfitError("not JSON, as it is not UTF-8") from None
    except RecursionError:
        raise UnfitError("JSON that is nested too deeply") from None
    except ValueError as error:
        raise UnfitError(f"not JSON ({error})") from None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return number


def _number(name: str, code: str, text: Callable[[Any], str], is_exact: bool = True) -> Format:
    """A big-endian number. Unless ``is_exact``, trailing bytes are ignored, as by Kafka's Decoder classes."""
    layout = struct.Struct(">" + code)

    def show(data: bytes) -> Shown:
        if len(data) != layout.size and (is_exact or len(data) < layout.size):
            raise UnfitError(f"not {name}, which has {layout.size} bytes and not {len(data)}")
        (number,) = layout.unpack_from(data)
        shown = text(number)
        if isinstance(number, int):
            return Shown(shown, number)
        return Shown(shown, number_value(float(shown)))  # a float must not be printed as its nearest double

    return show


def _boolean(data: bytes) -> Shown:
    if data not in (b"\0", b"\1"):
        raise UnfitError("not a boolean, which is one byte 0 or 1")
    return Shown("true" if data[0] else "false", bool(data[0]))


def _void(data: bytes) -> Shown:
    raise UnfitError("not void, which is always null")


def uuid_text(data: bytes) -> str:
    """Returns a UUID as Java shows it: Kafka's UUIDSerializer writes text, others the 128 bits. Raises UnfitError."""
    found = _UUID.fullmatch(data.decode("latin-1"))
    if found:
        text = "-".join(part.rjust(size, "0") for part, size in zip(found.groups(), (8, 4, 4, 4, 12), strict=True))
        return text.lower()
    if len(data) != 16:
        raise UnfitError("not a UUID, neither its text nor its 16 bytes")
    return str(UUID(bytes=data))


def _uuid(data: bytes) -> Shown:
    return _text(uuid_text(data))


def _schema_of(data: bytes) -> tuple[str, Any, int] | None:
    """Returns the JSON field name, the schema and the length of the schema prefix; None if there is no such prefix."""
    if len(data) >= _ID_BYTES and data[0] == 0:
        schema_id = _SCHEMA_ID.unpack_from(data, 1)[0]
        return None if schema_id < 0 else ("schemaId", schema_id, _ID_BYTES)
    if len(data) >= _GUID_BYTES and data[0] == 1:
        return "schemaGuid", str(UUID(bytes=data[1:_GUID_BYTES])), _GUID_BYTES
    return None


def _message_indexes(data: bytes) -> tuple[list[int], int] | None:
    """Returns the path of a message in a Protobuf schema, zigzag varints, and where it ends. None if malformed.

    The count comes first; a count of 0 stands for the first message of the schema.
    """
    numbers: list[int] = []
    number = shift = 0
    for at, byte in enumerate(data):
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 35:
            return None
        if byte < 0x80:
            numbers.append((number >> 1) ^ -(number & 1))
            number = shift = 0
            if numbers[0] == len(numbers) - 1:
                return numbers[1:] or [0], at + 1
    return None


class SchemaPayload(NamedTuple):
    """A payload, and the ``schema`` that a serializer wrote with it, as JSON."""

    schema: dict[str, Any]
    name: SchemaName
    payload: bytes


def written_with(data: bytes, headers: Headers, schema_header: bytes) -> SchemaPayload | None:
    """Returns the schema and payload of a key or value, by its header or its first bytes; None for others."""
    found = _by_header(data, headers, schema_header)
    return _by_prefix(data) if found is None else found


def _by_header(data: bytes, headers: Headers, schema_header: bytes) -> SchemaPayload | None:
    """If a record header names the schema, ``data`` is all payload. Malformed headers of that name are ignored."""
    # Of several headers with one key the last counts, as in Headers.lastHeader.
    held = (value for name, value in reversed(tuple(headers)) if name == schema_header and value is not None)
    header = next(held, b"")
    found = _schema_of(header)
    if found is None:
        return None
    schema = {found[0]: found[1]}
    if rest := header[found[2] :]:
        indexes = _message_indexes(rest)
        if indexes is None or indexes[1] != len(rest):
            return None
        schema["messageIndexes"] = indexes[0]
    return SchemaPayload(schema, found[1], data)


def _by_prefix(data: bytes) -> SchemaPayload | None:
    found = _schema_of(data)
    return None if found is None else SchemaPayload({found[0]: found[1]}, found[1], data[found[2] :])


def _document(value: Any) -> Shown:
    return Shown(encode(value).decode(), value)


def _with_schema(schema: dict[str, Any], payload: bytes) -> Shown:
    return _document({**schema, "payload": _utf8(payload).value})


def _confluent(data: bytes) -> Shown:
    found = _by_prefix(data)
    if found is None:
        raise UnfitError("no schema id before a payload: neither 0 and an int32, nor 1 and a GUID")
    return _with_schema(found.schema, found.payload)


def _by_schema(schemas: Schemas, found: SchemaPayload) -> Shown | None:
    """Returns a payload decoded with its schema; None if that is not known or the payload does not match."""
    kind, payload = schemas.kind(found.name), found.payload
    shown: Shown | None = None
    try:
        if kind == AVRO and (reader := schemas.reader(found.name)) is not None:
            shown = _document(reader(payload))
        elif kind == JSON_SCHEMA:
            shown = _json(payload)
        elif kind == PROTOBUF and "messageIndexes" in found.schema:
            shown = _with_schema(found.schema, payload)
        elif kind == PROTOBUF and (indexes := _message_indexes(payload)) is not None:
            shown = _with_schema({**found.schema, "messageIndexes": indexes[0]}, payload[indexes[1] :])
    except (AvroError, UnfitError):
        return None
    return None if shown is None else shown._replace(schema=found.name)


class _UserFunction:
    """A user's function as a format, from a ``module:callable``; ``headers`` are passed only if it has a parameter of
    that name. Raises FormatError."""

    def __init__(self, name: str) -> None:
        import inspect

        module_name, _, path = name.partition(":")
        try:
            function: Any = import_module(module_name)
            for part in path.split("."):
                function = getattr(function, part)
        except Exception as error:  # importing a module runs arbitrary code
            raise FormatError(f"{name}: {_error_text(error)} (modules are looked for on PYTHONPATH)") from error
        if not callable(function):
            raise FormatError(f"{name}: is not callable")
        found = None
        with suppress(TypeError, ValueError):  # some built-in functions have no signature
            found = inspect.signature(function).parameters.get("headers")
        self._name, self._function = name, function
        self._takes_headers = found is not None and found.kind in (found.KEYWORD_ONLY, found.POSITIONAL_OR_KEYWORD)

    def __call__(self, data: bytes, headers: Headers = ()) -> Shown:
        more = {"headers": [tuple(header) for header in headers]} if self._takes_headers else {}
        try:
            return _result(self._function(data, **more))
        except Exception as error:  # one unreadable record must not end the dump
            raise UnfitError(f"{self._name}: {_error_text(error)}") from error


def _result(result: Any) -> Shown:
    if isinstance(result, bytes | bytearray | memoryview):
        return _auto(bytes(result))
    text = result if isinstance(result, str) else str(result)
    try:
        json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return _text(text)
    return Shown(text, result)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


FORMATS: dict[str, Format] = {
    "auto": _auto,
    "utf8": _utf8,
    "base64": lambda data: Shown((found := _base64(data))["base64"], found),
    "hex": lambda data: Shown(data.hex(), {"hex": data.hex()}),
    "json": _json,
    "short": _number("a short", "h", str),
    "int": _number("an int", "i", str),
    "long": _number("a long", "q", str),
    "float": _number("a float", "f", float_text),
    "double": _number("a double", "d", double_text),
    "boolean": _boolean,
    "uuid": _uuid,
    "string": lambda data: _text(java_text.decode(data)),
    "bytes": _bytes,
    "void": _void,
    "confluent": _confluent,
    "avro": _utf8,  # with schemas `ValuesDecoder` decodes what they describe
}

_DECODERS: dict[str, Format] = {
    "Default": _bytes, "Integer": _number("an int", "i", str, is_exact=False),
    "Long": _number("a long", "q", str, is_exact=False), "String": FORMATS["string"],
}  # fmt: skip

_DESERIALIZERS = {
    "Boolean": "boolean", "ByteArray": "bytes", "ByteBuffer": "bytes", "Bytes": "bytes", "Double": "double",
    "Float": "float", "Integer": "int", "Long": "long", "Short": "short", "String": "string", "UUID": "uuid",
    "Void": "void",
}  # fmt: skip

CLASSES: dict[str, Format] = {
    **{
        f"{package}.{name}Decoder": form
        for package in ("org.apache.kafka.tools.api", "kafka.serializer")
        for name, form in _DECODERS.items()
    },
    **{
        f"org.apache.kafka.common.serialization.{name}Deserializer": FORMATS[form]
        for name, form in _DESERIALIZERS.items()
    },
}
"""Kafka classes for --key-decoder-class and --value-decoder-class; Decoder classes of Kafka's tools since 0.8."""
