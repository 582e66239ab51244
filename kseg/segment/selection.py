"""Filters of a log: records by offset, time, key and value, batches by producer id; all given criteria must match."""

import re
from dataclasses import dataclass
from typing import Any

from kseg.formats.rows import Rows, UndecodableError
from kseg.kernel.layout.rows import ROW_KEY, ROW_KEY_SIZE, ROW_OFFSET, ROW_TIMESTAMP, ROW_VALUE, ROW_WIDTH
from kseg.segment.items import Batch, Message, Record, RecordBatch, RowSpan, records_of


@dataclass(slots=True)
class Selection:
    """Ranges include both ends; ``times`` are ms since the epoch and not negative, because -1 means no timestamp.

    ``untimed`` counts batches excluded from a time range because their format has no timestamps (v0). ``key``,
    ``key_pattern`` and ``grep`` (of values) never match control records, whose bytes are not a user's. ``decoder``: one
    of `kseg.decoders`, whose texts may match instead of the bytes.
    """

    offsets: tuple[int, int] | None = None
    times: tuple[int, int] | None = None
    key: bytes | None = None
    producer_id: int | None = None
    key_pattern: re.Pattern[bytes] | None = None
    grep: re.Pattern[bytes] | None = None
    decoder: Any = None
    untimed: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no filter, so that every batch and record matches."""
        return self.offsets is None and self.times is None and self.producer_id is None and not self._has_content

    @property
    def _has_content(self) -> bool:
        return self.key is not None or self.key_pattern is not None or self.grep is not None

    def may_hold(self, batch: Batch) -> bool:
        """Whether the header allows the batch to hold a matching record."""
        if self.producer_id is not None and not (
            isinstance(batch, RecordBatch) and batch.header.producer_id == self.producer_id
        ):
            return False
        if self._has_content and batch.is_control:
            return False
        if self.times is not None:
            if batch.timestamp_type == "NoTimestampType":
                self.untimed += 1
                return False
            # If the CRC is wrong, the timestamp itself may be.
            if batch.is_valid and batch.max_timestamp < self.times[0]:
                return False
        if self.offsets is None:
            return True
        first, last = self.offsets
        base = batch.base_offset
        if isinstance(batch, Message) and batch.last_offset > last:
            base = batch.extent()[0]
        return first <= batch.last_offset and (base or 0) <= last

    def holds(self, batch: Batch) -> bool:
        """Whether the batch holds a matching record; reads its records if needed.

        An undecodable batch counts as matching, so that it is not skipped silently.
        """
        if not self.may_hold(batch):
            return False
        if self.times is None and not self._has_content:
            return True
        try:
            return any(self.spans(rows) for rows in batch.rows())
        except UndecodableError:
            return True

    def spans(self, rows: Rows) -> list[RowSpan]:
        """Returns the matching rows, in order, of a batch for which `may_hold` is true."""
        wanted: list[int] | range = range(rows.count)
        if self.decoder is not None and self._has_content:
            wanted = [i for i, record in enumerate(records_of(rows)) if self._matches_decoded(record)]
        elif self.key is not None:
            wanted = _rows_with_key(rows, self.key)
        if self.decoder is None and self.key_pattern is not None:
            wanted = _matching(rows, wanted, self.key_pattern, ROW_KEY)
        if self.decoder is None and self.grep is not None:
            wanted = _matching(rows, wanted, self.grep, ROW_VALUE)
        if self.offsets is not None:
            wanted = _between(rows, wanted, ROW_OFFSET, *self.offsets)
        if self.times is not None:
            wanted = _between(rows, wanted, ROW_TIMESTAMP, *self.times)
        return _as_spans(wanted)

    def _matches_decoded(self, record: Record) -> bool:
        decoded = self.decoder.decode(record.key, record.value, record.offset, record.headers)
        keys = _forms(record.key, decoded.key_text, decoded.key)
        values = _forms(record.value, decoded.payload_text, decoded.value)
        return (
            (self.key is None or self.key in keys)
            and (self.key_pattern is None or any(map(self.key_pattern.search, keys)))
            and (self.grep is None or any(map(self.grep.search, values)))
        )


def _forms(data: bytes | None, text: str | None, value: object) -> list[bytes]:
    """Returns the bytes of a key or value, the text of its decoded form, and without quotes if that is a string."""
    texts = [each.encode("utf-8", "replace") for each in (text, value) if isinstance(each, str)]
    return texts if data is None else [data, *texts]


def _column(rows: Rows, column: int) -> list[int]:
    return rows.rows[column : rows.count * ROW_WIDTH : ROW_WIDTH].tolist()


def _between(rows: Rows, wanted: list[int] | range, column: int, low: int, high: int) -> list[int]:
    values = _column(rows, column)
    return [i for i in wanted if low <= values[i] <= high]


def _matching(rows: Rows, wanted: list[int] | range, pattern: re.Pattern[bytes], column: int) -> list[int]:
    """Returns the rows whose key or value contains a match; null never does."""
    starts, sizes = _column(rows, column), _column(rows, column + 1)  # each start is followed by its size
    values = ((i, rows.payload[starts[i] : starts[i] + sizes[i]]) for i in wanted if sizes[i] >= 0)
    return [i for i, value in values if pattern.search(bytes(value))]


def _rows_with_key(rows: Rows, key: bytes) -> list[int]:
    """Compares sizes first, and keys only if the bytes occur among the rows at all; both are loops in C."""
    sizes = _column(rows, ROW_KEY_SIZE)
    if len(key) not in sizes:
        return []
    # The rows cover the payload from the first key to the last value or key.
    last = (rows.count - 1) * ROW_WIDTH
    ends = (rows.rows[last + at] + max(rows.rows[last + at + 1], 0) for at in (ROW_KEY, ROW_VALUE))
    if key not in bytes(rows.payload[rows.rows[ROW_KEY] : max(ends)]):
        return []
    starts = _column(rows, ROW_KEY)
    return [i for i, at in enumerate(starts) if sizes[i] == len(key) and rows.payload[at : at + len(key)] == key]


def _as_spans(wanted: list[int] | range) -> list[RowSpan]:
    if isinstance(wanted, range):
        return [(wanted.start, wanted.stop)]
    spans: list[RowSpan] = []
    for i in wanted:
        if spans and spans[-1][1] == i:
            spans[-1] = (spans[-1][0], i + 1)
        else:
            spans.append((i, i + 1))
    return spans
