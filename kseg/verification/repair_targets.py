"""Finds the partition or log directory that a repair changes, reads facts about it once, and checks it before."""

import os
import time
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

from kseg.changes.driver.command import ChangeOptions, Recording, run
from kseg.changes.plan import CREATE, Plan, Step
from kseg.changes.quarantine import FOLDER
from kseg.errors import KsegError, PathError
from kseg.findings.table import ERROR, INFO, KINDS, WARNING, texts_of
from kseg.formats.suffixes import LOG, LOG_07, TIME_INDEX
from kseg.logdir.coordinators import (
    ENDING,
    HANGING,
    GroupOffsets,
    TransactionState,
    abort_command,
    group_offsets,
    topic_id_at,
    transaction_states,
    verdict_of,
    waiting_groups,
    why_hanging,
)
from kseg.logdir.log_directory import METADATA_PARTITION, LogDirectory, directory_around, read_log_directory
from kseg.logdir.server_properties import ServerProperties
from kseg.quantities import plural
from kseg.recovery.options import BROKER, RecoverOptions, TopicIds
from kseg.recovery.planner import RecoveryPlanner, ReindexPlanner
from kseg.segment.files import (
    BOOTSTRAP,
    LOG_DIRECTORY_FILES,
    METADATA_TOPIC,
    OWN_PREFIX,
    file_names,
    holds_segments,
    is_part_of_log,
    list_partitions,
    parse_partition_name,
)
from kseg.segment.survey import FULL, QUICK
from kseg.segment.times import show_span
from kseg.stores import trees
from kseg.stores.windows import Buffers
from kseg.verification.directory_tree import DirectoryCheck, judge_task, tasks_of
from kseg.verification.metadata import is_newest, judge_snapshot
from kseg.verification.partition import CheckSettings
from kseg.verification.report import Finding, Report

# Facts of __transaction_state and __consumer_offsets in the same log directory about findings of transactions.


def with_coordinator_facts(finding: Finding, target: "RepairTarget") -> Finding:
    """Returns the finding with the transactional id of its producer, null if unknown; of an open transaction also with
    its state, a verdict, and the groups that wait."""
    details, texts = dict(finding.details), [finding.message]
    state = target.root.transaction_states.get(details["producerId"])
    details["transactionalId"] = None if state is None else state.name
    if state is not None:
        texts.append(f"its transactional id is {state.name}")
    if "ageMs" in details:  # the transaction is open at the end of the log
        texts += _add_state(details, state, target)
    return finding._replace(message="; ".join(texts), details=details)


def _add_state(details: dict[str, Any], state: TransactionState | None, target: "RepairTarget") -> list[str]:
    """Adds facts to the details of an open transaction. Returns sentences."""
    topic, partition = name = target.partition or (None, None)
    verdict = verdict_of(details["producerEpoch"], state, name, details["ageMs"])
    details |= {
        "state": None if state is None else state.state,
        "timeoutMs": None if state is None else state.timeout_ms,
        "verdict": verdict,
        "abort": abort_command(topic, partition, details["firstOffset"]) if verdict == HANGING else None,
    }
    texts = []
    if state is not None and state.state is not None:
        timeout = "" if state.timeout_ms is None else f", timeout {show_span(state.timeout_ms)}"
        texts.append(f"state {state.state}{timeout}")
        if verdict == ENDING:
            texts.append("the coordinator is writing its markers")
    if "lastStableOffset" in details:
        topic_id = topic_id_at(target.path)
        groups = waiting_groups(target.root.group_offsets, name, details["lastStableOffset"], topic_id)
        details["waitingGroups"] = None if groups is None else [group.as_object() for group in groups]
        waiting = plural(details["waitingOffsets"], "offset", "offsets")
        if groups:
            waiting += f" and {plural(len(groups), 'group', 'groups')}"
        texts.append(f"{waiting} waiting behind the last stable offset {details['lastStableOffset']}")
    if verdict == HANGING:
        texts.append(why_hanging(state, details["ageMs"]))
    return texts


Options = dict[str, str | None]
"""Options by name; the value of a flag is None."""


class RepairTarget:
    """The directory that a command changes: a partition, or a log directory if ``partition`` is None."""

    def __init__(self, path: str, root: "TargetLogDirectory") -> None:
        self.path = path
        self.root = root
        name = os.path.basename(os.path.abspath(path))
        self.partition = None if root.path == path else parse_partition_name(name)
        self._removed: dict[tuple[tuple[str, str | None], ...], int] = {}

    @cached_property
    def is_only_voter(self) -> bool | None:
        """Of the metadata log: whether no other node has it for sure (None: unknown)."""
        from kseg.logdir.cluster_metadata import is_only_voter

        try:
            return is_only_voter(self.path, self.root.server)
        except (KsegError, OSError):
            return None

    @property
    def has_other_replicas(self) -> bool:
        """Whether other nodes have the partition: by the cluster metadata, or by the voters of the metadata log."""
        if self.is_metadata:
            return self.is_only_voter is False
        return self.partition is not None and self.root.replica_count(*self.partition) > 1

    @property
    def is_metadata(self) -> bool:
        return self.partition is not None and self.partition[0] == METADATA_TOPIC

    @cached_property
    def is_07(self) -> bool:
        """Whether offsets are positions, so that only the end of a file can be removed."""
        return self.partition is not None and any(name.endswith(LOG_07) for name in file_names(self.path))

    def removed_records(self, options: Options) -> int:
        """Returns the number of intact records that `kseg recover` with these options would remove."""
        key = tuple(sorted(options.items(), key=str))
        if key not in self._removed:
            self._removed[key] = _removed_records(self.path, options)
        return self._removed[key]

    @property
    def topic_id(self) -> str | None:
        """The topic id by the cluster metadata, or by all other partitions of the topic."""
        return None if self.partition is None else self.root.topic_id(self.partition[0])


class TargetLogDirectory:
    """The log directory of a target. ``path`` has the form of the given paths."""

    def __init__(self, path: str, server: ServerProperties | None = None) -> None:
        self.path, self.server = path, server

    @cached_property
    def _known(self) -> LogDirectory | None:
        try:
            return read_log_directory(self.path)
        except PathError:
            return None

    @cached_property
    def _topic_ids(self) -> TopicIds:
        known = self._known.topics.ids if self._known is not None and self._known.topics is not None else {}
        return TopicIds(self.path, lambda _: None, known.get)

    @cached_property
    def transaction_states(self) -> dict[int, TransactionState]:
        """The states in the __transaction_state partitions of the log directory, by producer id."""
        return transaction_states(self.path)

    @cached_property
    def group_offsets(self) -> GroupOffsets | None:
        """The committed offsets in the __consumer_offsets partitions of the log directory."""
        return group_offsets(self.path)

    def replica_count(self, topic: str, partition: int) -> int:
        """Returns the number of replicas, 0 if unknown."""
        if self._known is None or self._known.topics is None:
            return 0
        topic_id = self._known.topics.ids.get(topic)
        return len(self._known.replicas(topic_id, partition)) if topic_id else 0

    def topic_id(self, topic: str) -> str | None:
        """Returns None if unknown, or if partitions disagree."""
        if topic == METADATA_TOPIC:
            return None
        try:
            found = self._topic_ids.find(topic)
        except PathError:
            return None
        return None if found is None else found[0]


class RepairTargets:
    """Finds the target of a finding by its file; each directory is listed once."""

    def __init__(self, server: ServerProperties | None = None) -> None:
        self._is_partition, self._is_log_directory = cache(_is_partition), cache(_is_log_directory)
        self._directory_of, self._target_at = cache(self._find_directory), cache(self._new_target)
        self._root_at = cache(partial(TargetLogDirectory, server=server))

    def target_of(self, file: str) -> RepairTarget | None:
        """Returns None for files that no command changes: a stream, an archive, a directory of other files."""
        path = self._directory_of(file)
        return None if path is None else self._target_at(path)

    def _new_target(self, path: str) -> RepairTarget:
        root = path
        if self._is_partition(path):
            root = os.path.dirname(path.rstrip("/")) or os.path.normpath(os.path.join(path, ".."))
        return RepairTarget(path, self._root_at(root))

    def _find_directory(self, file: str) -> str | None:
        """Returns the path or its parent, if it is a partition or log directory."""
        if file == "-" or "\0" in file or trees.find(file) is not None:
            return None
        is_directory = trees.isdir(file)
        if os.path.basename(file).startswith(OWN_PREFIX) and is_directory:
            return os.path.dirname(file) or "."
        if is_directory and (self._is_partition(file) or self._is_log_directory(file)):
            return file
        parent = os.path.dirname(file) or "."
        if not trees.isdir(parent):
            return None
        if self._is_partition(parent):
            return parent if _is_of_partition(file) else None
        is_own = os.path.basename(file) in LOG_DIRECTORY_FILES
        return parent if is_own and self._is_log_directory(parent) else None


def _is_partition(path: str) -> bool:
    try:
        return trees.isdir(path) and (holds_segments(path) or trees.isdir(os.path.join(path, FOLDER)))
    except KsegError:
        return False


def _is_log_directory(path: str) -> bool:
    try:
        return bool(LOG_DIRECTORY_FILES & set(file_names(path)) or list_partitions(path))
    except KsegError:
        return False


def _is_of_partition(path: str) -> bool:
    """Whether a command for the partition may change the file."""
    return is_part_of_log(os.path.basename(path)) or not trees.isfile(path)


def _removed_records(path: str, options: Options) -> int:
    recover = RecoverOptions(
        mode=options.get("--mode") or BROKER,
        drops_undecodable="--drop-undecodable" in options,
        scans_all="--full" in options,
        rebuilds_epochs="--rebuild-epochs" in options,
        topic_id=options.get("--topic-id"),
    )
    recording = Recording()
    with suppress(KsegError, OSError):  # then the command fails, and removes nothing
        run(
            [path], partial(RecoveryPlanner, recover, make_checks=RecoveryChecks), ChangeOptions(is_dry=True), recording
        )
    return sum(
        removed.records or 0
        for plan in recording.plans
        for step in plan.steps
        if step.file.endswith((LOG, LOG_07)) and step.file.partition(".")[0].isdigit()  # a broker serves no others
        for removed in step.removed
    )


class RecoveryChecks:
    """Checks of `verify` that decide what a recovery changes."""

    def __init__(self, server: ServerProperties | None = None) -> None:
        self._settings = CheckSettings(FULL, int(time.time() * 1000), server=server)
        self._buffers = Buffers(self._settings.max_batch_bytes)
        self._roots: dict[str, LogDirectory | None] = {}

    def is_damaged(self, partition: str) -> bool:
        """Whether a check of a partition finds an error or anything to repair, whatever the command, or fails."""
        found, failure = self._judged(partition, self._settings)
        return failure is not None or any(
            finding.severity == ERROR or (finding.severity == WARNING and KINDS[finding.code].repair)
            for finding in found
        )

    def metadata_refusal(self, directory: str) -> str:
        """Returns why a node does not start on the cluster's metadata in a log directory, "" if it does."""
        found, _ = self._judged(os.path.join(directory, METADATA_PARTITION), replace(self._settings, level=QUICK))
        bootstrap = os.path.join(directory, BOOTSTRAP)
        if trees.lexists(bootstrap):
            judge_snapshot(bootstrap, Report(found.append), FULL)
        for finding in found:
            if finding.code == "broker-would-not-start" or (
                finding.code == "bad-metadata-snapshot" and is_newest(finding.file)
            ):
                return f"{finding.file}: {finding.message}: {texts_of(finding.code).means}"
        return ""

    def _judged(self, partition: str, settings: CheckSettings) -> tuple[list[Finding], str | None]:
        """Returns the findings of a partition, and why it could not be checked."""
        root = os.path.dirname(os.path.abspath(partition))
        if root not in self._roots:
            self._roots[root] = directory_around(partition)
        found: list[Finding] = []
        (task,) = tasks_of(self._roots[root], [partition])
        outcome = judge_task(task, settings, Report(found.append), lambda _: None, self._buffers)
        return found, outcome.failure


class ReindexCheck(ReindexPlanner):
    """``reindex --check``: plans only for files that are missing or that a verification calls wrong, not for those that
    only differ from a rebuild. The message of the verification is the reason.

    A broker adds an entry for each append, and a rebuild for each batch, so that right indexes of one log can differ.
    """

    def chosen(self, plan: Plan) -> Plan:
        if plan:
            found: list[Finding] = []
            settings = CheckSettings(FULL, int(time.time() * 1000), self._start.jobs)
            DirectoryCheck(settings, Report(found.append), lambda _: None).judge(plan.directory)
            wrong = {finding.file: finding.message for finding in reversed(found) if finding.severity != INFO}
            # Brokers up to 0.10.0 wrote no time indexes.
            is_old = any(finding.code == "time-index-missing" and finding.severity == INFO for finding in found)
            steps = [_with_reason(step, wrong.get(os.path.join(plan.directory, step.file))) for step in plan.steps]
            plan.steps = [step for step in steps if step is not None and not (is_old and _is_new_time_index(step))]
        return plan


def _with_reason(step: Step, message: str | None) -> Step | None:
    """Returns the step with its reason, None if its file is right."""
    if step.action == CREATE:
        return step
    return None if message is None else replace(step, reason=message)


def _is_new_time_index(step: Step) -> bool:
    return step.action == CREATE and step.file.endswith(TIME_INDEX)
