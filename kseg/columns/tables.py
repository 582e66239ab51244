"""Record batches of Arrow written to a file, as Parquet or in Arrow's own file format, a row group at a time."""

import io
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, cast

from kseg.columns.encoding import Encoded, GroupEncoder
from kseg.columns.pages import page_options
from kseg.columns.parquet import GroupWriter, Output
from kseg.errors import UnsupportedError
from kseg.segment.pipeline import Pipeline

GROUP_ROWS = 1 << 17
GROUP_BYTES = 4 << 20
"""What a row group of Parquet holds, so that an export of any records keeps below 100 MB in all."""
_SMALL_BYTES = 512 << 10
"""A record batch that is no reason for another row group: each costs as much as the first megabyte of a large one."""
PARQUET, ARROW = "parquet", "arrow"
_CODECS = {PARQUET: ("none", "snappy", "gzip", "lz4", "zstd"), ARROW: ("none", "lz4", "zstd")}
_DEFAULTS = {PARQUET: "snappy", ARROW: "none"}
_ENCODERS, _GROUPS_AHEAD = 2, 1
"""Threads that encode row groups at most, whatever the number of cores, and row groups that may wait for each: they all
are in memory."""
_SORTED = ("topic", "partition", "offset", "timestamp", "timestampType")
"""Of which readers ask for the least and the largest."""
_HEADER_FIELDS = ("headers.list.element.key", "headers.list.element.value")
_REPEATED = ("key", "value", "topic", "partition", "timestamp", "timestampType", *_HEADER_FIELDS)
"""Whose values may come more than once, so that a dictionary of them can pay; where it grows large, pyarrow gives it
up. No offset does."""


def check_codec(form: str, codec: str | None) -> None:
    """Raises UnsupportedError where the form has no such codec."""
    if codec is not None and codec not in _CODECS[form]:
        raise UnsupportedError(f"{form} has no {codec}: {', '.join(_CODECS[form])}")


_LARGE_PIECE = 64 << 10
"""Bytes that are written at once instead of being gathered."""


class _Stream(io.RawIOBase):
    """An output as pyarrow writes to files."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = len(data)
        if size < _LARGE_PIECE:
            self._output.write(bytes(data))
        else:
            self._output.write_view(memoryview(data))
        self._position += size
        return size

    def tell(self) -> int:
        return self._position


class _Groups:
    """Record batches of one schema put together to tables, each of a row group."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._held: list[Any] = []
        self._rows = self._bytes = 0

    def add(self, batch: Any) -> Iterator[Any]:
        """One more; the table of those before, if they fill one. The last batch of a run, which may be small, makes no
        table of its own."""
        size = batch.nbytes
        is_full = self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES
        if is_full and (size > _SMALL_BYTES or self._bytes >= GROUP_BYTES + 2 * _SMALL_BYTES):
            yield from self.rest()
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += size

    def rest(self) -> Iterator[Any]:
        """The table of what is held; none where that is nothing."""
        import pyarrow as pa

        held, self._held, self._rows, self._bytes = self._held, [], 0, 0
        if held:
            yield pa.Table.from_batches(held, self._schema)


class TableWriter:
    """Writes record batches of one schema. Raises UnsupportedError where pyarrow is not installed.

    ``codec``: a name, and a level where it has any; None: snappy in Parquet, none in Arrow's format.
    ``pipeline``: one of `encoders`, where row groups are encoded.
    """

    def __init__(
        self, output: Output, form: str, schema: Any, codec: str | None, level: int | None, pipeline: Pipeline
    ) -> None:
        check_codec(form, codec)
        self._schema = schema
        self._groups = _Groups(schema)
        name = codec or _DEFAULTS[form]
        self._is_parquet = form == PARQUET
        self._writer: Any
        if self._is_parquet:
            options = {"compression": name.upper(), "compression_level": level,
                       "write_statistics": [each for each in schema.names if each in _SORTED]}  # fmt: skip
            encoder = GroupEncoder(lambda table: options | page_options(table, _REPEATED))
            self._writer = GroupWriter(output, schema, encoder, pipeline)
        else:
            import pyarrow as pa

            packing = None if name == "none" else pa.Codec(name, level) if level is not None else name
            options = pa.ipc.IpcWriteOptions(compression=packing)
            self._writer = pa.ipc.new_file(_Stream(output), schema, options=options)

    def add(self, batch: Any) -> None:
        """One record batch."""
        if not self._is_parquet:
            self._writer.write_batch(batch)
            return
        for table in self._groups.add(batch):
            self._writer.write(table)

    def encoded(self, batches: Iterable[Any]) -> Iterator[Encoded]:
        """Row groups of Parquet for `put` that hold these record batches and no others; may be asked for on any
        thread."""
        groups = _Groups(self._schema)
        for batch in batches:
            yield from map(self._writer.encoded, groups.add(batch))
        yield from map(self._writer.encoded, groups.rest())

    def put(self, group: Encoded) -> None:
        """A row group behind all that was added."""
        self._flush()
        self._writer.put(group)

    def _flush(self) -> None:
        for table in self._groups.rest():
            self._writer.write(table)

    def finish(self) -> None:
        """Writes what is held, and the end of the file."""
        if self._is_parquet:
            self._flush()
            self._writer.finish()
        else:
            self._writer.close()


def encoders(jobs: int) -> Pipeline:
    """Threads that encode row groups: ``jobs``, or as few as keep within memory."""
    return Pipeline(min(jobs, _ENCODERS), _GROUPS_AHEAD)


def need_pyarrow() -> None:
    """Raises UnsupportedError where pyarrow is not installed.

    pyarrow begins with importing numpy, where there is one, which takes longer than all else that a small export does.
    It is told that there is none: for a program, not for a library whose caller may want arrays of numpy. And its own
    allocators keep twice as much of what row groups free as the system's does.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    hidden = {} if "numpy" in sys.modules else {"numpy": cast(Any, None)}
    sys.modules.update(hidden)
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UnsupportedError("Parquet and Arrow need pyarrow: pip install 'kseg[parquet]'") from error
    finally:
        for name in hidden:
            del sys.modules[name]
