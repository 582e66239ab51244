"""Mode ``findings``: the findings of `kseg verify`. Spark distributes partitions; no record leaves a task."""

import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kseg.errors import KsegError
from kseg.export.scanning import grouped
from kseg.findings.table import severity_of
from kseg.logdir.coordinators import topic_id_at
from kseg.quantities import shell_line
from kseg.segment.files import parse_partition_name, segment_file
from kseg.spark.options import LEVELS, Options
from kseg.spark.schemas import location_columns, record_batches
from kseg.spark.stores import expanded_paths, size_of
from kseg.stores import trees
from kseg.stores.buffers import Buffers
from kseg.stores.remote.keys import RemoteChoice
from kseg.verification.directory_tree import CheckedPartition, Task, judge_task
from kseg.verification.partition import Advance, CheckSettings
from kseg.verification.repairs import Repairs
from kseg.verification.report import Finding, Report, Totals
from kseg.verification.rules import judge_file
from kseg.verification.run import judge_path

if TYPE_CHECKING:
    import pyarrow


class FileTask(NamedTuple):
    """A file that was named directly."""

    path: str


class PlannedFindings(NamedTuple):
    """Findings made during planning: those of the log directory itself, which needs only a few small files."""

    findings: tuple[tuple[Finding, int], ...]


Work = Task | FileTask | PlannedFindings


def settings_of(options: Options) -> CheckSettings:
    """Returns the settings, with one clock for all tasks."""
    now_ms = options.now_ms if options.now_ms is not None else int(time.time() * 1000)
    return CheckSettings(
        LEVELS.index(options.level), now_ms, 1, options.max_batch_bytes, remote=RemoteChoice(options.keys)
    )


def plan(options: Options) -> list[Sequence[Work]]:
    """Returns the tasks; each partition is verified as a whole."""
    works = list(_works(options))
    return grouped(works, options.task_bytes(sum(size for size, _ in works)))


def _works(options: Options) -> Iterator[tuple[int, Work]]:
    settings = settings_of(options)
    for path in expanded_paths(options.paths):
        if not trees.isdir(path):
            yield size_of(path), FileTask(path)
            continue
        tasks: list[Task] = []
        planned: list[tuple[Finding, int]] = []
        report = Report(lambda finding, planned=planned: planned.append((finding, 1)))  # type: ignore[misc]

        def postpone(
            some: list[Task], _settings: CheckSettings, _report: Report, _progress: Advance, tasks: list[Task] = tasks
        ) -> Iterator[CheckedPartition]:
            for task in some:
                tasks.append(task)
                yield CheckedPartition(task.directory, Totals(), topic_id_at(task.directory), None)

        judge_path(path, settings, report, lambda _: None, postpone)
        if report.failures:
            raise KsegError(report.failures[0])
        planned += _unshown(report)
        if planned:
            yield 0, PlannedFindings(tuple(planned))
        for task in tasks:
            yield _directory_bytes(task.directory), task


def _directory_bytes(directory: str) -> int:
    try:
        with trees.scandir(directory) as found:
            return sum(each.stat().st_size for each in found if each.is_file())
    except OSError:
        return 0  # the task reports the error


def read(works: Sequence[Work], options: Options, schema: "pyarrow.Schema") -> Iterator["pyarrow.RecordBatch"]:
    """Yields a row for each finding. A ``count`` above 1 stands for findings of the same kind and file that are not
    listed.

    Raises KsegError if something cannot be read.
    """
    yield from record_batches(_rows(works, settings_of(options)), schema)


def _rows(works: Sequence[Work], settings: CheckSettings) -> Iterator[dict[str, Any]]:
    buffers, repairs = Buffers(settings.max_batch_bytes), Repairs(settings.server)
    for work in works:
        if isinstance(work, PlannedFindings):
            yield from (_row(finding, count, repairs) for finding, count in work.findings)
            continue
        found: list[Finding] = []
        report = Report(found.append)
        if isinstance(work, FileTask):
            judge_file(work.path, settings, report, lambda _: None)
        elif failure := judge_task(work, settings, report, lambda _: None, buffers).failure:
            report.failures.append(failure)
        if report.failures:
            raise KsegError(report.failures[0])
        yield from (_row(finding, 1, repairs) for finding in found)
        yield from (_row(finding, count, repairs) for finding, count in _unshown(report))


def _unshown(report: Report) -> Iterator[tuple[Finding, int]]:
    for file, code, count in report.unshown():
        yield Finding(code, severity_of(code), file, None, None, None, f"{count} more of {code}"), count


def _row(finding: Finding, count: int, repairs: Repairs) -> dict[str, Any]:
    place = parse_partition_name(os.path.basename(finding.file))
    if place is None:
        named = segment_file(finding.file)
        topic, partition = named.topic, named.partition
    else:
        topic, partition = place
    finding = repairs.with_repair(finding)
    details = json.dumps(finding.details) if finding.details else None
    repair = shell_line(finding.repair) if finding.repair else None
    fields = finding._asdict() | {"details": details, "repair": repair, "count": count}
    return fields | location_columns(finding.file, topic, partition)
