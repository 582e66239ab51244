"""Keys and values decoded with their schemas, as Arrow columns: typed if all have one schema, else of JSON text."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

from kseg.decoders.avro import COLUMNS, AvroError, AvroReader
from kseg.decoders.values import SCHEMA_HEADERS, ValuesDecoder, by_schemas, written_with
from kseg.errors import DamageError
from kseg.export.arrow import DECODED
from kseg.export.chunk import HEADERS, KEY, VALUE, Chunk
from kseg.export.scanning import PartReader, ScanPart, ScanRequest, parts_of_scan
from kseg.formats.json_values import encode
from kseg.segment.files import SegmentFile

if TYPE_CHECKING:
    import pyarrow as pa

_HEADER_OF = dict(zip((KEY, VALUE), SCHEMA_HEADERS, strict=True))


@dataclass(frozen=True, slots=True)
class Decoding:
    """What is decoded. ``schemas``: as for `schemas_at`; None: those of each log directory.

    ``types``: those of columns that have one; the others are JSON text, and all are if it is None.
    """

    keys: bool = False
    values: bool = False
    schemas: str | None = None
    types: "Mapping[str, pa.DataType] | None" = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the decoded columns."""
        return (KEY,) * self.keys + (VALUE,) * self.values

    def schema(self, plain: "pa.Schema") -> "pa.Schema":
        """Returns a schema of records with the types of decoded columns."""
        import pyarrow as pa

        for name in self.columns:
            if (i := plain.get_field_index(name)) >= 0:
                plain = plain.set(
                    i, pa.field(name, (self.types or {}).get(name, pa.string()), metadata={DECODED: b"avro"})
                )
        return plain

    def read_columns(self, names: Collection[str]) -> tuple[str, ...]:
        """Returns the columns to read for these: headers may hold the schema."""
        needs_headers = self.columns and not {*self.columns}.isdisjoint(names) and HEADERS not in names
        return (*names, HEADERS) if needs_headers else tuple(names)


class DecodedColumns:
    """Decodes keys and values of chunks. ``warn`` receives lines about schemas. Raises UnsupportedError, KsegError."""

    def __init__(self, decoding: Decoding, warn: Callable[[str], None]) -> None:
        self._decoding = decoding
        self.names = decoding.columns
        self._decoder_of = by_schemas(decoding.schemas, warn, ("avro", "avro")) if decoding.columns else None

    def arrays(self, chunk: Chunk, file: SegmentFile, wanted: "pa.Schema") -> "dict[str, pa.Array]":
        """Returns the decoded columns of a chunk, as far as they are wanted."""
        import pyarrow as pa

        found = {}
        for name in self._decoding.columns:
            if name in wanted.names:
                kind = wanted.field(name).type
                if name not in (self._decoding.types or ()):
                    found[name] = pa.array(self.texts(chunk, file, name), kind)
                    continue
                try:
                    found[name] = pa.array([value for value, _ in self._values(chunk, file, name)], kind)
                except (AvroError, pa.ArrowException, OverflowError) as error:
                    raise DamageError(f"{file.path}: {name}s have changed since their schema was found") from error
        return found

    def texts(self, chunk: Chunk, file: SegmentFile, name: str) -> Iterator[str | None]:
        """Yields keys or values as JSON: what is not decoded as in JSON Lines."""
        decoder, is_key = self._decoder(file), name == KEY
        for data, headers in _entries(chunk, name):
            shown = decoder.decode(data if is_key else None, None if is_key else data, 0, headers)
            text, value = (shown.key_text, shown.key) if is_key else (shown.payload_text, shown.value)
            yield None if data is None else text if shown.marks else encode(value).decode()

    def narrow(self, chunk: Chunk, file: SegmentFile, found: "dict[str, _Candidate]") -> None:
        """Removes the candidates that do not hold for the chunk."""
        for name, candidate in list(found.items()):
            try:
                candidate.check(list(self._values(chunk, file, name)))
            except AvroError:
                del found[name]

    def _values(self, chunk: Chunk, file: SegmentFile, name: str) -> Iterator[tuple[Any, AvroReader | None]]:
        """Yields keys or values as `COLUMNS` converts them, each with its reader. Raises AvroError."""
        schemas = self._decoder(file).schemas
        for data, headers in _entries(chunk, name):
            if data is None:
                yield None, None
                continue
            written = written_with(data, headers, _HEADER_OF[name])
            reader = None if written is None or schemas is None else schemas.reader(written.name, COLUMNS)
            if written is None or reader is None:
                raise AvroError("there is no schema")
            yield reader(written.payload), reader

    def _decoder(self, file: SegmentFile) -> ValuesDecoder:
        found = None if self._decoder_of is None else self._decoder_of(file)
        if found is None:
            raise AvroError("nothing is decoded")
        return found


def _entries(chunk: Chunk, name: str) -> "Iterator[tuple[bytes | None, Any]]":
    return zip(chunk.bytes[name].values(chunk.count), chunk.headers() or repeat(()), strict=False)


class _Candidate:
    """The one schema of a column, as far as it was read."""

    def __init__(self) -> None:
        self._schema: Any = None
        self.type: pa.DataType | None = None

    def check(self, values: list[tuple[Any, AvroReader | None]]) -> None:
        """Raises AvroError for another schema, and for values that the type does not hold."""
        import pyarrow as pa

        for reader in {reader for _, reader in values if reader is not None}:
            if self.type is None:
                self._schema, self.type = reader.schema, type_of(reader)
            elif reader.schema != self._schema:
                raise AvroError("there are several schemas")
        try:
            pa.array([value for value, _ in values], self.type)
        except (pa.ArrowException, OverflowError) as error:
            raise AvroError(str(error)) from error


def with_types(decoding: Decoding, request: ScanRequest, parts: Collection[ScanPart] | None, jobs: int) -> Decoding:
    """Reads all keys and values of a scan, and returns the decoding with the types of columns that have one schema."""
    wanted = {name: _Candidate() for name in decoding.columns}
    reader = PartReader(request, (*wanted, HEADERS), 1, lambda *_: None, jobs)
    columns = DecodedColumns(decoding, lambda _: None)
    for part, chunk in reader.chunks_of((part for _, part in parts_of_scan(request)) if parts is None else parts):
        columns.narrow(chunk, part.file, wanted)
        if not wanted:
            break
    types = {name: candidate.type for name, candidate in wanted.items() if candidate.type is not None}
    return replace(decoding, types=types)


def type_of(reader: AvroReader) -> "pa.DataType":
    """Returns the type of Arrow for the values of a reader with `COLUMNS`. Raises AvroError if there is none."""
    import pyarrow as pa

    simple = {
        "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
        "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(), "date": pa.date32(), "uuid": pa.string(),
        "time-millis": pa.time32("ms"), "time-micros": pa.time64("us"),
        **{f"timestamp-{unit}": pa.timestamp(short, "UTC") for unit, short in _UNITS.items()},
        **{f"local-timestamp-{unit}": pa.timestamp(short) for unit, short in _UNITS.items()},
    }  # fmt: skip

    def convert(schema: Any) -> "pa.DataType":
        if isinstance(schema, list):
            others = [each for each in schema if each != "null"]
            if len(others) != 1:
                raise AvroError("a union of several types")
            return convert(others[0])
        if schema in reader.definitions if isinstance(schema, str) else False:
            schema = reader.definitions[schema]
        kind = schema if isinstance(schema, str) else schema["type"]
        known = schema if isinstance(schema, dict) else {}
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
_LARGEST_PRECISION = 38
"""Of a decimal of 128 bits, which readers of Parquet know."""
