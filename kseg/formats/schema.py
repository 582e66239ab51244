"""Reads Kafka's generated messages (KIP-482) by tables: records of internal topics and KRaft's control records.

A table is one line in kseg's own notation, with the fields in wire order::

    offset:i64, leaderEpoch:i32(v3+), members:[]{id:str, rack:str?}, topicId:uuid(v4+ tag0)

    i8 i16 i32 i64 u16   big-endian integers           f64    IEEE 754, 8 bytes
    bool                 1 byte, 0 is false            uuid   16 bytes, shown as base64url without padding
    str bytes            UTF-8 text; bytes, shown as base64
    records              like bytes: read as their number, written by `write_parts` from elsewhere
    {..}                 a struct                      []X    an array of X
    ?                    nullable                      vN+    present since version N (vN: in version N only;
                                                              vN-M: in versions N to M)
    tagN                 not in line, but under tag N of the section that ends its struct
    =x                   default of a tagged field, if not 0, "", [], a struct of such, or (`?`) null
    names A B            texts for 0, 1, ... of an i8 of the message itself, which the text form prints

    length or count of   before the flexible version      from it on
    str                  i16, -1 null                     uvarint(n + 1), 0 null
    bytes, array         i32, -1 null                     uvarint(n + 1), 0 null
    nullable struct      i8: negative is null             the same; under a tag: uvarint, 0 is null
    end of a struct      nothing                          uvarint count, then per tag: uvarint tag, uvarint size, data

A message is read into plain dict, list, int, str, float, bool and None. Names, order and omissions follow Kafka's
generated ``*JsonConverter`` classes: fields that the version lacks and tagged fields at their default are omitted.
Tagged fields that the table lacks, which newer releases write, follow under `UNKNOWN_TAGS`; texts omit them, as Kafka
does.
Errors have the texts of the generated ``read`` methods, because kafka-dump-log.sh prints them.
"""

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple

from kseg.formats import java_text
from kseg.formats.java_text import double_text
from kseg.formats.json_values import number_value

INT16_MAX = 0x7FFF
MAX_ITEMS = 1 << 20
"""Limit of array elements in one message; a struct counts one for itself and one per field. Some 100 MB in Python.

Kafka has no such limit: a highly compressed batch can hold millions of 4-byte structs, 400 bytes each in Python.
"""


class MessageError(ValueError):
    """Bytes that are not a message of this schema. The text is that of Kafka's own exception, if Kafka has one."""


UNKNOWN_TAGS = "unknownTaggedFields"
"""The name of the tagged fields of a struct that its table lacks: a list of ``{"tag": 7, "base64": "AQI="}``."""

UNDERFLOW = "null"  # java.nio.BufferUnderflowException has no message


def _reaches(version: int, since: int) -> bool:
    # Fields since version 0 are read for any version: a damaged frame may have a negative one.
    return since == 0 or version >= since


@dataclass(frozen=True, eq=False)
class Field:
    """One field; `kind` is a primitive of the table above, or "struct" with its `fields`."""

    name: str
    kind: str
    fields: tuple["Field", ...] = ()
    is_array: bool = False
    is_nullable: bool = False
    since: int = 0
    until: int | None = None
    tag: int | None = None
    default: Any = None
    names: tuple[str, ...] = ()

    def is_in(self, version: int) -> bool:
        return _reaches(version, self.since) and (self.until is None or version <= self.until)


class FieldSpan(NamedTuple):
    """Bytes ``[start, end)`` of a message that are a text or bytes; `field` None: of an unknown tagged field."""

    field: Field | None
    start: int
    end: int


@dataclass(frozen=True)
class MessageSchema:
    """One message: versions 0 to `highest`, flexible from version `flexible` on (None: never)."""

    name: str
    table: str = field(repr=False)
    highest: int = 0
    flexible: int | None = 0

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return parse_table(self.table)

    def printed(self, values: dict[str, Any]) -> dict[str, Any]:
        """Returns the message with the names of its numbers, as texts print them: unknown ones in quotes."""
        found = dict(values)
        for each in self.fields:
            if each.names:
                number = values[each.name]
                found[each.name] = each.names[number] if 0 <= number < len(each.names) else str(number)
        return found

    def fitted(self, values: dict[str, Any], version: int) -> dict[str, Any]:
        """Returns what `read` gives of a message of ``version`` with these values: without fields that the version
        lacks, and without tagged fields at their default. Absent fields have their default."""
        found = {}
        for each in self.fields:
            value = values.get(each.name, each.default)
            if each.is_in(version) and (each.tag is None or value != each.default):
                found[each.name] = value
        return found

    def write(self, values: dict[str, Any], version: int) -> bytes:
        """Returns the bytes of a message, as `read` takes them; absent fields have their default. Raises ValueError for
        what this version cannot hold."""
        return bytes(self._written(values, version).out)

    def write_parts(self, values: dict[str, Any], version: int) -> list[Any]:
        """Returns the bytes of a message in parts. The value of a `records` field, whose length it knows itself, is a
        part of its own. Raises ValueError as `write`."""
        writer, parts, start = self._written(values, version), list[Any](), 0
        for position, records in writer.records:
            parts += [bytes(writer.out[start:position]), records]
            start = position
        return [*parts, bytes(writer.out[start:])]

    def _written(self, values: dict[str, Any], version: int) -> "_MessageWriter":
        writer = _MessageWriter(self, version)
        try:
            writer.struct(self.fields, values)
        except struct_error as error:
            raise ValueError(str(error)) from error
        return writer

    def read(
        self,
        data: bytes,
        version: int,
        position: int = 0,
        max_items: int = MAX_ITEMS,
        spans: "list[FieldSpan] | None" = None,
        sizes: list[int] | None = None,
    ) -> tuple[dict[str, Any], int]:
        """Returns the message of `version` at `position`, and the position after it; adds the places of its texts and
        bytes to `spans`, in order, and the positions of the bytes of all lengths, counts, tags and markers of null to
        `sizes`: where these bytes are the same, another message has the same `spans`. Raises MessageError."""
        reader = _MessageReader(data, position, self, version, max_items, spans, sizes)
        value = reader.struct(self.fields)
        return value, reader.position


# ------------------------------------------------------------------ the notation

_TOKEN = re.compile(r"\s*(\[\]|[A-Za-z0-9_]+(?:-[0-9]+)?|[{}?:,()]|=[^\s)]*|\+)")
ZERO_UUID = "A" * 22
_ZEROS: dict[str, Any] = {"bool": False, "f64": 0.0, "str": "", "bytes": "", "uuid": ZERO_UUID}


def parse_table(table: str) -> tuple[Field, ...]:
    """Parses the fields of one table. Raises ValueError for malformed notation, which is a programming error."""
    tokens = _tokens(table)
    fields, end = _fields(tokens, next(tokens))
    if end != "":
        raise ValueError(f"unexpected {end!r} in {table!r}")
    return fields


def _tokens(table: str) -> Iterator[str]:
    position, table = 0, table.strip()
    while position < len(table):
        match = _TOKEN.match(table, position)
        if match is None:
            raise ValueError(f"unexpected text at {table[position:]!r}")
        position = match.end()
        yield match[1]
    yield ""


def _fields(tokens: Iterator[str], token: str) -> tuple[tuple[Field, ...], str]:
    fields = []
    while token not in ("", "}"):
        parsed, token = _field(tokens, token)
        fields.append(parsed)
        if token == ",":
            token = next(tokens)
    return tuple(fields), token


def _field(tokens: Iterator[str], name: str) -> tuple[Field, str]:
    if next(tokens) != ":":
        raise ValueError(f"no type after {name!r}")
    token = next(tokens)
    is_array = token == "[]"
    kind = next(tokens) if is_array else token
    nested: tuple[Field, ...] = ()
    if kind == "{":
        kind = "struct"
        nested, _brace = _fields(tokens, next(tokens))
    elif kind not in _READERS:
        raise ValueError(f"unknown type {kind!r} of {name!r}")
    token = next(tokens)
    is_nullable = token == "?"
    if is_nullable:
        token = next(tokens)
    attributes: list[str] = []
    if token == "(":
        while (token := next(tokens)) != ")":
            attributes.append(token)
        token = next(tokens)
    since, until, tag = 0, None, None
    names: tuple[str, ...] = ()
    if "names" in attributes:
        attributes, names = attributes[: (at := attributes.index("names"))], tuple(attributes[at + 1 :])
    default = None if is_nullable else [] if is_array else _ZEROS.get(kind, 0)
    if kind == "struct" and not is_array:
        # Kafka's generated classes default a struct to null only if the definition says so; none here does.
        default = {each.name: each.default for each in nested if each.tag is None}
    for attribute in attributes:
        if attribute.startswith("tag"):
            tag = int(attribute[3:])
        elif attribute.startswith("v"):
            first, _, last = attribute[1:].partition("-")
            since, until = int(first), int(last or first)
        elif attribute.startswith("="):
            default = {"=true": True, "=false": False, "=[]": []}.get(attribute)
            default = int(attribute[1:]) if default is None else default
        elif attribute == "+":
            until = None
        else:
            raise ValueError(f"unknown attribute {attribute!r} of {name!r}")
    return Field(name, kind, nested, is_array, is_nullable, since, until, tag, default, names), token


# ------------------------------------------------------------------ the wire


class Wire:
    """A read position in bytes. Reads beyond their end raise MessageError."""

    def __init__(self, data: bytes, position: int = 0):
        self.data = data
        self.position = position

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    def number(self, layout: Struct) -> Any:
        if self.remaining < layout.size:
            raise MessageError(UNDERFLOW)
        (value,) = layout.unpack_from(self.data, self.position)
        self.position += layout.size
        return value

    def uvarint(self) -> int:
        """Reads an unsigned LEB128 number of at most 5 bytes; from 2**31 on it is negative, as in Java's int."""
        if self.position < len(self.data) and (first := self.data[self.position]) < 0x80:
            self.position += 1
            return first
        result = 0
        for shift in range(0, 35, 7):
            byte = self.number(_UNSIGNED_BYTE)
            if byte < 0x80 or shift == 28:
                result = (result | byte << shift) & 0xFFFFFFFF
                if byte < 0x80:
                    break
                raise MessageError(
                    f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {result:x}"
                )
            result |= (byte & 0x7F) << shift
        return result - (1 << 32) if result >= 1 << 31 else result

    def array(self, size: int) -> bytes:
        if size > self.remaining:
            raise MessageError(f"Error reading byte array of {size} byte(s): only {self.remaining} byte(s) available")
        if size < 0:
            raise MessageError(str(size))
        start = self.position
        self.position += size
        return self.data[start : self.position]


_UNSIGNED_BYTE = Struct(">B")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_NUMBERS = {"i8": Struct(">b"), "i16": _INT16, "i32": _INT32, "i64": Struct(">q"), "u16": Struct(">H")}
_DOUBLE = Struct(">d")
_UUID = Struct("16s")


@lru_cache(maxsize=1024)
def _layout(fields: tuple[Field, ...], version: int) -> tuple[tuple[Field, ...], dict[int, Field]]:
    """Returns the fields of a version in line, and all tagged fields by their tags."""
    in_line = tuple(each for each in fields if each.tag is None and each.is_in(version))
    return in_line, {each.tag: each for each in fields if each.tag is not None}


class _MessageReader(Wire):
    """Reads the fields of one version of one message."""

    def __init__(
        self,
        data: bytes,
        position: int,
        message: MessageSchema,
        version: int,
        max_items: int,
        spans: list[FieldSpan] | None,
        sizes: list[int] | None,
    ) -> None:
        super().__init__(data, position)
        self.sizes = sizes
        self.max_items = max_items
        self.message = message
        self.spans = spans
        self.version = version
        self.items = 0
        self.is_flexible = message.flexible is not None and _reaches(version, message.flexible)

    def _noted(self, start: int) -> None:
        if self.sizes is not None:
            self.sizes += range(start, self.position)

    def uvarint(self) -> int:
        start, value = self.position, super().uvarint()
        self._noted(start)
        return value

    def _size(self, layout: Struct) -> int:
        start, value = self.position, int(self.number(layout))
        self._noted(start)
        return value

    def struct(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        in_line, known = _layout(fields, self.version)
        values = {each.name: self.value(each) for each in in_line}
        count = self.uvarint() if self.is_flexible else 0
        if count > self.remaining:
            raise MessageError(
                f"Tried to read {count} tagged fields, but there are only {self.remaining} bytes remaining."
            )
        for _ in range(count):
            tag, size = self.uvarint(), self.uvarint()
            each = known.get(tag)
            if each is None:
                encoded = base64.b64encode(self.bytes_of(None, size)).decode("ascii")
                values.setdefault(UNKNOWN_TAGS, []).append({"tag": tag, "base64": encoded})
            elif not each.is_in(self.version):
                raise MessageError(f"Tag {tag} is not valid for version {self.version}")
            else:
                values.pop(each.name, None)
                value = self.value(each)
                if value != each.default:
                    values[each.name] = value
        if count <= 0:
            return values
        names = (*(each.name for each in fields), UNKNOWN_TAGS)
        return {name: values[name] for name in names if name in values}

    def value(self, each: Field) -> Any:
        if not each.is_array:
            return _READERS[each.kind](self, each, each.name, each.is_nullable)
        count = self.length(_INT32)
        if count < 0:
            self.refuse_null(each.name, each.is_nullable)
            return None
        if count > self.remaining:
            raise MessageError(
                f"Tried to allocate a collection of size {count}, but there are only {self.remaining} bytes remaining."
            )
        self.items += count * (1 + len(each.fields))
        if self.items > self.max_items:
            raise MessageError(f"more than {self.max_items} array elements in one message, which kseg does not decode")
        read, name = _READERS[each.kind], each.name + " element"
        return [read(self, each, name, False) for _ in range(count)]

    def length(self, layout: Struct) -> int:
        if not self.is_flexible:
            return self._size(layout)
        claimed = self.uvarint() - 1
        return claimed if claimed >= -(1 << 31) else claimed + (1 << 32)

    def refuse_null(self, name: str, is_nullable: bool) -> None:
        if not is_nullable:
            raise MessageError(f"non-nullable field {name} was serialized as null")

    def sized(self, each: Field, name: str, is_nullable: bool) -> str | int | None:
        """Reads text, bytes as base64, records as their length."""
        is_text = each.kind == "str"
        length = self.length(_INT16 if is_text else _INT32)
        if length < 0:
            self.refuse_null(name, is_nullable)
            return None
        if is_text and length > INT16_MAX:
            raise MessageError(f"string field {name} had invalid length {length}")
        data = self.bytes_of(each, length)
        if each.kind == "records":
            return length
        return java_text.decode(data) if is_text else base64.b64encode(data).decode("ascii")

    def bytes_of(self, each: Field | None, size: int) -> bytes:
        """Reads the bytes of a field, and notes their place."""
        data = self.array(size)
        if self.spans is not None and size:
            self.spans.append(FieldSpan(each, self.position - size, self.position))
        return data

    def nested(self, each: Field, _name: str, is_nullable: bool) -> dict[str, Any] | None:
        if is_nullable and (self._size(_NUMBERS["i8"]) < 0 if each.tag is None else self.uvarint() <= 0):
            return None
        if self.version > self.message.highest:
            raise MessageError(f"Can't read version {self.version} of {each.name}")
        return self.struct(each.fields)


_READERS: dict[str, Any] = {
    **{
        kind: (lambda reader, each, name, is_nullable, layout=layout: reader.number(layout))
        for kind, layout in _NUMBERS.items()
    },
    "bool": lambda reader, each, name, is_nullable: reader.number(_UNSIGNED_BYTE) != 0,
    "f64": lambda reader, each, name, is_nullable: number_value(reader.number(_DOUBLE)),
    "uuid": lambda reader, each, name, is_nullable: uuid_text(reader.number(_UUID)),
    "str": _MessageReader.sized,
    "bytes": _MessageReader.sized,
    "records": _MessageReader.sized,
    "struct": _MessageReader.nested,
}


def uuid_text(data: bytes) -> str:
    """Formats 16 bytes like org.apache.kafka.common.Uuid: base64url, 22 characters."""
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


class _MessageWriter:
    """Writes the fields of one version of one message to ``out``."""

    def __init__(self, message: MessageSchema, version: int) -> None:
        self.version = version
        self.is_flexible = message.flexible is not None and _reaches(version, message.flexible)
        self.out = bytearray()
        self.records: list[tuple[int, Any]] = []
        """Positions in ``out`` at which records follow."""

    def struct(self, fields: tuple[Field, ...], values: dict[str, Any]) -> None:
        in_line, tagged = _layout(fields, self.version)
        for each in in_line:
            self.value(each, values.get(each.name, each.default))
        present = {tag: each for tag, each in tagged.items() if values.get(each.name, each.default) != each.default}
        lacking = [each.name for each in present.values() if not each.is_in(self.version)]
        if lacking or (present and not self.is_flexible):
            raise ValueError(f"version {self.version} has no {', '.join(lacking or ['tagged fields'])}")
        if not self.is_flexible:
            return
        self.uvarint(len(present))
        for tag, each in sorted(present.items()):
            whole, self.out = self.out, bytearray()
            self.value(each, values[each.name])
            data, self.out = self.out, whole
            self.uvarint(tag)
            self.uvarint(len(data))
            self.out += data

    def uvarint(self, number: int) -> None:
        while number >= 0x80:
            self.out.append(number & 0x7F | 0x80)
            number >>= 7
        self.out.append(number)

    def value(self, each: Field, value: Any) -> None:
        if not each.is_array:
            self.one(each, each.is_nullable, value)
            return
        self.length(_INT32, value)
        for one in value or ():
            self.one(each, False, one)

    def length(self, layout: Struct, value: Any) -> None:
        """Writes the length of a text, bytes or array; None is null."""
        if self.is_flexible:
            self.uvarint(0 if value is None else len(value) + 1)
        else:
            self.out += layout.pack(-1 if value is None else len(value))

    def one(self, each: Field, is_nullable: bool, value: Any) -> None:
        if each.kind in _NUMBERS:
            self.out += _NUMBERS[each.kind].pack(value)
        elif each.kind == "bool":
            self.out.append(bool(value))
        elif each.kind == "f64":
            self.out += _DOUBLE.pack(float(value))
        elif each.kind == "uuid":
            self.out += base64.urlsafe_b64decode(value + "==")
        elif each.kind == "struct":
            if is_nullable:
                self.out.append(0xFF if value is None else 1)
            if value is not None:
                self.struct(each.fields, value)
        elif each.kind == "records":
            self.length(_INT32, value)
            if value:
                self.records.append((len(self.out), value))
        else:
            is_text, data = each.kind == "str", value
            if value is not None:
                data = value.encode("utf-8", "surrogateescape") if is_text else base64.b64decode(value)
            self.length(_INT16 if is_text else _INT32, data)
            self.out += data or b""


# ------------------------------------------------------------------ JSON

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)
# Jackson differs from Python in escapes (U+001B is \\u001B, not \\u001b) and in floats.
_DIFFERS = re.compile(r"\\u00|[:,\[]-?\d+[.e]")
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def json_text(value: Any) -> str:
    """Formats `value` (from `MessageSchema.read`) as Jackson writes a JsonNode: no spaces, no escapes above U+001F.

    Unknown tagged fields are omitted.
    """
    text = _ENCODER.encode(value)
    if f'"{UNKNOWN_TAGS}":' in text:
        value = without_unknown_tags(value)
        text = _ENCODER.encode(value)
    return _json_text(value) if _DIFFERS.search(text) else text


def without_unknown_tags(value: Any) -> Any:
    """Returns a copy of `value` (from `MessageSchema.read`) without its unknown tagged fields."""
    if isinstance(value, dict):
        return {name: without_unknown_tags(each) for name, each in value.items() if name != UNKNOWN_TAGS}
    return [without_unknown_tags(each) for each in value] if isinstance(value, list) else value


def _json_text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(name)}:{_json_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json_text, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return double_text(value) if isinstance(value, float) else str(value)


def _quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(lambda match: _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}", text) + '"'
