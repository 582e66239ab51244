"""Runs tasks of commands on Spark, and collects their results on the driver."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import uuid4

from kseg.changes.disk import Disk
from kseg.errors import KsegError
from kseg.limits import MAX_BATCH_BYTES
from kseg.spark.session import for_workers, reason_of
from kseg.stores.windows import Buffers
from kseg.verification.directory_tree import CheckedPartition, PartitionChecker, Task, judge_task
from kseg.verification.partition import Advance, CheckSettings
from kseg.verification.report import Finding, Report

T = TypeVar("T")
R = TypeVar("R")

TASKS_PER_CORE = 4
POLL_SECONDS = 0.2

Judged = tuple[list[Finding], CheckedPartition, list[tuple[str, str, int]]]
"""Findings of a partition, its outcome, and the result of `Report.unshown`."""


Failure = KsegError | OSError
"""An error of a task as a value: raised in Spark, it would lose its class."""


def whole(found: R | Failure) -> R:
    """Returns the result of an item. Raises its KsegError or OSError."""
    if isinstance(found, Failure):
        raise found
    return found


@contextmanager
def attempt_in(folder: str | None) -> Iterator[str | None]:
    """Yields a new folder for one attempt of a task, which is removed if the block raises; None if ``folder`` is."""
    path = None if folder is None else os.path.join(folder, uuid4().hex)
    if path is not None:
        Disk().make_directory(path)
    try:
        yield path
    except BaseException:
        if path is not None:
            Disk().remove_tree(path)
        raise


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
                    yield error
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
