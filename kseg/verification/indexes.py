"""Checks offset and time indexes: each entry against the batches of its segment, missing files, files without a .log.

Which offset an entry has depends on the writer: the last of the batch (2.0 on), the first (up to 1.1), or the last of
all batches of one append (up to 3.9.0). Brokers since 2.3 do not check indexes when they load them (KAFKA-7283).
"""

import os
from itertools import pairwise
from typing import Any, NamedTuple

from kseg.findings.table import ERROR, INFO, WARNING, severity_of
from kseg.formats.rows import int64s
from kseg.formats.suffixes import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX
from kseg.kernel.scan.headers import EVENT_WIDTH
from kseg.kernel.state import indexing as kernel
from kseg.limits import MAX_INDEX_BYTES
from kseg.segment.items import Damage
from kseg.segment.survey import QUICK, HeaderRows
from kseg.sidefiles.indexes import EntryWindows
from kseg.verification.partition import CheckedSegment, PartitionCheck, Rule

EVENT_LIMIT = 256
"""Limit of events that one step returns."""
SPARSE_BYTES = 16 << 20
"""Largest expected distance between entries, in bytes of the log. Followers up to 3.9 write one entry per fetch, of at
most 10 MiB (replica.fetch.response.max.bytes)."""
_NOTHING = bytes(16)


class IndexEvent(NamedTuple):
    """``kind`` is one of kseg.kernel.state.indexing, ``entry`` a number, ``value`` its position or timestamp."""

    kind: int
    entry: int
    offset: int
    value: int
    a: int


class IndexWalk:
    """A walk through one index at a time, window by window along the batches of its segment
    (`kseg.kernel.state.indexing`); reused for all segments. ``width``: kernel.OFFSETS or kernel.TIMES.

    ``events`` has the first ``limit`` events of each kind, ``state.totals`` their number, and ``state.last_about``
    the number of the entry of the last one. ``path``: that of the index.
    """

    def __init__(self, width: int, limit: int) -> None:
        self.width = width
        self.state = kernel.EntryWalk(width, limit, int64s(EVENT_LIMIT * EVENT_WIDTH))
        self._windows: EntryWindows | None = None
        self.path = ""
        self.events: list[IndexEvent] = []
        self.size = self.used = 0
        self.error: OSError | None = None
        self.is_too_large = False
        """Whether nothing of the file was read."""

    def open(self, path: str, base_offset: int) -> bool:
        """Starts with the index at ``path``. Returns False if there is none; sets ``error`` if it cannot be read."""
        self.close()
        self.state.begin(base_offset, 0)
        self.path = path
        self.error, self.size, self.used, self.is_too_large = None, 0, 0, False
        self.events.clear()
        try:
            self._windows = windows = EntryWindows(path, self.width)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self.error = error
            return True
        self.size, self.used = windows.size, windows.used
        if windows.used_bytes > MAX_INDEX_BYTES:
            self.is_too_large, self.used = True, 0
        self.state.total = self.used
        if self.used:
            self._move()
        return True

    def follow(self, rows: memoryview, count: int) -> None:
        """Compares the next batches of the file with the entries."""
        row = 0
        while True:
            row = kernel.follow(self.state, rows, row, count)
            self._collect()
            if row >= count:
                return
            self._move()

    def drain(self, size: int) -> None:
        """Checks the remaining entries when ``size`` bytes of the log were followed; -1: only their order."""
        while kernel.drain(self.state, size):
            self._collect()
            self._move()
        self._collect()

    def close(self) -> None:
        if self._windows is not None:
            self._windows.close()
            self._windows = None

    def _move(self) -> None:
        """Moves the window to the next entry. Entries that a shrinking or failing file lost are not expected."""
        state = self.state
        at, total = state.next, state.total
        data = b""
        try:
            if self._windows is not None:
                data = self._windows.window(at)
        except OSError as error:
            self.error = error
        loaded = min(len(data) // self.width, total - at)
        if loaded < min(kernel.LOOK_AHEAD + 1, total - at):
            state.total = at + loaded
        state.move(at, loaded, data or _NOTHING)

    def _collect(self) -> None:
        if self.state.events:
            self.events += map(IndexEvent._make, self.state.written())


SHOWN_EACH = 8
"""Limit of wrong entries of one kind reported one by one; more are reported as one range."""
SUFFIXES = {INDEX: kernel.OFFSETS, TIME_INDEX: kernel.TIMES}
_PREFIX = {kernel.OFFSETS: "index", kernel.TIMES: "time-index"}
_EVENTS = {
    kernel.BELOW_BASE: ("below-base", "offset {offset} in a segment that begins at {base}"),
    kernel.NEGATIVE: ("misleads", "position {value} is negative"),
    kernel.UNSORTED: ("unsorted", "it is the same or less than the entry before"),
    kernel.NO_BATCH: ("misleads", "no batch begins at position {value}, the next one does at {a}"),
    kernel.TOO_LOW: ("misleads", "the batch at position {value} begins behind offset {offset}"),
    kernel.IMPRECISE: ("imprecise", "no batch ends at offset {offset}"),
    kernel.BEYOND: ("beyond-log", "offset {offset}{at} is behind the end of the log, whose last offset is {a}"),
    kernel.TOO_OLD: ("mismatch", "timestamp {value}, but the largest up to offset {offset} is later than {a}"),
    kernel.TOO_NEW: ("mismatch", "timestamp {value}, but the largest up to offset {offset} is no later than {a}"),
}
"""Code, without the kind of index, and message by the kind of event."""


class IndexRule(Rule):
    """Checks the .index and .timeindex of each segment; with ``paths`` only these files, by suffix."""

    def __init__(self, partition: PartitionCheck, paths: dict[str, str] | None = None) -> None:
        super().__init__(partition)
        self._paths = paths
        self._walks: dict[str, IndexWalk] = partition.buffers.kept(
            "index walks", lambda: {suffix: IndexWalk(width, SHOWN_EACH) for suffix, width in SUFFIXES.items()}
        )
        self._segment: CheckedSegment
        """The current segment."""
        self._opened: dict[str, IndexWalk] = {}
        """The walks through its indexes, by suffix."""
        self._without: dict[str, list[CheckedSegment]] = {suffix: [] for suffix in SUFFIXES}
        self._count = 0
        self._has_times = False

    def begin(self, segment: CheckedSegment) -> None:
        self._segment = segment
        self._opened.clear()
        if segment.file.kind != LOG or segment.base_offset is None:
            return
        paths = self._paths or {suffix: segment.beside(suffix) for suffix in SUFFIXES}
        for suffix, path in paths.items():
            walk = self._walks[suffix]
            if walk.open(path, segment.base_offset):
                self._opened[suffix] = walk

    def headers(self, segment: CheckedSegment, headers: HeaderRows) -> None:
        if self.partition.settings.level != QUICK:
            for walk in self._opened.values():
                walk.follow(headers.rows, headers.count)

    def damage(self, segment: CheckedSegment, damage: Damage) -> None:
        self._walks[TIME_INDEX].state.has_unseen = True

    def end(self, segment: CheckedSegment) -> None:
        if segment.file.kind != LOG or segment.base_offset is None:
            return
        self._count += 1
        found = self._opened
        for walk in found.values():
            self._end(segment, walk)
        if self._paths is None and (found or self.partition.is_whole):
            if INDEX not in found and (segment.size or not segment.is_last):
                self._without[INDEX].append(segment)
            elif TIME_INDEX not in found and segment.largest_timestamp >= 0:
                self._without[TIME_INDEX].append(segment)
        self._has_times = self._has_times or TIME_INDEX in found or segment.magics[2] > 0

    def _end(self, segment: CheckedSegment, walk: IndexWalk) -> None:
        """Checks the rest of an index after its segment was read, and adds the findings about the file."""
        state, is_of_times = walk.state, walk.width == kernel.TIMES
        is_live = self.partition.settings.is_live and segment.is_last
        is_compared = self.partition.settings.level != QUICK
        # Entries without a batch after damage at the end of a log are not wrong.
        is_open_ended = is_live or state.end < segment.size or state.is_doubted
        is_left_out = is_live or (is_open_ended and is_of_times)
        walk.drain(segment.size if is_compared and not is_left_out else -1)
        walk.close()
        if walk.error is not None:
            self.report.add("unreadable-bytes", walk.path, walk.error.strerror or str(walk.error))
            return
        if walk.is_too_large:
            self._add_about(walk, "corrupt", f"it has {walk.size} bytes, more than any index; they were not read")
            return
        pending = state.pending
        if (state.totals[kernel.BEYOND] or pending >= 0) and segment.has_grown():
            is_open_ended = True
            state.totals[kernel.BEYOND] = 0
            walk.events[:] = [event for event in walk.events if event.kind != kernel.BEYOND]
        if is_compared and pending >= 0 and not is_open_ended:
            event = IndexEvent(kernel.BEYOND, state.pending_entry, pending, -1, state.last_offset)
            self._add_events(walk, "beyond-log", [event])
        has_wrong = self._add_wrong_entries(walk)
        ends_with_zeros = self._add_sizes(walk)
        if not is_compared:
            return
        last = state.before_value
        if not is_of_times:
            if (farthest := state.farthest) > SPARSE_BYTES:
                text = f"no entry leads to any batch in the {farthest} bytes behind position {state.farthest_at}"
                self._add_about(walk, "sparse", text, severity=WARNING if not walk.used else None)
        elif state.largest > max(last, -1) and not has_wrong and not ends_with_zeros and self._is_closed:
            is_empty = last == kernel.NO_ENTRY
            text = "it has no entry" if is_empty else f"its last timestamp is {last}"
            text += f", the largest of the segment is {state.largest}"
            details = {"entryTimestamp": None if is_empty else last, "latestTimestamp": state.largest}
            severity = INFO if is_empty and not state.has_v2 else None
            self._add_about(walk, "incomplete", text, severity, details=details)

    def _add_wrong_entries(self, walk: IndexWalk) -> bool:
        """Reports the entries with events. Returns whether there are others than imprecise ones."""
        totals = walk.state.totals
        wrong = [kind for kind in _EVENTS if kind != kernel.IMPRECISE and totals[kind]]
        if len(wrong) > 1 and 2 * sum(totals[kind] for kind in wrong) > walk.used:
            # Most entries are wrong, in several ways: a broker did not write these bytes.
            events = sorted((event for event in walk.events if event.kind in wrong), key=lambda event: event.entry)
            self._add_events(walk, "corrupt", events, " are wrong")
        elif walk.events:
            for code in dict.fromkeys(code for code, _ in _EVENTS.values()):
                self._add_events(walk, code, [event for event in walk.events if _EVENTS[event.kind][0] == code])
        return bool(wrong)

    def _add_events(self, walk: IndexWalk, code: str, events: list[IndexEvent], are_wrong: str = "") -> None:
        """Reports the entries of these events, adjacent ones together; one range for all if there are many, or if
        ``are_wrong`` tells that they are."""
        kinds, severity = {event.kind for event in events}, None
        if code == "beyond-log" and walk.width == kernel.TIMES and self._is_closed:
            severity = WARNING
        if code == "imprecise" and self.partition.is_compacted:
            # The cleaner indexes a batch by its last kept record.
            severity = INFO
        found, total = [], sum(walk.state.totals[kind] for kind in kinds)
        if are_wrong or total > SHOWN_EACH:
            end = max(walk.state.last_about[kind] for kind in kinds) + 1
            found, events = [(events[0], end, total, f"{total} of {walk.used} entries{are_wrong}; the first: ")], []
        while events:
            first = events[0]
            count = next((i for i, event in enumerate(events) if event.entry != first.entry + i), len(events))
            found.append((first, first.entry + count, count, f"{count} entries; the first: " if count > 1 else ""))
            events = events[count:]
        value = "entryTimestamp" if walk.width == kernel.TIMES else "entryPosition"
        for first, end, count, text in found:
            details = {"entry": first.entry, "entries": count, "entryOffset": first.offset, value: first.value}
            place = {"position": first.entry * walk.width, "length": (end - first.entry) * walk.width}
            text += self._text(walk, first)
            self._add_about(walk, code, text, severity, **place, offset=first.offset, details=details)

    def _text(self, walk: IndexWalk, event: IndexEvent) -> str:
        kind, _, offset, value, a = event
        if kind == kernel.UNSORTED and a == kernel.NO_ENTRY:
            return "it is above those behind it"
        at = "" if walk.width == kernel.TIMES or value < 0 else f" at position {value}"
        text = _EVENTS[kind][1].format(offset=offset, value=value, a=a, at=at, base=self._segment.base_offset)
        return f"{text}, at {a}" if kind == kernel.TOO_LOW and a > offset else text

    def _add_sizes(self, walk: IndexWalk) -> bool:
        """Reports zeros and a partial entry at the end. Returns whether there are zeros at the end."""
        width, used = walk.width, walk.used
        capacity = walk.size // width
        if used < capacity and (self._is_closed or self.partition.broker.was_clean):
            text = "all of it is zeros" if not used else f"the last {capacity - used} of {capacity} entries are zeros"
            severity = None if self._is_closed else WARNING
            place = {"position": used * width, "length": (capacity - used) * width}
            self._add_about(
                walk, "zero-tail", text, severity, **place, details={"entry": used, "entries": capacity - used}
            )
        if rest := walk.size % width:
            text = f"{rest} bytes at the end are less than an entry of {width}"
            self._add_about(walk, "bad-size", text, position=capacity * width, length=rest)
        return used < capacity

    @property
    def _is_closed(self) -> bool:
        """Whether a broker has rolled the current segment."""
        segment = self._segment
        if self.partition.is_whole or not segment.is_last:
            return not segment.is_last
        own = segment.base_offset or 0
        return self.partition.are_closed or any(
            int(stem) > own for name in self.partition.names if (stem := _stem(name, LOG))
        )

    def _add_about(self, walk: IndexWalk, code: str, message: str, severity: str | None = None, **place: Any) -> None:
        """Adds a finding about the index of a walk; ``code``: without the kind of index."""
        self._add(f"{_PREFIX[walk.width]}-{code}", self._segment, walk.path, message, severity, **place)

    def _add(
        self, code: str, segment: CheckedSegment, file: str, message: str, severity: str | None = None, **place: Any
    ) -> None:
        """Adds a finding about an index; a warning instead of an error if the next start of a broker rebuilds the
        index."""
        severity = severity or severity_of(code)
        if severity == ERROR and self.partition.broker.will_be_scanned(segment.next_offset):
            severity = WARNING
        self.report.add(code, file, message, severity=severity, **place)

    def finish(self) -> None:
        if any(self._without.values()) and not self.partition.is_bare:
            self._add_missing(INDEX, "index-missing", None)
            # Brokers up to 0.10.0 wrote none; of these only 0.10.0 wrote timestamps (v1).
            self._add_missing(TIME_INDEX, "time-index-missing", None if self._has_times else INFO)
        if not self.partition.is_whole:
            return
        names, endings = self.partition.names, (*SUFFIXES, TRANSACTION_INDEX)
        present = names.union(self.partition.others)
        orphans: list[tuple[str, str]] = []
        for name in sorted(name for name in self.partition.odd_names if name.endswith(endings)):
            stem = next(filter(None, (_stem(name, suffix) for suffix in endings)), "")
            if stem and f"{stem}.log" not in present and f"{stem}.log.swap" not in names:
                orphans.append((name, stem))
        lost = self._lost_offsets({int(stem) for _, stem in orphans})
        for name, stem in orphans:
            path, text, details = self.partition.path(name), f"there is no {stem}.log", {}
            if (last := lost.get(int(stem))) is not None:
                text += f": offsets {int(stem)} to {last} are in no segment; retention may have deleted them"
                details = {"firstMissing": int(stem), "lastMissing": last}
            self.report.add("orphan-index", path, text, details=details)

    def _lost_offsets(self, bases: set[int]) -> dict[int, int]:
        """Returns the last offset of each segment without a log, by its base offset, up to the next one that is known;
        none for segments whose offsets are in others."""
        segments = self.partition.segments
        starts = sorted(bases | {segment.base_offset or 0 for segment in segments})
        held = [((segment.base_offset or 0), segment.next_offset or 0) for segment in segments]
        return {
            base: following - 1
            for base, following in pairwise(starts)
            if base in bases and not any(start <= base < end for start, end in held)
        }

    def _add_missing(self, suffix: str, code: str, severity: str | None) -> None:
        segments = self._without[suffix]
        if len(segments) == self._count > 1:
            text = f"none of its {self._count} segments has a {suffix} file"
            self.report.add(code, self.partition.name, text, severity=severity)
            return
        for segment in segments:
            text = f"there is no {os.path.basename(segment.beside(suffix))}"
            self._add(code, segment, segment.path, text, severity=severity)


def _stem(name: str, suffix: str) -> str:
    """Returns the digits in the name of a file of this kind, "" for any other name."""
    stem = name.removesuffix(suffix)
    return stem if stem != name and len(stem) <= 20 and stem.isascii() and stem.isdigit() else ""
