"""From PATHs to findings: a file, a partition directory, a stream, or what `kseg.verify.directories` makes of others.

What only directories need is imported late: a file is judged in the time that starting takes.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kseg.errors import PathError
from kseg.limits import MAX_BATCH_BYTES
from kseg.segment.buffers import Buffers
from kseg.segment.files import SegmentFile, names_in, parse_partition_name, segment_file, segments_among
from kseg.segment.regular_files import expect_named
from kseg.verify.broker_state import BrokerState, state_by_name
from kseg.verify.partition import Partition, judge_segments
from kseg.verify.report import Report
from kseg.verify.rules import rules_of

if TYPE_CHECKING:
    from kseg.verify.directories import Together

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a check is asked for. ``level`` is one of kseg.segment.survey; ``now_ms`` what counts as now."""

    level: int
    now_ms: int
    jobs: int = 1
    max_batch_bytes: int = MAX_BATCH_BYTES
    is_live: bool = False
    era_07: bool = False


def judge_partition(
    directory: str,
    settings: Settings,
    report: Report,
    broker: BrokerState,
    progress: Progress,
    buffers: Buffers | None = None,
) -> Partition:
    """A partition directory, with what lies in it under other names. Raises PathError where it cannot be read."""
    files_in, others = names_in(directory)
    names = frozenset(files_in)
    own_name = _own_name(directory)
    listed = segments_among(directory, [*files_in, *others] if others else names, own_name=own_name)
    files = [file for file in listed if file.kind != ".checkpoint"]
    place = parse_partition_name(own_name) or (None, None)
    partition = _partition(directory, place, True, settings, report, broker, buffers, names)
    partition.own_name, partition.others = own_name, others
    if others and not files:
        from kseg.verify.directories import is_directory_above, judge_if_log_directory, judge_inside

        if judge_if_log_directory(directory, files_in, others, settings, report, progress):
            return partition
        if is_directory_above(directory, files_in, others) and judge_inside(directory, settings, report, progress):
            return partition
    judge_segments(partition, files, rules_of(partition), progress)
    if others or not files or partition.odd_names:
        from kseg.verify.strays import judge_strays

        judge_strays(partition, settings, progress)
    return partition


def _own_name(directory: str) -> str:
    name = os.path.basename(directory)
    return os.path.basename(os.path.abspath(directory)) if name in ("", ".", "..") else name


def judge_file(path: str, settings: Settings, report: Report, progress: Progress) -> None:
    """One segment, by itself and against the indexes beside it, or one side file. Raises PathError where that cannot
    be read."""
    expect_named(path)
    file = segment_file(path)
    if settings.era_07 and file.kind != ".kafka":
        file = SegmentFile(path, ".kafka", file.leftover, file.base_offset, None, file.topic, file.partition)
    directory = None if path == "-" else os.path.dirname(path) or "."
    partition = _partition(directory, (file.topic, file.partition), False, settings, report, state_by_name(file.topic))
    if file.kind == ".checkpoint":
        from kseg.verify.snapshots import is_snapshot, judge_snapshot

        if is_snapshot(file):
            judge_snapshot(path, report, settings.level)
            return
    if not file.is_segment and path != "-" and _is_side_file(partition, path, progress):
        return
    judge_segments(partition, [file], rules_of(partition), progress)


def _is_side_file(partition: Partition, path: str, progress: Progress) -> bool:
    """Whether a broker gives such a name to a side file, which is then judged."""
    from kseg.sidefiles.kinds import side_file
    from kseg.verify.side_files import judge_side_file

    side = side_file(path)
    if side is not None:
        judge_side_file(partition, side, progress)
    return side is not None


def _partition(
    directory: str | None, place: "tuple[str | None, int | None]", is_whole: bool, settings: Settings, report: Report,
    broker: BrokerState, buffers: Buffers | None = None, names: frozenset[str] | None = None,
) -> Partition:  # fmt: skip
    return Partition(
        directory, *place, is_whole, settings.level, settings.now_ms, report, broker,
        buffers or Buffers(settings.max_batch_bytes), settings.jobs, settings.is_live, names,
    )  # fmt: skip


def judge_path(
    path: str, settings: Settings, report: Report, progress: Progress, together: "Together | None" = None
) -> None:
    """What a PATH of the command line stands for. Raises PathError where there is nothing of Kafka's.

    Of a log directory with partitions that cannot be read the others are judged; ``report.failures`` tells. Partitions
    are judged by ``together`` where that is given, else by this process and others.
    """
    if not os.path.isdir(path):
        if path != "-" and not os.path.lexists(path):
            raise PathError(f"{path or repr(path)}: no such file or directory")
        judge_file(path, settings, report, progress)
        return
    from kseg.verify import directories

    directories.judge_directory(path, settings, report, progress, together)
