"""``kseg retain``: the segments that a broker's retention would delete go, and why the others stay."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import click

from kseg.changes.driver.planner import ChangeOptions, Planner
from kseg.changes.driver.reporter import Reporter
from kseg.changes.plan import Plan
from kseg.changes.root_files import Known, checkpoint_entries, checkpoint_offset, topic_partition_of
from kseg.cli.changing import run_change
from kseg.cli.changing_options import changing_options, paths_argument
from kseg.cli.eras import era_option
from kseg.cli.options import ByteCount, Milliseconds
from kseg.cli.times import TimePoint
from kseg.cli.topics import NO_SEGMENT, Topics, tell_left_alone, topic_option
from kseg.errors import KsegError, RequestError
from kseg.output.change_reporter import Presentation
from kseg.output.paint import plural, shown_bytes, shown_time
from kseg.output.retention import retention_printer
from kseg.releases.retention import LOG_START, Rules
from kseg.retention.amounts import Amounts, amounts
from kseg.retention.explanation import Verdict, explain, first_in_future
from kseg.retention.log_starts import HIGH_WATERMARKS, LOG_STARTS, LogStart, Partition, with_log_starts
from kseg.retention.planning import Known as KnownOffsets
from kseg.retention.planning import Request, Retention, retain
from kseg.retention.settings import POLICY, RETENTION_BYTES, RETENTION_MS, UNKNOWN, Asked, Settings, settings_of
from kseg.segment.files import LAST_OFFSET, list_segments, own_partitions


class _LimitOfBytes(ByteCount):
    """A number of bytes, or -1."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return -1 if value == "-1" else super().convert(value, param, ctx)


@click.command("retain")
@paths_argument
@click.option(
    "--retention-ms",
    type=Milliseconds(has_none=True),
    help="Segments older than this go, ms or as 7d; -1: no limit.",
)
@click.option(
    "--retention-bytes", type=_LimitOfBytes(), help="The oldest segments go while so much is left; -1: no limit."
)
@click.option(
    "--log-start-offset",
    type=click.IntRange(0, LAST_OFFSET),
    metavar="N",
    help="Records below offset N are deleted, as by DeleteRecords.",
)
@click.option(
    "--policy",
    type=click.Choice(["delete", "compact", "compact,delete"]),
    help="cleanup.policy; with compact alone only what lies below the log start goes.",
)
@topic_option
@click.option("--now", type=TimePoint(), help="What counts as now: ms since the epoch, or RFC 3339.")
@click.option("--keep-active", is_flag=True, help="Never touch the last segment.")
@click.option("--explain", "explains", is_flag=True, help="Tell why each segment goes or stays, and change nothing.")
@era_option()
@changing_options
def command(paths: tuple[str, ...], change: ChangeOptions, presentation: Presentation, **options: Any) -> int:
    """Apply retention to a partition directory, or to the partitions of a log directory, as a broker does.

    Without options the topics' own settings are followed, where __cluster_metadata lies beside the partitions. Segments
    are renamed to .deleted, which a broker removes when it starts; until then, and in the quarantine, they can be had
    back: kseg undo.
    """
    explains = options["explains"]
    if explains:
        change = replace(change, is_dry=True)
    options["verbose"] = presentation.verbose
    summaries = None
    if explains or presentation.is_json:
        summaries = partial(retention_printer, presentation.form, presentation.color)
    outcome = run_change(
        paths,
        partial(RetentionPlanner, options),
        change,
        presentation,
        summaries,
        explains and not presentation.is_json,
    )
    return 0 if explains and outcome.exit_status == 1 else outcome.exit_status


class RetentionPlanner(Planner):
    """Makes the plans of one run."""

    command = "retain"
    root_names: tuple[str, ...] = (LOG_STARTS, HIGH_WATERMARKS)
    with_root = True

    def __init__(self, options: dict[str, Any], change: ChangeOptions, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._options, self._change = options, change
        self._asked = Asked(options["retention_ms"], options["retention_bytes"], options["policy"])
        self._topics = Topics(options["topic"])
        self._rules = Rules(options["era"].release)
        self._now_ms = options["now"] if options["now"] is not None else int(time.time() * 1000)
        self._starts: dict[Partition, LogStart] = {}
        self._told: set[str] = set()
        self._changed: list[Amounts] = []
        if options["log_start_offset"] is not None and not self._rules.has_log_start:
            raise RequestError("--log-start-offset: a log has no start offset before 0.11")

    def conclusion(self) -> list[str]:
        """How much there was, and how much is left."""
        changed = [each for each in self._changed if each.directory not in self.failures.places]
        if not changed:
            return []
        would = "would be: " if self._change.is_dry else ""
        return [f"{would}{_told(changed)}, in partitions: {len(changed)}"]

    def plan_partition(self, directory: str, known: Known) -> Plan:
        if not self._topics.is_named(directory):
            raise KsegError(f"{directory}: is of no topic that --topic names")
        settings = self._settings(directory)
        if settings.refusal:
            raise KsegError(f"{directory}: {settings.refusal}")
        return self._plan(directory, known, settings)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        if self._options["log_start_offset"] is not None:
            raise KsegError(f"{directory}: --log-start-offset is that of one partition: name its directory")
        self._topics.check(directory)
        meant = self._meant(directory)
        # All of them before the first is carried out: one that cannot be read is not to stop the others half-way.
        plans = []
        for path in meant:
            with self.failures.of(path):
                settings = self._settings(path)
                if settings.refusal:
                    self.reporter.warning(f"{path}: left alone: {settings.refusal}")
                else:
                    plans.append(self._plan(path, known, settings))
        yield from plans

    def _tell_segments(self, found: Retention, amount: Amounts) -> None:
        for segment, count, i in zip(found.log.segments, amount.counts, range(len(amount.counts)), strict=True):
            records = "" if count is None else f", {plural(count, 'record', 'records')}"
            fate = "goes" if i < amount.gone else "stays"
            self.reporter.detail(f"{segment.file.path}: {fate}: {shown_bytes(segment.size)}{records}")
        self.reporter.detail(
            f"{amount.directory}: {_told([amount])}, the log starts at offset {found.selection.log_start_offset}, "
            f"before at {found.state.spans[0].base_offset}"
        )

    def _meant(self, directory: str) -> list[str]:
        """The partitions of a log directory that retention is for; tells those that are left alone."""
        meant, left = [], Counter[str]()
        paths = own_partitions(directory)
        self._topics.tell_if_vain(directory, paths, self.reporter)
        for path in paths:
            why = self._topics.why_left(path, directory) or ("" if list_segments(path) else NO_SEGMENT)
            if why:
                self.reporter.detail(f"{path}: left alone: {why}")
                left[why] += 1
            else:
                meant.append(path)
        tell_left_alone(directory, left, self.reporter)
        return meant

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        plan = Plan(directory)
        for place in self.failures.places:
            self._starts.pop(topic_partition_of(place) or ("", 0), None)
        if self._rules.has_log_start and self._starts:
            content = with_log_starts(checkpoint_entries(directory, LOG_STARTS, known), self._starts)
            if content is not None:
                plan.write(LOG_STARTS, [content], "where logs begin in the middle of a segment")
        self._starts = {}
        return plan

    def _settings(self, directory: str) -> Settings:
        topic = (topic_partition_of(directory) or (None, 0))[0]
        try:
            found = settings_of(topic, self._topics.lookup(directory), self._asked)
        except KsegError as error:
            raise KsegError(f"{directory}: {error}") from error
        self._tell_settings(directory, found)
        return found

    def _tell_settings(self, directory: str, found: Settings) -> None:
        """What may not be meant: each once in a run."""
        unknown = [name for name in (RETENTION_MS, RETENTION_BYTES) if found.sources[name] == UNKNOWN]
        is_asked = self._options["log_start_offset"] is not None or self._asked != Asked()
        if not found.limits.deletes and self._asked[:2] != (None, None):
            self._tell(f"where cleanup.policy is {found.policy or 'empty'}, nothing goes by age or size", directory)
        elif len(unknown) == 2 and found.limits.deletes and not is_asked:
            self._tell(
                "neither options nor a topic's own settings name a limit, and a broker's own (log.retention...) are "
                "not known here: only what lies below the log start goes"
            )

    def _tell(self, line: str, place: str = "") -> None:
        """``place``: where it is so first."""
        if line not in self._told:
            self.reporter.warning(f"{line}: {place}" if place else line)
            self._told.add(line)

    def _plan(self, directory: str, known: Known, settings: Settings) -> Plan:
        place, root = topic_partition_of(directory), os.path.dirname(os.path.abspath(directory))
        offsets = KnownOffsets()
        if place is not None and self._rules.has_log_start:
            both = (checkpoint_offset(root, name, known, place) for name in (LOG_STARTS, HIGH_WATERMARKS))
            offsets = KnownOffsets(*both)
        request = Request(
            settings.limits,
            self._rules,
            self._now_ms,
            self._options["log_start_offset"],
            self._options["keep_active"],
            frees=not self._change.keeping.keeps,
        )
        found = retain(directory, offsets, request)
        amount = None
        if found.selection.why:
            amount = amounts(found, self._options["verbose"])
            self._changed.append(amount)
            self._tell_segments(found, amount)
        if place is not None:
            self._starts[place] = LogStart(found.selection.log_start_offset, found.first_base)
        if self._options["explains"] or amount is not None:
            counts = amount.counts if amount else (None,) * len(found.log.segments)
            is_each = self._options["explains"] or self._options["verbose"]
            verdicts = explain(found, request) if is_each else iter(())
            rows = (_segment_row(verdict, count) for verdict, count in zip(verdicts, counts, strict=is_each))
            self.reporter.summary(_partition_row(found, settings, self._now_ms, amount), rows)
        if self._options["explains"]:
            return found.plan
        if (segment := first_in_future(found, request)) is not None:
            self.reporter.warning(
                f"{segment.file.path}: its newest time, {shown_time(segment.largest.timestamp)}, lies in the future: "
                "it and all later segments stay whatever their age (--explain tells more)"
            )
        return found.plan


def _told(changed: list[Amounts]) -> str:
    """What there was of partitions and what is left."""
    segments, sizes = (_sums([getattr(each, name) for each in changed]) for name in ("segments", "sizes"))
    told = f"segments: {segments[0]} -> {segments[1]}, their size: {shown_bytes(sizes[0])} -> {shown_bytes(sizes[1])}"
    records = [each.records for each in changed if each.records is not None]
    if len(records) < len(changed):
        return told
    return f"{told}, records: {' -> '.join(map(str, _sums(records)))}"


def _sums(pairs: list[tuple[int, int]]) -> tuple[int, int]:
    return sum(before for before, _ in pairs), sum(after for _, after in pairs)


def _partition_row(found: Retention, settings: Settings, now_ms: int, amount: Amounts | None) -> dict[str, Any]:
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


def _segment_row(verdict: Verdict, records: int | None) -> dict[str, Any]:
    segment = verdict.segment
    return {
        "type": "segmentRetention",
        "file": segment.file.name,
        "size": segment.size,
        "records": records,
        "baseOffset": segment.base_offset,
        "lastOffset": verdict.last_offset,
        "rule": ("logStart" if verdict.rule == LOG_START else verdict.rule) or None,
        "largestTimestamp": segment.largest.timestamp,
        "largestTimestampSource": "fileTime" if segment.largest.offset is None else "timeIndex",
        "recordOffset": verdict.record_offset,
        "isFuture": verdict.is_future,
        "goesAt": verdict.goes_at_ms,
        "goesAfterBytes": verdict.goes_after_bytes,
        "blockedBy": verdict.blocked_by or None,
        "held": verdict.held or None,
    }
