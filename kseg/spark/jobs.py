"""Runs tasks of commands on Spark, and collects their results on the driver."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from kseg.errors import KsegError
from kseg.spark.session import reason_of
from kseg.stores.buffers import Buffers
from kseg.verification.directory_tree import CheckedPartition, PartitionChecker, Task, judge_task
from kseg.verification.partition import Advance, CheckSettings
from kseg.verification.report import Finding, Report

T = TypeVar("T")
R = TypeVar("R")

TASKS_PER_CORE = 4
POLL_SECONDS = 0.2

Judged = tuple[list[Finding], CheckedPartition, list[tuple[str, str, int]]]
"""Findings of a partition, its outcome, and the result of `Report.unshown`."""


def run(
    spark: Any, items: list[T], work: Callable[[Iterable[T]], Iterator[R]], watch: Callable[[], None] = lambda: None
) -> list[R]:
    """Returns the results of ``work`` for the items, in order; ``watch`` is called meanwhile.

    Raises KsegError for any error, on any machine.
    """
    slices = min(len(items), TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    if not slices:
        return []
    task = _InDirectory(os.getcwd(), work)
    return collected(spark, lambda context: context.parallelize(items, slices).mapPartitions(task), watch)


@dataclass(frozen=True, slots=True)
class _InDirectory:
    """Runs a task in the driver's working directory, so that relative paths mean the same files."""

    directory: str
    work: Callable[[Iterable[Any]], Iterator[Any]]

    def __call__(self, items: Iterable[Any]) -> Iterator[Any]:
        before = os.getcwd()
        try:
            os.chdir(self.directory)
        except OSError as error:
            raise KsegError(f"{self.directory}: {error.strerror} on {socket.gethostname()}") from error
        try:
            yield from self.work(items)
        finally:
            os.chdir(before)


def collected(spark: Any, make_rdd: Callable[[Any], Any], watch: Callable[[], None] = lambda: None) -> list[Any]:
    """Returns the elements of the RDD that ``make_rdd`` creates from a SparkContext; ``watch`` is called meanwhile.

    Raises KsegError for any error, on any machine.
    """
    context = spark.sparkContext
    results: list[Any] = []
    failures: list[BaseException] = []
    group = f"kseg-{id(results)}"

    def collect() -> None:
        try:
            context.setJobGroup(group, "kseg", interruptOnCancel=True)
            results.extend(make_rdd(context).collect())
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            failures.append(error)

    from pyspark import InheritableThread

    thread = InheritableThread(target=collect, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            watch()
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    if failures:
        raise reason_of(failures[0]) from failures[0]
    return results


def judging(spark: Any) -> PartitionChecker:
    """Returns the function with which `kseg.verification.run.judge_path` verifies partitions on Spark."""

    def check_partitions(
        tasks: list[Task], settings: CheckSettings, report: Report, progress: Advance
    ) -> Iterator[CheckedPartition]:
        done, reported = spark.sparkContext.accumulator(0), 0

        def watch() -> None:
            nonlocal reported
            progress(done.value - reported)
            reported = done.value

        work = _Judge(replace(settings, jobs=1), report.ignored, done)
        for findings, outcome, unshown in run(spark, tasks, work, watch):
            for finding in findings:
                report.show(finding)
            report.take(outcome.totals, unshown)
            yield outcome

    return check_partitions


class _Judge:
    """Verifies partitions one after the other; ``done`` counts their bytes."""

    def __init__(self, settings: CheckSettings, ignored: frozenset[str], done: Any) -> None:
        self._settings = settings
        self._ignored = ignored
        self._done = done

    def __call__(self, tasks: Iterable[Task]) -> Iterator[Judged]:
        buffers = Buffers(self._settings.max_batch_bytes)
        for task in tasks:
            found: list[Finding] = []
            report = Report(found.append, self._ignored)
            outcome = judge_task(task, self._settings, report, lambda _: None, buffers)
            self._done.add(outcome.totals.bytes)
            yield found, outcome, report.unshown()


class TaskError(KsegError):
    """An error in a task, with the same exit status as on this machine."""

    def __init__(self, text: str, exit_status: int) -> None:
        super().__init__(text)
        self.exit_status = exit_status


class Failure(NamedTuple):
    """An error of a task as a value, because an exception in Spark loses the exit status.

    ``number``: errno of an OSError, None for a KsegError.
    """

    text: str
    exit_status: int
    number: int | None = None
    path: str | None = None

    def error(self) -> KsegError | OSError:
        """Returns the exception, to be raised as if the error had occurred here."""
        if self.number is not None:
            return OSError(self.number, self.text, self.path)
        return TaskError(self.text, self.exit_status)


def failure_of(error: KsegError | OSError) -> Failure:
    """Returns an error of a task as a value."""
    if isinstance(error, KsegError):
        return Failure(str(error), error.exit_status)
    path = error.filename if isinstance(error.filename, str) else None
    return Failure(error.strerror or str(error), KsegError.exit_status, error.errno or 0, path)
