"""Finds the pairs for `kseg verify --against DIR`: two files or partitions, or partitions of two log directories by
name."""

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import lru_cache

from kseg.errors import PathError
from kseg.limits import MAX_BATCH_BYTES
from kseg.segment.files import list_partitions, list_segments, parse_partition_name
from kseg.segment.paths import segments_at
from kseg.sidefiles.checkpoints import OffsetCheckpoint, read_offset_checkpoint
from kseg.stores import trees
from kseg.stores.regular_files import open_regular
from kseg.verification.replicas.compare import ReplicaComparison
from kseg.verification.replicas.comparison import Comparison
from kseg.verification.replicas.replica import Replica
from kseg.verification.report import Report

COMPACTED_TOPICS = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
_CHECKPOINT_BYTES_MAX = 64 << 20


def compare_path(
    path: str,
    against: str,
    report: Report,
    tell: Callable[[Comparison], None],
    jobs: int = 1,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    advance: Callable[[int], None] = lambda _: None,
) -> None:
    """Compares the files at ``path`` and ``against``. Raises PathError if there are no files of Kafka."""
    for here, there in _pairs(path, against, report):
        comparison, done_bytes = _compare(here, there, report, jobs, max_batch_bytes)
        tell(comparison)
        advance(done_bytes)


def _pairs(path: str, against: str, report: Report) -> list[tuple[str, str]]:
    for place in (path, against):
        if place == "-" or not trees.lexists(place):
            raise PathError(f"{place or repr(place)}: no such file or directory")
    if not trees.isdir(path) or list_segments(path):
        name = os.path.basename(os.path.abspath(path))
        inside = os.path.join(against, name)
        if trees.isdir(against) and not list_segments(against) and trees.exists(inside):
            against = inside
        return [(path, against)]
    mine = {os.path.basename(part): part for part in list_partitions(path)}
    others = {os.path.basename(part): part for part in list_partitions(against)} if trees.isdir(against) else {}
    if not mine.keys() & others.keys():
        raise PathError(f"{path} and {against} have no partition in common")
    for name in mine.keys() ^ others.keys():
        place, other = (mine[name], against) if name in mine else (others[name], path)
        report.add("replica-missing", place, f"{other} does not have it")
    return [(mine[name], others[name]) for name in mine if name in others]


def _compare(here: str, there: str, report: Report, jobs: int, max_batch_bytes: int) -> tuple[Comparison, int]:
    with ExitStack() as stack:
        sides = []
        for place in (here, there):
            files = [file for file in segments_at(place) if file.kind != ".checkpoint"]
            if not files and not _is_partition(place):
                raise PathError(f"{place}: holds no segment")
            sides.append(Replica(files, jobs, max_batch_bytes))
            stack.callback(sides[-1].close)
        is_compacted = _is_compacted(here) or _is_compacted(there)
        comparison = ReplicaComparison((here, there), sides[0], sides[1], is_compacted, report).run()
        return comparison, sides[0].bytes


def _is_partition(place: str) -> bool:
    return trees.isdir(place) and parse_partition_name(os.path.basename(os.path.abspath(place))) is not None


def _is_compacted(place: str) -> bool:
    """Whether the log is known to be compacted: by its topic, or by the cleaner's checkpoint of the log directory."""
    directory = os.path.abspath(place if trees.isdir(place) else os.path.dirname(os.path.abspath(place)))
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
    with suppress(OSError), open_regular(os.path.join(log_directory, "cleaner-offset-checkpoint")) as file:
        data = file.read(_CHECKPOINT_BYTES_MAX)
    entries = (entry for entry in read_offset_checkpoint(data) if isinstance(entry, OffsetCheckpoint))
    return frozenset((entry.topic, entry.partition) for entry in entries)
