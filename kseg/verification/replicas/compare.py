"""Compares two replicas of a partition by offset: equal records, different ones, and those that one side lacks.

Bytes may differ where records do not: each broker compacts by itself, and may have other batch bounds and codecs.
Batches with the same first offset are compared as bytes, many at once. If these differ, records are compared: leader
epoch, key, value, timestamp, headers. Both sides are read once, and not kept in memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kseg.formats.rows import Rows, int64s
from kseg.kernel.layout.rows import ROW_OFFSET, ROW_WIDTH
from kseg.kernel.state import replicas as kernel
from kseg.quantities import plural
from kseg.stores.buffers import common_prefix
from kseg.verification.replicas.comparison import Comparison
from kseg.verification.replicas.replica import Replica
from kseg.verification.report import SHOWN_PER_FILE, Report

WINDOW_BYTES = 1 << 20
EVENT_LIMIT = 512
"""Limit of differences that one step returns."""


class _Range(NamedTuple):
    """Records with offsets ``first`` to ``last``, their number, and their start: ``position`` of ``file``."""

    first: int
    last: int
    records: int
    file: str
    position: int


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


class _Opened:
    """The records of a replica's current batch. ``i``: the next one of ``rows``."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.rows: Rows | None = None
        self.i = 0
        self._iterator: Iterator[Rows] | None = None

    @property
    def is_between(self) -> bool:
        """Whether no batch is open."""
        return self._iterator is None

    def fill(self) -> Rows | None:
        """Returns rows with at least one record left; None at the end of the batch, after moving to the next."""
        if self._iterator is None:
            self._iterator = self.replica.batch_rows()
        while self.rows is None or self.i >= self.rows.count:
            self.rows, self.i = next(self._iterator, None), 0
            if self.rows is None:
                self._iterator = None
                self.replica.step()
                return None
        return self.rows


class ReplicaComparison:
    """Compares two replicas and reports the differences. ``is_compacted``: whether the log is known to be compacted.

    Flags are true for ``here`` (A, the checked partition) and false for the other side (B).
    """

    def __init__(
        self, paths: tuple[str, str], here: Replica, there: Replica, is_compacted: bool, report: Report
    ) -> None:
        self.found = Comparison(*paths)
        self._sides = {True: here, False: there}
        self._is_compacted = is_compacted
        self._report = report
        self._window = 0
        self._compared = kernel.RecordComparison(int64s(EVENT_LIMIT * kernel.EVENT_WIDTH))
        self._lacking = {True: _Lacking(), False: _Lacking()}
        self._tails = {True: 0, False: 0}
        self._diverged: _Range | None = None
        self._differing = 0
        self._other_position = ("", 0)

    def run(self) -> Comparison:
        """Reads both sides to their ends."""
        a, b, found = self._sides[True], self._sides[False], self.found
        while not (a.is_at_end or b.is_at_end):
            self._add_damage()
            if (a.first_offset, a.end_offset, a.size) == (b.first_offset, b.end_offset, b.size) and self._same_bytes():
                continue
            if 0 <= a.end_offset < b.first_offset:
                self._only_batch(True)
            elif 0 <= b.end_offset < a.first_offset:
                self._only_batch(False)
            else:
                self._records()
        for is_here, side in self._sides.items():
            while not side.is_at_end:
                self._only_batch(is_here)
        self._add_damage()
        self._end_ranges()
        found.last_offsets = (a.last_offset, b.last_offset)
        found.start_offsets = (a.start_offset, b.start_offset)
        self._add_lacking()
        self._add_ends()
        return found

    def _same_bytes(self) -> bool:
        """Skips batches that are equal on both sides, if the next one is. Returns whether it is."""
        a, b = self._sides[True], self._sides[False]
        wanted = min(max(a.size, self._window), a.span_end - a.position, b.span_end - b.position)
        mine, other = a.read(wanted), b.read(wanted)
        length = len(mine) if mine == other else common_prefix(mine, other)
        count = a.batches_within(length)
        self._window = 0 if length < wanted else min(max(2 * wanted, 1 << 14), WINDOW_BYTES)
        if count == 0:
            return False
        self._end_ranges()
        self.found.same += a.records_in(count)
        if self.found.diverge_at is None:
            self.found.agree_to = a.last_of(count)
        a.step(count)
        b.step(count)
        return True

    def _only_batch(self, is_here: bool) -> None:
        """Handles a batch whose offsets do not overlap the other side's current batch."""
        side = self._sides[is_here]
        first = side.first_offset if side.first_offset >= 0 else side.end_offset
        if count := side.records_in(1):
            self._only(is_here, first, side.end_offset, count)
        side.step()

    def _records(self) -> None:
        """Compares record by record until both sides are between batches, or one is at its end."""
        a, b = _Opened(self._sides[True]), _Opened(self._sides[False])
        while True:
            mine, other = a.fill(), b.fill()
            if mine is not None and other is not None:
                self._compare(a, mine, b, other)
            elif a.is_between and b.is_between:
                return
            elif a.is_between and a.replica.is_at_end:
                return self._rest(False, b)
            elif b.is_between and b.replica.is_at_end:
                return self._rest(True, a)

    def _rest(self, is_here: bool, opened: _Opened) -> None:
        """Handles the rest of an open batch when the other side is at its end."""
        while (rows := opened.fill()) is not None:
            offsets = rows.rows[opened.i * ROW_WIDTH + ROW_OFFSET : rows.count * ROW_WIDTH : ROW_WIDTH]
            self._only(is_here, offsets[0], offsets[-1], len(offsets))
            opened.i = rows.count

    def _compare(self, a: _Opened, mine: Rows, b: _Opened, other: Rows) -> None:
        compared, found = self._compared, self.found
        was_diverged = found.diverge_at is not None
        epochs = (a.replica.leader_epoch, b.replica.leader_epoch)
        compared.begin(min(epochs) >= 0 and epochs[0] != epochs[1])
        ours = kernel.Side(mine.payload, mine.rows, mine.headers, mine.count, a.i)
        theirs = kernel.Side(other.payload, other.rows, other.headers, other.count, b.i)
        firsts = (mine.rows[a.i * ROW_WIDTH + ROW_OFFSET], other.rows[b.i * ROW_WIDTH + ROW_OFFSET])
        kernel.compare(ours, theirs, compared)
        for i in range(compared.events):
            kind, first, last, count, fields = compared.event(i)
            if i or first not in firsts:
                self._end_ranges()
            if kind == kernel.DIFFERENT:
                self._differ(first, last, count, fields)
            else:
                self._only(kind == kernel.ONLY_A, first, last, count)
        if not compared.is_open:
            self._end_ranges()
        found.same += compared.same
        if not was_diverged and compared.last_same >= 0:
            found.agree_to = compared.last_same
        a.i, b.i = ours.next, theirs.next

    def _only(self, is_here: bool, first: int, last: int, count: int) -> None:
        """Adds records that one side has and the other lacks."""
        side, lacking = self._sides[is_here], self._sides[not is_here]
        self._end_ranges(excepted=not is_here)
        if is_here:
            self.found.only_here += count
        else:
            self.found.only_there += count
        if lacking.start_offset is not None and last < lacking.start_offset:
            return
        if lacking.is_at_end:
            self._tails[not is_here] += count
        elif not lacking.was_damaged or 0 <= lacking.first_offset <= last:
            self._lacking[not is_here].add(_Range(first, last, count, side.path, side.position))

    def _differ(self, first: int, last: int, count: int, fields: int) -> None:
        if self.found.diverge_at is None:
            self.found.diverge_at = first
        self.found.different += count
        if self._diverged is not None and self._differing == fields:
            self._diverged = self._diverged._replace(last=last, records=self._diverged.records + count)
            return
        self._end_ranges()
        a, b = self._sides[True], self._sides[False]
        self._differing, self._other_position = fields, (b.path, b.position)
        self._diverged = _Range(first, last, count, a.path, a.position)

    def _end_ranges(self, excepted: bool | None = None) -> None:
        """Ends the current ranges. ``excepted``: the side whose range of lacking records may continue."""
        for side, lacking in self._lacking.items():
            if side is not excepted:
                lacking.is_open = False
        if self._diverged is None:
            return
        found, self._diverged = self._diverged, None
        names = [name for bit, name in enumerate(kernel.FIELD_NAMES) if self._differing >> bit & 1]
        where = f"offset {found.first}" if found.first == found.last else f"offsets {found.first} to {found.last}"
        path, position = self._other_position
        text = f"{where}: {_listed(names)} of {_records(found.records)} differ from {path} at position {position}"
        details = {"firstOffset": found.first, "lastOffset": found.last, "count": found.records, "other": path}
        self._report.add("replicas-diverge", found.file, text, found.position, None, found.first, details=details)

    def _add_damage(self) -> None:
        for is_here, side in self._sides.items():
            details = {"other": self.found.other if is_here else self.found.path}
            for path, position, length in side.not_compared:
                self.found.damaged_ranges += 1
                self._report.add("replica-not-compared", path, "damaged bytes", position, length, details=details)
            side.not_compared.clear()

    def _add_lacking(self) -> None:
        is_cleaned = self._is_compacted or any(side.holds_gaps for side in self._sides.values())
        for is_here, lacking in self._lacking.items():
            path, other = self.found.path, self.found.other
            path, other = (path, other) if is_here else (other, path)
            if lacking.ranges and is_cleaned:
                places = plural(lacking.ranges, "range", "ranges")
                text = f"{_records_are(lacking.records, f'in {places} of offsets')} only in the other one"
                self._report.add("replicas-cleaned-apart", path, text, offset=lacking.shown[0].first)
            elif lacking.ranges:
                for gap in lacking.shown:
                    place = f"at {gap.first}" if gap.first == gap.last else f"from {gap.first} to {gap.last}"
                    text = f"{_records_are(gap.records, place)} only in {gap.file}, from position {gap.position} on"
                    details = {"firstOffset": gap.first, "lastOffset": gap.last, "count": gap.records, "other": other}
                    self._report.add("replica-lacks-records", path, text, offset=gap.first, details=details)
                self._report.more("replica-lacks-records", path, lacking.ranges - len(lacking.shown))

    def _add_ends(self) -> None:
        for is_here, side in self._sides.items():
            other = self._sides[not is_here]
            path = self.found.path if is_here else self.found.other
            starts = (side.start_offset, other.start_offset)
            if starts[0] is not None and starts[1] is not None and starts[0] > starts[1]:
                text = f"its first segment begins at offset {starts[0]}, that of the other at {starts[1]}"
                self._report.add("replica-starts-later", path, text, offset=starts[0])
            if self._tails[is_here]:
                text = f"it ends at offset {side.last_offset}, the other at {other.last_offset}"
                text += f" with {_records(self._tails[is_here])} more"
                self._report.add("replica-ends-earlier", path, text, offset=side.last_offset + 1)


def _records(count: int) -> str:
    return plural(count, "record", "records")


def _records_are(count: int, place: str) -> str:
    return f"{_records(count)} {place} {'is' if count == 1 else 'are'}"


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
