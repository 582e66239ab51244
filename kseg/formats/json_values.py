"""Objects of JSON: names, keys and values as text where they are UTF-8, else base64; fields under Kafka's names."""

import math
import os
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

PLACE = "file: bytes, position: int"
_BATCH_END = "crc: int, isValid: flag, problems: []text"
RECORD = f"""{PLACE}, topic: bytes?, partition: int?, offset: int, timestamp?: int?, timestampType?: text?,
    sequence?: int?, keySize?: int?, valueSize?: int?, headers?: []header, key?: any, value?: any, keyFormat?: text,
    keySchema?: any, valueFormat?: text, valueSchema?: any, control?: control, nextOffset?: int, isValid?: flag"""
BATCHES = f"""\
batch = {PLACE}, size: int, magic: int, baseOffset: int, lastOffset: int, count: int, baseSequence: int?,
    lastSequence: int?, producerId: int?, producerEpoch: int?, partitionLeaderEpoch: int?, isTransactional: flag,
    isControl: flag, deleteHorizonMs: int?, compression: text, timestampType: text, baseTimestamp: int?,
    maxTimestamp: int?, {_BATCH_END}
batch = {PLACE}, size: int, magic: int, baseOffset: int?, lastOffset: int, count: int?, compression: text,
    timestampType?: text, maxTimestamp?: int?, {_BATCH_END}
batch = {PLACE}, size: int, magic: int, baseOffset: int, nextOffset: int, compression: text, {_BATCH_END}"""
"""The fields of the batches (by era) and records that a dump writes and an import reads: tables of
`kseg.output.json_schema`."""


def names_in(table: str) -> frozenset[str]:
    """Returns the names of the fields in such a table, and ``type``."""
    return frozenset(re.findall(r"(\w+)\??: ", table)) | {"type"}


@cache
def _encoder() -> Callable[[Any], str]:
    """Returns the encoder, imported on first use: text needs none."""
    from json import JSONEncoder

    return JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode(value: Any) -> bytes:
    """Returns JSON without spaces. Lone surrogates, which UTF-8 cannot encode, are escaped."""
    try:
        return _encoder()(value).encode()
    except UnicodeEncodeError:
        from json import dumps

        return dumps(value, separators=(",", ":")).encode()


def name_value(name: str | None) -> Any:
    """Returns the JSON value for the name of a file or topic. Names on disk are bytes."""
    return None if name is None else bytes_value(os.fsencode(name))


def name_of(value: Any) -> str:
    """Returns the name that `name_value` has turned into a JSON value."""
    return value if isinstance(value, str) else os.fsdecode(a2b_base64(value["base64"]))


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def fields_of(found: Any, *names: str) -> dict[str, Any]:
    """Returns fields of an object by their names in JSON, in this order."""
    return {camel_case(name): getattr(found, name) for name in names}


def row_of(found: Any, names: Collection[str] = (), is_name: bool = False) -> Any:
    """Returns named tuples as JSON objects, those in their fields and in lists too.

    ``names``: the fields with names of files or topics, or lists of such, which are bytes on disk.
    """
    if isinstance(found, str):
        return name_value(found) if is_name else found
    if hasattr(found, "_asdict"):
        return {camel_case(name): row_of(value, names, name in names) for name, value in found._asdict().items()}
    return [row_of(each, names, is_name) for each in found] if isinstance(found, list | tuple) else found


def unset(number: int) -> int | None:
    """Returns the JSON value for a number that is -1 where it is not set."""
    return None if number == -1 else number


def number_value(number: float) -> float | str:
    """Returns the JSON value for a number; JSON has no numeral for NaN and the infinities."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def bytes_value(data: bytes | None) -> Any:
    """Returns the JSON value for a key or value."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b2a_base64(data, newline=False).decode()}
