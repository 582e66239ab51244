"""Completes or removes the interrupted changes of a log directory, before the next command starts."""

import os

from kseg.changes import quarantine
from kseg.changes.disk import Disk
from kseg.changes.journal import DONE, OPEN, UNDOING, journals, remove_temporary_files
from kseg.changes.log_directory import changed_partitions, forget, has_changed_anything, roll_back_journal
from kseg.changes.log_directory_undo import continue_undo
from kseg.changes.new_directories import complete_new_directories
from kseg.changes.roll_forward import complete_interrupted
from kseg.changes.shutdown_marker import remove_marker
from kseg.errors import StoppedHalfwayError


def complete_interrupted_in_log_directory(directory: str, disk: Disk | None = None) -> list[str]:
    """As `complete_interrupted`, for all partitions of a log directory, and for an interrupted undo.

    Syncs the names in the directory and all journals first: what a killed process has written counts as done.
    """
    directory, disk, messages = os.path.abspath(directory), disk or Disk(), []
    try:
        if found := journals(directory):
            for journal in found:
                journal.sync(disk)
            disk.sync_directory(directory)
        remove_temporary_files(directory, disk)
        messages += complete_new_directories(directory, disk)
        for path in changed_partitions(directory):
            if any(change.changes_a_log for change in quarantine.pending(path)):
                remove_marker(directory, disk)
            messages += complete_interrupted(path, disk)
        for journal in found:
            if journal.state == OPEN and not has_changed_anything(journal):
                roll_back_journal(journal, disk)
            elif journal.state == UNDOING:
                continue_undo(journal, disk)
                messages.append(f"{directory}: the undo of {journal.command!r} was interrupted, and is complete now")
            elif journal.state == DONE and not journal.keeps:
                forget(journal, disk)
    except OSError as error:
        raise StoppedHalfwayError(
            f"{directory}: an interrupted change cannot be completed: {error.strerror or error}"
        ) from error
    return messages
