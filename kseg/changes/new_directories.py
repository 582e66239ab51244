"""Creates directories completely or not at all: their contents are written to a staging folder, which is then renamed.

If the output does not exist, the staging folder is renamed to it. If it exists, the staging folder is first renamed to
mark it as complete, then its contents are moved out. The next run completes an interrupted move.

Any number of runs may write to one output at once: each has a staging folder of its own, and they take turns at moving
things into place. The lock file in a staging folder is held while its run lives; other runs remove dead folders.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from kseg.changes.disk import Disk, opened
from kseg.changes.lock import LOCK_NAME, HeldLock, is_locked, locked
from kseg.errors import KsegError, PathError, StoppedHalfwayError, UnsupportedError, errors_at, text_of
from kseg.stores import trees
from kseg.stores.no_follow import is_directory, names_in, resolved, status_of
from kseg.stores.stored_object import is_url, shown

_INSIDE = "output"
"""The part of their names that staging folders in an existing output have; elsewhere it is the output's name."""
_STAGED, _COMPLETE = (
    re.compile(r"\.kseg-.+\.(new|staged)"),
    re.compile(rf"\.kseg-{_INSIDE}(\.[0-9a-f]{{32}})?\.complete"),
)
_ATTEMPTS = 20
"""How often a staging folder is made: another run may take one for dead before it is locked."""


class NewDirectories:
    """Directories that appear in ``output`` all together or not at all: see `new_directories`.

    ``folder``: the staging folder. Files that are written beside the directories in it appear with them.
    """

    def __init__(self, output: str, folder: str, disk: Disk, was_completed: bool = False) -> None:
        """``was_completed``: the output of an interrupted run was moved into place just before."""
        self.folder = folder
        self._output, self._disk, self._was_completed = output, disk, was_completed
        self._models: dict[str, str] = {}

    def add(self, name: str, is_dry: bool = False, model: str = "") -> str:
        """Returns the path of an empty folder that becomes ``output/name``. Raises PathError if the name is taken.

        ``model``: a directory, whose owner and mode the folder gets; or a file: the folder gets those of its directory,
        and at `finish` the files in the folder get those of the file. "" for the defaults of this user.
        """
        target, staged = os.path.join(self._output, name), os.path.join(self.folder, name)
        if name in self._models:
            raise PathError(f"{target}: two inputs would become it; nothing was written")
        self._check_free(name)
        self._models[name] = model
        if not is_dry:
            self._disk.make_directory(staged)
            place = model if not model or trees.isdir(model) else os.path.dirname(os.path.abspath(model))
            if place:
                self._disk.copy_owner_if_allowed(staged, place, as_directory=True)
        return staged

    def _check_free(self, name: str) -> None:
        target = os.path.join(self._output, name)
        if trees.lexists(target):
            why = ": an interrupted run had written it, and all of it is in place now" * self._was_completed
            raise PathError(f"{target}: already exists{why}; nothing was written")

    def finish(self, lock: HeldLock | None, takes_lock: bool) -> None:
        """Sets owner and mode of files, as `add` describes, and moves everything into place.

        ``lock``: that of the output, None if it did not exist.
        """
        for name, model in self._models.items():
            staged = os.path.join(self.folder, name)
            for file in names_in(staged):
                path = os.path.join(staged, file)
                if not stat.S_ISREG(status_of(path).st_mode) or trees.isdir(model):
                    continue
                if model:
                    self._disk.copy_owner_if_allowed(path, model)
                else:
                    with opened(path) as descriptor:
                        self._disk.set_default_mode(descriptor)
            self._disk.sync_directory(staged)
        self._disk.sync_directory(self.folder)
        if lock is not None:
            self._move_in(lock)
            return
        try:
            self._disk.rename(self.folder, self._output)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            with locked(self._output, takes_lock, is_shared=True) as lock:  # another run has made the output meanwhile
                self._move_in(lock)
        else:
            self._disk.sync_directory(os.path.dirname(self._output))

    def _move_in(self, lock: HeldLock) -> None:
        """Moves everything into the existing output."""
        complete = os.path.join(self._output, f".kseg-{_INSIDE}.{os.urandom(16).hex()}.complete")
        with lock.alone():
            for name in self._models:
                self._check_free(name)
            self._disk.rename(self.folder, complete)
            try:
                self._disk.sync_directory(self._output)
                _move_out(complete, self._output, self._disk)
            except OSError as error:
                raise StoppedHalfwayError(f"{self._output}: {text_of(error)}; repeat the command to go on") from error


def check_local(output: str) -> None:
    """Raises UnsupportedError for an output in an object store."""
    if is_url(output):
        raise UnsupportedError(f"{shown(output)}: only recover --from-remote writes to object stores")


@contextmanager
def new_directories(output: str, takes_lock: bool, is_dry: bool = False, model: str = "") -> Iterator[NewDirectories]:
    """Creates ``output`` if necessary and holds its lock. If the block raises, nothing is left behind.

    ``model``: the directory whose owner and mode a new ``output`` gets. With ``is_dry`` nothing is created. Raises
    KsegError if the output cannot be written.
    """
    check_local(output)
    disk, output = Disk(), os.path.abspath(resolved(output))
    if is_dry:
        yield NewDirectories(output, output, disk)
        return
    try:
        with ExitStack() as held:
            lock, was_completed, place = None, False, os.path.dirname(output)
            # Asked in this order, because another run may make it meanwhile.
            if trees.lexists(output):
                if not trees.isdir(output):
                    raise PathError(f"{output}: is no directory")
                lock, place = held.enter_context(locked(output, takes_lock, is_shared=True)), output
                with lock.alone():
                    was_completed = _complete(output, disk)
            name = os.path.basename(output) if lock is None else _INSIDE
            staged = re.compile(rf"\.kseg-{re.escape(name)}(\.[0-9a-f]{{32}})?\.new")
            _remove_dead(place, _folders(place, staged), disk)
            folder = _staging_folder(place, name, "" if lock else model, disk, held)
            made = NewDirectories(output, folder, disk, was_completed)
            try:
                yield made
                made.finish(lock, takes_lock)
            except BaseException:
                disk.remove_tree(folder)
                raise
    except OSError as error:
        if isinstance(error, BrokenPipeError | InterruptedError | KsegError):
            raise
        raise KsegError(f"{output}: nothing was written: {text_of(error)}") from error


def _staging_folder(place: str, name: str, model: str, disk: Disk, held: ExitStack) -> str:
    """Creates a staging folder in a directory, and locks it as long as ``held``. Raises KsegError."""
    for attempt in range(_ATTEMPTS):
        folder = os.path.join(place, f".kseg-{name}.{os.urandom(16).hex()}.new")
        with errors_at(folder):
            disk.make_directory(folder)
        try:
            if model:
                disk.copy_owner_if_allowed(folder, model, as_directory=True)
            held.enter_context(locked(folder, is_shared=True))
        except BaseException as error:
            with suppress(FileNotFoundError):  # another run, which has the lock, may remove it now
                disk.remove_tree(folder)
            if not isinstance(error, KsegError | FileNotFoundError) or attempt == _ATTEMPTS - 1:
                raise
        else:
            return folder
    raise AssertionError  # the last attempt returns or raises


def is_left(directory: str, name: str) -> bool:
    """Whether a directory beside partitions is the staging folder of a killed run, of this or another module."""
    is_staged = _STAGED.fullmatch(name) or _COMPLETE.fullmatch(name)
    return bool(is_staged) and not is_locked(os.path.join(directory, name)) and not is_locked(directory)


def complete_new_directories(directory: str, disk: Disk) -> list[str]:
    """Moves into place what killed runs had written completely to a log directory, and removes all other staging
    folders. Returns a sentence for each. The caller holds the lock. Raises OSError.
    """
    messages = []
    if _complete(directory, disk):
        messages.append(f"{directory}: an interrupted run had written new partitions, which are in place now")
    if found := _folders(directory, _STAGED):
        _remove_dead(directory, found, disk)
        messages.append(f"{directory}: temporary folders of an interrupted command were removed")
    return messages


def _folders(place: str, pattern: re.Pattern[str]) -> list[str]:
    """Returns the names of directories that match, in order; files and links of such names are not kseg's."""
    names = sorted(filter(pattern.fullmatch, names_in(place)))
    return [name for name in names if is_directory(os.path.join(place, name))]


def _remove_dead(place: str, names: Iterable[str], disk: Disk) -> None:
    """Removes the staging folders of killed runs: those whose lock nobody holds."""
    for name in names:
        folder = os.path.join(place, name)
        with suppress(KsegError, FileNotFoundError):  # another run works there, or removes it
            if LOCK_NAME in (inside := names_in(folder)):
                with locked(folder):
                    disk.remove_tree(folder)
            elif inside:  # a removal was interrupted: the lock is the first file to come and to go
                disk.remove_tree(folder)
            else:
                try:
                    disk.remove_directory(folder)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise  # otherwise another run has just made it, and its lock file in it


def _complete(output: str, disk: Disk) -> bool:
    """Completes the interrupted moves of killed runs. Returns whether there was one."""
    found = _folders(output, _COMPLETE)
    for name in found:
        _move_out(os.path.join(output, name), output, disk)
    return bool(found)


def _move_out(complete: str, output: str, disk: Disk) -> None:
    for name in sorted(set(names_in(complete)) - {LOCK_NAME}):
        disk.rename(os.path.join(complete, name), os.path.join(output, name))
    disk.sync_directory(output)
    disk.remove_tree(complete)
