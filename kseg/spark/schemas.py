"""The columns of each mode, and the check of a schema given by the user."""

import inspect
from collections.abc import Collection, Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kseg.errors import KsegError
from kseg.export import pa
from kseg.export.arrow import types_of

_TABLE_OPTIONS = "kseg.options"
"""Name in the metadata of a column."""

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: Mapping[str, DataType] = {
    "binary": BinaryType(), "string": StringType(), "int": IntegerType(), "bigint": LongType(),
    "boolean": BooleanType(), "timestamp": TimestampType(), "headers": ArrayType(_HEADER),
}  # fmt: skip


def columns_of(mode: str, decoded: Collection[str] = ()) -> dict[str, DataType]:
    """Returns the columns of a mode with their types; those of names in ``decoded`` are JSON text."""
    return {name: StringType() if name in decoded else _TYPES[kind] for name, kind in types_of(mode).items()}


def schema_of(mode: str, includes_headers: bool = True, decoded: Collection[str] = ()) -> StructType:
    """Returns all columns of a mode; ``includes_headers`` false: without that of the headers."""
    columns = columns_of(mode, decoded).items()
    return StructType([StructField(name, kind) for name, kind in columns if includes_headers or name != "headers"])


def with_table_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Returns the columns of a table in a catalog, the first one with the table's options in its metadata.

    Spark stores the columns, but passes none of the options when the table is read (PySpark 4.3). Options of storage
    are omitted: they may be secrets, and metadata is copied to columns derived from this one.
    """
    kept = {name: value for name, value in options.items() if not name.startswith(("storage.", "option."))}
    first, *others = schema
    return StructType([StructField(first.name, first.dataType, True, {_TABLE_OPTIONS: kept}), *others])


def table_options(schema: StructType) -> dict[str, str]:
    """Returns the options of a table in a catalog, none for other schemas."""
    return dict(next((field.metadata[_TABLE_OPTIONS] for field in schema if _TABLE_OPTIONS in field.metadata), {}))


def check_schema(mode: str, schema: StructType, decoded: Collection[str] = ()) -> None:
    """Raises KsegError unless each column belongs to the mode, has its type, and is nullable, and there is one."""
    known = columns_of(mode, decoded)
    if not schema.names:
        raise KsegError(f"a schema of format kseg needs a column; mode {mode} has {', '.join(known)}")
    for field in schema:
        if field.name not in known:
            raise KsegError(f"mode {mode} of format kseg has no column {field.name!r}; it has {', '.join(known)}")
        if field.dataType != known[field.name]:
            wanted, given = known[field.name].simpleString(), field.dataType.simpleString()
            raise KsegError(f"column {field.name} of mode {mode} is {wanted}, not {given}")
        if not field.nullable:
            raise KsegError(f"column {field.name} of mode {mode} may be null: leave out NOT NULL")


def needs_only_offsets(mode: str, schema: StructType) -> bool:
    """Whether the columns need nothing of records but their offsets, most of which are in batch headers."""
    return mode == "counts" or (mode == "records" and {"topic", "partition", "offset"}.issuperset(schema.names))


def arrow_schema_of(schema: StructType) -> "pa.Schema":
    """Returns the Arrow schema that Spark expects of a reader, with timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before 4.2 there was no time zone to give: timestamps were in UTC.
    named = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **named)
