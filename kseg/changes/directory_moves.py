"""Renames partition directories inside a log directory; the journal records all renames before the first one.

A directory is identified by its inode, so that after a kill no rename is repeated or reverted twice.
"""

import os
import stat
from collections.abc import Iterable
from typing import Any, NamedTuple

from kseg.changes.disk import Disk
from kseg.changes.plan import is_plain_name
from kseg.errors import KsegError, PathError
from kseg.formats.suffixes import LOGS
from kseg.segment.files import parse_partition_name


class DirectoryMove(NamedTuple):
    """``name`` becomes ``target``. ``log_bytes``: size of all segments in it when it was moved."""

    name: str
    target: str
    inode: int
    log_bytes: int

    @classmethod
    def of(cls, row: Any) -> "DirectoryMove":
        """Parses a row of a journal. Raises ValueError for names that are no partition directories."""
        name, target, inode, log_bytes = row
        for each in (name, target):
            if not is_plain_name(each) or parse_partition_name(each) is None:
                raise ValueError(f"{each!r} is no name of a partition directory")
        return cls(name, target, int(inode), int(log_bytes))


def planned_move(root: str, name: str, target: str) -> DirectoryMove:
    """Raises PathError if ``name`` is no directory."""
    path = os.path.join(root, name)
    try:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            raise PathError(f"{path}: is no directory")
        return DirectoryMove(name, target, status.st_ino, _log_bytes(path))
    except OSError as error:
        raise PathError(f"{path}: {error.strerror}") from error


def carry_out(root: str, moves: Iterable[DirectoryMove], disk: Disk) -> None:
    """Renames the directories that are not renamed yet, in order. Raises OSError, PathError."""
    for move in moves:
        _rename(root, move.name, move.target, move.inode, disk)


def move_back(root: str, moves: Iterable[DirectoryMove], disk: Disk) -> None:
    """Reverts the renames, the last one first. Raises OSError, PathError."""
    for move in reversed(list(moves)):
        _rename(root, move.target, move.name, move.inode, disk)


def moved_now(root: str, moves: Iterable[DirectoryMove]) -> list[DirectoryMove]:
    """Returns the moves whose directories are at their targets. Raises OSError."""
    return [move for move in moves if _inode(os.path.join(root, move.target)) == move.inode]


def check_log_bytes(root: str, moves: Iterable[DirectoryMove]) -> None:
    """Raises KsegError if the segments of a moved directory have another total size now: a broker may have appended."""
    for move in moved_now(root, moves):
        path = os.path.join(root, move.target)
        if _log_bytes(path) != move.log_bytes:
            raise KsegError(f"{path}: its segments have changed since it was restored; nothing was undone")


def _rename(root: str, name: str, target: str, inode: int, disk: Disk) -> None:
    old, new = os.path.join(root, name), os.path.join(root, target)
    if _inode(old) != inode:
        return  # done already, or removed by a broker
    if os.path.lexists(new):
        raise PathError(f"{new}: already exists")
    disk.rename(old, new)
    disk.sync_directory(root)


def _inode(path: str) -> int | None:
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return None


def _log_bytes(path: str) -> int:
    with os.scandir(path) as entries:
        logs = [entry for entry in entries if entry.name.endswith(LOGS)]
        return sum(entry.stat(follow_symlinks=False).st_size for entry in logs)
