"""Ends what an interrupted command left in a partition, before the next one begins."""

import os

from kseg.changes import quarantine
from kseg.changes.apply import roll_forward
from kseg.changes.course import ChangedSinceError
from kseg.changes.disk import Disk
from kseg.changes.manifest import ABANDONED, Change, write_change
from kseg.errors import PathError, StoppedHalfwayError


def settle(directory: str, disk: Disk | None = None) -> list[str]:
    """Rolls forward what was begun, and removes what never began or is over. What was done, a sentence each.

    A change whose files someone else has changed since, such as a broker that was started, is given up: what it kept
    stays. Raises StoppedHalfwayError where the disk does not allow it, KsegError where a manifest cannot be read. The
    caller holds the lock.
    """
    disk, told = disk or Disk(), []
    directory = os.path.abspath(directory)
    try:
        for change in quarantine.pending(directory):
            if change.number in quarantine.numbers(directory):  # an undoing has removed what it undid
                told.append(f"{directory}: {_settle(change, disk)}")
        if quarantine.remove_remains(directory, disk):
            told.append(f"{directory}: what an interrupted command had only prepared, or no longer needed, is removed")
    except OSError as error:
        raise StoppedHalfwayError(
            f"{directory}: an interrupted change cannot be completed: {error.strerror or error}"
        ) from error
    return told


def _settle(change: Change, disk: Disk) -> str:
    what = f"the undoing of change {change.undoes}" if change.undoes else repr(change.command)
    try:
        roll_forward(change, disk)
    except (ChangedSinceError, PathError) as error:
        if change.undoes:
            quarantine.end(change, disk)  # it holds second names and copies only
            return f"{what} was interrupted and is given up: {error}"
        change.state = ABANDONED
        write_change(change, disk)
        return f"{what} was interrupted and is given up: {error}; what it had kept is in {change.kept or 'no place'}"
    return f"{what} was interrupted, and is complete now"
