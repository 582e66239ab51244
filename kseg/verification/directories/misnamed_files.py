"""Checks renamed, compressed and copied segments: files in partitions and log directories whose names no broker uses.

A broker ignores them, or does not start; a log may have no other files. A file with batches, even a compressed one, is
checked as a single segment, not as a part of its partition. An archive is reported, but not checked.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

from kseg.errors import KsegError, PathError
from kseg.formats.suffixes import CHECKPOINT, LOG, LOG_07, SWAP
from kseg.logdir.log_directory import is_moved
from kseg.segment.file_types import (
    first_base_offset,
    holds_batches,
    is_packed_segment,
    named_like_segment,
    read_head,
    refuse_empty_pack,
)
from kseg.segment.files import OWN_PREFIX, SegmentFile, segment_file
from kseg.segment.paths import DEPTH
from kseg.sidefiles.kinds import side_file
from kseg.sidefiles.remote_index_names import is_remote_segment_name
from kseg.stores import trees
from kseg.stores.archives.mounting import packed_segment_at
from kseg.stores.buffers import Buffers
from kseg.stores.source import open_source
from kseg.verification.batches import BatchRule
from kseg.verification.directories.unread import add_archive, add_unread, add_unread_for, packed, why_no_file
from kseg.verification.leftovers import misnamed_files
from kseg.verification.partition import Partition, judge_segments, partition_for_file
from kseg.verification.report import Report
from kseg.verification.rule import Rule
from kseg.verification.rules import rules_of
from kseg.verification.settings import Advance, CheckSettings


class JudgeInside(Protocol):
    """Checks a directory inside a partition. Returns whether it contains Kafka's files. Raises PathError."""

    def __call__(
        self, path: str, settings: CheckSettings, report: Report, progress: Advance, *, depth: int
    ) -> bool: ...


def is_directory_of_others(path: str, name: str) -> bool:
    """Whether a name is that of a directory, not a link, that kseg has not created."""
    inside = os.path.join(path, name)
    return not name.startswith(OWN_PREFIX) and trees.isdir(inside) and not trees.islink(inside)


def judge_misnamed(partition: Partition, settings: CheckSettings, progress: Advance, judge_inside: JudgeInside) -> None:
    """Checks files of a partition that are not part of its log; reports a partition without segments."""
    directory, report = partition.directory or "", partition.report
    names = [name for name in misnamed_files(partition) if not name.startswith(OWN_PREFIX)]
    found = judge_misnamed_files(partition, names, progress)
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
            add_unread(path, why_no_file(path), report)
    if not partition.segments and not is_moved(partition.own_name):
        _add_missing(partition, found)


def _add_missing(partition: Partition, found: list[str]) -> None:
    """Reports a partition without segments: a broker keeps at least one, even if it is empty."""
    names = partition.names
    if not partition.broker.is_known and names and not found and not any(map(side_file, names)):
        return  # a directory of other files with the name of a partition
    if any(name.endswith((".log.swap", CHECKPOINT)) for name in names) or any(map(is_remote_segment_name, found)):
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


def judge_loose_files(
    directory: str, names: Iterable[str], settings: CheckSettings, report: Report, progress: Advance
) -> list[str]:
    """Like `judge_misnamed_files`, outside of a partition."""
    no_partition = Partition(
        directory, None, None, False, settings.level, settings.now_ms, report,
        buffers=Buffers(settings.max_batch_bytes), jobs=settings.jobs,
    )  # fmt: skip
    return judge_misnamed_files(no_partition, names, progress)


def judge_misnamed_files(around: Partition, names: Iterable[str], progress: Advance) -> list[str]:
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
            file = _misnamed_segment(path, name)
        except PathError as error:
            add_unread_for(path, error, around.report)
            continue
        if file is not None:
            found.append(name)
        if file is not None and file.kind:
            _judge_as_segment(around, file, by_stem, progress)
        elif file is not None:
            _judge_packed(around, file, by_stem, progress)
    return found


def _judge_as_segment(around: Partition, file: SegmentFile, by_stem: dict[str, set[str]], progress: Advance) -> None:
    partition = partition_for_file(around, frozenset(by_stem[file.name.partition(".")[0]]))
    # A .swap that will replace segments is no log of its own.
    rules: list[Rule] = [BatchRule(partition)] if file.name.endswith(SWAP) else rules_of(partition)
    judge_segments(partition, [file], rules, progress)


def _judge_packed(around: Partition, file: SegmentFile, by_stem: dict[str, set[str]], progress: Advance) -> None:
    """Checks the contents of a compressed file. Reports an archive, and a file that cannot be decompressed."""
    path, report = file.path, around.report
    try:
        with packed_segment_at(path) as tree:
            if tree is None:
                with open_source(path) as source:
                    report.add("packed-segment", path, packed(source) or "")
                report.totals.not_judged += 1
                return
            named = segment_file(path)
            with open_source(path) as source:
                kind = named.kind if named.is_segment else LOG
                base_offset = first_base_offset(source) if named.base_offset is None else named.base_offset
            _judge_as_segment(
                around, named._replace(kind=kind, leftover="", base_offset=base_offset), by_stem, progress
            )
            add_archive(path, tree, report)
    except (KsegError, OSError) as error:
        add_unread_for(path, error, report)


def _misnamed_segment(path: str, name: str) -> SegmentFile | None:
    """Returns a file with batches as a segment, and a compressed file as a segment without a kind. Returns None for
    other files. Raises PathError."""
    with open_source(path) as source:
        named = segment_file(path)
        if named_like_segment(name):
            refuse_empty_pack(path)
        if packed(source) is not None:
            return named._replace(kind="") if is_packed_segment(name, read_head(source)) else None
        if not holds_batches(source, name):
            return None
        kind = LOG_07 if LOG_07 in name else LOG
        base_offset = first_base_offset(source) if named.base_offset is None and kind == LOG else named.base_offset
        return named._replace(kind=kind, leftover="", base_offset=base_offset)
