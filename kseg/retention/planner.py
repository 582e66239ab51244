"""Plans retention: which segments of a partition a broker would delete, and why it keeps the others."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, NamedTuple

from kseg.changes.driver.command import ChangeOptions, Planner, Reporter
from kseg.changes.journal import Known, TopicPartition, checkpoint_entries, topic_partition_of
from kseg.changes.plan import Plan, Removed
from kseg.errors import KsegError, PathError, RequestError, errors_at
from kseg.formats.json_values import fields_of, name_value
from kseg.formats.rows import UndecodableError
from kseg.formats.suffixes import CHECKPOINT as SNAPSHOT_OF_METADATA
from kseg.formats.suffixes import DELETED, INDEX, INDEX_SUFFIXES, LOG, LOG_07, SNAPSHOT, SWAP, TIME_INDEX
from kseg.node.log_directory import LIVE_BY_COMPACTION, METADATA_PARTITION, BrokerState
from kseg.node.node import POLICY, Partition, Policy
from kseg.node.server_properties import CHECKPOINT, DEFAULT, DEFAULTS, UNKNOWN, ServerProperties
from kseg.node.topics import NO_SEGMENT, Topics, warn_left_alone
from kseg.options import declaration
from kseg.options.declaration import CONTENTS, RULES, Number, Value, option
from kseg.quantities import named_path, plural, shell_line, show_span, shown_bytes, shown_time
from kseg.releases.release import LOG_START, SIZE, TIME, Era, RetentionRules
from kseg.segment import files as segment_files
from kseg.segment.files import SegmentFile, segment_file, segment_stem
from kseg.segment.items import Batch, Damage
from kseg.segment.reader import open_segment
from kseg.segment.seek import offset_extent, seek_offset
from kseg.segment.survey import record_count
from kseg.sidefiles import checkpoints
from kseg.sidefiles.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LEADER_EPOCHS, LOG_STARTS
from kseg.sidefiles.indexes import last_time_entry
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.text_files import integer_setting
from kseg.stores.place import Place
from kseg.stores.windows import Buffers

Counts = tuple[int | None, ...]
"""The records of each segment, None if unknown."""


class RetentionSegment(NamedTuple):
    """One segment. ``size`` of its .log or .kafka file in bytes; ``largest_ms``: the timestamp that decides its age;
    ``largest_offset``: that of the time index entry with it, at most the last offset of the record's batch, None if it
    is the modification time of the file. An empty segment that is to be created has no ``file``."""

    base_offset: int
    size: int
    largest_ms: int
    largest_offset: int | None = None
    file: SegmentFile = segment_file("")


class LogState(NamedTuple):
    """The log when retention runs, as the broker has it; ``segments`` are sorted by base offset.

    ``names``: all files of the directory. ``damaged_at``: position of the first damage in the last segment after its
    last index entry; None if there is none.
    """

    segments: tuple[RetentionSegment, ...]
    log_start_offset: int
    high_watermark: int
    end_offset: int
    directory: str = ""
    names: frozenset[str] = frozenset()
    damaged_at: int | None = None

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def end_of(self, i: int) -> int:
        """Returns the offset after the last one that segment i may hold."""
        return self.segments[i + 1].base_offset if i + 1 < len(self.segments) else self.end_offset


@dataclass(frozen=True, slots=True)
class Limits:
    """``deletes``: whether age and size delete, as cleanup.policy includes delete; a negative limit means no limit.

    ``policy``: cleanup.policy, UNKNOWN if no metadata tell it; then nothing is deleted by age or size. ``sources``: the
    source of each setting: OPTION, or one of `kseg.node.server_properties`; UNKNOWN means no limit because the broker's
    own file may set one. ``refusal``: why the partition is skipped, "" if it is not.
    """

    retention_ms: int = -1
    retention_bytes: int = -1
    deletes: bool = True
    policy: str = "delete"
    sources: dict[str, str] = field(default_factory=dict)
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class RetentionRequest:
    """The retention to apply. ``log_start_offset``: records below it are deleted, as by DeleteRecords;
    ``keeps_active``: the last segment is never deleted; ``frees``: files are removed instead of renamed."""

    limits: Limits
    rules: RetentionRules
    now_ms: int
    log_start_offset: int | None = None
    keeps_active: bool = False
    frees: bool = False


def select_deletions(log: LogState, request: RetentionRequest) -> tuple[list[str], int]:
    """Returns the rule for each deleted segment, oldest first, and the new log start offset.

    A segment is deleted if a rule holds for it and for all older ones, so a kept segment keeps all younger ones.
    Segments that reach the high watermark are kept, and so is an empty last segment. If all are deleted, an empty one
    is created. Source: UnifiedLog.deletableSegments, once per rule.
    """
    left, why, log_start = list(log.segments), list[str](), log.log_start_offset
    limits, rules = request.limits, request.rules
    for rule in rules.order:
        if rule == LOG_START:
            applies = limits.deletes or rules.starts_compacted_logs
        else:
            applies = limits.deletes and (limits.retention_bytes if rule == SIZE else limits.retention_ms) >= 0
        count = _deletable(rule, left, log, request, log_start) if applies else 0
        if request.keeps_active and count == len(left):
            count = max(0, count - 1)
        if not count:
            continue
        if count == len(left):
            left.append(RetentionSegment(log.end_offset, 0, request.now_ms))
        why += [rule] * count
        left = left[count:]
        log_start = max(log_start, left[0].base_offset)
    return why, log_start


def _deletable(
    rule: str, left: list[RetentionSegment], log: LogState, request: RetentionRequest, log_start: int
) -> int:
    """Returns the number of segments to delete by a rule, from the oldest on. By size: as long as the log without them
    still has at least retention.bytes."""
    limits = request.limits
    excess_bytes = sum(segment.size for segment in left) - limits.retention_bytes
    for i, segment in enumerate(left):
        following = left[i + 1] if i + 1 < len(left) else None
        upper = following.base_offset if following else log.end_offset
        excess_bytes -= segment.size
        holds = {
            LOG_START: following is not None and following.base_offset <= log_start,
            SIZE: excess_bytes >= 0,
            TIME: request.now_ms - segment.largest_ms > limits.retention_ms,
        }[rule]
        is_held = request.rules.has_log_start and log.high_watermark < upper
        if is_held or (following is None and not segment.size) or not holds:
            return i
    return len(left)


RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"
TIERED = "remote.storage.enable"
OPTION = "option"


@dataclass(frozen=True, slots=True)
class RetainOptions:
    """The options of `kseg retain`; times in ms, None for an option that is not given.

    ``retention_ms``, ``retention_bytes``: -1 for no limit. ``log_start_offset``: records below it are deleted.
    ``explains``: each segment is explained, and nothing changes. ``era``: the release of Kafka whose rules apply.
    ``counts_records``: the records of the segments are counted.
    """

    retention_ms: int | None = option(
        "--retention-ms",
        RULES,
        "Delete segments older than this, ms or as 7d; -1: no limit.",
        Value("MS", declaration.or_unlimited(declaration.milliseconds)),
    )
    retention_bytes: int | None = option(
        "--retention-bytes",
        RULES,
        "Delete the oldest segments while at least this size remains; -1: no limit.",
        Value("BYTES", declaration.or_unlimited(declaration.byte_count)),
    )
    log_start_offset: int | None = option(
        "--log-start-offset",
        RULES,
        "Delete records below offset N, as DeleteRecords does.",
        Number(0, segment_files.LAST_OFFSET),
        metavar="N",
    )
    policy: str | None = option(
        "--policy",
        RULES,
        "cleanup.policy; with compact alone, only segments below the log start offset are deleted.",
        ("delete", "compact", "compact,delete"),
    )
    topics: tuple[str, ...] = declaration.topics()
    server: ServerProperties | None = declaration.server()
    now_ms: int | None = declaration.now()
    keeps_active: bool = option("--keep-active", RULES, "Never touch the last segment.", bool)
    explains: bool = option("--explain", CONTENTS, "Explain why each segment is deleted or kept; change nothing.", bool)
    era: Era = declaration.era()
    counts_records: bool = False


def limits_of(partition: Partition, options: RetainOptions) -> Limits:
    """Returns the limits of a partition. Raises KsegError for a malformed one.

    A policy that is unknown is asked for, as ``--policy`` or by naming the topic; but not of a partition without a
    log directory, which nobody but the user knows.
    """
    policy, sources = partition.policy, dict[str, str]()
    if options.policy is not None:
        policy, decides = Policy(options.policy, OPTION), policy.source != CHECKPOINT
    else:
        decides = policy.is_known or bool(options.topics) or not partition.is_of_broker
        if decides and policy.text is None:
            policy = Policy(DEFAULTS[POLICY], DEFAULT)
    sources[POLICY] = policy.source
    found = []
    for name, given in ((RETENTION_MS, options.retention_ms), (RETENTION_BYTES, options.retention_bytes)):
        limit, sources[name] = partition.setting_and_source(name) if given is None else (str(given), OPTION)
        if (number := integer_setting("-1" if limit is None else limit, 64)) is None:
            raise KsegError(f"{name} is {limit!r}, not a number")
        found.append(number)
    deletes = policy.text is not None and "delete" in [word.strip() for word in policy.text.split(",")]
    is_asked = options.retention_ms is not None or options.retention_bytes is not None
    if partition.topic == segment_files.METADATA_TOPIC:
        refusal = "the cluster metadata log is truncated by snapshots, not by retention"
    elif (partition.own_setting(TIERED) or "").lower() == "true":
        refusal = _of_tiered(partition)
    elif decides or not is_asked or options.explains:
        refusal = ""
    elif partition.policy.source == CHECKPOINT:
        refusal = f"its topic is compacted, as {CLEANER_OFFSETS} has it: age and size delete none of its records"
    else:
        refusal = f"{partition.why_unknown()}; --policy or --topic decides"
    return Limits(
        found[0], found[1], deletes and decides, UNKNOWN if policy.text is None else policy.text, sources, refusal
    )


def _of_tiered(partition: Partition) -> str:
    """Returns why nothing is deleted from a tiered partition, and how far it is copied."""
    copied = partition.node.remote_copies
    if copied is None:
        return "its topic is tiered, and the segments in remote storage are unknown: no __remote_log_metadata is here"
    last = None if partition.place is None else copied.get(partition.place)
    if last is None:
        return "its topic is tiered, and by __remote_log_metadata nothing of it is copied: a broker deletes none of it"
    return (
        f"its topic is tiered: by __remote_log_metadata its segments are copied up to offset {last}; a broker deletes "
        f"these here by local.retention.ms and .bytes, and none from offset {last + 1} on"
    )


def read_log(directory: str, known: BrokerState, request: RetentionRequest) -> LogState:
    """Reads the log. Raises KsegError if it has no segments of the release, or segments on which no broker starts."""
    rules = request.rules
    kind = LOG_07 if rules.is_07 else LOG
    names = frozenset(segment_files.file_names(directory))
    if swaps := sorted(name for name in names if name.endswith(SWAP)):
        raise KsegError(
            f"{directory}/{swaps[0]}: an unfinished cleaning, completed by a broker at start: run kseg recover first"
        )
    files = [file for file in segment_files.list_segments(directory) if file.kind == kind]
    if not files:
        other = LOG if rules.is_07 else LOG_07
        hint = "; --era 0.7 is for these" if any(name.endswith(LOG_07) for name in names) else ""
        there = f", only {other} files{hint}" if any(name.endswith(other) for name in names) else ""
        raise PathError(f"{directory}: no {kind} files{there}")
    segments = tuple(_segment(file, rules) for file in files)
    last = segments[-1]
    end, damaged_at = last.base_offset, None
    if rules.is_07:
        end += last.size
    else:
        with open_segment(last.file.path, base_offset=end) as reader:
            extent = offset_extent(reader, last.file)
            reader.begin_at(seek_offset(reader, last.file, segment_files.LAST_OFFSET).position)
            bad = (item.position for item in reader if isinstance(item, Damage) or not item.is_valid)
            damaged_at = next(bad, None)
        end = end if extent is None else extent[1] + 1
    start, watermark = segments[0].base_offset, end
    if rules.has_log_start:
        start = max(start, known.log_start_offset or 0)
        if start > end:
            raise KsegError(
                f"{directory}: starts at offset {start} by its checkpoint, but ends at {end}: a broker "
                "would delete all records; run kseg recover first"
            )
        if known.high_watermark is not None:
            watermark = min(end, max(known.high_watermark, start))
        if (wanted := request.log_start_offset) is not None:
            if wanted > watermark:
                what = "high watermark" if watermark < end else "log end"
                raise KsegError(f"{directory}: --log-start-offset {wanted} is above the {what}, {watermark}")
            start = max(start, wanted)
    return LogState(segments, start, watermark, end, directory, names, damaged_at)


def _segment(file: SegmentFile, rules: RetentionRules) -> RetentionSegment:
    """Returns a segment with the timestamp that decides its age (LogSegment.largestTimestamp).

    A broker does not search for the newest record. After loading a segment it uses the last entry of the time index. If
    there is no entry, or the release has no time index, it uses the modification time of the .log.
    """
    base = file.base_offset
    if base is None or file.name != segment_stem(base) + file.kind:
        raise KsegError(f"{file.path}: not a segment name that brokers use; rename the file")
    with errors_at(file.path):
        status = Place(file.path).status()
    entry = last_time_entry(Place(file.path).with_ending(LOG, TIME_INDEX), base) if rules.has_time_index else None
    if entry is None or entry.timestamp < 0:
        return RetentionSegment(base, status.st_size, status.st_mtime_ns // 1_000_000, None, file)
    return RetentionSegment(base, status.st_size, entry.timestamp, entry.offset, file)


_LARGEST_EPOCH_FILE_BYTES = 1 << 28


UNASKED_BYTES = 16 << 30
"""Records of a larger log are counted only on request: counting reads all batch headers."""


class Retention(NamedTuple):
    """The plan of one partition and its inputs. ``why``: the rule for each deleted segment, oldest first."""

    log: LogState
    why: list[str]
    log_start_offset: int
    plan: Plan
    request: RetentionRequest

    @property
    def gone(self) -> int:
        """The number of deleted segments, the oldest ones."""
        return len(self.why)

    @property
    def rolls(self) -> bool:
        """Whether all are deleted, so that an empty one is created."""
        return self.gone == len(self.log.segments)

    @property
    def left(self) -> tuple[RetentionSegment, ...]:
        """The segments after the plan."""
        return self.log.segments[self.gone :] or (RetentionSegment(self.log.end_offset, 0, 0),)

    @property
    def left_bytes(self) -> int:
        return sum(segment.size for segment in self.left)

    def record_counts(self, is_asked: bool) -> Counts:
        """Counts the records of each segment of a log below UNASKED_BYTES, or if ``is_asked``.

        Raises PathError if a segment cannot be read.
        """
        if not is_asked and self.log.size > UNASKED_BYTES:
            return (None,) * len(self.log.segments)
        buffers = Buffers()
        # Up to 0.7 the format has no headers to count by; only the file suffix identifies such a log.
        files = [segment.file for segment in self.log.segments]
        return tuple(record_count(file.path, buffers) if file.kind == LOG else None for file in files)

    def records(self, counts: Counts) -> tuple[int, int] | None:
        """Returns the number of records before and after; None if that of any segment is unknown."""
        known = [count for count in counts if count is not None]
        return (sum(known), sum(known[self.gone :])) if len(known) == len(counts) else None


def retain(directory: str, known: BrokerState, request: RetentionRequest) -> Retention:
    """Plans retention, with the result of UnifiedLog.deleteSegments. ``known``: the offsets of the checkpoints.

    If all segments are deleted, an empty one is created at the log end offset. Then the log start moves, which
    truncates the leader epochs. Then the files of each segment are renamed to .deleted, oldest first. Whichever step is
    the last one done, the rest is a valid log. Raises KsegError if the directory cannot be read or needs recovery
    first.
    """
    log = read_log(directory, known, request)
    plan, rules = Plan(directory), request.rules
    why, log_start = select_deletions(log, request)
    found = Retention(log, why, log_start, plan, request)
    if found.rolls:
        # Otherwise a broker would recover the log before retention, and find another log end offset.
        if log.damaged_at is not None:
            raise KsegError(
                f"{log.segments[-1].file.path}: not intact at position {log.damaged_at}, so the log end is unknown: "
                "run kseg recover first (or use --keep-active)"
            )
        snapshots = [name for name in log.names if name.endswith(SNAPSHOT)]
        if rules.has_log_start and snapshots and segment_stem(log.end_offset) + SNAPSHOT not in snapshots:
            raise KsegError(
                f"{directory}: the last segment would be deleted too, but there is no producer snapshot at the log end "
                f"({log.end_offset}), as after an unclean stop: run kseg recover first (or use --keep-active)"
            )
        for kind in [LOG_07] if rules.is_07 else [LOG, INDEX, *[TIME_INDEX] * rules.has_time_index]:
            name = segment_stem(log.end_offset) + kind
            plan.write(name, [], "all segments are deleted: an empty one is created at the log end")
    loaded_start = max(log.segments[0].base_offset, known.log_start_offset or 0)
    is_moved = rules.has_log_start and log_start > loaded_start
    if rules.has_log_start and LEADER_EPOCHS in log.names:  # also those that a killed retention has left
        path = Place(directory) / LEADER_EPOCHS
        with errors_at(path):
            items = list(checkpoints.read_leader_epochs(path.read(_LARGEST_EPOCH_FILE_BYTES)))
        problems, entries = problems_of(items), entries_of(items)
        if problems and is_moved:
            raise KsegError(f"{path}: {problems[0].message}: run kseg recover first")
        cut = checkpoints.starting_at(entries, log_start)
        if cut != entries and not problems:
            reason = f"the log now begins at offset {log_start}"
            plan.write(LEADER_EPOCHS, [checkpoints.build_leader_epochs(cut)], reason)
    for i, rule in enumerate(why):
        _delete(plan, log, i, _reason(rule, log.segments[i], log, request), request)
    if is_moved and not rules.has_snapshot_of_each_segment:
        # Brokers before 2.8 remove all snapshots below the log start at once.
        for name in sorted(log.names):
            file = segment_file(name)
            if file.kind == SNAPSHOT and not file.leftover and file.base_offset is not None:
                if file.base_offset < log_start:
                    _remove(plan, name, f"below the log start offset {log_start}", False)
    return found


def _delete(plan: Plan, log: LogState, i: int, reason: str, request: RetentionRequest) -> None:
    segment, rules, end = log.segments[i], request.rules, log.end_of(i)
    renames, file = rules.renames and not request.frees, segment.file
    offsets = (segment.base_offset, end - 1) if end > segment.base_offset else (None, None)
    _remove(plan, file.name, reason, renames, [Removed(0, segment.size, "", *offsets)])
    if not rules.is_07:
        for kind in (*INDEX_SUFFIXES, *[SNAPSHOT] * rules.has_snapshot_of_each_segment):
            if (name := file.name.removesuffix(file.kind) + kind) in log.names:
                is_renamed = renames and (kind != SNAPSHOT or rules.renames_snapshots)
                _remove(plan, name, "deleted with its .log", is_renamed)


def _remove(plan: Plan, name: str, reason: str, renames: bool, removed: list[Removed] | None = None) -> None:
    if not renames:
        plan.delete(name, reason, removed or ())
        return
    if plan.state_of(name + DELETED) is not None:
        plan.delete(name + DELETED, "left over from an earlier deletion")
    plan.rename(name, name + DELETED, reason, removed or (), keeps=True)


def _reason(rule: str, segment: RetentionSegment, log: LogState, request: RetentionRequest) -> str:
    if rule == LOG_START:
        return f"below the log start offset {log.log_start_offset}"
    if rule == SIZE:
        return f"the log holds retention.bytes ({request.limits.retention_bytes} bytes) without it"
    by = f"its newest record (offset {segment.largest_offset})" if segment.largest_offset is not None else "its file"
    age = request.now_ms - segment.largest_ms
    return f"{by} is {show_span(age)} old, retention.ms is {show_span(request.limits.retention_ms)}"


WALK_BATCHES = 1 << 12
"""Limit of batches read after the offset index entry to find the batch of the last time index entry."""


def explain(found: Retention, counts: Counts) -> Iterator[dict[str, Any]]:
    """Yields an object of type ``segmentRetention`` for each segment, oldest first: why it is deleted or kept, by which
    record, and when it will be deleted. ``counts``: the records of each, None if unknown. Raises PathError if a segment
    cannot be read.

    ``lastOffset`` is the last offset that the segment may hold; ``rule`` the rule that deletes it, None if it is kept.
    ``recordOffset`` is the offset of the first record with the largest timestamp; None if the file's modification time
    is used, or if the record is not found. The other fields are about a kept segment. ``isFuture``: its largest
    timestamp is after now. ``goesAt``: when retention.ms will delete it if nothing is appended to it. ``blockedBy``:
    the older segment that keeps it until then. ``goesAfterBytes``: how many bytes the log must grow before
    retention.bytes deletes it. ``held``: why it is kept in any case.
    """
    segments, request, limits = found.log.segments, found.request, found.request.limits
    left_bytes, held_bytes, blocker = found.left_bytes, 0, None
    for i, (segment, count) in enumerate(zip(segments, counts, strict=True)):
        upper, is_last = found.log.end_of(i), i + 1 == len(segments)
        row: dict[str, Any] = {
            "type": "segmentRetention",
            "file": name_value(segment.file.path),
            "size": segment.size,
            "records": count,
            "baseOffset": segment.base_offset,
            "lastOffset": upper - 1,
            "rule": None,
            "largestTimestamp": segment.largest_ms,
            "largestTimestampSource": "fileTime" if segment.largest_offset is None else "timeIndex",
            "recordOffset": deciding_record(segment),
            "isFuture": segment.largest_ms > request.now_ms,
            "goesAt": None,
            "goesAfterBytes": None,
            "blockedBy": None,
            "held": None,
        }
        if i < found.gone:
            rule = found.why[i]
            yield row | {"rule": "logStart" if rule == LOG_START else rule}
            continue
        if is_last and not segment.size:
            row["held"] = "empty"
        elif is_last and request.keeps_active:
            row["held"] = "keep-active"
        elif request.rules.has_log_start and upper > found.log.high_watermark:
            row["held"] = "high watermark"
        if limits.deletes and limits.retention_ms >= 0:
            if blocker is None or segment.largest_ms >= blocker.largest_ms:
                blocker = segment
            row["goesAt"] = blocker.largest_ms + limits.retention_ms + 1
            row["blockedBy"] = None if blocker is segment else blocker.file.name
        if limits.deletes and limits.retention_bytes >= 0:
            held_bytes += segment.size
            row["goesAfterBytes"] = max(0, limits.retention_bytes + held_bytes - left_bytes)
        yield row


def first_in_future(found: Retention) -> RetentionSegment | None:
    """Returns the oldest segment that is kept only because its timestamp is in the future."""
    limits = found.request.limits
    if not limits.deletes or limits.retention_ms < 0:
        return None
    left = found.log.segments[found.gone :]
    return next((segment for segment in left if segment.largest_ms > found.request.now_ms), None)


def deciding_record(segment: RetentionSegment) -> int | None:
    """Returns the offset of the first record with the largest timestamp in the batch that the time index names."""
    if segment.largest_offset is None:
        return None
    with open_segment(segment.file.path, base_offset=segment.base_offset) as reader:
        reader.begin_at(seek_offset(reader, segment.file, segment.largest_offset).position)
        for batch in islice(reader, WALK_BATCHES + 1):
            if isinstance(batch, Batch) and batch.is_valid and batch.last_offset >= segment.largest_offset:
                with suppress(UndecodableError):
                    return next((record.offset for record in batch if record.timestamp == segment.largest_ms), None)
                return None
    return None


def partition_row(found: Retention, counts: Counts) -> dict[str, Any]:
    """Returns the object of type ``retention``; ``counts``: the records of each segment, none if all stay."""
    limits, records = found.request.limits, found.records(counts) if counts else None
    return {
        "type": "retention",
        "directory": name_value(found.log.directory),
        "segments": len(found.log.segments),
        "bytes": found.log.size,
        **fields_of(found.log, "log_start_offset", "high_watermark"),
        "logEndOffset": found.log.end_offset,
        "cleanupPolicy": limits.policy,
        **fields_of(limits, "retention_ms", "retention_bytes"),
        "sources": {name: limits.sources[name] for name in (POLICY, RETENTION_MS, RETENTION_BYTES)},
        "now": found.request.now_ms,
        "goes": found.gone,
        "rolls": found.rolls,
        "segmentsAfter": len(found.left),
        "bytesAfter": found.left_bytes,
        "records": records[0] if records else None,
        "recordsAfter": records[1] if records else None,
    }


class RetentionPlanner(Planner):
    """Makes the plans of `kseg retain`. Raises RequestError for options that the release does not have."""

    command = "retain"
    root_names: tuple[str, ...] = (LOG_STARTS, HIGH_WATERMARKS)
    with_root = True

    def __init__(self, options: RetainOptions, change: ChangeOptions, reporter: Reporter) -> None:
        super().__init__(reporter, options.server)
        self._options, self._change = options, change
        self._topics = Topics(options.topics, self.nodes, options.explains)
        self._rules = RetentionRules(options.era.release)
        self._now_ms = int(time.time() * 1000) if options.now_ms is None else options.now_ms
        self._starts: dict[TopicPartition, tuple[int, int]] = {}
        """The log start and the base offset of the first segment."""
        self._warned: set[str] = set()
        self._changed: list[tuple[Retention, Counts]] = []
        if options.log_start_offset is not None and not self._rules.has_log_start:
            raise RequestError("--log-start-offset: a log has no start offset before 0.11")

    def conclusion(self) -> list[str]:
        """Returns the amounts of all partitions before and after."""
        changed = [each for each in self._changed if each[0].log.directory not in self.failures.errors]
        if not changed:
            return []
        would = "would be: " if self._change.is_dry else ""
        return [f"{would}{_summary(changed)}, in partitions: {len(changed)}"]

    def plan_partition(self, directory: str, known: Known) -> Plan:
        if not self._topics.is_named(directory):
            raise KsegError(f"{directory}: is of no topic that --topic names")
        limits = self._limits(directory)
        if limits.refusal:
            raise KsegError(f"{directory}: {limits.refusal}")
        return self._plan(directory, known, limits)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        if self._options.log_start_offset is not None:
            raise KsegError(f"{directory}: --log-start-offset is that of one partition: name its directory")
        self._topics.check(directory)
        if self._options.explains:
            self._explain_metadata_log(directory)

        def plan(path: str) -> Plan | None:
            limits = self._limits(path)
            if not limits.refusal:
                return self._plan(path, known, limits)
            self.reporter.warning(f"{path}: left alone: {limits.refusal}")
            return None

        yield from self.planned(self._selected(directory), plan)

    def _explain_metadata_log(self, directory: str) -> None:
        """Reports the snapshots of the metadata log, which this command leaves alone."""
        path = Place(directory) / METADATA_PARTITION
        if not path.is_dir():
            return
        files = segment_files.list_segments(path)
        sizes = {file.path: Place(file.path).size() for file in files}
        snapshots = [size for name, size in sizes.items() if name.endswith(SNAPSHOT_OF_METADATA)]
        self.reporter.warning(
            f"{path}: {plural(len(snapshots), 'snapshot', 'snapshots')} of {shown_bytes(sum(snapshots))}, beside a log "
            f"of {shown_bytes(sum(sizes.values()) - sum(snapshots))}; left alone: a node deletes the oldest snapshots "
            "and the log before them once all exceed metadata.max.retention.bytes (100 MiB by default), or at the "
            "age of metadata.max.retention.ms (7 days), and never the newest"
        )

    def _report_segments(self, found: Retention, counts: Counts) -> None:
        for i, (segment, count) in enumerate(zip(found.log.segments, counts, strict=True)):
            records = "" if count is None else f", {plural(count, 'record', 'records')}"
            fate = "goes" if i < found.gone else "stays"
            self.reporter.detail(f"{segment.file.path}: {fate}: {shown_bytes(segment.size)}{records}")
        self.reporter.detail(
            f"{found.log.directory}: {_summary([(found, counts)])}, the log starts at offset "
            f"{found.log_start_offset}, before at {found.log.segments[0].base_offset}"
        )

    def _selected(self, directory: str) -> list[str]:
        """Returns the partitions of a log directory that retention applies to, and reports the others."""
        selected, left = [], Counter[str]()
        paths = segment_files.own_partitions(directory)
        self._topics.warn_if_none(directory, paths, self.reporter.warning)
        for path in paths:
            why = self._topics.why_left(path, directory) or ("" if segment_files.list_segments(path) else NO_SEGMENT)
            if why:
                self.reporter.detail(f"{path}: left alone: {why}")
                left[why] += 1
            else:
                selected.append(path)
        warn_left_alone(directory, left, self.reporter.warning)
        return selected

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        plan = Plan(directory)
        for path in self.failures.errors:
            self._starts.pop(topic_partition_of(path) or ("", 0), None)
        if self._rules.has_log_start and self._starts:
            entries = checkpoint_entries(directory, LOG_STARTS, known)
            before = dict(entries)
            for partition, start in self._starts.items():
                checkpoints.set_log_start(entries, partition, *start)
            if entries != before:
                reason = "where logs begin in the middle of a segment"
                plan.write(LOG_STARTS, [checkpoints.build_offset_checkpoint(entries)], reason)
        self._starts = {}
        return plan

    def _limits(self, directory: str) -> Limits:
        """Returns the limits of a partition. Warns once in a run about each that deletes nothing."""
        with errors_at(directory, KsegError, of=KsegError):
            found = limits_of(self.nodes.partition(directory), self._options)
        unknown = [name for name in (RETENTION_MS, RETENTION_BYTES) if found.sources[name] == UNKNOWN]
        options = self._options
        has_limit = (options.retention_ms, options.retention_bytes) != (None, None)
        is_asked = has_limit or options.policy is not None or options.log_start_offset is not None
        if not found.deletes and has_limit:
            policy = found.policy or "empty"
            self._warn(f"where cleanup.policy is {policy}, nothing is deleted by age or size", directory)
        elif len(unknown) == 2 and found.deletes and not is_asked:
            self._warn(
                "neither options nor a topic's own settings name a limit, and a broker's own (log.retention...) are "
                "not known here: only segments below the log start are deleted"
            )
        return found

    def _warn(self, line: str, place: str = "") -> None:
        """Warns once in a run. ``place``: the first partition concerned."""
        if line not in self._warned:
            self.reporter.warning(f"{line}: {place}" if place else line)
            self._warned.add(line)

    def _plan(self, directory: str, known: Known, limits: Limits) -> Plan:
        place, root = topic_partition_of(directory), Place(directory).absolute.parent
        offsets = BrokerState()
        if place is not None and self._rules.has_log_start:
            start, watermark = (checkpoint_entries(root, name, known).get(place) for name in self.root_names)
            offsets = BrokerState(log_start_offset=start, high_watermark=watermark)
        options, keeping = self._options, self._change.keeping
        request = RetentionRequest(
            limits, self._rules, self._now_ms, options.log_start_offset, options.keeps_active,
            frees=not keeping.keeps or keeping.is_on_another_disk_than(directory),
        )  # fmt: skip
        found, counts, explains = retain(directory, offsets, request), Counts(), options.explains
        if found.gone:
            counts = found.record_counts(self._options.counts_records)
            self._changed.append((found, counts))
            self._report_segments(found, counts)
            topic = None if place is None else place[0]
            if topic is not None and (purpose := LIVE_BY_COMPACTION.get(topic)) is not None:
                self._warn(f"{topic} lives by compaction: with its old records {purpose} are lost", directory)
        if place is not None:
            self._starts[place] = found.log_start_offset, found.left[0].base_offset
        if explains or found.gone:
            is_each = explains or self._options.counts_records
            rows = explain(found, counts or (None,) * len(found.log.segments)) if is_each else iter(())
            self.reporter.summary(chain([partition_row(found, counts)], rows))
        if (segment := first_in_future(found)) is not None:
            self.reporter.warning(
                f"{segment.file.path}: its newest time, {shown_time(segment.largest_ms)}, is in the future: "
                f"it and all later segments stay whatever their age{'' if explains else ' (--explain shows why)'}"
            )
            if limits.retention_bytes < 0:
                self._show_way_out(found)
        return found.plan

    def _show_way_out(self, found: Retention) -> None:
        """Names the limit by which a log goes whose age deletes nothing. How much of it is a decision."""
        words = ["kseg", "retain", "--dry-run", "--retention-bytes", str(found.left_bytes // 2)]
        words += ["--policy", self._options.policy] if self._options.policy is not None else []
        words += [word for topic in self._options.topics for word in ("--topic", topic)]
        self.reporter.warning(
            "only a size limit deletes such segments, old and new ones alike: retention.bytes of the topic, or here "
            "--retention-bytes. How much stays is a decision; this shows what would go at half the size:",
            shell_line([*words, named_path(found.plan.directory)]),
        )


def _summary(changed: list[tuple[Retention, Counts]]) -> str:
    """Describes partitions before and after."""
    segments = (sum(len(found.log.segments) for found, _ in changed), sum(len(found.left) for found, _ in changed))
    sizes = sum(found.log.size for found, _ in changed), sum(found.left_bytes for found, _ in changed)
    text = f"segments: {segments[0]} -> {segments[1]}, their size: {shown_bytes(sizes[0])} -> {shown_bytes(sizes[1])}"
    records = [found.records(counts) for found, counts in changed]
    known = [each for each in records if each is not None]
    if len(known) < len(changed):
        return text
    return f"{text}, records: {' -> '.join(str(sum(each)) for each in zip(*known, strict=True))}"
