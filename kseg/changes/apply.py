"""Carries plans out. Killed at any system call, it leaves the old state, or one that `settle` completes.

1. Prepare: new content is staged, and what will go is kept, all in the change's own folder. Stopped here, nothing has
   changed; the folder is removed by the next `settle`.
2. Commit: the folder gets its name. From here on the change is rolled forward, or undone.
3. Steps: each does nothing where it is already done, as files are known by inode. A large file that is remade from what
   is there (`kseg.changes.recipes`) is staged now, so that of the new ones only one takes room beside its old one.
4. The manifest says done.

A file that is neither as the plan saw it nor as a step leaves it was changed by someone else: then nothing is touched.
"""

import errno
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import current_thread, main_thread

from kseg.changes import quarantine, remaking
from kseg.changes.content import made_file, make_file, take_after, write_pieces
from kseg.changes.course import ChangedSinceError, Course
from kseg.changes.disk import Disk, open_to_write
from kseg.changes.manifest import COMMITTED, DONE, KEPT, Change, kept_elsewhere, new_change, write_change
from kseg.changes.plan import DELETE, EXTEND, RENAME, TRUNCATE, Plan, Range, seen
from kseg.changes.recipes import remaking_of
from kseg.changes.room import kept_bytes, room_of
from kseg.errors import KsegError, StoppedHalfwayError

MARGIN_BYTES = 64 << 10
_ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where the bytes that go are kept: beside the files, ``elsewhere``, or (not ``keeps``) nowhere."""

    keeps: bool = True
    elsewhere: str | None = None


def apply(
    plan: Plan,
    command: str,
    keeping: Keeping | None = None,
    disk: Disk | None = None,
    group: str = "",
    undoes: int = 0,
) -> Change | None:
    """Carries a plan out; None where there is nothing to do. The caller holds the lock and has called `settle`.

    ``group``: the change of a log directory that this is part of; then its folder stays, even if nothing is kept.
    Raises KsegError where nothing was changed, StoppedHalfwayError where `settle` has to go on.
    """
    if not plan:
        return None
    disk = disk or Disk()
    change = _begin(plan, command, keeping or Keeping(), disk, group, undoes)
    try:
        roll_forward(change, disk)
    except ChangedSinceError as error:
        raise StoppedHalfwayError(f"{error}; stopped half-way") from error
    return change


def _begin(plan: Plan, command: str, keeping: Keeping, disk: Disk, group: str, undoes: int) -> Change:
    """A change that is committed; no step is taken. Raises KsegError."""
    directory, time_ms = os.path.abspath(plan.directory), time.time_ns() // 1_000_000
    quarantine.check_folder(directory)
    number = quarantine.next_number(directory)
    folder = os.path.join(quarantine.folder_of(directory), f"{number}{quarantine.PREPARING}")
    kept = ""
    if keeping.keeps:
        kept = os.path.join(folder, KEPT)
        if keeping.elsewhere:
            kept = kept_elsewhere(keeping.elsewhere, directory, number, time_ms)
    change = new_change(plan, command, time_ms, number, folder, kept)
    change.group, change.undoes = group, undoes
    check_room(plan, keeping)
    try:
        _make_own_folder(change, disk)
    except OSError as error:
        raise KsegError(f"{plan.directory}: nothing was changed: {_said(error)}") from error
    try:
        _prepare(change, plan, disk)
        _commit(change, disk)
    except BaseException as error:
        told = _drop(change, disk)
        if isinstance(error, OSError):
            raise KsegError(f"{plan.directory}: nothing was changed: {_said(error)}{told}") from error
        if isinstance(error, KsegError):
            raise type(error)(f"{error}; nothing was changed{told}") from error
        raise
    return change


def check_room(plan: Plan, keeping: Keeping) -> None:
    """Raises KsegError where a file system has not the room that the plan takes at its peak."""
    needed = room_of(plan, links=not keeping.elsewhere, keeps=keeping.keeps).peak
    check_free(plan.directory, needed)
    if keeping.keeps and keeping.elsewhere:
        place = os.path.abspath(keeping.elsewhere)
        place = place if os.path.isdir(place) else os.path.dirname(place)
        if not os.path.isdir(place):
            raise KsegError(f"{place}: is no directory; nothing was changed")
        same = os.stat(place).st_dev == os.stat(plan.directory).st_dev
        check_free(place, kept_bytes(plan, links=same) + needed * same)


def check_free(place: str, needed: int) -> None:
    """Raises KsegError where a file system has not that room."""
    free = free_bytes(place)
    if free < needed + MARGIN_BYTES:
        raise KsegError(
            f"{place}: {needed + MARGIN_BYTES} bytes of room are needed, {free} are free; nothing was changed"
        )


def free_bytes(place: str) -> int:
    """What this user may fill of the file system that a path is in. Raises KsegError where nothing changed so far."""
    try:
        status = os.statvfs(place)
    except OSError as error:
        raise KsegError(f"{place}: {error.strerror}; nothing was changed") from error
    blocks = status.f_bfree if hasattr(os, "geteuid") and os.geteuid() == 0 else status.f_bavail
    return blocks * status.f_frsize


def _make_own_folder(change: Change, disk: Disk) -> None:
    """From here on the change may remove its folder: nobody else has made it. Raises OSError, KsegError."""
    inside = quarantine.folder_of(change.directory)
    if not os.path.lexists(inside):
        disk.make_directory(inside)
    try:
        disk.make_directory(change.folder)
    except FileExistsError as error:
        raise KsegError(f"{change.folder}: another kseg is at work here; nothing was changed") from error
    except OSError:
        quarantine.remove_if_empty(inside, disk)
        raise


def _prepare(change: Change, plan: Plan, disk: Disk) -> None:
    """Everything up to the commit. Raises OSError, or ChangedSinceError."""
    directory = change.directory
    for path in (quarantine.folder_of(directory), change.folder):
        take_after(path, directory, disk, as_directory=True)
    disk.sync_directory(directory)
    new = os.path.join(change.folder, "new")
    _make_folder(new, directory, disk)
    if change.kept and not change.is_kept_inside:
        write_change(change, disk)  # so that the place elsewhere is found if this stops here
        place = os.path.dirname(change.kept)
        if not os.path.lexists(place):
            disk.make_directory(place)
            disk.sync_directory(os.path.dirname(place))
    if change.kept:
        _make_folder(change.kept, directory, disk)
        disk.sync_directory(os.path.dirname(change.kept))
    Course(change).check_initial()
    for k, step in enumerate(change.steps):
        if step.origin:
            _check_may_go(change.path(step.origin), step.action == TRUNCATE)
        if k in remaking_of(plan).offcuts:
            remaking.prepare(change, plan, k, disk)
        elif step.makes or step.action == EXTEND:
            _stage(change, plan, k, disk)
        if change.kept and step.is_kept:
            _keep(change, k, disk)
    disk.sync_directory(new)
    if change.kept:
        disk.sync_directory(change.kept)


def _make_folder(path: str, model: str, disk: Disk) -> None:
    """A folder of the partition's owner: a broker removes it together with a topic."""
    disk.make_directory(path)
    take_after(path, model, disk, as_directory=True)


def _check_may_go(path: str, is_cut: bool) -> None:
    """Raises OSError now where a step would fail later: a file that must not be written, or not even removed."""
    try:
        os.close(open_to_write(path))
    except OSError as error:
        if is_cut or error.errno == errno.EPERM:  # read-only files may be removed, immutable ones may not
            raise


def _commit(change: Change, disk: Disk) -> None:
    change.state = COMMITTED
    write_change(change, disk)
    folder = os.path.join(quarantine.folder_of(change.directory), str(change.number))
    disk.rename(change.folder, folder)
    change.move_to(folder)
    disk.sync_directory(quarantine.folder_of(change.directory))


def _stage(change: Change, plan: Plan, k: int, disk: Disk) -> None:
    """Puts the new content of step k beside the files, synced, with owner and mode of what it replaces."""
    step, path = change.steps[k], change.new(k)
    if step.source:
        disk.link_or_copy(step.source, path)
        if os.stat(path).st_uid != os.stat(change.directory).st_uid and os.stat(path).st_nlink == 1:
            take_after(path, change.directory, disk)  # a copy from where files have no owners
    else:
        model = step.model or (change.path(step.origin) if step.origin else change.directory)
        make_file(path, step.pieces, plan.directory, disk, model, bool(step.origin), step.mtime_ns)
    made = made_file(path)
    if step.action != EXTEND:
        change.made[k] = made


def _keep(change: Change, k: int, disk: Disk) -> None:
    """Keeps what step k takes away, and notes the digests of what it removes."""
    step = change.steps[k]
    path, kept = change.path(step.origin), change.old(k)
    change.digests[k] = [quarantine.digest(path, removed.position, removed.length) for removed in step.removed]
    if k in change.remade:
        return
    if step.action != TRUNCATE:
        disk.link_or_copy(path, kept)
        return
    if step.before is None:
        return
    target = disk.create(kept)
    try:
        write_pieces([Range(path, step.size, step.before.size - step.size)], "", target, disk)
        disk.sync(target)
    finally:
        os.close(target)


def _drop(change: Change, disk: Disk) -> str:
    """Removes what was prepared for a change that did not begin; a remark where that cannot be done now."""
    try:
        if change.kept and not change.is_kept_inside:
            quarantine.remove_kept(change.kept, disk)
        if os.path.isdir(change.folder):
            if not change.folder.endswith(quarantine.PREPARING):
                quarantine.end(change, disk)
                return ""
            disk.remove_tree(change.folder)
        quarantine.remove_if_empty(quarantine.folder_of(change.directory), disk)
    except OSError as error:
        return f" (and {change.folder} could not be removed, the next command tries again: {_said(error)})"
    return ""


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keeps signals that end a process back until the block ends: an interrupt leaves the old files or the new ones.

    What it holds takes as long as copying the files that are remade does, and no time without any.

    Handlers are the process's. Masks are each thread's own, and the system shows a signal to any that has none.
    """
    if current_thread() is not main_thread():
        yield
        return
    held: list[int] = []
    before = {number: signal.getsignal(number) for number in _ENDING}
    heard = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    try:
        for number in heard:
            signal.signal(number, lambda number, _frame: held.append(number))
        yield
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)
        for late in held:
            signal.raise_signal(late)


def roll_forward(change: Change, disk: Disk) -> None:
    """Takes all steps of a committed change that are not taken yet.

    Raises StoppedHalfwayError where one fails, ChangedSinceError where the files are no longer those of the change.
    """
    try:
        with _undisturbed():
            course = Course(change)
            course.check_on_the_way()
            left: set[str] = set()
            for k, step in enumerate(change.steps):
                if (step.target or step.file) in left:
                    disk.sync_directory(change.directory)  # else a power cut may leave the later of the two names only
                _take(change, k, disk)
                left |= {step.file} if step.action == RENAME else set()
            disk.sync_directory(change.directory)
            disk.sync_directory(os.path.join(change.folder, "new"))
            change.after = course.check_final()
            _finish(change, disk)
    except OSError as error:
        raise StoppedHalfwayError(
            f"{change.directory}: stopped half-way: {_said(error)}; repeat the command to go on, or kseg undo"
        ) from error


def _finish(change: Change, disk: Disk) -> None:
    if change.undoes:
        for other in quarantine.changes(change.directory):
            if other.number == change.undoes:
                quarantine.end(other, disk)
    if change.undoes or not (change.kept or change.group):
        quarantine.end(change, disk)
        return
    change.state = DONE
    write_change(change, disk)


def _take(change: Change, k: int, disk: Disk) -> None:
    """Takes step k, unless its file is not where the step finds it: then it was taken before."""
    step, path = change.steps[k], change.path(change.steps[k].file)
    now, new = seen(path), change.new(k)
    if k in change.remade:
        remaking.take(change, k, now, disk)
    elif step.makes:
        if not os.path.lexists(new):
            return
        if now is not None and now.inode == change.made[k].inode:
            disk.unlink(new)  # the second name of the same file: a rename would do nothing
        else:
            disk.rename(new, path)
    elif now is None or now.inode != change.subject(k):
        return
    elif step.action == TRUNCATE:
        _cut(path, step.size, disk)
    elif step.action == EXTEND:
        _extend(change, k, disk)
    elif step.action == DELETE:
        disk.unlink(path)
    elif step.action == RENAME:
        disk.rename(path, change.path(step.target))


def _cut(path: str, size: int, disk: Disk) -> None:
    descriptor = open_to_write(path)
    try:
        if os.fstat(descriptor).st_size > size:
            disk.truncate(descriptor, size)
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def _extend(change: Change, k: int, disk: Disk) -> None:
    """Appends the staged bytes; begun again where that was interrupted, as what was appended may not be on the disk."""
    step, path = change.steps[k], change.path(change.steps[k].file)
    if step.before is None or not os.path.lexists(change.new(k)):
        return
    target = open_to_write(path)
    try:
        if os.fstat(target).st_size > step.before.size:
            disk.truncate(target, step.before.size)
        write_pieces([Range(change.new(k), 0, step.size - step.before.size)], "", target, disk)
        if step.mtime_ns is not None:
            disk.set_time(path, step.mtime_ns)
        disk.sync(target)
    finally:
        os.close(target)


def _said(error: OSError) -> str:
    place = error.filename if isinstance(error.filename, str) else ""
    return f"{place}: {error.strerror or error}" if place else str(error.strerror or error)


__all__ = ["ChangedSinceError", "Keeping", "apply", "check_room", "free_bytes", "roll_forward"]
