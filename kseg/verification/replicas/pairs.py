"""Compares the pairs of `kseg verify --against DIR`: two files or partitions, or equally named ones of log
directories."""

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import lru_cache

from kseg.errors import PathError
from kseg.formats.suffixes import CHECKPOINT
from kseg.limits import MAX_BATCH_BYTES, MAX_ROOT_FILE_BYTES
from kseg.logdir.log_directory import COMPACTED_TOPICS
from kseg.segment.files import list_partitions, list_segments, parse_partition_name
from kseg.segment.paths import is_log_directory, log_directories_in, segments_at
from kseg.sidefiles.checkpoints import CLEANER_OFFSETS, OffsetCheckpoint, read_offset_checkpoint
from kseg.stores import trees
from kseg.stores.regular_files import open_regular
from kseg.verification.replicas.compare import ReplicaComparison
from kseg.verification.replicas.comparison import Comparison
from kseg.verification.replicas.replica import Replica
from kseg.verification.report import Report


def compare_path(
    path: str,
    against: str,
    report: Report,
    compared: Callable[[Comparison], None],
    jobs: int = 1,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    advance: Callable[[int], None] = lambda _: None,
    wants: Callable[[str], bool] = lambda _: True,
) -> None:
    """Compares the files at ``path`` and ``against``: of log directories the partitions of topics that ``wants``
    accepts. Raises PathError if there are no files of Kafka."""
    for here, there in _pairs(path, against, report, wants):
        comparison, done_bytes = _compare(here, there, report, jobs, max_batch_bytes)
        compared(comparison)
        advance(done_bytes)


def _pairs(path: str, against: str, report: Report, wants: Callable[[str], bool]) -> list[tuple[str, str]]:
    for each in (path, against):
        if each == "-" or not trees.lexists(each):
            raise PathError(f"{each or repr(each)}: no such file or directory")
    if not trees.isdir(path) or list_segments(path):
        name = os.path.basename(os.path.abspath(path))
        inside = os.path.join(against, name)
        if trees.isdir(against) and not list_segments(against) and trees.exists(inside):
            against = inside
        return [(path, against)]
    mine, others = _named(path, _partitions(path, wants), against, _partitions(against, wants))
    if not mine.keys() & others.keys():
        raise PathError(f"{path} and {against} have no partition in common")
    for name in mine.keys() ^ others.keys():
        present, other = (mine[name], against) if name in mine else (others[name], path)
        report.add("replica-missing", present, f"{other} does not have it")
    return [(mine[name], others[name]) for name in mine if name in others]


def _partitions(path: str, wants: Callable[[str], bool]) -> list[str]:
    """Returns the partitions of a log directory, or of all log directories in a directory."""
    if not trees.isdir(path):
        return []
    roots = [] if is_log_directory(path) else log_directories_in(path)
    parts = [part for root in roots or [path] for part in list_partitions(root)]
    return [part for part in parts if (name := parse_partition_name(os.path.basename(part))) and wants(name[0])]


def _named(path: str, mine: list[str], against: str, others: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the partitions of both by their names; by their relative paths if several have one name."""
    by_name = tuple({os.path.basename(part): part for part in parts} for parts in (mine, others))
    if len(by_name[0]) == len(mine) and len(by_name[1]) == len(others):
        return by_name[0], by_name[1]
    return {os.path.relpath(p, path): p for p in mine}, {os.path.relpath(p, against): p for p in others}


def _compare(here: str, there: str, report: Report, jobs: int, max_batch_bytes: int) -> tuple[Comparison, int]:
    with ExitStack() as stack:
        sides = []
        for path in (here, there):
            files = [file for file in segments_at(path) if file.kind != CHECKPOINT]
            if not files and not _is_partition(path):
                raise PathError(f"{path}: holds no segment")
            sides.append(Replica(files, jobs, max_batch_bytes))
            stack.callback(sides[-1].close)
        is_compacted = _is_compacted(here) or _is_compacted(there)
        comparison = ReplicaComparison((here, there), sides[0], sides[1], is_compacted, report).run()
        return comparison, sides[0].bytes


def _is_partition(path: str) -> bool:
    return trees.isdir(path) and parse_partition_name(os.path.basename(os.path.abspath(path))) is not None


def _is_compacted(path: str) -> bool:
    """Whether the log is known to be compacted: by its topic, or by the cleaner's checkpoint of the log directory."""
    directory = os.path.abspath(path if trees.isdir(path) else os.path.dirname(os.path.abspath(path)))
    name = parse_partition_name(os.path.basename(directory))
    if name is None:
        return False
    if name[0] in COMPACTED_TOPICS:
        return True
    return name in _cleaned(os.path.dirname(directory))


@lru_cache(maxsize=2)
def _cleaned(log_directory: str) -> frozenset[tuple[str, int]]:
    """Returns the partitions in the cleaner's checkpoint."""
    data = b""
    with suppress(OSError), open_regular(os.path.join(log_directory, CLEANER_OFFSETS)) as file:
        data = file.read(MAX_ROOT_FILE_BYTES)
    entries = (entry for entry in read_offset_checkpoint(data) if isinstance(entry, OffsetCheckpoint))
    return frozenset((entry.topic, entry.partition) for entry in entries)
