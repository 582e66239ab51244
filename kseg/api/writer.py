"""New partitions and log directories: the results of ``kseg.writer`` and ``kseg.log_writer``."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Self, TypedDict, Unpack

from kseg.api.arguments import Path, checked, integer_of, milliseconds_of
from kseg.api.log import Record
from kseg.changes.new_directories import check_local, check_output, new_directories
from kseg.conversion.options import codec_target
from kseg.conversion.rows_writer import RECORD_BYTES, NewRecord, PartitionWriters, RowsWriter, write_side_files
from kseg.errors import RequestError, errors_at, refuse_if
from kseg.export import pa
from kseg.export.arrow import COLUMNS, PROVEN, TIMESTAMP_TYPES, by_partition, need_pyarrow, record_columns, unescaped
from kseg.formats.compressing import Codec
from kseg.limits import CHUNK_ROWS
from kseg.node.node import Nodes
from kseg.segment.files import directory_name, is_new_partition, own_name, parse_partition_name
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES, DEFAULT_SEGMENT_BYTES, LARGEST_SEGMENT_BYTES, RollLimits
from kseg.stores.place import Place

BATCH_BYTES = 16 << 10
"""Size of a batch before compression: batch.size of Kafka's producer."""
_NO_TIMESTAMP = -1
_LAST_PARTITION = (1 << 31) - 1

Headers = Iterable[tuple[str | bytes, bytes | None]]


class _NewPartitions:
    """New partitions in ``output``. They appear when the ``with`` block succeeds, all together or not at all.

    ``make`` returns a writer of a partition, by its name and folder. ``name``: for messages; if ``is_one``, that of the
    only partition, which is created even without a record.
    """

    def __init__(self, output: str, name: str, make: Callable[[str, str], RowsWriter], is_one: bool) -> None:
        self._output, self._name, self._make, self._is_one = output, name, make, is_one
        self._writers: PartitionWriters[RowsWriter] | None = None
        self._is_open = False

    def __enter__(self) -> Self:
        refuse_if(self._writers is not None, f"{self._name}: a writer writes once")
        self._block = self._writing()
        self._block.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open_writers()
        self._block.__exit__(*error)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        check_output(self._output, may_be_log_directory=True)
        with new_directories(self._output, takes_lock=True) as made:
            writers = PartitionWriters(lambda name: self._make(name, made.add(name)))
            try:
                if self._is_one:
                    writers.use(self._name, 0)
                self._writers, self._is_open = writers, True
                yield
                self._is_open = False
                known = Nodes().at(self._output).topics
                for rows in writers.by_name.values():
                    write_side_files(rows.folder or "", rows.finish(), known.ids if known else None)
            finally:
                self._is_open = False
                writers.close()

    def extend(self, records: Any) -> None:
        """Appends the records of a `Scan`, of any object with Arrow's ``__arrow_c_stream__``, or of an iterable of
        mappings or `Record`.

        The columns or keys are some of those of `scan`. Records without ``offset`` get the next offsets; ``proven`` is
        ignored. Raises RequestError for other columns and types. Arrow needs pyarrow.

        >>> with kseg.writer("copy/orders-0") as w:
        ...     w.extend(kseg.scan("orders-0", offsets=(0, 9)))
        ...     w.extend({"value": b"%d" % n} for n in range(3))
        """
        self._open_writers()
        if hasattr(records, "__arrow_c_stream__"):
            need_pyarrow()
            from kseg.api.scan import Scan

            # As a stream of C, a scan would turn its errors into texts.
            table = records.batches() if isinstance(records, Scan) else records
            reader = table if isinstance(table, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(table)
            for each in reader:
                whole = each.select([at for at, name in enumerate(each.schema.names) if name != PROVEN])
                for first in range(0, whole.num_rows, CHUNK_ROWS):
                    with errors_at(self._name, RequestError, of=ValueError):
                        columns = record_columns(whole.slice(first, CHUNK_ROWS))
                        for name, batch in [(self._name, columns)] if self._is_one else by_partition(columns):
                            self._open_writers().use(name, batch.nbytes).add_table(batch)
            return
        if isinstance(records, str | bytes | Mapping | Record) or not isinstance(records, Iterable):
            raise RequestError(f"extend({records!r:.80}): is neither Arrow nor an iterable of mappings or records")
        number = -1
        try:
            for record in records:
                number += 1
                row = _row(record)
                row.pop(PROVEN, None)
                self._hold(self._partition_of(row.pop("topic", None), row.pop("partition", None)), **row)
        except RequestError as error:
            raise RequestError(f"extend: record {number}: {error}") from error

    def _hold(
        self,
        name: str,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Headers | None = None,
        timestamp: int | datetime | None = None,
        offset: int | None = None,
        timestampType: int | str | None = None,
    ) -> int:
        """Appends a record and returns its offset."""
        key, value = _bytes("key", key), _bytes("value", value)
        moment = milliseconds_of(timestamp) if isinstance(timestamp, datetime) else timestamp
        moment = _NO_TIMESTAMP if moment is None else integer_of("timestamp", moment, _NO_TIMESTAMP)
        if timestampType is not None and timestampType not in (*TIMESTAMP_TYPES, *TIMESTAMP_TYPES.values()):
            raise RequestError(f"timestampType={timestampType!r}: is none of {', '.join(TIMESTAMP_TYPES)}")
        append_time = moment if timestampType in ("LogAppendTime", TIMESTAMP_TYPES["LogAppendTime"]) else None
        pairs = () if headers is None else _pairs(headers)
        given = None if offset is None else integer_of("offset", offset, 0)
        rows = self._open_writers().use(name, RECORD_BYTES + len(key or b"") + len(value or b""))
        if given is not None and given < rows.next_offset:
            raise RequestError(f"{name}: offset {given} is below the next offset, {rows.next_offset}")
        found = rows.numbered(given)
        rows.hold(NewRecord(found, moment, key, value, pairs, append_time))
        return found

    def _partition_of(self, topic: Any, partition: Any) -> str:
        """Returns the name of the directory. Raises RequestError if there is no such topic or partition."""
        if self._is_one:
            return self._name
        name = f"{topic}-{integer_of('partition', partition, 0, _LAST_PARTITION)}"
        is_known = name in self._open_writers().by_name
        if not isinstance(topic, str) or not (is_known or is_new_partition(name)):
            raise RequestError(f"topic={topic!r}: is no name of a topic")
        return name

    def _open_writers(self) -> PartitionWriters[RowsWriter]:
        if self._writers is None or not self._is_open:
            raise RequestError("a writer writes inside its with block")
        return self._writers


class Writer(_NewPartitions):
    """Writes one new partition. Use it as a context manager: the partition appears when the block succeeds, or not at
    all.

    >>> with kseg.writer("new/orders-0", codec="zstd:3") as w:
    ...     w.append(key=b"k", value=b"v", timestamp=1790000000000)
    0
    """

    @property
    def next_offset(self) -> int:
        """The offset of the next record, unless one is given."""
        return (self._writers or self._open_writers()).by_name[self._name].next_offset

    def append(
        self,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Headers = (),
        timestamp: int | datetime | None = None,
        offset: int | None = None,
    ) -> int:
        """Appends a record and returns its offset.

        ``timestamp`` is in ms since the epoch, or a datetime; None for none. ``headers`` are pairs of a key (text or
        bytes) and a value. ``offset``: a given one must not be below `next_offset`; gaps are recorded. Raises
        RequestError for values of other types, and outside the ``with`` block.

        >>> with kseg.writer("new/orders-1") as w:
        ...     [w.append(value=b"a"), w.append(value=b"b", headers=[("h", b"1")])]
        [0, 1]
        """
        return self._hold(self._name, key, value, headers, timestamp, offset)

    def __repr__(self) -> str:
        state = f"next offset {self.next_offset}" if self._writers else "not opened"
        return f"<Writer {self._name[-80:]!r}: {state}>"


class LogDirectoryWriter(_NewPartitions):
    """Writes new partitions of a log directory. Use it as a context manager: they appear when the block succeeds, all
    or none.

    >>> with kseg.log_writer("rebuilt") as w:
    ...     w.append(topic="payments", partition=3, value=b"v")
    ...     w.extend(kseg.scan("orders-0"))
    0
    """

    def append(
        self,
        *,
        topic: str,
        partition: int,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Headers = (),
        timestamp: int | datetime | None = None,
        offset: int | None = None,
    ) -> int:
        """Appends a record to a partition, which is created with its first record; otherwise as `Writer.append`.

        Raises PathError if the partition exists.

        >>> with kseg.log_writer("new") as w:
        ...     [w.append(topic="ids", partition=n % 2, value=b"%d" % n) for n in range(5)]
        [0, 0, 1, 1, 2]
        """
        return self._hold(self._partition_of(topic, partition), key, value, headers, timestamp, offset)

    def __repr__(self) -> str:
        count = 0 if self._writers is None else len(self._writers.by_name)
        return f"<LogDirectoryWriter {self._name[-80:]!r}: {count} partitions>"


def _row(record: Any) -> dict[str, Any]:
    """Returns the columns of a record by their names."""
    if isinstance(record, Record):
        row = record._asdict()
        row["timestampType"] = row.pop("timestamp_type")
        return row
    if not isinstance(record, Mapping):
        raise RequestError(f"{record!r:.80} is neither a mapping nor a record")
    if unknown := record.keys() - {*COLUMNS, PROVEN}:
        raise RequestError(f"a record has no {min(map(repr, unknown))}; it has {', '.join(COLUMNS)}")
    return dict(record)


def _bytes(name: str, given: bytes | None) -> bytes | None:
    if given is not None and not isinstance(given, bytes | bytearray | memoryview):
        raise RequestError(f"{name} {given!r}: is neither bytes nor None")
    return given if given is None else bytes(given)


def _pairs(headers: Headers) -> list[tuple[bytes, bytes | None]]:
    """A mapping comes from Arrow: there a key that is not UTF-8 is a text, as `scan` writes it."""
    found = []
    try:
        for each in headers:
            is_of_arrow = isinstance(each, Mapping)
            key, value = (each["key"], each["value"]) if isinstance(each, Mapping) else each
            if isinstance(key, str):
                key = unescaped(key.encode()) if is_of_arrow else key.encode()
            if not isinstance(key, bytes):
                raise RequestError(f"key of a header {key!r}: is neither text nor bytes")
            found.append((key, _bytes("value of a header", value)))
    except RequestError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise RequestError(f"headers {headers!r}: are no pairs of a key and a value: {error}") from error
    return found


class WriterSettings(TypedDict, total=False):
    """How records become batches and segments."""

    codec: Annotated[Codec, "none"]
    segment_bytes: Annotated[int, DEFAULT_SEGMENT_BYTES]
    batch_bytes: Annotated[int, BATCH_BYTES]
    index_interval_bytes: Annotated[int, DEFAULT_INTERVAL_BYTES]


@checked
def writer(path: Path, *, first_offset: int = 0, **settings: Unpack[WriterSettings]) -> Writer:
    """Returns a writer of a new partition for a broker; ``path`` has the name of one, such as ``new/orders-0``.

    ``codec``: none, gzip, snappy, lz4 or zstd, with a level as in "zstd:3". ``segment_bytes``, ``batch_bytes`` (before
    compression) and ``index_interval_bytes`` are those of a broker and a producer. Raises RequestError for invalid
    arguments; in its ``with`` block PathError if the path exists or is inside a partition, BrokerRunningError if a
    broker holds its directory.

    >>> with kseg.writer("new/orders-2") as w:
    ...     w.append(key=b"k", value=b"v")
    0
    >>> kseg.verify("new/orders-2").ok
    True
    """
    text = os.fspath(path)
    check_local(text)
    output, name = os.path.split(Place(text).absolute)
    if parse_partition_name(name) is None or not is_new_partition(own_name(name)):
        raise RequestError(f"{text!r}: the name must be that of a partition, such as orders-0")
    return Writer(output, name, _maker(settings, first_offset), is_one=True)


@checked
def log_writer(path: Path, **settings: Unpack[WriterSettings]) -> LogDirectoryWriter:
    """Returns a writer of new partitions in a log directory, which is created if necessary.

    The arguments are those of `writer`. Any number of writers, of threads and processes, may write different partitions
    of one log directory at once. At most 128 files are open; of more partitions about 32 MiB of records wait in memory.

    >>> with kseg.log_writer("new", codec="lz4") as w:
    ...     w.extend(kseg.scan("orders-0"))
    >>> kseg.verify("new").ok
    True
    """
    make = _maker(settings)
    return LogDirectoryWriter(os.fspath(path), directory_name(os.fspath(path)), make, is_one=False)


def _maker(settings: WriterSettings, first_offset: int = 0) -> Callable[[str, str], RowsWriter]:
    with errors_at("codec", RequestError, of=ValueError):
        target = codec_target(settings["codec"])
    batch_bytes = integer_of("batch_bytes", settings["batch_bytes"], 1, LARGEST_SEGMENT_BYTES)
    limits = RollLimits(
        integer_of("segment_bytes", settings["segment_bytes"], 1, LARGEST_SEGMENT_BYTES),
        interval_bytes=integer_of("index_interval_bytes", settings["index_interval_bytes"], 0, LARGEST_SEGMENT_BYTES),
    )
    integer_of("first_offset", first_offset, 0)
    return partial(RowsWriter, target=target, batch_bytes=batch_bytes, limits=limits, first_offset=first_offset)
