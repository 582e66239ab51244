"""Plans the compaction of the partitions that a command names."""

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from kseg.changes.driver.command import ChangeOptions, Planner, Reporter
from kseg.changes.journal import Known, TopicPartition, checkpoint_entries, topic_partition_of
from kseg.changes.plan import Plan
from kseg.changes.quarantine import staging
from kseg.cleaner.compaction import (
    Compaction,
    Compactor,
    RoundMaker,
    SpaceCheck,
    SpaceNeeded,
    partition_row,
    segment_rows,
)
from kseg.cleaner.log import DamagedError
from kseg.cleaner.rounds import Round
from kseg.cleaner.settings import TOPIC_NAMES, CleanerSettings, CompactOptions, default_memory_bytes, settings_for
from kseg.errors import KsegError, RequestError, StoppedHalfwayError, errors_at, is_system_error, text_of
from kseg.logdir.log_directory import BrokerState
from kseg.logdir.topics import MOVED, TopicIntervals, Topics, warn_left_alone
from kseg.quantities import plural, shown_bytes
from kseg.releases.release import RANGE_END, CleanerRules
from kseg.runtime.threads import usable_cores
from kseg.segment.files import own_partitions
from kseg.sidefiles.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, build_offset_checkpoint

_MIN_MEMORY_BYTES = 64 << 10


class CompactionPlanner(Planner):
    """Makes the plans of `kseg compact`. ``remote_rounds``: makes rounds that run elsewhere, None for this process.

    Raises RequestError for a release whose rules are unknown.
    """

    command = "compact"
    damage_errors = (DamagedError,)
    root_names = (CLEANER_OFFSETS, LOG_STARTS, HIGH_WATERMARKS)
    with_root = True

    def __init__(
        self,
        options: CompactOptions,
        change: ChangeOptions,
        reporter: Reporter,
        remote_rounds: RoundMaker | None = None,
    ) -> None:
        super().__init__(reporter)
        with errors_at("--era", RequestError, of=ValueError):
            rules = CleanerRules(options.era.release)
        self._options, self._change, self._remote_rounds = options, change, remote_rounds
        self._limits_records = rules.limits_records
        self._topics = Topics(options.topics, server=options.server)
        self._intervals = TopicIntervals(options.interval_bytes, self._topics, reporter.warning, reporter.detail)
        self._ends: dict[TopicPartition, int] = {}
        memory_bytes = default_memory_bytes() if options.memory_bytes is None else options.memory_bytes
        self._base = CleanerSettings(
            now_ms=int(time.time() * 1000) if options.now_ms is None else options.now_ms,
            memory_bytes=max(memory_bytes, _MIN_MEMORY_BYTES),
            producer_expiration_ms=options.era.expiration_ms,
            kept_end=RANGE_END if options.includes_active else rules.kept_end,
            keeps_format=options.keeps_format or rules.keeps_format,
            includes_active=options.includes_active,
            drops_null_keys=options.drops_null_keys,
            until_clean=options.until_clean,
            jobs=options.jobs or usable_cores(),
            has_horizons=rules.has_horizons,
            heeds_high_watermark=rules.heeds_high_watermark,
        )

    def plan_partition(self, directory: str, known: Known) -> Iterator[Plan]:
        if not self._topics.is_named(directory):
            raise KsegError(f"{directory}: is of no topic that --topic names")
        policy = self._topics.policy_without_compact(directory)
        if policy and not self._options.forces_policy:
            raise KsegError(f"{directory}: {_against('its topic', policy, self._topics.policy_source(directory))}")
        yield from self._plans(directory, known)

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        self._topics.check(directory)
        for path in self._selected(directory):
            with self.attempt(path):
                yield from self._plans(path, known)

    def _selected(self, directory: str) -> list[str]:
        """Returns the partitions of a log directory to clean, and reports those that are refused or left alone."""
        selected, refused, left = [], Counter[tuple[str, str, str]](), Counter[str]()
        paths = own_partitions(directory)
        self._topics.warn_if_none(directory, paths, self.reporter.warning)
        for path in paths:
            place, policy = topic_partition_of(path), self._topics.policy_without_compact(path)
            why = self._topics.why_left(path, directory) or ("" if place else MOVED)
            if not why and policy and not self._options.topics:
                why = f"cleanup.policy {policy}"
            if why:
                self.reporter.detail(f"{path}: left alone: {why}")
                left[why] += 1
            elif place and policy and not self._options.forces_policy:
                refused[place[0], policy, self._topics.policy_source(path)] += 1
            else:
                selected.append(path)
        for (topic, policy, source), count in refused.items():
            partitions = plural(count, "partition", "partitions")
            self.reporter.error(f"{directory}: {partitions} of {topic} refused: {_against(topic, policy, source)}")
            self.failures.refused()
        warn_left_alone(directory, left, self.reporter.warning)
        return selected

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        plan = Plan(directory)
        entries = checkpoint_entries(directory, CLEANER_OFFSETS, known)
        changed = {place: end for place, end in self._ends.items() if entries.get(place) != end}
        if changed:
            plan.write(CLEANER_OFFSETS, [build_offset_checkpoint(entries | changed)], "up to where logs are clean")
        self._ends = {}
        return plan

    def _plans(self, directory: str, known: Known) -> Iterator[Plan]:
        settings, began, is_dry = self._settings(directory), time.monotonic(), self._change.is_dry
        with ExitStack() as stack:
            stage = None if is_dry else stack.enter_context(staging(directory, self._change.output))
            space = SpaceCheck(directory, self._change, self.reporter)
            progress = stack.enter_context(self.reporter.progress())
            progress.at(directory)
            compactor = Compactor(
                directory, self._checkpoints(directory, known), settings, stage, space.commits_each, progress,
                space.has_space, self._remote_rounds or Round, self._remote_rounds is not None,
            )  # fmt: skip
            if self._remote_rounds is None:
                self.reporter.detail(f"{directory}: the map of keys may take {shown_bytes(settings.memory_bytes)}")
            has_plan = False
            try:
                for plan in compactor.plans():
                    has_plan = True
                    progress.erase()
                    yield plan
                    if directory in self.failures.paths:
                        return  # the next plan would be made from the files of this plan
            except OSError as error:
                if not is_system_error(error):
                    raise
                if has_plan and not is_dry:
                    raise StoppedHalfwayError(
                        f"{directory}: {text_of(error)}; a part is cleaned: repeat the command, or kseg undo"
                    ) from error
                raise KsegError(f"{directory}: {text_of(error)}; nothing was changed") from error
            if not has_plan and self._change.output:
                yield Plan(directory)  # a copy is wanted in any case
        partition = topic_partition_of(directory)
        if partition is not None and compactor.result.end is not None:
            self._ends[partition] = compactor.result.end
        if is_dry and compactor.result.rounds:
            space.warn_if_refused(SpaceNeeded(compactor.result.peak_bytes, compactor.result.replaced_bytes, True))
        self._report(compactor.result, time.monotonic() - began)

    def _checkpoints(self, directory: str, known: Known) -> BrokerState:
        """Returns the offsets that the log directory's checkpoints have for the partition."""
        partition, root = topic_partition_of(directory), os.path.dirname(os.path.abspath(directory))
        if partition is None:
            return BrokerState()
        cleaner, start, watermark = (checkpoint_entries(root, name, known).get(partition) for name in self.root_names)
        return BrokerState(cleaner_offset=cleaner, log_start_offset=start, high_watermark=watermark)

    def _settings(self, directory: str) -> CleanerSettings:
        asked: Mapping[str, float | None] = {
            **{name: getattr(self._options, name) for name in TOPIC_NAMES},
            "interval_bytes": self._intervals.of(directory),
        }
        lookup, server = self._topics.lookup(directory), self._options.server
        settings, shown = settings_for(self._base, asked, lookup, server, self._limits_records)
        self.reporter.detail(f"{directory}: {shown}")
        return settings

    def _report(self, result: Compaction, seconds: float) -> None:
        if result.found is None:
            return
        self.reporter.summary(partition_row(result, result.found, seconds), segment_rows(result))
        without_key = result.counts["no_key"]
        if without_key and self._change.is_dry and not self._options.drops_null_keys:
            self.reporter.warning(
                f"{result.directory}: {without_key} records have no key: it is refused without --drop-null-keys"
            )


def _against(topic: str, policy: str, source: str) -> str:
    """Returns why a topic with this cleanup.policy is not compacted."""
    return (
        f"{topic} has cleanup.policy {policy} ({source}), and compaction would remove records that its consumers "
        "expect; --force-policy does it all the same"
    )
