"""Compares two replicas of a partition by offset (`kseg verify --against DIR`): equal, different and missing records.

Bytes may differ where records do not: each broker compacts by itself, and may have other batch bounds and codecs.
Batches with the same first offset are compared as bytes, many at once. If these differ, records are compared:
leader epoch, key, value, timestamp, headers. Both sides are read once, and not kept in memory.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from kseg.errors import PathError
from kseg.formats.rows import Rows, Scratch, UndecodableError, int64s
from kseg.formats.suffixes import CHECKPOINT
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import CRC_RIGHT, ROW_OFFSET, ROW_WIDTH
from kseg.kernel.scan import headers as chain
from kseg.kernel.state import replicas as kernel
from kseg.node.log_directory import COMPACTED_TOPICS, checkpoint_offsets
from kseg.quantities import plural
from kseg.segment.files import SegmentFile, directory_name, list_partitions, list_segments, parse_partition_name
from kseg.segment.items import Damage, Message, RecordBatch
from kseg.segment.paths import is_log_directory, log_directories_in, segments_at
from kseg.segment.survey import FULL, BatchRow, HeaderRows, open_survey
from kseg.sidefiles.checkpoints import CLEANER_OFFSETS
from kseg.stores.place import Place
from kseg.stores.source import Source
from kseg.stores.windows import WINDOW_BYTES, equal_bytes
from kseg.verification.partition import CheckSettings
from kseg.verification.report import SHOWN_PER_FILE, Comparison, Details, Report


class Replica:
    """A cursor over the intact batches of a replica, in the order of its segments: they are read in spans of many, and
    record by record where two replicas differ. ``batch`` is the current one, until ``is_at_end``. The first offset of a
    compressed v0 or v1 message, which must be decompressed for it, is -1.

    ``not_compared``: the damaged ranges passed and not yet reported, (file, position, length).
    ``was_damaged``: damage, or another unknown range, precedes the current batch. ``last_offset``: the largest offset
    of the batches passed so far, -1 if there is none; ``bytes``: the size of the files read to their ends. ``i``: the
    next record of ``rows``, those of the current batch if it is open. ``lacking``: the records that only the other
    replica has, except ``tail``, the number of those after the end of this one.
    """

    def __init__(self, name: str, files: list[SegmentFile], jobs: int, max_batch_bytes: int) -> None:
        for file in files:
            if file.is_07:
                raise PathError(f"{file.path}: 0.7 had no replicas, there is nothing to compare")
        self.name, self.files = name, files
        self.lacking, self.tail = _Lacking(), 0
        self.start_offset = files[0].base_offset if files else None
        self.not_compared: list[tuple[str, int, int]] = []
        self.was_damaged = False
        self._chain = chain.Chain()
        self.last_offset = -1
        self.path = ""
        self.is_at_end = False
        self.bytes = 0
        self._jobs = jobs
        self._scratch = Scratch(max_batch_bytes)
        self._source: Source | None = None
        self._headers, self._i = HeaderRows(memoryview(b""), 0), 0
        self.batch: BatchRow
        self.rows: Rows | None = None
        self.i = 0
        self._opened: Iterator[Rows] | None = None
        self._spans = self._read()
        self._next_span()

    def close(self) -> None:
        self._spans.close()

    def _read(self) -> Generator[HeaderRows, None, None]:
        """Yields spans of batches with right checksums."""
        for file in self.files:
            with open_survey(file, FULL, jobs=self._jobs, scratch=self._scratch) as survey:
                self.path, self._source, size = file.path, survey.source, survey.source.size
                for item in survey:
                    if isinstance(item, Damage):
                        self._pass_damage(item.position, item.length)
                    if not isinstance(item, HeaderRows):
                        continue
                    start = 0
                    for i, state in enumerate(item.states):
                        if not state & CRC_RIGHT:
                            if i > start:
                                yield item.part(start, i)
                            start = i + 1
                            self._pass_damage(item[i].position, item[i].size)
                    if start < item.count:
                        yield item.part(start, item.count)
                self._source = None
                self.bytes += size

    def _pass_damage(self, position: int, length: int) -> None:
        self.not_compared.append((self.path, position, length))
        self.was_damaged = True

    def _next_span(self) -> None:
        item = next(self._spans, None)
        if item is None:
            self.is_at_end = True
            return
        self._headers, self._i, self.batch = item, 0, item[0]
        chain.follow(item.rows, item.count, self._chain)

    def report_damage(self, other: "Replica", found: Comparison, report: Report) -> None:
        """Reports the damaged ranges passed since the last call, which were not compared with the other replica."""
        for path, position, length in self.not_compared:
            found.damaged_ranges += 1
            report.add("replica-not-compared", path, "damaged bytes", position, length, details={"other": other.name})
        self.not_compared.clear()

    @property
    def holds_gaps(self) -> bool:
        """Whether a batch had fewer records than offsets, as the cleaner leaves them."""
        return self._chain.sparse > 0

    @property
    def span_left(self) -> int:
        """Bytes from the batch to the end of the span."""
        return self._headers.end - self.batch.position

    def read(self, size: int, start: int = 0) -> bytes:
        """Returns bytes from the batch on."""
        assert self._source is not None
        return self._source.extent.pread(size, self.batch.position + start)

    def batches_within(self, size: int) -> int:
        """Returns the number of batches of the span that end within ``size`` bytes of the batch's position."""
        numbers = range(self._i, self._headers.count)
        return bisect_right(numbers, self.batch.position + size, key=lambda i: self._headers[i].end)

    def records_in(self, count: int) -> int:
        """Returns the record count of the next ``count`` batches by their headers."""
        next_batches = self._headers.part(self._i, self._i + count)
        return sum(number if number >= 0 else 1 for number in next_batches.records)

    def last_of(self, count: int) -> int:
        """Returns the last offset of the next ``count`` batches."""
        return self._headers[self._i + count - 1].last_offset

    def step(self, count: int = 1) -> None:
        """Moves by ``count`` batches of the span."""
        self.was_damaged = False
        self.last_offset = max(self.last_offset, self.last_of(count))
        self._i += count
        if self._i >= self._headers.count:
            self._next_span()
        else:
            self.batch = self._headers[self._i]

    @property
    def is_between(self) -> bool:
        """Whether no batch is open."""
        return self._opened is None

    def fill(self) -> Rows | None:
        """Opens the batch if it is not open. Returns rows with at least one record left; None at the end of the batch,
        after moving to the next."""
        if self._opened is None:
            self.rows, self._opened = None, self._batch_rows()
        while self.rows is None or self.i >= self.rows.count:
            self.rows, self.i = next(self._opened, None), 0
            if self.rows is None:
                self._opened = None
                self.step()
                return None
        return self.rows

    def _batch_rows(self) -> Iterator[Rows]:
        """Yields the records of the batch; an undecodable batch is added to ``not_compared``."""
        position, size, magic = self.batch.position, self.batch.size, self.batch.magic
        kind = RecordBatch if magic >= MAGIC_V2 else Message
        batch = kind(self.read(size), position, size, magic, True, self._scratch)
        try:
            yield from batch.rows()
        except UndecodableError:
            self._pass_damage(position, size)


EVENT_LIMIT = 512
"""Limit of differences that one step returns."""


class _Range(NamedTuple):
    """Records with offsets ``first`` to ``last``, their number, and their start: ``position`` of ``file``."""

    first: int
    last: int
    records: int
    file: str
    position: int

    def as_details(self, other: str) -> Details:
        return {"firstOffset": self.first, "lastOffset": self.last, "count": self.records, "other": other}


@dataclass(slots=True)
class _Lacking:
    """Ranges that one replica lacks in its middle: ``shown`` ones, and counts of all."""

    shown: list[_Range] = field(default_factory=list)
    ranges: int = 0
    records: int = 0
    is_open: bool = False

    def add(self, found: _Range) -> None:
        self.records += found.records
        if self.is_open:
            if self.ranges <= len(self.shown):
                last = self.shown[-1]
                self.shown[-1] = last._replace(last=found.last, records=last.records + found.records)
            return
        self.is_open = True
        self.ranges += 1
        if len(self.shown) < SHOWN_PER_FILE:
            self.shown.append(found)


class ReplicaComparison:
    """Compares two replicas and reports the differences. ``is_compacted``: whether the log is known to be compacted.

    A is the checked partition, B the other side.
    """

    def __init__(self, a: Replica, b: Replica, is_compacted: bool, report: Report) -> None:
        self.found = Comparison(a.name, b.name)
        self._a, self._b, self._both = a, b, ((a, b), (b, a))
        self._is_compacted = is_compacted
        self._report = report
        self._were_same = False
        self._compared = kernel.RecordComparison(int64s(EVENT_LIMIT * kernel.EVENT_WIDTH))
        self._diverged: _Range | None = None
        self._differing = 0
        self._other_position = ("", 0)

    def run(self) -> Comparison:
        """Reads both sides to their ends."""
        a, b, found = self._a, self._b, self.found
        while not (a.is_at_end or b.is_at_end):
            self._add_damage()
            ours, theirs = a.batch, b.batch
            bounds = (ours.first_offset, ours.last_offset, ours.size)
            if bounds == (theirs.first_offset, theirs.last_offset, theirs.size) and self._same_bytes():
                continue
            if 0 <= ours.last_offset < theirs.first_offset:
                self._only_batch(a, b)
            elif 0 <= theirs.last_offset < ours.first_offset:
                self._only_batch(b, a)
            else:
                self._records()
        for side, other in self._both:
            while not side.is_at_end:
                self._only_batch(side, other)
        self._add_damage()
        self._end_ranges()
        found.last_offsets = (a.last_offset, b.last_offset)
        found.start_offsets = (a.start_offset, b.start_offset)
        self._add_lacking()
        self._add_ends()
        return found

    def _same_bytes(self) -> bool:
        """Skips batches that are equal on both sides, if the next one is. Returns whether it is."""
        a, b = self._a, self._b
        left = min(a.span_left, b.span_left)
        length = equal_bytes(a.read, b.read, left, WINDOW_BYTES if self._were_same else a.batch.size)
        count = a.batches_within(length)
        self._were_same = length == left
        if count == 0:
            return False
        self._end_ranges()
        self.found.same += a.records_in(count)
        if self.found.diverge_at is None:
            self.found.agree_to = a.last_of(count)
        a.step(count)
        b.step(count)
        return True

    def _only_batch(self, side: Replica, other: Replica) -> None:
        """Handles a batch whose offsets do not overlap the other side's current batch."""
        first, last = side.batch.first_offset, side.batch.last_offset
        if count := side.records_in(1):
            self._only(side, other, first if first >= 0 else last, last, count)
        side.step()

    def _records(self) -> None:
        """Compares record by record until both sides are between batches, or one is at its end."""
        a, b = self._a, self._b
        while True:
            mine, other = a.fill(), b.fill()
            if mine is not None and other is not None:
                self._compare(a, mine, b, other)
            elif a.is_between and b.is_between:
                return
            elif a.is_between and a.is_at_end:
                return self._rest(b, a)
            elif b.is_between and b.is_at_end:
                return self._rest(a, b)

    def _rest(self, side: Replica, other: Replica) -> None:
        """Handles the rest of an open batch when the other side is at its end."""
        while (rows := side.fill()) is not None:
            offsets = rows.rows[side.i * ROW_WIDTH + ROW_OFFSET : rows.count * ROW_WIDTH : ROW_WIDTH]
            self._only(side, other, offsets[0], offsets[-1], len(offsets))
            side.i = rows.count

    def _compare(self, a: Replica, mine: Rows, b: Replica, other: Rows) -> None:
        compared, found = self._compared, self.found
        was_diverged = found.diverge_at is not None
        epochs = (a.batch.epoch, b.batch.epoch)
        compared.begin(min(epochs) >= 0 and epochs[0] != epochs[1])
        ours = kernel.Side(mine.payload, mine.rows, mine.headers, mine.count, a.i)
        theirs = kernel.Side(other.payload, other.rows, other.headers, other.count, b.i)
        firsts = (mine.rows[a.i * ROW_WIDTH + ROW_OFFSET], other.rows[b.i * ROW_WIDTH + ROW_OFFSET])
        kernel.compare(ours, theirs, compared)
        for i in range(compared.events):
            kind, first, last, count, fields = compared.event(i)
            if i or first not in firsts:
                self._end_ranges()
            if kind != kernel.DIFFERENT:
                self._only(*self._both[kind != kernel.ONLY_A], first, last, count)
                continue
            found.diverge_at = first if found.diverge_at is None else found.diverge_at
            found.different += count
            if self._diverged is not None and self._differing == fields:
                self._diverged = self._diverged._replace(last=last, records=self._diverged.records + count)
                continue
            self._end_ranges()
            self._differing, self._other_position = fields, (b.path, b.batch.position)
            self._diverged = _Range(first, last, count, a.path, a.batch.position)
        if not compared.is_open:
            self._end_ranges()
        found.same += compared.same
        if not was_diverged and compared.last_same >= 0:
            found.agree_to = compared.last_same
        a.i, b.i = ours.next, theirs.next

    def _only(self, side: Replica, other: Replica, first: int, last: int, count: int) -> None:
        """Adds records that one side has and the other lacks."""
        self._end_ranges(excepted=other)
        if side is self._a:
            self.found.only_here += count
        else:
            self.found.only_there += count
        if other.start_offset is not None and last < other.start_offset:
            return
        if other.is_at_end:
            other.tail += count
        elif not other.was_damaged or 0 <= other.batch.first_offset <= last:
            other.lacking.add(_Range(first, last, count, side.path, side.batch.position))

    def _end_ranges(self, excepted: Replica | None = None) -> None:
        """Ends the current ranges. ``excepted``: the side whose range of lacking records may continue."""
        for side, _ in self._both:
            if side is not excepted:
                side.lacking.is_open = False
        if self._diverged is None:
            return
        found, self._diverged = self._diverged, None
        names = [name for bit, name in enumerate(kernel.FIELD_NAMES) if self._differing >> bit & 1]
        listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        where = f"offset {found.first}" if found.first == found.last else f"offsets {found.first} to {found.last}"
        path, position = self._other_position
        text = f"{where}: {listed} of {_records(found.records)} differ from {path} at position {position}"
        details = found.as_details(path)
        self._report.add("replicas-diverge", found.file, text, found.position, None, found.first, details=details)

    def _add_damage(self) -> None:
        for side, other in self._both:
            side.report_damage(other, self.found, self._report)

    def _add_lacking(self) -> None:
        is_cleaned = self._is_compacted or any(side.holds_gaps for side, _ in self._both)
        for side, other in self._both:
            lacking, path = side.lacking, side.name
            if lacking.ranges and is_cleaned:
                places = plural(lacking.ranges, "range", "ranges")
                text = f"{_records_are(lacking.records, f'in {places} of offsets')} only in the other one"
                self._report.add("replicas-cleaned-apart", path, text, offset=lacking.shown[0].first)
            elif lacking.ranges:
                for gap in lacking.shown:
                    place = f"at {gap.first}" if gap.first == gap.last else f"from {gap.first} to {gap.last}"
                    text = f"{_records_are(gap.records, place)} only in {gap.file}, from position {gap.position} on"
                    details = gap.as_details(other.name)
                    self._report.add("replica-lacks-records", path, text, offset=gap.first, details=details)
                self._report.more("replica-lacks-records", path, lacking.ranges - len(lacking.shown))

    def _add_ends(self) -> None:
        for side, other in self._both:
            path = side.name
            starts = (side.start_offset, other.start_offset)
            if starts[0] is not None and starts[1] is not None and starts[0] > starts[1]:
                text = f"its first segment begins at offset {starts[0]}, that of the other at {starts[1]}"
                self._report.add("replica-starts-later", path, text, offset=starts[0])
            if side.tail:
                text = f"it ends at offset {side.last_offset}, the other at {other.last_offset}"
                text += f" with {_records(side.tail)} more"
                self._report.add("replica-ends-earlier", path, text, offset=side.last_offset + 1)


def _records(count: int) -> str:
    return plural(count, "record", "records")


def _records_are(count: int, place: str) -> str:
    return f"{_records(count)} {place} {'is' if count == 1 else 'are'}"


def compare_path(
    path: str,
    against: str,
    settings: CheckSettings,
    report: Report,
    compared: Callable[[Comparison], None],
    by: tuple[str, ...] = (),
) -> None:
    """Compares the files at ``path`` and ``against``: of log directories the partitions of topics that the settings
    want. ``by``: the fields by which records are matched, by offset if there are none.

    Raises PathError if there are no files of Kafka.
    """
    for here, there in _pairs(path, against, report, settings.remote.wants):
        with ExitStack() as stack:
            ours, theirs = _opened(here, settings, stack), _opened(there, settings, stack)
            if by:
                from kseg.verification.content import ContentComparison  # few comparisons are by content

                compared(ContentComparison(ours, theirs, by, report).run())
            else:
                is_compacted = _is_compacted(here) or _is_compacted(there)
                compared(ReplicaComparison(ours, theirs, is_compacted, report).run())
            report.advance(ours.bytes)


def _pairs(path: str, against: str, report: Report, wants: Callable[[str], bool]) -> list[tuple[str, str]]:
    for each in (path, against):
        if each == "-" or not Place(each).lexists():
            raise PathError(f"{each or repr(each)}: no such file or directory")
    if not Place(path).is_dir() or list_segments(path):
        name = directory_name(path)
        inside = Place(against) / name
        if Place(against).is_dir() and not list_segments(against) and inside.exists():
            against = inside
        return [(path, against)]
    parts, other_parts = _partitions(path, wants), _partitions(against, wants)
    mine, others = ({os.path.basename(part): part for part in some} for some in (parts, other_parts))
    if len(mine) < len(parts) or len(others) < len(other_parts):  # several have one name
        mine = {os.path.relpath(part, path): part for part in parts}
        others = {os.path.relpath(part, against): part for part in other_parts}
    if not mine.keys() & others.keys():
        raise PathError(f"{path} and {against} have no partition in common")
    for name in mine.keys() ^ others.keys():
        present, other = (mine[name], against) if name in mine else (others[name], path)
        report.add("replica-missing", present, f"{other} does not have it")
    return [(mine[name], others[name]) for name in mine if name in others]


def _partitions(path: str, wants: Callable[[str], bool]) -> list[str]:
    """Returns the partitions of a log directory, or of all log directories in a directory."""
    if not Place(path).is_dir():
        return []
    roots = [] if is_log_directory(path) else log_directories_in(path)
    parts = [part for root in roots or [path] for part in list_partitions(root)]
    return [part for part in parts if (name := parse_partition_name(os.path.basename(part))) and wants(name[0])]


def _opened(path: str, settings: CheckSettings, stack: ExitStack) -> Replica:
    """Opens one side, which the stack closes. Raises PathError if it is neither a segment nor a partition."""
    files = [file for file in segments_at(path) if file.kind != CHECKPOINT]
    name = directory_name(path)
    if not files and not (Place(path).is_dir() and parse_partition_name(name)):
        raise PathError(f"{path}: holds no segment")
    replica = Replica(path, files, settings.jobs, settings.max_batch_bytes)
    stack.callback(replica.close)
    return replica


def _is_compacted(path: str) -> bool:
    """Whether the log is known to be compacted: by its topic, or by the cleaner's checkpoint of the log directory."""
    directory = Place(path if Place(path).is_dir() else Place(path).absolute.parent).absolute
    name = parse_partition_name(os.path.basename(directory))
    return name is not None and (
        name[0] in COMPACTED_TOPICS or name in checkpoint_offsets(directory.parent / CLEANER_OFFSETS)
    )
