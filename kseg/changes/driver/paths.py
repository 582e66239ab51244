"""The PATHs of changing commands: partitions or log directories, their locks, and changes that were interrupted."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from kseg.changes import quarantine
from kseg.changes.driver.reporter import Failures
from kseg.changes.journal import OPEN, UNDOING, journals
from kseg.changes.lock import all_locked, log_directory_of
from kseg.changes.log_directory import changed_partitions
from kseg.changes.log_directory_undo import complete_interrupted, complete_interrupted_in_log_directory
from kseg.errors import KsegError, PathError
from kseg.logdir.topics import Topics
from kseg.segment.files import list_partitions, list_segments, own_name, own_partitions
from kseg.segment.paths import hint, is_log_directory
from kseg.stores import trees
from kseg.stores.archives.mounting import form_at
from kseg.stores.no_follow import resolved_to_change
from kseg.stores.stored_object import is_url, shown

NEVER_CHANGED = (
    "packed files, archives, segments of Redpanda and object stores are never changed: give --output DIR to write the "
    "result there"
)


def is_partition(path: str) -> bool:
    """Whether a directory is a partition rather than a log directory. Raises PathError if it is neither."""
    trees.check(path)
    if not trees.isdir(path):
        missing = "no such file or directory" if not trees.lexists(path) else "is no directory"
        if form_at(path) is not None or (is_url(path) and trees.find(path) is None):
            raise PathError(f"{shown(path)}: {NEVER_CHANGED}")
        raise PathError(f"{path or repr(path)}: {missing}; give a partition or log directory")
    if list_segments(path, everything=True):
        return True
    if is_log_directory(path):
        return False
    if trees.isdir(quarantine.folder_of(path)):
        return True
    why = hint(path) or ": holds no segment, no directory such as orders-0, no meta.properties"
    raise PathError(f"{path}: neither a partition nor a log directory{why}")


def partitions_of_topics(directory: str, globs: tuple[str, ...]) -> list[str]:
    """Returns the partitions of a log directory that belong to topics of these names. Raises PathError if none do."""
    return Topics(globs).named(directory, own_partitions(resolved_to_change(directory)))


def paths_of_topics(paths: Sequence[str], globs: tuple[str, ...], failures: Failures) -> list[str]:
    """Returns the paths; with ``globs`` each log directory is replaced by its partitions of such topics. Paths without
    any are reported."""
    found: list[str] = []
    for path in paths:
        with failures.of(path):
            found += partitions_of_topics(path, globs) if globs and not is_partition(path) else [path]
    return found


def places_at(paths: Iterable[str], takes_files: bool = False) -> dict[str, list[str]]:
    """Returns the partitions at each path, without paths that cannot be read. ``takes_files``: segments, too."""
    places = dict[str, list[str]]()
    for path in paths:
        with suppress(KsegError):
            is_single = (takes_files and not trees.isdir(path)) or is_partition(path)
            places[path] = [path] if is_single else own_partitions(path)
    return places


def without_same_outputs(paths: Sequence[str], output: str | None, failures: Failures) -> list[str]:
    """Returns the paths except those that would write a directory which an earlier path writes; these are reported."""
    if output is None:
        return list(paths)
    found, sources = [], dict[str, str]()
    for path in paths:
        with suppress(KsegError):  # an unknown directory is reported when its turn comes
            parts = {own_name(path): path}
            if not is_partition(path):
                parts = {os.path.basename(part): part for part in list_partitions(path)}
            if same := sorted(parts.keys() & sources.keys()):
                first, second, target = sources[same[0]], parts[same[0]], os.path.join(output, same[0])
                why = f"{first} and {second} would both become {target}: give each an --output of its own"
                failures.add(PathError(f"{why}; nothing was written for {path}"), path)
                continue
            sources.update(parts)
        found.append(path)
    return found


def interrupted_changes(path: str, is_single: bool) -> list[str]:
    """Returns one sentence for each interrupted change that the next changing command completes or removes first."""
    found = []
    for partition in [path] if is_single else changed_partitions(path):
        for change in quarantine.pending(partition):
            found.append(f"{partition}: {change.command!r} was interrupted, and would be completed first")
    if not is_single:
        for journal in journals(path):
            if journal.state in (OPEN, UNDOING):
                found.append(f"{path}: {journal.command!r} was interrupted here")
    return found


@contextmanager
def locked_and_completed(
    path: str, is_single: bool, to_lock: list[str], warn: Callable[[str], None], before_undo: bool = False
) -> Iterator[list[str]]:
    """Locks these log directories and completes interrupted changes at a path. Yields one sentence for each.

    ``before_undo``: as in `complete_interrupted`.
    """
    root = log_directory_of(path) if is_single else path
    with all_locked(to_lock):
        if is_single and not journals(root):
            completed = complete_interrupted(path, before_undo=before_undo)
        else:
            completed = complete_interrupted_in_log_directory(root, before_undo=before_undo)
        for line in completed:
            warn(line)
        yield completed
