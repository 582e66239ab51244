"""Checks a directory: a partition, a log directory, loose files of Kafka, or directories of these."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from kseg.errors import KsegError, PathError
from kseg.findings.table import INFO
from kseg.formats.compression import codec_name
from kseg.formats.json_values import name_value
from kseg.formats.rows import int64s
from kseg.formats.suffixes import CHECKPOINT, INDEX_SUFFIXES, LOG, LOG_07, SWAP
from kseg.node import log_directory
from kseg.node.log_directory import BrokerState
from kseg.node.node import Node, Nodes
from kseg.node.topics import Topics
from kseg.runtime.process_pool import Put, Work, in_processes, shared_numbers
from kseg.segment import files as segment_files
from kseg.segment import paths
from kseg.segment.files import LOG_DIRECTORY_FILES, OWN_PREFIX, SegmentFile, directory_name, parse_partition_name
from kseg.segment.items import Damage
from kseg.segment.survey import QUICK, HeaderRows
from kseg.sidefiles.kinds import list_side_files, side_file
from kseg.stores.archives.forms import ARCHIVE_SUFFIXES
from kseg.stores.archives.mounting import packed_segment_at
from kseg.stores.place import Place
from kseg.stores.source import Source, open_source
from kseg.stores.windows import Buffers
from kseg.verification import log_directories
from kseg.verification import partition as partition_check
from kseg.verification.batches import BatchRule
from kseg.verification.partition import CheckedSegment, CheckSettings, LogSpan, PartitionCheck, Rule
from kseg.verification.report import Finding, Report, Totals
from kseg.verification.rules import judge_file, rules_of
from kseg.verification.side_files import judge_end, misnamed_files

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

    ``failure``: why it could not be checked; ``extent``: that of its log, None if there is no segment.
    """

    directory: str
    totals: Totals
    topic_id: str | None
    failure: str | None
    extent: LogSpan | None = None


_Place = tuple[str, str, int | None]
"""Code, file and position of a finding."""
PartitionChecker = Callable[[list[Task], CheckSettings, Report], Iterator[CheckedPartition]]
"""Checks partitions in other processes or on Spark. Yields outcomes in the order of the tasks, each after its findings
were reported."""


@dataclass(slots=True)
class DirectoryCheck:
    """Checks a directory: a partition, a log directory, loose files of Kafka, or directories of these.

    ``checker`` checks all partitions; None: this process does, and with ``uses_processes`` others do the rest if it is
    worth their cost.
    """

    settings: CheckSettings
    report: Report
    checker: PartitionChecker | None = None
    uses_processes: bool = False
    nodes: Nodes = field(default_factory=Nodes)

    def judge(self, path: str) -> None:
        """Checks a directory; see `judge_path`. Raises PathError if it has no files of Kafka."""
        tree = Place(path).tree
        depth = _ARCHIVE_DEPTH if tree is not None and tree.is_archive else paths.DEPTH
        if not self.inside(path, depth, is_named=True):
            raise PathError(
                f"{path}: neither a partition nor a log directory, nor above one (nothing of Kafka's in it)"
            )

    def inside(self, path: str, depth: int = paths.DEPTH, is_named: bool = False) -> bool:
        """Checks Kafka's files in a directory and up to ``depth`` levels below it, without following links. Returns
        whether there are any. ``is_named``: the user named the directory.

        Raises PathError if the directory itself cannot be read.
        """
        name = directory_name(path)
        files, others = segment_files.regular_and_other_names(path)
        # One that the user did not name is a log directory by its own files, or by the contents of partitions.
        partitions = [Place(path) / name for name in others if parse_partition_name(name) is not None]
        names = (segment_files.regular_and_other_names(each)[0] for each in partitions if each.is_dir())
        is_likely = is_named or LOG_DIRECTORY_FILES & set(files) or any(map(_has_names_of_kafka, names))
        if is_likely and self.if_log_directory(path, files, others):
            return True
        below = [Place(path) / name for name in sorted(others) if _is_directory_of_others(path, name)]
        is_partition = parse_partition_name(name) is not None and not below and (is_named or _has_names_of_kafka(files))
        if segment_files.holds_segments(path) or is_partition:
            self._moved([path])
            for outcome in self._outcomes([Task(path, self.nodes.partition(path).state)]):
                if outcome.failure is not None:
                    raise PathError(outcome.failure)
            return True
        # In a directory that the user did not name, only files with names like those of segments and archives count.
        named = [name for name in files if paths.named_like_segment(name) or name.endswith(ARCHIVE_SUFFIXES)]
        logs = self._loose_files(path, files if is_named else named)
        found = bool(logs)
        if logs or is_named:
            found |= self._side_files(path, {name.partition(".")[0] for name in logs})
        for lower in below if depth > 0 else ():
            try:
                found |= self.inside(lower, depth - 1)
            except PathError as error:
                self.report.failures.append(str(error))
        return found

    def if_log_directory(self, path: str, files: list[str], others: list[str]) -> bool:
        """Checks a directory with these names if it is a log directory: its partitions, and its own files unless topics
        were chosen. Returns whether it is one. Raises PathError."""
        if not (LOG_DIRECTORY_FILES & set(files)) and not any(map(parse_partition_name, others)):
            return False
        report, settings, wanted = self.report, self.settings, self.settings.remote
        partitions, node = segment_files.own_partitions(path), self.nodes.at(path)
        directory = node.directory_at(path)
        if directory is not None and not (directory.is_marked or node.is_configured(path)):
            directory = None
        if not partitions and (directory is None or segment_files.holds_segments(path)):
            return False
        if wanted.topics:
            partitions = Topics(wanted.topics, self.nodes).named(path, partitions)
        if directory is not None and not wanted.topics:
            log_directories.judge_entries(directory, node, report, settings.level)
        else:
            self._moved(partitions)
        topic_ids: dict[str, str | None] = {}
        extents: dict[str, LogSpan] = {}
        for outcome in self._partitions(tasks_of(node, partitions)):
            if outcome.failure is not None:
                report.failures.append(outcome.failure)
            name = os.path.basename(outcome.directory)
            is_served = not log_directory.is_moved(name) and name != log_directory.METADATA_PARTITION
            if is_served and outcome.failure is None:
                topic_ids[name] = outcome.topic_id
                if outcome.extent is not None:
                    extents[name] = outcome.extent
        if wanted.topics:
            return True
        if directory is not None:
            checked = log_directories.CheckedDirectory(directory, topic_ids, extents)
            report.directories.append(checked)
            log_directories.judge_late_starts(checked, node, report)
            log_directories.judge_topic_ids(checked, node, report)
            if segment_files.REMOTE_INDEX_CACHE in directory.directories:
                self._side_files(Place(directory.path) / segment_files.REMOTE_INDEX_CACHE)
        self._other_entries(path, files, others)
        return True

    def _moved(self, partitions: Iterable[str]) -> None:
        """Reports partitions that a broker has renamed, outside of a log directory that is checked as a whole."""
        for path in partitions:
            if (place := parse_partition_name(directory_name(path))) is not None:
                log_directories.judge_moved(path.rstrip(os.sep), place, self.report)

    def _partitions(self, tasks: list[Task]) -> Iterator[CheckedPartition]:
        """Checks the partitions of a log directory, the rest of them in other processes if it is worth their cost."""
        outcomes, began = self._outcomes(tasks), time.monotonic()
        may_share = self.uses_processes and self.checker is None and self.settings.jobs > 1
        for done in range(len(tasks)):
            left = len(tasks) - done
            if may_share and left > 1 and _is_worth_more(time.monotonic() - began, done, left):
                outcomes, may_share = judge_in_processes(tasks[done:], self.settings, self.report), False
            yield next(outcomes)

    def _outcomes(self, tasks: list[Task]) -> Iterator[CheckedPartition]:
        if self.checker is not None:
            return self.checker(tasks, self.settings, self.report)
        buffers = Buffers(self.settings.max_batch_bytes)
        return (judge_task(task, self.settings, self.report, buffers) for task in tasks)

    def _other_entries(self, path: str, files: list[str], others: list[str]) -> None:
        """Checks entries of a log directory that are neither partitions nor files of a broker."""
        names = [name for name in files if name not in log_directories.KNOWN_FILES and not name.startswith(OWN_PREFIX)]
        self._loose_files(path, names)
        inside = DirectoryCheck(self.settings, self.report)
        for name in sorted(others):
            is_known = parse_partition_name(name) is not None or name == segment_files.REMOTE_INDEX_CACHE
            if not is_known and _is_directory_of_others(path, name):
                inside.inside(Place(path) / name, paths.DEPTH - 1)
            elif not name.startswith(OWN_PREFIX) and (
                paths.named_like_segment(name) if not is_known else (Place(path) / name).is_link()
            ):
                partition_check.add_unread(Place(path) / name, self.report)

    def _loose_files(self, directory: str, names: Iterable[str]) -> list[str]:
        """Like `judge_misnamed_files`, outside of a partition."""
        settings, buffers = replace(self.settings, is_live=False), Buffers(self.settings.max_batch_bytes)
        no_partition = PartitionCheck(directory, None, None, False, settings, self.report, BrokerState(), buffers)
        return judge_misnamed_files(no_partition, names)

    def _side_files(self, directory: str, judged: Collection[str] = ()) -> bool:
        """Checks each side file of a directory without segments, except indexes of the ``judged`` stems. Returns
        whether there are any. Raises PathError if the directory cannot be read."""
        files = [file for file in list_side_files(directory) if file.leftover != ".tmp"]  # it may be incomplete
        for file in files:
            if file.stem in judged and file.kind in INDEX_SUFFIXES:
                continue
            try:
                judge_file(file.path, self.settings, self.report)
            except PathError as error:
                if not self.settings.is_live or Place(file.path).lexists():
                    self.report.failures.append(str(error))
        return bool(files)


def _is_directory_of_others(path: str, name: str) -> bool:
    """Whether a name is that of a directory, not a link, that kseg has not created."""
    inside = Place(path) / name
    return not name.startswith(OWN_PREFIX) and inside.is_dir() and not inside.is_link()


def _has_names_of_kafka(files: list[str]) -> bool:
    return any(paths.named_like_segment(name) or side_file(name) is not None for name in files)


def judge_partition(
    directory: str, settings: CheckSettings, report: Report, broker: BrokerState, buffers: Buffers
) -> PartitionCheck:
    """Checks a partition directory, including files with other names. Raises PathError if it cannot be read."""
    listing = segment_files.listing_of(directory)
    listed = segment_files.segments_among(directory, [*listing.files, *listing.others])
    files = [file for file in listed if file.kind != CHECKPOINT]
    topic, number = parse_partition_name(directory_name(directory)) or (None, None)
    names = frozenset(listing.files)
    partition = PartitionCheck(directory, topic, number, True, settings, report, broker, buffers, names, listing)
    inside = DirectoryCheck(settings, report)
    if listing.others and not files:
        if inside.if_log_directory(directory, *listing.names):
            return partition
        # It may be above partitions although it is named like one.
        has_directories = any(_is_directory_of_others(directory, name) for name in listing.others)
        if has_directories and not any(map(side_file, names)) and inside.inside(directory):
            return partition
    rules, census = rules_of(partition), None
    if settings.takes_census:
        census = Census(partition)
        rules.append(census)
    partition_check.judge_segments(partition, files, rules)
    if listing.others or not files or partition.odd_names:
        _judge_misnamed(partition, inside)
    if census is not None:
        report.totals.partitions.append(census.as_object())
    return partition


class Census(Rule):
    """Facts about a whole partition while it is checked: sizes, formats, codecs, times, and the backlog of the cleaner.

    `as_object` returns them for JSON, with those fields of ``kseg stats`` that verification knows.
    """

    def __init__(self, partition: PartitionCheck) -> None:
        from kseg.kernel.state.tally import FORMS_WIDTH, count_forms  # few checks take a census

        super().__init__(partition)
        self._forms, self._count_forms = int64s(FORMS_WIDTH), count_forms
        self._damaged_bytes = 0
        totals = self.report.totals
        self._before = totals.errors, totals.warnings

    def headers(self, segment: CheckedSegment, headers: HeaderRows) -> None:
        self._count_forms(headers.rows, headers.count, segment.file.is_07, self._forms)
        if segment.is_damaged:
            self._damaged_bytes += sum(batch.size for batch in headers if not batch.has_right_crc)

    def damage(self, segment: CheckedSegment, damage: Damage) -> None:
        self._damaged_bytes += damage.length

    def as_object(self) -> dict[str, Any]:
        """Returns the facts, after all findings of the partition."""
        from kseg.kernel.state.tally import CODECS
        from kseg.segment.summary import FORMATS

        segments, totals = self.partition.segments, self.report.totals
        numbers, forms = iter(self._forms.tolist()), []
        for column, (batches, size) in enumerate(zip(numbers, numbers, strict=True)):
            if batches:
                form, codec = divmod(column, CODECS)
                row = {"format": FORMATS[form], "compression": codec_name(codec), "batches": batches, "bytes": size}
                forms.append(row)
        return {
            "type": "partition",
            "path": name_value(self.partition.name),
            "files": len(segments),
            "bytes": sum(segment.size for segment in segments),
            "allBytes": None if self.partition.listing is None else paths.all_bytes(self.partition.listing),
            "batches": sum(segment.batches for segment in segments),
            "records": sum(segment.records for segment in segments),
            "forms": forms,
            "damagedBytes": self._damaged_bytes,
            "leastBaseTimestamp": min((s.least_timestamp for s in segments if s.least_timestamp >= 0), default=None),
            "maxTimestamp": max((s.largest_timestamp for s in segments if s.largest_timestamp >= 0), default=None),
            "errors": totals.errors - self._before[0],
            "warnings": totals.warnings - self._before[1],
            "cleaner": self._cleaner(),
        }

    def _cleaner(self) -> dict[str, Any] | None:
        partition, broker = self.partition, self.partition.broker
        is_cleaned = broker.is_compacted or broker.cleaner_offset is not None
        if partition.directory is None or not partition.segments or not is_cleaned:
            return None
        from kseg.cleaner.log import Producers, backlog_of  # few partitions are compacted

        producers, last = None, partition.segments[-1]
        if partition.settings.level != QUICK and not last.is_damaged and last.next_offset is not None:
            producers = Producers(last.next_offset, partition.first_open_offset)
        found = backlog_of(
            partition.directory, broker, partition.settings.now_ms, partition.cleaner_obstacle, producers
        )
        return None if found is None else found.as_object()


def _judge_misnamed(partition: PartitionCheck, inside: DirectoryCheck) -> None:
    """Checks files of a partition that are not part of its log, and with ``inside`` its directories; reports a
    partition without segments."""
    found = judge_misnamed_files(partition, misnamed_files(partition))
    for name in partition.others:
        path = partition.path(name)
        if name.startswith(OWN_PREFIX) or any(segment.path == path for segment in partition.segments):
            continue
        is_judged = _is_directory_of_others(partition.name, name) and inside.inside(path, paths.DEPTH - 1)
        if not is_judged and (paths.named_like_segment(name) or side_file(path) is not None):
            partition_check.add_unread(path, partition.report)
    if log_directory.is_moved(partition.own_name):
        return
    if partition.segments:
        judge_end(partition, found)
        return
    # A broker keeps at least one segment, even if it is empty.
    names = partition.names
    if not partition.broker.is_known and names and not found and not any(map(side_file, names)):
        return  # a directory of other files with the name of a partition
    if any(name.endswith((".log.swap", CHECKPOINT)) for name in names) or any(
        map(segment_files.is_remote_segment_name, found)
    ):
        return
    known = [
        f"{name} {offset}"
        for name, offset in (
            ("high watermark", partition.broker.high_watermark), ("recovery point", partition.broker.recovery_point),
            ("log start offset", partition.broker.log_start_offset),
        )
        if offset
    ]  # fmt: skip
    text = "there is no segment" + (f", by the checkpoints it had records ({', '.join(known)})" if known else "")
    partition.report.add("segments-missing", partition.name, text, offset=partition.broker.high_watermark)


def judge_misnamed_files(around: PartitionCheck, names: Iterable[str]) -> list[str]:
    """Checks renamed, compressed and copied segments: files whose names no broker uses. Returns their names.

    A broker ignores them, or does not start; a log may have no other files. A file with batches, even a compressed one,
    is checked as a single segment, not as a part of its partition. An archive is reported, but not checked.
    """
    by_stem: dict[str, set[str]] = defaultdict(set)
    for name in names:
        by_stem[name.partition(".")[0]].add(name)
    found = []
    for name in sorted(names):
        path = around.path(name)
        if side_file(path) is not None:
            continue
        try:
            file = _misnamed_segment(path, name)
        except PathError as error:
            partition_check.add_unread(path, around.report, error)
            continue
        if file is None:
            continue
        found.append(name)
        partition = partition_check.partition_for_file(around, frozenset(by_stem[name.partition(".")[0]]))
        if file.kind:
            _judge_as_segment(partition, file)
        else:
            _judge_packed(partition, file)
    return found


def _judge_as_segment(partition: PartitionCheck, file: SegmentFile) -> None:
    # A .swap that will replace segments is no log of its own.
    rules: list[Rule] = [BatchRule(partition)] if file.name.endswith(SWAP) else rules_of(partition)
    partition_check.judge_segments(partition, [file], rules)


def _judge_packed(partition: PartitionCheck, file: SegmentFile) -> None:
    """Checks the contents of a compressed file. Reports an archive, and a file that cannot be decompressed."""
    path, report = Place(file.path), partition.report
    try:
        with packed_segment_at(path) as unpacked:
            if unpacked is None:
                with open_source(path) as source:
                    report.add("packed-segment", path, partition_check.packed(source) or "")
                report.totals.not_judged += 1
                return
            named = segment_files.segment_file(unpacked)
            with open_source(unpacked) as source:
                inside = _as_segment(named, named.kind if named.is_segment else LOG, source)
            _judge_as_segment(partition, inside)
            partition_check.add_archive(unpacked, report)
    except (KsegError, OSError) as error:
        partition_check.add_unread(path, report, error)


def _misnamed_segment(path: str, name: str) -> SegmentFile | None:
    """Returns a file with batches as a segment, and a compressed file as a segment without a kind. Returns None for
    other files. Raises PathError."""
    with open_source(path) as source:
        named = segment_files.segment_file(path)
        if paths.named_like_segment(name):
            paths.refuse_empty_pack(path)
        if partition_check.packed(source) is not None:
            return named._replace(kind="") if paths.is_packed_segment(name, paths.read_head(source)) else None
        if not paths.holds_batches(source, name):
            return None
        return _as_segment(named, LOG_07 if LOG_07 in name else LOG, source)


def _as_segment(file: SegmentFile, kind: str, source: Source) -> SegmentFile:
    """Returns a file as a segment of a kind; a .log without a number begins with its first batch."""
    base_offset = file.base_offset
    if base_offset is None and kind == LOG:
        base_offset = paths.first_base_offset(source)
    return file._replace(kind=kind, leftover="", base_offset=base_offset)


def judge_task(task: Task, settings: CheckSettings, report: Report, buffers: Buffers) -> CheckedPartition:
    """Checks one partition. An unreadable one is a failure in the outcome, and does not stop the others.

    The totals of the outcome are those of ``report``. Beside a running broker, which renames and deletes files
    meanwhile, only what two checks in a row find is reported, and nothing of a partition that has gone.
    """
    if not settings.is_live:
        return _judge_once(task, settings, report, buffers)
    confirmed: set[_Place] = set()
    before: set[_Place] | None = None
    for _ in range(LIVE_CHECKS):
        found: list[Finding] = []
        # The bytes of a further check were counted already.
        trial = Report(found.append, report.ignored, report.advance if before is None else lambda _: None)
        outcome = _judge_once(task, settings, trial, buffers)
        if not Place(task.directory).is_dir():
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


def _judge_once(task: Task, settings: CheckSettings, report: Report, buffers: Buffers) -> CheckedPartition:
    before, topic_id, extent = len(report.failures), None, None
    try:
        partition = judge_partition(task.directory, settings, report, task.broker, buffers)
        topic_id, extent = partition.topic_id, partition.extent
    except (KsegError, OSError) as error:
        report.failures.append(str(error))
    failure = "; ".join(report.failures[before:]) or None
    del report.failures[before:]
    return CheckedPartition(task.directory, report.totals, topic_id, failure, extent)


def _is_worth_more(seconds: float, done: int, left: int) -> bool:
    """Whether processes save time: the remaining partitions take as long as earlier ones."""
    return done > 0 and seconds > SINGLE_PROCESS_SECONDS and seconds / done * left > SHARED_SECONDS


def tasks_of(node: Node, partitions: Iterable[str]) -> list[Task]:
    """Returns partitions of a node with their broker state."""
    tasks = [Task(path, node.partition(path).state) for path in partitions]
    if not log_directories.lacks_topics(node):
        return tasks
    return [task._replace(broker=task.broker._replace(topic_id=task.broker.topic_id or None)) for task in tasks]


ENDED = "a process that judged a partition ended before it was done (was it killed? is there enough memory?)"


def judge_in_processes(tasks: list[Task], settings: CheckSettings, report: Report) -> Iterator[CheckedPartition]:
    """Checks partitions in several processes. Yields the outcomes in the order of the tasks, each after its findings
    were reported. Always ends its processes. Raises KsegError if one ended early, and the error of one that failed."""
    count = min(settings.jobs, len(tasks))
    done, reported = shared_numbers(count), 0
    pending = Totals()  # of shown findings of an unfinished partition

    def report_progress() -> None:
        nonlocal reported
        total = sum(done)
        report.advance(total - reported)
        reported = total

    begin = partial(_judging, tasks, settings, report.ignored, done)
    found = in_processes(count, len(tasks), begin, ENDED, report_progress)
    try:
        for item in found:
            if isinstance(item, Finding):
                pending.severities[item.severity] += 1
                pending.codes[item.code] += 1
                report.show(item)
                continue
            outcome, unshown = item
            pending = Totals()
            report.take(outcome.totals, unshown)
            yield outcome
    finally:
        report.take(pending, [])
        found.close()


def _judging(tasks: list[Task], settings: CheckSettings, ignored: frozenset[str], done: Any, number: int) -> Work:
    """Returns the work of a process: for a partition its findings, then its outcome with the result of
    `Report.unshown`."""
    buffers = Buffers(settings.max_batch_bytes)

    def progress(count: int) -> None:
        done[number] += count

    def judge(at: int, put: Put) -> None:
        # If fewer partitions than processes are left, each process gets several cores.
        jobs = max(1, settings.jobs // min(len(done), len(tasks) - at))
        report = Report(put, ignored, progress)
        outcome = judge_task(tasks[at], replace(settings, jobs=jobs), report, buffers)
        put((outcome, report.unshown()))

    return judge
