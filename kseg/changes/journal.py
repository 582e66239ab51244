"""The journal of one command's change of a log directory: the file `.kseg-change-N.jsonl` in its root, ignored by
brokers; and the files in that root that commands change.

Each line is one record: the root's files before the command; the start; each finished partition; renames of partition
directories and the new contents of the root's files; the end. Lines are appended and synced; an incomplete last line is
ignored.

The owner of the log directory can write such a file, too. Therefore a journal can only change the files in
`ROOT_FILES`, which get the owner of the directory and the mode of a plain file, and rename partition directories.
"""

import json
import os
import re
import stat
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.changes.disk import Disk, is_temporary, open_to_read, open_to_write
from kseg.changes.lock import LOCK_NAME
from kseg.changes.plan import is_plain_name
from kseg.errors import KsegError, PathError, errors_at
from kseg.formats.suffixes import LOGS
from kseg.limits import MAX_MANIFEST_BYTES, MAX_ROOT_FILE_BYTES
from kseg.segment.files import CLEAN_SHUTDOWN, OWN_PREFIX, parse_partition_name
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS, offsets_of, read_offset_checkpoint
from kseg.sidefiles.problems import problems_of
from kseg.stores.no_follow import check_owner, names_in, read_file

# The clean shutdown marker `.kafka_cleanshutdown`: if it exists, a broker skips log recovery when it starts.
#
# It is removed before the first byte of a .log changes, and restored if no byte was changed. Source: Kafka's
# CleanShutdownFileHandler and LogManager.


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
    with errors_at(path, KsegError), suppress(FileNotFoundError):
        content, status = read_file(path, MAX_ROOT_FILE_BYTES)
        return RootFile(content, status.st_mtime_ns, status.st_mode & 0o666)
    return None


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


@dataclass(slots=True)
class Journal:
    """The journal of one change.

    ``keeps``: removed bytes are kept, and so is the journal. ``known``: the root's files before the command, None if
    absent; ``planned``: their new contents; ``left``: the files at the end. ``partitions``: names of the finished
    partitions, in order; ``moves``: renames of partition directories, after these were changed, in order. ``begun_ns``:
    modification time of the log directory before the first partition changed, None until then; ``root``: its
    `root_state` at that moment, "" in journals of older versions. ``restored``: files that an undo restores;
    ``undone``: partitions that were undone separately. ``path_name``: name of the partition that was given as PATH, ""
    for the log directory. ``size``: bytes of the complete lines.
    """

    directory: str
    number: int
    command: str
    time_ms: int
    keeps: bool
    known: dict[str, RootFile | None]
    state: str = OPEN
    begun_ns: int | None = None
    root: str = ""
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
        self.append_all([row], disk)

    def append_all(self, rows: Sequence[dict[str, Any]], disk: Disk) -> None:
        """Appends lines and updates the fields from them. Raises OSError."""
        lines = b"".join(map(_line, rows))
        descriptor = open_to_write(self.path)
        try:
            if disk.has_second_link(descriptor):
                replace_file(self.path, os.pread(descriptor, self.size, 0) + lines, disk)
            else:
                if os.fstat(descriptor).st_size > self.size:
                    disk.truncate(descriptor, self.size)  # half a line
                os.lseek(descriptor, 0, os.SEEK_END)
                disk.write(descriptor, lines)
                disk.sync(descriptor)
        finally:
            os.close(descriptor)
        self.size += len(lines)
        for row in rows:
            self.update(row)

    def update(self, row: dict[str, Any]) -> None:
        """Updates the fields from a line. Raises ValueError for an invalid line."""
        if "begunNs" in row:
            self.begun_ns, self.root = int(row["begunNs"]), str(row.get("root", ""))
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
    with disk.replacement(path) as temporary, disk.new_file(temporary) as descriptor:
        disk.write(descriptor, content)
        disk.copy_owner(temporary, model, descriptor=descriptor)
        if like is not None:
            disk.restore(descriptor, like.mode, like.mtime_ns)


def remove_temporary_files(directory: str, disk: Disk) -> None:
    """Removes the files that an interrupted `replace_file` left. Raises OSError."""
    for name in names_in(directory):
        if is_temporary(name):
            disk.unlink(os.path.join(directory, name))


def journals(directory: str) -> list[Journal]:
    """Returns the journals of a log directory, oldest first. Raises KsegError if one cannot be read."""
    with errors_at(directory, KsegError):
        names = os.listdir(directory)
    numbers = (int(found[1]) for found in map(_NAME.fullmatch, names) if found)
    return [_read(directory, number) for number in sorted(numbers)]


def _read(directory: str, number: int) -> Journal:
    path = os.path.join(directory, f".kseg-change-{number}.jsonl")
    with errors_at(path, KsegError):
        data, status = read_file(path, MAX_MANIFEST_BYTES)
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


def remove_marker(directory: str, disk: Disk) -> None:
    """Removes the marker, so that a broker recovers all logs when it starts. Raises OSError."""
    path = os.path.join(directory, CLEAN_SHUTDOWN)
    if os.path.lexists(path):
        disk.unlink(path)
    disk.sync_directory(directory)  # a killed process may have removed it without a sync


def root_state(directory: str, without: Collection[str], moves: Iterable[DirectoryMove] = ()) -> str:
    """Returns a digest of a log directory's names, and of sizes and times of its files, without the lock, kseg's own
    files and the files ``without``. A broker that runs there changes it.

    ``moves``: renames of partition directories, whose old names count.
    """
    found, old_names = [], {move.target: move.name for move in moves}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name not in (*without, LOCK_NAME) and not entry.name.startswith(OWN_PREFIX):
                name, status = os.fsencode(old_names.get(entry.name, entry.name)), tuple[int, ...]()
                if entry.is_file(follow_symlinks=False):
                    status = (entry.stat().st_size, entry.stat().st_mtime_ns)
                found.append((name, *status))
    from hashlib import sha256  # OpenSSL's: commands that only look for journals do without

    return sha256(repr(sorted(found)).encode()).hexdigest()


# Reads the files in the root of a log directory, as they are before a command's first change.

Known = Mapping[str, RootFile | None]
"""Files by name, the clean shutdown marker among them; None for no file."""

TopicPartition = tuple[str, int]


def known_root_files(root: str, names: Iterable[str]) -> Known:
    """Reads the files and the marker. Raises KsegError if one cannot be read."""
    return {name: read_root_file(root, name) for name in {CLEAN_SHUTDOWN, *names}}


def topic_partition_of(directory: str) -> TopicPartition | None:
    """Returns topic and partition number; None for a directory that a broker has renamed (-delete, -future, -stray).

    Checkpoints have no entries for such a directory.
    """
    name = os.path.basename(os.path.abspath(directory))
    found = parse_partition_name(name)
    return found if found is not None and name == f"{found[0]}-{found[1]}" else None


def checkpoint_entries(directory: str, name: str, known: Known) -> dict[TopicPartition, int]:
    """Returns the offsets in a checkpoint file, none if there is no file. Raises KsegError if it cannot be read."""
    file = known.get(name)
    items = list(read_offset_checkpoint(file.content if file else b""))
    if problems := problems_of(items):
        raise KsegError(
            f"{os.path.join(directory, name)}: {problems[0].message}: a broker stops at it; kseg recover makes it anew"
        )
    return offsets_of(items)


def checkpoint_offset(directory: str, name: str, known: Known, partition: TopicPartition) -> int | None:
    """Returns the offset of a partition in a checkpoint file. Raises KsegError if the file cannot be read."""
    return checkpoint_entries(directory, name, known).get(partition)


# Renames partition directories inside a log directory; the journal records all renames before the first one.
#
# A directory is identified by its inode, so that after a kill no rename is repeated or reverted twice.


def planned_move(root: str, name: str, target: str) -> DirectoryMove:
    """Raises PathError if ``name`` is no directory."""
    path = os.path.join(root, name)
    with errors_at(path):
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            raise PathError(f"{path}: is no directory")
        return DirectoryMove(name, target, status.st_ino, _log_bytes(path))


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
