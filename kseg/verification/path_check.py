"""Checks a PATH: a file, a partition, a log directory, or directories of these.

Modules for directories are imported on first use, so that a single file is checked fast.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kseg.errors import PathError
from kseg.stores import trees
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import current_spool
from kseg.stores.remote.recognition import is_remote_storage
from kseg.verification.files import judge_file
from kseg.verification.report import Report
from kseg.verification.settings import Advance, CheckSettings

if TYPE_CHECKING:
    from kseg.verification.directories.directory_tree import CheckedPartition, PartitionChecker, Task


def judge_path(
    path: str,
    settings: CheckSettings,
    report: Report,
    progress: Advance,
    checker: "PartitionChecker | None" = None,
    single_process: bool = False,
) -> None:
    """Checks a PATH. Raises PathError if there are no files of Kafka.

    Unreadable partitions of a log directory are added to ``report.failures``, and the others are checked. ``checker``
    checks the partitions; None: this process does, and worker processes unless ``single_process``.
    """
    if is_remote_storage(path):
        from kseg.verification.remote.storage import judge_storage

        judge_storage(path, settings, report, progress)
        return
    trees.check(path)
    with archives_at([path], current_spool()):
        trees.check(path)
        try:
            _judge(path, settings, report, progress, checker, single_process)
        finally:
            found = trees.find(path)
            if found is not None:
                from kseg.verification.directories.unread import add_archive

                add_archive(path, found.tree, report)


def _judge(
    path: str,
    settings: CheckSettings,
    report: Report,
    progress: Advance,
    checker: "PartitionChecker | None",
    single_process: bool,
) -> None:
    if not trees.isdir(path):
        if path != "-" and not trees.lexists(path):
            raise PathError(f"{path or repr(path)}: no such file or directory")
        judge_file(path, settings, report, progress)
        return
    from kseg.verification.directories import directory_tree

    # Trees are mounted in this process; only forked processes have them, too.
    processes = None if single_process or not trees.are_forkable() else _in_processes
    workers = directory_tree.CheckWorkers(checker, processes)
    directory_tree.judge_directory(path, settings, report, progress, workers)


def _in_processes(
    tasks: "list[Task]", settings: CheckSettings, report: Report, progress: Advance
) -> "Iterator[CheckedPartition]":
    from kseg.verification.processes import judge_in_processes

    return judge_in_processes(tasks, settings, report, progress)
