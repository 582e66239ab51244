"""Fills columns with records, one chunk after the other, each with its own buffers.

The layout is Apache Arrow's (int32 end positions, validity bits from the least significant bit), without pyarrow.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from kseg.formats.rows import BytesLike, Rows, Sliceable, int64s
from kseg.kernel.files.system import allocate
from kseg.kernel.layout.rows import HEADER_KEY, HEADER_VALUE, HEADER_WIDTH, ROW_KEY, ROW_OFFSET, ROW_VALUE, ROW_WIDTH
from kseg.kernel.records import columns as kernel
from kseg.kernel.records.columns import HeaderOffsets, gather
from kseg.limits import CHUNK_BYTES, CHUNK_ROWS, MAX_OFFSET_ROWS

OFFSET, TIMESTAMP, TIMESTAMP_TYPE = "offset", "timestamp", "timestampType"
KEY, VALUE, HEADERS = "key", "value", "headers"
NAMES = (KEY, VALUE, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, HEADERS)
"""The columns of records. ``timestamp`` is in ms, or scaled by `Chunks`."""
HEADER_ENDS, HEADER_KEYS, HEADER_VALUES = "header ends", "header keys", "header values"
"""The buffers of the headers."""

Pair = tuple[bytes | None, bytes | None]
"""Key and value of a header."""


def _ends(capacity: int) -> memoryview:
    """Returns a buffer for the end positions of ``capacity`` entries, initially none."""
    ends: memoryview = allocate(4 * (capacity + 1)).cast("i")
    ends[0] = 0
    return ends


def bits(valid: memoryview, count: int) -> list[int]:
    """Returns the first ``count`` bits, the least significant of each byte first."""
    return [byte >> i & 1 for byte in valid[: count // 8 + 1] for i in range(8)][:count]


class Bytes:
    """A column of bytes: ``data`` up to the last of ``ends``; bit i of ``valid`` is 0 if entry i is null."""

    __slots__ = ("capacity", "data", "ends", "valid")

    def __init__(self, capacity: int, expected_bytes: int) -> None:
        self.capacity = capacity
        self.data: BytesLike = allocate(expected_bytes)
        self.ends = _ends(capacity)
        self.valid = memoryview(bytearray(capacity // 8 + 1))

    def add(
        self, payload: Sliceable, rows: memoryview, first: int, stop: int, width: int, column: int, at: int
    ) -> None:
        """Sets the entries from ``at`` on to the rows first to stop (`kseg.kernel.records.columns`)."""
        while gather(payload, rows, first, stop, width, column, self.data, self.ends, self.valid, at) < 0:
            wider = allocate(2 * len(self.data) + CHUNK_BYTES // 8)
            wider[: self.ends[at]] = self.data[: self.ends[at]]
            self.data = wider

    def values(self, count: int) -> list[bytes | None]:
        """Returns the first ``count`` entries."""
        data, ends = bytes(self.data[: self.ends[count]]), self.ends[: count + 1].tolist()
        places = zip(pairwise(ends), bits(self.valid, count), strict=True)
        return [data[first:end] if is_set else None for (first, end), is_set in places]

    def widen(self, capacity: int, filled: int) -> None:
        """Enlarges the buffers to ``capacity`` entries, ``filled`` of which are set."""
        if capacity > self.capacity:
            wider = Bytes(max(capacity, 2 * self.capacity), 0)
            wider.ends[: filled + 1] = self.ends[: filled + 1]
            wider.valid[: len(self.valid)] = self.valid
            self.capacity, self.ends, self.valid = wider.capacity, wider.ends, wider.valid


@dataclass(slots=True)
class Chunk:
    """``count`` records. Only the requested columns exist; buffers after the last record are undefined.

    ``numbers``: int64, ``timestampType`` int32 (Kafka's ids: -1 none, 0 CreateTime, 1 LogAppendTime). ``bytes``: key
    and value. Headers of record i are entries ends[i] to ends[i + 1] of HEADER_KEYS and HEADER_VALUES among ``bytes``;
    the ends are HEADER_ENDS, int32, among ``numbers``. ``valid``: validity bits of ``timestamp``, null if the format
    has none. ``is_proven``: False if all records are of broken batches. ``overflows``: how many timestamps are null
    because they do not fit in int64 when scaled.
    """

    count: int = 0
    numbers: dict[str, memoryview] = field(default_factory=dict)
    bytes: dict[str, Bytes] = field(default_factory=dict)
    valid: memoryview | None = None
    is_proven: bool = True
    overflows: int = 0

    @property
    def size(self) -> int:
        """Approximate size of the records in bytes."""
        return sum(column.ends[self.entries(name)] for name, column in self.bytes.items()) + 40 * self.count

    def entries(self, name: str) -> int:
        """Returns the number of entries of a column of ``bytes``: of records, or of headers."""
        return int(self.numbers[HEADER_ENDS][self.count]) if name in (HEADER_KEYS, HEADER_VALUES) else self.count

    def headers(self) -> list[list[Pair]]:
        """Returns the headers of each record; an empty list if no record has any."""
        if not (count := self.entries(HEADER_KEYS)):
            return []
        keys, values = (self.bytes[name].values(count) for name in (HEADER_KEYS, HEADER_VALUES))
        pairs = list(zip(keys, values, strict=True))
        return [pairs[first:end] for first, end in pairwise(self.numbers[HEADER_ENDS][: self.count + 1].tolist())]


class Chunks:
    """Creates chunks of at most ``rows`` records and ``chunk_bytes``; a single larger record has its own chunk.

    Chunks of offsets alone double up to MAX_OFFSET_ROWS: readers spend more time on each chunk than on its offsets.
    """

    def __init__(
        self, names: Collection[str], timestamp_scale: int = 1, rows: int = CHUNK_ROWS, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self._names = frozenset(names) & set(NAMES)
        if self.needs_no_records:
            self._names = frozenset((OFFSET,))  # they are counted by it
        self._scale = timestamp_scale
        self._rows = rows
        self._chunk_bytes = chunk_bytes
        self._left = 0
        self._parts = (
            kernel.KEYS * (KEY in names) | kernel.VALUES * (VALUE in names) | kernel.HEADERS * (HEADERS in names)
        )
        self._expected = dict.fromkeys((KEY, VALUE, HEADER_KEYS, HEADER_VALUES), 4096)
        self._headers = int64s(HEADER_WIDTH)
        self._begin()

    @property
    def needs_no_records(self) -> bool:
        """Whether the offsets of the records are enough."""
        return self._names <= {OFFSET}

    def another(self) -> "Chunks":
        """Returns a new object with the same settings."""
        return Chunks(self._names, self._scale, self._rows, self._chunk_bytes)

    def _begin(self) -> None:
        """Starts an empty chunk, with buffers of the size of the previous chunk."""
        names, rows, expected = self._names, self._rows, self._expected
        chunk = self._chunk = Chunk()
        self._left = self._chunk_bytes
        for name in (OFFSET, TIMESTAMP):
            if name in names:
                chunk.numbers[name] = allocate(8 * rows).cast("q")
        if TIMESTAMP in names:
            chunk.valid = memoryview(bytearray(rows // 8 + 1))
        if TIMESTAMP_TYPE in names:
            chunk.numbers[TIMESTAMP_TYPE] = allocate(4 * rows).cast("i")
        for name in (KEY, VALUE):
            if name in names:
                chunk.bytes[name] = Bytes(rows, expected[name])
        if HEADERS in names:
            chunk.numbers[HEADER_ENDS] = _ends(rows)
            for name in (HEADER_KEYS, HEADER_VALUES):
                chunk.bytes[name] = Bytes(1, expected[name])

    def add(self, rows: Rows) -> Iterator[Chunk]:
        """Appends rows that have the ROW_CHECK of `kseg.kernel.records.columns`. Yields full chunks."""
        first = 0
        while first < rows.count:
            free = self._rows - self._chunk.count
            end = min(rows.count, first + free)
            stop, self._left = kernel.fitting(rows.rows, rows.headers, first, end, self._parts, self._left)
            if stop == first:
                if self._chunk.count:
                    yield self._end()
                    continue
                stop = first + 1
                self._left = 0
            self._take(rows, first, stop)
            first = stop

    def add_offsets(
        self, offsets: HeaderOffsets, headers: memoryview, stop: int, wanted: memoryview
    ) -> Iterator[Chunk]:
        """Appends records by their offsets alone, as far as headers give them. Yields full chunks."""
        while True:
            chunk = self._chunk
            chunk.count = offsets.fill(headers, stop, wanted, chunk.numbers[OFFSET][: self._rows], chunk.count)
            if chunk.count < self._rows:
                return
            yield self._end()

    def rest(self) -> Iterator[Chunk]:
        """Yields the last chunk, if it is not empty."""
        if self._chunk.count:
            yield self._end()

    def _end(self) -> Chunk:
        chunk = self._chunk
        for name, column in chunk.bytes.items():
            self._expected[name] = column.ends[chunk.entries(name)] + 64
        if self.needs_no_records:
            self._rows = min(2 * self._rows, max(self._rows, MAX_OFFSET_ROWS))
        self._begin()
        return chunk

    def _take(self, rows: Rows, first: int, stop: int) -> None:
        chunk, columns = self._chunk, rows.rows
        at = chunk.count
        if OFFSET in chunk.numbers:
            taken = columns[first * ROW_WIDTH + ROW_OFFSET : stop * ROW_WIDTH : ROW_WIDTH]
            chunk.numbers[OFFSET][at : at + stop - first] = taken
        if chunk.valid is not None:
            chunk.overflows += kernel.times(
                columns, first, stop, self._scale, chunk.numbers[TIMESTAMP], chunk.valid, at
            )
        if TIMESTAMP_TYPE in chunk.numbers:
            kernel.kinds(columns, first, stop, chunk.numbers[TIMESTAMP_TYPE], at)
        for name, column in ((KEY, ROW_KEY), (VALUE, ROW_VALUE)):
            if name in chunk.bytes:
                chunk.bytes[name].add(rows.payload, columns, first, stop, ROW_WIDTH, column, at)
        chunk.count = at + stop - first
        if HEADERS not in self._names:
            return
        ends = chunk.numbers[HEADER_ENDS]
        before = ends[at]
        total = kernel.header_ends(columns, first, stop, ends, at)
        if total == before:
            return
        if len(self._headers) < (total - before) * HEADER_WIDTH:
            self._headers = int64s(2 * (total - before) * HEADER_WIDTH)
        count = kernel.headers_of(columns, first, stop, rows.headers, self._headers)
        for name, header_field in ((HEADER_KEYS, HEADER_KEY), (HEADER_VALUES, HEADER_VALUE)):
            chunk.bytes[name].widen(total, before)
            chunk.bytes[name].add(rows.payload, self._headers, 0, count, HEADER_WIDTH, header_field, before)
