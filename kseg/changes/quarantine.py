"""The quarantine of a partition, `<partition>/.kseg-quarantine/N/`: manifests and kept bytes. Brokers ignore it.

    manifest.json   the change: state, steps, removed ranges with their reasons
    new/K           staged content of step K
    new/K.added     for a file that step K rewrites from a delta: bytes that exist nowhere else yet
    old/K           bytes that step K removed: a file, the tail of a truncated file, or the removed ranges of a delta
    recipe-K        the delta of step K (`kseg.changes.content`)

Beside these folders, accepted-gaps is the record of `kseg.changes.accepted_gaps`.

A folder is named N.preparing until its change is committed, and N.ended when it can be removed; such folders never hold
the only copy of anything. States of a change: ``prepared`` (nothing has changed yet), ``committed`` (to be rolled
forward), ``done``, ``abandoned`` (another program changed the files before the change was complete).

The folder belongs to the owner of the log directory, who can put anything into it. Therefore symbolic links in it are
never followed, and bytes kept elsewhere (``--quarantine DIR``) are only searched in a folder whose name contains a
digest of the path of this directory (`kept_name` in `kseg.changes.manifest`); only kseg creates such a folder in a
directory that the owner cannot write to.
"""

import errno
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kseg.changes.disk import MANY_FILES, Disk
from kseg.errors import KsegError, StoppedHalfwayError, errors_at, text_of
from kseg.quantities import shell_line
from kseg.segment.files import OWN_PREFIX, SegmentFile, bounded, segment_file
from kseg.stores.no_follow import directories_held, is_directory, names_in, resolved, status_of
from kseg.stores.place import Place

if TYPE_CHECKING:
    from kseg.changes.manifest import Change  # its import takes 10 ms, which partitions without changes do not need

FOLDER = ".kseg-quarantine"
PREPARING, ENDED = ".preparing", ".ended"
_MAX_DIGITS = 9


def folder_of(directory: str) -> Place:
    return Place(directory) / FOLDER


def check_folder(directory: str) -> None:
    """Raises KsegError if the name of the quarantine is taken by something other than a directory, such as a symbolic
    link.
    """
    path = folder_of(directory)
    if path.lexists() and not is_directory(path):
        raise KsegError(f"{path}: is no directory; nothing was changed")


def folders(directory: str) -> list[tuple[int, str]]:
    """Returns number and name of all folders of changes in any state; other names are ignored.

    Raises KsegError if the quarantine, or an entry with such a name, is not a directory.
    """
    folder = folder_of(directory)
    names, found = list[str](), []
    with errors_at(folder, KsegError), suppress(FileNotFoundError):
        names = names_in(folder)
    for name in names:
        digits = name.removesuffix(PREPARING).removesuffix(ENDED)
        if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS and str(int(digits)) == digits:
            if not is_directory(path := Place(folder) / name) and path.lexists():
                raise KsegError(f"{path}: is no directory, so kseg has not made it: move it away to go on")
            found.append((int(digits), name))
    return sorted(found)


def numbers(directory: str) -> list[int]:
    """Numbers of the committed changes of a partition, ascending."""
    return [number for number, name in folders(directory) if name == str(number)]


def leftovers(directory: str) -> list[tuple[int, Place]]:
    """Number and path of the folders that interrupted commands left, of unstarted or finished changes."""
    return [(number, folder_of(directory) / name) for number, name in folders(directory) if name != str(number)]


def changes(directory: str, kept_in: str = "") -> "list[Change]":
    """Returns the committed changes of a partition, oldest first. Raises KsegError if a manifest cannot be read.

    ``kept_in``: the directory of bytes that were kept elsewhere, as given by the user.
    """
    return [read_change(directory, number, kept_in) for number in numbers(directory)]


def kept_logs(directory: str) -> list[SegmentFile]:
    """Returns the files that keep bytes which changes have removed from segments of a partition, oldest first.

    Each is a segment, or parts of one without what was between them; its ``leftover`` is the name of the quarantine.
    Raises KsegError as `changes` and `check_kept_path`, and if kept bytes are missing.
    """
    found = list[SegmentFile]()
    for change in changes(directory):
        for k, step in enumerate(change.steps):
            file = segment_file(Place(directory) / step.file)
            if not (file.is_segment and change.kept and step.is_kept):
                continue
            check_kept_path(change)
            if not Place(change.old(k)).is_file():
                line = shell_line(["kseg", "undo", "--purge", "--change", str(change.number), directory])
                why = "is missing; nothing was changed; if it is gone for good:"
                raise KsegError.with_command(f"{change.old(k)}: kept by {change.command!r}, {why}", line)
            found.append(file._replace(path=change.old(k), leftover=FOLDER))
    return found


def read_change(directory: str, number: int, kept_in: str = "") -> "Change":
    """Reads one change. Raises KsegError if the manifest is missing or not valid. ``kept_in``: as in `changes`."""
    from kseg.changes.manifest import PREPARED, read_manifest

    folder = folder_of(directory) / str(number)
    change = read_manifest(directory, number, folder)
    if change is None or change.state == PREPARED:  # it is committed before its folder gets its name
        has = "has no manifest" if change is None else "its manifest was changed"
        raise KsegError(f"{folder}: {has}; move it away to go on")
    if kept_in and change.kept and not change.is_kept_inside:
        change.kept, change.is_kept_path_given = Place(kept_in).absolute / os.path.basename(change.kept), True
    return change


def pending(directory: str) -> "list[Change]":
    """Returns the committed but unfinished changes, newest first: a completed undo removes its change."""
    from kseg.changes.manifest import COMMITTED

    return [change for change in reversed(changes(directory)) if change.state == COMMITTED]


def end(*changes: "Change", disk: Disk) -> None:
    """Removes changes and the bytes that they kept. Raises OSError; `leftovers` then finds the rest."""
    ended = [folder_of(change.directory) / f"{change.number}{ENDED}" for change in changes]
    with directories_held():
        with disk.phase([change.directory for change in changes]):
            for change, folder in zip(changes, ended, strict=True):
                if change.kept and not change.is_kept_inside and change.is_kept_path_trusted:
                    remove_kept(change.kept, disk)
                disk.remove_tree(folder)
                disk.rename(change.folder, folder)
                disk.sync_directory(folder_of(change.directory))
        with disk.freeing_late(len(changes) >= MANY_FILES):
            for change, folder in zip(changes, ended, strict=True):
                disk.remove_tree(folder)
                remove_if_empty(folder_of(change.directory), disk)


def check_kept_path(change: "Change") -> None:
    """Raises KsegError if the manifest names a folder that it may not name."""
    if change.kept and not change.is_kept_path_trusted:
        raise KsegError(
            f"{change.directory}: the manifest of {change.command!r} says that bytes were kept in {change.kept}, but "
            "not for a partition at this path: if that is right, give its parent directory to kseg undo with "
            "--quarantine; nothing was changed"
        )


LINK = f"{OWN_PREFIX}kept"
"""The link in a partition to bytes kept elsewhere, from before the first is kept until the record is in the partition:
see `kseg.changes.full_disk`."""


def was_interrupted(directory: str) -> bool:
    """Whether a change without a record was interrupted in a partition."""
    return bool(Place(Place(directory) / LINK).is_link())


def forget(change: "Change", disk: Disk) -> None:
    """Removes the link of a change and the record beside its kept bytes, once the partition has the record or the
    change is taken back."""
    from kseg.changes.manifest import MANIFEST

    for path in (change.path(LINK), Place(change.kept) / MANIFEST):
        if Place(path).lexists():
            disk.unlink(path)
    disk.sync_directory(change.directory)


TEMPORARY_FILE = ".kseg-new-file"
"""The name of a new file that no record names, until it is complete. Brokers have no file of this name."""

OWN_NAMES = (FOLDER, TEMPORARY_FILE, LINK)
"""Names of kseg in a partition."""


def remove_kept(path: str, disk: Disk) -> None:
    """Removes the kept files and the record (`kseg.changes.full_disk`) from a folder elsewhere, and the folder if it is
    then empty."""
    from kseg.changes.manifest import MANIFEST

    try:
        names = names_in(path)
    except OSError:
        if Place(path).lexists():
            raise
        return  # it could not be made
    for name in sorted(names):
        if (name.isascii() and name.isdigit()) or name in (MANIFEST, f"{MANIFEST}.tmp"):
            disk.unlink(Place(path) / name)
    remove_if_empty(path, disk)


def remove_leftovers(directory: str, disk: Disk) -> int:
    """Removes the folders that `leftovers` returns. Returns their number. Raises OSError."""
    from kseg.changes.manifest import read_manifest

    found = leftovers(directory)
    for number, path in found:
        try:
            change = read_manifest(directory, number, path)
        except KsegError:
            change = None  # an incompletely written manifest: nothing was kept yet
        if change is not None and change.kept and not change.is_kept_inside and change.is_kept_path_trusted:
            remove_kept(change.kept, disk)
        disk.remove_tree(path)
    folder = folder_of(directory)
    if is_directory(folder):
        disk.remove_temporary_files(folder)
        remove_if_empty(folder, disk)
    return len(found)


def remove_if_empty(path: str, disk: Disk) -> None:
    try:
        disk.remove_directory(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EBUSY):
            raise


def freed_by_removing(changes: "Iterable[Change]") -> tuple[int, int]:
    """Returns the bytes that the file system gets back when all that these changes keep is removed, and those that
    other names still hold: a file that has another name, such as one that ends with .deleted, gives nothing back until
    a broker removes that, too. Raises OSError.
    """
    names, statuses = Counter[tuple[int, int]](), dict[tuple[int, int], os.stat_result]()
    for change in changes:
        with suppress(FileNotFoundError):
            for name in names_in(change.kept) if change.kept else ():
                status = status_of(Place(change.kept) / name)
                key = status.st_dev, status.st_ino
                names[key] += 1
                statuses[key] = status
    freed = held = 0
    for key, status in statuses.items():
        size = min(status.st_size, status.st_blocks * 512)
        freed, held = (freed + size, held) if names[key] == status.st_nlink else (freed, held + size)
    return freed, held


# A staging folder for new files while a plan is made. They are too large for memory, and a link moves them into place.
#
# In a partition it is a folder of the quarantine with the name of a change that was never committed, so that
# `complete_interrupted` removes it if this process does not. See `Plan.write` with a ``source``.

_NAME = f"0{PREPARING}"


class Staging:
    """``folder``: for files that will replace some of the directory, or be created there."""

    def __init__(self, folder: str, disk: Disk) -> None:
        self.folder, self._disk, self._made = folder, disk, 0

    def make_folder(self) -> str:
        """Creates an empty folder in the staging folder. Raises KsegError."""
        self._made += 1
        path = Place(self.folder) / str(self._made)
        with errors_at(path, KsegError, "; nothing was changed"):
            self._disk.make_directory(path)
        return path

    def adopt(self, path: str, model: str) -> None:
        """Gives a new file the owner, mode and attributes of ``model``, a file of the directory. Raises KsegError."""
        try:
            self._disk.copy_owner(path, model)
            self._disk.copy_attributes(model, path)
        except OSError as error:
            raise KsegError(
                f"{model}: its owner cannot be given to new files: run kseg as the broker's user"
            ) from error

    def remove(self, folder: str) -> None:
        """Removes a folder of `make_folder`, once its files are in place or no longer needed."""
        self._disk.remove_tree(folder)


@contextmanager
def staging(directory: str, output: str | None = None) -> Iterator[Staging]:
    """Creates a staging folder in the directory's quarantine, or in ``output``, and removes it when the block ends.

    The caller holds the lock of the log directory, or of ``output``. Raises KsegError if the folder cannot be created,
    StoppedHalfwayError if it cannot be removed.
    """
    disk, directory = Disk(), Place(directory).absolute
    check_folder(directory)
    inside = folder_of(directory) if output is None else ""
    output = output and resolved(output)
    name = os.path.basename(directory)
    folder = Place(inside) / _NAME if inside else Place(str(output)) / f".kseg-{bounded(name, 240)}.staged"
    with errors_at(folder, KsegError, "; nothing was changed"):
        if inside and not Place(inside).lexists():
            disk.make_directory(inside)
            disk.copy_owner(inside, directory, as_directory=True)
        disk.remove_tree(folder)
        disk.make_directory(folder)
        disk.copy_owner(folder, directory, as_directory=True)
    is_done = False
    try:
        yield Staging(folder, disk)
        is_done = True
    finally:
        try:
            disk.remove_tree(folder)
            if inside and Place(inside).lexists():
                remove_if_empty(inside, disk)
        except OSError as error:
            if is_done:  # otherwise the first error is reported; the next `complete_interrupted` removes the folder
                raise StoppedHalfwayError(
                    f"{directory}: done, but temporary files cannot be removed: {text_of(error)}; repeat the command"
                ) from error
