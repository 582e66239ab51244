"""Checks a PATH: a file, a partition, a log directory, or directories of these.

Modules for directories are imported on first use, so that a single file is checked fast.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kseg.errors import PathError
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
    if not os.path.isdir(path):
        if path != "-" and not os.path.lexists(path):
            raise PathError(f"{path or repr(path)}: no such file or directory")
        judge_file(path, settings, report, progress)
        return
    from kseg.verification.directories import directories

    workers = directories.Workers(together, None if is_alone else _in_processes)
    directories.judge_directory(path, settings, report, progress, workers)


def _in_processes(tasks: "list[Task]", settings: Settings, report: Report, progress: Progress) -> "Iterator[Outcome]":
    from kseg.verification.processes import judge_together

    return judge_together(tasks, settings, report, progress)
