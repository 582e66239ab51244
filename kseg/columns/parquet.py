"""Row groups of a Parquet file that are encoded on threads: each as a file of its own, of which the groups are joined.

A group's bytes lie anywhere in a file; where, its footer tells. So groups are put behind each other as they are, and
the footers become one whose positions are moved. Field numbers: parquet.thrift of apache/parquet-format.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol

from kseg.columns import thrift
from kseg.columns.thrift import Elements, Field, Struct
from kseg.segment.pipeline import TASK_BYTES, Pipeline

MAGIC = b"PAR1"
_TAIL_BYTES = 4 + len(MAGIC)
"""The footer's length and the magic behind it."""
_ROWS, _GROUPS = 3, 4
_GROUP_CHUNKS, _GROUP_ROWS, _GROUP_POSITION, _GROUP_ORDINAL = 1, 3, 5, 7
_CHUNK_META, _CHUNK_POSITIONS = 3, (2, 4, 6)
_META_POSITIONS = (9, 10, 11, 14)
"""Of the data pages, an index page, the dictionary and a bloom filter."""
_LARGEST_ORDINAL = (1 << 15) - 1
"""The number of a row group is an int16 that may be left out."""


class Output(Protocol):
    """What takes bytes, one piece behind the other."""

    def write(self, data: bytes) -> None: ...

    def write_view(self, view: Any) -> None: ...


class GroupWriter:
    """Writes tables as row groups, in their order. ``options``: those of pyarrow's ParquetWriter."""

    def __init__(self, output: Output, schema: Any, options: dict[str, Any], pipeline: Pipeline) -> None:
        self._output, self._schema, self._options, self._pipeline = output, schema, options, pipeline
        self._footer: Struct = {}
        self._groups: list[Struct] = []
        self._position = len(MAGIC)
        output.write(MAGIC)

    def write(self, table: Any) -> None:
        """One row group."""
        self._join(self._pipeline.submit(partial(_encoded, table, self._options), TASK_BYTES))

    def finish(self) -> None:
        """Writes what is still being encoded, and the footer."""
        self._join(self._pipeline.drain())
        if not self._groups:
            self._join([[_encoded(self._schema.empty_table(), self._options)]])
            self._groups.clear()
        self._footer[_ROWS] = Field(thrift.I64, sum(group[_GROUP_ROWS].value for group in self._groups))
        self._footer[_GROUPS] = Field(thrift.LIST, Elements(thrift.STRUCT, self._groups))
        footer = thrift.written(self._footer)
        self._output.write(footer + len(footer).to_bytes(4, "little") + MAGIC)

    def _join(self, results: Iterable[list[memoryview]]) -> None:
        for file in (file for files in results for file in files):
            end = len(file) - _TAIL_BYTES - int.from_bytes(file[-_TAIL_BYTES : -len(MAGIC)], "little")
            footer = thrift.read(bytes(file[end:-_TAIL_BYTES]))
            for group in footer[_GROUPS].value.values:
                _move(group, self._position - len(MAGIC), len(self._groups))
                self._groups.append(group)
            self._output.write_view(file[len(MAGIC) : end])
            self._position += end - len(MAGIC)
            self._footer = footer


def _encoded(table: Any, options: dict[str, Any]) -> memoryview:
    """A file of one row group; may run on any thread."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = pa.BufferOutputStream()
    with pq.ParquetWriter(stream, table.schema, **options) as writer:
        writer.write_table(table, row_group_size=max(table.num_rows, 1))
    return memoryview(stream.getvalue())


def _move(group: Struct, by: int, ordinal: int) -> None:
    """Gives a row group the positions and the number that it has among all."""
    _shift(group, _GROUP_POSITION, by)
    if ordinal > _LARGEST_ORDINAL:
        group.pop(_GROUP_ORDINAL, None)
    elif _GROUP_ORDINAL in group:
        group[_GROUP_ORDINAL] = Field(thrift.I16, ordinal)
    for chunk in group[_GROUP_CHUNKS].value.values:
        for number in _CHUNK_POSITIONS:
            _shift(chunk, number, by)
        for number in _META_POSITIONS:
            _shift(chunk[_CHUNK_META].value, number, by)


def _shift(fields: Struct, number: int, by: int) -> None:
    if number in fields and fields[number].value:  # 0 stands for no position
        fields[number] = Field(thrift.I64, fields[number].value + by)
