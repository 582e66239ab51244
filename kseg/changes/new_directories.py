"""Creates directories completely or not at all: their contents are written to a staging folder, which is then renamed.

If the output does not exist, the staging folder is renamed to it. If it exists, the staging folder is first renamed to
mark it as complete, then its contents are moved out. The next run completes an interrupted move.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from kseg.changes.disk import Disk
from kseg.changes.lock import LOCK_NAME, locked
from kseg.errors import KsegError, PathError, StoppedHalfwayError, UnsupportedError, text_of
from kseg.stores import trees
from kseg.stores.no_follow import is_directory, names_in, open_file, resolved, status_of
from kseg.stores.stored_object import is_url, shown

_STAGED, _COMPLETE = ".kseg-output.new", ".kseg-output.complete"


class NewDirectories:
    """Directories that appear in ``output`` all together or not at all: see `new_directories`.

    ``folder``: the staging folder. Files that are written beside the directories in it appear with them.
    """

    def __init__(self, output: str, folder: str, disk: Disk) -> None:
        self.folder = folder
        self._output, self._disk = output, disk
        self._models: dict[str, str] = {}

    def add(self, name: str, is_dry: bool = False, model: str = "") -> str:
        """Returns the path of an empty folder that becomes ``output/name``. Raises PathError if the name is taken.

        ``model``: a directory, whose owner and mode the folder gets; or a file: the folder gets those of its directory,
        and at `finish` the files in the folder get those of the file. "" for the defaults of this user.
        """
        target, staged = os.path.join(self._output, name), os.path.join(self.folder, name)
        if name in self._models:
            raise PathError(f"{target}: two inputs would become it; nothing was written")
        if trees.lexists(target):
            raise PathError(f"{target}: already exists; nothing was written")
        self._models[name] = model
        if not is_dry:
            self._disk.make_directory(staged)
            place = model if not model or trees.isdir(model) else os.path.dirname(os.path.abspath(model))
            if place:
                self._disk.copy_owner_if_allowed(staged, place, as_directory=True)
        return staged

    def finish(self) -> None:
        """Sets owner and mode of files, as `add` describes, and moves everything into place."""
        for name, model in self._models.items():
            staged = os.path.join(self.folder, name)
            for file in names_in(staged):
                path = os.path.join(staged, file)
                if stat.S_ISREG(status_of(path).st_mode) and not trees.isdir(model):
                    self._give_mode(path, model)
            self._disk.sync_directory(staged)
        self._disk.sync_directory(self.folder)
        if os.path.basename(self.folder) == _STAGED:
            complete = os.path.join(self._output, _COMPLETE)
            self._disk.rename(self.folder, complete)
            try:
                self._disk.sync_directory(self._output)
                _move_out(complete, self._output, self._disk)
            except OSError as error:
                raise StoppedHalfwayError(f"{self._output}: {text_of(error)}; repeat the command to go on") from error
        else:
            self._disk.rename(self.folder, self._output)
            self._disk.sync_directory(os.path.dirname(self._output))

    def _give_mode(self, path: str, model: str) -> None:
        if model:
            self._disk.copy_owner_if_allowed(path, model)
            return
        descriptor = open_file(path)
        try:
            self._disk.set_default_mode(descriptor)
        finally:
            os.close(descriptor)


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
    is_there = trees.isdir(output)
    folder = os.path.join(output, _STAGED)
    if not is_there:
        folder = os.path.join(os.path.dirname(output), f".kseg-{os.path.basename(output)}.new")
    try:
        if not is_there:
            _make_output(output, folder, model, disk)
        with locked(output if is_there else folder, takes_lock):
            if is_there:
                _complete(output, disk)
                _clear(folder, disk)
                disk.make_directory(folder)
            made = NewDirectories(output, folder, disk)
            try:
                yield made
                made.finish()
            except BaseException:
                _clear(folder, disk)
                raise
    except OSError as error:
        if isinstance(error, BrokenPipeError | InterruptedError):
            raise
        raise KsegError(f"{output}: nothing was written: {text_of(error)}") from error


def _make_output(output: str, folder: str, model: str, disk: Disk) -> None:
    """Creates the staging folder that becomes the output, or empties the one of a killed run, except for its lock."""
    if trees.lexists(output):
        raise PathError(f"{output}: is no directory")
    try:
        if not is_directory(folder):
            disk.make_directory(folder)
    except OSError as error:
        raise PathError(f"{output}: {error.strerror}") from error
    if model:
        disk.copy_owner_if_allowed(folder, model, as_directory=True)
    with locked(folder):
        for name in names_in(folder):
            if name != LOCK_NAME:
                _clear(os.path.join(folder, name), disk)


def _clear(path: str, disk: Disk) -> None:
    if is_directory(path):
        disk.remove_tree(path)
    elif trees.lexists(path):
        disk.unlink(path)


def _complete(output: str, disk: Disk) -> None:
    """Completes the interrupted move of a killed run. Raises KsegError afterwards."""
    complete = os.path.join(output, _COMPLETE)
    if trees.lexists(complete):
        _move_out(complete, output, disk)
        raise KsegError(
            f"{output}: an interrupted run had written all of its output, which is in place now; nothing else was "
            "written"
        )


def _move_out(complete: str, output: str, disk: Disk) -> None:
    for name in sorted(names_in(complete)):
        disk.rename(os.path.join(complete, name), os.path.join(output, name))
    disk.sync_directory(output)
    disk.remove_directory(complete)
