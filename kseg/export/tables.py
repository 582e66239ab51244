"""Writes Arrow record batches to a file with pyarrow, as Parquet or in the Arrow file format."""

import io
import os
import sys
from collections.abc import Iterator
from typing import Any, Protocol, cast

from kseg.errors import UnsupportedError
from kseg.export.arrow import need_pyarrow
from kseg.formats.rows import BytesLike

GROUP_ROWS = 1 << 17
GROUP_BYTES = 4 << 20
"""Size of a Parquet row group. pyarrow holds one at a time, so an export needs less than 100 MB."""
_SMALL_BYTES = 512 << 10
"""Record batches up to this size do not start a row group: a small group costs as much as a megabyte of rows."""
PARQUET, ARROW = "parquet", "arrow"
_CODECS = {PARQUET: ("none", "snappy", "gzip", "lz4", "zstd"), ARROW: ("none", "lz4", "zstd")}
_DEFAULTS = {PARQUET: "snappy", ARROW: "none"}
_WITH_STATISTICS = ("topic", "partition", "offset", "timestamp", "timestampType")
"""Columns that get min/max statistics."""
_HEADER_FIELDS = ("headers.list.element.key", "headers.list.element.value")
_WITH_DICTIONARY = ("key", "value", "topic", "partition", "timestamp", "timestampType", *_HEADER_FIELDS)
"""Columns that get a dictionary. Offsets never repeat. pyarrow gives up a dictionary that grows above 1 MiB."""
_PAGE_BYTES, _BATCH_ROWS = 128 << 10, 256
"""Size of a page, and rows between two checks of its size: smaller than pyarrow's defaults, so that a page stays in a
processor's cache while it is compressed."""
_LARGE_WRITE_BYTES = 64 << 10
"""Writes of this size go to the output at once. Smaller ones are gathered."""


def check_codec(form: str, codec: str | None) -> None:
    """Raises UnsupportedError if the form does not support the codec."""
    if codec is not None and codec not in _CODECS[form]:
        raise UnsupportedError(f"{form} has no {codec}: {', '.join(_CODECS[form])}")


class TableOutput(Protocol):
    """A sequential output."""

    def write(self, data: bytes) -> None: ...

    def write_view(self, view: BytesLike) -> None: ...


class _Stream(io.RawIOBase):
    """Wraps an output as the file object that pyarrow writes to. After an error, writes are discarded."""

    def __init__(self, output: TableOutput) -> None:
        self._output = output
        self._position = 0
        self.is_abandoned = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = len(data)
        if self.is_abandoned:
            return size
        if size < _LARGE_WRITE_BYTES:
            self._output.write(bytes(data))
        else:
            self._output.write_view(memoryview(data))
        self._position += size
        return size

    def tell(self) -> int:
        return self._position


class _Groups:
    """Collects record batches into tables, one for each row group."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._held: list[Any] = []
        self._rows = self._bytes = 0

    def add(self, batch: Any) -> Iterator[Any]:
        """Adds a record batch. Yields the table of the earlier ones if they fill a row group."""
        size = batch.nbytes
        is_full = self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES
        if is_full and (size > _SMALL_BYTES or self._bytes >= GROUP_BYTES + 2 * _SMALL_BYTES):
            yield from self.rest()
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += size

    def rest(self) -> Iterator[Any]:
        """Yields the table of the remaining batches, if any."""
        import pyarrow as pa

        held, self._held, self._rows, self._bytes = self._held, [], 0, 0
        if held:
            yield pa.Table.from_batches(held, self._schema)


class TableWriter:
    """Writes record batches of one schema, as a context manager.

    The file is completed if the block succeeds. After an error nothing more is written, so that a broken file is
    detected. ``codec``: None means snappy in Parquet, and no compression in the Arrow format; ``level``: None for the
    codec's default.
    """

    def __init__(self, output: TableOutput, form: str, schema: Any, codec: str | None, level: int | None) -> None:
        check_codec(form, codec)
        self._stream = _Stream(output)
        name = codec or _DEFAULTS[form]
        self._groups = _Groups(schema) if form == PARQUET else None
        make = _parquet_writer if form == PARQUET else _arrow_writer
        self._writer = make(self._stream, schema, name, level)

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._finish()
            return
        self._stream.is_abandoned = True
        self._writer.close()

    def add(self, batch: Any) -> None:
        """Writes one record batch."""
        if self._groups is None:
            self._writer.write_batch(batch)
        else:
            self._write_groups(self._groups.add(batch))

    def _write_groups(self, tables: Iterator[Any]) -> None:
        for table in tables:
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))

    def _finish(self) -> None:
        if self._groups is not None:
            self._write_groups(self._groups.rest())
        self._writer.close()


def _parquet_writer(stream: _Stream, schema: Any, codec: str, level: int | None) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(
        stream,
        schema,
        compression=codec.upper(),
        compression_level=level,
        use_dictionary=list(_WITH_DICTIONARY),
        write_statistics=[name for name in schema.names if name in _WITH_STATISTICS],
        data_page_size=_PAGE_BYTES,
        write_batch_size=_BATCH_ROWS,
    )


def _arrow_writer(stream: _Stream, schema: Any, codec: str, level: int | None) -> Any:
    import pyarrow as pa

    packing = None if codec == "none" else pa.Codec(codec, level) if level is not None else codec
    return pa.ipc.new_file(stream, schema, options=pa.ipc.IpcWriteOptions(compression=packing))


def prepare_pyarrow() -> None:
    """Imports pyarrow for a program that needs little of it. Raises UnsupportedError if it is not installed.

    pyarrow imports numpy if it is installed, which takes longer than a small export. Therefore numpy is hidden from it:
    this is for programs, not for a library whose caller may want numpy arrays. The system's memory allocator is used,
    because pyarrow's own allocators retain twice as much of the freed row groups.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    hidden = {} if "numpy" in sys.modules else {"numpy": cast(Any, None)}
    sys.modules.update(hidden)
    try:
        need_pyarrow()
    finally:
        for name in hidden:
            del sys.modules[name]
