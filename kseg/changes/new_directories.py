"""Directories that appear whole or not at all: what is to be in them is written beside, and renamed at the end."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kseg.changes.disk import Disk
from kseg.changes.lock import locked
from kseg.errors import KsegError, PathError


class NewDirectories:
    """Directories that appear in ``output``, all of them or none: see `new_directories`."""

    def __init__(self, output: str, disk: Disk) -> None:
        self._output, self._disk = output, disk
        self._staged: dict[str, str] = {}

    def add(self, name: str, is_dry: bool = False) -> str:
        """Path of an empty folder that becomes ``output/name``. Raises PathError where something has that name."""
        target, staged = os.path.join(self._output, name), os.path.join(self._output, f".kseg-{name}.new")
        if os.path.lexists(target) or name in self._staged:
            raise PathError(f"{target}: is there already; nothing was written")
        self._staged[name] = staged
        if not is_dry:
            if os.path.lexists(staged):
                self._disk.remove_tree(staged)  # of a run that was killed: the lock says that nobody is at work on it
            self._disk.make_directory(staged)
        return staged

    def finish(self) -> None:
        """Gives all of them their names."""
        for staged in self._staged.values():
            self._disk.sync_directory(staged)
        for name, staged in self._staged.items():
            self._disk.rename(staged, os.path.join(self._output, name))
        self._disk.sync_directory(self._output)

    def drop(self) -> None:
        for staged in self._staged.values():
            if os.path.isdir(staged):
                self._disk.remove_tree(staged)


@contextmanager
def new_directories(output: str, takes_lock: bool, is_dry: bool = False) -> Iterator[NewDirectories]:
    """Makes ``output`` if need be, and holds its lock. Where the block ends with an error nothing is left behind.

    With ``is_dry`` nothing is made at all. Raises KsegError where it cannot be written to.
    """
    disk = Disk()
    made = NewDirectories(output, disk)
    if is_dry:
        yield made
        return
    is_new = not os.path.isdir(output)
    try:
        if is_new:
            disk.make_directory(output)
    except OSError as error:
        raise PathError(f"{output}: {error.strerror}") from error
    try:
        with locked(output, takes_lock):
            try:
                yield made
                made.finish()
            except BaseException:
                made.drop()
                raise
    except BaseException as error:
        if is_new:
            with suppress(OSError):
                disk.unlink(os.path.join(output, ".lock"))
            with suppress(OSError):  # not ours alone any more
                disk.remove_directory(output)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError | InterruptedError):
            raise KsegError(f"{output}: nothing was written: {error.strerror or error}") from error
        raise
