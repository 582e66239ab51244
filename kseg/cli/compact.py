"""``kseg compact``: what the broker's log cleaner does, on files at rest."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import click

from kseg.changes.driver.planner import ChangeOptions, Planner
from kseg.changes.driver.reporter import Reporter
from kseg.changes.plan import Plan
from kseg.changes.root_files import Known, TopicPartition, checkpoint_entries, checkpoint_offset, topic_partition_of
from kseg.changes.staging import staging
from kseg.cleaner.compaction import Checkpoints, Compaction, Compactor, RoundMaker
from kseg.cleaner.disk_space import Need
from kseg.cleaner.memory import default_memory_bytes
from kseg.cleaner.offset_map import memory_for
from kseg.cleaner.reading import DamagedError
from kseg.cleaner.rounds import Round
from kseg.cleaner.settings import CleanerSettings
from kseg.cleaner.topic_settings import settings_for
from kseg.cli.changing import run_change
from kseg.cli.changing_options import changing_options, paths_argument
from kseg.cli.compaction_space import CompactionRoom
from kseg.cli.engine import engine_options, spark_session
from kseg.cli.eras import IntervalTeller, era_option, with_known_interval
from kseg.cli.options import ByteCount, Milliseconds, interval_option
from kseg.cli.times import TimePoint
from kseg.cli.topics import MOVED, Topics, tell_left_alone, topic_option
from kseg.errors import KsegError, RequestError, StoppedHalfwayError, text_of
from kseg.kernel.files.guard import keep_freed_memory
from kseg.output.change_reporter import Presentation
from kseg.output.compaction import CompactionPrinter
from kseg.output.paint import plural, shown_bytes
from kseg.recovery.broker.intervals import chosen_interval
from kseg.recovery.broker.start import Start
from kseg.recovery.workspace import Workspace
from kseg.releases.cleaner import CleanerRules
from kseg.runtime.cores import usable_cores
from kseg.segment.files import METADATA_TOPIC, own_partitions
from kseg.sidefiles.checkpoints import OffsetCheckpoint, build_offset_checkpoint

CLEANER_OFFSETS, LOG_STARTS = "cleaner-offset-checkpoint", "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
_LEAST_MEMORY_BYTES = 64 << 10


@click.command("compact")
@paths_argument
@click.option("--min-compaction-lag-ms", "min_lag_ms", type=Milliseconds(), help="Younger records stay as they are.")
@click.option(
    "--max-compaction-lag-ms",
    "max_lag_ms",
    type=Milliseconds(),
    help="Older dirty records are cleaned whatever the ratio.",
)
@click.option(
    "--delete-retention-ms", type=Milliseconds(), help="How long tombstones and markers stay once they are cleaned."
)
@click.option(
    "--min-cleanable-ratio",
    "min_ratio",
    type=click.FloatRange(0, 1),
    metavar="RATIO",
    help="Clean only where more than this part of the log is dirty; default 0.5.",
)
@click.option("--segment-bytes", type=ByteCount(), help="Segments become one while they are no larger together.")
@click.option("--max-index-bytes", "index_bytes", type=ByteCount(), help="The same for their indexes.")
@interval_option
@click.option("--memory", type=ByteCount(), help="For the map of keys; default: a quarter of what is available.")
@click.option("--now", type=TimePoint(), help="What counts as now: ms since the epoch, or RFC 3339.")
@click.option("--until-clean", is_flag=True, help="Go on in rounds where the map is too small for all keys.")
@click.option("--include-active", is_flag=True, help="Clean the last segment too.")
@click.option("--keep-format", is_flag=True, help="Let messages v0 and v1 be what they are; default: they become v2.")
@click.option("--drop-null-keys", is_flag=True, help="Go on where records have no key: they go.")
@click.option(
    "--force-policy", is_flag=True, help="Compact topics too whose cleanup.policy is known and lacks compact."
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Work with N threads (default: the cores).")
@topic_option
@era_option("2.3")
@engine_options
@changing_options
def command(paths: tuple[str, ...], change: ChangeOptions, presentation: Presentation, **options: Any) -> int:
    """Clean a partition directory, or the compacted partitions of a log directory, as the broker's log cleaner does.

    Of each key the last record stays; tombstones and the markers of transactions go when their time has come, aborted
    records at once. Without options the topics' own settings are followed, where __cluster_metadata lies beside the
    partitions. A log that is damaged is left alone. What goes is kept: kseg undo.
    """
    keep_freed_memory()
    if options["engine"] == "spark" and options["memory"] is not None:
        raise click.UsageError("--memory is for the local engine: on Spark the map is spread over the tasks")
    with spark_session(options) as spark:
        planner = partial(CompactionPlanner, options, spark)
        summaries = partial(CompactionPrinter, as_json=presentation.is_json)
        return run_change(paths, planner, change, presentation, summaries).exit_status


class CompactionPlanner(Planner):
    """Makes the plans of one run; with a session of Spark, rounds are done there."""

    command = "compact"
    root_names: tuple[str, ...] = (CLEANER_OFFSETS, LOG_STARTS, HIGH_WATERMARKS)
    with_root = True

    def __init__(self, options: dict[str, Any], spark: Any, change: ChangeOptions, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._spark, self._change = spark, change
        try:
            rules = CleanerRules(options["era"].release)
        except ValueError as error:
            raise RequestError(f"--era: {error}") from error
        self._options = options
        self._topics, self._intervals = Topics(options["topic"]), IntervalTeller(reporter)
        self._ends: dict[TopicPartition, int] = {}
        memory_bytes = options["memory"] if options["memory"] is not None else default_memory_bytes()
        self._base = CleanerSettings(
            now_ms=options["now"] if options["now"] is not None else int(time.time() * 1000),
            memory_bytes=max(memory_bytes, _LEAST_MEMORY_BYTES),
            producer_expiration_ms=options["era"].expiration_ms,
            keeps_log_end=rules.keeps_log_end or options["include_active"],
            keeps_format=options["keep_format"] or rules.keeps_format,
            includes_active=options["include_active"],
            drops_null_keys=options["drop_null_keys"],
            until_clean=options["until_clean"],
            jobs=options["jobs"] or usable_cores(),
            has_horizons=rules.has_horizons,
            heeds_high_watermark=rules.heeds_high_watermark,
        )

    def plan_partition(self, directory: str, known: Known) -> Iterator[Plan]:
        if not self._topics.is_named(directory):
            raise KsegError(f"{directory}: is of no topic that --topic names")
        if policy := self._refused_policy(directory):
            raise KsegError(f"{directory}: {_against('its topic', policy)}")
        yield from self._plans(directory, known)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        self._topics.check(directory)
        for path in self._meant(directory):
            with self.failures.of(path):
                try:
                    yield from self._plans(path, known)
                except DamagedError as error:
                    self.reporter.error(error)
                    self.damage_remains = True

    def _refused_policy(self, path: str) -> str | None:
        """The cleanup.policy for which a partition that is named is refused; None where it is compacted."""
        return None if self._options["force_policy"] else self._topics.policy_without_compact(path)

    def _meant(self, directory: str) -> list[str]:
        """The partitions of a log directory to clean; tells those that are refused or left alone."""
        meant, refused, left = [], Counter[tuple[str, str]](), Counter[str]()
        paths = own_partitions(directory)
        self._topics.tell_if_vain(directory, paths, self.reporter)
        for path in paths:
            place, policy = topic_partition_of(path), self._topics.policy_without_compact(path)
            why = self._topics.why_left(path, directory) or ("" if place else MOVED)
            if not why and policy and not self._options["topic"]:
                why = f"cleanup.policy {policy}"
            if why:
                self.reporter.detail(f"{path}: left alone: {why}")
                left[why] += 1
            elif place and policy and not self._options["force_policy"]:
                refused[place[0], policy] += 1
            else:
                meant.append(path)
        for (topic, policy), count in refused.items():
            partitions = plural(count, "partition", "partitions")
            self.reporter.error(f"{directory}: {partitions} of {topic} refused: {_against(topic, policy)}")
            self.failures.refused()
        tell_left_alone(directory, left, self.reporter)
        return meant

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        plan = Plan(directory)
        entries = {(e.topic, e.partition): e.offset for e in checkpoint_entries(directory, CLEANER_OFFSETS, known)}
        changed = {place: end for place, end in self._ends.items() if entries.get(place) != end}
        if changed:
            rows = [OffsetCheckpoint(*place, offset) for place, offset in {**entries, **changed}.items()]
            plan.write(CLEANER_OFFSETS, [build_offset_checkpoint(rows)], "up to where logs are clean")
        self._ends = {}
        return plan

    def _plans(self, directory: str, known: Known) -> Iterator[Plan]:
        place, root = topic_partition_of(directory), os.path.dirname(os.path.abspath(directory))
        checkpoints = Checkpoints()
        if place is not None:
            names = (CLEANER_OFFSETS, LOG_STARTS, HIGH_WATERMARKS)
            checkpoints = Checkpoints(*(checkpoint_offset(root, name, known, place) for name in names))
        settings, began = self._settings(directory), time.monotonic()
        with ExitStack() as stack:
            stage = None
            if not self._change.is_dry:
                stage = stack.enter_context(staging(directory, self._change.output))
            room = CompactionRoom(directory, self._change, self.reporter)
            progress = stack.enter_context(self.reporter.progress())
            progress.at(directory)
            compactor = Compactor(
                directory, checkpoints, settings, stage, room.commits_each, progress, room.has_room, self._rounds(),
                self._spark is not None,
            )  # fmt: skip
            if self._spark is None:
                self.reporter.detail(f"{directory}: the map of keys may take {shown_bytes(settings.memory_bytes)}")
            has_plan = False
            try:
                for plan in compactor.plans():
                    has_plan = True
                    progress.erase()
                    yield plan
                    if directory in self.failures.places:
                        return  # what comes next is made from the files of this plan
            except OSError as error:
                if has_plan and not self._change.is_dry:
                    raise StoppedHalfwayError(
                        f"{directory}: {text_of(error)}; a part is cleaned: repeat the command, or kseg undo"
                    ) from error
                raise KsegError(f"{directory}: {text_of(error)}; nothing was changed") from error
            if not has_plan and self._change.output:
                yield Plan(directory)  # a copy is asked for in any case
        if place is not None and compactor.result.end is not None:
            self._ends[place] = compactor.result.end
        if self._change.is_dry and compactor.result.rounds:
            room.warn(Need(compactor.result.peak_bytes, compactor.replaced_bytes, True))
        self._tell(compactor.result, time.monotonic() - began)

    def _rounds(self) -> RoundMaker:
        if self._spark is None:
            return Round
        from kseg.spark.compaction import SparkRound

        return partial(SparkRound, spark=self._spark)

    def _settings(self, directory: str) -> CleanerSettings:
        asked = {**self._options, "interval_bytes": self._options["index_interval_bytes"]}
        lookup = self._topics.lookup(directory)
        if asked["interval_bytes"] is None:
            start = with_known_interval(Start(), self._topics.metadata, directory)
            found = chosen_interval(Workspace(directory), start.interval_bytes, start.interval_source)
            self._intervals.tell(directory, found)
            asked["interval_bytes"] = found.size
        return settings_for(self._base, asked, lookup)

    def _tell(self, result: Compaction, seconds: float) -> None:
        if result.found is None:
            return
        counts, found = result.counts, result.found
        stops = list(found.stops)
        if result.rounds and not result.is_whole and not result.later:
            stops.append(f"offsets from {result.end} on, as the map was full (--until-clean, --memory)")
        if not result.rounds and not stops:
            stops.append("nothing is dirty")
        row = {
            "type": "compaction",
            "directory": result.directory,
            "rounds": result.rounds,
            "dirtyFrom": found.start,
            "dirtyTo": found.end,
            "dirtyRatio": round(found.ratio, 4),
            "checkpoint": result.end if result.end is not None else found.start,
            "keys": result.keys,
            "laterRounds": [{"dirtyFrom": each.start, "dirtyTo": each.end, "keys": each.keys} for each in result.later],
            "oneRoundMemory": memory_for(result.keys + sum(each.keys for each in result.later)),
            "peakBytes": result.peak_bytes,
            "bytesBefore": result.bytes_before,
            "bytesAfter": result.bytes_after,
            "records": counts["records"],
            "kept": counts["kept"],
            "gone": {
                "superseded": counts["superseded"],
                "tombstones": counts["tombstones"],
                "aborted": counts["discarded_records"],
                "markers": counts["discarded_markers"],
                "noKey": counts["no_key"],
            },
            "batches": {name: counts[name] for name in ("copied", "rewritten", "emptied", "dropped")},
            "seconds": round(seconds, 3),
            "stops": stops,
        }
        segments = [
            {
                "type": "cleanedSegment",
                "directory": result.directory,
                "baseOffset": group.segment.base_offset,
                "sources": [source.base_offset for source in group.sources],
                "bytesBefore": group.bytes_before,
                "bytesAfter": group.segment.size,
                "records": group.counts["records"],
                "kept": group.counts["kept"],
            }
            for group in result.groups
        ]
        self.reporter.summary(row, segments)
        if counts["no_key"] and self._change.is_dry and not self._options["drop_null_keys"]:
            self.reporter.warning(
                f"{result.directory}: {counts['no_key']} records have no key: it is refused without --drop-null-keys"
            )


def _against(topic: str, policy: str) -> str:
    """Why a topic with this cleanup.policy is not compacted."""
    return (
        f"{topic} has cleanup.policy {policy} ({METADATA_TOPIC}-0), and compaction would remove records that its "
        "consumers expect; --force-policy does it all the same"
    )
