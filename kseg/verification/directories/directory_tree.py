"""Checks a directory: a partition, a log directory, loose files of Kafka, or directories of these."""

import math
import os
import time
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from kseg.errors import KsegError, PathError
from kseg.findings.table import INFO
from kseg.formats.suffixes import CHECKPOINT, INDEX_SUFFIXES
from kseg.logdir.log_directory import (
    METADATA_PARTITION,
    BrokerState,
    LogDirectory,
    assigned_state,
    directory_around,
    is_moved,
    read_log_directory,
    state_by_name,
)
from kseg.segment.file_types import named_like_segment
from kseg.segment.files import (
    LOG_DIRECTORY_FILES,
    OWN_PREFIX,
    holds_segments,
    own_partitions,
    parse_partition_name,
    regular_and_other_names,
    segments_among,
)
from kseg.segment.paths import DEPTH
from kseg.sidefiles.remote_index_names import DIRECTORY as REMOTE_INDEX_CACHE
from kseg.stores import trees
from kseg.stores.buffers import Buffers
from kseg.verification.directories import rules as directory_rules
from kseg.verification.directories.misnamed_files import is_directory_of_others, judge_loose_files, judge_misnamed
from kseg.verification.directories.nodes import CheckedDirectory
from kseg.verification.directories.rules import KNOWN_FILES
from kseg.verification.directories.unread import add_unread, why_no_file
from kseg.verification.files import judge_file
from kseg.verification.partition import Partition, judge_segments
from kseg.verification.report import Finding, Report, Totals
from kseg.verification.rules import rules_of
from kseg.verification.settings import Advance, CheckSettings, partition_to_check

_ARCHIVE_DEPTH = 64
"""Levels of directories that are searched in an archive."""
LIVE_CHECKS, LIVE_SECONDS = 5, 0.1
"""Limit of checks of a partition beside a running broker, and seconds between them."""
SINGLE_PROCESS_SECONDS, SHARED_SECONDS = 0.01, 0.1
"""Seconds for which one process checks partitions, and estimated seconds left, before worker processes are started; for
less they cost more than they save."""


class Task(NamedTuple):
    """A partition to check."""

    directory: str
    broker: BrokerState


class CheckedPartition(NamedTuple):
    """The result of a partition besides its findings.

    ``failure``: why it could not be checked; ``extent``: log start and end offset, None if there is no segment.
    """

    directory: str
    totals: Totals
    topic_id: str | None
    failure: str | None
    extent: tuple[int, int] | None = None


_Place = tuple[str, str, int | None]
"""Code, file and position of a finding."""
PartitionChecker = Callable[[list[Task], CheckSettings, Report, Advance], Iterator[CheckedPartition]]
"""Checks partitions in other processes or on Spark. Yields outcomes in the order of the tasks, each after its findings
were reported."""


class CheckWorkers(NamedTuple):
    """``checker`` checks all partitions; None: this process does, and ``processes`` the rest if they are worth their
    cost."""

    checker: PartitionChecker | None = None
    processes: PartitionChecker | None = None


NO_WORKERS = CheckWorkers()


def judge_directory(
    path: str, settings: CheckSettings, report: Report, progress: Advance, workers: "CheckWorkers" = NO_WORKERS
) -> None:
    """Checks a directory; see `judge_path`. Raises PathError if it has no files of Kafka."""
    found = trees.find(path)
    depth = _ARCHIVE_DEPTH if found is not None and found.tree.is_archive else DEPTH
    if not judge_inside(path, settings, report, progress, workers, depth, is_named=True):
        raise PathError(f"{path}: neither a partition nor a log directory, nor above one (nothing of Kafka's in it)")


def judge_inside(
    path: str, settings: CheckSettings, report: Report, progress: Advance, workers: "CheckWorkers" = NO_WORKERS,
    depth: int = DEPTH, is_named: bool = False,
) -> bool:  # fmt: skip
    """Checks Kafka's files in a directory and up to ``depth`` levels below it, without following links. Returns whether
    there are any. ``is_named``: the user named the directory.

    Raises PathError if the directory itself cannot be read.
    """
    name = os.path.basename(os.path.abspath(path))
    files, others = regular_and_other_names(path)
    if (is_named or _is_log_directory(path, files, others)) and judge_if_log_directory(
        path, files, others, settings, report, progress, workers
    ):
        return True
    below = [os.path.join(path, name) for name in sorted(others) if is_directory_of_others(path, name)]
    is_partition = parse_partition_name(name) is not None and not below and (is_named or _has_names_of_kafka(files))
    if holds_segments(path) or is_partition:
        log_directory = directory_around(path)
        if log_directory is not None:
            log_directory.server = settings.server
        _judge_one(Task(path, _state(log_directory, name)), settings, report, progress, workers)
        return True
    found = _judge_loose(path, files, settings, report, progress, is_named)
    for directory in below if depth > 0 else ():
        try:
            found |= judge_inside(directory, settings, report, progress, workers, depth - 1)
        except PathError as error:
            report.failures.append(str(error))
    return found


def judge_if_log_directory(
    path: str, files: list[str], others: list[str], settings: CheckSettings, report: Report, progress: Advance,
    workers: "CheckWorkers" = NO_WORKERS,
) -> bool:  # fmt: skip
    """Checks a directory with these names if it is a log directory. Returns whether it is one. Raises PathError."""
    if not (LOG_DIRECTORY_FILES & set(files)) and not any(map(parse_partition_name, others)):
        return False
    partitions, directory = own_partitions(path), read_log_directory(path)
    if directory is not None:
        directory.server = settings.server
    if not partitions and (directory is None or holds_segments(path)):
        return False
    if settings.remote.topics:
        chosen = [part for part in partitions if _is_of_chosen_topic(part, settings)]
        if not chosen:
            raise PathError(f"{path}: no partition of a topic that --topic names")
        judge_log_directory(directory, chosen, settings, report, progress, workers)
        return True
    judge_log_directory(directory, partitions, settings, report, progress, workers)
    _judge_other_entries(path, files, others, settings, report, progress)
    return True


def _is_of_chosen_topic(partition: str, settings: CheckSettings) -> bool:
    name = parse_partition_name(os.path.basename(partition))
    return name is not None and settings.remote.wants(name[0])


def _is_log_directory(path: str, files: list[str], others: list[str]) -> bool:
    """Whether a directory that the user did not name is a log directory: by its own files, or by the contents of
    partitions. Raises PathError."""
    partitions = [os.path.join(path, name) for name in others if parse_partition_name(name) is not None]
    return bool(LOG_DIRECTORY_FILES & set(files)) or any(
        _has_names_of_kafka(regular_and_other_names(partition)[0]) for partition in partitions if trees.isdir(partition)
    )


def _has_names_of_kafka(files: list[str]) -> bool:
    from kseg.sidefiles.kinds import side_file

    return any(named_like_segment(name) or side_file(name) is not None for name in files)


def _is_directory_above(path: str, files: list[str], others: list[str]) -> bool:
    """Whether a directory named like a partition contains directories and no file of a partition."""
    from kseg.sidefiles.kinds import side_file

    has_directories = any(is_directory_of_others(path, name) for name in others)
    return has_directories and not any(side_file(name) is not None for name in files)


def _judge_one(task: Task, settings: CheckSettings, report: Report, progress: Advance, workers: "CheckWorkers") -> None:
    """Checks a single partition. Raises PathError."""
    buffers = Buffers(settings.max_batch_bytes)
    outcomes = workers.checker([task], settings, report, progress) if workers.checker is not None else ()
    for outcome in outcomes or [judge_task(task, settings, report, progress, buffers)]:
        if outcome.failure is not None:
            raise PathError(outcome.failure)


def _judge_other_entries(
    path: str, files: list[str], others: list[str], settings: CheckSettings, report: Report, progress: Advance
) -> None:
    """Checks entries of a log directory that are neither partitions nor files of a broker."""
    names = [name for name in files if name not in KNOWN_FILES and not name.startswith(OWN_PREFIX)]
    judge_loose_files(path, names, settings, report, progress)
    for name in sorted(others):
        is_known = parse_partition_name(name) is not None or name == REMOTE_INDEX_CACHE
        if not is_known and is_directory_of_others(path, name):
            judge_inside(os.path.join(path, name), settings, report, progress, depth=DEPTH - 1)
        elif not name.startswith(OWN_PREFIX) and (
            named_like_segment(name) if not is_known else trees.islink(os.path.join(path, name))
        ):
            unread = os.path.join(path, name)
            add_unread(unread, why_no_file(unread), report)


def _judge_loose(
    path: str, files: list[str], settings: CheckSettings, report: Report, progress: Advance, is_named: bool
) -> bool:
    """Checks files of a directory that is neither a partition nor a log directory. Returns whether any is Kafka's.

    In a directory that the user did not name, only files with names like those of segments count.
    """
    names = [name for name in files if is_named or named_like_segment(name)]
    logs = judge_loose_files(path, names, settings, report, progress)
    if not logs and not is_named:
        return False
    return judge_side_files(path, settings, report, progress, {name.partition(".")[0] for name in logs}) or bool(logs)


def judge_side_files(
    directory: str, settings: CheckSettings, report: Report, progress: Advance, judged: Collection[str] = ()
) -> bool:
    """Checks each side file of a directory without segments, except indexes of the ``judged`` stems. Returns whether
    there are any. Raises PathError if the directory cannot be read."""
    from kseg.sidefiles.kinds import list_side_files  # readers of all kinds, which partitions do not need

    files = [file for file in list_side_files(directory) if file.leftover != ".tmp"]  # it may be incomplete
    for file in files:
        if file.stem in judged and file.kind in INDEX_SUFFIXES:
            continue
        try:
            judge_file(file.path, settings, report, progress)
        except PathError as error:
            if not settings.is_live or trees.lexists(file.path):
                report.failures.append(str(error))
    return bool(files)


def judge_partition(
    directory: str,
    settings: CheckSettings,
    report: Report,
    broker: BrokerState,
    progress: Advance,
    buffers: Buffers | None = None,
) -> Partition:
    """Checks a partition directory, including files with other names. Raises PathError if it cannot be read."""
    files_in, others = regular_and_other_names(directory)
    names = frozenset(files_in)
    own_name = _own_name(directory)
    listed = segments_among(directory, [*files_in, *others] if others else names, own_name=own_name)
    files = [file for file in listed if file.kind != CHECKPOINT]
    topic_partition = parse_partition_name(own_name) or (None, None)
    partition = partition_to_check(directory, topic_partition, True, settings, report, broker, buffers, names)
    partition.own_name, partition.others = own_name, others
    if others and not files:
        if judge_if_log_directory(directory, files_in, others, settings, report, progress):
            return partition
        if _is_directory_above(directory, files_in, others) and judge_inside(directory, settings, report, progress):
            return partition
    rules, census = rules_of(partition), None
    if settings.takes_census:
        from kseg.verification.census import Census

        census = Census(partition)
        rules.append(census)
    judge_segments(partition, files, rules, progress)
    if others or not files or partition.odd_names:
        judge_misnamed(partition, settings, progress, judge_inside)
    if census is not None:
        report.totals.partitions.append(census.as_object())
    return partition


def _own_name(directory: str) -> str:
    name = os.path.basename(directory)
    return os.path.basename(os.path.abspath(directory)) if name in ("", ".", "..") else name


def judge_task(
    task: Task, settings: CheckSettings, report: Report, progress: Advance, buffers: Buffers
) -> CheckedPartition:
    """Checks one partition. An unreadable one is a failure in the outcome, and does not stop the others.

    The totals of the outcome are those of ``report``. Beside a running broker, which renames and deletes files
    meanwhile, only what two checks in a row find is reported, and nothing of a partition that has gone.
    """
    if not settings.is_live:
        return _judge_once(task, settings, report, progress, buffers)
    confirmed: set[_Place] = set()
    before: set[_Place] | None = None
    for _ in range(LIVE_CHECKS):
        found: list[Finding] = []
        trial = Report(found.append, report.ignored)
        outcome = _judge_once(task, settings, trial, progress, buffers)
        if not trees.isdir(task.directory):
            return CheckedPartition(task.directory, report.totals, None, None)
        serious = {_place_of(each) for each in found if each.severity != INFO}
        confirmed = serious & (before or set())
        if len(confirmed) == len(serious) and (before is not None or outcome.failure is None):
            break
        before = serious
        time.sleep(LIVE_SECONDS)
    for each in found:
        if each.severity == INFO or _place_of(each) in confirmed:
            report.show(each)
        else:
            trial.totals.severities[each.severity] -= 1
            trial.totals.codes[each.code] -= 1
    report.take(trial.totals, trial.unshown())
    return outcome._replace(totals=report.totals)


def _place_of(finding: Finding) -> _Place:
    return finding.code, finding.file, finding.position


def _judge_once(
    task: Task, settings: CheckSettings, report: Report, progress: Advance, buffers: Buffers
) -> CheckedPartition:
    failure = partition = None
    before = len(report.failures)
    try:
        partition = judge_partition(task.directory, settings, report, task.broker, progress, buffers)
    except (KsegError, OSError) as error:
        failure = str(error)
    failures = [*report.failures[before:], *([failure] if failure is not None else [])]
    del report.failures[before:]
    failure = "; ".join(failures) or None
    if partition is None:
        return CheckedPartition(task.directory, report.totals, None, failure)
    return CheckedPartition(task.directory, report.totals, partition.topic_id, failure, partition.extent)


def _is_worth_more(seconds: float, done: int, left: int) -> bool:
    """Whether processes save time: the remaining partitions take as long as earlier ones."""
    return done > 0 and seconds > SINGLE_PROCESS_SECONDS and seconds / done * left > SHARED_SECONDS


def _state(directory: LogDirectory | None, name: str) -> BrokerState:
    if directory is not None:
        return assigned_state(directory, name)
    parsed = parse_partition_name(name)
    return state_by_name(parsed[0] if parsed else None)


def tasks_of(directory: LogDirectory | None, partitions: list[str]) -> list[Task]:
    """Returns the partitions of a log directory with their broker state."""
    tasks = [Task(path, _state(directory, os.path.basename(path))) for path in partitions]
    if directory is None or not directory_rules.lacks_topics(directory):
        return tasks
    return [task._replace(broker=task.broker._replace(topic_id=task.broker.topic_id or None)) for task in tasks]


def judge_log_directory(
    directory: LogDirectory | None,
    partitions: list[str],
    settings: CheckSettings,
    report: Report,
    progress: Advance,
    workers: "CheckWorkers" = NO_WORKERS,
) -> None:
    """Checks the ``partitions`` of a log directory, and its own files unless topics were chosen. ``directory``: None if
    it has no files of its own."""
    is_whole = directory is not None and not settings.remote.topics
    if directory is not None and is_whole:
        directory_rules.judge_entries(directory, report, settings.level)
    tasks = tasks_of(directory, partitions)
    topic_ids: dict[str, str | None] = {}
    extents: dict[str, tuple[int, int]] = {}
    buffers, began = Buffers(settings.max_batch_bytes), time.monotonic()
    outcomes: Iterator[CheckedPartition] = (judge_task(task, settings, report, progress, buffers) for task in tasks)
    if workers.checker is not None:
        outcomes, began = workers.checker(tasks, settings, report, progress), math.inf
    processes = workers.processes
    for done in range(len(tasks)):
        left = len(tasks) - done
        can_share = settings.jobs > 1 and left > 1
        if processes is not None and can_share and _is_worth_more(time.monotonic() - began, done, left):
            outcomes = processes(tasks[done:], settings, report, progress)
            began = math.inf
        outcome = next(outcomes)
        if outcome.failure is not None:
            report.failures.append(outcome.failure)
        name = os.path.basename(outcome.directory)
        if not is_moved(name) and name != METADATA_PARTITION and outcome.failure is None:
            topic_ids[name] = outcome.topic_id
            if outcome.extent is not None:
                extents[name] = outcome.extent
    if directory is not None and is_whole:
        report.directories.append(CheckedDirectory(directory, topic_ids, extents))
        judge_whole(directory, topic_ids, settings, report, progress)


def judge_whole(
    directory: LogDirectory,
    topic_ids: dict[str, str | None],
    settings: CheckSettings,
    report: Report,
    progress: Advance,
) -> None:
    """Checks a log directory after its partitions; ``topic_ids``: by name of the partition."""
    known = {name: topic_id for name, topic_id in topic_ids.items() if topic_id is not None}
    directory_rules.judge_topic_ids(directory, known, report)
    if REMOTE_INDEX_CACHE in directory.directories:
        judge_side_files(os.path.join(directory.path, REMOTE_INDEX_CACHE), settings, report, progress)
