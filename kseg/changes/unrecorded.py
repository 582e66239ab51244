"""Takes back a change that was interrupted before there was room for its record in the partition.

On a full disk the steps of a change come before its record (`apply_freeing` in `kseg.changes.apply`). Until then the
record lies with the kept bytes on the other file system, and a symbolic link in the partition, which needs no room,
leads there. It is followed only to a folder that kseg has named for this partition and change (`kept_name`).
"""

import errno
import os
import re
from dataclasses import replace

from kseg.changes import quarantine
from kseg.changes.content import write_pieces
from kseg.changes.disk import Disk, opened
from kseg.changes.full_disk import TEMPORARY_FILE
from kseg.changes.manifest import (
    MANIFEST,
    PREPARED,
    Change,
    ChangedSinceError,
    is_unchanged,
    kept_name,
    read_manifest,
    write_change,
)
from kseg.changes.plan import RENAME, TRUNCATE, FileState, Range, file_state
from kseg.errors import KsegError, is_system_error, text_of
from kseg.formats.suffixes import LOGS
from kseg.segment.files import OWN_PREFIX
from kseg.stores.no_follow import names_in
from kseg.stores.place import Place

LINK = f"{OWN_PREFIX}kept"
"""The link in a partition: it is there from before the first byte is kept until the record is in the partition."""


class TakenBack(str):
    """The sentence about a change that was taken back: there is nothing left of it to undo in its ``directory``."""

    __slots__ = ("directory",)

    directory: str


def announce(change: Change, disk: Disk) -> None:
    """Makes the link, unless the file system has none. Raises OSError."""
    try:
        disk.symbolic_link(change.kept, change.path(LINK))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.EOPNOTSUPP, errno.ENAMETOOLONG):
            raise
    disk.sync_directory(change.directory)


def record(change: Change, disk: Disk) -> None:
    """Writes the record of a change, of which no step is applied, to its kept bytes. Raises OSError, KsegError."""
    touched = {name for step in change.steps for name in (step.file, step.target)}
    logs = [name for name in names_in(change.directory) if name.endswith(LOGS) and name not in touched]
    states = {name: file_state(change.path(name)) for name in logs}
    write_change(replace(change, folder=change.kept, state=PREPARED, after=states), disk)


def forget(change: Change, disk: Disk) -> None:
    """Removes link and record of a change, whose own record is in the partition now, or which is taken back."""
    for path in (change.path(LINK), Place(change.kept) / MANIFEST):
        if Place(path).lexists():
            disk.unlink(path)
    disk.sync_directory(change.directory)


def was_interrupted(directory: str) -> bool:
    """Whether a change without a record was interrupted in a partition."""
    return bool(Place(Place(directory) / LINK).is_link())


def take_back(directory: str, disk: Disk) -> str:
    """Restores the files before an interrupted change that has no record. Returns a sentence, "" if there is none.

    Raises OSError; KsegError if the link leads elsewhere, or its disk is not there.
    """
    link = Place(directory) / LINK
    if not was_interrupted(directory):
        return ""
    kept = os.readlink(link)
    found = re.fullmatch(r".*\.([0-9]{1,9})\.([0-9]{1,18})\.[0-9a-f]{32}", os.path.basename(kept), re.DOTALL)
    if found is None or os.path.basename(kept) != kept_name(directory, int(found[1]), int(found[2])):
        raise KsegError(f"{link}: does not lead to bytes that kseg has kept of this directory: remove it to go on")
    number = int(found[1])
    if not Place(kept).is_dir():
        raise KsegError(f"{kept}: holds bytes of an interrupted change, and is not there: make its disk available")
    change = read_manifest(directory, number, kept)
    if change is None:  # no step was applied yet
        quarantine.remove_kept(kept, disk)
        disk.unlink(link)
        return ""
    if number in quarantine.numbers(directory):
        forget(change, disk)
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
    told = TakenBack(f"{was}, and is taken back")
    told.directory = directory
    return told


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
        elif now is None or not step.file.endswith(LOGS) or _is_kept_content(change, k):
            with disk.replacement(path, TEMPORARY_FILE) as temporary:
                disk.copy_file(change.old(k), temporary, change.directory)
        else:
            raise _changed(change, step.file)


def _is_kept_content(change: Change, k: int) -> bool:
    """Whether a file is what step k has removed, restored by an earlier try."""
    return k in change.stored and is_unchanged(change.path(change.steps[k].file), change.stored[k])


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
