"""Replaces a file at once: a temporary file beside it is written and synced, then renamed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kseg.changes.disk import Disk

_PREFIX = ".kseg-new-"


def is_temporary(name: str) -> bool:
    """Whether a file of this name was left by an interrupted `replacement`."""
    return name.startswith(_PREFIX)


@contextmanager
def replacement(path: str, disk: Disk) -> Iterator[str]:
    """Yields the path of a temporary file, which the block must create and sync; it then becomes the file ``path``.

    The rename is synced, too. Raises OSError.
    """
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, _PREFIX + name.lstrip("."))
    if os.path.lexists(temporary):
        disk.unlink(temporary)
    yield temporary
    disk.rename(temporary, path)
    disk.sync_directory(directory)
