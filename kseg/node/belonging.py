"""Decides which segments of a partition hold batches of another partition.

Producer snapshots, indexes, sequences of producers, leader epochs, checkpoints, adjacent segments and copies in other
partitions are weighed together. None of them decides alone, because each may be stale or damaged. Evidence that no
other partition has by chance, such as a producer's sequence at an offset, outweighs everything but a copy elsewhere.
"""

import os
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from kseg.errors import KsegError, PathError
from kseg.formats.message_set import MIN_BYTES
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import INDEX, LOG, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from kseg.kernel.layout.headers import CONTROL, ENTRY_OVERHEAD, ENTRY_SIZE, MAGIC_V2
from kseg.kernel.layout.rows import be32
from kseg.kernel.records.records import sequence_after
from kseg.node.log_directory import BrokerState, leader_epochs_at
from kseg.node.node import Nodes
from kseg.segment.files import (
    SegmentFile,
    directory_name,
    file_names,
    list_partitions,
    parse_partition_name,
    segment_file,
    segments_among,
)
from kseg.segment.items import Damage
from kseg.segment.reader import crc_holds
from kseg.segment.survey import FULL, BatchRow, HeaderRows, SegmentSurvey, open_survey
from kseg.sidefiles.checkpoints import LEADER_EPOCHS
from kseg.sidefiles.indexes import EntryFile, OffsetIndex, TimeIndex, TransactionIndex
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import ProducerStateEntry, read_producer_snapshot
from kseg.stores.place import Place
from kseg.stores.source import open_source

_SAMPLED, _FEW_ENTRIES = 1024, 4
"""Limits of the entries of an index that are compared, and of those that show whether a comparison is worth it."""
_MAX_SNAPSHOT_BYTES = 8 << 20
_MAX_PRODUCERS = 100_000
_HEAD_BYTES = 32
"""Bytes of a file by which most others are known to differ: they include the first checksum."""
_HELD = 4096
"""Number of batches that are held to know whether a segment has many gaps."""
_FEW_GAPS, _FEW_BATCHES = 2, 2
"""A single batch may have a wrong offset instead: it is never called another partition's."""
_ENOUGH, _MOST_BY_ONE, _CERTAIN = 4, 3, 8
"""The weight from which on a segment is another partition's; the largest weight of all evidence of a kind in _LIMITED;
the weight of what no other partition has by chance."""

FOREIGN_BATCHES = "foreign-batches"
SNAPSHOTS, INDEXES, SEQUENCES, EPOCHS = "producerSnapshots", "indexes", "sequences", "leaderEpochs"
NEIGHBOURS, CHECKPOINTS, COPIES = "neighbours", "checkpoints", "copies"
_LIMITED, _DECISIVE = frozenset({INDEXES, NEIGHBOURS}), frozenset({SNAPSHOTS, INDEXES, COPIES})


class Evidence(NamedTuple):
    """``weight``: above 0 for what speaks against the segment, below for what speaks for it."""

    kind: str
    weight: int
    text: str


@dataclass(slots=True)
class _Count:
    """How many entries of one source fit the batches, how many contradict them, and the first contradiction."""

    fits: int = 0
    misfits: int = 0
    example: str = ""

    def add(self, fits: bool, example: str = "") -> None:
        if fits:
            self.fits += 1
        else:
            self.misfits += 1
            self.example = self.example or example


_Entries = list[tuple[int, Any]]
"""What side files say about offsets, sorted by offset."""


def _by_offset(entries: Iterable[tuple[int, Any]]) -> _Entries:
    return sorted(entries, key=itemgetter(0))


def _within(entries: _Entries, first: int, last: int) -> _Entries:
    return entries[bisect_left(entries, (first,)) : bisect_left(entries, (last + 1,))]


@dataclass(slots=True)
class WeighedSegment:
    """One file, and what was found in its linked batches, from offset ``first`` to ``last``.

    ``ends_damaged``: whether damage follows the last batch; ``gaps``: how often offsets are missing between or in
    batches; ``firsts``, ``lasts``: each producer's epoch and sequence at its first and last batch. ``copies``: the
    segments of other partitions of the log directory that hold the same bytes.
    """

    file: SegmentFile
    behind: int | None
    size: int = 0
    first: int = -1
    last: int = -1
    batches: int = 0
    records: int = 0
    linked: int = 0
    gaps: int = 0
    ends_damaged: bool = False
    head: tuple[int, int] = (0, 0)
    tail: tuple[int, int] = (0, 0)
    """Positions and sizes of the first and the last batch."""
    evidence: list[Evidence] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    counts: defaultdict[str, _Count] = field(default_factory=lambda: defaultdict(_Count))
    """How well entries fit the batches: by the suffix of their side file, or by the kind of evidence."""
    firsts: dict[int, tuple[int, int]] = field(default_factory=dict)
    lasts: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def base(self) -> int:
        return self.file.base_offset or 0

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def is_sparse(self) -> bool:
        return self.gaps >= _FEW_GAPS and self.gaps * 4 > self.batches

    @property
    def reason(self) -> str:
        """The strongest evidence of up to two kinds, as a sentence."""
        by_kind = {one.kind: one for one in sorted(self.evidence, key=lambda one: one.weight) if one.weight > 0}
        strongest = sorted(by_kind.values(), key=lambda one: (one.kind != COPIES, -one.weight))[:2]
        return "; ".join(one.text for one in strongest)

    def details(self) -> dict[str, Any]:
        return {
            "firstOffset": self.first, "lastOffset": self.last, "batches": self.batches, "records": self.records,
            "evidence": [{"kind": one.kind, "weight": one.weight, "text": one.text} for one in self.evidence],
            "copies": self.copies,
        }  # fmt: skip


class _Sibling:
    """A partition in which copies of segments of others are looked for. Names are kept and no `WeighedSegment`: a log
    directory may have 100,000 segments."""

    def __init__(self, path: str) -> None:
        self.path = path
        files = _logs_among(path, file_names(path))
        self.names, self.bases = [file.name for file in files], [file.base_offset or 0 for file in files]
        self.weighed: dict[int, int | None] = {}
        """What `at_home` returned, by the index of the segment."""

    def at(self, offset: int) -> int:
        """Returns the index of the segment whose name allows the offset, -1 if there is none."""
        return bisect_right(self.bases, offset) - 1

    def file(self, i: int) -> str:
        return Place(self.path) / self.names[i]

    def behind(self, i: int) -> int | None:
        return self.bases[i + 1] if i + 1 < len(self.bases) else None

    def at_home(self, i: int, scratch: Scratch) -> int | None:
        """As `_Partition.at_home`, asked once. Raises PathError."""
        if i not in self.weighed:
            segment = WeighedSegment(segment_file(self.file(i)), self.behind(i))
            self.weighed[i] = _Partition(self.path, BrokerState(), scratch, Siblings()).at_home(segment)
        return self.weighed[i]


class Siblings:
    """The partitions of log directories: the segments of all that are searched for foreign batches in one run are
    compared with them, but each of their files is listed, read and weighed only once."""

    def __init__(self) -> None:
        self._partitions, self._sibling, self._digest = cache(list_partitions), cache(_Sibling), cache(_digest)

    def beside(self, own: tuple[str, int], root: str) -> Iterator[_Sibling]:
        """Yields the partitions of a directory that have another name. Raises PathError."""
        for path in self._partitions(root):
            if parse_partition_name(os.path.basename(path)) != own:
                yield self._sibling(path)

    def holds(self, path: str, segment: WeighedSegment, *ranges: tuple[int, int]) -> bool:
        """Whether a file has the same bytes as a segment at these positions and sizes. Where the first ones differ, as
        in almost all files, only these are read; where they do not, a digest of each range is kept, so that equal
        segments of n partitions are read n times and not n * n."""
        position, size = ranges[0]
        return all(
            (here := self._digest(segment.path, *each)) is not None and here == self._digest(path, *each)
            for each in ((position, min(size, _HEAD_BYTES)), *ranges)
        )


def _digest(path: str, position: int, size: int) -> bytes | None:
    """Returns the SHA-256 of a range of a file, None if it cannot be read."""
    with suppress(PathError, OSError), open_source(path) as source:
        if position + size <= source.size:
            return sha256(source.buffer[position : position + size]).digest()
    return None


def foreign_segments(
    directory: str,
    broker: BrokerState | None = None,
    scratch: Scratch | None = None,
    siblings: Siblings | None = None,
) -> list[WeighedSegment]:
    """Returns the segments of a partition directory whose batches belong to another partition. ``broker``: the state of
    the partition, None to read it; ``siblings``: for several partitions that nothing changes meanwhile. Unreadable
    files say nothing."""
    try:
        if broker is None:
            broker = Nodes().partition(directory).state
        return _Partition(directory, broker, scratch or Scratch(), siblings or Siblings()).foreign()
    except (KsegError, OSError):
        return []  # that a file cannot be read is reported where it is checked


class _Partition:
    def __init__(self, directory: str, broker: BrokerState, scratch: Scratch, siblings: Siblings) -> None:
        self._directory, self._broker, self._scratch, self._siblings = directory, broker, scratch, siblings
        self._names = file_names(directory)
        files = _logs_among(directory, self._names)
        self._end = broker.recovery_point if broker.was_clean else None
        """The log end that a clean stop has recorded."""
        behind: list[int | None] = [file.base_offset for file in files[1:]]
        self._segments = [WeighedSegment(*pair) for pair in zip(files, [*behind, self._end], strict=False)]
        self._listed: dict[int, dict[int, int]] = {}
        """The last offset of each producer, by the offset of the snapshot."""

    def foreign(self) -> list[WeighedSegment]:
        for segment in self._segments:
            self._walk(segment)
        self._compare_sequences()
        found = []
        for segment in self._segments:
            if not segment.linked:
                continue
            evidence = segment.evidence = [*self._of_side_files(segment), *self._of_neighbours(segment)]
            if any(one.weight > 0 for one in evidence):
                segment.copies = self._copies(segment)
            if segment.copies:
                text = f"the same bytes are in {segment.copies[0]}, between segments that they fit"
                evidence.append(Evidence(COPIES, 3, text))
            if _is_foreign(evidence) and (segment.linked >= _FEW_BATCHES or segment.copies):
                found.append(segment)
        return found

    # Reading. Side files only if a segment is walked: most partitions are only searched for copies.

    @cached_property
    def _marks(self) -> _Entries:
        """Returns the last batches of producers by offset, from the newest readable snapshots."""
        found, seen, left = list[tuple[int, ProducerStateEntry]](), set[tuple[int, ...]](), _MAX_SNAPSHOT_BYTES
        for name in sorted((name for name in self._names if name.endswith(SNAPSHOT)), reverse=True):
            path = Place(self._directory) / name
            with suppress(PathError, OSError), open_source(path) as source:
                left -= source.size
                if left < 0:
                    break
                items = list(read_producer_snapshot(bytes(source.buffer[: source.size])))
                entries = [] if problems_of(items) else entries_of(items)
                self._listed[segment_file(name).base_offset or 0] = {
                    one.producer_id: one.last_offset for one in entries
                }
                for entry in entries:
                    if entry.has_batch and entry.last_sequence >= 0 and entry[:5] not in seen:
                        seen.add(entry[:5])
                        found.append((entry.last_offset, entry))
        return _by_offset(found)

    @cached_property
    def _epochs(self) -> _Entries:
        return [(start, epoch) for epoch, start in leader_epochs_at(self._directory)]

    def _walk(self, segment: WeighedSegment) -> None:
        with open_survey(segment.path, FULL, scratch=self._scratch, base_offset=segment.base) as survey:
            segment.size = survey.source.size
            if not segment.size:
                return
            offsets = _sampled(segment.file, INDEX, OffsetIndex)
            by_position = _by_offset((entry.position, entry.offset) for entry in offsets if entry.position > 0)
            times = _by_offset(
                (entry.offset, entry.timestamp) for entry in _sampled(segment.file, TIME_INDEX, TimeIndex)
            )
            aborted = _sampled(segment.file, TRANSACTION_INDEX, TransactionIndex)
            markers = _by_offset((entry.last_offset, entry.producer_id) for entry in aborted)
            for batch in self._linked_batches(survey, segment):
                self._compare(segment, batch, by_position, times, markers)

    def _linked_batches(self, survey: SegmentSurvey, segment: WeighedSegment) -> Iterator[BatchRow]:
        """Yields the intact batches that continue the batch before or lead on to the next one, with a record for each
        offset; in a segment with many gaps, those that rise. The offsets of any other batch may be wrong, also of one
        that overlaps the next batch or segment."""
        batches = self._intact_batches(survey, segment)

        def links(one: BatchRow | None, two: BatchRow | None) -> bool:
            if one is None or two is None:
                return False
            return two.first_offset == one.last_offset + 1 or (segment.is_sparse and two.first_offset > one.last_offset)

        while held := list(islice(batches, _HELD)):
            for before, batch, behind in zip([None, *held], held, [*held[1:], None], strict=False):
                stop = segment.behind if behind is None else behind.first_offset
                is_linked = links(before, batch) or links(batch, behind)
                is_linked &= stop is None or not batch.first_offset < stop <= batch.last_offset
                is_filled = batch.records < 0 or batch.last_offset - batch.first_offset + 1 == batch.records
                if (is_linked and (is_filled or segment.is_sparse)) or segment.batches == 1:
                    yield batch

    def _intact_batches(self, survey: SegmentSurvey, segment: WeighedSegment) -> Iterator[BatchRow]:
        """Yields the batches with a right checksum, after counting them."""
        reached: int | None = None
        for item in survey:
            if isinstance(item, Damage):
                segment.ends_damaged = True
            elif isinstance(item, HeaderRows):
                for batch in _intact(item):
                    segment.ends_damaged = False
                    segment.batches += 1
                    segment.records += max(batch.records, 1)
                    segment.gaps += 0 <= batch.records <= batch.last_offset - batch.first_offset
                    segment.gaps += reached is not None and batch.first_offset > reached + 1
                    reached = batch.last_offset
                    yield batch

    def _compare(
        self, segment: WeighedSegment, batch: BatchRow, positions: _Entries, times: _Entries, markers: _Entries
    ) -> None:
        """Compares one batch with the entries about its bytes and offsets."""
        position, size, producer = batch.position, batch.size, batch.producer_id
        first, last = batch.first_offset, batch.last_offset
        if not segment.linked:
            segment.first, segment.head = first, (position, size)
        segment.linked += 1
        segment.last, segment.tail = max(segment.last, last), (position, size)
        for at, offset in _within(positions, position, position + size - 1):
            if at != position or offset < first:
                segment.counts[INDEX].add(False, f"position {at} for offset {offset}")
            elif offset in (first, last):
                segment.counts[INDEX].add(True)
        for offset, timestamp in _within(times, first, last):
            segment.counts[TIME_INDEX].add(
                timestamp == batch.max_timestamp, f"timestamp {timestamp} at offset {offset}"
            )
        is_marker = bool(batch.attributes & CONTROL)
        for offset, aborter in _within(markers, first, last):
            fits = is_marker and (offset, aborter) == (last, producer)
            segment.counts[TRANSACTION_INDEX].add(
                fits, f"the end of a transaction of producer {aborter} at offset {offset}"
            )
        for offset, mark in _within(self._marks, first, last):
            if is_marker and mark.producer_id == producer:
                continue  # 0.11 stored a marker's offset
            known = (mark.producer_id, mark.producer_epoch, mark.last_sequence, offset)
            fits = known == (producer, batch.producer_epoch, sequence_after(batch.base_sequence, last - first), last)
            if not fits or mark.timestamp == batch.max_timestamp:  # the cleaner may have changed the timestamp
                segment.counts[SNAPSHOTS].add(
                    fits, f"a batch of producer {mark.producer_id} that ends at offset {offset}"
                )
        if self._epochs and batch.epoch >= 0 and first >= self._epochs[0][0]:
            epoch = self._epochs[bisect_right(self._epochs, (first, 1 << 62)) - 1][1]
            text = f"leader epoch {epoch} for offset {first}, whose batch has {batch.epoch}"
            segment.counts[EPOCHS].add(epoch == batch.epoch, text)
        if producer >= 0 and batch.base_sequence >= 0 and len(segment.lasts) < _MAX_PRODUCERS:
            segment.firsts.setdefault(producer, (batch.producer_epoch, batch.base_sequence))
            end = sequence_after(batch.base_sequence, last - first)
            segment.lasts[producer] = (batch.producer_epoch, end)

    def _compare_sequences(self) -> None:
        """Compares the sequences of producers from segment to segment, by offset."""
        seen: dict[int, tuple[int, int, WeighedSegment]] = {}
        for segment in sorted((one for one in self._segments if one.linked), key=lambda one: one.first):
            for producer, (epoch, sequence) in segment.firsts.items():
                before = seen.get(producer)
                if before is None or epoch > before[0] or sequence == 0:
                    continue
                continues = epoch == before[0] and sequence == sequence_after(before[1], 1)
                is_lower = epoch < before[0] or sequence <= before[1]
                if continues or is_lower or before[2].last + 1 == segment.first:
                    text = f"sequence {sequence} of producer {producer} follows {before[1]}"
                    segment.counts[SEQUENCES].add(continues, text)
                    before[2].counts[SEQUENCES].add(continues, text)
            seen |= {producer: (*last, segment) for producer, last in segment.lasts.items()}

    def _of_side_files(self, segment: WeighedSegment) -> Iterator[Evidence]:
        yield from _weighed(SNAPSHOTS, segment.counts[SNAPSHOTS], 5, _CERTAIN, "producer snapshots have")
        behind = segment.behind
        if behind is not None and segment.lasts and not segment.counts[SNAPSHOTS].fits:
            # Whether the snapshot of the segment's end has producers with batches in it, but none of those in the file.
            listed = self._listed.get(behind, {})
            here = [producer for producer, last in listed.items() if segment.base <= last < behind]
            if here and not segment.lasts.keys() & listed.keys():
                one = here[0]
                text = f"the producer snapshot of offset {behind} has producer {one}, and none of those in the segment"
                yield Evidence(SNAPSHOTS, 2, text)
        stem = segment.file.name.removesuffix(LOG)
        for suffix, support in ((INDEX, 2), (TIME_INDEX, 4), (TRANSACTION_INDEX, 4)):
            yield from _weighed(INDEXES, segment.counts[suffix], 2, support, f"{stem}{suffix} has")
        sequences, epochs = segment.counts[SEQUENCES], segment.counts[EPOCHS]
        if sequences.fits:
            yield Evidence(SEQUENCES, -2, "producers continue in it or behind it")
        elif sequences.misfits:
            yield Evidence(SEQUENCES, 1, sequences.example)
        if epochs.misfits > epochs.fits:
            yield Evidence(EPOCHS, 1, f"{LEADER_EPOCHS} has {epochs.example}")

    def _of_neighbours(self, segment: WeighedSegment) -> Iterator[Evidence]:
        """Yields what names and ends of adjacent segments, and the checkpoints, say about the segment's offsets."""
        others = [one for one in self._segments if one is not segment and one.linked]
        first, last, behind = segment.first, segment.last, segment.behind
        follows = any(one.last + 1 == first for one in others)
        leads_on = any(one.first == last + 1 for one in others)
        if (follows and leads_on) or (first == segment.base and last + 1 == behind):
            yield Evidence(NEIGHBOURS, -4, f"offsets {first} to {last} are those between its neighbours")
        elif follows or leads_on:
            yield Evidence(NEIGHBOURS, -1, f"an adjacent segment {'ends before' if follows else 'begins behind'} it")
        rivals = [one for one in others if one.first <= last and first <= one.last]
        if any(self._siblings.holds(one.path, segment, segment.head) for one in rivals):
            yield Evidence(NEIGHBOURS, -_CERTAIN, "another segment of the partition has the same bytes")
        elif rivals:
            yield Evidence(NEIGHBOURS, 1, f"offsets {first} to {last} overlap those in {rivals[0].file.name}")
        home = next((one for one in reversed(self._segments) if one.base <= first), segment)
        if home is not segment and ((first == home.base and first) or last + 1 == home.behind):
            yield Evidence(NEIGHBOURS, -4, f"its batches fit the name {home.file.name}")
        is_compacted = self._broker.is_compacted
        may_be_cleaned = segment.is_sparse if is_compacted is None else is_compacted
        if first < segment.base or (first > segment.base and not may_be_cleaned):
            weight = 2 if first < segment.base else 1
            yield Evidence(NEIGHBOURS, weight, f"its batches begin at offset {first}, its name says {segment.base}")
        is_end = segment is self._segments[-1]
        kind, end = (CHECKPOINTS, "the log ended") if is_end else (NEIGHBOURS, "the next segment begins")
        may_be_cut = may_be_cleaned or segment.ends_damaged
        if behind is not None and (last >= behind or (last + 1 < behind and not may_be_cut)):
            weight = 2 if last >= behind else 1
            yield Evidence(kind, weight, f"its batches end at offset {last}, {end} at {behind}")
        elif is_end and (self._broker.high_watermark or 0) > last + 1 and not may_be_cut:
            yield Evidence(CHECKPOINTS, 1, f"its batches end at offset {last}, below the high watermark")

    def _copies(self, segment: WeighedSegment) -> list[str]:
        """Returns the segments of other partitions beside this one that hold the same batches, and whose side files and
        next segment they fit as well as those here. In a copy of a whole partition, they prove nothing."""
        own = parse_partition_name(directory_name(self._directory))
        root = Place(self._directory).without_slash.parent or Place(self._directory).absolute.parent
        if own is None or Place(self._directory).tree is not None:
            return []
        here = sum(one.weight for one in self._of_side_files(segment))
        known = [one for one in self._segments if one.linked]
        found = []
        for other in self._siblings.beside(own, root):
            i = other.at(segment.first)
            if i < 0 or not (other.behind(i) == segment.last + 1 or _has_size(other.file(i), segment.size)):
                continue
            if not self._siblings.holds(other.file(i), segment, segment.head, segment.tail):
                continue
            if self._is_copied_to(other):
                continue
            there = other.at_home(i, self._scratch)
            # If it is all that can be read here, and has the same name there, only side files can tell.
            is_alike = len(known) == 1 and other.bases[i] == segment.base
            if there is not None and (there < here or (there == here and not is_alike)):
                found.append(other.file(i))
        return found

    def _is_copied_to(self, other: _Sibling) -> bool:
        """Whether a partition has copies of most segments of this one, under the same names."""
        known = [one for one in self._segments if one.linked]
        named = [(one, i) for one in known if (i := other.at(one.base)) >= 0 and other.bases[i] == one.base]
        same = sum(self._siblings.holds(other.file(i), one, one.head) for one, i in named)
        return same * 2 > len(known) > 1

    def at_home(self, segment: WeighedSegment) -> int | None:
        """Returns what its own side files weigh against a segment; None if its batches do not end before the next."""
        self._walk(segment)
        if segment.behind is not None and segment.last >= segment.behind:
            return None
        return sum(one.weight for one in self._of_side_files(segment))


def _logs_among(directory: str, names: Iterable[str]) -> list[SegmentFile]:
    listed = segments_among(directory, names)
    return [file for file in listed if file.kind == LOG and file.base_offset is not None]


def _weighed(kind: str, count: _Count, against: int, support: int, said: str) -> Iterator[Evidence]:
    """Yields the evidence of entries. The time of an entry may fit by chance, and some entries of any file be stale."""
    total = count.fits + count.misfits
    if count.fits > count.misfits:
        weight = support if count.fits > 1 else support // 2
        yield Evidence(kind, -weight, f"{said} {count.fits} of {total} entries that fit its batches")
    elif not count.fits and count.misfits:
        weight = against if count.misfits > 1 else (against + 1) // 2
        yield Evidence(kind, weight, f"{said} {count.example}; none of {total} entries fits its batches")


def _is_foreign(evidence: Sequence[Evidence]) -> bool:
    """Whether more speaks against a segment than for it: besides indexes, which may all be stale, and besides offsets
    and sequences, which do not fit either after a truncation or if batches are there twice."""
    against = {one.kind for one in evidence if one.weight > 0}
    if COPIES in against and against & {NEIGHBOURS, CHECKPOINTS}:
        return True
    by_kind = dict.fromkeys(against, 0)
    for one in evidence:
        by_kind[one.kind] = by_kind.get(one.kind, 0) + one.weight
    weight = sum(min(weight, _MOST_BY_ONE) if kind in _LIMITED else weight for kind, weight in by_kind.items())
    return bool(against - {INDEXES}) and bool(against & _DECISIVE) and weight >= _ENOUGH


def _intact(headers: HeaderRows) -> Iterator[BatchRow]:
    """Yields the batches with a right checksum. One without a first offset in its header begins at its last offset."""
    for row in headers:
        if row.has_right_crc and row.magic >= MAGIC_V2:
            yield row
        elif row.has_right_crc:
            first = row.first_offset if row.first_offset >= 0 else row.last_offset
            yield row._replace(first_offset=first, producer_id=-1)


def _sampled(file: SegmentFile, suffix: str, kind: type[EntryFile[Any]], limit: int = _SAMPLED) -> list[Any]:
    """Returns entries of one of the indexes of a .log, evenly spread."""
    path = Place(file.path).with_ending(LOG, suffix)
    with suppress(PathError, OSError), open_source(path) as source:
        entries = kind(source.buffer, file.base_offset or 0)
        source.expect_jumps(True)
        step = max(len(entries) // limit, 1)
        return [entries[i] for i in range(0, len(entries), step)]
    return []


def index_fits(log: str) -> bool:
    """Whether an intact batch begins at the positions of a few entries of a .log's index; true without an index."""
    with suppress(PathError, OSError), open_source(log) as source:
        for entry in _sampled(segment_file(log), INDEX, OffsetIndex, _FEW_ENTRIES):
            position = entry.position
            if position + MIN_BYTES <= source.size:
                head = bytes(source.buffer[position : position + MIN_BYTES])
                end = position + be32(head, ENTRY_SIZE) + ENTRY_OVERHEAD
                if not (position + MIN_BYTES <= end <= source.size and crc_holds(source.buffer, position, end)):
                    return False
    return True


def _has_size(path: str, size: int) -> bool:
    with suppress(OSError):
        return Place(path).size() == size
    return False
