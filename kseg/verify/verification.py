"""From PATHs to partitions to findings: a file, a partition directory, a whole log directory, or a stream."""

import os
from collections.abc import Callable
from dataclasses import dataclass

from kseg.errors import PathError
from kseg.formats.rows import Scratch
from kseg.limits import MAX_BATCH_BYTES
from kseg.segment.files import SegmentFile, list_partitions, list_segments, parse_partition_name, segment_file
from kseg.sidefiles.kinds import side_file
from kseg.verify.batches import BatchRule
from kseg.verify.broker_state import BrokerState
from kseg.verify.epochs import EpochRule
from kseg.verify.indexes import IndexRule
from kseg.verify.partition import Partition, judge_segments
from kseg.verify.producers import ProducerRule
from kseg.verify.report import Report
from kseg.verify.rule import Rule
from kseg.verify.side_files import judge_side_file

RULES: tuple[type[Rule], ...] = (BatchRule, IndexRule, ProducerRule, EpochRule)
"""In the order in which they are shown each segment: `BatchRule` fills in what the others read off a `Segment`."""


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
    directory: str, settings: Settings, report: Report, broker: BrokerState, progress: Callable[[int], None]
) -> None:
    """A partition directory. Raises PathError where it cannot be read."""
    files = [file for file in list_segments(directory) if file.kind != ".checkpoint"]
    place = parse_partition_name(os.path.basename(os.path.abspath(directory))) or (None, None)
    partition = _partition(directory, place, True, settings, report, broker)
    judge_segments(partition, files, [rule(partition) for rule in RULES], progress)


def judge_file(path: str, settings: Settings, report: Report, progress: Callable[[int], None]) -> None:
    """One segment, by itself and against the indexes beside it, or one side file. Raises PathError where that cannot
    be read."""
    file = segment_file(path)
    if settings.era_07 and file.kind != ".kafka":
        file = SegmentFile(path, ".kafka", file.leftover, file.base_offset, None, file.topic, file.partition)
    directory = None if path == "-" else os.path.dirname(path) or "."
    partition = _partition(directory, (file.topic, file.partition), False, settings, report, BrokerState())
    if not file.is_segment and path != "-" and (side := side_file(path)):
        judge_side_file(partition, side, progress)
        return
    judge_segments(partition, [file], [rule(partition) for rule in RULES], progress)


def _partition(
    directory: str | None, place: "tuple[str | None, int | None]", is_whole: bool, settings: Settings, report: Report,
    broker: BrokerState,
) -> Partition:  # fmt: skip
    return Partition(
        directory, *place, is_whole, settings.level, settings.now_ms, report, broker,
        Scratch(settings.max_batch_bytes), settings.jobs, settings.is_live,
    )  # fmt: skip


def judge_path(path: str, settings: Settings, report: Report, progress: Callable[[int], None]) -> None:
    """What a PATH of the command line stands for. Raises PathError where there is nothing of Kafka's."""
    if not os.path.isdir(path):
        if path != "-" and not os.path.lexists(path):
            raise PathError(f"{path or repr(path)}: no such file or directory")
        judge_file(path, settings, report, progress)
    elif list_segments(path, everything=True) or not list_partitions(path):
        judge_partition(path, settings, report, BrokerState(), progress)
    else:
        for directory in list_partitions(path):
            judge_partition(directory, settings, report, BrokerState(), progress)
