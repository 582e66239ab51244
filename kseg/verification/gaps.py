"""Offsets that are missing in a partition: which were lost, and which a salvage or the log cleaner has taken."""

import os
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from kseg.errors import KsegError
from kseg.findings.table import WARNING
from kseg.segment.survey import DEEP
from kseg.verification.compaction import Maker, maker_of_gaps, reach_in

if TYPE_CHECKING:
    from kseg.verification.partition import Partition

TRUNCATED, UNEXPLAINED, SALVAGED, COMPACTED = "gap-truncated", "gap-unexplained", "gap-salvaged", "gap-compacted"
_CLASSES = {
    TRUNCATED: "damaged", UNEXPLAINED: "lost", SALVAGED: "salvaged", COMPACTED: "compacted", "gap-control": "compacted",
    "gap-aborted": "compacted",
}  # fmt: skip
"""What became of missing offsets, by code."""


class Gap(NamedTuple):
    """Offsets ``first`` to ``last`` that are missing before the batch at ``position``; ``code`` if it has a reason."""

    file: str
    position: int
    first: int
    last: int
    code: str | None

    @property
    def missing(self) -> int:
        return self.last - self.first + 1


class Gaps:
    """Kept until all of a partition was seen, as only that tells what they are.

    ``uncounted``: further ones of which nothing is known but their number. ``are_scattered``: so many of them lie in
    one segment that it looks thinned out.
    """

    def __init__(self, partition: "Partition") -> None:
        self._partition = partition
        self._report = partition.report
        self._found: list[Gap] = []
        self._elsewhere: list[tuple[int, int]] = []
        self.uncounted = 0
        self.are_scattered = False

    def add(self, gap: Gap) -> None:
        self._found.append(gap)

    def fill(self, first: int, last: int) -> None:
        """The records of these offsets were met, where they do not belong."""
        self._elsewhere.append((first, last))

    def tell(self) -> None:
        """Reports all of them, those with a good reason together for each segment."""
        self._found = [gap for gap in self._found if not _is_among(self._elsewhere, gap)]
        if not self._found:
            return
        report, salvaged = self._report, self._salvaged()
        open_gaps = [gap for gap in self._found if gap.code != TRUNCATED and not _is_among(salvaged, gap)]
        maker = self._maker(open_gaps)
        reach = self._cleaner_reach(open_gaps)
        thinned: dict[tuple[str, str], list[Gap]] = defaultdict(list)
        for gap in self._found:
            code, severity = gap.code, None
            if _is_among(salvaged, gap):
                code = SALVAGED
            elif code != TRUNCATED:
                code = (code or COMPACTED) if maker is Maker.CLEANER and gap.first <= reach else UNEXPLAINED
            if code not in (TRUNCATED, UNEXPLAINED):
                thinned[gap.file, code].append(gap)
                continue
            text = f"offsets {gap.first} to {gap.last} are missing ({gap.missing})"
            if code == UNEXPLAINED and maker is Maker.CLEANER:
                text = f"{text}; no cleaner was here, as offset {reach} has a key that came before, or none"
            elif code == UNEXPLAINED and maker is Maker.UNKNOWN and not self._is_active(gap):
                severity, text = WARNING, f"{text}, lost or cleaned away: nothing here tells which"
            details = {
                "firstMissing": gap.first,
                "lastMissing": gap.last,
                "missing": gap.missing,
                "class": _CLASSES[code],
            }
            report.add(code, gap.file, text, gap.position, offset=gap.first, severity=severity, details=details)
        for (file, code), gaps in thinned.items():
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
        if self.uncounted and maker is not Maker.CLEANER:
            report.more(UNEXPLAINED, self._partition.name, self.uncounted)

    def _maker(self, gaps: list[Gap]) -> Maker:
        partition = self._partition
        if partition.is_compacted or not gaps:
            return Maker.CLEANER
        maker = maker_of_gaps(partition, max(gap.first for gap in gaps), self.are_scattered)
        partition.holds_gaps = maker is Maker.CLEANER
        return maker

    def _cleaner_reach(self, gaps: list[Gap]) -> int:
        """Behind which offset a compacted log has no gaps of a cleaner's. Keys tell, read only where records are."""
        before = max((gap.first for gap in gaps), default=0)
        is_asked = self._partition.level == DEEP and self._partition.is_compacted
        return reach_in(self._partition, before) if is_asked else before

    def _is_active(self, gap: Gap) -> bool:
        """Whether it lies in the segment that a broker would append to, which the cleaner never touches."""
        return self._partition.is_whole and gap.first >= (self._partition.segments[-1].base_offset or 0)

    def _salvaged(self) -> list[tuple[int, int]]:
        """Ranges of offsets that earlier salvages could not keep."""
        from kseg.changes.quarantine import changes, folder_of  # few partitions have gaps

        directory = self._partition.directory
        if directory is None or not os.path.isdir(folder_of(directory)):
            return []
        try:
            return [gap for change in changes(directory) for gap in change.gaps]
        except KsegError:
            return []  # what is wrong with a manifest is told where changes are looked at


def _is_among(ranges: list[tuple[int, int]], gap: Gap) -> bool:
    return any(first <= gap.first and gap.last <= last for first, last in ranges)
