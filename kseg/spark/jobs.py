"""Runs tasks of commands on Spark, and collects their results on the driver."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from kseg.errors import KsegError
from kseg.limits import MAX_BATCH_BYTES
from kseg.spark.session import for_workers, reason_of
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


def whole(found: R | Failure) -> R:
    """Returns the result of an item. Raises its KsegError or OSError."""
    if isinstance(found, Failure):
        raise found.error()
    return found


def run(
    spark: Any,
    items: list[T],
    work: Callable[[T, Buffers], R],
    watch: Callable[[], None] = lambda: None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> list[R | Failure]:
    """Returns the result of ``work`` for each item, or its KsegError or OSError as a value; ``watch`` is called
    meanwhile. All items of a task share their buffers. Raises KsegError for any other error, on any machine.
    """
    slices = min(len(items), TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    if not slices:
        return []
    task = _Task(os.getcwd(), work, max_batch_bytes)
    return collected(spark, lambda context: context.parallelize(items, slices).mapPartitions(for_workers(task)), watch)


@dataclass(frozen=True, slots=True)
class _Task(Generic[T, R]):
    """Works on items in the driver's working directory, so that relative paths mean the same files."""

    directory: str
    work: Callable[[T, Buffers], R]
    max_batch_bytes: int

    def __call__(self, items: Iterable[T]) -> Iterator[R | Failure]:
        before, buffers = os.getcwd(), Buffers(self.max_batch_bytes)
        try:
            os.chdir(self.directory)
        except OSError as error:
            raise KsegError(f"{self.directory}: {error.strerror} on {socket.gethostname()}") from error
        try:
            for item in items:
                try:
                    yield self.work(item, buffers)
                except (KsegError, OSError) as error:
                    yield failure_of(error)
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

        work = partial(_judged, replace(settings, jobs=1), report.ignored, done)
        for found in run(spark, tasks, work, watch, settings.max_batch_bytes):
            findings, outcome, unshown = whole(found)
            for finding in findings:
                report.show(finding)
            report.take(outcome.totals, unshown)
            yield outcome

    return check_partitions


def _judged(settings: CheckSettings, ignored: frozenset[str], done: Any, task: Task, buffers: Buffers) -> Judged:
    """Verifies a partition; ``done`` counts its bytes."""
    found: list[Finding] = []
    report = Report(found.append, ignored)
    outcome = judge_task(task, settings, report, lambda _: None, buffers)
    done.add(outcome.totals.bytes)
    return found, outcome, report.unshown()
