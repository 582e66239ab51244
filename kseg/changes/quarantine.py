"""Where changes are kept: `<partition>/.kseg-quarantine/N/`, a subdirectory, which brokers ignore.

    manifest.json   the change: state, steps, what was removed and why
    new/K           content of step K that is not yet in place
    new/K.added     of a file that step K remakes: what of it is nowhere yet
    old/K           what step K took away: a file, the tail that was cut off, or what a file that is remade has lost
    recipe-K        how step K remakes a file (`kseg.changes.recipes`)

A folder is named N.preparing until its change begins, and N.ended once it may go; what lies in such folders is in no
case the only copy of anything. States of a change: ``prepared`` (nothing is changed yet), ``committed`` (to be rolled
forward), ``done``, ``abandoned`` (someone else changed the files in the middle).

The folder belongs to the owner of the log directory, who may put anything into it. So no link in it is followed, and
bytes kept elsewhere (``--quarantine DIR``) are only looked for in a folder whose name holds a digest of the path of
this directory (`kept_name` of `kseg.changes.kept_files`). Where the owner may not write, only kseg makes such a folder.
"""

import errno
import os
import stat
from typing import TYPE_CHECKING

from kseg.changes.disk import Disk
from kseg.errors import KsegError
from kseg.segment.no_follow import is_directory, names_in

if TYPE_CHECKING:
    from kseg.changes.manifest import Change  # 10 ms with what it imports, for nothing where nothing was ever changed

FOLDER = ".kseg-quarantine"
PREPARING, ENDED = ".preparing", ".ended"
_MAX_DIGITS = 9


def folder_of(directory: str) -> str:
    return os.path.join(directory, FOLDER)


def check_folder(directory: str) -> None:
    """Raises KsegError where something else has the name of the quarantine, such as a link to another place."""
    path = folder_of(directory)
    if os.path.lexists(path) and not stat.S_ISDIR(os.lstat(path).st_mode):
        raise KsegError(f"{path}: is no directory; nothing was changed")


def _folders(directory: str) -> list[tuple[int, str]]:
    """Number and name of all folders of changes, whatever their state; foreign names are left out.

    Raises KsegError where the quarantine, or what has a name of ours in it, is no directory but a link or a file.
    """
    folder = folder_of(directory)
    try:
        names = names_in(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise KsegError(f"{folder}: {error.strerror}") from error
    found = []
    for name in names:
        digits = name.removesuffix(PREPARING).removesuffix(ENDED)
        if digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS and str(int(digits)) == digits:
            if not is_directory(path := os.path.join(folder, name)) and os.path.lexists(path):
                raise KsegError(f"{path}: is no directory, so kseg has not made it: move it away to go on")
            found.append((int(digits), name))
    return sorted(found)


def numbers(directory: str) -> list[int]:
    """Numbers of the changes of a partition that were begun, rising."""
    return [number for number, name in _folders(directory) if name == str(number)]


def next_number(directory: str) -> int:
    return max((number for number, _ in _folders(directory)), default=0) + 1


def remains(directory: str) -> list[tuple[int, str]]:
    """Number and path of folders that an interrupted command left: of changes that never began, or that are over."""
    folder = folder_of(directory)
    return [(number, os.path.join(folder, name)) for number, name in _folders(directory) if name != str(number)]


def changes(directory: str, place: str = "") -> "list[Change]":
    """The changes of a partition that were begun, oldest first. Raises KsegError where one cannot be read.

    ``place``: where the user says that bytes are which were kept elsewhere.
    """
    return [read_change(directory, number, place) for number in numbers(directory)]


def read_change(directory: str, number: int, place: str = "") -> "Change":
    """Raises KsegError where the manifest is missing or none of ours. ``place``: as in `changes`."""
    from kseg.changes.manifest import read_manifest

    folder = os.path.join(folder_of(directory), str(number))
    change = read_manifest(directory, number, folder)
    if change is None:
        raise KsegError(f"{folder}: has no manifest; move it away to go on")
    if place and change.kept and not change.is_kept_inside:
        change.kept, change.is_place_told = os.path.join(place, os.path.basename(change.kept)), True
    return change


def pending(directory: str) -> "list[Change]":
    """Changes that were begun and not ended, the newest first: an undoing ends the change that it undoes."""
    from kseg.changes.manifest import COMMITTED

    return [change for change in reversed(changes(directory)) if change.state == COMMITTED]


def end(change: "Change", disk: Disk) -> None:
    """Removes a change with all that it has kept. Raises OSError; `remains` names what is left then."""
    if change.kept and not change.is_kept_inside and change.is_kept_for_it:
        remove_kept(change.kept, disk)
    gone = os.path.join(folder_of(change.directory), f"{change.number}{ENDED}")
    if os.path.lexists(gone):
        disk.remove_tree(gone)
    disk.rename(change.folder, gone)
    disk.sync_directory(folder_of(change.directory))
    disk.remove_tree(gone)
    remove_if_empty(folder_of(change.directory), disk)


def check_place(change: "Change") -> None:
    """Raises KsegError where the manifest names a place that it may not."""
    if change.kept and not change.is_kept_for_it:
        raise KsegError(
            f"{change.directory}: the manifest of {change.command!r} says that bytes were kept in {change.kept}, but "
            "not for a partition at this path: where that is right, give the directory around it with --quarantine; "
            "nothing was changed"
        )


def remove_kept(path: str, disk: Disk) -> None:
    """Removes a folder of kept bytes elsewhere: files that are named as ours are, and the folder if nothing is left."""
    try:
        names = names_in(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in sorted(names):
        if name.isascii() and name.isdigit():
            disk.unlink(os.path.join(path, name))
    remove_if_empty(path, disk)


def remove_remains(directory: str, disk: Disk) -> int:
    """Removes what `remains` names; how many there were. Raises OSError."""
    from kseg.changes.manifest import read_manifest

    found = remains(directory)
    for number, path in found:
        try:
            change = read_manifest(directory, number, path)
        except KsegError:
            change = None  # one that was being written: it names nothing that exists
        if change is not None and change.kept and not change.is_kept_inside and change.is_kept_for_it:
            remove_kept(change.kept, disk)
        disk.remove_tree(path)
    if is_directory(folder_of(directory)):
        remove_if_empty(folder_of(directory), disk)
    return len(found)


def remove_if_empty(path: str, disk: Disk) -> None:
    try:
        disk.remove_directory(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
            raise
