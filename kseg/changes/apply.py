"""Carries plans out. Killed at any system call, it leaves the old state, or one that `settle` completes.

1. Prepare: new content is staged, and what will go is kept, all in the change's own folder. Stopped here, nothing has
   changed; the folder is removed by the next `settle`.
2. Commit: the manifest appears. From here on the change is rolled forward.
3. Steps: each does nothing where it is already done, as it knows the files by inode, size and time.
4. The manifest says done.

A file that is neither as the plan saw it nor as a step leaves it was changed by someone else: then nothing is touched.
"""

import errno
import os
import time
from dataclasses import dataclass

from kseg.changes import quarantine
from kseg.changes.disk import Disk
from kseg.changes.plan import CREATE, DELETE, RENAME, REPLACE, TRUNCATE, Plan, Seen, Step, seen
from kseg.changes.quarantine import Change
from kseg.errors import KsegError, StoppedHalfwayError

MARGIN_BYTES = 1 << 20


class ChangedSinceError(KsegError):
    """A file is not as it was when the plan was made, or when the change was begun."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where the bytes that go are kept: beside the files, ``elsewhere``, or (not ``keeps``) nowhere."""

    keeps: bool = True
    elsewhere: str | None = None


def apply(plan: Plan, command: str, keeping: Keeping | None = None, disk: Disk | None = None) -> Change | None:
    """Carries a plan out; None where there is nothing to do. The caller holds the lock.

    Raises ChangedSinceError or KsegError where nothing was changed, StoppedHalfwayError where `settle` has to go on.
    """
    if not plan:
        return None
    keeping, disk = keeping or Keeping(), disk or Disk()
    change = quarantine.new_change(plan, command, time.time_ns() // 1_000_000, keeping.elsewhere, keeping.keeps)
    try:
        check_room(plan, keeping)
        _prepare(change, plan, disk)
    except OSError as error:
        _drop(change, disk)
        raise KsegError(f"{plan.directory}: nothing was changed: {error.strerror or error}") from error
    except KsegError:
        _drop(change, disk)
        raise
    roll_forward(change, disk)
    return change


def check_room(plan: Plan, keeping: Keeping) -> None:
    """Raises KsegError where the file system has not the room that the plan takes at its peak."""
    status = os.statvfs(plan.directory)
    free = status.f_bavail * status.f_frsize
    needed = plan.peak_bytes(links=keeping.elsewhere is None) + MARGIN_BYTES
    if free < needed:
        raise KsegError(f"{plan.directory}: {needed} bytes of room are needed, {free} are free; nothing was changed")


def _prepare(change: Change, plan: Plan, disk: Disk) -> None:
    """Everything up to the manifest. Raises OSError, or ChangedSinceError."""
    disk.make_directory(os.path.join(change.folder, "new"))
    if change.kept:
        disk.make_directory(change.kept)
    for k, step in enumerate(change.steps):
        if step.before != seen(change.path(step.file)) and not _is_made_before(change.steps, k):
            raise ChangedSinceError(f"{change.path(step.file)}: has changed since it was looked at; nothing was done")
        if step.pieces or step.action in (REPLACE, CREATE):
            _stage(change, plan, k, step, disk)
        if change.kept:
            _keep(change, k, step, disk)
    disk.sync_directory(os.path.join(change.folder, "new"))
    if change.kept:
        disk.sync_directory(change.kept)
    disk.sync_directory(change.folder)
    disk.sync_directory(quarantine.folder_of(change.directory))
    disk.sync_directory(change.directory)
    quarantine.write_change(change, disk)


def _is_made_before(steps: list[Step], k: int) -> bool:
    """Whether the file of step k is taken away or made by an earlier one."""
    return any(steps[k].file in (step.file, step.target) for step in steps[:k])


def _stage(change: Change, plan: Plan, k: int, step: Step, disk: Disk) -> None:
    mode = _mode_of(change.path(step.file))
    target = os.open(change.new(k), os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode)
    try:
        for piece in step.pieces:
            if isinstance(piece, bytes):
                disk.write(target, piece)
                continue
            source = os.open(os.path.join(plan.directory, piece.file), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            try:
                disk.copy_range(source, piece.position, piece.length, target)
            finally:
                os.close(source)
        _take_owner(target, change.path(step.file), change.directory)
        os.fsync(target)
    finally:
        os.close(target)


def _mode_of(path: str) -> int:
    try:
        return os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        return 0o644


def _take_owner(descriptor: int, path: str, directory: str) -> None:
    """New files belong to whom the old one, or the directory, belongs to: the broker has to open them."""
    try:
        model = os.stat(path)
    except FileNotFoundError:
        model = os.stat(directory)
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (model.st_uid, model.st_gid) and hasattr(os, "fchown"):
        try:
            os.fchown(descriptor, model.st_uid, model.st_gid)
        except PermissionError as error:
            raise KsegError(f"{path}: a file of this owner cannot be made: run kseg as the broker's user") from error


def _keep(change: Change, k: int, step: Step, disk: Disk) -> None:
    """Keeps what step k takes away, and notes its digests."""
    path = change.path(step.file)
    if step.before is None or step.action in (CREATE, RENAME):
        return
    change.digests[k] = [quarantine.digest(path, removed.position, removed.length) for removed in step.removed]
    if step.action != TRUNCATE:
        disk.keep(path, change.old(k))
        return
    source = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        target = os.open(change.old(k), os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            disk.copy_range(source, step.size, step.before.size - step.size, target)
            os.fsync(target)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _drop(change: Change, disk: Disk) -> None:
    """Removes what was prepared for a change that did not begin."""
    if change.kept and os.path.isdir(change.kept):
        disk.remove_tree(change.kept)
    if os.path.isdir(change.folder):
        disk.remove_tree(change.folder)
    _remove_if_empty(quarantine.folder_of(change.directory))


def _remove_if_empty(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise


def roll_forward(change: Change, disk: Disk) -> None:
    """Takes all steps of a committed change that are not taken yet.

    Raises StoppedHalfwayError where one fails, ChangedSinceError where the files are no longer those of the change.
    """
    _check_untouched(change)
    try:
        for k, step in enumerate(change.steps):
            _take(change, k, step, disk)
        disk.sync_directory(change.directory)
        _note_after(change)
        change.state = quarantine.DONE
        if change.kept:
            quarantine.write_change(change, disk)
        else:
            _drop(change, disk)
        disk.sync_directory(change.directory)
    except OSError as error:
        raise StoppedHalfwayError(
            f"{change.directory}: stopped half-way: {error.strerror or error}; repeat the command to go on"
        ) from error


def _check_untouched(change: Change) -> None:
    """Raises ChangedSinceError unless every step is either not taken yet or taken."""
    for k, step in enumerate(change.steps):
        if not (_is_taken(change, k, step) or _is_untaken(change, k, step)):
            raise ChangedSinceError(
                f"{change.path(step.file)}: was changed by someone else in the middle of {change.command!r}; "
                f"what it had kept is in {change.kept or change.folder}"
            )


def _is_untaken(change: Change, k: int, step: Step) -> bool:
    if _is_made_before(change.steps, k):
        return True  # what the earlier step finds decides
    return seen(change.path(step.file)) == step.before


def _is_taken(change: Change, k: int, step: Step) -> bool:
    now = seen(change.path(step.file))
    if step.action == TRUNCATE:
        return now is not None and step.before is not None and (now.inode, now.size) == (step.before.inode, step.size)
    if step.action in (REPLACE, CREATE):
        return not os.path.lexists(change.new(k))
    return now is None or step.before is None or now.inode != step.before.inode


def _take(change: Change, k: int, step: Step, disk: Disk) -> None:
    path = change.path(step.file)
    now = seen(path)
    if step.action in (REPLACE, CREATE):
        if os.path.lexists(change.new(k)):
            disk.rename(change.new(k), path)
    elif now is None or step.before is None or now.inode != step.before.inode:
        return
    elif step.action == TRUNCATE:
        if now.size > step.size:
            disk.truncate(path, step.size)
    elif step.action == DELETE:
        disk.unlink(path)
    else:
        disk.rename(path, change.path(step.target))


def _note_after(change: Change) -> None:
    for k, step in enumerate(change.steps):
        change.after[k] = seen(change.path(step.target or step.file))


def settle(directory: str, disk: Disk | None = None) -> list[str]:
    """Ends what an interrupted command left in a partition: rolls it forward, or removes what never began.

    What was done, a sentence each. Raises as `roll_forward` does. The caller holds the lock.
    """
    from kseg.changes.undo import roll_back

    disk, told = disk or Disk(), []
    for change in quarantine.pending(directory):
        if change.state == quarantine.UNDOING:
            roll_back(change, disk)
            told.append(f"{directory}: the undoing of {change.command!r} was interrupted, and is complete now")
            continue
        roll_forward(change, disk)
        told.append(f"{directory}: {change.command!r} was interrupted, and is complete now")
    for number in quarantine.unbegun(directory):
        disk.remove_tree(os.path.join(quarantine.folder_of(directory), str(number)))
        told.append(f"{directory}: a command was interrupted before it changed anything; what it had prepared is gone")
    if told:
        _remove_if_empty(quarantine.folder_of(directory))
    return told


__all__ = ["ChangedSinceError", "Keeping", "Seen", "apply", "check_room", "roll_forward", "settle"]
