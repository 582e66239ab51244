"""Classifies missing offsets of a partition: lost, removed by a salvage, or by the log cleaner, and what stops it."""

import math
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

from kseg.errors import KsegError
from kseg.findings.table import ERROR, INFO, KINDS, WARNING
from kseg.formats.suffixes import INDEX, LOG, TIME_INDEX
from kseg.kernel.layout.headers import CONTROL, MAGIC_V2
from kseg.kernel.layout.rows import CRC_RIGHT, NULL_KEYS
from kseg.kernel.scan.headers import Chain
from kseg.segment.files import LAST_OFFSET, segment_stem
from kseg.segment.items import Batch, Damage
from kseg.segment.reader import open_segment
from kseg.segment.survey import DEEP, BatchProblem, BatchRow, HeaderRows, cleaner_reach
from kseg.stores.archives.forms import PACKED_SUFFIXES
from kseg.stores.place import Place
from kseg.stores.source import open_source
from kseg.verification.partition import CheckedSegment, PartitionCheck, Rule

_FIRST_OF_SEGMENT = {
    "cleaner-hides-damage": "the first batch of this segment with a wrong checksum: the cleaner gives it a valid one",
    "record-without-key": "the first batch of this segment with a record that has no key",
}


class CleanerRule(Rule):
    """Finds batches of a compacted partition that stop the log cleaner, or make it remove too much: if the topic's
    policy, its name or the cleaner's checkpoint shows that it is compacted. The active segment is never cleaned.

    Sources: Cleaner, LogCleaner, LogToClean and MemoryRecords.filterTo of Kafka 4.3.1.
    """

    def __init__(self, partition: PartitionCheck) -> None:
        super().__init__(partition)
        self._is_cleaned = bool(partition.broker.is_compacted) or partition.broker.cleaner_offset is not None
        self._reported: set[str] = set()
        """Codes reported for the current segment."""
        self._first_empty: tuple[str, BatchRow] | None = None
        self._empty = self._erased = 0

    def begin(self, segment: CheckedSegment) -> None:
        self._reported.clear()

    def headers(self, segment: CheckedSegment, headers: HeaderRows) -> None:
        if segment.file.kind == LOG and 0 in (records := headers.records):
            self._note_empty(segment, headers, records)
        if not self._is_cleaned or segment.is_last or not (segment.is_damaged or self.partition.settings.level == DEEP):
            return
        for i, state in enumerate(headers.states):
            if not state & CRC_RIGHT:
                self._add("cleaner-hides-damage", segment, headers[i])
            elif state & NULL_KEYS and not headers[i].attributes & CONTROL:
                self._add("record-without-key", segment, headers[i])

    def _note_empty(self, segment: CheckedSegment, headers: HeaderRows, records: Sequence[int]) -> None:
        for batch in (headers[i] for i, count in enumerate(records) if not count):
            if batch.magic < MAGIC_V2 or batch.attributes & CONTROL or not batch.has_right_crc:
                continue
            if known := self.partition.accepted_gaps:
                missing = batch.last_offset - batch.first_offset + 1
                self._erased += known.missing_in(batch.first_offset, batch.last_offset) == missing
            self._empty += 1
            self._first_empty = self._first_empty or (segment.path, batch)

    def finish(self) -> None:
        if self._first_empty is None:
            return
        path, batch = self._first_empty
        more = f"; {self._empty - 1} more of them in the partition" if self._empty > 1 else ""
        text = f"offsets {batch.first_offset} to {batch.last_offset}: old clients have to seek to "
        text += f"{batch.last_offset + 1}{more}"
        is_odd = self.partition.broker.is_compacted is False and self.partition.broker.cleaner_offset is None
        is_odd &= self._erased < self._empty
        details = {"firstMissing": batch.first_offset, "lastMissing": batch.last_offset, "count": self._empty}
        self.report.add(
            "batch-without-records", path, text, batch.position, batch.size, batch.first_offset,
            severity=None if is_odd else INFO, details=details,
        )  # fmt: skip

    def _add(self, code: str, segment: CheckedSegment, batch: BatchRow) -> None:
        """Reports one finding per segment and code, at the first batch; the others are only counted."""
        if code in self._reported:
            self.report.more(code, segment.path, 1)
        else:
            self._reported.add(code)
            offset = batch.first_offset if batch.first_offset >= 0 else batch.last_offset
            self.report.add(code, segment.path, _FIRST_OF_SEGMENT[code], batch.position, batch.size, offset)

    def damage(self, segment: CheckedSegment, damage: Damage) -> None:
        self._block(segment, damage.code, "at", damage.position)

    def problem(self, segment: CheckedSegment, problem: BatchProblem) -> None:
        if problem.code == "undecodable-records":
            self._block(segment, problem.code, "in the batch at", problem.position)

    def _block(self, segment: CheckedSegment, code: str, place: str, position: int) -> None:
        if self._is_cleaned and not segment.is_last and not self.partition.cleaner_obstacle:
            self.partition.cleaner_obstacle = f"{code} in {segment.file.name}"
            self.report.add("cleaner-blocked", segment.path, f"{code} {place} byte {position}", position)


MANY_GAPS, BATCHES_A_GAP = 8, 4
"""A segment with at least this many gaps, and at least one per so many batches, was cleaned rather than damaged."""


_ENTRY_BYTES = 12
"""The size of the largest entry of an index."""


def shows_cleaning(partition: PartitionCheck) -> bool:
    """Whether there are segments that only the cleaner leaves: next to their older version, or empty."""
    if _was_replaced(partition):
        return True
    for segment in partition.segments:
        if not segment.size and not segment.is_last:  # a broker rolls no empty segment
            with suppress(OSError):
                if not any(Place(segment.beside(suffix)).status().st_size for suffix in (INDEX, TIME_INDEX)):
                    return True
    return False


def _was_replaced(partition: PartitionCheck) -> bool:
    """Whether a segment has an older version, with the same base offset, that was marked as deleted."""
    return any(f"{segment.file.name}.deleted" in partition.names for segment in partition.segments)


def lost_segments(partition: PartitionCheck) -> list[CheckedSegment]:
    """Returns the closed segments that are empty although an index has entries: it was not the cleaner that emptied
    them, because it writes new indexes."""
    found = []
    for segment in partition.segments:
        for suffix in () if segment.is_last or segment.size or segment.is_unread else (INDEX, TIME_INDEX):
            with suppress(KsegError), open_source(segment.beside(suffix)) as source:
                if any(bytes(source.buffer[: min(source.size, _ENTRY_BYTES)])):  # zeros are space for entries
                    found.append(segment)
                    break
    return found


def batches_of(partition: PartitionCheck, before: int = LAST_OFFSET) -> Iterator[Batch]:
    """Yields the batches of segments that begin before an offset, whether valid or not."""
    scratch = partition.buffers.scratch
    for segment in partition.segments:
        if segment.path == "-" or segment.is_unread or segment.file.kind != LOG or (segment.base_offset or 0) >= before:
            continue
        try:
            with open_segment(segment.path, scratch) as reader:
                yield from (item for item in reader if not isinstance(item, Damage))
        except (KsegError, OSError):
            continue  # errors of the file were reported when it was checked


Range = tuple[int, int]
"""First and last offset."""


class Outlook(NamedTuple):
    """What a salvage of a damaged partition restores; only the rest is lost: the offset after its last batch, and the
    offsets before it that no batch has.

    ``has_cuts``: some damaged bytes are cut out, not mended; ``sources``: path, first and last offset of what each file
    gives to a segment.
    """

    next_offset: int
    missing: list[Range]
    has_cuts: bool
    sources: list[tuple[str, int, int]]

    def still_missing(self, first: int, last: int) -> Range | None:
        """Returns the smallest range with all offsets of a range that stay missing, None if there are none."""
        found = [(max(first, a), min(last, b)) for a, b in self.missing if a <= last and first <= b]
        if last >= self.next_offset:
            found.append((max(first, self.next_offset), last))
        return (min(a for a, _ in found), max(b for _, b in found)) if found else None


NOTHING_RESTORED = Outlook(0, [], True, [])


def outlook_of(partition: PartitionCheck) -> Outlook:
    """Returns the outlook for a partition, or for a single file of one. It is computed once."""
    if partition.outlook is None:
        try:
            partition.outlook = _outlook(partition)
        except (KsegError, OSError):
            partition.outlook = NOTHING_RESTORED
    return partition.outlook


def _outlook(partition: PartitionCheck) -> Outlook:
    from kseg.recovery.options import BrokerStart
    from kseg.recovery.salvage.salvage import forecast_salvage  # few partitions are damaged
    from kseg.recovery.salvage.segment_scan import scan_segment

    segments = partition.segments
    if partition.directory is None or partition.settings.is_live or any(segment.file.is_07 for segment in segments):
        return NOTHING_RESTORED
    if not partition.is_whole:
        name, base = segments[0].file.name, segments[0].base_offset or 0
        if name.partition(".")[0] != segment_stem(base) or name.endswith(PACKED_SUFFIXES):
            # No salvage of its directory takes the file for a segment.
            with open_source(segments[0].path) as source:
                found = scan_segment(source, base, None, partition.buffers.scratch, partition.settings.jobs)
            ends = [(base, base), *((part.first, part.last + 1) for part in found.parts)]
            holes = [(end, first - 1) for (_, end), (first, _) in pairwise(ends) if end < first]
            return Outlook(ends[-1][1], holes, bool(found.cuts), [])
    start = BrokerStart(log_start_offset=partition.broker.log_start_offset or 0, jobs=partition.settings.jobs)
    return Outlook(*forecast_salvage(partition.directory, start, partition.buffers.scratch))


TRUNCATED, UNEXPLAINED, SALVAGED, COMPACTED = "gap-truncated", "gap-unexplained", "gap-salvaged", "gap-compacted"
_CLASSES = {
    TRUNCATED: "damaged", UNEXPLAINED: "lost", SALVAGED: "salvaged", COMPACTED: "compacted", "gap-control": "compacted",
    "gap-aborted": "compacted",
}  # fmt: skip
"""The class of missing offsets, by code."""


class Gap(NamedTuple):
    """Missing offsets ``first`` to ``last`` before the batch at ``position``; ``code``: that of its reason, if
    known."""

    file: str
    position: int
    first: int
    last: int
    code: str | None

    @property
    def missing(self) -> int:
        return self.last - self.first + 1

    @property
    def range(self) -> tuple[int, int]:
        return self.first, self.last


class Gaps:
    """The gaps of a partition; they are classified when the whole partition was read.

    ``misplaced``: ranges of offsets whose records were found in a wrong place.
    """

    def __init__(self, partition: PartitionCheck) -> None:
        self._partition = partition
        self._report = partition.report
        self.found: list[Gap] = []
        self.misplaced: list[Range] = []
        self._further: list[tuple[int, int, int, int]] = []
        """First offset, last offset, missing offsets and uncounted gaps of each segment that has uncounted gaps."""
        self._are_scattered = False
        """Whether a segment has so many gaps that it looks compacted."""

    def add_segment(self, state: Chain, gaps: int, uncounted: int) -> None:
        """Adds the totals of a segment. ``gaps``: the number of its gaps; ``uncounted``: of those that are not in
        ``found``."""
        if gaps >= MANY_GAPS and gaps * BATCHES_A_GAP >= state.batches:
            self._are_scattered = True
        if uncounted:
            self._further.append((max(state.base, 0), state.last_offset, state.missing, uncounted))

    def add_findings(self) -> None:
        """Adds a finding for each gap of lost records, and one for all other gaps of a segment with the same code."""
        for first, last in self.misplaced:
            self.found = [gap for gap in self.found if gap.first < first or last < gap.last]
        if not self.found:
            return  # the partition may have no segments
        log_start, end = self._partition.broker.log_start_offset or 0, self._partition.segments[-1].next_offset
        if log_start <= (end or 0):  # below the log start offset, records were deleted
            self.found = [gap._replace(first=max(gap.first, log_start)) for gap in self.found]
        self.found = [gap for gap in self.found if gap.missing > 0]
        if not self.found:
            return
        if any(gap.code == TRUNCATED for gap in self.found) and not outlook_of(self._partition).has_cuts:
            self.found = [gap._replace(code=None) if gap.code == TRUNCATED else gap for gap in self.found]
        report, accepted = self._report, self._accepted()
        # The cleaner never changes the active segment.
        active_start = (self._partition.segments[-1].base_offset or 0) if self._partition.is_whole else math.inf
        open_gaps = [gap for gap in self.found if gap.code != TRUNCATED and gap.range not in accepted]
        of_cleaner = self._are_of_cleaner(open_gaps)
        # After this offset no gap is the cleaner's: by the keys of a compacted log, else that of the last gap.
        reach = max((gap.first for gap in open_gaps), default=0)
        if self._partition.settings.level == DEEP and self._partition.is_compacted:
            reach = cleaner_reach(batches_of(self._partition, reach), reach)
        lost = {segment.base_offset or 0: segment for segment in lost_segments(self._partition)}
        explained: dict[tuple[str, str], list[Gap]] = defaultdict(list)
        held = self._partition.held_elsewhere
        for gap in self.found:
            code, severity, emptied = gap.code, None, None
            if gap.range in accepted:
                code = SALVAGED
            elif code != TRUNCATED:
                is_explained = of_cleaner and gap.first <= reach
                emptied = next((lost[base] for base in lost if gap.first <= base <= gap.last), None)
                code = UNEXPLAINED if emptied or not is_explained else code or COMPACTED
            if code not in (TRUNCATED, UNEXPLAINED):
                explained[gap.file, code].append(gap)
                continue
            if code == TRUNCATED or of_cleaner is not None:
                outlook = outlook_of(self._partition)
                for path, first, last in outlook.sources if code == UNEXPLAINED else ():
                    if first <= gap.last and gap.first <= last:
                        held.append((os.path.basename(path), max(first, gap.first), min(last, gap.last)))
                missing_after = outlook.still_missing(gap.first, gap.last)
                if missing_after is None:
                    continue
                gap = gap._replace(first=missing_after[0], last=missing_after[1])
            text = f"offsets {gap.first} to {gap.last} are missing ({gap.missing})"
            if code == UNEXPLAINED and emptied is not None:
                text = f"{text}; {emptied.file.name} is empty, and its indexes have entries"
            elif code == UNEXPLAINED and of_cleaner:
                text = f"{text}; not by the cleaner: offset {reach} has no key, or that of an earlier record"
            elif code == TRUNCATED and any(KINDS[ignored].is_cut for ignored in report.ignored):
                severity = ERROR  # nothing else tells of the damage
            elif code == UNEXPLAINED and of_cleaner is None and gap.first < active_start:
                severity, text = WARNING, f"{text}, lost or removed by the cleaner; the files do not show which"
            details = _details(code, gap.first, gap.last, gap.missing)
            report.add(code, gap.file, text, gap.position, offset=gap.first, severity=severity, details=details)
        for (file, code), gaps in explained.items():
            missing = sum(gap.missing for gap in gaps)
            text = f"gaps: {len(gaps)}, offsets missing in them: {missing}"
            details = _details(code, gaps[0].first, gaps[-1].last, missing, gaps=len(gaps))
            report.add(code, file, text, gaps[0].position, offset=gaps[0].first, details=details)
        for base, _, _, count in () if of_cleaner else self._further:
            severity = WARNING if of_cleaner is None and base < active_start else None
            report.more(UNEXPLAINED, self._partition.name, count, severity)

    def _are_of_cleaner(self, gaps: list[Gap]) -> bool | None:
        """Whether the log cleaner made these gaps and the uncounted ones, None if that is unknown."""
        partition = self._partition
        if partition.is_compacted or not (gaps or self._further):
            return True
        last = max(gap.first for gap in gaps or self.found)  # where the last gap begins
        if cleaner_reach(batches_of(partition, last), last) < last:
            return False
        if self._are_scattered or _was_replaced(partition):
            partition.holds_gaps = True
            return True
        # A broker that has cleaned a log has a checkpoint for it; one that knows the topic has its policy.
        if partition.broker.is_known:
            return False
        partition.holds_gaps = shows_cleaning(partition)
        return partition.holds_gaps or None

    def _accepted(self) -> set[tuple[int, int]]:
        """Returns the gaps that were accepted with an earlier salvage, conversion or erasure."""
        partition = self._partition
        if not (known := partition.accepted_gaps):
            return set()
        start = max(partition.segments[0].base_offset or 0, partition.broker.log_start_offset or 0)
        found = known.among([gap.range for gap in self.found], start)
        if all(gap.range in found for gap in self.found):
            self._further = [
                (first, last, missing, count)
                for first, last, missing, count in self._further
                if known.missing_in(max(first, start), last) != missing
            ]
        return found


def _details(code: str, first: int, last: int, missing: int, **more: int) -> dict[str, Any]:
    return {"firstMissing": first, "lastMissing": last, "missing": missing, **more, "class": _CLASSES[code]}
