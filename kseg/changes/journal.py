"""One command's change of a log directory, and its journal: the file `.kseg-change-N.jsonl` in the root, ignored by
brokers.

It is one line of JSON, which is replaced whole: the root's files before the command; the partitions of each group that
was changed; renames of partition directories and the new contents of the root's files; the end.

The owner of the log directory can write such a file, too. Therefore a journal can only change the files in
`ROOT_FILES`, which get the owner of the directory and the mode of a plain file, and rename partition directories.
"""

import errno
import json
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kseg.changes import accepted_gaps, quarantine
from kseg.changes.apply import MARGIN_BYTES, Keeping, apply_all, free_bytes
from kseg.changes.disk import Disk
from kseg.changes.disk_space import JOURNAL_BYTES, FreeingSteps, freeing_steps, record_bytes, space_of
from kseg.changes.full_disk import apply_freeing, apply_without_record
from kseg.changes.manifest import ABANDONED, DONE, Author, Change
from kseg.changes.plan import CREATE, RENAME, REPLACE, Plan, is_plain_name
from kseg.changes.record_json import reader, written
from kseg.errors import KsegError, PathError, StoppedHalfwayError, errors_at, is_system_error, text_of
from kseg.formats.json_values import camel_case, fields_of
from kseg.formats.suffixes import LOGS
from kseg.limits import MAX_MANIFEST_BYTES, MAX_ROOT_FILE_BYTES
from kseg.quantities import named_path, plural, shell_line
from kseg.segment.files import CLEAN_SHUTDOWN, LOCK_NAME, OWN_PREFIX, directory_name, parse_partition_name
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS, offsets_of, read_offset_checkpoint
from kseg.sidefiles.problems import problems_of
from kseg.sidefiles.text_files import META_PROPERTIES
from kseg.stores.no_follow import read_file, read_own
from kseg.stores.place import Place

OPEN, UNDOING = "open", "undoing"
"""States of a journal beside DONE and ABANDONED."""
_NAME = re.compile(r"\.kseg-change-([1-9][0-9]{0,8})\.jsonl")
_VERSION = 2
_STORED = (
    "command", "time_ms", "keeps", "path_name", "author", "state", "root", "partitions", "moves", "restored", "undone",
    "known", "planned", "replaced", "left",
)  # fmt: skip
ROOT_FILES = (*OFFSET_CHECKPOINTS, CLEAN_SHUTDOWN, META_PROPERTIES)
"""Files of a log directory that commands change."""


@dataclass(frozen=True, slots=True)
class RootFile:
    """Content of a file in the root of a log directory. ``mode``: its permissions, limited to those of a plain file."""

    content: bytes
    mtime_ns: int
    mode: int


def read_root_file(directory: str, name: str) -> RootFile | None:
    """Returns the file, or None if it does not exist. Raises KsegError if it is not a regular file or is too large."""
    path = Place(directory) / name
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


@dataclass(slots=True)
class Journal:
    """The journal of one change.

    ``keeps``: removed bytes are kept, and so is the journal. ``known``: the root's files before the command, None if
    absent; ``planned``: their new contents; ``replaced``: contents that were planned before these and written;
    ``left``: the files at the end. ``root``: the `root_state` of the log directory before the first change.
    ``partitions``: names of the partitions that were changed, but for those of the last group if a kill came before
    they were noted; `partitions_now` has these, too. ``moves``: renames of partition directories, after these were
    changed, in order. ``restored``: files that an undo restores; ``undone``: partitions that were undone separately.
    ``path_name``: name of the partition that was given as PATH, "" for the log directory.
    """

    directory: str
    number: int
    command: str
    time_ms: int
    keeps: bool
    known: dict[str, RootFile | None]
    state: str = OPEN
    root: str = ""
    partitions: list[str] = field(default_factory=list)
    moves: list[DirectoryMove] = field(default_factory=list)
    planned: dict[str, bytes] = field(default_factory=dict)
    replaced: dict[str, list[bytes]] = field(default_factory=dict)
    left: dict[str, RootFile | None] = field(default_factory=dict)
    restored: list[str] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    path_name: str = ""
    author: Author | None = None

    @property
    def path(self) -> str:
        return Place(self.directory) / f".kseg-change-{self.number}.jsonl"

    @property
    def group(self) -> str:
        """The identifier of this change in the manifests of its partitions."""
        return f"{self.number}.{self.time_ms}"

    def changes_of(self, partition: str, kept_in: str = "") -> list[Change]:
        """Returns the changes of a partition that belong to this one, oldest first. ``kept_in``: as in
        `quarantine.changes`."""
        found = [change for change in quarantine.changes(partition, kept_in) if change.group == self.group]
        for change in found:
            change.name_before = self.name_before(partition)
        return found

    def name_before(self, partition: str) -> str:
        """Returns the name that a directory had before this change renamed it, "" if it did not."""
        return next((move.name for move in self.moves if move.target == os.path.basename(partition)), "")

    def note(self, disk: Disk, **changes: Any) -> None:
        """Writes the file with these fields changed. Raises OSError."""
        row = {"version": _VERSION} | fields_of(replace(self, **changes), *_STORED)
        replace_file(self.path, f"{written(row)}\n".encode(), disk)
        for name, value in changes.items():
            setattr(self, name, value)

    def plan(self, disk: Disk, contents: dict[str, bytes]) -> None:
        """Notes new contents of the root's files, in place of those that were planned before. Raises OSError."""
        replaced = {name: [*self.replaced.get(name, ()), content] for name, content in self.planned.items()}
        self.note(disk, planned=contents, replaced=self.replaced | replaced)

    def contents(self, name: str) -> list[bytes]:
        """Returns the contents that this change gives to a file of the root, and gave before."""
        return [*self.replaced.get(name, ()), *([self.planned[name]] if name in self.planned else [])]

    def remove(self, disk: Disk) -> None:
        """Raises OSError."""
        disk.unlink(self.path)
        disk.sync_directory(self.directory)


def replace_file(path: str, content: bytes, disk: Disk, like: RootFile | None = None) -> None:
    """Replaces a file of the root atomically and syncs it. Raises OSError.

    Owner and mode are those of the old file, or of the directory if there is none. ``like``: the file whose mode and
    modification time it gets instead.
    """
    model = path if Place(path).lexists() else Place(path).parent
    with disk.replacement(path) as temporary, disk.new_file(temporary) as descriptor:
        disk.write(descriptor, content)
        disk.copy_owner(temporary, model, descriptor=descriptor)
        if like is not None:
            disk.restore(descriptor, like.mode, like.mtime_ns)


def journals(directory: str) -> list[Journal]:
    """Returns the journals of a log directory, oldest first. Raises KsegError if one cannot be read."""
    with errors_at(directory, KsegError):
        names = os.listdir(directory)
    numbers = (int(found[1]) for found in map(_NAME.fullmatch, names) if found)
    return [_read(directory, number) for number in sorted(numbers)]


def _read(directory: str, number: int) -> Journal:
    path = Place(directory) / f".kseg-change-{number}.jsonl"
    if (data := read_own(path, MAX_MANIFEST_BYTES, directory)) is None:  # another process has ended that change
        raise KsegError(f"{path}: {os.strerror(errno.ENOENT)}")
    try:
        row = json.loads(data)
        if row["version"] != _VERSION:
            raise ValueError(row["version"])
        stored = {name: row[name] for name in map(camel_case, _STORED)}
        journal: Journal = reader(Journal)({**stored, "directory": directory, "number": number})
        _check(journal)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise KsegError(
            f"{path}: is no journal that this release of kseg understands ({error!r}); nothing was changed: move it "
            "away to go on"
        ) from error
    return journal


def _check(journal: Journal) -> None:
    """Raises ValueError for files that no command changes, files too large, and names that are none of a partition."""
    if journal.state not in (OPEN, UNDOING, DONE, ABANDONED):
        raise ValueError(journal.state)
    for name in (*journal.known, *journal.planned, *journal.replaced, *journal.left, *journal.restored):
        if name not in ROOT_FILES:
            raise ValueError(f"{name!r} is no file of a log directory that commands change")
    if not journal.known.keys() >= {*journal.restored}:
        raise ValueError(journal.restored)
    for found in (*journal.known.values(), *journal.left.values()):
        if found is not None and len(found.content) > MAX_ROOT_FILE_BYTES:
            raise ValueError(len(found.content))
    moved = [name for move in journal.moves for name in (move.name, move.target)]
    for name in (*journal.partitions, *journal.undone, *moved, *[journal.path_name] * bool(journal.path_name)):
        if not is_plain_name(name) or (name in moved and parse_partition_name(name) is None):
            raise ValueError(f"{name!r} is no name of a partition directory")


def remove_marker(directory: str, disk: Disk) -> None:
    """Removes the clean shutdown marker `.kafka_cleanshutdown`: if it exists, a broker skips log recovery when it
    starts. Raises OSError.

    It is removed before the first byte of a .log changes, and restored if no byte was changed. Source: Kafka's
    CleanShutdownFileHandler and LogManager.
    """
    path = Place(directory) / CLEAN_SHUTDOWN
    if path.lexists():
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
    name = directory_name(directory)
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


# Renames partition directories inside a log directory; the journal records all renames before the first one.
#
# A directory is identified by its inode, so that after a kill no rename is repeated or reverted twice.


def _planned_move(root: str, name: str, target: str) -> DirectoryMove:
    """Raises PathError if ``name`` is no directory."""
    path = Place(root) / name
    with errors_at(path):
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            raise PathError(f"{path}: is no directory")
        return DirectoryMove(name, target, status.st_ino, _log_bytes(path))


def carry_out(root: str, moves: Sequence[DirectoryMove], disk: Disk, is_back: bool = False) -> None:
    """Renames the directories that are not renamed yet, in order; or reverts the renames, the last one first.

    Raises OSError, PathError.
    """
    for move in reversed(moves) if is_back else moves:
        names = (move.target, move.name) if is_back else (move.name, move.target)
        old, new = (Place(root) / name for name in names)
        if _inode(old) != move.inode:
            continue  # done already, or removed by a broker
        if new.lexists():
            raise PathError(f"{new}: already exists")
        disk.rename(old, new)
        disk.sync_directory(root)


def moved_now(root: str, moves: Iterable[DirectoryMove]) -> list[DirectoryMove]:
    """Returns the moves whose directories are at their targets. Raises OSError."""
    return [move for move in moves if _inode(Place(root) / move.target) == move.inode]


def check_log_bytes(root: str, moves: Iterable[DirectoryMove]) -> None:
    """Raises KsegError if the segments of a moved directory have another total size now: a broker may have appended."""
    for move in moved_now(root, moves):
        path = Place(root) / move.target
        if _log_bytes(path) != move.log_bytes:
            raise KsegError(f"{path}: its segments have changed since it was restored; nothing was undone")


def _inode(path: str) -> int | None:
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return None


def _log_bytes(path: str) -> int:
    with os.scandir(path) as entries:
        logs = [entry for entry in entries if entry.name.endswith(LOGS)]
        return sum(entry.stat(follow_symlinks=False).st_size for entry in logs)


# One command's change of a log directory: each partition is changed completely or not at all, then the root's files.
# A change of one partition is the smallest.
#
# 1. The journal is created. It records the root's files as the command found them.
# 2. If a .log will change, the clean shutdown marker is removed.
# 3. Partitions are changed one by one.
# 4. Partition directories are renamed, the root's other files (checkpoints) get their new contents, and the journal is
#    marked as done.
#
# After a kill at any point, the same command resumes from the journal: it sees the root's files as recorded, and the
# finished partitions. If a broker or another program has changed files meanwhile, the journal is abandoned and the
# command starts again.


def _is_refused_for_space(outcome: object) -> bool:
    """Whether nothing was changed because a file system or a quota is full."""
    if isinstance(outcome, StoppedHalfwayError):
        return False
    cause = outcome.__cause__ if isinstance(outcome, KsegError) else None
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def stopping_halfway(directory: str, then: str) -> Iterator[None]:
    """Turns the errors of the block into StoppedHalfwayError, whose text ends with ``then``."""
    try:
        yield
    except StoppedHalfwayError:
        raise
    except (OSError, KsegError) as error:
        raise StoppedHalfwayError(f"{directory}: stopped half-way: {text_of(error)}; {then}") from error


_MAX_TOGETHER_BYTES = 64 << 20
"""Largest disk space of plans that are applied together; a larger plan is applied alone."""


class LogDirectoryChange:
    """The change of a log directory. Nothing is written before the first plan with steps.

    ``known``: the root's files as the command's first run found them, None if absent; plans must be made from these.
    ``messages``: sentences about an interrupted run.
    """

    def __init__(
        self,
        directory: str,
        command: str,
        names: Iterable[str] = (),
        keeping: Keeping | None = None,
        disk: Disk | None = None,
        keeps_marker: bool = False,
        path_name: str = "",
        author: Author | None = None,
    ) -> None:
        """``names``: files of the root that the command uses, besides the marker. ``path_name``, ``author``: as in
        `Journal`.

        ``keeps_marker``: the marker stays, because no .log changes, and after a kill at any point every file is valid
        after a clean stop. Writes nothing. Raises KsegError. Before changing anything the caller takes the lock and
        calls `complete_interrupted_in_log_directory`.
        """
        self.directory = Place(directory).absolute
        self.command = command
        self.messages: list[str] = []
        self._keeping, self._disk = keeping or Keeping(), disk or Disk()
        self._changes_no_log = self._keeps_marker = keeps_marker
        self._path_name, self._author = path_name, author
        self._stale: Journal | None = None
        self._changes: list[Change] = []
        self._unrecorded: list[str] = []
        """Names of the partitions that were changed before there was a journal."""
        self._next: Journal | None = None
        """A journal that is not on the disk yet."""
        self._written: dict[str, bytes] = {}
        """The contents of root files that were written by this run."""
        self._journal = self._resumed()
        self._is_resumed = self._journal is not None
        self.known = dict(self._journal.known) if self._journal else {}
        self._restorable = {*names, CLEAN_SHUTDOWN}
        for name in sorted(self._restorable):
            if name not in self.known:
                self.known[name] = read_root_file(self.directory, name)

    def leave_root_files(self) -> None:
        """Leaves the root's files to others, except for the marker: an undo does not restore them."""
        self._restorable = {CLEAN_SHUTDOWN}

    @property
    def is_begun(self) -> bool:
        """Whether the change has started."""
        return self._journal is not None or bool(self._unrecorded)

    @property
    def done(self) -> list[str]:
        """Names of the partitions that an interrupted run with the same arguments has changed last."""
        words = self._author and self._author.arguments
        if self._journal is None or words is None:
            return []
        found = map(self._journal.changes_of, changed_partitions(self.directory))
        last = [changes[-1] for changes in found if changes]
        return [os.path.basename(each.directory) for each in last if each.author and each.author.arguments == words]

    def apply(self, plan: Plan) -> Change | None:
        """Applies the plan for a partition. Returns None if there is nothing to do.

        Raises KsegError if the partition was not changed, StoppedHalfwayError if it was changed partly.
        """
        [(_, found)] = self.apply_all([plan])
        if isinstance(found, KsegError):
            raise found
        return found

    def apply_all(self, plans: Iterable[Plan], at_once: int = 1) -> Iterator[tuple[Plan, Change | KsegError | None]]:
        """Applies plans, ``at_once`` at a time. Yields each plan in order, with the result or the error of `apply`.

        Each plan is for a different partition. The next plan is taken from the iterator when at most ``at_once`` plans
        before it are unfinished; with ``at_once`` 1, when all are finished.
        """
        together, needed, keeping = list[Plan](), 0, self._keeping
        for plan in plans:  # one that keeps bytes elsewhere, or needs much space, is applied alone
            more = _MAX_TOGETHER_BYTES + 1 if keeping.elsewhere else space_of(plan, keeps=keeping.keeps).peak
            if together and needed + more > min(_MAX_TOGETHER_BYTES, free_bytes(self.directory) // 2):
                yield from self._applied(together)
                together, needed = [], 0
            together.append(plan)
            needed += more
            if len(together) >= at_once:
                yield from self._applied(together)
                together, needed = [], 0
        yield from self._applied(together)

    def _applied(self, plans: list[Plan]) -> Iterator[tuple[Plan, Change | KsegError | None]]:
        """Applies plans together, and records them in the journal. Yields each with its result."""
        found: list[Change | KsegError] = []
        if len(plans) == 1 and (steps := self._freeing_steps(plans[0])) is not None:
            yield plans[0], self._freed(plans[0], steps)
            return
        if changing := [plan for plan in plans if plan]:
            try:
                journal = self._begin()
                found = apply_all(changing, self.command, self._keeping, self._disk, journal.group, author=self._author)
                self._record(journal, [change for change in found if isinstance(change, Change)])
            except KsegError as error:
                failed = error
                found = [each if isinstance(each, KsegError) else failed for each in found or [failed] * len(changing)]
        outcomes = iter(found)
        for plan in plans:
            outcome: Change | KsegError | None = next(outcomes) if plan else None
            if _is_refused_for_space(outcome) and (steps := self._freeing_steps(plan, is_full=True)) is not None:
                outcome = self._freed(plan, steps)
            yield plan, outcome

    def _freeing_steps(self, plan: Plan, is_full: bool = False) -> FreeingSteps | None:
        """Returns the steps of a plan if there is no room for its record, unless what it frees comes first.

        ``is_full``: the file system has refused to write, whatever it says of free space (quotas, reserves).
        """
        keeps = self._keeping.keeps
        if not plan or (keeps and not self._keeping.is_on_another_disk_than(plan.directory)):
            return None
        free = 0 if is_full else min(free_bytes(place) for place in (self.directory, plan.directory))
        if free >= space_of(plan, links=False, keeps=keeps).peak + record_bytes(plan) + JOURNAL_BYTES:
            return None
        with errors_at(plan.directory, KsegError, "; nothing was changed"):
            steps = freeing_steps(plan)
        if steps is None:
            return None
        return steps if (steps.recorded_room_bytes if keeps else steps.room_bytes) <= free else None

    def _freed(self, plan: Plan, steps: FreeingSteps) -> Change | KsegError | None:
        """Applies a plan without journal and manifest; if it keeps bytes on another file system, these come after it.
        Returns the change if it has a manifest, or the error."""
        name, keeping, change = os.path.basename(plan.directory), self._keeping, None
        try:
            if not self._keeps_marker:
                with errors_at(self.directory, KsegError, "; nothing was changed"):
                    remove_marker(self.directory, self._disk)
            if keeping.keeps:
                self._next = self._journal or self._next or self._new_journal()
                change = apply_freeing(plan, steps, self.command, keeping, self._disk, self._next.group, self._author)
            else:
                apply_without_record(plan, steps, self._disk)
        except KsegError as error:
            if isinstance(error, StoppedHalfwayError) and not keeping.keeps:
                self._unrecorded.append(name)
            return error
        self._unrecorded.append(name)
        if change is not None:
            with self._halfway():
                journal = self._begin()
            self._record(journal, [change])
        return change

    def _record(self, journal: Journal, changes: list[Change]) -> None:
        """Names the partitions of changes in the journal: an undo then tells whose kept bytes are gone."""
        self._changes += changes
        names = {os.path.basename(change.directory) for change in changes} | {*journal.partitions}
        if len(names) > len(journal.partitions):
            with self._halfway():
                journal.note(self._disk, partitions=sorted(names))

    @contextmanager
    def rolled_back_if_unchanged(self) -> Iterator[None]:
        """Re-raises an error or Ctrl-C from the block; if no partition was changed, the log directory is restored
        first.

        Raises StoppedHalfwayError if it cannot be restored, and for an error after something was changed.
        """
        try:
            yield
        except StoppedHalfwayError:
            raise
        except (KsegError, OSError, KeyboardInterrupt) as error:
            if self.is_begun and not self.has_changed:
                self.roll_back()
            elif self.is_begun and not isinstance(error, KeyboardInterrupt):
                text = f"{text_of(error)}; a part is done: repeat the command, or kseg undo"
                raise StoppedHalfwayError(text) from error
            raise

    @property
    def has_changed(self) -> bool:
        """Whether this command, or its interrupted run, has changed any file except the marker."""
        has_changed = bool(self._unrecorded or self._changes)
        return has_changed or (self._journal is not None and has_changed_anything(self._journal))

    def roll_back(self) -> None:
        """Cancels a change that has changed nothing yet, and restores the marker. Raises StoppedHalfwayError."""
        if self._journal is not None:
            journal, self._journal = self._journal, None
            with self._halfway():
                roll_back_journal(journal, self._disk)

    def finish(self, root: Plan | None = None, is_last: bool = True) -> None:
        """Renames directories and writes the root's files from the plan (steps with bytes as content), and ends the
        change.

        ``is_last``: false if a second call follows, after other log directories are written; then the change stays
        open. Raises StoppedHalfwayError if a system call fails.
        """
        contents = self._written = self._written | (root_contents(root) if root else {})
        self._keeps_marker |= not self.is_begun
        self._keeps_marker &= root is None or leaves_marker(root) or self._changes_no_log
        renames = [(step.file, step.target) for step in root.steps if step.action == RENAME] if root else []
        has_no_record = self._journal is None and bool(self._unrecorded) and not renames
        if contents and has_no_record and free_bytes(self.directory) < MARGIN_BYTES:
            with self._halfway():
                self._write_root_files(contents)
            return
        if contents or renames or self._journal:
            journal = self._begin()
            with self._halfway():
                if renames:
                    moves = [*journal.moves, *(_planned_move(self.directory, *names) for names in renames)]
                    journal.note(self._disk, moves=moves)
                    carry_out(self.directory, moves, self._disk)
                if contents != journal.planned:
                    journal.plan(self._disk, contents)
                self._write_root_files(contents)
                if not is_last:
                    return
                are_all = not (self._is_resumed or journal.moves)
                end_journal(journal, self._disk, changes=self._changes if are_all else None)

    def _write_root_files(self, contents: dict[str, bytes]) -> None:
        for name, content in sorted(contents.items()):
            found = read_root_file(self.directory, name)
            if found is None or found.content != content:
                replace_file(self.directory / name, content, self._disk)

    def _halfway(self) -> AbstractContextManager[None]:
        return stopping_halfway(self.directory, "repeat the command, or kseg undo")

    def _begin(self) -> Journal:
        """Returns the journal, after removing the marker. Raises KsegError if nothing was changed."""
        journal, disk = self._journal, self._disk
        if journal is None:
            if self._stale is not None:
                with self._halfway():
                    self._stale.note(disk, state=ABANDONED)
            journal = self._next or self._new_journal()
            try:
                journal.note(disk, root=root_state(self.directory, journal.known))
            except BaseException as error:
                with suppress(OSError):  # an empty journal is harmless: the next command removes it
                    if Place(journal.path).lexists():
                        journal.remove(disk)
                if is_system_error(error):
                    raise KsegError(f"{self.directory}: nothing was changed: {text_of(error)}") from error
                raise
            self._journal = journal
            if not self._keeps_marker:
                try:
                    remove_marker(self.directory, disk)
                except OSError as error:
                    self.roll_back()
                    raise KsegError(f"{self.directory}: nothing was changed: {text_of(error)}") from error
        elif not self._keeps_marker and (self.directory / CLEAN_SHUTDOWN).lexists():
            with self._halfway():  # the change began with meta.properties alone
                remove_marker(self.directory, disk)
        return journal

    def _new_journal(self) -> Journal:
        number = max((found.number for found in journals(self.directory)), default=0) + 1
        known = {name: found for name, found in self.known.items() if name in self._restorable}
        return Journal(
            self.directory, number, self.command, time.time_ns() // 1_000_000, self._keeping.keeps, known,
            path_name=self._path_name, author=self._author,
        )  # fmt: skip

    def _resumed(self) -> Journal | None:
        """Returns the journal of an interrupted run of this command, if the files still match it.

        Raises KsegError if another command was interrupted, or one that keeps bytes while this does not, or vice versa.
        """
        found = [journal for journal in journals(self.directory) if journal.state == OPEN]
        if not found:
            return None
        journal = found[-1]
        if journal.command.split()[:1] != self.command.split()[:1]:
            raise interruption(journal)
        if changed := _changed_since(journal, self._keeps_marker):
            self._stale = journal
            self.messages.append(
                f"{self.directory}: {journal.command!r} was interrupted, and {changed} has changed since: begun anew"
            )
            return None
        if journal.keeps and not self._keeping.keeps:
            raise interruption(journal, ", and keeps removed bytes", " without --no-quarantine")
        if self._keeping.keeps and not journal.keeps:
            was = f"{self.directory}: {journal.command!r} was interrupted here"
            raise KsegError(f"{was}, and keeps no removed bytes: repeat it with --no-quarantine")
        done = f"{plural(len(_changed_names(journal)), 'partition', 'partitions')} done"
        self.messages.append(f"{self.directory}: {journal.command!r} was interrupted with {done}: going on")
        return journal


def interruption(journal: Journal, why: str = "", how: str = "") -> KsegError:
    """Returns the error that leads from an interrupted command to its repetition or undo."""
    text = f"{journal.directory}: {journal.command!r} was interrupted here{why}: repeat it{how}, or undo it with"
    return KsegError.with_command(text, shell_line(["kseg", "undo", named_path(journal.directory)]))


def leaves_marker(plan: Plan) -> bool:
    """Whether a plan changes nothing that a broker reads otherwise after an unclean stop: at most meta.properties."""
    return all(step.file == META_PROPERTIES and step.action != RENAME for step in plan.steps)


def _changed_since(journal: Journal, keeps_marker: bool = False) -> str:
    """Returns the name of a file that another program changed after the journal was written; "" if none did."""
    for name, known in journal.known.items():
        now = read_root_file(journal.directory, name)
        if name == CLEAN_SHUTDOWN:
            # It may be there still if nothing else has changed, or meta.properties alone.
            may_stay = not journal.moves and journal.planned.keys() <= {META_PROPERTIES}
            if now is not None and (now != known or not (keeps_marker or (may_stay and not _changed_names(journal)))):
                return name
        else:
            if (now and now.content) not in (known and known.content, *journal.contents(name)):
                return name
    if not journal.planned and not journal.moves:
        if root_state(journal.directory, journal.known) != journal.root:
            return "the directory"
    return ""


def root_contents(root: Plan) -> dict[str, bytes]:
    """Returns the new contents of the root's files in a plan."""
    found = {}
    for step in root.steps:
        if step.file == CLEAN_SHUTDOWN or step.action == RENAME:
            continue  # the marker is removed in any case
        if step.action not in (CREATE, REPLACE) or not all(isinstance(piece, bytes) for piece in step.pieces):
            raise ValueError(f"{step.action} of {step.file}: files of a log directory can only be given new contents")
        found[step.file] = b"".join(piece for piece in step.pieces if isinstance(piece, bytes))
    return found


def partitions_now(journal: Journal) -> dict[str, str]:
    """Returns the present name of each partition directory that was changed, by its name when it was changed."""
    moved = {move.name: move.target for move in moved_now(journal.directory, journal.moves)}
    before = {target: name for name, target in moved.items()}
    names = {*journal.partitions, *(before.get(now, now) for now in _changed_names(journal))}
    return {name: moved.get(name, name) for name in names}


def _changed_names(journal: Journal) -> list[str]:
    """Returns the present names of these partitions."""
    return [os.path.basename(path) for path in partitions_of(journal)]


def partitions_of(journal: Journal) -> list[str]:
    """Returns the paths of the partitions that have a change of a journal, sorted by name."""
    return [path for path in changed_partitions(journal.directory) if journal.changes_of(path)]


def changed_partitions(directory: str) -> list[str]:
    """Returns the paths of the partitions in a log directory that hold files of kseg, sorted by name. Raises
    KsegError.
    """
    with errors_at(directory, KsegError), os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    root = Place(directory)
    return [
        root / name for name in names if any(os.path.lexists(f"{root}/{name}/{own}") for own in quarantine.OWN_NAMES)
    ]


def forget(journal: Journal, disk: Disk, changes: list[Change] | None = None) -> None:
    """Removes a finished journal and the bytes that its partitions kept. ``changes``: those of its partitions, if the
    caller knows them. Raises OSError.
    """
    if changes is None:
        changes = [change for path in changed_partitions(journal.directory) for change in journal.changes_of(path)]
    if changes:
        accepted_gaps.end(*changes, disk=disk)
    journal.remove(disk)


def end_journal(journal: Journal, disk: Disk, changes: list[Change] | None = None) -> None:
    """Marks a journal as done; one that keeps nothing is removed. ``changes``: as in `forget`. Raises OSError."""
    left = {name: read_root_file(journal.directory, name) for name in {*journal.known, *journal.planned}}
    known = partitions_now(journal) if changes is None else {os.path.basename(each.directory) for each in changes}
    journal.note(disk, left=left, partitions=sorted(known), state=DONE)
    if not journal.keeps:
        forget(journal, disk, changes=changes)


def has_changed_anything(journal: Journal) -> bool:
    """Whether any partition or root file was changed, or is about to be."""
    return bool(journal.moves or journal.planned or _changed_names(journal))


def roll_back_journal(journal: Journal, disk: Disk) -> None:
    """Removes the journal of a command that had changed nothing yet; at most the marker was removed.

    If this is interrupted, too, the marker may stay removed: then a broker recovers all logs, which is safe.
    """
    marker, path = journal.known.get(CLEAN_SHUTDOWN), Place(journal.directory) / CLEAN_SHUTDOWN
    if marker is not None and not path.lexists() and not _changed_since(journal):
        replace_file(path, marker.content, disk, marker)
    journal.remove(disk)
