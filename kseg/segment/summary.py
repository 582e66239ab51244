"""Computes statistics of segments in one pass and constant memory.

The kernel counts whole runs of batches (`kseg.kernel.state.tally`). Sizes are kept as distributions with quantiles at
most 2 % off. Distinct keys and producers are kept as hashes up to a limit, and as an estimate beyond it.
"""

import math
from collections import Counter, deque
from types import SimpleNamespace
from typing import Any

from kseg.formats.compression import KAFKA_0_7, codec_name
from kseg.formats.json_values import bytes_value, fields_of
from kseg.formats.record_batch import HEADER_BYTES
from kseg.formats.rows import Scratch, UndecodableError, sparse_int64s
from kseg.kernel.state import tally
from kseg.limits import MAX_NESTING
from kseg.segment.items import Batch, Damage, Message07
from kseg.segment.reader import Run, SegmentReader

KEYS_TABLE = 1 << 21
PRODUCERS_TABLE = 1 << 17
FORMATS = ("v0", "v1", "v2", "0.7")

MAX_HEADER_KEYS = 100
"""Header keys that are listed."""

_COUNTERS = {name: index for index, name in enumerate(tally.COUNTERS)}
_FORM_COLUMNS = len(tally.FORM_COLUMNS)
_RECORDS, _PACKED, _UNPACKED = map(tally.FORM_COLUMNS.index, ("records", "packed", "unpacked"))
_BUCKETS = 4
_HOUR_MS = 3_600_000

Row = dict[str, Any]


class LogSummary:
    """Counts the items of any number of segments: `add_file`, then `add_run` and `add_damage` in any order.

    The records of a batch with a wrong CRC are not counted; its bytes are damaged ones. Of an undecodable batch, those
    from the first unreadable record on are not counted.
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
        """Adds all batches of a run. The kernel counts those that it can, `add_batch` those that it skips."""
        first, scratch = 0, self._scratch
        while first < run.count:
            buffer, rows, _, stop = reader.window(run, first)
            while first < stop:
                first = tally.add_frames(
                    buffer, rows, first, stop, reader.is_07, self._tally, self._producers, self._keys, scratch.rows,
                    scratch.headers,
                )  # fmt: skip
                if first < stop:
                    self.add_batch(reader.batch(run, first, keep=False))
                    first += 1

    def add_batch(self, batch: Batch) -> None:
        """Adds one batch, of any kind."""
        if batch.problems:
            self._tally[_COUNTERS["batches"]] += 1
            self.damaged_bytes += batch.size
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

    def as_object(self) -> Row:
        """Returns the statistics as JSON: sizes in bytes, times in ms since the epoch, absent values null.

        ``keyBytes`` to ``batchHeaderBytes`` divide the decompressed bytes of all intact batches by what they are.
        ``framingBytes``: everything else within the records, such as lengths and times, and control records;
        ``batchHeaderBytes``: of format v2. The size of a record in ``largestRecords`` is that of its key, value and
        headers. The commonest header keys come first; after many different ones, new ones are only counted.
        """
        count, forms = SimpleNamespace(**self.counters()), self.forms()
        keys, values = self.distribution("key_sizes"), self.distribution("value_sizes")
        shares = [0 if sizes is None else sizes["total"] for sizes in (keys, values)] + [count.header_bytes]
        names = sorted(tally.header_keys(self._tally), key=lambda row: (-row[2], -row[3], row[0]))
        has_time = count.with_timestamp > 0
        found = {
            **fields_of(self, "files", "bytes"),
            **fields_of(count, "batches", "records", "control_records"),
            "forms": forms,
            "batchSize": self.distribution("batch_sizes"),
            "recordsPerBatch": self.distribution("record_counts"),
            "keySize": keys,
            "valueSize": values,
            **fields_of(count, "null_keys", "null_values", "tombstones", "empty_keys", "empty_values"),
            "distinctKeys": _cardinality(self._keys),
            "headers": count.headers,
            "recordsWithHeaders": count.with_headers,
            "keyBytes": shares[0],
            "valueBytes": shares[1],
            "headerBytes": shares[2],
            "framingBytes": max(sum(form["uncompressedRecordBytes"] for form in forms) - sum(shares), 0),
            "batchHeaderBytes": sum(form["bytes"] - form["recordBytes"] for form in forms),
            "headerKeys": [
                {"key": bytes_value(key), "keySize": size, "count": number, "bytes": total}
                for key, size, number, total in names[:MAX_HEADER_KEYS]
            ],
            "distinctHeaderKeys": {"count": len(names), "isExact": not count.other_headers},
            **fields_of(count, "other_headers", "other_header_bytes"),
            "largestKeys": self._largest(of_records=False),
            "largestRecords": self._largest(of_records=True),
            "firstOffset": count.first_offset if count.has_offset else None,
            "lastOffset": count.last_offset if count.has_offset else None,
            **fields_of(count, "gaps", "missing_offsets"),
            "offsetsNotRising": count.steps_back,
            "leastTimestamp": count.least_timestamp if has_time else None,
            "maxTimestamp": count.largest_timestamp if has_time else None,
            "leastBaseTimestamp": count.least_base_timestamp if count.with_base_timestamp else None,
            "recordsWithTimestamp": count.with_timestamp,
        }
        rate = records_per_hour(found)
        return found | {
            "recordsPerHour": None if rate is None else round(rate, 1),
            "logAppendTimeBatches": count.log_append_time,
            "producers": _cardinality(self._producers),
            "batchesWithProducer": count.with_producer,
            "transactionalBatches": count.transactional,
            **fields_of(count, "commits", "aborts"),
            "controlBatches": count.control,
            "headerOnlyBatches": count.header_only,
            "deleteHorizonBatches": count.with_delete_horizon,
            **fields_of(self, "damaged_ranges", "damaged_bytes"),
            "damage": dict(sorted(self.damage.items())),
            "problems": dict(sorted(self.problems.items())),
        }

    def forms(self) -> list[Row]:
        """Returns the batches of each format and codec, sorted by them; their records take ``recordBytes`` compressed
        and ``uncompressedRecordBytes`` decompressed."""
        found = []
        for form, shown in enumerate(FORMATS):
            for codec in range(tally.CODECS):
                at = tally.FORMS + (form * tally.CODECS + codec) * _FORM_COLUMNS
                if self._tally[at]:
                    names = ("batches", "records", "bytes", "recordBytes", "uncompressedRecordBytes")
                    row: Row = {"format": shown, "compression": codec_name(codec)}
                    row |= zip(names, self._tally[at : at + _FORM_COLUMNS], strict=True)
                    ratio = ratio_of(row)
                    found.append(row | {"ratio": None if ratio is None else round(ratio, 3)})
        return found

    def distribution(self, name: str) -> Row | None:
        """Returns one of `kseg.kernel.state.tally.DISTRIBUTIONS`, sizes in bytes or record counts; None if nothing was
        counted. The median is at most 2 % off, the other fields are exact."""
        at = tally.SIZES + tally.DISTRIBUTIONS.index(name) * tally.SIZE_WIDTH
        count, total, least, largest = self._tally[at : at + _BUCKETS]
        if not count:
            return None
        # The lower median: the middle of its bucket.
        buckets, passed, bucket = self._tally[at + _BUCKETS : at + tally.SIZE_WIDTH], 0, 0
        while bucket < len(buckets) - 1 and 2 * (passed + buckets[bucket]) < count:
            passed += buckets[bucket]
            bucket += 1
        power = bucket // 32 - 1
        middle = bucket if bucket < 64 else ((bucket - 32 * power) << power) + ((1 << power) - 1) // 2
        median = min(max(middle, least), largest)
        return {"total": total, "count": count, "least": least, "median": median, "largest": largest}

    def _largest(self, of_records: bool) -> list[Row]:
        """Returns the largest records or keys, the largest first. Format 0.7 has no offset."""
        found = tally.largest_of(self._tally, of_records)
        return [{"bytes": size, "offset": None if at < 0 else at} for size, at in found]


def ratio_of(form: Row) -> float | None:
    """Returns the compression ratio of a form, unpacked by packed; None if its records are not compressed."""
    packed, unpacked = form["recordBytes"], form["uncompressedRecordBytes"]
    return unpacked / packed if form["compression"] != "none" and packed and unpacked else None


def records_per_hour(row: Row) -> float | None:
    """Returns the average between the least and the largest timestamp of a summary, None if these are not two."""
    if row["leastTimestamp"] == row["maxTimestamp"]:
        return None
    timed = row["recordsWithTimestamp"] - row["controlRecords"]
    return max(timed, 0) * _HOUR_MS / (row["maxTimestamp"] - row["leastTimestamp"])


def _distinct(table: int) -> memoryview:
    """Returns an empty counter. Its table is large, and most partitions have few keys."""
    buffer = sparse_int64s(tally.TABLE + table)
    buffer[tally.CAP], buffer[tally.TABLE_MASK] = table // 2, table - 1
    return buffer


def _cardinality(buffer: memoryview) -> Row:
    """Returns a number of distinct values; an estimate has a typical error of 0.8 %."""
    if not buffer[tally.OVERFLOWED]:
        return {"count": buffer[tally.COUNT], "isExact": True}
    registers = buffer[tally.REGISTERS : tally.TABLE]
    size = len(registers)
    harmonic = sum(math.ldexp(1.0, -rank) for rank in registers)
    # HyperLogLog's correction for small ranges applies up to 2.5 values per register, which the tables exceed before
    # they overflow; hashes of 64 bits need none for large ranges.
    return {"count": round(0.7213 / (1 + 1.079 / size) * size * size / harmonic), "isExact": False}
