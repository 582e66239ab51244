"""Checks files in partitions and log directories with names that brokers do not use: renamed, compressed or copied
segments.

A broker ignores them, or does not start; they may be all that is left of a log. A file with batches is checked as a
segment of its own, never as a part of its partition, even if it is compressed. An archive is not checked, and reported.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

from kseg.errors import KsegError, PathError, text_of
from kseg.logdir.log_directory import is_moved
from kseg.segment.file_types import first_base_offset, holds_batches, is_packed_segment, named_like_segment, read_head
from kseg.segment.files import OWN_PREFIX, SegmentFile, segment_file
from kseg.segment.passed_over import DEPTH
from kseg.sidefiles.kinds import side_file
from kseg.sidefiles.remote_index_names import is_remote_segment_name
from kseg.stores import trees
from kseg.stores.archives.mounting import packed_segment_at
from kseg.stores.buffers import Buffers
from kseg.stores.source import open_source
from kseg.verification.batches import BatchRule
from kseg.verification.directories.unread import packed, tell_archive, tell_unread, why_no_file
from kseg.verification.leftovers import stray_names
from kseg.verification.partition import Partition, alone, judge_segments
from kseg.verification.report import Report
from kseg.verification.rule import Rule
from kseg.verification.rules import rules_of
from kseg.verification.settings import Progress, Settings


class JudgeInside(Protocol):
    """Checks a directory in a partition. Returns whether it contains Kafka's files. Raises PathError."""

    def __call__(self, path: str, settings: Settings, report: Report, progress: Progress, *, depth: int) -> bool: ...


def is_directory_of_others(path: str, name: str) -> bool:
    """Whether a name is one of a real directory that kseg has not created."""
    inside = os.path.join(path, name)
    return not name.startswith(OWN_PREFIX) and trees.isdir(inside) and not trees.islink(inside)


def judge_strays(partition: Partition, settings: Settings, progress: Progress, judge_inside: JudgeInside) -> None:
    """Checks files of a partition that are not part of its log; reports a partition without a log."""
    directory, report = partition.directory or "", partition.report
    names = [name for name in stray_names(partition) if not name.startswith(OWN_PREFIX)]
    found = judge_stray_files(partition, names, progress)
    for name in partition.others or ():
        path = os.path.join(directory, name)
        if name.startswith(OWN_PREFIX) or any(segment.path == path for segment in partition.segments):
            continue
        is_file_of_kafka = named_like_segment(name) or side_file(path) is not None
        if is_directory_of_others(directory, name) and (
            judge_inside(path, settings, report, progress, depth=DEPTH - 1) or not is_file_of_kafka
        ):
            continue
        if is_file_of_kafka:
            tell_unread(path, why_no_file(path), report)
    if not partition.segments and not is_moved(partition.own_name):
        _tell_missing(partition, found)


def _tell_missing(partition: Partition, found: list[str]) -> None:
    """Reports a partition without segments: a broker keeps at least one, even if it is empty."""
    names = partition.names
    if not partition.broker.is_known and names and not found and not any(map(side_file, names)):
        return  # a directory of other files whose name looks like a partition's
    if any(name.endswith((".log.swap", ".checkpoint")) for name in names) or any(map(is_remote_segment_name, found)):
        return
    known = [
        f"{what} {offset}"
        for what, offset in (
            ("high watermark", partition.broker.high_watermark), ("recovery point", partition.broker.recovery_point),
            ("log start offset", partition.broker.log_start_offset),
        )
        if offset
    ]  # fmt: skip
    text = "there is no segment" + (f", by the checkpoints it had records ({', '.join(known)})" if known else "")
    partition.report.add("segments-missing", partition.name, text, offset=partition.broker.high_watermark)


def judge_loose_files(
    directory: str, names: Iterable[str], settings: Settings, report: Report, progress: Progress
) -> list[str]:
    """Like `judge_stray_files`, outside of a partition."""
    nowhere = Partition(
        directory, None, None, False, settings.level, settings.now_ms, report,
        buffers=Buffers(settings.max_batch_bytes), jobs=settings.jobs,
    )  # fmt: skip
    return judge_stray_files(nowhere, names, progress)


def judge_stray_files(around: Partition, names: Iterable[str], progress: Progress) -> list[str]:
    """Checks files with batches, and reports compressed ones. Returns the names of both."""
    by_stem: dict[str, set[str]] = defaultdict(set)
    for name in names:
        by_stem[name.partition(".")[0]].add(name)
    found = []
    for name in sorted(names):
        path = os.path.join(around.directory or "", name)
        if side_file(path) is not None:
            continue
        try:
            file = _stray_segment(path, name)
        except PathError as error:
            tell_unread(path, str(error).removeprefix(f"{path}: "), around.report)
            continue
        if file is not None:
            found.append(name)
        if file is not None and file.kind:
            _judge_alone(around, file, by_stem, progress)
        elif file is not None:
            _judge_packed(around, file, by_stem, progress)
    return found


def _judge_alone(around: Partition, file: SegmentFile, by_stem: dict[str, set[str]], progress: Progress) -> None:
    partition = alone(around, frozenset(by_stem[file.name.partition(".")[0]]))
    # A .swap that will replace segments is no log of its own.
    rules: list[Rule] = [BatchRule(partition)] if file.name.endswith(".swap") else rules_of(partition)
    judge_segments(partition, [file], rules, progress)


def _judge_packed(around: Partition, file: SegmentFile, by_stem: dict[str, set[str]], progress: Progress) -> None:
    """Checks the contents of a compressed file. Reports an archive, and a file that cannot be decompressed."""
    path, report = file.path, around.report
    try:
        with packed_segment_at(path) as tree:
            if tree is None:
                with open_source(path) as source:
                    report.add("packed-segment", path, packed(source) or "")
                report.totals.not_judged += 1
                return
            told = segment_file(path)
            with open_source(path) as source:
                kind = told.kind if told.is_segment else ".log"
                base_offset = first_base_offset(source) if told.base_offset is None else told.base_offset
            _judge_alone(around, told._replace(kind=kind, leftover="", base_offset=base_offset), by_stem, progress)
            tell_archive(path, tree, report)
    except (KsegError, OSError) as error:
        tell_unread(path, text_of(error).removeprefix(f"{path}: "), report)


def _stray_segment(path: str, name: str) -> SegmentFile | None:
    """Returns a file with batches as a segment, whatever its name. A compressed file is returned without a kind.
    Returns None for other files. Raises PathError."""
    with open_source(path) as source:
        told = segment_file(path)
        if packed(source) is not None:
            return told._replace(kind="") if is_packed_segment(name, read_head(source)) else None
        if not holds_batches(source, name):
            return None
        kind = ".kafka" if ".kafka" in name else ".log"
        base_offset = first_base_offset(source) if told.base_offset is None and kind == ".log" else told.base_offset
        return told._replace(kind=kind, leftover="", base_offset=base_offset)
