"""Puts the last change of a partition back, from what its quarantine holds."""

import os

from kseg.changes import quarantine
from kseg.changes.apply import ChangedSinceError
from kseg.changes.disk import Disk
from kseg.changes.plan import CREATE, DELETE, RENAME, REPLACE, TRUNCATE, Step, seen
from kseg.changes.quarantine import Change
from kseg.errors import KsegError, StoppedHalfwayError


def last_done(directory: str) -> Change:
    """The change that `undo` puts back. Raises KsegError where there is none."""
    done = [change for change in quarantine.changes(directory) if change.state == quarantine.DONE]
    if not done:
        raise KsegError(f"{directory}: there is no change to undo")
    return done[-1]


def undo(change: Change, disk: Disk | None = None) -> None:
    """Puts a change back and removes its quarantine. The caller holds the lock.

    Raises ChangedSinceError where a file is not as the change left it, KsegError where the old bytes are not there.
    """
    disk = disk or Disk()
    for k, step in enumerate(change.steps):
        if _is_overwritten(change.steps, k):
            continue
        if change.after.get(k) != seen(change.path(step.target or step.file)):
            raise ChangedSinceError(
                f"{change.path(step.target or step.file)}: has changed since {change.command!r}; nothing was undone"
            )
    for k, step in enumerate(change.steps):
        if step.freed_bytes and not os.path.lexists(change.old(k)):
            raise KsegError(f"{change.old(k)}: is missing; nothing was undone")
    change.state = quarantine.UNDOING
    quarantine.write_change(change, disk)
    roll_back(change, disk)


def _is_overwritten(steps: list[Step], k: int) -> bool:
    """Whether a later step leaves something else under the name that step k left."""
    name = steps[k].target or steps[k].file
    return any(name in (step.file, step.target) for step in steps[k + 1 :])


def roll_back(change: Change, disk: Disk) -> None:
    """Takes the steps back, last first, as far as they are not back yet. Raises StoppedHalfwayError where one fails."""
    try:
        for k in range(len(change.steps) - 1, -1, -1):
            _take_back(change, k, change.steps[k], disk)
        disk.sync_directory(change.directory)
        if change.kept and os.path.dirname(change.kept) != change.folder and os.path.isdir(change.kept):
            disk.remove_tree(change.kept)
        disk.remove_tree(change.folder)
    except OSError as error:
        raise StoppedHalfwayError(
            f"{change.directory}: stopped half-way: {error.strerror or error}; repeat the command to go on"
        ) from error


def _take_back(change: Change, k: int, step: Step, disk: Disk) -> None:
    path, now = change.path(step.file), seen(change.path(step.file))
    if step.action == CREATE:
        left = change.after.get(k)
        if now is not None and left is not None and now.inode == left.inode:
            disk.unlink(path)
    elif step.action == TRUNCATE:
        _append_tail(change, k, step, disk)
    elif step.action in (REPLACE, DELETE):
        if step.before is not None and os.path.lexists(change.old(k)):
            disk.rename(change.old(k), path)
    elif step.action == RENAME and step.before is not None:
        target = seen(change.path(step.target))
        if target is not None and target.inode == step.before.inode:
            disk.rename(change.path(step.target), path)


def _append_tail(change: Change, k: int, step: Step, disk: Disk) -> None:
    """The tail goes back behind the cut; begun again from the cut where that was interrupted."""
    if step.before is None or not os.path.lexists(change.old(k)):
        return
    path = change.path(step.file)
    now = seen(path)
    if now is None or now.inode != step.before.inode:
        raise ChangedSinceError(f"{path}: is not the file that was cut")
    target = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    try:
        os.ftruncate(target, step.size)
        os.lseek(target, 0, os.SEEK_END)
        source = os.open(change.old(k), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            disk.copy_range(source, 0, step.before.size - step.size, target)
        finally:
            os.close(source)
        os.fsync(target)
    finally:
        os.close(target)


def purge(change: Change, disk: Disk | None = None) -> int:
    """Frees what a change that is over had kept; the bytes that were."""
    disk = disk or Disk()
    freed = change.kept_bytes
    if change.kept and os.path.dirname(change.kept) != change.folder and os.path.isdir(change.kept):
        disk.remove_tree(change.kept)
    disk.remove_tree(change.folder)
    return freed


__all__ = ["last_done", "purge", "roll_back", "undo"]
