"""A directory that is not one partition's segments alone: a log directory with its partitions, or side files."""

import math
import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kseg.errors import KsegError, PathError
from kseg.segment.buffers import Buffers
from kseg.segment.files import holds_segments, list_partitions, parse_partition_name
from kseg.sidefiles.remote_index_names import DIRECTORY as REMOTE_INDEX_CACHE
from kseg.verify import directory_rules
from kseg.verify.broker_state import BrokerState, state_by_name
from kseg.verify.log_directory import LogDirectory, directory_around, is_moved, read_log_directory
from kseg.verify.report import Report, Totals
from kseg.verify.verification import Progress, Settings, judge_file, judge_partition

ALONE_SECONDS, WORTH_SECONDS = 0.01, 0.1
"""So long one process judges partitions, and so much must seem to be left, before others are started: they cost more
than they bring for less."""


class Task(NamedTuple):
    """A partition to be judged."""

    directory: str
    broker: BrokerState


class Outcome(NamedTuple):
    """What is left to tell when the findings of a partition have been shown.

    ``failure``: why it could not be judged.
    """

    directory: str
    totals: Totals
    topic_id: str | None
    failure: str | None


Together = Callable[[list[Task], Settings, Report, Progress], Iterator[Outcome]]
"""Judges partitions somewhere else: outcomes in the order of the tasks, each when the report has all of it."""


def judge_directory(
    path: str, settings: Settings, report: Report, progress: Progress, together: "Together | None" = None
) -> None:
    """A partition, a log directory, or a directory of side files; the rest is as `judge_path` says."""
    name = os.path.basename(os.path.abspath(path))
    if not holds_segments(path):
        partitions, directory = list_partitions(path), read_log_directory(path)
        if partitions or directory is not None:
            judge_log_directory(directory, partitions, settings, report, progress, together)
            return
        if parse_partition_name(name) is None:
            if not judge_side_files(path, settings, report, progress):
                raise PathError(f"{path}: neither a partition nor a log directory (nothing of Kafka's in it)")
            return
    task = Task(path, _state(directory_around(path), name))
    if together is None:
        judge_partition(path, settings, report, task.broker, progress)
        return
    for outcome in together([task], settings, report, progress):
        if outcome.failure is not None:
            raise PathError(outcome.failure)


def judge_side_files(directory: str, settings: Settings, report: Report, progress: Progress) -> bool:
    """Each side file of a directory without segments by itself; whether there is any. Raises PathError where the
    directory cannot be read."""
    from kseg.sidefiles.kinds import list_side_files  # readers of all kinds, which partitions do without

    files = [file for file in list_side_files(directory) if file.leftover != ".tmp"]  # which may be half written
    for file in files:
        try:
            judge_file(file.path, settings, report, progress)
        except PathError as error:
            report.failures.append(str(error))
    return bool(files)


def judge_task(task: Task, settings: Settings, report: Report, progress: Progress, buffers: Buffers) -> Outcome:
    """Judges one partition; what cannot be read is told as a failure, and no reason to leave out the others.

    The totals of the outcome are those of ``report``.
    """
    failure = topic_id = None
    try:
        topic_id = judge_partition(task.directory, settings, report, task.broker, progress, buffers).topic_id
    except (KsegError, OSError) as error:
        failure = str(error)
    return Outcome(task.directory, report.totals, topic_id, failure)


def _is_worth_more(seconds: float, done: int, left: int) -> bool:
    """Whether partitions that take as long as those before are worth more processes."""
    return seconds > ALONE_SECONDS and seconds / done * left > WORTH_SECONDS


def _state(directory: LogDirectory | None, name: str) -> BrokerState:
    if directory is not None:
        return directory.broker_state(name)
    place = parse_partition_name(name)
    return state_by_name(place[0] if place else None)


def tasks_of(directory: LogDirectory | None, partitions: list[str]) -> list[Task]:
    """The partitions of a log directory with what it knows of them."""
    return [Task(path, _state(directory, os.path.basename(path))) for path in partitions]


def judge_log_directory(
    directory: LogDirectory | None,
    partitions: list[str],
    settings: Settings,
    report: Report,
    progress: Progress,
    together: Together | None = None,
) -> None:
    """The ``partitions`` in a log directory, and what it says itself; None where it has no files of its own."""
    if directory is not None:
        directory_rules.judge_directory(directory, report)
    tasks = tasks_of(directory, partitions)
    topic_ids: dict[str, str] = {}
    buffers, began = Buffers(settings.max_batch_bytes), time.monotonic()
    outcomes: Iterator[Outcome] = (judge_task(task, settings, report, progress, buffers) for task in tasks)
    if together is not None:
        outcomes, began = together(tasks, settings, report, progress), math.inf
    for done in range(len(tasks)):
        left = len(tasks) - done
        if settings.jobs > 1 and left > 1 and _is_worth_more(time.monotonic() - began, done, left):
            from kseg.verify.processes import judge_together

            outcomes = judge_together(tasks[done:], settings, report, progress)
            began = math.inf
        outcome = next(outcomes)
        if outcome.failure is not None:
            report.failures.append(outcome.failure)
        name = os.path.basename(outcome.directory)
        if outcome.topic_id is not None and not is_moved(name):
            topic_ids[name] = outcome.topic_id
    if directory is not None:
        judge_whole(directory, topic_ids, settings, report, progress)


def judge_whole(
    directory: LogDirectory, topic_ids: dict[str, str], settings: Settings, report: Report, progress: Progress
) -> None:
    """What can be told of a log directory when its partitions are known: ``topic_ids`` by their names."""
    directory_rules.judge_topic_ids(directory, topic_ids, report)
    if REMOTE_INDEX_CACHE in directory.directories:
        judge_side_files(os.path.join(directory.path, REMOTE_INDEX_CACHE), settings, report, progress)
