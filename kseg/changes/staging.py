"""A staging folder for new files while a plan is made. They are too large for memory, and a link moves them into place.

In a partition it is a folder of the quarantine with the name of a change that was never committed, so that
`complete_interrupted` removes it if this process does not. See `Plan.write` with a ``source``.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from kseg.changes import quarantine
from kseg.changes.disk import Disk
from kseg.errors import KsegError, StoppedHalfwayError, errors_at, text_of
from kseg.stores.no_follow import resolved

_NAME = f"0{quarantine.PREPARING}"


class Staging:
    """``folder``: for files that will replace some of ``directory``, or be created there."""

    def __init__(self, directory: str, folder: str, disk: Disk) -> None:
        self.directory, self.folder, self._disk = directory, folder, disk
        self._made = 0

    def make_folder(self) -> str:
        """Creates an empty folder in the staging folder. Raises KsegError."""
        self._made += 1
        path = os.path.join(self.folder, str(self._made))
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
def staging(directory: str, output: str | None = None, disk: Disk | None = None) -> Iterator[Staging]:
    """Creates a staging folder in the directory's quarantine, or in ``output``, and removes it when the block ends.

    The caller holds the lock of the log directory, or of ``output``. Raises KsegError if the folder cannot be created,
    StoppedHalfwayError if it cannot be removed.
    """
    disk, directory = disk or Disk(), os.path.abspath(directory)
    quarantine.check_folder(directory)
    inside = quarantine.folder_of(directory) if output is None else ""
    output = output and resolved(output)
    name = os.path.basename(directory)
    folder = os.path.join(inside, _NAME) if inside else os.path.join(str(output), f".kseg-{name}.staged")
    with errors_at(folder, KsegError, "; nothing was changed"):
        if inside and not os.path.lexists(inside):
            disk.make_directory(inside)
            disk.copy_owner(inside, directory, as_directory=True)
        disk.remove_tree(folder)
        disk.make_directory(folder)
        disk.copy_owner(folder, directory, as_directory=True)
    try:
        yield Staging(directory, folder, disk)
    except BaseException:
        with suppress(OSError):  # the first error is reported; the next `complete_interrupted` removes the folder
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
