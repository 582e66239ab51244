"""Classifies missing offsets of a partition: lost, removed by a salvage, or removed by the log cleaner."""

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from kseg.errors import KsegError
from kseg.findings.table import WARNING
from kseg.segment.survey import DEEP
from kseg.verification.compaction import GapCause, cause_of_gaps, lost_segments, reach_in
from kseg.verification.outlook import outlook_of

if TYPE_CHECKING:
    from kseg.verification.partition import Partition

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


class _Further(NamedTuple):
    """``number`` gaps without details of a segment with offsets ``first`` to ``last``, of which ``missing`` are
    missing."""

    first: int
    last: int
    missing: int
    number: int


class Gaps:
    """The gaps of a partition; they are classified when the whole partition was read.

    ``are_scattered``: one segment has so many that it looks compacted.
    """

    def __init__(self, partition: "Partition") -> None:
        self._partition = partition
        self._report = partition.report
        self._found: list[Gap] = []
        self._misplaced: list[tuple[int, int]] = []
        self._further: list[_Further] = []
        self._uncounted = 0
        self.are_scattered = False

    def add(self, gap: Gap) -> None:
        self._found.append(gap)

    def add_uncounted(self, first: int, last: int, missing: int, count: int) -> None:
        """Adds gaps without details: see `_Further`. ``missing`` includes the gaps with details."""
        if count:
            self._further.append(_Further(first, last, missing, count))
            self._uncounted += count

    def add_misplaced(self, first: int, last: int) -> None:
        """Adds offsets whose records were found in a wrong place."""
        self._misplaced.append((first, last))

    def add_findings(self) -> None:
        """Adds a finding for each gap of lost records, and one for all other gaps of a segment with the same code."""
        found = (gap for gap in self._found if not _is_among(self._misplaced, gap))
        self._found = [gap for gap in map(self._above_log_start, found) if gap.missing > 0]
        if not self._found:
            return
        if any(gap.code == TRUNCATED for gap in self._found) and not outlook_of(self._partition).has_cuts:
            self._found = [gap._replace(code=None) if gap.code == TRUNCATED else gap for gap in self._found]
        report, accepted = self._report, self._accepted()
        open_gaps = [gap for gap in self._found if gap.code != TRUNCATED and gap.range not in accepted]
        cause = self._cause(open_gaps)
        reach = self._cleaner_reach(open_gaps)
        lost = {segment.base_offset or 0: segment for segment in lost_segments(self._partition)}
        explained: dict[tuple[str, str], list[Gap]] = defaultdict(list)
        for gap in self._found:
            code, severity, emptied = gap.code, None, None
            if gap.range in accepted:
                code = SALVAGED
            elif code != TRUNCATED:
                is_cleaners = cause is GapCause.CLEANER and gap.first <= reach
                emptied = next((lost[base] for base in lost if gap.first <= base <= gap.last), None)
                code = UNEXPLAINED if emptied or not is_cleaners else code or COMPACTED
            if code not in (TRUNCATED, UNEXPLAINED):
                explained[gap.file, code].append(gap)
                continue
            if code == TRUNCATED or cause is not GapCause.UNKNOWN:
                missing_after = outlook_of(self._partition).still_missing(gap.first, gap.last)
                if missing_after is None:
                    continue
                gap = gap._replace(first=missing_after[0], last=missing_after[1])
            text = f"offsets {gap.first} to {gap.last} are missing ({gap.missing})"
            if code == UNEXPLAINED and emptied is not None:
                text = f"{text}; {emptied.file.name} is empty, and its indexes have entries"
            elif code == UNEXPLAINED and cause is GapCause.CLEANER:
                text = f"{text}; not by the cleaner: offset {reach} has no key, or that of an earlier record"
            elif code == UNEXPLAINED and cause is GapCause.UNKNOWN and not self._is_active(gap):
                severity, text = WARNING, f"{text}, lost or removed by the cleaner; the files do not show which"
            details = {
                "firstMissing": gap.first,
                "lastMissing": gap.last,
                "missing": gap.missing,
                "class": _CLASSES[code],
            }
            report.add(code, gap.file, text, gap.position, offset=gap.first, severity=severity, details=details)
        for (file, code), gaps in explained.items():
            missing = sum(gap.missing for gap in gaps)
            text = f"gaps: {len(gaps)}, offsets missing in them: {missing}"
            details = {
                "firstMissing": gaps[0].first,
                "lastMissing": gaps[-1].last,
                "missing": missing,
                "gaps": len(gaps),
                "class": _CLASSES[code],
            }
            report.add(code, file, text, gaps[0].position, offset=gaps[0].first, details=details)
        if self._uncounted and cause is not GapCause.CLEANER:
            report.more(UNEXPLAINED, self._partition.name, self._uncounted)

    def _above_log_start(self, gap: Gap) -> Gap:
        """Returns the part of a gap above the log start offset: below it, records were deleted."""
        start, end = self._partition.broker.log_start_offset or 0, self._partition.segments[-1].next_offset
        return gap._replace(first=max(gap.first, start)) if start <= (end or 0) else gap

    def _cause(self, gaps: list[Gap]) -> GapCause:
        partition = self._partition
        if partition.is_compacted or not (gaps or self._uncounted):
            return GapCause.CLEANER
        cause = cause_of_gaps(partition, max(gap.first for gap in gaps or self._found), self.are_scattered)
        partition.holds_gaps = cause is GapCause.CLEANER
        return cause

    def _cleaner_reach(self, gaps: list[Gap]) -> int:
        """Returns the offset after which no gap is the cleaner's: at level deep by the keys of a compacted log, else
        that of the last gap."""
        before = max((gap.first for gap in gaps), default=0)
        is_known = self._partition.level == DEEP and self._partition.is_compacted
        return reach_in(self._partition, before) if is_known else before

    def _is_active(self, gap: Gap) -> bool:
        """Whether the gap is in the active segment, which the cleaner never changes."""
        return self._partition.is_whole and gap.first >= (self._partition.segments[-1].base_offset or 0)

    def _accepted(self) -> set[tuple[int, int]]:
        """Returns the gaps that were accepted with an earlier salvage or conversion."""
        from kseg.changes.accepted_gaps import accepted_gaps  # few partitions have gaps

        partition = self._partition
        try:
            known = accepted_gaps(partition.directory) if partition.directory is not None else None
        except KsegError:
            return set()  # such errors are reported where changes are checked
        if not known:
            return set()
        start = max(partition.segments[0].base_offset or 0, partition.broker.log_start_offset or 0)
        found = known.among([gap.range for gap in self._found], start)
        if all(gap.range in found for gap in self._found):
            self._uncounted -= sum(
                one.number for one in self._further if known.missing_in(max(one.first, start), one.last) == one.missing
            )
        return found


def _is_among(ranges: list[tuple[int, int]], gap: Gap) -> bool:
    return any(first <= gap.first and gap.last <= last for first, last in ranges)
