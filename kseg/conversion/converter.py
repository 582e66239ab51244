"""Converts batches one by one to the requested format, codec and size.

As in Kafka's cleaner and down-conversion, a compressed message becomes one batch and vice versa, and uncompressed
messages become batches of one record. Several uncompressed messages are grouped only if they are to be compressed. If
only the codec of a v2 batch changes, all other fields stay.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from kseg.conversion.grouping import GROUP_BYTES, BatchFields, Build, Grouper
from kseg.conversion.losses import Losses
from kseg.conversion.plain_runs import PlainRun
from kseg.conversion.recoding import Refused, checked, recompressed
from kseg.conversion.request import ConversionRequest
from kseg.errors import UnsupportedError
from kseg.formats.compressing import Target, target_of
from kseg.formats.compression import CODEC_NAMES, GZIP, NONE, allows
from kseg.formats.rows import Rows, Scratch, UndecodableError, int64s
from kseg.kernel.codecs.uninitialized import lengthen
from kseg.kernel.layout.headers import LOG_APPEND_TIME, MAGIC_V2
from kseg.kernel.layout.rows import (
    HEADER_KEY,
    HEADER_KEY_SIZE,
    HEADER_VALUE,
    HEADER_VALUE_SIZE,
    HEADER_WIDTH,
    ROW_HEADER_COUNT,
    ROW_HEADERS,
    ROW_OFFSET,
    ROW_WIDTH,
)
from kseg.kernel.records.single_batches import max_bytes, single_batches
from kseg.segment.batches import Batch, Message, Message07, RecordBatch, Survey
from kseg.segment.items import Problem
from kseg.segment.problems import HARMLESS_CODES


class Converter:
    """``add`` and ``flush`` return functions that build the new batches, in order. ``losses`` counts lost information.

    Raises Refused for a damaged batch; functions returned by ``add`` raise it, too.
    """

    def __init__(self, request: ConversionRequest) -> None:
        self._request = request
        self._magic = request.magic
        self.losses = Losses(request.magic, request.committed_only, request.target is not None)
        self._groupers: dict[int, Grouper] = {}
        self._last: Grouper | None = None
        self._next_offset = request.base_offset
        self.has_changed = False
        """Whether any batch has changed."""

    def add(self, batch: Batch, next_offset: int) -> Iterator[Build]:
        """Converts one valid batch, whose offsets must not be below ``next_offset``."""
        if isinstance(batch, Message07):
            yield from self._add_07(batch)
        elif isinstance(batch, RecordBatch):
            yield from self._add_v2(batch)
        else:
            yield from self._add_legacy(batch, next_offset)

    def can_take(self, magic: int) -> bool:
        """Whether `take` gives the same result as `add` for uncompressed batches of a format."""
        request, target = self._request, magic if self._magic is None else self._magic
        return magic < MAGIC_V2 or (
            target < 2 and (request.batch_bytes is not None or self._target(0, target).codec == NONE)
        )

    def take(self, run: PlainRun, scratch: Scratch) -> Iterator[Build]:
        """Converts many valid batches."""
        self.losses.add_plain(run.magic, run.timed)
        request, magic = self._request, run.magic if self._magic is None else self._magic
        if run.magic == magic and self._is_kept(0) and request.batch_bytes is None:
            yield from self.flush()
            yield partial(bytes, bytes(run.data)), len(run.data)
            return
        fields = BatchFields(self._target(0, magic), append_time=run.append_time if magic else None)
        if magic == MAGIC_V2 and fields.target.codec == NONE and request.batch_bytes is None:
            yield from self.flush()
            self.has_changed = True
            for rows in run.rows(scratch):
                batches = _single_batches(rows, LOG_APPEND_TIME * (run.append_time is not None))
                yield partial(bytes, batches), len(batches)
            return
        yield from self._group_rows(magic, fields, self._counted(run.rows(scratch)), run.magic < MAGIC_V2)

    @property
    def only_recodes(self) -> bool:
        """Whether only the codec changes, and no batch is being held back."""
        request = self._request
        return request.magic in (None, 2) and request.batch_bytes is None and self._last is None

    def drops(self, batch: Batch) -> bool:
        """Whether the target format has no equivalent of a batch."""
        return self._magic in (0, 1) and (
            batch.is_control or (isinstance(batch, RecordBatch) and not batch.header.record_count)
        )

    def flush(self) -> Iterator[Build]:
        """Converts the records that were held back for grouping."""
        if self._last is not None:
            yield from self._last.flush()
            self._last = None

    def _target(self, codec: int, magic: int) -> Target:
        """Returns the codec for a new batch that replaces one with ``codec``."""
        target = self._request.target
        if target is not None:
            if not allows(magic, target.codec):
                raise UnsupportedError(f"message format v{magic} has no {target.name}: --to v2")
            return target
        return target_of(codec if allows(magic, codec) else GZIP)

    def _is_kept(self, codec: int) -> bool:
        """Whether the codec, and so the compressed bytes, stay the same."""
        target = self._request.target
        return target is None or (target.codec == codec and not (self._request.has_level and codec))

    # v2

    def _add_v2(self, batch: RecordBatch) -> Iterator[Build]:
        self.losses.add(batch)
        header, magic = batch.header, 2 if self._magic is None else self._magic
        if header.codec >= len(CODEC_NAMES):
            raise Refused(Problem("undecodable-records", f"unknown compression codec {header.codec}"))
        is_bare = header.is_control or header.record_count == 0
        if magic < MAGIC_V2:
            if not is_bare:
                append_time = header.max_timestamp if header.is_log_append_time else None
                self._check(batch)
                fields = BatchFields(self._target(header.codec, magic), append_time=append_time if magic else None)
                yield from self._group(magic, fields, batch)
            return
        if is_bare or header.delete_horizon_ms is not None or self._request.batch_bytes is None:
            yield from self.flush()
            if is_bare or self._is_kept(header.codec):
                yield partial(checked, batch.data, header, self._request.max_batch_bytes), batch.size
            else:
                target, self.has_changed = self._target(header.codec, magic), True
                yield partial(recompressed, batch.data, header, target, self._request.max_batch_bytes), 4 * batch.size
            return
        self._check(batch)
        fields = BatchFields(
            self._target(header.codec, magic), header.base_offset, header.last_offset,
            header.max_timestamp if header.is_log_append_time else None, header.is_transactional,
            header.partition_leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence,
        )  # fmt: skip
        yield from self._group(magic, fields, batch)

    # v0, v1

    def _add_legacy(self, batch: Any, next_offset: int) -> Iterator[Build]:
        _check_offsets(batch, next_offset)
        self.losses.add(batch)
        codec, magic = batch.header.codec, batch.magic if self._magic is None else self._magic
        if batch.magic == magic and self._is_kept(codec) and self._request.batch_bytes is None:
            yield from self.flush()
            yield partial(bytes, batch.data), batch.size
            return
        append_time = batch.header.timestamp if batch.header.is_log_append_time and magic else None
        fields = BatchFields(self._target(codec, magic), append_time=append_time)
        yield from self._group(magic, fields, batch, not codec)

    # 0.7

    def _add_07(self, batch: Message07) -> Iterator[Build]:
        magic, codec = 2 if self._magic is None else self._magic, batch.header.codec
        self._check(batch)
        yield from self._group_rows(magic, BatchFields(self._target(codec, magic)), self._numbered(batch), not codec)

    def _numbered(self, batch: Message07) -> Iterator[Rows]:
        for rows in batch.rows():
            found = rows
            if self._request.position_header is not None:
                found = _with_header(rows, self._request.position_header, b"%d" % batch.base_offset)
            for at in range(ROW_OFFSET, rows.count * ROW_WIDTH, ROW_WIDTH):
                found.rows[at] = self._next_offset
                self._next_offset += 1
            yield found

    # All

    def _group(self, magic: int, fields: BatchFields, batch: Batch, is_plain: bool = False) -> Iterator[Build]:
        yield from self._group_rows(magic, fields, self._counted(batch.rows()), is_plain)

    def _group_rows(self, magic: int, fields: BatchFields, batches: Iterator[Rows], is_plain: bool) -> Iterator[Build]:
        limit, self.has_changed = self._request.batch_bytes, True
        is_joined = limit is not None
        if limit is None and is_plain and fields.target.codec:
            limit, is_joined = GROUP_BYTES, True
        grouper = self._groupers.setdefault(magic, Grouper(magic))
        if self._last is not grouper or not is_joined:
            yield from self.flush()
        self._last = grouper
        yield from grouper.add(fields, batches, limit)
        if not is_joined:
            yield from self.flush()

    def _counted(self, batches: Iterator[Rows]) -> Iterator[Rows]:
        for rows in batches:
            self.losses.add_rows(rows)
            yield rows

    @staticmethod
    def _check(batch: Batch) -> None:
        if problems := [problem for problem in batch.check() if problem.code not in HARMLESS_CODES]:
            raise Refused(problems[0])


def _check_offsets(batch: Message, next_offset: int) -> None:
    """Raises Refused for an invalid message, or a compressed one with wrong inner offsets."""
    survey = Survey()
    try:
        for rows in batch.rows():
            survey.add(rows)
    except UndecodableError as error:
        raise Refused(Problem(error.problem, str(error))) from error
    problems = [*batch.passed(), *survey.problems(bool(batch.header.codec))]
    if problems := [problem for problem in problems if problem.code not in HARMLESS_CODES]:
        raise Refused(problems[0])
    first, last = survey.first_offset, survey.last_offset
    if first is not None and first < next_offset:
        raise Refused(Problem("offsets-not-rising", f"offset {first} comes behind offset {next_offset - 1}"))
    if last != batch.last_offset and batch.last_offset:  # early librdkafka versions wrote 0
        raise Refused(Problem("offset-out-of-range", f"the last message inside has offset {last}"))


def _single_batches(rows: Rows, attributes: int) -> bytearray:
    made = bytearray()
    lengthen(made, max_bytes(rows.rows, rows.count))
    del made[single_batches(rows.payload, rows.rows, rows.headers, rows.count, attributes, made) :]
    return made


def _with_header(rows: Rows, key: bytes, value: bytes) -> Rows:
    """Returns the same records with one header each."""
    size, headers = len(rows.payload), int64s(HEADER_WIDTH)
    headers[HEADER_KEY], headers[HEADER_KEY_SIZE] = size, len(key)
    headers[HEADER_VALUE], headers[HEADER_VALUE_SIZE] = size + len(key), len(value)
    for at in range(0, rows.count * ROW_WIDTH, ROW_WIDTH):
        rows.rows[at + ROW_HEADERS], rows.rows[at + ROW_HEADER_COUNT] = 0, 1
    return Rows(b"".join((rows.payload[:], key, value)), rows.rows, headers, rows.count)
