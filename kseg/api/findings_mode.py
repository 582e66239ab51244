"""Mode ``findings``: the findings of `kseg verify`."""

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from kseg.errors import KsegError
from kseg.export.arrow import location_columns
from kseg.export.scanning import ReportDamage, ScanRequest, places_of_scan
from kseg.findings.table import severity_of
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG
from kseg.node.log_directory import log_extent, topic_id_at
from kseg.node.node import Nodes
from kseg.quantities import shell_line
from kseg.segment.files import list_segments, parse_partition_name, segment_file
from kseg.segment.survey import DEEP, QUICK
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, plain_epochs
from kseg.sidefiles.text_files import MAX_TEXT_BYTES
from kseg.stores.place import Place, size_of
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.remote.recognition import is_remote_storage
from kseg.stores.windows import Buffers
from kseg.verification.directory_tree import CheckedPartition, Task, judge_task
from kseg.verification.nodes import judge_nodes
from kseg.verification.partition import CheckSettings, LogSpan
from kseg.verification.repairs import Repairs
from kseg.verification.report import Finding, Report, Totals
from kseg.verification.rules import judge_file
from kseg.verification.run import LEVELS, judge_path


class FoundFindings(NamedTuple):
    """Findings of a partition, or those of log directories, which need only a few small files and are made during
    planning. ``omitted``: file, code and number of those that are not listed.
    """

    findings: tuple[Finding, ...]
    omitted: tuple[tuple[str, str, int], ...] = ()


Work = Task | str | FoundFindings
"""A partition, the path of a file that was named directly, or findings."""


def _settings(request: ScanRequest) -> CheckSettings:
    now_ms = int(time.time() * 1000) if request.now_ms is None else request.now_ms
    topics = () if request.topics is None else request.topics
    return CheckSettings(
        LEVELS.index(request.level), now_ms, 1, request.max_batch_bytes, is_live=request.is_live,
        remote=RemoteChoice(request.keys, topics),
    )  # fmt: skip


def works(request: ScanRequest, _slice_bytes: int | None = None) -> Iterator[tuple[int, Work]]:
    """Yields the partitions, each to be verified as a whole, and the findings of their log directories. Raises
    KsegError if something cannot be read.
    """
    if request.topics is not None and not any(map(is_remote_storage, request.paths)):
        places_of_scan(request)
    settings = _settings(request)
    planned: list[Finding] = []
    tasks: list[Task] = []
    report = Report(planned.append)

    def postpone(some: list[Task], _settings: CheckSettings, _report: Report) -> Iterator[CheckedPartition]:
        for task in some:
            tasks.append(task)
            yield CheckedPartition(task.directory, Totals(), topic_id_at(task.directory), None, _span(task, settings))

    nodes = Nodes(request.paths)
    for path in request.paths:
        if not Place(path).is_dir():
            if request.keeps(segment_file(path)):
                yield size_of(path), path
            continue
        judge_path(path, settings, report, postpone, nodes)
        if report.failures:
            raise KsegError(report.failures[0])
        yield 0, FoundFindings(tuple(planned))
        planned.clear()
        for task in tasks:
            if request.has(*_place_of(task.directory)):
                yield _directory_bytes(task.directory), task
        tasks.clear()
    if report.directories:
        judge_nodes(nodes, settings, report)
    yield 0, FoundFindings(tuple(planned), tuple(report.unshown()))


def _span(task: Task, settings: CheckSettings) -> LogSpan | None:
    """Returns what the checks of the log directory need of a partition: its offsets, with which commits are compared,
    and its first leader epoch if the log begins behind that; None if they need nothing, or the task reports an error.
    """
    start, first_epoch = task.broker.log_start_offset or 0, None
    with suppress(KsegError, OSError):
        if settings.level != QUICK:
            base = min((file.base_offset or 0 for file in list_segments(task.directory) if file.kind == LOG), default=0)
            epochs = plain_epochs((Place(task.directory) / LEADER_EPOCHS).head(MAX_TEXT_BYTES))
            first_epoch = epochs[0].start_offset if epochs and epochs[0].start_offset < max(base, start) else None
    with suppress(KsegError):
        if settings.level == DEEP or first_epoch is not None:
            if (extent := log_extent(task.directory, Scratch())) is not None:
                return LogSpan(max(extent[0], start), extent[1], None, first_epoch)
    return None


def _directory_bytes(directory: str) -> int:
    try:
        with Place(directory).entries() as found:
            return sum(each.stat().st_size for each in found if each.is_file())
    except OSError:
        return 0  # the task reports the error


def rows(works: Iterable[Work], request: ScanRequest, _report: ReportDamage) -> Iterator[dict[str, Any]]:
    """Yields a row for each finding. A ``count`` above 1 stands for findings of the same kind and file that are not
    listed. Raises KsegError if something cannot be read.
    """
    settings = _settings(request)
    buffers, repairs = Buffers(settings.max_batch_bytes), Repairs(Nodes(request.paths))
    for work in works:
        found = work
        if not isinstance(found, FoundFindings):
            judged: list[Finding] = []
            report = Report(judged.append)
            if isinstance(found, str):
                judge_file(found, settings, report)
            elif failure := judge_task(found, settings, report, buffers).failure:
                report.failures.append(failure)
            if report.failures:
                raise KsegError(report.failures[0])
            found = FoundFindings(tuple(judged), tuple(report.unshown()))
        for finding in repairs.with_repairs(found.findings):
            yield from _row(finding, 1, request)
        for file, code, count in found.omitted:
            yield from _row(
                Finding(code, severity_of(code), file, None, None, None, f"{count} more of {code}"), count, request
            )


def _place_of(path: str) -> tuple[str | None, int | None]:
    """Returns the topic and partition of a partition directory, or of a file in it."""
    file = segment_file(path)
    return parse_partition_name(os.path.basename(path)) or (file.topic, file.partition)


def _row(finding: Finding, count: int, request: ScanRequest) -> Iterator[dict[str, Any]]:
    place = _place_of(finding.file)
    if request.has(*place):
        details = json.dumps(finding.details) if finding.details else None
        repair = shell_line(finding.repair) if finding.repair else None
        fields = finding._asdict() | {"details": details, "repair": repair, "count": count}
        yield fields | location_columns(finding.file, *place)
