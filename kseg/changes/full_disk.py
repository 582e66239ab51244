"""Applies a plan on a file system that has no room for the record of the change: what frees space goes first
(`kseg.changes.disk_space.freeing_steps`).

A change that keeps nothing is completed by the same command after a kill: each step is atomic, a broker can start after
any of them, and the rest is planned again. Therefore no step may write the content of a log.

A change that keeps bytes on another file system has its record there, too, until there is room in the partition. A
symbolic link in the partition, which needs no room, leads there. It is followed only to a folder that kseg has named
for this partition and change (`kept_name`). If such a change is interrupted, it is taken back.
"""

import errno
import os
import re
from contextlib import suppress
from dataclasses import replace

from kseg.changes import accepted_gaps, manifest, quarantine
from kseg.changes.apply import Keeping, check_free, dropped, examined, keep, make_kept_folder, new_change
from kseg.changes.content import copy_owner, created_state, make_file, write_pieces
from kseg.changes.disk import Disk, Model, attributes_of, opened
from kseg.changes.disk_space import FreeingSteps, is_removed_first, kept_bytes
from kseg.changes.manifest import DONE, PREPARED, Author, Change, ChangedSinceError, ExpectedStates, is_unchanged
from kseg.changes.plan import DELETE, RENAME, TRUNCATE, FileState, Plan, Range, Step, file_state
from kseg.changes.quarantine import LINK, TEMPORARY_FILE
from kseg.errors import KsegError, PathError, StoppedHalfwayError, is_system_error, text_of
from kseg.formats.suffixes import LOGS
from kseg.stores.no_follow import directory_status, names_in, status_of
from kseg.stores.place import Place


def apply_without_record(plan: Plan, steps: FreeingSteps, disk: Disk) -> None:
    """Applies a plan that keeps nothing. The caller holds the lock, and has removed the clean shutdown marker.

    Raises KsegError if nothing was changed, otherwise StoppedHalfwayError.
    """
    begun = list[Step]()
    try:
        for step in steps.steps:
            path = Place(plan.directory) / step.file
            if step.action != RENAME and file_state(path) != step.before:
                raise PathError(f"{path}: has changed since it was read")
            begun.append(step)
            apply_step(step, path, plan.directory, disk)
        disk.sync_directory(plan.directory)
        if plan.purges:
            accepted_gaps.purge(plan.directory, plan.purges, disk)
        accepted_gaps.record(plan.directory, plan.gaps, disk)
    except (OSError, KsegError) as error:
        if _have_changed_any(begun, plan.directory):
            text = f"{plan.directory}: stopped half-way: {text_of(error)}; repeat the command to go on"
            raise StoppedHalfwayError(text) from error
        raise KsegError(f"{plan.directory}: nothing was changed: {text_of(error)}") from error


def _have_changed_any(begun: list[Step], directory: str) -> bool:
    """Whether steps, of which the last one may have failed at any point, have changed a file."""
    if len(begun) != 1:
        return bool(begun)
    try:
        return file_state(Place(directory) / begun[0].file) != begun[0].before
    except (OSError, KsegError):
        return True


def apply_step(step: Step, path: str, directory: str, disk: Disk) -> None:
    """Applies a step to the file ``path``. Raises OSError, KsegError."""
    is_ordered = step.action == RENAME or step.file.endswith(LOGS)
    if is_ordered:  # a power cut must not leave this step without the ones before it
        disk.sync_directory(directory)
    if step.action == DELETE:
        disk.unlink(path)
    elif step.action == RENAME:
        disk.rename(path, Place(directory) / step.target)
    elif step.action == TRUNCATE:
        with opened(path, os.O_RDWR) as descriptor:
            disk.truncate(descriptor, step.size)
            disk.sync(descriptor)
    else:
        model: str | Model = step.model or directory
        if step.before is not None:
            model = Model(path, status_of(path), attributes_of(path))
            if is_removed_first(step):
                disk.unlink(path)
        with disk.replacement(path, TEMPORARY_FILE) as temporary:
            make_file(temporary, step.pieces, directory, disk, model, step.before is not None, step.mtime_ns)
    if is_ordered:
        disk.sync_directory(directory)


_NO_SYMBOLIC_LINK = (errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.EOPNOTSUPP, errno.ENAMETOOLONG)
"""Errors of a file system that has none, or no room for one."""


def apply_freeing(
    plan: Plan, steps: FreeingSteps, command: str, keeping: Keeping, disk: Disk, group: str, author: Author | None
) -> Change:
    """Applies the steps of a plan, and then writes the record of the change, for which they have made room.

    Removed bytes are kept on another file system, with the record until it can be written in the partition: a change
    that is interrupted before is taken back. Raises KsegError if nothing was changed, otherwise StoppedHalfwayError.
    """
    change, begun = new_change(plan, command, keeping, group, 0, author), list[Step]()
    change.state, change.steps = DONE, steps.steps
    directory, folder, kept = change.directory, change.folder, change.kept
    inside = quarantine.folder_of(directory)
    try:
        check_free(keeping.place(), kept_bytes(plan, links=False))
        make_kept_folder(change, Model(directory, directory_status(directory), {}), disk)
        try:
            disk.symbolic_link(kept, change.path(LINK))
        except OSError as error:
            if error.errno not in _NO_SYMBOLIC_LINK:
                raise
        disk.sync_directory(directory)
        for k, step in enumerate(change.steps):
            if step.origin:
                examined(change, step)
            if step.is_kept:
                keep(change, k, disk)
        manifest.hash_before(change)
        _record(change, disk)
        disk.sync_directory(kept)
        for k, step in enumerate(change.steps):
            begun.append(step)
            apply_step(step, change.path(step.file), directory, disk)
            if step.makes:
                change.made[k] = created_state(change.path(step.file))
        disk.sync_directory(directory)
        change.after = ExpectedStates(change).check_final()
        manifest.hash_after(change)
        for path in (inside, folder):
            with suppress(FileExistsError):
                disk.make_directory(path)
                copy_owner(path, directory, disk, as_directory=True)
        manifest.write_change(change, disk)
        disk.rename(folder, Place(inside) / str(change.number))
        change.move_to(Place(inside) / str(change.number))
        disk.sync_directory(inside)
        quarantine.forget(change, disk)
    except (OSError, KsegError) as error:
        if not _have_changed_any(begun, directory):
            raise dropped(change, error, disk) from error
        text = f"{directory}: stopped half-way: {text_of(error)}; removed bytes are in {kept}"
        text += "; repeat the command, or kseg undo"
        raise StoppedHalfwayError(text) from error
    return change


class TakenBack(str):
    """The sentence about a change that was taken back, or whose undo was completed: there is nothing left of it to undo
    in its ``directories``.
    """

    __slots__ = ("directories",)

    directories: tuple[str, ...]

    def __new__(cls, text: str, *directories: str) -> "TakenBack":
        told = super().__new__(cls, text)
        told.directories = directories
        return told


def _record(change: Change, disk: Disk) -> None:
    """Writes the record of a change, of which no step is applied, to its kept bytes. Raises OSError, KsegError."""
    touched = {name for step in change.steps for name in (step.file, step.target)}
    logs = [name for name in names_in(change.directory) if name.endswith(LOGS) and name not in touched]
    states = {name: file_state(change.path(name)) for name in logs}
    manifest.write_change(replace(change, folder=change.kept, state=PREPARED, after=states), disk)


def take_back(directory: str, disk: Disk) -> str:
    """Restores the files before an interrupted change that has no record. Returns a sentence, "" if there is none.

    Raises OSError; KsegError if the link leads elsewhere, or its disk is not there.
    """
    link = Place(directory) / LINK
    if not quarantine.was_interrupted(directory):
        return ""
    kept = os.readlink(link)
    found = re.fullmatch(r".*\.([0-9]{1,9})\.([0-9]{1,18})\.[0-9a-f]{32}", os.path.basename(kept), re.DOTALL)
    if found is None or os.path.basename(kept) != manifest.kept_name(directory, int(found[1]), int(found[2])):
        raise KsegError(f"{link}: does not lead to bytes that kseg has kept of this directory: remove it to go on")
    number = int(found[1])
    if not Place(kept).is_dir():
        raise KsegError(f"{kept}: holds bytes of an interrupted change, and is not there: make its disk available")
    change = manifest.read_manifest(directory, number, kept)
    if change is None:  # no step was applied yet
        quarantine.remove_kept(kept, disk)
        disk.unlink(link)
        return ""
    if number in quarantine.numbers(directory):
        quarantine.forget(change, disk)
        return ""
    was = f"{directory}: {change.command!r} was interrupted before there was room for its record"
    try:
        _restore(change, disk)
    except (KsegError, OSError) as error:
        if is_system_error(error) and error.errno not in (errno.ENOSPC, errno.ENOENT):
            raise
        disk.unlink(link)
        return f"{was} and is given up: {text_of(error)}; kept bytes are in {kept}"
    disk.sync_directory(directory)
    disk.unlink(link)
    disk.sync_directory(directory)
    quarantine.remove_kept(kept, disk)
    return TakenBack(f"{was}, and is taken back", directory)


def _restore(change: Change, disk: Disk) -> None:
    """Raises ChangedSinceError if another program, such as a broker, has changed the files since; KsegError if the kept
    bytes have changed."""
    for name, known in change.after.items():
        if file_state(change.path(name)) != known:
            raise _changed(change, name)
    for k, stored in change.stored.items():
        if not is_unchanged(change.old(k), stored):
            raise KsegError(f"{change.old(k)}: is not what was kept")
    for k, step in reversed([*enumerate(change.steps)]):
        before, path = step.before, change.path(step.file)
        now = file_state(path)
        if before is None:
            if now is not None and step.file.endswith(LOGS) and now.size:
                raise _changed(change, step.file)
            if now is not None:
                disk.unlink(path)
        elif now == before:  # not applied; an inode alone may be used again
            continue
        elif now is not None and step.action == TRUNCATE and now.inode == before.inode:
            _append(change, k, now, before, disk)
        elif step.action == RENAME and now is None and Place(change.path(step.target)).lexists():
            disk.rename(change.path(step.target), path)
        elif (
            now is None
            or not step.file.endswith(LOGS)
            or (k in change.stored and is_unchanged(path, change.stored[k]))  # restored by an earlier try
        ):
            with disk.replacement(path, TEMPORARY_FILE) as temporary:
                disk.copy_file(change.old(k), temporary, change.directory)
        else:
            raise _changed(change, step.file)


def _append(change: Change, k: int, now: FileState, before: FileState, disk: Disk) -> None:
    """Appends the bytes that step k has cut off; a part of them may be there since an earlier try."""
    step = change.steps[k]
    if now.size > before.size:
        raise _changed(change, step.file)
    with opened(change.path(step.file), os.O_RDWR) as target:
        disk.truncate(target, step.size)
        os.lseek(target, 0, os.SEEK_END)
        write_pieces([Range(change.old(k), 0, before.size - step.size)], "", target, disk)
        disk.set_time(target, before.mtime_ns)
        disk.sync(target)


def _changed(change: Change, name: str) -> ChangedSinceError:
    return ChangedSinceError(f"{change.path(name)}: was changed by another program since")
