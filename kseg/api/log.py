"""The result of ``kseg.open``: all items and records of segments, partitions and log directories, in order."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from operator import attrgetter
from typing import Any, NamedTuple, Unpack
from weakref import finalize

from kseg.api import arguments
from kseg.api.archives import readable
from kseg.api.arguments import Paths, Reading, RecordSelection, checked
from kseg.errors import DamageError, UnsupportedError
from kseg.export.chunk import KEY, NAMES, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, VALUE, Chunks
from kseg.export.scanning import DamageLog, PartReader, ScanRequest, damage_text, is_unproven, parts_of_scan
from kseg.formats.rows import Scratch
from kseg.limits import CHUNK_BYTES
from kseg.node.paths import expanded
from kseg.runtime.threads import usable_cores
from kseg.segment import items as segment_items
from kseg.segment.files import SegmentFile
from kseg.segment.items import Problem
from kseg.segment.paths import live_parts, roots_of, segments_at
from kseg.segment.reader import open_segment
from kseg.stores.remote.keys import PrivateKeys

# The items and records that ``kseg.open`` yields, with the file that holds them.

_UNSET = -1
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime", None)
"""By Kafka's id; that of formats without timestamps is -1, the last index."""

HeaderList = list[tuple[str | bytes, bytes | None]]


class Record(NamedTuple):
    """A record as a consumer sees it.

    ``timestamp`` is in ms since the epoch, None if there is none; ``timestamp_type`` is "CreateTime", "LogAppendTime",
    or None for formats without timestamps. ``headers`` is a list of key and value; a key that is not UTF-8 is bytes.
    ``topic`` and ``partition`` come from the directory's name. ``proven`` is False for a record of a broken batch.

    >>> record = next(kseg.open("orders-0").records())
    >>> record.offset, record.key, record.value, record.timestamp
    (0, b'key-00000', b's', 1790000000000)
    """

    topic: str | None
    partition: int | None
    offset: int
    timestamp: int | None
    timestamp_type: str | None
    key: bytes | None
    value: bytes | None
    headers: HeaderList
    proven: bool = True


class Damage(NamedTuple):
    """Bytes ``[position, position + length)`` of a file that belong to no batch. ``code`` is a code of findings.

    >>> [item for item in kseg.open("cut-0") if isinstance(item, kseg.Damage)]
    [<Damage 00000000000000000000.log:78 551 bytes: truncated-batch>]
    """

    file: str
    topic: str | None
    partition: int | None
    position: int
    length: int
    code: str
    message: str

    @property
    def end(self) -> int:
        return self.position + self.length

    def __repr__(self) -> str:
        return f"<Damage {_name(self.file)}:{self.position} {self.length} bytes: {self.code}>"


def _of(place: str, text: str) -> Any:
    """Returns a property that is an attribute of the batch, or of its file."""
    return property(attrgetter(place), doc=text)


def _of_v2(field: str, text: str) -> Any:
    """Returns a property that is a field of the header of v2; None if it is unset, and for other formats."""

    def get(batch: "Batch") -> int | None:
        found = getattr(batch._batch.header, field, _UNSET)
        return None if found == _UNSET else found

    return property(get, doc=f"{text}; None if the batch has none.")


class Batch:
    """Bytes ``[position, position + size)`` of a file that form a record batch (v2) or a message (v0, v1, 0.7).

    ``is_valid``: the checksum is right and the magic is known. `problems` lists the errors of the frame; `check` also
    reads all records. Iterating yields the intact records, also those of control batches and of batches that are not
    valid.

    >>> batch = next(item for item in kseg.open("orders-0") if isinstance(item, kseg.Batch))
    >>> batch.base_offset, batch.compression, batch.producer_id, [record.value for record in batch]
    (0, 'none', 0, [b's'])
    """

    __slots__ = ("_batch", "_file")

    file: str = _of("_file.path", "The path of the segment.")
    topic: str | None = _of("_file.topic", "The topic, by the name of the directory.")
    partition: int | None = _of("_file.partition", "The partition, by the name of the directory.")
    position: int = _of("_batch.position", "Where the batch begins in the file.")
    size: int = _of("_batch.size", "Size in bytes.")
    end: int = _of("_batch.end", "Where the batch ends in the file.")
    magic: int = _of("_batch.magic", "The version of the format.")
    is_valid: bool = _of("_batch.is_valid", "Whether the checksum is right and the magic is known.")
    is_control: bool = _of("_batch.is_control", "Whether the records are markers, which no consumer gets.")
    is_transactional: bool = _of("_batch.is_transactional", "Whether the batch is part of a transaction.")
    base_offset: int | None = _of(
        "_batch.base_offset",
        "Offset of the first record; None for a compressed v0 or v1 message, which does not store it.",
    )
    last_offset: int = _of("_batch.last_offset", "Offset of the last record.")
    next_offset: int = _of(
        "_batch.next_offset", "The offset after the batch (0.7: the byte position in the whole log)."
    )
    compression: str = _of("_batch.compression", "The codec: none, gzip, snappy, lz4, zstd.")
    crc: int = _of("_batch.header.crc", "The stored checksum.")
    problems: list[Problem] = _of("_batch.problems", "The problems of the frame: checksum and magic.")
    record_count: int | None = _of_v2("record_count", "The number of records by the header (v2)")
    producer_id: int | None = _of_v2("producer_id", "The id of an idempotent or transactional producer (v2)")
    producer_epoch: int | None = _of_v2("producer_epoch", "The epoch of that producer (v2)")
    base_sequence: int | None = _of_v2("base_sequence", "The sequence number of the first record (v2)")
    leader_epoch: int | None = _of_v2("partition_leader_epoch", "The epoch of the leader that appended it (v2)")

    def __init__(self, batch: segment_items.Batch, file: SegmentFile) -> None:
        self._batch, self._file = batch, file

    @property
    def data(self) -> bytes:
        """The bytes of the batch."""
        return bytes(self._batch.data)

    @property
    def timestamp_type(self) -> str | None:
        """ "CreateTime", "LogAppendTime", or None for formats without timestamps."""
        found = self._batch.timestamp_type
        return None if found == segment_items.TIMESTAMP_TYPES[0] else found

    @property
    def max_timestamp(self) -> int | None:
        """Largest timestamp in ms according to the header; None if there is none."""
        found = self._batch.max_timestamp
        return None if found == _UNSET else found

    def check(self) -> list[Problem]:
        """Returns all problems of the batch, including those of its records."""
        return self._batch.check()

    def __iter__(self) -> Iterator[Record]:
        is_proven = not is_unproven(self._batch)
        for record in self._batch:
            if record.is_valid:
                yield Record(
                    self.topic, self.partition, record.offset,
                    None if record.timestamp == _UNSET else record.timestamp, record.timestamp_type, record.key,
                    record.value, [(_text(header.key), header.value) for header in record.headers], is_proven,
                )  # fmt: skip

    def __reduce__(self) -> Any:
        found = self._batch
        fields = bytes(found.data), found.position, found.size, found.magic, found.is_valid
        base = found.file_base if isinstance(found, segment_items.Message07) else None
        return _copied, (type(found), fields, found.scratch.max_batch_bytes, base, self._file)

    def __repr__(self) -> str:
        first = "" if self.base_offset is None else f"{self.base_offset}.."
        state = "" if self.is_valid else ", " + ", ".join(problem.code for problem in self.problems)
        return (
            f"<Batch {_name(self.file)}:{self.position} {self.size} bytes: offsets {first}{self.last_offset}, "
            f"v{self.magic}, {self.compression}{state}>"
        )


def _copied(
    kind: Any, fields: tuple[Any, ...], max_batch_bytes: int, file_base: int | None, file: SegmentFile
) -> Batch:
    """Returns a batch that was pickled."""
    found = kind(*fields, Scratch(max_batch_bytes))
    if file_base is not None:
        found.file_base = file_base
    return Batch(found, file)


def item_of(item: segment_items.Batch | segment_items.Damage, file: SegmentFile) -> Batch | Damage:
    """Returns an item of the segment reader, with its file."""
    if isinstance(item, segment_items.Damage):
        return Damage(file.path, file.topic, file.partition, item.position, item.length, item.code, item.message)
    return Batch(item, file)


def _text(key: bytes) -> str | bytes:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def _name(path: str) -> str:
    """Returns the file's name, at most 48 characters."""
    return path.rpartition("/")[2][-48:]


class Log:
    """The segments at some paths. Iterating yields `Batch` and `Damage` items that tile each file.

    Files are opened when they are read. A log can be pickled: the copy opens the same paths. The end of a ``with``
    block frees the temporary files of archives, as the end of the object does.

    >>> with kseg.open("orders-0") as log:
    ...     print(log, sum(item.size for item in log if isinstance(item, kseg.Batch)))
    <Log 'orders-0': segments: 4> 57184
    """

    def __init__(self, paths: tuple[str, ...], is_live: bool, max_batch_bytes: int, keys: PrivateKeys) -> None:
        self._is_live, self._max_batch_bytes = is_live, max_batch_bytes
        self._opened_with = paths, is_live, max_batch_bytes, keys
        with ExitStack() as archives:
            self._paths = archives.enter_context(readable(paths, keys))
            self._files = [
                file
                for path in expanded(self._paths)
                for root in roots_of(path)
                for part in live_parts(root)[0]
                for file in segments_at(part)
            ]
            for file in self._files:
                if file.kind and not file.is_segment:
                    raise UnsupportedError(f"{file.path}: {file.kind} files hold no batches")
            self._archives = archives.pop_all()
        finalize(self, self._archives.close)

    @property
    def files(self) -> list[str]:
        """The paths of the segments, in order."""
        return [file.path for file in self._files]

    def __reduce__(self) -> Any:
        """A copy opens the same paths again."""
        return Log, self._opened_with

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_error: object) -> None:
        self._archives.close()

    def __iter__(self) -> Iterator[Batch | Damage]:
        for file in self._files:
            with open_segment(file, Scratch(self._max_batch_bytes), live=self._is_live) as reader:
                for item in reader:
                    yield item_of(item, file)

    @checked
    def records(self, **selection: Unpack[RecordSelection]) -> Iterator[Record]:
        """Yields the records of the log in order, without control records. Records below the log start offset are
        deleted, and left out unless ``ignore_log_start``.

        ``offsets`` and ``time`` are pairs that include both ends; None leaves an end open. A time is ms since the
        epoch, text as on the command line, or a datetime; a record without a timestamp is in no range of times.
        ``key``: only records with this key. ``isolation``: "read_uncommitted" or "read_committed". ``on_damage``:
        "raise" raises DamageError at damage and at batches that cannot be read, "skip" logs them and continues,
        "include" does so too, but yields the records of broken batches that can be read, as ``kseg dump`` prints them,
        with ``proven`` False (not with "read_committed").
        Raises RequestError for invalid arguments.

        >>> log = kseg.open("orders-0")
        >>> [record.offset for record in log.records(offsets=(100, 103))]
        [100, 101, 102, 103]
        """
        report = raise_damage if selection["on_damage"] == "raise" else DamageLog(logging.getLogger("kseg"))
        request = ScanRequest(
            self._paths, arguments.wanted_of(selection), is_live=self._is_live, max_batch_bytes=self._max_batch_bytes,
            is_committed=selection["isolation"] == "read_committed", ignores_log_start=selection["ignore_log_start"],
            includes_broken=arguments.includes_broken(selection),
        )  # fmt: skip
        return _records(
            self, request, PartReader(request, Chunks(NAMES, chunk_bytes=CHUNK_BYTES // 8), report, usable_cores())
        )

    def __repr__(self) -> str:
        more = f" and {len(self._paths) - 1} more" if len(self._paths) > 1 else ""
        return f"<Log {self._paths[0][-80:]!r}{more}: segments: {len(self._files)}>"


def _records(_log: Log, request: ScanRequest, reader: PartReader) -> Iterator[Record]:
    """Keeps the log, and with it its archives, until the end."""
    for part, chunk in reader.chunks_of(part for _, part in parts_of_scan(request)):
        count, valid, file = chunk.count, chunk.valid, part.file
        keys, values, headers = chunk.bytes[KEY].values(count), chunk.bytes[VALUE].values(count), chunk.headers()
        stamps = chunk.numbers[TIMESTAMP][:count].tolist()
        kinds = chunk.numbers[TIMESTAMP_TYPE][:count].tolist()
        for i, offset in enumerate(chunk.numbers[OFFSET][:count].tolist()):
            has_time = valid is not None and valid[i >> 3] >> (i & 7) & 1
            yield Record(
                file.topic, file.partition, offset, stamps[i] if has_time else None, _TIMESTAMP_TYPES[kinds[i]],
                keys[i], values[i], [(_text(key or b""), value) for key, value in headers[i]] if headers else [],
                chunk.is_proven,
            )  # fmt: skip


def raise_damage(file: SegmentFile, left_out: segment_items.Damage) -> None:
    """Raises DamageError with the item."""
    with open_segment(file) as reader:
        reader.begin_at(left_out.position)
        item = next(iter(reader))
    is_batch = isinstance(item, segment_items.Batch) and item.size == left_out.length
    found = item_of(item if is_batch else left_out, file)
    raise DamageError(damage_text(file, left_out), found)


@checked
def open(path: Paths, **reading: Unpack[Reading]) -> Log:  # noqa: A001 - its public name
    """Opens segments, partitions, log directories, or ``-`` (standard input) for reading: one path, several, or globs.

    ``live``: a partial batch at the end of a file is being written and is not damage. ``max_batch_bytes`` limits the
    decompressed size of one batch. Remote storage is read as the log directory of its live segments; ``private_keys``
    has the PEM files for encrypted segments by the ids of their key pairs. Raises PathError if there is nothing to
    read, UnsupportedError for a file that is not a segment.

    >>> for item in kseg.open("crashed-0"):
    ...     if isinstance(item, kseg.Damage) or not item.is_valid:
    ...         print(item)
    <Batch 00000000000000000116.log:7129 305 bytes: offsets 134..135, v2, none, crc-mismatch>
    """
    limit, keys = arguments.batch_limit_of(reading), arguments.keys_of(reading["private_keys"])
    return Log(arguments.paths_of(path), reading["live"], limit, keys)
