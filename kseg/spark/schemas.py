"""The columns of each mode, and the check of a schema given by the user."""

from collections.abc import Mapping

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

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

RECORDS: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}
"""The schema of Spark's Kafka source, with headers."""

_PLACE: Mapping[str, DataType] = {
    "file": StringType(),
    "topic": StringType(),
    "partition": IntegerType(),
}

BATCHES: Mapping[str, DataType] = {
    **_PLACE,
    "position": LongType(),
    "size": LongType(),
    "magic": IntegerType(),
    "isValid": BooleanType(),
    "baseOffset": LongType(),
    "lastOffset": LongType(),
    "count": LongType(),
    "compression": StringType(),
    "timestampType": StringType(),
    "maxTimestamp": LongType(),
    "producerId": LongType(),
    "producerEpoch": IntegerType(),
    "baseSequence": IntegerType(),
    "partitionLeaderEpoch": IntegerType(),
    "isTransactional": BooleanType(),
    "isControl": BooleanType(),
}

FINDINGS: Mapping[str, DataType] = {
    **_PLACE,
    "code": StringType(),
    "severity": StringType(),
    "position": LongType(),
    "length": LongType(),
    "offset": LongType(),
    "message": StringType(),
    "details": StringType(),
    "repair": StringType(),
    "needs": StringType(),
    "count": LongType(),
}

ENTRIES: Mapping[str, DataType] = {
    **_PLACE,
    "type": StringType(),
    "number": LongType(),
    "offset": LongType(),
    "position": LongType(),
    "timestamp": LongType(),
    "producerId": LongType(),
    "producerEpoch": IntegerType(),
    "coordinatorEpoch": IntegerType(),
    "firstOffset": LongType(),
    "lastOffset": LongType(),
    "lastStableOffset": LongType(),
    "lastSequence": IntegerType(),
    "offsetDelta": IntegerType(),
    "currentTxnFirstOffset": LongType(),
}

COLUMNS = {"records": RECORDS, "batches": BATCHES, "findings": FINDINGS, "entries": ENTRIES}


def schema_of(mode: str) -> StructType:
    """Returns all columns of a mode."""
    return StructType([StructField(name, kind) for name, kind in COLUMNS[mode].items()])


def check_schema(mode: str, schema: StructType) -> None:
    """Raises KsegError unless each column belongs to the mode, has its type, and is nullable."""
    known = COLUMNS[mode]
    for field in schema:
        if field.name not in known:
            raise KsegError(f"mode {mode} of format kseg has no column {field.name!r}; it has {', '.join(known)}")
        if field.dataType != known[field.name]:
            wanted, given = known[field.name].simpleString(), field.dataType.simpleString()
            raise KsegError(f"column {field.name} of mode {mode} is {wanted}, not {given}")
        if not field.nullable:
            raise KsegError(f"column {field.name} of mode {mode} may be null: leave out NOT NULL")
