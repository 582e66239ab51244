"""A place for new files while a plan is being made: they are too large for memory, and become part of the partition by
a link (`Plan.write` with a ``source``).

In a partition it is a folder of the quarantine that looks like that of a change which never began: `settle` removes it
if this process does not.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kseg.changes import quarantine
from kseg.changes.disk import Disk
from kseg.errors import KsegError, StoppedHalfwayError, text_of
from kseg.segment.no_follow import resolved

_NAME = f"0{quarantine.PREPARING}"


class Staging:
    """``folder`` for files that will replace some of ``directory``, or be created there."""

    def __init__(self, directory: str, folder: str, disk: Disk) -> None:
        self.directory, self.folder, self._disk = directory, folder, disk
        self._made = 0

    def make_folder(self) -> str:
        """A new, empty folder in it. Raises KsegError."""
        self._made += 1
        path = os.path.join(self.folder, str(self._made))
        try:
            self._disk.make_directory(path)
        except OSError as error:
            raise KsegError(f"{path}: {error.strerror}; nothing was changed") from error
        return path

    def adopt(self, path: str, model: str) -> None:
        """Gives a new file owner, mode and attributes of ``model``, a file of the directory. Raises KsegError."""
        try:
            self._disk.take_after(path, model)
            self._disk.copy_attributes(model, path)
        except OSError as error:
            raise KsegError(
                f"{model}: its owner cannot be given to new files: run kseg as the broker's user"
            ) from error

    def remove(self, folder: str) -> None:
        """Removes what `make_folder` made, now that its files are in place or not needed any more."""
        self._disk.remove_tree(folder)


@contextmanager
def staging(directory: str, output: str | None = None, disk: Disk | None = None) -> Iterator[Staging]:
    """A place that is gone afterwards: in the directory's quarantine, or in ``output``.

    Raises KsegError where it cannot be made, StoppedHalfwayError where it cannot be removed.

    The caller holds the lock of the log directory, or of ``output``.
    """
    disk, directory = disk or Disk(), os.path.abspath(directory)
    quarantine.check_folder(directory)
    inside = quarantine.folder_of(directory) if output is None else ""
    output = output and resolved(output)
    name = os.path.basename(directory)
    folder = os.path.join(inside, _NAME) if inside else os.path.join(str(output), f".kseg-{name}.staged")
    try:
        if inside and not os.path.lexists(inside):
            disk.make_directory(inside)
            disk.take_after(inside, directory, as_directory=True)
        if os.path.lexists(folder):
            disk.remove_tree(folder)
        disk.make_directory(folder)
        disk.take_after(folder, directory, as_directory=True)
    except OSError as error:
        raise KsegError(f"{folder}: {error.strerror}; nothing was changed") from error
    try:
        yield Staging(directory, folder, disk)
    except BaseException:
        with suppress(OSError):  # what ended the block is told; the next `settle` removes the folder
            _remove(folder, inside, disk)
        raise
    try:
        _remove(folder, inside, disk)
    except OSError as error:
        raise StoppedHalfwayError(
            f"{directory}: done, but temporary files cannot be removed: {text_of(error)}; repeat the command"
        ) from error


def _remove(folder: str, inside: str, disk: Disk) -> None:
    disk.remove_tree(folder)
    if inside and os.path.lexists(inside):
        quarantine.remove_if_empty(inside, disk)
