"""New partitions: the result of ``kseg.writer``."""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from kseg.api.arguments import Codec, Path, checked, one_path
from kseg.changes.new_directories import new_directories
from kseg.conversion.options import codec_target
from kseg.conversion.rows_writer import NewRecord, RowsWriter, write_side_files
from kseg.errors import RequestError, errors_at
from kseg.export.arrow import need_pyarrow
from kseg.formats.compressing import Target
from kseg.limits import CHUNK_ROWS
from kseg.segment.files import LAST_OFFSET, parse_partition_name
from kseg.segment.times import LAST_TIMESTAMP
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES, DEFAULT_SEGMENT_BYTES, LARGEST_SEGMENT_BYTES, RollLimits

BATCH_BYTES = 16 << 10
"""Size of a batch before compression: batch.size of Kafka's producer."""
_NO_TIMESTAMP = -1

Headers = Iterable[tuple[str | bytes, bytes | None]]


class Writer:
    """Writes one new partition. Use it as a context manager: the partition appears when the block succeeds, or not at
    all.

    >>> with kseg.writer("new/orders-0", codec="zstd:3") as w:
    ...     w.append(key=b"k", value=b"v", timestamp=1790000000000)
    0
    """

    def __init__(self, path: str, target: Target, batch_bytes: int, limits: RollLimits, first_offset: int) -> None:
        self._output, self._name = os.path.split(os.path.abspath(path))
        self._settings = (target, batch_bytes, limits)
        self._first_offset = self._next_offset = first_offset
        self._opened = ExitStack()
        self._rows: RowsWriter | None = None

    @property
    def next_offset(self) -> int:
        """The offset of the next record, unless one is given."""
        return self._next_offset

    def __enter__(self) -> "Writer":
        if self._rows is not None:
            raise RequestError(f"{self._name}: a writer writes once")
        made = self._opened.enter_context(new_directories(self._output, takes_lock=True))
        try:
            self._folder = made.add(self._name)
            self._rows = RowsWriter(self._name, self._folder, *self._settings)
        except BaseException as error:
            self._opened.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        rows = self._open_rows()
        try:
            if error is None:
                write_side_files(self._folder, rows.finish(self._first_offset))
        except BaseException as failure:
            rows.discard()
            self._opened.__exit__(type(failure), failure, failure.__traceback__)
            raise
        rows.discard()
        self._opened.__exit__(kind, error, trace)

    def append(
        self,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
        offset: int | None = None,
    ) -> int:
        """Appends a record and returns its offset.

        ``timestamp`` is in ms since the epoch; None for none. ``headers`` are pairs of a key (text or bytes) and a
        value. ``offset``: a given one must not be below `next_offset`; gaps are recorded. Raises RequestError for
        values of other types, and outside the ``with`` block.

        >>> with kseg.writer("new/orders-1") as w:
        ...     [w.append(value=b"a"), w.append(value=b"b", headers=[("h", b"1")])]
        [0, 1]
        """
        rows = self._open_rows()
        offset = self._next_offset if offset is None else _integer("offset", offset, 0, LAST_OFFSET)
        if offset < self._next_offset:
            raise RequestError(f"{self._name}: offset {offset} is below the next offset, {self._next_offset}")
        moment = _NO_TIMESTAMP if timestamp is None else _integer("timestamp", timestamp, _NO_TIMESTAMP, LAST_TIMESTAMP)
        record = NewRecord(offset, moment, _bytes("key", key), _bytes("value", value), _pairs(headers))
        self._next_offset = offset + 1
        rows.hold(record)
        return offset

    def extend(self, records: Any) -> None:
        """Appends the rows of a table: a `Scan`, or any object with Arrow's ``__arrow_c_stream__``.

        The columns are some of those of `scan`. Without ``offset`` rows get the next offsets; ``topic`` and
        ``partition`` are ignored, because they are the directory's name. Raises RequestError for other columns and
        types. Needs pyarrow.

        >>> with kseg.writer("copy/orders-0") as w:
        ...     w.extend(kseg.scan("orders-0", offsets=(0, 9)))
        """
        rows = self._open_rows()
        rows.add_held()
        need_pyarrow()
        import pyarrow as pa  # after the check, whose error names the package

        from kseg.export.arrow import batchable_rows, record_columns, with_offsets

        reader = pa.RecordBatchReader.from_stream(records)
        for whole in reader:
            for first in range(0, whole.num_rows, CHUNK_ROWS):
                with errors_at(self._name, RequestError, of=ValueError):
                    batch = with_offsets(record_columns(whole.slice(first, CHUNK_ROWS)), self._next_offset)
                    for part, append_time in batchable_rows(batch):
                        rows.add(part, append_time)
                self._next_offset = rows.next_offset or self._next_offset

    def _open_rows(self) -> RowsWriter:
        if self._rows is None:
            raise RequestError("a writer writes inside its with block")
        return self._rows

    def __repr__(self) -> str:
        return f"<Writer {self._name[-80:]!r}: next offset {self._next_offset}>"


def _integer(name: str, given: int, least: int, largest: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= largest:
        raise RequestError(f"{name}={given!r}: is no integer from {least} to {largest}")
    return given


def _bytes(name: str, given: bytes | None) -> bytes | None:
    if given is not None and not isinstance(given, bytes | bytearray | memoryview):
        raise RequestError(f"{name} {given!r}: is neither bytes nor None")
    return given if given is None else bytes(given)


def _pairs(headers: Headers) -> list[tuple[bytes, bytes | None]]:
    try:
        return [(_header_key(key), _bytes("value of a header", value)) for key, value in headers]
    except (TypeError, ValueError) as error:
        raise RequestError(f"headers {headers!r}: are no pairs of a key and a value: {error}") from error


def _header_key(given: str | bytes) -> bytes:
    if isinstance(given, str):
        return given.encode()
    if not isinstance(given, bytes):
        raise RequestError(f"key of a header {given!r}: is neither text nor bytes")
    return given


@checked
def writer(
    path: Path,
    *,
    codec: Codec = "none",
    segment_bytes: int = DEFAULT_SEGMENT_BYTES,
    batch_bytes: int = BATCH_BYTES,
    index_interval_bytes: int = DEFAULT_INTERVAL_BYTES,
    first_offset: int = 0,
) -> Writer:
    """Returns a writer of a new partition for a broker; ``path`` has the name of one, such as ``new/orders-0``.

    ``codec``: none, gzip, snappy, lz4 or zstd, with a level as in "zstd:3". ``segment_bytes``, ``batch_bytes`` (before
    compression) and ``index_interval_bytes`` are those of a broker and a producer. Raises RequestError for invalid
    arguments; in its ``with`` block PathError if the path exists, BrokerRunningError if a broker holds its directory.

    >>> with kseg.writer("new/orders-2") as w:
    ...     w.append(key=b"k", value=b"v")
    0
    >>> kseg.verify("new/orders-2").ok
    True
    """
    text = one_path(path)
    if parse_partition_name(os.path.basename(os.path.abspath(text))) is None:
        raise RequestError(f"{text}: the name must be that of a partition, such as orders-0")
    with errors_at("codec", RequestError, of=ValueError):
        target = codec_target(codec)
    _integer("batch_bytes", batch_bytes, 1, LARGEST_SEGMENT_BYTES)
    limits = RollLimits(
        _integer("segment_bytes", segment_bytes, 1, LARGEST_SEGMENT_BYTES),
        interval_bytes=_integer("index_interval_bytes", index_interval_bytes, 0, LARGEST_SEGMENT_BYTES),
    )
    return Writer(text, target, batch_bytes, limits, _integer("first_offset", first_offset, 0, LAST_OFFSET))
