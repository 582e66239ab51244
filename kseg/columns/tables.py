"""Record batches of Arrow written to a file, as Parquet or in Arrow's own file format, a row group at a time."""

import io
from typing import Any, Protocol

from kseg.errors import UnsupportedError

GROUP_ROWS = 1 << 17
GROUP_BYTES = 64 << 20
"""What a row group of Parquet holds, so that memory is bounded."""
PARQUET, ARROW = "parquet", "arrow"
_CODECS = {PARQUET: ("none", "snappy", "gzip", "lz4", "zstd"), ARROW: ("none", "lz4", "zstd")}
_DEFAULTS = {PARQUET: "snappy", ARROW: "none"}
_UNSORTED = ("key", "value", "headers")
"""Of which no reader asks for the least and the largest."""
_FEW_VALUES = ["topic", "partition", "timestampType"]


class Output(Protocol):
    """What takes bytes, one piece behind the other."""

    def write(self, data: bytes) -> None: ...


def check_codec(form: str, codec: str | None) -> None:
    """Raises UnsupportedError where the form has no such codec."""
    if codec is not None and codec not in _CODECS[form]:
        raise UnsupportedError(f"{form} has no {codec}: {', '.join(_CODECS[form])}")


class _Stream(io.RawIOBase):
    """An output as pyarrow writes to files."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._output.write(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._position


class TableWriter:
    """Writes record batches of one schema. Raises UnsupportedError where pyarrow is not installed.

    ``codec``: a name, and a level where it has any; None: snappy in Parquet, none in Arrow's format.
    """

    def __init__(self, output: Output, form: str, schema: Any, codec: str | None, level: int | None) -> None:
        check_codec(form, codec)
        self._held: list[Any] = []
        self._rows = self._bytes = 0
        self._schema = schema
        name, stream = codec or _DEFAULTS[form], _Stream(output)
        self._is_parquet = form == PARQUET
        if self._is_parquet:
            import pyarrow.parquet as pq

            self._writer = pq.ParquetWriter(
                stream, schema, compression=name.upper() if name != "none" else "NONE", compression_level=level,
                use_dictionary=[each for each in _FEW_VALUES if each in schema.names],
                write_statistics=[each for each in schema.names if each not in _UNSORTED],
            )  # fmt: skip
        else:
            import pyarrow as pa

            packing = None if name == "none" else pa.Codec(name, level) if level is not None else name
            self._writer = pa.ipc.new_file(stream, schema, options=pa.ipc.IpcWriteOptions(compression=packing))

    def add(self, batch: Any) -> None:
        """One record batch."""
        if not self._is_parquet:
            self._writer.write_batch(batch)
            return
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema), row_group_size=self._rows)
        self._held, self._rows, self._bytes = [], 0, 0

    def finish(self) -> None:
        """Writes what is held, and the end of the file."""
        if self._is_parquet:
            self._flush()
        self._writer.close()


def need_pyarrow() -> None:
    """Raises UnsupportedError where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UnsupportedError("Parquet and Arrow need pyarrow: pip install 'kseg[parquet]'") from error
