"""Row groups of a Parquet file that are encoded on threads: each as a file of its own, of which the groups are joined.

A group's bytes lie anywhere in a file; where, its footer tells. So groups are put behind each other as they are, and
the footers become one whose positions are moved. Field numbers: parquet.thrift of apache/parquet-format.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol

from kseg.columns import thrift
from kseg.columns.encoding import Encoded, GroupEncoder
from kseg.columns.thrift import Elements, Field
from kseg.kernel.footers import moved_group
from kseg.segment.pipeline import TASK_BYTES, Pipeline

MAGIC = b"PAR1"
_TAIL_BYTES = 4 + len(MAGIC)
"""The footer's length and the magic behind it."""
_ROWS, _GROUPS = 3, 4
_LARGEST_ORDINAL = (1 << 15) - 1
"""The number of a row group is an int16 that may be left out."""


class Output(Protocol):
    """What takes bytes, one piece behind the other."""

    def write(self, data: bytes) -> None: ...

    def write_view(self, view: Any) -> None: ...


class GroupWriter:
    """Writes tables as row groups, in their order."""

    def __init__(self, output: Output, schema: Any, encoder: GroupEncoder, pipeline: Pipeline) -> None:
        self._output, self._schema, self._encoder, self._pipeline = output, schema, encoder, pipeline
        self._footer = b""
        self._groups: list[bytes] = []
        self._rows = 0
        self._position = len(MAGIC)
        output.write(MAGIC)

    def write(self, table: Any) -> None:
        """One row group."""
        self._join(self._pipeline.submit(partial(self._encoder.encode, table), TASK_BYTES))

    def encoded(self, table: Any) -> Encoded:
        """One row group, for `put`; may be asked for on any thread."""
        return self._encoder.encode(table)

    def put(self, group: Encoded) -> None:
        """One row group behind those before."""
        self._join(self._pipeline.drain())
        self._join([[group]])

    def finish(self) -> None:
        """Writes what is still being encoded, and the footer."""
        self._join(self._pipeline.drain())
        if not self._groups:
            self._join([[self._encoder.encode(self._schema.empty_table())]])
            self._groups.clear()
        fields = thrift.read(self._footer)
        fields[_ROWS] = Field(thrift.I64, self._rows)
        fields[_GROUPS] = Field(thrift.LIST, Elements(thrift.STRUCT, self._groups))
        footer = thrift.written(fields)
        self._output.write(footer + len(footer).to_bytes(4, "little") + MAGIC)

    def _join(self, results: Iterable[list[Encoded]]) -> None:
        for encoded in (each for groups in results for each in groups):
            file = encoded.file
            end = len(file) - _TAIL_BYTES - int.from_bytes(file[-_TAIL_BYTES : -len(MAGIC)], "little")
            self._footer = bytes(file[end:-_TAIL_BYTES])
            ordinal = len(self._groups) if len(self._groups) <= _LARGEST_ORDINAL else -1
            group = bytearray(6 * len(self._footer))
            del group[moved_group(self._footer, self._position - len(MAGIC), ordinal, group) :]
            self._groups.append(bytes(group))
            self._output.write_view(file[len(MAGIC) : end])
            self._position += end - len(MAGIC)
            self._rows += encoded.rows
            self._encoder.take_back(encoded)
