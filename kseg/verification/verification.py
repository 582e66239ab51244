"""Checks a PATH: a file, a partition, a log directory, or directories of these.

Modules for directories are imported on first use, so that a single file is checked fast.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kseg.errors import PathError
from kseg.stores import trees
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import current_spool
from kseg.stores.remote.storage import is_remote_storage
from kseg.verification.files import judge_file
from kseg.verification.report import Report
from kseg.verification.settings import Progress, Settings

if TYPE_CHECKING:
    from kseg.verification.directories.directories import Outcome, Task, Together


def judge_path(
    path: str,
    settings: Settings,
    report: Report,
    progress: Progress,
    together: "Together | None" = None,
    is_alone: bool = False,
) -> None:
    """Checks a PATH. Raises PathError if there are no files of Kafka.

    Unreadable partitions of a log directory are added to ``report.failures``, and the others are checked. ``together``
    checks the partitions if given, else this process and, unless it ``is_alone``, worker processes do.
    """
    if is_remote_storage(path):
        from kseg.verification.remote.storage import judge_storage

        judge_storage(path, settings, report, progress)
        return
    trees.check(path)
    with archives_at([path], current_spool()):
        trees.check(path)
        try:
            _judge(path, settings, report, progress, together, is_alone)
        finally:
            place = trees.find(path)
            if place is not None:
                from kseg.verification.directories.unread import tell_archive

                tell_archive(path, place.tree, report)


def _judge(
    path: str, settings: Settings, report: Report, progress: Progress, together: "Together | None", is_alone: bool
) -> None:
    if not trees.isdir(path):
        if path != "-" and not trees.lexists(path):
            raise PathError(f"{path or repr(path)}: no such file or directory")
        judge_file(path, settings, report, progress)
        return
    from kseg.verification.directories import directories

    # Trees are mounted in this process, and shared with forked ones alone.
    processes = None if is_alone or not trees.are_forkable() else _in_processes
    workers = directories.Workers(together, processes)
    directories.judge_directory(path, settings, report, progress, workers)


def _in_processes(tasks: "list[Task]", settings: Settings, report: Report, progress: Progress) -> "Iterator[Outcome]":
    from kseg.verification.processes import judge_together

    return judge_together(tasks, settings, report, progress)
