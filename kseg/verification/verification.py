"""Judges what a PATH of the command line stands for: a file, a partition, a log directory, directories of these.

What only directories need is imported late: a file is judged in the time that starting takes.
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
    from kseg.verification.directories import directories

    workers = directories.Workers(together, _in_processes)
    directories.judge_directory(path, settings, report, progress, workers)


def _in_processes(tasks: "list[Task]", settings: Settings, report: Report, progress: Progress) -> "Iterator[Outcome]":
    from kseg.verification.processes import judge_together

    return judge_together(tasks, settings, report, progress)
