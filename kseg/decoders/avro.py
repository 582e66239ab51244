"""Readers of Avro data: one for each schema, within bounds for data and schemas of an attacker.

fastavro decodes. Before, a schema is written anew: types without namespaces, and only with the attributes that decoding
needs. A conversion (`JSON`, `COLUMNS`) becomes a logical type of fastavro, so that it is applied in the right branch of
a union. fastavro has no bounds of its own, so schemas must have them: recursive types are unrolled to a depth, and a
schema is refused if few bytes can stand for many values. Source: Apache Avro 1.12 specification.
"""

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from kseg.errors import UnsupportedError
from kseg.formats.java_text import float_text
from kseg.formats.json_values import bytes_value, number_value

_PRIMITIVES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
"""Primitive types, with the least number of bytes of a value."""
_UNROLLED_DEPTH, _MAX_DEPTH, _MAX_PARTS = 64, 128, 1 << 18
"""Of schemas: where recursive types end, the largest nesting, and the number of parts."""
_FREE_VALUES, _VALUES_PER_BYTE = 4096, 4
"""Values that data may have, and for each of its bytes."""
_MAX_PRECISION, _MAX_DECIMAL_BYTES = 1000, 512


class AvroError(ValueError):
    """A schema that cannot be used, or data that does not match its schema."""


# Conversions


def _time(per_second: int, zone: str = "") -> Callable[[int], Any]:
    """Returns the conversion of a time since the epoch to RFC 3339; beyond the calendar it stays a number."""
    digits = len(str(per_second)) - 1

    def show(number: int) -> Any:
        seconds, fraction = divmod(number, per_second)
        try:
            moment = _EPOCH + timedelta(seconds=seconds)
        except OverflowError:
            return number
        return f"{moment.isoformat()[:-6]}.{fraction:0{digits}d}{zone}"

    return show


def _time_of_day(per_second: int) -> Callable[[int], Any]:
    show = _time(per_second)
    return lambda number: show(number)[len("1970-01-01T") :] if 0 <= number < 86400 * per_second else number


def _date(days: int) -> Any:
    try:
        return date.fromordinal(days + _EPOCH.toordinal()).isoformat()
    except (ValueError, OverflowError):
        return days


def _decimal(data: bytes, scale: int) -> Decimal:
    if len(data) > _MAX_DECIMAL_BYTES:
        raise AvroError("a decimal is too large")
    unscaled = int.from_bytes(data, "big", signed=True)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"millis": 1000, "micros": 10**6, "nanos": 10**9}
Conversions = Mapping[tuple[str, str | None], Callable[..., Any]]
"""By type and logical type (None: values without one); that of a decimal also takes the scale."""

JSON: Conversions = {
    ("bytes", None): bytes_value,
    ("fixed", None): bytes_value,
    ("float", None): lambda value: number_value(float(float_text(value))),
    ("double", None): number_value,
    ("bytes", "decimal"): lambda data, scale: format(_decimal(data, scale), "f"),
    ("fixed", "decimal"): lambda data, scale: format(_decimal(data, scale), "f"),
    ("fixed", "uuid"): lambda data: str(UUID(bytes=data)),
    ("int", "date"): _date,
    ("int", "time-millis"): _time_of_day(1000),
    ("long", "time-micros"): _time_of_day(10**6),
    **{("long", f"timestamp-{unit}"): _time(number, "Z") for unit, number in _UNITS.items()},
    **{("long", f"local-timestamp-{unit}"): _time(number) for unit, number in _UNITS.items()},
}
"""Bytes as elsewhere in JSON, decimals as text with all digits, times as RFC 3339, NaN and the infinities as text."""

COLUMNS: Conversions = {
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("fixed", "uuid"): JSON["fixed", "uuid"],
    ("map", None): lambda found: list(found.items()),
}
"""Values as pyarrow converts them to the types of `kseg.export.decoded`."""


# Schemas


Sized = tuple[Any, int]
"""A schema, and its excess: how many more values its data can have than `_VALUES_PER_BYTE` for each byte."""


class _Rewriting:
    """Writes a schema anew (`schema`), and those that it uses (``references``), each behind those that it uses itself.

    ``definitions``: new definitions by new name. ``conversions``: see `JSON`; their ``form`` is part of the names of
    logical types. A type inside itself is written again, under another name, one ``level`` below.
    """

    def __init__(self, text: str, references: Sequence[str], conversions: Conversions, form: str) -> None:
        self.is_recursive = False
        self.definitions: dict[str, Any] = {}
        self._conversions, self._form = conversions, form
        self._given: dict[str, tuple[dict[str, Any], str]] = {}
        """Definitions and their namespaces by full name."""
        self._written: dict[tuple[str, int], tuple[str, int | None]] = {}
        """New name and excess by full name and level; None while the definition is being written."""
        self.left = _MAX_PARTS
        self.referenced = [self._any(_loaded(each), "", 0, 0)[0] for each in references]
        self.schema, excess = self._any(_loaded(text), "", 0, 0)
        if excess > _FREE_VALUES:
            raise AvroError("the schema has too many values without bytes")

    def _any(self, schema: Any, space: str, depth: int, level: int) -> Sized:
        self.left -= 1
        if depth > _MAX_DEPTH or self.left < 0:
            raise AvroError("the schema is too large" if self.left < 0 else "the schema is nested too deeply")
        if isinstance(schema, list) and schema:
            found = [self._any(each, space, depth + 1, level) for each in schema]
            return [each for each, _ in found], max(excess for _, excess in found) - _VALUES_PER_BYTE
        if isinstance(schema, str):
            return self._primitive(schema, {}) if schema in _PRIMITIVES else self._by_name(schema, space, depth, level)
        kind = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(kind, dict | list):
            return self._any(kind, space, depth + 1, level)
        if not isinstance(kind, str):
            raise AvroError("the schema has no type")
        if kind in _PRIMITIVES:
            return self._primitive(kind, schema)
        if kind in _NAMED:
            return self._named(schema, space, depth, level)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            inner, excess = self._any(schema.get(part), space, depth + 1, level)
            if excess > _VALUES_PER_BYTE * (kind == "map"):  # a key is a byte or more
                raise AvroError(f"the schema has {kind}s of values without bytes")
            return {"type": kind, part: inner, **self._converted(kind, schema)}, 1 - _VALUES_PER_BYTE
        return self._by_name(kind, space, depth, level)

    def _primitive(self, kind: str, schema: Mapping[str, Any]) -> Sized:
        added = self._converted(kind, schema)
        return {"type": kind, **added} if added else kind, 1 - _VALUES_PER_BYTE * _PRIMITIVES[kind]

    def _converted(self, kind: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the attributes of a logical type for fastavro, and for `type_of` its name in Avro."""
        logical = schema.get("logicalType")
        if logical == "decimal":
            scale, precision = schema.get("scale", 0), schema.get("precision")
            is_right = type(scale) is int and type(precision) is int and 0 <= scale <= precision <= _MAX_PRECISION
            logical = "decimal" if is_right else None
        if logical == "uuid" and kind == "fixed" and schema.get("size") != 16:
            logical = None
        known = isinstance(logical, str) and ((kind, logical) in JSON or (kind, logical) in self._conversions)
        found: dict[str, Any] = {"avro": logical} if known else {}
        key = (kind, logical if known else None)
        if key in self._conversions:
            found["logicalType"] = f"kseg-{self._form}-{key[1]}"
        return found | ({"scale": scale, "precision": precision} if known and logical == "decimal" else {})

    def _by_name(self, name: str, space: str, depth: int, level: int) -> Sized:
        for full in (name if "." in name or not space else f"{space}.{name}", name):
            if full not in self._given:
                continue
            if self._written.get((full, level), ("", 0))[1] is None:
                self.is_recursive = True
                level += 1
                if depth > _UNROLLED_DEPTH:
                    return {"type": "enum", "name": f"end{self.left}", "symbols": []}, 0
            return self._named(*self._given[full], depth, level)
        raise AvroError(f"the schema uses {name[:100]!r}, which is not defined")

    def _named(self, schema: dict[str, Any], space: str, depth: int, level: int) -> Sized:
        name, given = schema.get("name"), schema.get("namespace", space)
        if not isinstance(name, str) or not name or not isinstance(given, str | None):
            raise AvroError("the schema has a type without a name")
        if "." in name:
            full, inner = name, name.rpartition(".")[0]
        else:
            full, inner = f"{given}.{name}" if given else name, given or ""
        if self._given.setdefault(full, (schema, space))[0] is not schema:
            raise AvroError(f"the schema defines {full[:100]!r} twice")
        if (full, level) in self._written:
            name, known = self._written[full, level]
            return name, known or 0
        name = f"t{len(self.definitions)}"
        self._written[full, level] = name, None
        kind = "record" if schema["type"] == "error" else schema["type"]
        made: dict[str, Any] = {"type": kind, "name": name}
        self.definitions[name] = made
        if kind == "fixed":
            if type(size := schema.get("size")) is not int or size < 0:
                raise AvroError(f"{full[:100]!r} has no size")
            made |= {"size": size, **self._converted(kind, schema)}
            excess = 1 - _VALUES_PER_BYTE * size
        elif kind == "enum":
            symbols = schema.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(each, str) and _NAME(each) for each in symbols):
                raise AvroError(f"{full[:100]!r} has no symbols")
            made["symbols"], excess = symbols, 1 - _VALUES_PER_BYTE
        else:
            made["fields"], excess = self._fields(schema.get("fields"), inner, depth, level)
        self._written[full, level] = name, excess
        return made, excess

    def _fields(self, fields: Any, space: str, depth: int, level: int) -> tuple[list[dict[str, Any]], int]:
        made, excess, names = [], 1, set[str]()
        for each in fields if isinstance(fields, list) else (None,):
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise AvroError("the schema has a record without fields, or a field without a name")
            if (name := each["name"]) in names or not name.isprintable():
                raise AvroError("the schema has a record with two fields of one name, or with a name that is not text")
            names.add(name)
            inner, more = self._any(each.get("type"), space, depth + 1, level)
            made.append({"name": name, "type": inner})
            excess += more
        return made, excess


_NAMED = ("record", "error", "enum", "fixed")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


def _loaded(text: str) -> Any:
    if text in _PRIMITIVES:  # registered as its name, with or without quotes
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise AvroError("the schema is no JSON") from None


class AvroReader:
    """Decodes the data of one schema: ``reader(data)``. Raises AvroError for a schema that cannot be used.

    ``schema`` and ``definitions``: the schema as fastavro reads it, ``parts`` their number; ``is_recursive``: recursive
    types were unrolled.
    Raises UnsupportedError without fastavro.
    """

    def __init__(self, text: str, references: Sequence[str] = (), conversions: Conversions = JSON) -> None:
        fastavro = need_fastavro()
        form = "json" if conversions is JSON else "columns"
        try:
            written = _Rewriting(text, references, conversions, form)
            self._read = fastavro.schemaless_reader
            named: dict[str, Any] = {}
            whole = {"type": "record", "name": "whole", "fields": [{"name": "value", "type": written.schema}]}
            for each in written.referenced:
                fastavro.parse_schema(each, named)
            self._parsed = fastavro.parse_schema(whole, named)
        except RecursionError:
            raise AvroError("the schema is nested too deeply") from None
        except AvroError:
            raise
        except Exception as error:  # fastavro raises what it meets
            raise AvroError(f"fastavro: {error}"[:200]) from error
        self.schema, self.definitions, self.is_recursive = written.schema, written.definitions, written.is_recursive
        self.parts = _MAX_PARTS - written.left
        for (kind, logical), convert in conversions.items():
            fastavro.read.LOGICAL_READERS[f"{kind}-kseg-{form}-{logical}"] = _hook(convert, logical == "decimal")

    def __call__(self, data: bytes) -> Any:
        """Returns the value that all of the data stands for. Raises AvroError if it does not match the schema."""
        stream = io.BytesIO(data)
        try:
            found = self._read(stream, self._parsed, None)["value"]
        except Exception as error:  # EOFError, IndexError, UnicodeDecodeError and others
            raise AvroError("the data does not match its schema") from error
        if stream.tell() != len(data):
            raise AvroError("bytes follow the data")
        return found


def _hook(convert: Callable[..., Any], has_scale: bool) -> Callable[..., Any]:
    if has_scale:
        return lambda data, schema, _: convert(data, schema["scale"])
    return lambda data, _, __: convert(data)


def need_fastavro() -> Any:
    """Returns fastavro. Raises UnsupportedError if it is not installed."""
    try:
        import fastavro
    except ImportError as error:
        raise UnsupportedError("Avro needs fastavro: pip install 'kseg[avro]'") from error
    return fastavro
