"""Ends what an interrupted command left in a log directory, before the next command begins."""

import os

from kseg.changes import quarantine
from kseg.changes.clean_stop import remove_marker
from kseg.changes.disk import Disk
from kseg.changes.journal import DONE, OPEN, UNDOING, journals, remove_temporary_files
from kseg.changes.log_directory import changed_partitions, forget, has_changed_anything, roll_back_journal
from kseg.changes.log_directory_undo import go_on
from kseg.changes.settle import settle
from kseg.errors import StoppedHalfwayError


def settle_log_directory(directory: str, disk: Disk | None = None) -> list[str]:
    """As `settle`, for all partitions of a log directory, and for an undoing that was interrupted."""
    directory, disk, told = os.path.abspath(directory), disk or Disk(), []
    try:
        remove_temporary_files(directory, disk)
        for path in changed_partitions(directory):
            if any(change.changes_a_log for change in quarantine.pending(path)):
                remove_marker(directory, disk)
            told += settle(path, disk)
        for journal in journals(directory):
            if journal.state == OPEN and not has_changed_anything(journal):
                roll_back_journal(journal, disk)
            elif journal.state == UNDOING:
                go_on(journal, disk)
                told.append(f"{directory}: the undoing of {journal.command!r} was interrupted, and is complete now")
            elif journal.state == DONE and not journal.keeps:
                forget(journal, disk)
    except OSError as error:
        raise StoppedHalfwayError(
            f"{directory}: an interrupted change cannot be completed: {error.strerror or error}"
        ) from error
    return told
