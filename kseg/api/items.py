"""The items and records that ``kseg.open`` yields, with the file that holds them."""

from collections.abc import Iterator
from typing import NamedTuple

from kseg.export.chunk import HEADERS, KEY, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, VALUE, Bytes, Chunk
from kseg.segment import batches as segment_batches
from kseg.segment import items as segment_items
from kseg.segment.files import SegmentFile
from kseg.segment.items import Problem

_UNSET = -1
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime", None)
"""By Kafka's id; that of formats without timestamps is -1, the last index."""

HeaderList = list[tuple[str | bytes, bytes | None]]


class Record(NamedTuple):
    """A record as a consumer sees it.

    ``timestamp`` is in ms since the epoch, None if there is none; ``timestamp_type`` is "CreateTime", "LogAppendTime",
    or None for formats without timestamps. ``headers`` is a list of key and value; a key that is not UTF-8 is bytes.
    ``topic`` and ``partition`` come from the directory's name.
    """

    topic: str | None
    partition: int | None
    offset: int
    timestamp: int | None
    timestamp_type: str | None
    key: bytes | None
    value: bytes | None
    headers: HeaderList


class Damage(NamedTuple):
    """Bytes ``[position, position + length)`` of a file that belong to no batch. ``code`` is a code of findings."""

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


class Batch:
    """Bytes ``[position, position + size)`` of a file that form a record batch (v2) or a message (v0, v1, 0.7).

    ``is_valid``: the checksum is right and the magic is known. `problems` lists the errors of the frame; `check` also
    reads all records. Iterating yields the intact records, also those of control batches and of batches that are not
    valid.
    """

    __slots__ = ("_batch", "_file")

    def __init__(self, batch: segment_batches.Batch, file: SegmentFile) -> None:
        self._batch, self._file = batch, file

    @property
    def file(self) -> str:
        """The path of the segment."""
        return self._file.path

    @property
    def topic(self) -> str | None:
        return self._file.topic

    @property
    def partition(self) -> int | None:
        return self._file.partition

    @property
    def position(self) -> int:
        return self._batch.position

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._batch.size

    @property
    def end(self) -> int:
        return self._batch.end

    @property
    def data(self) -> bytes:
        """The bytes of the batch."""
        return bytes(self._batch.data)

    @property
    def magic(self) -> int:
        return self._batch.magic

    @property
    def is_valid(self) -> bool:
        return self._batch.is_valid

    @property
    def is_control(self) -> bool:
        return self._batch.is_control

    @property
    def is_transactional(self) -> bool:
        return self._batch.is_transactional

    @property
    def base_offset(self) -> int | None:
        """Offset of the first record; None for a compressed v0 or v1 message, which does not store it."""
        return self._batch.base_offset

    @property
    def last_offset(self) -> int:
        return self._batch.last_offset

    @property
    def next_offset(self) -> int:
        """The offset after the batch (0.7: the byte position in the whole log)."""
        return self._batch.next_offset

    @property
    def compression(self) -> str:
        """The codec: none, gzip, snappy, lz4, zstd."""
        return self._batch.compression

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

    @property
    def problems(self) -> list[Problem]:
        """The problems of the frame: checksum and magic."""
        return self._batch.problems

    def check(self) -> list[Problem]:
        """Returns all problems of the batch, including those of its records."""
        return self._batch.check()

    def __iter__(self) -> Iterator[Record]:
        for record in self._batch:
            if record.is_valid:
                yield Record(
                    self.topic, self.partition, record.offset,
                    None if record.timestamp == _UNSET else record.timestamp, record.timestamp_type, record.key,
                    record.value, [(_text(header.key), header.value) for header in record.headers],
                )  # fmt: skip

    def __repr__(self) -> str:
        first = "" if self.base_offset is None else f"{self.base_offset}.."
        state = "" if self.is_valid else ", " + ", ".join(problem.code for problem in self.problems)
        return (
            f"<Batch {_name(self.file)}:{self.position} {self.size} bytes: offsets {first}{self.last_offset}, "
            f"v{self.magic}, {self.compression}{state}>"
        )


def item_of(item: segment_batches.Batch | segment_items.Damage, file: SegmentFile) -> Batch | Damage:
    """Returns an item of the segment reader, with its file."""
    if isinstance(item, segment_items.Damage):
        return Damage(file.path, file.topic, file.partition, item.position, item.length, item.code, item.message)
    return Batch(item, file)


def records_of_chunk(chunk: Chunk, file: SegmentFile) -> Iterator[Record]:
    """Yields the records of a chunk that has all columns, with timestamps in ms."""
    count, valid = chunk.count, chunk.valid
    keys, values = _values(chunk.bytes[KEY], count), _values(chunk.bytes[VALUE], count)
    headers = _headers(chunk)
    stamps = chunk.numbers[TIMESTAMP][:count].tolist()
    kinds = chunk.numbers[TIMESTAMP_TYPE][:count].tolist()
    for i, offset in enumerate(chunk.numbers[OFFSET][:count].tolist()):
        has_time = stamps[i] != _UNSET and valid is not None and valid[i >> 3] >> (i & 7) & 1
        yield Record(
            file.topic, file.partition, offset, stamps[i] if has_time else None, _TIMESTAMP_TYPES[kinds[i]], keys[i],
            values[i], headers[i] if headers else [],
        )  # fmt: skip


def _values(column: Bytes, count: int) -> list[bytes | None]:
    ends, valid = column.ends[: count + 1].tolist(), column.valid
    data = bytes(column.data[: ends[count]])
    return [data[ends[i] : ends[i + 1]] if valid[i >> 3] >> (i & 7) & 1 else None for i in range(count)]


def _headers(chunk: Chunk) -> list[HeaderList]:
    """Returns the headers of each record; an empty list if no record has any."""
    keys, values, ends, count = chunk.header_keys, chunk.header_values, chunk.header_ends, chunk.header_count
    if keys is None or values is None or ends is None:
        raise KeyError(HEADERS)
    if not count:
        return []
    names = [_text(key or b"") for key in _values(keys, count)]
    pairs = list(zip(names, _values(values, count), strict=True))
    return [pairs[ends[i] : ends[i + 1]] for i in range(chunk.count)]


def _text(key: bytes) -> str | bytes:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def _name(path: str) -> str:
    """Returns the file's name, at most 48 characters."""
    return path.rpartition("/")[2][-48:]
