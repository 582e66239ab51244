"""Converts the segments of one partition, in order, and joins segments that were converted independently.

Information that formats older than v2 cannot represent is counted as lost.

They are joined only if the result is that of converting them in sequence. If an effect crosses the end of a segment, it
is not; then the partition must be converted as a whole.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from kseg.conversion.options import ConvertOptions, LossError
from kseg.conversion.rows_writer import GROUP_BYTES, BatchFields, Build, Grouper
from kseg.errors import DamageError, KsegError, UnsupportedError, errors_at
from kseg.formats import compression
from kseg.formats.compressing import Target, build_batch, target_of
from kseg.formats.compression import CODEC_NAMES, GZIP, NONE, allows, expansion_buffer
from kseg.formats.record_batch import HEADER_BYTES, RecordBatchHeader, open_records, parse_header, survey_records
from kseg.formats.rows import ALL, BytesLike, Rows, Scratch, Sliceable, UndecodableError, int64s
from kseg.formats.suffixes import LOG
from kseg.kernel.files.system import lengthen
from kseg.kernel.layout import rows as layout
from kseg.kernel.layout.headers import APPEND_TIME, LOG_APPEND_TIME, MAGIC_V2
from kseg.kernel.records.building import max_bytes, single_batches
from kseg.kernel.records.columns import Collector, keep, stamp
from kseg.kernel.scan.frames import recodable
from kseg.limits import MAX_HEADERS
from kseg.runtime.threads import Pipeline
from kseg.segment.files import LAST_OFFSET, SegmentFile
from kseg.segment.isolation import Transactions
from kseg.segment.items import PROBLEM_CODES, READABLE_CODES, Batch, Damage, Message, Message07, Problem, RecordBatch
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.segment.writer import LogWriter, WrittenSegment

if TYPE_CHECKING:
    from kseg.export.pushdown import Bounds

HEADERS, PRODUCERS = "headers ({} records)", "producer ids, epochs and sequences ({} batches)"
CONTROL = "control batches ({})"
TRANSACTIONAL = "transactions: aborted records would look like others ({} batches; --isolation read_committed)"
HORIZONS, TIMESTAMPS = "delete horizons ({} batches)", "timestamps ({} batches)"
ZSTD = "zstd compression ({} batches; --codec)"
_LOSSES = (HEADERS, PRODUCERS, CONTROL, TRANSACTIONAL, HORIZONS, TIMESTAMPS, ZSTD)
"""What a conversion loses, in the order of messages; ``{}`` is the number of places."""


def losses_text(losses: Counter[str]) -> str:
    """Returns all losses as text."""
    return ", ".join(text.format(losses[text]) for text in _LOSSES if losses[text])


_of_thread = threading.local()

_Place = tuple[int, int, int | None, int | None]
"""Position and size of a batch, and its first and last offset if known."""


class Refusal(NamedTuple):
    """An omitted batch, and its offsets if they are known."""

    damage: Damage
    gaps: list[tuple[int, int]]


class Refused(Exception):
    """An invalid batch; ``problem`` is the reason."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem

    def at(self, position: int, size: int, first_offset: int | None, last_offset: int | None) -> Refusal:
        """Returns the refusal of the batch with this position in its file, size and offsets."""
        is_known = first_offset is not None and last_offset is not None
        damage = Damage(self.problem.code, position, size, self.problem.message)
        return Refusal(damage, [(first_offset or 0, last_offset or 0)] if is_known else [])


def recode(buffer: Sliceable, frames: memoryview, origin: int, target: Target, max_bytes: int) -> list[Any]:
    """Recompresses the v2 batches at frames of the buffer (rows FRAME_*): all header fields except codec, size and CRC
    stay the same. May run on any thread.

    Its worth: one by one, batches of a record or two take 1.75 times the processor time to become zstd. ``origin``:
    position of the buffer in the file. Returns complete batches end to end (bytearray), and between them the omitted
    batches (Refusal).
    """
    found: list[Any] = [bytearray()]
    for at in range(0, len(frames), layout.FRAME_WIDTH):
        position, size = frames[at + layout.FRAME_POSITION], frames[at + layout.FRAME_SIZE]
        header = parse_header(buffer, position)
        try:
            found[-1] += recompressed(buffer[position : position + size], header, target, max_bytes)
        except Refused as refused:
            found += [refused.at(origin + position, size, header.base_offset, header.last_offset), bytearray()]
    return found


def opened(data: BytesLike, header: RecordBatchHeader, max_bytes: int) -> BytesLike:
    """Returns the records of a batch as bytes, valid until the thread's next call. Raises Refused."""
    limit, buffer = getattr(_of_thread, "expansion", (None, None))
    if limit != max_bytes:  # only the buffer of the latest limit is kept
        buffer = expansion_buffer(max_bytes)
        _of_thread.expansion = (max_bytes, buffer)
    remarks: compression.Remarks = []
    try:
        payload, start = open_records(data, header, max_bytes, buffer, remarks)
    except UndecodableError as error:
        raise Refused(Problem(error.problem, str(error))) from error
    problems = [problem for problem in remarks if problem[0] not in READABLE_CODES]
    if problems := problems + survey_records(payload, start, header)[0]:
        raise Refused(Problem(*problems[0]))
    return memoryview(payload)[start:]


def checked(data: BytesLike, header: RecordBatchHeader, max_bytes: int) -> bytes:
    """Returns the batch unchanged after checking its records. Raises Refused."""
    opened(data, header, max_bytes)
    return bytes(data)


def recompressed(data: BytesLike, header: RecordBatchHeader, target: Target, max_bytes: int) -> bytes:
    """Returns the batch with another codec. Raises Refused."""
    return build_batch(header, opened(data, header, max_bytes), target)


class Converter:
    """Converts batches one by one to the requested format, codec and size.

    As in Kafka's cleaner and down-conversion, a compressed message becomes one batch and vice versa, and uncompressed
    messages become batches of one record. Several uncompressed messages are grouped only if they are to be compressed.
    If only the codec of a v2 batch changes, all other fields stay.

    ``add`` and ``flush`` return functions that build the new batches, in order. ``found`` gets the losses.
    Raises Refused for a damaged batch; functions returned by ``add`` raise it, too.
    """

    def __init__(self, request: ConvertOptions, found: "Converted") -> None:
        self._request, self._found = request, found
        self._magic, self._wanted_target = request.magic, request.target
        self._groupers: dict[int, Grouper] = {}
        self._last: Grouper | None = None
        self._next_offset = request.first_offset

    def add(self, batch: Batch, next_offset: int) -> Iterator[Build]:
        """Converts one valid batch, whose offsets must not be below ``next_offset``."""
        if isinstance(batch, RecordBatch):
            yield from self._add_v2(batch)
        elif not isinstance(batch, Message07):
            yield from self._add_legacy(batch, next_offset)
        else:
            magic, codec = 2 if self._magic is None else self._magic, batch.header.codec
            self._check(batch)
            yield from self._group(magic, BatchFields(self._target(codec, magic)), self._numbered(batch), not codec)

    def can_take(self, magic: int) -> bool:
        """Whether `take` gives the same result as `add` for uncompressed batches of a format."""
        request, target = self._request, magic if self._magic is None else self._magic
        return magic < MAGIC_V2 or (
            target == 1 and (request.batch_bytes is not None or self._target(0, target).codec == NONE)
        )

    def take(self, frames: memoryview, rows: Rows, collector: Collector) -> Iterator[Build]:
        """Converts many valid batches: uniform ``frames`` (rows FRAME_*), and their records, which the collector has
        read."""
        request, magic = self._request, collector.magic if self._magic is None else self._magic
        if collector.magic == 1 and magic == 0:
            times = rows.column(layout.ROW_TIMESTAMP)
            self._found.losses.update(TIMESTAMPS for time in times if time >= 0)
        if collector.magic == magic and self._is_kept(0) and request.batch_bytes is None:
            yield from self.flush()
            last = frames[-layout.FRAME_WIDTH :]
            end = last[layout.FRAME_POSITION] + last[layout.FRAME_SIZE]
            data = bytes(rows.payload[frames[layout.FRAME_POSITION] : end])
            yield partial(bytes, data), len(data)
            return
        append_time = collector.time if collector.kind == APPEND_TIME else None
        fields = BatchFields(self._target(0, magic), append_time=append_time if magic else None)
        if magic == MAGIC_V2 and fields.target.codec == NONE and request.batch_bytes is None:
            yield from self.flush()
            self._found.has_changed = True
            batches = bytearray()
            lengthen(batches, max_bytes(rows.rows, rows.count))
            attributes = LOG_APPEND_TIME * (append_time is not None)
            size = single_batches(rows.payload, rows.rows, rows.headers, rows.count, attributes, batches)
            del batches[size:]
            yield partial(bytes, batches), len(batches)
            return
        yield from self._group(magic, fields, self._counted(iter([rows])), collector.magic < MAGIC_V2)

    @property
    def only_recodes(self) -> bool:
        """Whether only the codec changes, and no batch is being held back."""
        request = self._request
        return request.magic in (None, 2) and request.batch_bytes is None and self._last is None

    def flush(self) -> Iterator[Build]:
        """Converts the records that were held back for grouping."""
        if self._last is not None:
            yield from self._last.flush()
            self._last = None

    def _target(self, codec: int, magic: int) -> Target:
        """Returns the codec for a new batch that replaces one with ``codec``."""
        target = self._wanted_target
        if target is not None:
            if not allows(magic, target.codec):
                raise UnsupportedError(f"message format v{magic} has no {target.name}: --to v2")
            return target
        return target_of(codec if allows(magic, codec) else GZIP)

    def _is_kept(self, codec: int) -> bool:
        """Whether the codec, and so the compressed bytes, stay the same."""
        target = self._wanted_target
        return target is None or (target.codec == codec and not (self._request.has_level and codec))

    def _count_losses(self, batch: Message | RecordBatch) -> None:
        """Counts what the wanted format cannot hold of a batch's header."""
        magic, has_codec = self._magic, self._request.codec is not None
        if magic in (None, MAGIC_V2):
            return
        lost = {TIMESTAMPS: magic == 0 and batch.magic > 0 and batch.max_timestamp >= 0}
        if isinstance(batch, RecordBatch):
            header, is_shown = batch.header, not self._request.read_committed
            lost |= (
                {CONTROL: is_shown}
                if header.is_control
                else {
                    PRODUCERS: header.producer_id >= 0,
                    TRANSACTIONAL: header.is_transactional and is_shown,
                    HORIZONS: header.delete_horizon_ms is not None,
                    ZSTD: header.codec == compression.ZSTD and not has_codec,
                }
            )
        self._found.losses.update(text for text, is_lost in lost.items() if is_lost)

    def _add_v2(self, batch: RecordBatch) -> Iterator[Build]:
        self._count_losses(batch)
        header, magic = batch.header, 2 if self._magic is None else self._magic
        _check_codec(header)
        is_bare = header.is_control or header.record_count == 0
        if magic < MAGIC_V2 and is_bare:
            return
        if magic == MAGIC_V2 and (is_bare or header.delete_horizon_ms is not None or self._request.batch_bytes is None):
            yield from self.flush()
            is_kept = self._is_kept(header.codec) and not compression.is_refused(
                header.codec, batch.data[HEADER_BYTES:]
            )
            if is_bare or is_kept:
                yield partial(checked, batch.data, header, self._request.max_batch_bytes), batch.size
            else:
                target, self._found.has_changed = self._target(header.codec, magic), True
                yield partial(recompressed, batch.data, header, target, self._request.max_batch_bytes), 4 * batch.size
            return
        self._check(batch)
        yield from self._group(magic, self._fields_of(batch, magic), self._counted(batch.rows()))

    def _fields_of(self, batch: Message | RecordBatch, magic: int) -> BatchFields:
        """Returns the header fields of a batch that the new format has."""
        header, target = batch.header, self._target(batch.header.codec, magic)
        append_time = batch.max_timestamp if header.is_log_append_time and magic else None
        if magic < MAGIC_V2 or not isinstance(header, RecordBatchHeader):
            return BatchFields(target, append_time=append_time)
        return BatchFields(
            target, header.base_offset, header.last_offset, append_time, header.is_transactional,
            header.partition_leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence,
        )  # fmt: skip

    def _add_legacy(self, batch: Any, next_offset: int) -> Iterator[Build]:
        _check_offsets(batch, next_offset)
        self._count_losses(batch)
        codec, magic = batch.header.codec, batch.magic if self._magic is None else self._magic
        is_kept = self._is_kept(codec) and not any(code == compression.REFUSED for code, _ in batch.remarks)
        if batch.magic == magic and is_kept and self._request.batch_bytes is None:
            yield from self.flush()
            yield partial(bytes, batch.data), batch.size
            return
        yield from self._group(magic, self._fields_of(batch, magic), self._counted(batch.rows()), not codec)

    def part(self, batch: Any, wanted: "Bounds") -> tuple[int, Iterator[Build]] | None:
        """Converts the wanted records of one valid batch. Returns the first offset and the builds, None for no record.

        The new batch begins with its first record, whose sequence stays. Raises Refused.
        """
        self._check(batch)
        kept = _within(batch, wanted)
        first = next(kept, None)
        if first is None:
            return None
        magic, base = batch.magic if self._magic is None else self._magic, first.rows[layout.ROW_OFFSET]
        self._count_losses(batch)
        if isinstance(batch, RecordBatch):
            _check_codec(batch.header)
        fields = self._fields_of(batch, magic)
        if fields.last_offset is not None:
            last = min(fields.last_offset, wanted.last_offset)
            fields = replace(fields, base_offset=base, last_offset=last, sequence=fields.sequence_at(base))
        return base, self._group(magic, fields, self._counted(chain([first], kept)))

    def _numbered(self, batch: Message07) -> Iterator[Rows]:
        """Yields the records of 0.7 with their new offsets, and with a header of their position if that is wanted."""
        name, value = self._request.position_header, b"%d" % batch.base_offset
        key = None if name is None else name.encode("utf-8", "surrogateescape")
        for rows in batch.rows():
            payload, headers = rows.payload, rows.headers
            if key is not None:
                size, headers = len(payload), int64s(layout.HEADER_WIDTH)
                headers[layout.HEADER_KEY], headers[layout.HEADER_KEY_SIZE] = size, len(key)
                headers[layout.HEADER_VALUE], headers[layout.HEADER_VALUE_SIZE] = size + len(key), len(value)
                payload = b"".join((payload[:], key, value))
            for at in range(0, rows.count * layout.ROW_WIDTH, layout.ROW_WIDTH):
                rows.rows[at + layout.ROW_OFFSET] = self._next_offset
                self._next_offset += 1
                if key is not None:
                    rows.rows[at + layout.ROW_HEADERS], rows.rows[at + layout.ROW_HEADER_COUNT] = 0, 1
            yield Rows(payload, rows.rows, headers, rows.count)

    def _group(
        self, magic: int, fields: BatchFields, batches: Iterator[Rows], is_plain: bool = False
    ) -> Iterator[Build]:
        limit, self._found.has_changed = self._request.batch_bytes, True
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
        """Yields the records, and counts those with headers if the wanted format has none."""
        for rows in batches:
            if self._magic in (0, 1):
                column = rows.column(layout.ROW_HEADER_COUNT)
                if any(column):
                    self._found.losses[HEADERS] += len(column) - column.count(0)
            yield rows

    @staticmethod
    def _check(batch: Batch) -> None:
        if problems := [problem for problem in batch.check() if problem.code not in READABLE_CODES]:
            raise Refused(problems[0])


def _check_codec(header: RecordBatchHeader) -> None:
    """Raises Refused for an unknown codec."""
    if header.codec >= len(CODEC_NAMES):
        raise Refused(Problem("undecodable-records", f"unknown compression codec {header.codec}"))


def _within(batch: Batch, wanted: "Bounds") -> Iterator[Rows]:
    """Yields the records of a batch that are wanted, at least one at a time. Raises UndecodableError."""
    asked = wanted.columns
    for rows in batch.rows():
        if isinstance(batch, RecordBatch):
            stamp(rows.rows, rows.count, 1 + batch.header.is_log_append_time)
        rows.count = keep(rows.rows, rows.count, asked)
        if rows.count:
            yield rows


def _is_within(batch: Batch, wanted: "Bounds") -> bool | None:
    """Whether all records of a valid batch are wanted; None if only some are, or it cannot be decoded."""
    is_left = batch.last_offset <= wanted.last_offset
    first = batch.base_offset if is_left and batch.last_offset < wanted.first_offset else batch.first_offset()
    if batch.last_offset < wanted.first_offset or (first or 0) > wanted.last_offset:
        return False
    is_inside = is_left and first is not None and first >= wanted.first_offset
    if wanted.has_all_times and is_inside:
        return True
    if not wanted.has_all_times and batch.max_timestamp < wanted.earliest_ms:
        return False
    try:
        kept, count = sum(rows.count for rows in _within(batch, wanted)), sum(rows.count for rows in batch.rows())
    except UndecodableError:
        return None
    if kept == count:
        return count > 0
    return None if kept and not batch.is_control else False


def _check_offsets(batch: Message, next_offset: int) -> None:
    """Raises Refused for an invalid message, or a compressed one with wrong inner offsets."""
    survey = batch.survey()
    if problems := [each for each in survey.problems if each.code in PROBLEM_CODES - READABLE_CODES]:
        raise Refused(problems[0])
    first, last = survey.first_offset, survey.last_offset
    if first is not None and first < next_offset:
        raise Refused(Problem("offsets-not-rising", f"offset {first} comes behind offset {next_offset - 1}"))
    if last != batch.last_offset and batch.last_offset:  # early librdkafka versions wrote 0
        raise Refused(Problem("offset-out-of-range", f"the last message inside has offset {last}"))


RECODED_BYTES = 2 << 20
"""Size of a run (`SegmentReader`), and of the batches in one task: large enough that threads cost little overhead."""


@dataclass(slots=True)
class Converted:
    """The result of a conversion. ``losses``: number of places by the texts above.

    ``skipped``: damage that was skipped, by file; ``left_out``: number of batches that no read_committed consumer sees;
    ``gaps``: ranges of offsets that existed, or may have existed, and are missing now. ``next_offset``: the offset
    after the last batch; ``ends_in_damage``: the end of a gap is unknown. ``has_changed``: whether any batch has
    changed; ``open_transactions``: number of transactions whose end marker is not in the range that was asked for;
    ``has_same_segments``: whether all batches are in segments with the same base offsets. ``files``: names and
    sizes of the written files; ``carried``: names of side files that stay unchanged, or, if nothing is written, may be
    rewritten.
    """

    losses: Counter[str] = field(default_factory=Counter)
    segments: list[WrittenSegment] = field(default_factory=list)
    skipped: list[tuple[str, Damage]] = field(default_factory=list)
    left_out: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    batches: int = 0
    old_bytes: int = 0
    next_offset: int = 0
    ends_in_damage: bool = False
    has_changed: bool = False
    open_transactions: int = 0
    has_same_segments: bool = False
    files: dict[str, int] = field(default_factory=dict)
    carried: list[str] = field(default_factory=list)

    @property
    def is_same_log(self) -> bool:
        return self.has_same_segments and not self.has_changed


def convert_segments(name: str, files: list[SegmentFile], request: ConvertOptions, folder: str | None) -> Converted:
    """Writes the segments ``files`` of the partition ``name`` to ``folder``; without a folder, only counts.

    Raises DamageError, LossError; then the caller removes the folder.
    """
    check_kinds(name, files)
    return finished(name, files, request, convert_some(files, request, folder, transactions_of(files, request)))


def convert_some(
    files: list[SegmentFile], request: ConvertOptions, folder: str | None, transactions: Transactions | None
) -> Converted:
    """Converts segments in sequence: all of a partition, or one of several (`joined`). Raises DamageError."""
    with Pipeline(request.threads) as pipeline:
        conversion = _Conversion(files, request, folder, pipeline, transactions)
        conversion.run()
    return conversion.found


def check_kinds(name: str, files: list[SegmentFile]) -> None:
    """Raises UnsupportedError if a partition contains segments of different eras."""
    if len({file.kind for file in files}) > 1:
        raise UnsupportedError(f"{name}: has segments of 0.7 beside later ones")


def transactions_of(files: list[SegmentFile], request: ConvertOptions) -> Transactions | None:
    """Returns the transactions of a partition if the conversion of its segments depends on them."""
    return Transactions.of_segments(files, Scratch(request.max_batch_bytes)) if request.read_committed else None


def finished(name: str, files: list[SegmentFile], request: ConvertOptions, found: Converted) -> Converted:
    """Completes the result of all segments. Raises LossError for losses that were not allowed."""
    found.gaps.sort()
    if found.losses and not request.is_lossy:
        raise LossError(
            f"{name}: message format v{request.magic} cannot hold all of it: {losses_text(found.losses)}; "
            "--lossy leaves that out; nothing was written"
        )
    bases = [file.base_offset if file.kind == LOG else None for file in files]
    is_whole = not found.skipped and not found.left_out and not request.is_selective
    found.has_same_segments = is_whole and bases == [segment.base_offset for segment in found.segments]
    return found


class _Conversion:
    """Converts segments in order into one log."""

    def __init__(
        self,
        files: list[SegmentFile],
        request: ConvertOptions,
        folder: str | None,
        pipeline: Pipeline,
        transactions: Transactions | None,
    ) -> None:
        self._files, self._request, self._folder = files, request, folder
        self._pipeline = pipeline
        self._scratch = Scratch(request.max_batch_bytes)
        self.found = Converted()
        self._converter = Converter(request, self.found)
        self._writer: LogWriter | None = None
        self._file = ""
        self._transactions = transactions
        self._wanted = request.wanted if request.is_selective else None
        self._segment_base: int | None = None
        """Base offset of the next segment, if its first batch does not decide on it."""
        self._has_left_out = False
        """Whether records were left out since the last that was written."""
        self._open_producers: set[int] = set()
        """Those with records of a transaction whose end marker has not come."""

    def run(self) -> None:
        """Fills ``found``."""
        try:
            for file in self._files:
                self._convert_file(file)
            self._end_segments()
            self.found.open_transactions = len(self._open_producers)
        except BaseException:
            if self._writer is not None:
                self._writer.close()
            raise

    def _convert_file(self, file: SegmentFile) -> None:
        self._file = file.path
        with open_segment(file, self._scratch, run_bytes=RECODED_BYTES) as reader:
            source = reader.source
            self.found.old_bytes += source.size
            items = reader.runs()
            if self._wanted is not None:
                items = self._runs_within(reader, file, self._wanted)
            elif not file.is_07 and file.base_offset is not None:
                self._begin_segment(file.base_offset)
            elif file.is_07 and self._writer is None:
                self._begin_segment(self._request.first_offset)
            for item in items:
                if isinstance(item, Damage):
                    self._skip(item)
                else:
                    self._convert_run(reader, item)
            if self._request.segment_bytes is None:
                self._submit(self._converter.flush())
            self._drain()
            if source.current_size() < source.size:
                raise KsegError(f"{file.path}: became shorter while it was read")
            mtime_ns = source.extent.mtime_ns() if source.extent.descriptor >= 0 else None
        if self._request.segment_bytes is None:
            self._end_segments(mtime_ns)

    def _runs_within(self, reader: SegmentReader, file: SegmentFile, wanted: "Bounds") -> Iterator[Run | Damage]:
        """Returns the items from the first wanted record, found through the indexes, to the last."""
        from kseg.export.scanning import runs_between, sought
        from kseg.segment.slices import Slice

        if file.is_07:
            raise UnsupportedError(f"{file.path}: 0.7 has byte positions for offsets: convert it without a range first")
        self._segment_base = file.base_offset if self.found.segments else None
        part = sought(reader, file, Slice(), wanted.first_offset, wanted.earliest_ms)
        return runs_between(reader, file, part, wanted.last_offset)

    def _convert_run(self, reader: SegmentReader, run: Run) -> None:
        """Converts a run of frames; if only the codec changes, many at a time."""
        first = 0
        while first < run.count:
            stop = self._recode(reader, run, first) if self._converter.only_recodes else first
            if stop == first:
                stop = self._take_plain(reader, run, first)
            if stop == first:
                self._convert(reader.batch(run, first, keep=False))
                stop += 1
            first = stop

    def _recode(self, reader: SegmentReader, run: Run, first: int) -> int:
        """Recodes frames from ``first`` on. Returns the first frame that was not recoded."""
        target = self._request.target
        if target is None or not self._takes_runs:
            return first
        buffer, rows, origin, stop = reader.window(run, first)
        kept = -1 if self._request.has_level and target.codec else target.codec
        end, next_offset, size = recodable(buffer, rows, first, stop, self.found.next_offset, kept, RECODED_BYTES)
        if end > first:
            self.found.batches += end - first
            self.found.next_offset = next_offset
            self.found.has_changed = True
            places = memoryview(bytes(rows[first * layout.FRAME_WIDTH : end * layout.FRAME_WIDTH])).cast("q")
            task = partial(recode, buffer, places, origin, target, self._request.max_batch_bytes)
            for results in self._pipeline.submit(task, 4 * size):
                self._write(results)
        return end

    @property
    def _takes_runs(self) -> bool:
        """Whether valid batches need no individual check, and offsets only rise."""
        is_open = self._writer is not None and self.found.next_offset <= LAST_OFFSET
        is_whole = self._transactions is None and self._wanted is None
        return is_open and is_whole and not self.found.ends_in_damage and not self._is_07

    def _take_plain(self, reader: SegmentReader, run: Run, first: int) -> int:
        """As `_recode`, for uniform uncompressed batches: in formats before v2 each uncompressed message is a batch,
        and one Python call for each would take a hundred times as long as processing its bytes.
        """
        magic = run.rows[first * layout.FRAME_WIDTH + layout.FRAME_MAGIC]
        if not self._takes_runs or not self._converter.can_take(magic):
            return first
        buffer, frames, _, stop = reader.window(run, first)
        collector, scratch = Collector(first, self.found.next_offset), self._scratch
        max_headers = MAX_HEADERS * layout.HEADER_WIDTH
        while True:
            done = collector.frame
            status = collector.collect(buffer, frames, stop, ALL, scratch.rows, scratch.headers)
            if collector.row_count:
                read = frames[done * layout.FRAME_WIDTH : collector.frame * layout.FRAME_WIDTH]
                rows = Rows(buffer, scratch.rows, scratch.headers, collector.row_count)
                self._submit(self._converter.take(read, rows, collector))
                collector.row_count = collector.header_count = 0
            elif status == layout.MORE_HEADERS and len(scratch.headers) < max_headers:
                scratch.headers = int64s(max_headers)
            elif collector.is_open:
                raise DamageError("a batch changed while it was read; nothing was written")
            else:
                break
        self.found.batches += collector.frame - first
        self.found.next_offset = collector.next_offset
        return collector.frame

    def _convert(self, batch: Batch) -> None:
        self.found.batches += 1
        if not batch.is_valid:
            self._refuse(batch, batch.problems[0])
            return
        if (transactions := self._transactions) is not None:
            end = transactions.last_stable_offset
            if transactions.is_aborted(batch) or (end is not None and batch.last_offset >= end):
                if self._wanted is None:
                    self._leave_gap(batch)
                else:
                    self._has_left_out = self._has_begun
                self.found.left_out += self._wanted is None or _is_within(batch, self._wanted) is not False
                return
        if (impossible := self._impossible(batch)) is not None:
            self._refuse(batch, impossible)
            return
        base, builds = batch.last_offset if batch.base_offset is None else batch.base_offset, None
        if self._wanted is not None:
            is_within = _is_within(batch, self._wanted)
            try:
                found = None if is_within is not None else self._converter.part(batch, self._wanted)
            except Refused as refused:
                self._refuse(batch, refused.problem)
                return
            if not is_within:
                self._has_left_out = self._has_begun
                if found is None:
                    return
            first, builds = found or (batch.first_offset(), None)
            base = base if first is None else first
            if isinstance(batch, RecordBatch) and batch.header.is_transactional:
                change = self._open_producers.discard if batch.is_control else self._open_producers.add
                change(batch.header.producer_id)
            if self._has_left_out and base > self.found.next_offset:
                self.found.gaps.append((self.found.next_offset, base - 1))
            self._has_left_out = False
        if self._writer is None:
            self._begin_segment(base if self._segment_base is None else self._segment_base)
        if base < self.found.next_offset and not self._is_07:
            message = f"offset {base} comes behind offset {self.found.next_offset - 1}"
            self._refuse(batch, Problem("offsets-not-rising", message))
            return
        try:
            self._submit(self._converter.add(batch, self.found.next_offset) if builds is None else builds, batch)
        except Refused as refused:
            self._refuse(batch, refused.problem)
            return
        if self.found.ends_in_damage:  # offsets missing before this batch may have been in the damaged bytes
            first = batch.first_offset() if builds is None else base
            if first is not None and first > self.found.next_offset and not self._is_07:
                self.found.gaps.append((self.found.next_offset, first - 1))
            self.found.ends_in_damage = False
        if self._request.magic in (0, 1) and (  # these formats have no equivalent of such batches
            batch.is_control or (isinstance(batch, RecordBatch) and not batch.header.record_count)
        ):
            self._leave_gap(batch)
        self.found.next_offset = max(self.found.next_offset, batch.next_offset)

    @property
    def _has_begun(self) -> bool:
        """Whether a batch was kept."""
        return self._writer is not None or bool(self.found.segments)

    def _impossible(self, batch: Batch) -> Problem | None:
        """Returns a problem of the header that no writer produces and no segment can contain, although the checksum is
        right.
        """
        if not self._is_07 and not 0 <= batch.last_offset < LAST_OFFSET:
            return Problem("offset-out-of-range", f"no log reaches to offset {batch.last_offset}")
        if isinstance(batch, RecordBatch) and self._request.magic in (None, 2):
            header = batch.header
            if header.producer_id < -1 or header.base_sequence < -1:
                fields = f"producer id {header.producer_id}, sequence {header.base_sequence}"
                return Problem("impossible-header", f"{fields}: no producer has these")
        return None

    def _leave_gap(self, batch: Batch) -> None:
        base, gaps = batch.base_offset, self.found.gaps
        if base is None or base < self.found.next_offset:
            return
        if gaps and gaps[-1][1] + 1 == base:
            base = gaps.pop()[0]
        gaps.append((base, batch.last_offset))
        self.found.next_offset = batch.next_offset

    def _refuse(self, batch: Batch, problem: Problem) -> None:
        self._skip(Damage(problem.code, batch.position, batch.size, problem.message))

    def _skip(self, damage: Damage) -> None:
        if not self._request.skips_damage:
            raise DamageError(
                f"{self._file}: {damage.code} at position {damage.position}, {damage.length} bytes: {damage.message}; "
                "--skip-damage leaves these bytes out, kseg verify shows details; nothing was written"
            )
        self.found.skipped.append((self._file, damage))
        self.found.ends_in_damage = True

    def _submit(self, builds: Iterator[Build], batch: Batch | None = None) -> None:
        place: _Place = 0, 0, None, None
        if batch is not None:
            place = batch.position, batch.size, batch.base_offset, batch.last_offset
        for build, weight in builds:
            # If the conversion will fail for losses, only the remaining losses are still counted.
            if self._request.is_lossy or not self.found.losses:
                for results in self._pipeline.submit(partial(_attempt, build, place), weight):
                    self._write(results)

    def _drain(self) -> None:
        for results in self._pipeline.drain():
            self._write(results)

    def _write(self, results: list[list[bytes | bytearray | Refusal]]) -> None:
        pieces: list[bytes | bytearray] = []
        for result in (result for some in results for result in some):
            if isinstance(result, Refusal):
                is_after_damage = self.found.ends_in_damage
                self._skip(result.damage)
                self.found.ends_in_damage = is_after_damage  # it describes the reading position
                self.found.gaps += result.gaps
            else:
                pieces.append(result)
        if not pieces or self._writer is None:
            return
        with errors_at(self._file, DamageError, "; nothing was written", of=ValueError):
            self._writer.append(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _begin_segment(self, base_offset: int) -> None:
        """Starts the first segment, or the segments for one old segment."""
        if self._writer is not None:
            return
        if not self._is_07:
            self.found.next_offset = max(self.found.next_offset, base_offset)
        if self._is_07 and self.found.segments:
            base_offset = self.found.segments[-1].next_offset
        self._writer = LogWriter(self._folder, base_offset, self._request.roll_limits)

    @property
    def _is_07(self) -> bool:
        return bool(self._files) and self._files[0].is_07

    def _end_segments(self, mtime_ns: int | None = None) -> None:
        if self._writer is None:
            return
        self._drain()
        self._submit(self._converter.flush())
        self._drain()
        written = self._writer.finish()
        self._writer = None
        if mtime_ns is not None:
            for path in (path for segment in written for path in segment.paths.values()):
                os.utime(path, ns=(mtime_ns, mtime_ns))
        self.found.segments += written


def _attempt(build: Callable[[], bytes], place: _Place) -> list[bytes | Refusal]:
    try:
        return [build()]
    except Refused as refused:
        return [refused.at(*place)]


def is_divisible(files: list[SegmentFile], request: ConvertOptions) -> bool:
    """Whether segments can be converted independently: segment boundaries stay, and all base offsets are known."""
    is_known = all(file.kind == LOG and file.base_offset is not None for file in files)
    return len(files) > 1 and is_known and request.segment_bytes is None and not request.is_selective


def joined(
    name: str, files: list[SegmentFile], request: ConvertOptions, converted: list[Converted]
) -> Converted | None:
    """Returns the partition of these segments; None if they depend on each other. Raises LossError."""
    whole = Converted()
    for file, found in zip(files, converted, strict=True):
        if whole.ends_in_damage or whole.next_offset > (file.base_offset or 0):
            return None
        firsts = {first for first, _ in found.gaps}
        if any(last + 1 in firsts for _, last in whole.gaps):  # a gap continues into this segment
            return None
        for each in ("losses", "segments", "skipped", "gaps", "left_out", "batches", "old_bytes"):
            setattr(whole, each, getattr(whole, each) + getattr(found, each))
        whole.next_offset, whole.ends_in_damage = found.next_offset, found.ends_in_damage
        whole.has_changed |= found.has_changed
    return finished(name, files, request, whole)
