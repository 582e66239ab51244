"""Computes statistics of segments in one pass and constant memory.

The kernel counts whole runs of batches (`kseg.kernel.state.tally`). Sizes are kept as distributions with quantiles at
most 2 % off. Distinct keys and producers are kept as hashes up to a limit, and as an estimate beyond it.
"""

import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from kseg.formats.compression import KAFKA_0_7, codec_name
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import Scratch, Sliceable, UndecodableError, int64s, sparse_int64s
from kseg.kernel.layout.rows import FRAME_MAGIC, FRAME_POSITION, FRAME_SIZE, FRAME_STATE, FRAME_WIDTH
from kseg.kernel.state import tally
from kseg.limits import MAX_NESTING
from kseg.segment.batches import Batch, Message07
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader

KEYS_TABLE = 1 << 21
PRODUCERS_TABLE = 1 << 17
FORMATS = ("v0", "v1", "v2", "0.7")

_COUNTERS = {name: index for index, name in enumerate(tally.COUNTERS)}
_FORM_COLUMNS = len(tally.FORM_COLUMNS)
_RECORDS, _PACKED, _UNPACKED = map(tally.FORM_COLUMNS.index, ("records", "packed", "unpacked"))
_BUCKETS = 4
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Distribution:
    """Sizes in bytes, or record counts: ``median`` is at most 2 % off, the other fields are exact."""

    count: int
    total: int
    least: int
    median: int
    largest: int


@dataclass(frozen=True, slots=True)
class Form:
    """The batches of one format and codec; their records take ``packed`` bytes compressed and ``unpacked`` bytes
    decompressed."""

    format: str
    compression: str
    batches: int
    records: int
    bytes: int
    packed: int
    unpacked: int

    @property
    def ratio(self) -> float | None:
        """The compression ratio, unpacked by packed; None if the records are not compressed."""
        return self.unpacked / self.packed if self.compression != "none" and self.packed and self.unpacked else None


@dataclass(frozen=True, slots=True)
class Cardinality:
    """A number of distinct values; an estimate with a typical error of 0.8 %, unless ``is_exact``."""

    count: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class HeaderKey:
    """A header key, cut after 64 bytes if ``size`` is larger; ``bytes``: of the keys and values of all its headers."""

    key: bytes
    size: int
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ByteShares:
    """The decompressed bytes of all intact batches by what they are.

    ``framing``: everything else within the records, such as lengths and times, and control records;
    ``batch_headers``: of format v2.
    """

    keys: int
    values: int
    headers: int
    framing: int
    batch_headers: int

    @property
    def total(self) -> int:
        return self.keys + self.values + self.headers + self.framing + self.batch_headers


class LogSummary:
    """Counts the items of any number of segments: `add_file`, then `add_run` and `add_damage` in any order.

    The records of a batch with a wrong CRC are not counted. Of an undecodable batch, those from the first unreadable
    record on are not counted.
    """

    def __init__(self, scratch: Scratch | None = None) -> None:
        self.files = self.bytes = 0
        self.damaged_ranges = self.damaged_bytes = 0
        self.damage: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self._scratch = scratch or Scratch()
        self._tally = sparse_int64s(tally.TALLY_WIDTH)
        self._keys = _distinct(KEYS_TABLE)
        self._producers = _distinct(PRODUCERS_TABLE)

    def add_file(self, size: int) -> None:
        """Adds a file of ``size`` bytes; its items follow."""
        self.files += 1
        self.bytes += size

    def add_damage(self, damage: Damage) -> None:
        self.damaged_ranges += 1
        self.damaged_bytes += damage.length
        self.damage[damage.code] += 1

    def add_run(self, reader: SegmentReader, run: Run) -> None:
        """Adds all batches of a run."""
        if isinstance(reader.buffer, memoryview):
            first = 0
            while first < run.count:
                first = self._add_frames(reader.buffer, run.rows, first, run.count, reader.is_07)
                if first < run.count:
                    self.add_batch(reader.batch(run, first, keep=False))
                    first += 1
            return
        row = int64s(FRAME_WIDTH)
        for i in range(run.count):
            at = i * FRAME_WIDTH
            position, row[FRAME_SIZE] = run.rows[at + FRAME_POSITION], run.rows[at + FRAME_SIZE]
            row[FRAME_MAGIC], row[FRAME_STATE] = run.rows[at + FRAME_MAGIC], run.rows[at + FRAME_STATE]
            data = reader.buffer[position : position + row[FRAME_SIZE]]
            if self._add_frames(data, row, 0, 1, reader.is_07) == 0:
                self.add_batch(reader.batch(run, i, keep=False))

    def _add_frames(self, buffer: Sliceable, rows: memoryview, first: int, stop: int, is_07: bool) -> int:
        return tally.add_frames(
            buffer, rows, first, stop, is_07, self._tally, self._producers, self._keys,
            self._scratch.rows, self._scratch.headers,
        )  # fmt: skip

    def add_batch(self, batch: Batch) -> None:
        """Adds one batch, of any kind."""
        if batch.problems:
            self._tally[_COUNTERS["batches"]] += 1
            self.problems.update(problem.code for problem in batch.problems)
            return
        is_07 = isinstance(batch, Message07)
        tally.add_batch(batch.data, KAFKA_0_7 if is_07 else batch.magic, self._tally, self._producers)
        records = unpacked = 0
        payloads: deque[Any] = deque(maxlen=MAX_NESTING + 1)
        try:
            for rows in batch.rows():
                if not any(payload is rows.payload for payload in payloads):
                    payloads.append(rows.payload)
                    unpacked += len(rows.payload)
                tally.add_rows(
                    rows.payload, rows.rows, rows.headers, rows.count, self._tally, self._keys, batch.is_control,
                    not is_07,
                )  # fmt: skip
                records += rows.count
        except UndecodableError as error:
            self.problems[error.problem] += 1
        self.problems.update(problem.code for problem in batch.passed())
        tally.add_size(self._tally, tally.DISTRIBUTIONS.index("record_counts"), records)
        form = 3 if is_07 else batch.magic
        at = tally.FORMS + (form * tally.CODECS + batch.header.codec) * _FORM_COLUMNS
        is_compressed = batch.header.codec != 0
        packed = batch.size - (HEADER_BYTES if form == 2 else 0)
        self._tally[at + _RECORDS] += records
        self._tally[at + _PACKED] += packed
        self._tally[at + _UNPACKED] += unpacked if is_compressed else packed

    def counters(self) -> dict[str, int]:
        """Returns `kseg.kernel.state.tally.COUNTERS` by name."""
        return {name: self._tally[index] for name, index in _COUNTERS.items()}

    def forms(self) -> list[Form]:
        """Returns the counts of each format and codec, sorted by them."""
        found = []
        for form, shown in enumerate(FORMATS):
            for codec in range(tally.CODECS):
                at = tally.FORMS + (form * tally.CODECS + codec) * _FORM_COLUMNS
                if self._tally[at]:
                    compression = codec_name(codec)
                    found.append(Form(shown, compression, *self._tally[at : at + _FORM_COLUMNS]))
        return found

    def distribution(self, name: str) -> Distribution | None:
        """Returns one of `kseg.kernel.state.tally.DISTRIBUTIONS`; None if nothing was counted."""
        at = tally.SIZES + tally.DISTRIBUTIONS.index(name) * tally.SIZE_WIDTH
        count, total, least, largest = self._tally[at : at + _BUCKETS]
        if not count:
            return None
        buckets = self._tally[at + _BUCKETS : at + tally.SIZE_WIDTH]
        return Distribution(count, total, least, min(max(_median(buckets, count), least), largest), largest)

    def shares(self) -> ByteShares:
        keys, values = (
            0 if found is None else found.total for found in map(self.distribution, ("key_sizes", "value_sizes"))
        )
        headers, forms = self.counters()["header_bytes"], self.forms()
        framing = sum(form.unpacked for form in forms) - keys - values - headers
        return ByteShares(keys, values, headers, max(framing, 0), sum(form.bytes - form.packed for form in forms))

    def header_keys(self) -> list[HeaderKey]:
        """Returns the header keys, the commonest first; after many different ones, new ones are only counted."""
        found = [HeaderKey(*row) for row in tally.header_keys(self._tally)]
        return sorted(found, key=lambda each: (-each.count, -each.bytes, each.key))

    def largest(self, of_records: bool) -> list[tuple[int, int | None]]:
        """Returns size and offset (None in format 0.7) of the largest records or keys, the largest first.

        The size of a record is that of its key, value and headers.
        """
        return [(size, None if at < 0 else at) for size, at in tally.largest_of(self._tally, of_records)]

    def records_per_hour(self) -> float | None:
        """Returns the average between the least and the largest timestamp, None if these are not two."""
        count = self.counters()
        span = count["largest_timestamp"] - count["least_timestamp"]
        timed = count["with_timestamp"] - count["control_records"]
        return max(timed, 0) * _HOUR_MS / span if span > 0 else None

    def distinct_keys(self) -> Cardinality:
        return _cardinality(self._keys)

    def distinct_producers(self) -> Cardinality:
        return _cardinality(self._producers)


def _distinct(table: int) -> memoryview:
    """Returns an empty counter. Its table is large, and most partitions have few keys."""
    buffer = sparse_int64s(tally.TABLE + table)
    buffer[tally.CAP], buffer[tally.TABLE_MASK] = table // 2, table - 1
    return buffer


def _median(buckets: memoryview, count: int) -> int:
    """Returns the lower median: the middle of its bucket."""
    passed = bucket = 0
    while bucket < len(buckets) - 1 and 2 * (passed + buckets[bucket]) < count:
        passed += buckets[bucket]
        bucket += 1
    if bucket < 64:
        return bucket
    power = bucket // 32 - 1
    return ((bucket - 32 * power) << power) + ((1 << power) - 1) // 2


def _cardinality(buffer: memoryview) -> Cardinality:
    if not buffer[tally.OVERFLOWED]:
        return Cardinality(buffer[tally.COUNT], True)
    registers = buffer[tally.REGISTERS : tally.TABLE]
    size = len(registers)
    harmonic = sum(math.ldexp(1.0, -rank) for rank in registers)
    # HyperLogLog's correction for small ranges applies up to 2.5 values per register, which the tables exceed before
    # they overflow; hashes of 64 bits need none for large ranges.
    return Cardinality(round(0.7213 / (1 + 1.079 / size) * size * size / harmonic), False)
