"""Completes or removes the interrupted changes of a log directory, before the next command starts."""

import os

from kseg.changes import quarantine
from kseg.changes.apply import roll_forward
from kseg.changes.disk import Disk
from kseg.changes.expected_states import ChangedSinceError
from kseg.changes.journal import DONE, OPEN, UNDOING, journals, remove_temporary_files
from kseg.changes.log_directory import changed_partitions, forget, has_changed_anything, roll_back_journal
from kseg.changes.log_directory_undo import continue_undo
from kseg.changes.manifest import ABANDONED, Change, write_change
from kseg.changes.new_directories import complete_new_directories
from kseg.changes.shutdown_marker import remove_marker
from kseg.errors import PathError, StoppedHalfwayError
from kseg.stores.no_follow import is_directory

# Completes or removes the interrupted changes of a partition, before the next command starts.


def complete_interrupted(directory: str, disk: Disk | None = None) -> list[str]:
    """Rolls committed changes forward and removes leftovers. Returns a sentence for each action.

    A change is abandoned if another program, such as a broker, has changed its files since; the bytes that it kept
    stay. The caller holds the lock. Raises StoppedHalfwayError if a system call fails, KsegError if a manifest cannot
    be read.
    """
    disk, messages = disk or Disk(), []
    directory = os.path.abspath(directory)
    try:
        _sync_last(directory, disk)
        for change in quarantine.pending(directory):
            if change.number in quarantine.numbers(directory):  # completing an undo has removed the undone change
                messages.append(f"{directory}: {_complete(change, disk)}")
        if quarantine.remove_leftovers(directory, disk):
            messages.append(f"{directory}: temporary files of an interrupted command were removed")
    except OSError as error:
        raise StoppedHalfwayError(
            f"{directory}: an interrupted change cannot be completed: {error.strerror or error}"
        ) from error
    return messages


def _sync_last(directory: str, disk: Disk) -> None:
    """Syncs what a killed process may have written last in the quarantine: it counts as done. Raises OSError."""
    folder = quarantine.folder_of(directory)
    if is_directory(folder):
        disk.sync_directory(folder)
        for number in quarantine.numbers(directory)[-1:]:
            disk.sync_directory(os.path.join(folder, str(number)))


def _complete(change: Change, disk: Disk) -> str:
    name = f"the undo of change {change.undoes}" if change.undoes else repr(change.command)
    try:
        roll_forward(change, disk)
    except (ChangedSinceError, PathError) as error:
        if change.undoes:
            quarantine.end(change, disk)  # it holds only hard links and copies
            return f"{name} was interrupted and is given up: {error}"
        change.state = ABANDONED
        write_change(change, disk)
        kept = f"kept bytes are in {change.kept}" if change.kept else "no bytes were kept"
        return f"{name} was interrupted and is given up: {error}; {kept}"
    return f"{name} was interrupted, and is complete now"


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
