"""Keys and values decoded with their schemas, as Arrow columns: typed if all have one schema, else of JSON text."""

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, NamedTuple

from kseg.decoders.avro import COLUMNS, AvroError, AvroReader
from kseg.decoders.values import SCHEMA_HEADERS, ValuesDecoder, by_schemas, uuid_text, written_with
from kseg.errors import DamageError
from kseg.export import pa
from kseg.export.arrow import DECODED
from kseg.export.chunk import HEADERS, KEY, VALUE, Chunk, Chunks
from kseg.export.scanning import PartReader, ScanPart, ScanRequest
from kseg.formats import java_text
from kseg.formats.json_values import encode
from kseg.segment.files import SegmentFile

_HEADER_OF = dict(zip((KEY, VALUE), SCHEMA_HEADERS, strict=True))


class Serialized(NamedTuple):
    """The format of one of Kafka's serializers: the function that makes its type in pyarrow, and the one that reads it,
    which raises ValueError or struct.error for other bytes.
    """

    name: str
    arrow: str
    read: Callable[[bytes], Any]


def _number(name: str, arrow: str, form: str) -> Serialized:
    unpack = struct.Struct(f">{form}").unpack
    return Serialized(name, arrow, lambda data: unpack(data)[0])


def _boolean(data: bytes) -> bool:
    if data not in (b"\0", b"\1"):
        raise ValueError(data)
    return data == b"\1"


BYTES, DECODED_WITH_SCHEMAS = "bytes", "decoded"
SERIALIZED = {
    form.name: form
    for form in (
        _number("short", "int16", "h"), _number("int", "int32", "i"), _number("long", "int64", "q"),
        _number("float", "float32", "f"), _number("double", "float64", "d"), Serialized("boolean", "bool_", _boolean),
        Serialized("uuid", "string", uuid_text), Serialized("string", "string", java_text.decode),
    )
}  # fmt: skip
"""The formats of Kafka's serializers, by their names for --key-format; each has one type."""
FORMS = (BYTES, DECODED_WITH_SCHEMAS, *SERIALIZED)


@dataclass(frozen=True, slots=True)
class Decoding:
    """What is decoded: ``keys`` and ``values`` BYTES for nothing, DECODED_WITH_SCHEMAS, or one of SERIALIZED.

    ``schemas``: as for `schemas_at`; None: those of each log directory. ``types``: those of columns with schemas that
    have one; the others are JSON text, and all are if it is None.
    """

    keys: str = BYTES
    values: str = BYTES
    schemas: str | None = None
    types: "Mapping[str, pa.DataType] | None" = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the decoded columns."""
        return tuple(name for name, form in ((KEY, self.keys), (VALUE, self.values)) if form != BYTES)

    @property
    def by_schema(self) -> tuple[str, ...]:
        """The names of the columns that are decoded with schemas."""
        return tuple(name for name in self.columns if self.serialized(name) is None)

    def serialized(self, name: str) -> "Serialized | None":
        """Returns the format of a column that is decoded without schemas; None for others."""
        return SERIALIZED.get(self.keys if name == KEY else self.values)

    def schema(self, plain: "pa.Schema") -> "pa.Schema":
        """Returns a schema of records with the types of decoded columns."""
        for name in self.columns:
            if (i := plain.get_field_index(name)) >= 0:
                form = self.serialized(name)
                kind = (self.types or {}).get(name, pa.string()) if form is None else getattr(pa, form.arrow)()
                plain = plain.set(i, pa.field(name, kind, metadata={DECODED: b"avro" if form is None else b"kafka"}))
        return plain

    def read_columns(self, names: Collection[str]) -> tuple[str, ...]:
        """Returns the columns to read for these: headers may hold the schema."""
        needs_headers = not {*self.by_schema}.isdisjoint(names) and HEADERS not in names
        return (*names, HEADERS) if needs_headers else tuple(names)


class DecodedColumns:
    """Decodes keys and values of chunks. ``warn`` receives lines about schemas. Raises UnsupportedError, KsegError.

    ``decoding`` may be replaced by one with types. ``is_strict``: bytes that are not of the serialized format are
    refused, otherwise null and reported once for each file and column.
    """

    def __init__(self, decoding: Decoding, warn: Callable[[str], None], is_strict: bool = True) -> None:
        self.decoding = decoding
        self.names = decoding.columns
        self._decoder_of = by_schemas(decoding.schemas, warn, ("avro", "avro")) if decoding.by_schema else None
        self._warn, self._is_strict = warn, is_strict
        self._warned: set[tuple[str, str]] = set()

    def arrays(self, chunk: Chunk, file: SegmentFile, wanted: "pa.Schema") -> "dict[str, pa.Array]":
        """Returns the decoded columns of a chunk, as far as they are wanted."""
        found = {}
        for name in self.names:
            if name in wanted.names:
                kind = wanted.field(name).type
                if (form := self.decoding.serialized(name)) is not None:
                    found[name] = pa.array(self._deserialized(chunk, file, name, form), kind)
                    continue
                if name not in (self.decoding.types or ()):
                    found[name] = pa.array(self.texts(chunk, file, name), kind)
                    continue
                try:
                    found[name] = pa.array(self.values(chunk, file, name, None)[0], kind)
                except (AvroError, pa.ArrowException, OverflowError) as error:
                    raise DamageError(f"{file.path}: {name}s have changed since their schema was found") from error
        return found

    def _deserialized(self, chunk: Chunk, file: SegmentFile, name: str, form: "Serialized") -> list[Any]:
        found: list[Any] = []
        for data in chunk.bytes[name].values(chunk.count):
            try:
                found.append(None if data is None else form.read(data))
            except (ValueError, struct.error):
                self._refuse(file, name, f"a {name} of {len(data or b'')} bytes is no {form.name}")
                found.append(None)
        return found

    def _refuse(self, file: SegmentFile, name: str, text: str) -> None:
        if self._is_strict:
            raise DamageError(f"{file.path}: {text}")
        if (file.path, name) not in self._warned:
            self._warned.add((file.path, name))
            self._warn(f"{file.path}: null in the column: {text}; there may be more")

    def texts(self, chunk: Chunk, file: SegmentFile, name: str) -> Iterator[str | None]:
        """Yields keys or values as JSON: what is not decoded as in JSON Lines."""
        decoder, is_key = self._decoder(file), name == KEY
        for data, headers in _entries(chunk, name):
            shown = decoder.decode(data if is_key else None, None if is_key else data, 0, headers)
            text, value = (shown.key_text, shown.key) if is_key else (shown.payload_text, shown.value)
            yield None if data is None else text if shown.marks else encode(value).decode()

    def values(
        self, chunk: Chunk, file: SegmentFile, name: str, known: AvroReader | None
    ) -> tuple[list[Any], AvroReader | None]:
        """Returns keys or values as `COLUMNS` converts them, and the reader of their one schema, ``known`` from before;
        None as long as all are null. Raises AvroError for a value without schema or with another.
        """
        found, schemas = list[Any](), self._decoder(file).schemas
        for data, headers in _entries(chunk, name):
            if data is None:
                found.append(None)
                continue
            written = written_with(data, headers, _HEADER_OF[name])
            reader = None if written is None or schemas is None else schemas.reader(written.name, COLUMNS)
            if written is None or reader is None:
                raise AvroError("there is no schema")
            known = known or reader
            if reader is not known and reader.schema != known.schema:
                raise AvroError("there are several schemas")
            found.append(reader(written.payload))
        return found, known

    def _decoder(self, file: SegmentFile) -> ValuesDecoder:
        found = None if self._decoder_of is None else self._decoder_of(file)
        if found is None:
            raise AvroError("nothing is decoded")
        return found


def _entries(chunk: Chunk, name: str) -> "Iterator[tuple[bytes | None, Any]]":
    return zip(chunk.bytes[name].values(chunk.count), chunk.headers() or repeat(()), strict=False)


def with_types(
    decoding: Decoding,
    request: ScanRequest,
    parts: Iterable[ScanPart],
    jobs: int,
    columns: DecodedColumns | None = None,
) -> Decoding:
    """Reads all keys and values of a scan, and returns the decoding with the types of columns that have one schema.

    ``columns``: those that decode later, too; None: schemas that are missing are not reported.
    """
    readers: dict[str, AvroReader | None] = dict.fromkeys(decoding.by_schema)
    types: dict[str, pa.DataType] = {}
    chunks = PartReader(request, Chunks((*readers, HEADERS)), lambda *_: None, jobs)
    columns = columns or DecodedColumns(decoding, lambda _: None)
    for part, chunk in chunks.chunks_of(parts):
        for name, known in list(readers.items()):
            try:
                values, reader = columns.values(chunk, part.file, name, known)
                if reader is not None:
                    types[name] = types.get(name) or type_of(reader)
                    pa.array(values, types[name])  # all values fit into the type
                readers[name] = reader
            except (AvroError, pa.ArrowException, OverflowError):
                del readers[name]
        if not readers:
            break
    return replace(decoding, types={name: types[name] for name, reader in readers.items() if reader is not None})


def type_of(reader: AvroReader) -> "pa.DataType":
    """Returns the type of Arrow for the values of a reader with `COLUMNS`. Raises AvroError if there is none."""
    simple = {
        "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
        "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(), "date": pa.date32(), "uuid": pa.string(),
        "time-millis": pa.time32("ms"), "time-micros": pa.time64("us"),
        **{f"timestamp-{unit}": pa.timestamp(short, "UTC") for unit, short in _UNITS.items()},
        **{f"local-timestamp-{unit}": pa.timestamp(short) for unit, short in _UNITS.items()},
    }  # fmt: skip

    count = 0

    def convert(schema: Any) -> "pa.DataType":
        nonlocal count
        count += 1
        if count > _MAX_FIELDS:
            raise AvroError("a column of too many fields")
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            if len(others) != 1:
                raise AvroError("a union of several types")
            return convert(others[0])
        known = reader.definitions.get(schema, {"type": schema}) if isinstance(schema, str) else schema
        kind = known["type"]
        if known.get("avro") == "decimal" and known["precision"] <= _LARGEST_PRECISION:
            return pa.decimal128(known["precision"], known["scale"])
        if known.get("avro", kind) in simple:
            return simple[known.get("avro", kind)]
        if kind == "fixed" and known["size"]:
            return pa.binary(known["size"])
        if kind == "array":
            return pa.list_(pa.field("element", convert(schema["items"])))
        if kind == "map":
            return pa.map_(pa.string(), convert(schema["values"]))
        if kind != "record" or reader.is_recursive or not known["fields"]:
            raise AvroError(f"a column cannot hold {kind}")
        return pa.struct([pa.field(each["name"], convert(each["type"])) for each in known["fields"]])

    return convert(reader.schema)


_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
_MAX_FIELDS = 1 << 14
_LARGEST_PRECISION = 38
"""Of a decimal of 128 bits, which readers of Parquet know."""
