"""Checks the bytes of segments and the offsets of batches: damage, checksums, records, order, gaps."""

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from kseg.findings.table import DECISION, ERROR, INFO, severity_of
from kseg.formats import message_set, record_batch, v07
from kseg.formats.compression import LARGEST_EXPANSION, LZ4, ZSTD, codec_name
from kseg.formats.record_batch import ABORT, HEADER_BYTES
from kseg.formats.rows import Scratch, Sliceable
from kseg.formats.suffixes import LOG
from kseg.kernel.layout import headers as fields
from kseg.kernel.layout.rows import CRC_RIGHT
from kseg.kernel.scan import headers as chain
from kseg.kernel.scan.checksums import crc32, crc32c
from kseg.kernel.scan.headers import EVENT_WIDTH
from kseg.node.server_properties import DEFAULTS
from kseg.quantities import DAY_MS, LAST_TIMESTAMP, in_other_unit, is_in_seconds, plural, show_span, show_time
from kseg.segment.items import Damage, Message
from kseg.segment.survey import DEEP, BatchProblem, BatchRow, HeaderRows
from kseg.verification.gaps import TRUNCATED, Gap, Gaps
from kseg.verification.partition import CheckedSegment, PartitionCheck, Rule
from kseg.verification.report import NO_DETAILS, SHOWN_PER_FILE, Details


class GoodOffsets:
    """Finds the last good offset before a problem and the next one after it, for consumers to seek to: reads the
    headers of a partition and completes the details of findings.

    A batch is good if its checksum is right and no problem of its records is an error. This is known when the next
    headers arrive. ``waiting``: details that lack the next good offset, after `complete`.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._last: int | None = None
        self._headers = _NO_HEADERS
        """A copy of the latest headers."""
        self.bad: set[int] = set()
        """Positions of batches whose records are unreadable under a right checksum."""
        self._pending: list[tuple[int, Details]] = []
        self.waiting: list[Details] = []

    def request(self, position: int, details: Details) -> None:
        """Adds ``lastGoodOffset`` and ``nextGoodOffset`` for a position in or after the latest headers.

        They are null until they are known.
        """
        details["lastGoodOffset"] = details["nextGoodOffset"] = None
        self._pending.append((position, details))

    def take(self, segment: CheckedSegment, headers: HeaderRows) -> None:
        """Takes the next headers of a segment."""
        self.complete(segment)
        rows = headers.part(0, headers.count).rows.tobytes()
        self._headers = HeaderRows(memoryview(rows).cast("q"), headers.count)

    def complete(self, segment: CheckedSegment) -> None:
        """Completes the details for the headers so far; also at the end of a segment, before it is closed."""
        headers, self._headers = self._headers, _NO_HEADERS
        if not (self.bad or self._pending or self.waiting):
            backwards = (headers[i] for i in reversed(range(headers.count)))
            self._last = next((batch.last_offset for batch in backwards if batch.has_right_crc), self._last)
            return
        lasts, columns = headers.lasts, enumerate(zip(headers.positions, headers.states, strict=True))
        good = [(at, i) for i, (at, state) in columns if state & CRC_RIGHT and at not in self.bad]
        firsts: dict[int, int] = {}
        if good and self.waiting:
            firsts[0] = _first_offset(segment, headers[good[0][1]], self._scratch)
            for details in self.waiting:
                details["nextGoodOffset"] = firsts[0]
            self.waiting.clear()
        for position, details in self._pending:
            behind = bisect_left(good, (position,))
            details["lastGoodOffset"] = lasts[good[behind - 1][1]] if behind else self._last
            if behind == len(good):
                self.waiting.append(details)
                continue
            if behind not in firsts:
                firsts[behind] = _first_offset(segment, headers[good[behind][1]], self._scratch)
            details["nextGoodOffset"] = firsts[behind]
        if good:
            self._last = lasts[good[-1][1]]
        self.bad.clear()
        self._pending.clear()


_NO_HEADERS = HeaderRows(memoryview(b"").cast("q"), 0)


def _first_offset(segment: CheckedSegment, batch: BatchRow, scratch: Scratch) -> int:
    """Returns the first offset of a batch: of a compressed v0 or v1 message, which is decompressed for it, that of the
    first message inside; the batch's own offset, which is its last one, if that fails."""
    if batch.first_offset >= 0 or not 0 <= batch.magic < fields.MAGIC_V2 or segment.file.is_07:
        return batch.first_offset if batch.first_offset >= 0 else batch.last_offset
    data = _buffer_at(segment, batch.position)[batch.position : batch.end]
    seen = Message(data, batch.position, batch.size, batch.magic, True, scratch).survey()
    first = -1 if seen.problems or seen.first_offset is None else seen.first_offset
    return first if 0 <= first <= batch.last_offset else batch.last_offset


def _buffer_at(segment: CheckedSegment, position: int) -> Sliceable:
    """Returns the bytes of a segment for a batch at a position; none if it is closed."""
    source = segment.source
    if source is not None and source.proven is not None and position >= source.proven.end:
        source = source.behind_proven()
    return b"" if source is None else source.buffer


_FACTS = ("firstOffset", "lastOffset", "recordCount", "producerId", "producerEpoch", "leaderEpoch")


def batch_facts(segment: CheckedSegment, position: int, size: int) -> Details:
    """Returns the header fields of a batch, and the checksum of its bytes; nothing if its format is unknown, or the
    segment is closed.

    Unset producers and epochs, and fields that the format lacks, are null.
    """
    if segment.source is None:
        return {}
    data = _buffer_at(segment, position)[position : position + size]
    if segment.file.is_07:
        old = v07.parse_header(data)
        begin = 9 + (old.magic != 0)
        return {"magic": old.magic, "storedChecksum": old.crc, "computedChecksum": crc32(bytes(data[begin:]))}
    if size < message_set.MIN_BYTES:
        return {}
    magic = int.from_bytes(data[fields.ENTRY_MAGIC : fields.ENTRY_MAGIC + 1], "big", signed=True)
    facts: list[int | None]
    if magic == fields.MAGIC_V2 and size >= record_batch.HEADER_BYTES:
        header = record_batch.parse_header(data)
        stored, computed = header.crc, crc32c(bytes(data[fields.V2_ATTRIBUTES :]))
        writer = header.producer_id, header.producer_epoch, header.partition_leader_epoch
        facts = [header.base_offset, header.last_offset, header.record_count]
        facts += [number if number >= 0 else None for number in writer]
    elif magic in (0, 1):
        message = message_set.parse_header(data)
        stored, computed = message.crc, crc32(bytes(data[fields.ENTRY_MAGIC :]))
        facts = [message.offset, message.offset, 1, None, None, None]
        if message.codec:
            facts[0] = facts[2] = None
    else:
        return {"magic": magic}
    checksums = {"storedChecksum": stored, "computedChecksum": computed}
    return {"magic": magic, **checksums, **dict(zip(_FACTS, facts, strict=True))}


EVENT_LIMIT = SHOWN_PER_FILE * chain.KINDS
"""Limit of events that one pass over headers returns: all that are shown."""
FUTURE_MS = DAY_MS
"""Limit of a timestamp's distance to now; a larger one is reported."""

_EVENTS = {
    chain.INVALID: ("crc-mismatch", "the stored checksum is not that of the bytes", ""),
    chain.NOT_RISING: ("batch-out-of-order", "offset {b} follows {a}", "offsetBefore"),
    chain.WRONG_OFFSET: (
        "wrong-base-offset", "its base offset is {b}, between its neighbours it should be {a}", "expectedOffset",
    ),
    chain.OUTSIDE: ("offset-outside-segment", "offset {a} does not fit in a segment that begins at", ""),
    chain.ATTRIBUTES: ("unused-attributes", "attributes {a:#06x}", "attributes"),
    chain.COUNT: ("count-mismatch", "{a} records in {b} offsets", "offsetCount"),
    chain.EPOCH_FALLS: ("leader-epoch-falls", "leader epoch {b} follows {a}", "leaderEpochBefore"),
    chain.LATE: ("future-timestamp", "timestamp {a} is", "timestamp"),
}  # fmt: skip
"""Code, message and name of a detail, by the kind of event."""


class _Found(NamedTuple):
    """A finding to be reported at the end of its segment; ``valid``: intact batches before it, -1: not reported."""

    position: int
    length: int
    code: str
    offset: int | None
    message: str
    valid: int = -1
    needs: str | None = None
    details: Details = NO_DETAILS


class BatchRule(Rule):
    """Follows the batches of a partition from its first segment to its last."""

    def __init__(self, partition: PartitionCheck) -> None:
        super().__init__(partition)
        self._chain = chain.Chain()  # until a segment begins
        self._events = partition.buffers.int64s("chain events", EVENT_LIMIT * EVENT_WIDTH)
        self._last_offset: int | None = None
        """The offset before the next one that is expected; None before the first segment, or if it is unknown."""
        self._last_epoch = -1
        self._was_damaged = self._overlaps = False
        self._found: list[_Found] = []
        self._gaps = Gaps(partition)
        self._good = GoodOffsets(partition.buffers.scratch)
        self._postponed: list[tuple[str, _Found]] = []
        """Findings at the end of a segment that need an offset of the next one, with its path."""

    def begin(self, segment: CheckedSegment) -> None:
        base, is_07 = segment.base_offset, segment.file.is_07
        latest_ms = min(self.partition.settings.now_ms + FUTURE_MS, LAST_TIMESTAMP)
        self._chain = chain.Chain(None if is_07 else base, latest_ms, SHOWN_PER_FILE, self._events)
        self._chain.last_epoch = self._last_epoch
        if base is not None and (last := self._last_offset) is not None:
            if base <= last:
                if not self._overlaps:
                    text = f"the segment before it reaches offset {last}"
                    details = {"reachedOffset": last, "baseOffset": base}
                    self.report.add("segments-overlap", segment.path, text, offset=base, details=details)
                self._last_offset = base - 1  # later batches are compared with this segment
            elif base > last + 1:
                code = TRUNCATED if self._was_damaged else None
                self._gaps.found.append(Gap(segment.path, 0, last + 1, base - 1, code))
        self._was_damaged = self._overlaps = False

    def headers(self, segment: CheckedSegment, headers: HeaderRows) -> None:
        first, last, records = headers[0], headers[-1], self._chain.records
        self._good.take(segment, headers)
        if chain.follow(headers.rows, headers.count, self._chain):
            for event in self._chain.written():
                self._event(segment, headers, *event)
        segment.end = last.end
        # Fewer bytes than records: rare in compressed batches, impossible in others.
        if self._chain.records - records > segment.end - first.position and self.partition.settings.level != DEEP:
            self._chain.records -= _impossible_records(headers)
        base = segment.base_behind
        if base is not None and self._chain.last_offset >= base and not self._overlaps:
            self._overlaps = True
            if batch := next((each for each in headers if each.has_right_crc and each.last_offset >= base), None):
                offset = batch.last_offset
                text = f"it reaches offset {offset}, the next segment begins at {base}"
                details = {"reachedOffset": offset, "baseOffset": base}
                found = _Found(batch.position, batch.size, "segments-overlap", offset, text, details=details)
                self._found.append(found)
        if self._chain.sparse and segment.file.kind == LOG:
            self.partition.holds_gaps = True

    def _event(self, segment: CheckedSegment, headers: HeaderRows, kind: int, row: int, a: int, b: int, c: int) -> None:
        batch = headers[row]
        position, size = batch.position, batch.size
        if kind == chain.GAP:
            self._gaps.found.append(Gap(segment.path, position, a, b - 1, self._reason(headers, row, b - a, c)))
            return
        if kind == chain.COUNT and self.partition.settings.level == DEEP:
            return  # reported when the batch is decoded
        code, text, name = _EVENTS[kind]
        text, offset, valid, needs = text.format(a=a, b=b), batch.first_offset, -1, None
        details = batch_facts(segment, position, size)
        if kind == chain.INVALID:
            behind = headers.states[row + 1 :]  # the chain has counted the intact ones of all these rows
            valid = self._valid - sum(state & CRC_RIGHT != 0 for state in behind)
            segment.is_damaged = True
            self._good.request(position, details)
            if not 0 <= batch.magic <= (1 if segment.file.is_07 else 2):
                code, text = "bad-magic", f"magic {batch.magic} names no format"
        elif kind == chain.NOT_RISING:
            self._gaps.misplaced.append((max(b, 0), batch.last_offset))
        elif kind == chain.WRONG_OFFSET and c:
            text, offset = f"its offset is {b}, between its neighbours it should be {a} or little more", b
        elif kind == chain.OUTSIDE:
            text, offset = f"{text} {segment.base_offset}", a
        elif kind == chain.COUNT:
            self._good.bad.add(position)
            self._good.request(position, details)
        elif kind == chain.EPOCH_FALLS and not _is_between_equal_epochs(headers, row):
            needs = DECISION
        elif kind == chain.LATE:
            text += f" {show_span(a - self.partition.settings.now_ms)} ahead of the current time"
            if unit := in_other_unit(a):
                text += f"; {unit}"
        if name:
            details[name] = b if kind == chain.COUNT else a
        known = offset if offset >= 0 else batch.last_offset
        self._found.append(_Found(position, size, code, known if known >= 0 else None, text, valid, needs, details))

    @property
    def _valid(self) -> int:
        """Number of intact batches of the segment in the headers that came so far."""
        return int(self._chain.v0 + self._chain.v1 + self._chain.v2)

    def _reason(self, headers: HeaderRows, row: int, missing: int, is_after_damage: int) -> str | None:
        """Returns the code of a gap if the log is compacted, or gap-truncated in any case."""
        if is_after_damage:
            return TRUNCATED
        if headers[row].marker == ABORT:
            return "gap-aborted"
        if missing == 1 and row:
            before = headers[row - 1]
            if before.magic == fields.MAGIC_V2 and before.attributes & fields.TRANSACTIONAL:
                return "gap-control"
        return None

    def damage(self, segment: CheckedSegment, damage: Damage) -> None:
        self._chain.is_after_damage = True
        self._was_damaged = True
        text = damage.message.removesuffix("; no intact batch follows")
        found = _Found(damage.position, damage.length, damage.code, None, text, self._valid, details={})
        self._add_shown(segment, found)

    def _add_shown(self, segment: CheckedSegment, found: _Found) -> None:
        """Adds a finding about a place where consumers stop; one beyond the limit of those shown is only counted."""
        if sum(other.code == found.code for other in self._found[-SHOWN_PER_FILE:]) >= SHOWN_PER_FILE:
            self.report.more(found.code, segment.path, 1)
            return
        self._good.request(found.position, found.details)
        self._found.append(found)

    def problem(self, segment: CheckedSegment, problem: BatchProblem) -> None:
        self._chain.records -= problem.unread
        if severity_of(problem.code) == ERROR:
            self._good.bad.add(problem.position)
        if self._found and self._found[-1].position == problem.position and self._found[-1].code == "count-mismatch":
            return  # a wrong count explains this, too
        position, size = problem.position, problem.size
        details = batch_facts(segment, position, size)
        self._add_shown(segment, _Found(position, size, problem.code, problem.offset, problem.message, details=details))

    def _report(self, ready: list[tuple[str, _Found]]) -> None:
        """Reports findings, whose next good offsets are known or do not exist, and clears the list."""
        for path, (position, length, code, offset, message, _, needs, details) in ready:
            self.report.add(code, path, message, position, length, offset, details=details, needs=needs)
        ready.clear()

    def end(self, segment: CheckedSegment) -> None:
        state, total = self._chain, self._valid
        self._good.complete(segment)
        if not self._good.waiting:
            self._report(self._postponed)
        for found in sorted(self._found, key=lambda found: found.position) if self._found else ():
            if found.valid >= 0:
                text = f"{found.message}; intact batches behind it in this segment: {total - found.valid}"
                found = found._replace(message=text)
            if not segment.is_last and any(details is found.details for details in self._good.waiting):
                self._postponed.append((segment.path, found))
            else:
                self._report([(segment.path, found)])
        for kind, (code, *_) in _EVENTS.items() if any(state.totals) else ():
            if not (kind == chain.COUNT and self.partition.settings.level == DEEP):
                self.report.more(code, segment.path, state.totals[kind] - SHOWN_PER_FILE)
        self._gaps.add_segment(state, state.totals[chain.GAP], max(0, state.totals[chain.GAP] - SHOWN_PER_FILE))
        self._found.clear()
        segment.batches, segment.records = state.batches, state.records
        segment.magics = (state.v0, state.v1, state.v2)
        segment.first_offset, segment.last_offset = state.first_offset, state.last_offset
        segment.least_timestamp, segment.largest_timestamp = state.least_timestamp, state.largest_timestamp
        if segment.file.is_07:
            segment.last_offset = (segment.base_offset or 0) + segment.size - 1 if segment.size else -1
        self._reach(
            segment.last_offset if segment.base_offset is None else max(segment.last_offset, segment.base_offset - 1)
        )
        self._last_epoch = state.last_epoch
        self._was_damaged = self._was_damaged or state.is_after_damage

    def _reach(self, last: int) -> None:
        self._last_offset = last if self._last_offset is None else max(self._last_offset, last)

    def unread(self, segment: CheckedSegment) -> None:
        # Its offsets are unknown, so none count as missing.
        self._reach((segment.base_behind or 0) - 1)
        self._was_damaged = True

    def finish(self) -> None:
        self._report(self._postponed)
        self._gaps.add_findings()
        self._early_timestamps()
        magics = [segment.magics for segment in self.partition.segments if not segment.file.is_07]
        old, newer = sum(counts[0] for counts in magics), sum(counts[1] for counts in magics)
        if old or newer:
            text = f"messages of format v0: {old}, of v1: {newer} (a compressed set counts as one)"
            self.report.add("old-message-format", self.partition.name, text, details={"v0": old, "v1": newer})

    def _early_timestamps(self) -> None:
        """Reports segments that retention by time deletes although they are new."""
        partition = self.partition
        early = [
            one for one in partition.segments if one.largest_timestamp == 0 or is_in_seconds(one.largest_timestamp)
        ]
        if not early or partition.is_compacted:
            return
        latest = max(one.largest_timestamp for one in early)
        limit_ms = partition.broker.retention_ms
        if limit_ms is None:
            limit_ms = int(DEFAULTS["retention.ms"])
        goes = limit_ms >= 0 and partition.settings.now_ms - latest > limit_ms
        text = f"the latest timestamp of {plural(len(early), 'segment', 'segments')} is {show_time(latest)}"
        if latest:
            text += f"; in seconds it would be {show_time(latest * 1000)}"
        text += f"; retention of {show_span(limit_ms)} deletes " if goes else "; retention by time does not delete "
        text += ("it" if len(early) == 1 else "them") + (" at its next check" if goes else "")
        details = {"latestTimestamp": latest, "segments": len(early)}
        self.report.add(
            "early-timestamp", early[0].path, text, offset=early[0].first_offset, severity=None if goes else INFO,
            details=details,
        )  # fmt: skip


def _impossible_records(headers: HeaderRows) -> int:
    """Returns the number of records that v2 headers claim beyond what fits their batches."""
    values = (headers.magics, headers.states, headers.attributes, headers.sizes, headers.records)
    excess = 0
    for magic, state, attributes, size, count in zip(*values, strict=True):
        if magic == fields.MAGIC_V2 and state & CRC_RIGHT and not attributes & fields.CONTROL:
            expansion = 1 if not attributes & fields.CODEC else LARGEST_EXPANSION
            excess += max(0, count - (size - HEADER_BYTES) * expansion // fields.MIN_RECORD_BYTES)
    return excess


def _is_between_equal_epochs(headers: HeaderRows, row: int) -> bool:
    """Whether the batch at ``row`` or the previous one has another leader epoch than both of its neighbours; their
    epoch is then the right one, unless they have none."""
    known = headers.epochs
    before, first, second, behind = (known[i] if 0 <= i < headers.count else None for i in range(row - 2, row + 2))
    return (before is not None and 0 <= before == second) or (behind is not None and 0 <= behind == first)


class FormatRule(Rule):
    """Checks, for the start of an old release, that it knows the formats and codecs of all batches."""

    def __init__(self, partition: PartitionCheck) -> None:
        super().__init__(partition)
        era = partition.settings.era
        self._newest_format = 0 if not era.has_timestamps else 1 if not era.has_producers else 2
        codecs = {LZ4: era.has_lz4, ZSTD: era.has_zstd}
        self._unknown_codecs = frozenset(codec for codec, is_known in codecs.items() if not is_known)
        self._counts = Counter[str]()
        self._first: dict[str, tuple[str, BatchRow]] = {}

    def headers(self, segment: CheckedSegment, headers: HeaderRows) -> None:
        if segment.file.is_07:
            return
        for i, (magic, attributes) in enumerate(zip(headers.magics, headers.attributes, strict=True)):
            unknown = f"format v{magic}" if magic > self._newest_format else ""
            if not unknown and attributes & fields.CODEC in self._unknown_codecs:
                unknown = f"codec {codec_name(attributes & fields.CODEC)}"
            if unknown:
                self._counts[unknown] += 1
                self._first.setdefault(unknown, (segment.path, headers[i]))

    def finish(self) -> None:
        name = self.partition.settings.era.name
        for unknown, (path, batch) in self._first.items():
            text = f"Kafka {name} does not know {unknown}; batches of it in the partition: {self._counts[unknown]}"
            if unknown == "format v2":  # whose checksum is at another place
                text += "; it takes them for damage, and a start after a crash cuts the log at the first one"
            offset = batch.first_offset if batch.first_offset >= 0 else batch.last_offset
            self.report.add("unsupported-format", path, text, batch.position, batch.size, offset)
