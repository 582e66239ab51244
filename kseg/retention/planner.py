"""Plans retention for the partitions that a command names."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kseg.changes.driver.planner import ChangeOptions, Planner
from kseg.changes.driver.reporter import Reporter
from kseg.changes.journal import Known, TopicPartition, checkpoint_entries, checkpoint_offset, topic_partition_of
from kseg.changes.plan import Plan
from kseg.errors import KsegError, RequestError, errors_at
from kseg.formats.rows import UndecodableError
from kseg.formats.suffixes import LOG
from kseg.logdir.topics import NO_SEGMENT, POLICY, Topics, warn_left_alone
from kseg.quantities import plural, shown_bytes, shown_time
from kseg.releases.release import LOG_START, RetentionRules
from kseg.retention.partition_plan import (
    RETENTION_BYTES,
    RETENTION_MS,
    UNKNOWN,
    KnownOffsets,
    PartitionLimits,
    RetainOptions,
    Retention,
    RetentionRequest,
    RetentionSegment,
    retain,
    settings_of,
)
from kseg.segment.batches import Batch
from kseg.segment.files import list_segments, own_partitions
from kseg.segment.reader import open_segment
from kseg.segment.seek import seek_offset
from kseg.segment.survey import record_count
from kseg.sidefiles.checkpoints import HIGH_WATERMARKS, LOG_STARTS, build_offset_checkpoint, set_log_start
from kseg.stores.buffers import Buffers

# Explains for each segment of a partition why it is deleted or kept, by which record, and when it will be deleted.

WALK_BATCHES = 1 << 12
"""Limit of batches read after the offset index entry to find the batch of the last time index entry."""


def explain(found: Retention, request: RetentionRequest, counts: Sequence[int | None]) -> Iterator[dict[str, Any]]:
    """Yields an object of type ``segmentRetention`` for each segment, oldest first: why it is deleted or kept.
    ``counts``: the records of each, None if unknown. Raises PathError if a segment cannot be read.

    ``lastOffset`` is the last offset that the segment may hold; ``rule`` the rule that deletes it, None if it is kept.
    ``recordOffset`` is the offset of the first record with the largest timestamp; None if the file's modification time
    is used, or if the record is not found. The other fields are about a kept segment. ``isFuture``: its largest
    timestamp is after now. ``goesAt``: when retention.ms will delete it if nothing is appended to it. ``blockedBy``:
    the older segment that keeps it until then. ``goesAfterBytes``: how many bytes the log must grow before
    retention.bytes deletes it. ``held``: why it is kept in any case.
    """
    segments, limits = found.log.segments, request.limits
    gone = len(found.selection.why)
    left_bytes, held_bytes, blocker = sum(segment.size for segment in segments[gone:]), 0, None
    for i, (segment, count) in enumerate(zip(segments, counts, strict=True)):
        upper, is_last = found.log.end_offset, i + 1 == len(segments)
        upper = upper if is_last else segments[i + 1].base_offset
        row: dict[str, Any] = {
            "type": "segmentRetention",
            "file": segment.file.name,
            "size": segment.size,
            "records": count,
            "baseOffset": segment.base_offset,
            "lastOffset": upper - 1,
            "rule": None,
            "largestTimestamp": segment.largest.timestamp,
            "largestTimestampSource": "fileTime" if segment.largest.offset is None else "timeIndex",
            "recordOffset": deciding_record(segment),
            "isFuture": segment.largest.timestamp > request.now_ms,
            "goesAt": None,
            "goesAfterBytes": None,
            "blockedBy": None,
            "held": None,
        }
        if i < gone:
            rule = found.selection.why[i]
            yield row | {"rule": "logStart" if rule == LOG_START else rule}
            continue
        if is_last and not segment.size:
            row["held"] = "empty"
        elif is_last and request.keeps_active:
            row["held"] = "keep-active"
        elif request.rules.has_log_start and upper > found.state.high_watermark:
            row["held"] = "high watermark"
        if limits.deletes and limits.retention_ms >= 0:
            if blocker is None or segment.largest.timestamp >= blocker.largest.timestamp:
                blocker = segment
            row["goesAt"] = blocker.largest.timestamp + limits.retention_ms + 1
            row["blockedBy"] = None if blocker is segment else blocker.file.name
        if limits.deletes and limits.retention_bytes >= 0:
            held_bytes += segment.size
            row["goesAfterBytes"] = max(0, limits.retention_bytes + held_bytes - left_bytes)
        yield row


def first_in_future(found: Retention, request: RetentionRequest) -> RetentionSegment | None:
    """Returns the oldest segment that is kept only because its timestamp is in the future."""
    if not request.limits.deletes or request.limits.retention_ms < 0:
        return None
    left = found.log.segments[len(found.selection.why) :]
    return next((segment for segment in left if segment.largest.timestamp > request.now_ms), None)


def deciding_record(segment: RetentionSegment) -> int | None:
    """Returns the offset of the first record with the largest timestamp in the batch that the time index names."""
    entry = segment.largest
    if entry.offset is None:
        return None
    with open_segment(segment.file.path, base_offset=segment.base_offset) as reader:
        reader.begin_at(seek_offset(reader, segment.file, entry.offset).position)
        for walked, batch in enumerate(reader):
            if walked > WALK_BATCHES:
                return None
            if isinstance(batch, Batch) and batch.is_valid and batch.last_offset >= entry.offset:
                return _first_at(batch, entry.timestamp)
    return None


def _first_at(batch: Batch, timestamp: int) -> int | None:
    try:
        return next((record.offset for record in batch if record.timestamp == timestamp), None)
    except UndecodableError:
        return None


# Counts a partition's segments, bytes and records before and after retention.

UNASKED_BYTES = 16 << 30
"""Records of a larger log are counted only on request: counting reads all batch headers."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Pairs are (before, after). ``sizes`` in bytes; ``counts``: the records of each segment, None if unknown;
    ``gone``: the number of deleted segments, the oldest ones."""

    directory: str
    segments: tuple[int, int]
    sizes: tuple[int, int]
    counts: tuple[int | None, ...]
    gone: int

    @property
    def records(self) -> tuple[int, int] | None:
        """Records before and after; None if those of any segment are unknown."""
        known = [count for count in self.counts if count is not None]
        if len(known) < len(self.counts):
            return None
        return sum(known), sum(known[self.gone :])


def amounts(found: Retention, is_asked: bool) -> Amounts:
    """Counts segments, bytes and, below UNASKED_BYTES or if ``is_asked``, records.

    Raises PathError if a segment cannot be read.
    """
    segments, gone = found.log.segments, len(found.selection.why)
    counts: list[int | None] = [None] * len(segments)
    if is_asked or found.log.size <= UNASKED_BYTES:
        buffers = Buffers()
        # Up to 0.7 the format has no headers to count by; only the file suffix identifies such a log.
        counts = [record_count(each.file.path, buffers) if each.file.kind == LOG else None for each in segments]
    sizes = found.log.size, sum(span.size for span in found.left)
    return Amounts(found.log.directory, (len(segments), len(found.left)), sizes, tuple(counts), gone)


def partition_row(found: Retention, settings: PartitionLimits, now_ms: int, amount: Amounts | None) -> dict[str, Any]:
    """Returns the object of type ``retention``; ``amount`` if segments are deleted."""
    records = amount.records if amount else None
    return {
        "type": "retention",
        "directory": found.log.directory,
        "segments": len(found.log.segments),
        "bytes": found.log.size,
        "logStartOffset": found.state.log_start_offset,
        "highWatermark": found.state.high_watermark,
        "logEndOffset": found.state.end_offset,
        "cleanupPolicy": settings.policy,
        "retentionMs": settings.limits.retention_ms,
        "retentionBytes": settings.limits.retention_bytes,
        "sources": {name: settings.sources[name] for name in (POLICY, RETENTION_MS, RETENTION_BYTES)},
        "now": now_ms,
        "goes": len(found.selection.why),
        "rolls": found.selection.rolls,
        "segmentsAfter": len(found.left),
        "bytesAfter": sum(span.size for span in found.left),
        "records": records[0] if records else None,
        "recordsAfter": records[1] if records else None,
    }


class RetentionPlanner(Planner):
    """Makes the plans of `kseg retain`. Raises RequestError for options that the release does not have."""

    command = "retain"
    root_names: tuple[str, ...] = (LOG_STARTS, HIGH_WATERMARKS)
    with_root = True

    def __init__(self, options: RetainOptions, change: ChangeOptions, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._options, self._change = options, change
        self._topics = Topics(options.topics, options.explains, options.server)
        self._rules = RetentionRules(options.release)
        self._now_ms = int(time.time() * 1000) if options.now_ms is None else options.now_ms
        self._starts: dict[TopicPartition, tuple[int, int]] = {}
        """The log start and the base offset of the first segment."""
        self._warned: set[str] = set()
        self._changed: list[Amounts] = []
        if options.log_start_offset is not None and not self._rules.has_log_start:
            raise RequestError("--log-start-offset: a log has no start offset before 0.11")

    def conclusion(self) -> list[str]:
        """Returns the amounts of all partitions before and after."""
        changed = [each for each in self._changed if each.directory not in self.failures.paths]
        if not changed:
            return []
        would = "would be: " if self._change.is_dry else ""
        return [f"{would}{_summary(changed)}, in partitions: {len(changed)}"]

    def plan_partition(self, directory: str, known: Known) -> Plan:
        if not self._topics.is_named(directory):
            raise KsegError(f"{directory}: is of no topic that --topic names")
        settings = self._settings(directory)
        if settings.refusal:
            raise KsegError(f"{directory}: {settings.refusal}")
        return self._plan(directory, known, settings)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        if self._options.log_start_offset is not None:
            raise KsegError(f"{directory}: --log-start-offset is that of one partition: name its directory")
        self._topics.check(directory)
        yield from self.planned(self._selected(directory), lambda path: self._plan_selected(path, known))

    def _plan_selected(self, path: str, known: Known) -> Plan | None:
        settings = self._settings(path)
        if settings.refusal:
            self.reporter.warning(f"{path}: left alone: {settings.refusal}")
            return None
        return self._plan(path, known, settings)

    def _report_segments(self, found: Retention, amount: Amounts) -> None:
        for segment, count, i in zip(found.log.segments, amount.counts, range(len(amount.counts)), strict=True):
            records = "" if count is None else f", {plural(count, 'record', 'records')}"
            fate = "goes" if i < amount.gone else "stays"
            self.reporter.detail(f"{segment.file.path}: {fate}: {shown_bytes(segment.size)}{records}")
        self.reporter.detail(
            f"{amount.directory}: {_summary([amount])}, the log starts at offset {found.selection.log_start_offset}, "
            f"before at {found.state.spans[0].base_offset}"
        )

    def _selected(self, directory: str) -> list[str]:
        """Returns the partitions of a log directory that retention applies to, and reports the others."""
        selected, left = [], Counter[str]()
        paths = own_partitions(directory)
        self._topics.warn_if_none(directory, paths, self.reporter.warning)
        for path in paths:
            why = self._topics.why_left(path, directory) or ("" if list_segments(path) else NO_SEGMENT)
            if why:
                self.reporter.detail(f"{path}: left alone: {why}")
                left[why] += 1
            else:
                selected.append(path)
        warn_left_alone(directory, left, self.reporter.warning)
        return selected

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        plan = Plan(directory)
        for path in self.failures.paths:
            self._starts.pop(topic_partition_of(path) or ("", 0), None)
        if self._rules.has_log_start and self._starts:
            entries = checkpoint_entries(directory, LOG_STARTS, known)
            before = dict(entries)
            for partition, start in self._starts.items():
                set_log_start(entries, partition, *start)
            if entries != before:
                plan.write(
                    LOG_STARTS, [build_offset_checkpoint(entries)], "where logs begin in the middle of a segment"
                )
        self._starts = {}
        return plan

    def _settings(self, directory: str) -> PartitionLimits:
        topic = (topic_partition_of(directory) or (None, 0))[0]
        with errors_at(directory, KsegError, of=KsegError):
            found = settings_of(topic, self._topics.lookup(directory), self._options)
        self._check_settings(directory, found)
        return found

    def _check_settings(self, directory: str, found: PartitionLimits) -> None:
        """Warns of settings that delete nothing: each once in a run."""
        unknown = [name for name in (RETENTION_MS, RETENTION_BYTES) if found.sources[name] == UNKNOWN]
        options = self._options
        has_limit = (options.retention_ms, options.retention_bytes) != (None, None)
        is_asked = has_limit or options.policy is not None or options.log_start_offset is not None
        if not found.limits.deletes and has_limit:
            policy = found.policy or "empty"
            self._warn(f"where cleanup.policy is {policy}, nothing is deleted by age or size", directory)
        elif len(unknown) == 2 and found.limits.deletes and not is_asked:
            self._warn(
                "neither options nor a topic's own settings name a limit, and a broker's own (log.retention...) are "
                "not known here: only segments below the log start are deleted"
            )

    def _warn(self, line: str, place: str = "") -> None:
        """Warns once in a run. ``place``: the first partition concerned."""
        if line not in self._warned:
            self.reporter.warning(f"{line}: {place}" if place else line)
            self._warned.add(line)

    def _plan(self, directory: str, known: Known, settings: PartitionLimits) -> Plan:
        place, root = topic_partition_of(directory), os.path.dirname(os.path.abspath(directory))
        offsets = KnownOffsets()
        if place is not None and self._rules.has_log_start:
            both = (checkpoint_offset(root, name, known, place) for name in (LOG_STARTS, HIGH_WATERMARKS))
            offsets = KnownOffsets(*both)
        request = RetentionRequest(
            settings.limits,
            self._rules,
            self._now_ms,
            self._options.log_start_offset,
            self._options.keeps_active,
            frees=not self._change.keeping.keeps,
        )
        found = retain(directory, offsets, request)
        amount = None
        if found.selection.why:
            amount = amounts(found, self._options.counts_records)
            self._changed.append(amount)
            self._report_segments(found, amount)
        if place is not None:
            self._starts[place] = found.selection.log_start_offset, found.first_base
        if self._options.explains or amount is not None:
            counts = amount.counts if amount else (None,) * len(found.log.segments)
            is_each = self._options.explains or self._options.counts_records
            rows = explain(found, request, counts) if is_each else iter(())
            self.reporter.summary(partition_row(found, settings, self._now_ms, amount), rows)
        if self._options.explains:
            return found.plan
        if (segment := first_in_future(found, request)) is not None:
            self.reporter.warning(
                f"{segment.file.path}: its newest time, {shown_time(segment.largest.timestamp)}, is in the future: "
                "it and all later segments stay whatever their age (--explain shows why)"
            )
        return found.plan


def _summary(changed: list[Amounts]) -> str:
    """Describes partitions before and after."""
    segments, sizes = (_sums([getattr(each, name) for each in changed]) for name in ("segments", "sizes"))
    text = f"segments: {segments[0]} -> {segments[1]}, their size: {shown_bytes(sizes[0])} -> {shown_bytes(sizes[1])}"
    records = [each.records for each in changed if each.records is not None]
    if len(records) < len(changed):
        return text
    return f"{text}, records: {' -> '.join(map(str, _sums(records)))}"


def _sums(pairs: list[tuple[int, int]]) -> tuple[int, int]:
    return sum(before for before, _ in pairs), sum(after for _, after in pairs)
