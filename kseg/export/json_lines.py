"""Reads JSON lines as batches and records: the output of ``kseg dump --format json --print-data-log``, or bare objects.

Bare objects have key, value, timestamp and headers, all optional. A key or value other than a string, null or
``{"base64": …}`` is stored as its JSON text. Unknown fields are errors. A record of Kafka 0.7 has no offset, only a
byte position.
"""

import json
import os
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, BinaryIO

from kseg.errors import KsegError
from kseg.formats.compression import CODEC_NAMES
from kseg.formats.record_batch import RecordBatchHeader
from kseg.kernel.layout.headers import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, MAGIC_V2, TRANSACTIONAL

_RECORD_FIELDS = frozenset(
    {
        "type", "file", "position", "topic", "partition", "offset", "nextOffset", "timestamp", "timestampType",
        "sequence", "keySize", "valueSize", "headers", "isValid", "proven", "key", "value", "control",
    }
)  # fmt: skip
_BATCH_FIELDS = frozenset(
    {
        "type", "file", "position", "size", "magic", "baseOffset", "lastOffset", "nextOffset", "count", "baseSequence",
        "lastSequence", "producerId", "producerEpoch", "partitionLeaderEpoch", "isTransactional", "isControl",
        "deleteHorizonMs", "compression", "timestampType", "baseTimestamp", "maxTimestamp", "crc", "isValid",
        "problems",
    }
)  # fmt: skip
"""All fields that a dump writes, including derived ones that are ignored here."""
_HEADER_FIELDS = frozenset({"key", "value"})
_TIMESTAMP_TYPES = (None, "CreateTime", "LogAppendTime", "NoTimestampType")
_INTEGER_ENDS = {"int16": 1 << 15, "int32": 1 << 31, "int64": 1 << 63}
_SEGMENT = re.compile(r"([0-9]{20})\.log$")


class BadLineError(KsegError):
    """A line that is not valid input."""


@dataclass(slots=True)
class RecordLine:
    """One record. ``offset`` None: the next free one; ``partition``: name of its directory, None if unknown.
    ``problem``: of a record that a dump marks as unproven."""

    offset: int | None
    timestamp: int
    is_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]
    partition: str | None
    position: int | None = None
    problem: str | None = None


@dataclass(slots=True)
class BatchLine:
    """The header of a batch, with the ``records`` that follow it.

    ``header``: of v2; for an older message only codec, timestamp type and largest timestamp are used. ``segment``: base
    offset in the name of its file; ``folder``: the directory of that file.
    """

    magic: int
    header: RecordBatchHeader
    segment: int | None
    position: int
    folder: str
    problem: str | None
    records: list[RecordLine] = field(default_factory=list)


@dataclass(slots=True)
class DamageLine:
    """The place of damage in a dump."""

    text: str


Line = BatchLine | RecordLine | DamageLine


class JsonLines:
    """Iterates over the batches with their records, and the records without a batch, of a stream of lines.

    ``first_line``: line number where the latest of them starts. Raises BadLineError with the line number.
    """

    def __init__(self, stream: BinaryIO, name: str, max_line_bytes: int) -> None:
        self._stream, self._name, self._max = stream, name, max_line_bytes
        self._number = self.first_line = 0

    def __iter__(self) -> Iterator[Line]:
        batch: BatchLine | None = None
        begins = 0
        while line := self._stream.readline(self._max + 1):
            self._number += 1
            if len(line) > self._max:
                raise self._bad(f"has more than {self._max} bytes")
            if not line.strip():
                continue
            found = self._line(line)
            if isinstance(found, RecordLine) and batch is not None and found.position == batch.position:
                batch.records.append(found)
                batch.problem = batch.problem or found.problem
                continue
            if batch is not None:
                self.first_line = begins
                yield batch
            batch, begins = found if isinstance(found, BatchLine) else None, self._number
            if found is not None and batch is None:
                self.first_line = begins
                yield found
        if batch is not None:
            self.first_line = begins
            yield batch

    def _bad(self, why: str) -> BadLineError:
        return BadLineError(f"{self._name}: line {self._number} {why}; nothing was written")

    def _line(self, line: bytes) -> Line | None:
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise self._bad(f"is no JSON: {error.msg} at character {error.colno}") from error
        except (ValueError, RecursionError) as error:
            raise self._bad(f"is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise self._bad("is no JSON object")
        kind = row.get("type")
        if kind is None or kind == "record":
            return self._record(row, is_bare=kind is None)
        if kind == "batch":
            return None if "nextOffset" in row else self._batch(row)
        if kind == "damage":
            return DamageLine(f"{row.get('code')} at position {row.get('position')} of {self._text(row, 'file')}")
        raise self._bad(f"is of the type {kind!r}: only batches and records make a log")

    def _check_fields(self, row: dict[str, Any], known: frozenset[str], what: str) -> None:
        if row.keys() <= known:
            return
        unknown = next(name for name in row if name not in known)
        near = get_close_matches(unknown, sorted(known), 1)
        hint = f"is {near[0]!r} meant?" if near else f"known are {', '.join(sorted(known))}"
        raise self._bad(f"has the field {unknown!r}, which no {what} has: {hint}")

    def _is_append_time(self, row: dict[str, Any]) -> bool:
        kind = row.get("timestampType")
        if kind not in _TIMESTAMP_TYPES:
            raise self._bad(f"has {json.dumps(kind)[:40]} for timestampType: CreateTime or LogAppendTime")
        return bool(kind == "LogAppendTime")

    def _record(self, row: dict[str, Any], is_bare: bool) -> RecordLine:
        self._check_fields(row, _RECORD_FIELDS, "record")
        if not is_bare and "value" not in row:
            raise self._bad("has no value: kseg dump writes it with --print-data-log")
        is_07 = "nextOffset" in row
        position = None if is_07 or "position" not in row else self._number_of(row, "position", "int64")
        return RecordLine(
            None if is_07 or row.get("offset") is None else self._number_of(row, "offset", "int64", least=0),
            -1 if row.get("timestamp") is None else self._number_of(row, "timestamp", "int64"),
            self._is_append_time(row),
            self._bytes(row.get("key"), "key", is_bare),
            self._bytes(row.get("value"), "value", is_bare),
            self._headers(row.get("headers"), is_bare),
            self._partition(row),
            None if is_bare else position,
            self._unproven(row),
        )

    def _unproven(self, row: dict[str, Any]) -> str | None:
        proven = row.get("proven", True)
        if not isinstance(proven, bool):
            raise self._bad(f"has {json.dumps(proven)[:40]} for proven: true or false")
        return None if proven else f"unproven records at position {row.get('position')} of {self._text(row, 'file')}"

    def _headers(self, found: Any, is_bare: bool) -> list[tuple[bytes, bytes | None]]:
        if isinstance(found, dict) and is_bare:
            found = [{"key": key, "value": value} for key, value in found.items()]
        if not isinstance(found or [], list):
            raise self._bad("has headers that are no list")
        headers = []
        for pair in found or []:
            key = self._bytes(pair.get("key"), "header key", False) if isinstance(pair, dict) else None
            if key is None:
                raise self._bad('has a header that is not {"key": …, "value": …}')
            self._check_fields(pair, _HEADER_FIELDS, "header")
            headers.append((key, self._bytes(pair.get("value"), "header", is_bare)))
        return headers

    def _bytes(self, value: Any, what: str, is_bare: bool) -> bytes | None:
        if value is None:
            return None
        try:
            if isinstance(value, str):
                return value.encode()
            if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
                return b64decode(value["base64"], validate=True)
            if is_bare:
                return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        except (Base64Error, ValueError) as error:
            raise self._bad(f"has a {what} that stands for no bytes: {error}") from error
        raise self._bad(f'has a {what} that is no string, null or {{"base64": …}}: it was decoded')

    def _number_of(self, row: dict[str, Any], name: str, kind: str, least: int | None = None) -> int:
        value, end = row.get(name), _INTEGER_ENDS[kind]
        if type(value) is not int or not (-end if least is None else least) <= value < end:
            raise self._bad(f"has {json.dumps(value)[:40]} for {name}")
        return value

    def _optional(self, row: dict[str, Any], name: str, kind: str) -> int:
        """Returns a number, -1 for null."""
        return -1 if row.get(name) is None else self._number_of(row, name, kind)

    def _text(self, row: dict[str, Any], name: str) -> str:
        """Returns the name of a file or topic. Names on disk are bytes."""
        return os.fsdecode(self._bytes(row.get(name), name, False) or b"")

    def _partition(self, row: dict[str, Any]) -> str | None:
        missing = [name for name in ("topic", "partition") if row.get(name) is None]
        if len(missing) == 1:
            raise self._bad(f"has no {missing[0]}: a record says both topic and partition, or neither")
        if missing:
            return None
        name = f"{self._text(row, 'topic')}-{self._number_of(row, 'partition', 'int32', least=0)}"
        if "/" in name or "\0" in name or name.startswith("."):
            raise self._bad("has a topic that no directory can be called after")
        return name

    def _batch(self, row: dict[str, Any]) -> BatchLine:
        self._check_fields(row, _BATCH_FIELDS, "batch")
        magic = self._number_of(row, "magic", "int16")
        if magic not in (0, 1, 2):
            raise self._bad(f"has the magic {magic}, which names no format")
        if row.get("compression") not in CODEC_NAMES:
            raise self._bad(f"has {json.dumps(row.get('compression'))[:40]} for compression")
        base = -1 if magic < MAGIC_V2 else self._number_of(row, "baseOffset", "int64", least=0)
        last = self._number_of(row, "lastOffset", "int64", least=0)
        horizon = row.get("deleteHorizonMs") if magic == MAGIC_V2 else None
        attributes = CODEC_NAMES.index(row["compression"]) | LOG_APPEND_TIME * self._is_append_time(row)
        attributes |= (
            TRANSACTIONAL * bool(row.get("isTransactional"))
            | CONTROL * bool(row.get("isControl"))
            | DELETE_HORIZON * (horizon is not None)
        )
        if magic == MAGIC_V2 and not 0 <= last - base < 1 << 31:
            raise self._bad("has a last offset that is not in reach of its base offset")
        started = "deleteHorizonMs" if horizon is not None else "baseTimestamp"
        header = RecordBatchHeader(
            base, 0, self._optional(row, "partitionLeaderEpoch", "int32"), magic, 0, attributes,
            last - base if magic == MAGIC_V2 else 0, self._optional(row, started, "int64"),
            self._optional(row, "maxTimestamp", "int64"), self._optional(row, "producerId", "int64"),
            self._optional(row, "producerEpoch", "int16"), self._optional(row, "baseSequence", "int32"), 0,
        )  # fmt: skip
        name = self._text(row, "file")
        segment, problems = _SEGMENT.search(name), row.get("problems") or []
        bad = None if row.get("isValid", True) and not problems else f"{problems} at position {row.get('position')}"
        return BatchLine(
            magic,
            header,
            None if segment is None else int(segment[1]),
            self._number_of(row, "position", "int64"),
            os.path.dirname(name),
            None if bad is None else f"{bad} of {name}",
        )
