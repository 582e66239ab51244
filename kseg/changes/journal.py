"""The journal of one command's change of a log directory: the file `.kseg-change-N.jsonl` in its root, ignored by
brokers.

Each line is one record: the root's files before the command; the start; each finished partition; renames of partition
directories and the new contents of the root's files; the end. Lines are appended and synced; an incomplete last line is
ignored.

The owner of the log directory can write such a file, too. Therefore a journal can only change the files in
`ROOT_FILES`, which get the owner of the directory and the mode of a plain file, and rename partition directories.
"""

import json
import os
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any

from kseg.changes.directory_moves import DirectoryMove
from kseg.changes.disk import Disk, is_temporary, open_to_read, open_to_write
from kseg.changes.plan import is_plain_name
from kseg.errors import KsegError
from kseg.limits import MAX_MANIFEST_BYTES, MAX_ROOT_FILE_BYTES
from kseg.segment.files import CLEAN_SHUTDOWN
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS
from kseg.stores.no_follow import check_owner, names_in, read_file

OPEN, DONE, ABANDONED, UNDOING = "open", "done", "abandoned", "undoing"
_NAME = re.compile(r"\.kseg-change-([1-9][0-9]{0,8})\.jsonl")
_VERSION = 1
ROOT_FILES = (*OFFSET_CHECKPOINTS, CLEAN_SHUTDOWN)
"""Files of a log directory that commands change."""


@dataclass(frozen=True, slots=True)
class RootFile:
    """Content of a file in the root of a log directory. ``mode``: its permissions, limited to those of a plain file."""

    content: bytes
    mtime_ns: int
    mode: int

    def row(self) -> dict[str, Any]:
        return {"content": b64encode(self.content).decode(), "mtimeNs": self.mtime_ns, "mode": self.mode}

    @classmethod
    def of(cls, row: Any) -> "RootFile | None":
        if row is None:
            return None
        content = b64decode(row["content"])
        if len(content) > MAX_ROOT_FILE_BYTES:
            raise ValueError(len(content))
        return cls(content, int(row["mtimeNs"]), int(row["mode"]) & 0o666)


def read_root_file(directory: str, name: str) -> RootFile | None:
    """Returns the file, or None if it does not exist. Raises KsegError if it is not a regular file or is too large."""
    path = os.path.join(directory, name)
    try:
        content, status = read_file(path, MAX_ROOT_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KsegError(f"{path}: {error.strerror}") from error
    return RootFile(content, status.st_mtime_ns, status.st_mode & 0o666)


@dataclass(slots=True)
class Journal:
    """The journal of one change.

    ``keeps``: removed bytes are kept, and so is the journal. ``known``: the root's files before the command, None if
    absent; ``planned``: their new contents; ``left``: the files at the end. ``partitions``: names of the finished
    partitions, in order; ``moves``: renames of partition directories, after these were changed, in order. ``begun_ns``:
    modification time of the log directory before the first partition changed, None until then. ``restored``: files that
    an undo restores; ``undone``: partitions that were undone separately. ``path_name``: name of the partition that was
    given as PATH, "" for the log directory. ``size``: bytes of the complete lines.
    """

    directory: str
    number: int
    command: str
    time_ms: int
    keeps: bool
    known: dict[str, RootFile | None]
    state: str = OPEN
    begun_ns: int | None = None
    partitions: list[str] = field(default_factory=list)
    moves: list[DirectoryMove] = field(default_factory=list)
    planned: dict[str, bytes] = field(default_factory=dict)
    left: dict[str, RootFile | None] = field(default_factory=dict)
    restored: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    path_name: str = ""
    size: int = 0

    @property
    def path(self) -> str:
        return os.path.join(self.directory, f".kseg-change-{self.number}.jsonl")

    @property
    def group(self) -> str:
        """The identifier of this change in the manifests of its partitions."""
        return f"{self.number}.{self.time_ms}"

    def create(self, disk: Disk) -> None:
        """Writes the file with its first line. Raises OSError."""
        row = {
            "version": _VERSION,
            "command": self.command,
            "timeMs": self.time_ms,
            "keeps": self.keeps,
            "path": self.path_name,
            "known": {name: found.row() if found else None for name, found in self.known.items()},
        }
        line = _line(row)
        replace_file(self.path, line, disk)
        self.size = len(line)

    def append(self, row: dict[str, Any], disk: Disk) -> None:
        """Appends a line and updates the fields from it. Raises OSError."""
        line = _line(row)
        descriptor = open_to_write(self.path)
        try:
            if disk.has_second_link(descriptor):
                replace_file(self.path, os.pread(descriptor, self.size, 0) + line, disk)
            else:
                if os.fstat(descriptor).st_size > self.size:
                    disk.truncate(descriptor, self.size)  # half a line
                os.lseek(descriptor, 0, os.SEEK_END)
                disk.write(descriptor, line)
                disk.sync(descriptor)
        finally:
            os.close(descriptor)
        self.size += len(line)
        self.update(row)

    def update(self, row: dict[str, Any]) -> None:
        """Updates the fields from a line. Raises ValueError for an invalid line."""
        if "begunNs" in row:
            self.begun_ns = int(row["begunNs"])
        if "partition" in row and row["partition"] not in self.partitions:
            self.partitions.append(_plain(row["partition"]))
        if "undone" in row:
            self.undone.append(_plain(row["undone"]))
        if "moves" in row:
            self.moves = [DirectoryMove.of(found) for found in row["moves"]]
        if "planned" in row:
            self.planned = {_root_file(name): b64decode(content) for name, content in row["planned"].items()}
        if "left" in row:
            self.left = {_root_file(name): RootFile.of(found) for name, found in row["left"].items()}
        if "restored" in row:
            self.restored = [_root_file(name) for name in row["restored"]]
            if not self.known.keys() >= set(self.restored):
                raise ValueError(row["restored"])
        if "state" in row:
            if row["state"] not in (DONE, ABANDONED, UNDOING):
                raise ValueError(row["state"])
            self.state = row["state"]

    def sync(self, disk: Disk) -> None:
        """Syncs the file: a killed process may have written its last line without a sync. Raises OSError."""
        descriptor = open_to_read(self.path)
        try:
            disk.sync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, disk: Disk) -> None:
        """Raises OSError."""
        disk.unlink(self.path)
        disk.sync_directory(self.directory)


def replace_file(path: str, content: bytes, disk: Disk, like: RootFile | None = None) -> None:
    """Replaces a file of the root atomically and syncs it. Raises OSError.

    Owner and mode are those of the old file, or of the directory if there is none. ``like``: the file whose mode and
    modification time it gets instead.
    """
    model = path if os.path.lexists(path) else os.path.dirname(path)
    with disk.replacement(path) as temporary:
        descriptor = disk.create(temporary)
        try:
            disk.write(descriptor, content)
            disk.copy_owner(temporary, model, descriptor=descriptor)
            if like is not None:
                disk.restore(descriptor, like.mode, like.mtime_ns)
            disk.sync(descriptor)
        finally:
            os.close(descriptor)


def remove_temporary_files(directory: str, disk: Disk) -> None:
    """Removes the files that an interrupted `replace_file` left. Raises OSError."""
    for name in names_in(directory):
        if is_temporary(name):
            disk.unlink(os.path.join(directory, name))


def journals(directory: str) -> list[Journal]:
    """Returns the journals of a log directory, oldest first. Raises KsegError if one cannot be read."""
    try:
        names = os.listdir(directory)
    except OSError as error:
        raise KsegError(f"{directory}: {error.strerror}") from error
    numbers = (int(found[1]) for found in map(_NAME.fullmatch, names) if found)
    return [_read(directory, number) for number in sorted(numbers)]


def _read(directory: str, number: int) -> Journal:
    path = os.path.join(directory, f".kseg-change-{number}.jsonl")
    try:
        data, status = read_file(path, MAX_MANIFEST_BYTES)
    except OSError as error:
        raise KsegError(f"{path}: {error.strerror}") from error
    check_owner(path, status, directory)
    whole = data[: data.rfind(b"\n") + 1]
    try:
        first, *rows = [json.loads(line) for line in whole.splitlines()]
        if first["version"] != _VERSION:
            raise ValueError(first["version"])
        known = {_root_file(name): RootFile.of(found) for name, found in first["known"].items()}
        journal = Journal(
            directory, number, str(first["command"]), int(first["timeMs"]), bool(first["keeps"]), known,
            path_name=_plain(first["path"]) if first.get("path") else "", size=len(whole),
        )  # fmt: skip
        for row in rows:
            journal.update(row)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise KsegError(
            f"{path}: is no journal that this release of kseg understands ({error!r}); nothing was changed: move it "
            "away to go on"
        ) from error
    return journal


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _root_file(name: object) -> str:
    if name not in ROOT_FILES:
        raise ValueError(f"{name!r} is no file of a log directory that commands change")
    return str(name)


def _plain(name: object) -> str:
    if not is_plain_name(name):
        raise ValueError(name)
    return str(name)
