"""One change of a partition and its manifest: the steps, the ranges that they remove and where those are kept, and the
states that files may have meanwhile.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import kseg
from kseg.changes import plan
from kseg.changes.disk import Disk, opened, stored_end
from kseg.changes.plan import FileState, Step, file_state, is_plain_name
from kseg.changes.record_json import reader, written
from kseg.errors import KsegError
from kseg.formats.json_values import camel_case, fields_of
from kseg.formats.suffixes import LOGS
from kseg.limits import MAX_MANIFEST_BYTES
from kseg.segment.files import LOCK_NAME, LOG_DIRECTORY_FILES, MAX_NAME_BYTES, OWN_PREFIX
from kseg.stores.no_follow import open_file, read_own
from kseg.stores.place import Place

# The states that each file may have before, during and after a change; any other was made by another program.
#
# After a power cut any subset of the steps may have reached the disk, so each name is checked by itself.


MANIFEST = "manifest.json"
PREPARED, COMMITTED, DONE, ABANDONED = "prepared", "committed", "done", "abandoned"
STATES = (PREPARED, COMMITTED, DONE, ABANDONED)
KEPT = "old"
_NEVER_CHANGED = LOG_DIRECTORY_FILES | {LOCK_NAME}
_VERSION = 2
_STORED = ("state", "command", "time_ms", "group", "undoes", "gaps", "after")
_STORED_SINCE = ("author", "purges", "hashes")
"""What manifests of the first releases lack."""
_STORED_STEP = ("action", "file", "reason", "size", "before", "target", "origin", "made_by", "keeps", "mtime_ns")


class Stored(NamedTuple):
    """A kept file: its size, the size without trailing zeros, and the SHA-256 of the bytes before them.

    The trailing zeros of a preallocated index are a hole, which is not read. Of a file that a step rewrites from a
    delta (`kseg.changes.content`), both sizes are the number of the kept bytes.
    """

    size: int
    data_size: int
    sha256: str


class FileHashes(NamedTuple):
    """Size and SHA-256 of a file before and after a change. A size is None if there is no such file; a hash also if the
    file is too large to be read once more, sparse or unreadable."""

    size_before: int | None = None
    sha256_before: str | None = None
    size_after: int | None = None
    sha256_after: str | None = None


@dataclass(frozen=True, slots=True)
class Author:
    """``arguments``: the words of the command line after ``kseg``, None for a change made from Python."""

    user: str
    host: str
    version: str
    arguments: tuple[str, ...] | None

    @classmethod
    def present(cls, arguments: tuple[str, ...] | None = None) -> "Author":
        """Returns the user of this process."""
        return cls(_user(), os.uname().nodename, kseg.__version__, arguments)


def _user() -> str:
    import pwd

    user = os.geteuid()
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


@dataclass(slots=True)
class Change:
    """A change of one partition.

    ``folder``: the directory of the change; ``kept``: the directory of the kept bytes ("" if nothing is kept);
    ``group``: the change of a log directory that this change belongs to ("" for none); ``undoes``: the number of the
    change that it undoes (0 for none); ``purges``: those of changes whose kept bytes it removes. ``made``: state of
    each new file, by step; ``after``: state of each name at the end, None for no file;
    ``digests``: digests of the ranges that each step removes; ``by_delta``: the kept bytes of each file rewritten from
    a delta; ``stored``: the other kept files. ``is_kept_path_given``: ``kept`` comes from the user. ``hashes``: by
    name, of a change that keeps bytes. ``name_before``: the directory's name when the change was made, if its journal
    says that it was renamed then.
    """

    number: int
    folder: str
    directory: str
    state: str
    command: str
    time_ms: int
    kept: str
    steps: list[Step]
    gaps: list[tuple[int, int]] = field(default_factory=list)
    group: str = ""
    undoes: int = 0
    author: Author | None = None
    digests: dict[int, list[str]] = field(default_factory=dict)
    made: dict[int, FileState] = field(default_factory=dict)
    after: dict[str, FileState | None] = field(default_factory=dict)
    by_delta: dict[int, Stored] = field(default_factory=dict)
    stored: dict[int, Stored] = field(default_factory=dict)
    is_kept_path_given: bool = False
    hashes: dict[str, FileHashes] = field(default_factory=dict)
    purges: list[int] = field(default_factory=list)
    name_before: str = ""

    def old(self, k: int) -> str:
        """Path of the bytes that step k removes."""
        return Place(self.kept) / str(k)

    def new(self, k: int) -> str:
        """Path of the staged content of step k."""
        return Place(self.folder) / "new" / str(k)

    def added(self, k: int) -> str:
        """Path of the new bytes that are staged for a file that step k rewrites from a delta."""
        return self.new(k) + ".added"

    def delta_path(self, k: int) -> str:
        """Path of the delta of step k."""
        return Place(self.folder) / f"recipe-{k}"

    def path(self, name: str) -> str:
        return Place(self.directory) / name

    def changed_inode(self, k: int) -> int | None:
        """Inode of the file that step k changes; None if it creates a file under a free name, or before staging."""
        step = self.steps[k]
        found = step.before if step.made_by is None else self.made.get(step.made_by)
        return found.inode if found else None

    @property
    def changes_a_log(self) -> bool:
        """Whether a segment changes, not only its indexes, so that brokers must not skip recovery."""
        return any(name.endswith(LOGS) for step in self.steps for name in (step.file, step.target))

    @property
    def is_kept_inside(self) -> bool:
        return bool(self.kept) and Place(self.kept).parent == self.folder

    @property
    def is_kept_path_trusted(self) -> bool:
        """Whether ``kept`` may be used. Whoever can write the manifest could name any directory in it."""
        directory = Place(self.directory).parent / self.name_before if self.name_before else self.directory
        name = kept_name(directory, self.number, self.time_ms)
        return self.is_kept_inside or self.is_kept_path_given or os.path.basename(self.kept) == name

    @property
    def kept_bytes(self) -> int:
        if not self.kept:
            return 0
        size = sum(found.size for found in self.by_delta.values())
        return size + sum(step.freed_bytes for k, step in enumerate(self.steps) if k not in self.by_delta)

    def results(self) -> tuple[object, ...]:
        """Returns what another process has found out about its copy of this change, for `take_results`."""
        before = [step.before for step in self.steps]
        return self.state, before, self.digests, self.made, self.by_delta, self.stored, self.after, self.hashes

    def take_results(self, results: tuple[Any, ...]) -> None:
        self.state, before, self.digests, self.made, self.by_delta, self.stored, self.after, self.hashes = results
        self.steps = [replace(s, before=b) if s.before != b else s for s, b in zip(self.steps, before, strict=True)]

    def move_to(self, folder: str) -> None:
        """Updates the paths after the folder was renamed."""
        if self.is_kept_inside:
            self.kept = Place(folder) / os.path.basename(self.kept)
        self.folder = folder


def write_change(change: Change, disk: Disk) -> None:
    """Writes the manifest atomically and syncs it. Raises OSError, KsegError for a manifest that would be too large."""
    stage_manifest(change, disk)
    publish_manifest(change, disk)


def stage_manifest(change: Change, disk: Disk) -> None:
    """Writes and syncs the manifest beside the present one. Raises as `write_change` does."""
    path = Place(change.folder) / MANIFEST
    if Place(path + ".tmp").lexists():
        disk.unlink(path + ".tmp")
    content = _text(change).encode()
    if len(content) > MAX_MANIFEST_BYTES // 2:  # the rest is for digests and results that are added later
        raise KsegError(f"{change.directory}: the change has too many steps to be noted down; do less at a time")
    disk.write_file(path + ".tmp", content, change.directory)


def publish_manifest(change: Change, disk: Disk) -> None:
    """Replaces the manifest by the staged one, which is synced. Raises OSError."""
    path = Place(change.folder) / MANIFEST
    disk.rename(path + ".tmp", path)
    disk.sync_directory(change.folder)


def _text(change: Change) -> str:
    """Returns JSON with one line for each item and each step. Indentation by `json` would take almost four times as
    long.
    """
    kept = os.path.relpath(change.kept, change.folder) if change.is_kept_inside else change.kept
    row = {"version": _VERSION, "kept": kept} | fields_of(change, *_STORED, *_STORED_SINCE)
    items, steps = [f"{written(name)}: {written(value)}" for name, value in row.items()], list[str]()
    for k, step in enumerate(change.steps):
        digests = (*change.digests.get(k, []), *[None] * len(step.removed))
        removed = [each.row() | {"sha256": sha256} for each, sha256 in zip(step.removed, digests, strict=False)]
        results = {name: found.get(k) for name, (_, found) in _results(change).items()}
        steps.append(written(fields_of(step, *_STORED_STEP) | results | {"removed": removed}))
    return "{\n" + ",\n".join([*items, '"steps": [\n' + ",\n".join(steps) + "\n]"]) + "\n}\n"


def _results(change: Change) -> dict[str, tuple[Any, dict[int, Any]]]:
    """Returns what is known of each step by now: its type and values, by name."""
    return {"made": (FileState, change.made), "remade": (Stored, change.by_delta), "stored": (Stored, change.stored)}


def read_manifest(directory: str, number: int, folder: str) -> Change | None:
    """Reads the change in a folder; None if it has no manifest. Raises KsegError if the manifest is not valid."""
    path = Place(folder) / MANIFEST
    if (content := read_own(path, MAX_MANIFEST_BYTES, directory)) is None:
        return None
    try:
        row = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise KsegError(f"{path}: cannot be read: {error}") from error
    try:
        return _change(directory, number, folder, row)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise KsegError(f"{path}: is no manifest that this release of kseg understands ({error!r})") from error


def _change(directory: str, number: int, folder: str, row: dict[str, Any]) -> Change:
    if row["version"] != _VERSION or row["state"] not in STATES:
        raise ValueError(row["version"], row["state"])
    kept, time_ms = Place(folder) / row["kept"] if row["kept"] else "", int(row["timeMs"])
    if kept and kept != Place(folder) / KEPT:
        name = rf".+\.{number}\.{time_ms}\.[0-9a-f]{{32}}"  # as `kept_name`, for any directory
        is_absolute = os.path.isabs(kept) and kept == os.path.normpath(kept)
        if not (is_absolute and re.fullmatch(name, os.path.basename(kept))):
            raise ValueError(kept)
    stored = {name: row[name] for name in map(camel_case, _STORED)}
    stored |= {name: row[name] for name in _STORED_SINCE if name in row}
    place: dict[str, Any] = {"number": number, "folder": folder, "directory": directory, "kept": kept, "steps": []}
    change: Change = reader(Change)(stored | place)
    for name in (*change.after, *change.hashes):
        _check_name(name)
    for k, item in enumerate(row["steps"]):
        fields = {name: item[name] for name in map(camel_case, _STORED_STEP)}
        change.steps.append(reader(Step)(fields | {"removed": item["removed"]}))
        change.digests[k] = [removed["sha256"] for removed in item["removed"]]
        for name, (kind, found) in _results(change).items():
            if item[name] is not None:
                found[k] = reader(kind)(item[name])
        _check(change, k)
    return change


def _check(change: Change, k: int) -> None:
    """Raises ValueError if step k is none that a plan can have, or lacks a result."""
    step = change.steps[k]
    for name in (step.file, *filter(None, (step.target, step.origin))):
        _check_name(name)
    if step.action not in plan.ACTIONS or (step.made_by is not None and not 0 <= step.made_by < k):
        raise ValueError(step.action, step.made_by)
    if k in change.by_delta and (step.action != plan.REPLACE or step.before is None or step.made_by is not None):
        raise ValueError(change.by_delta[k])
    needed = {step.made_by, k if step.makes else None} - {None}
    if change.state != PREPARED and not change.made.keys() >= needed:
        raise ValueError(needed)


def _check_name(name: str) -> None:
    """Raises ValueError for a name that no change of a partition uses: files of the log directory, its lock, kseg's own
    files.
    """
    if not is_plain_name(name) or name in _NEVER_CHANGED or name.startswith(OWN_PREFIX):
        raise ValueError(name)


class _File(NamedTuple):
    """The file under a name."""

    inode: int
    size: int


class ChangedSinceError(KsegError):
    """A file differs from the state in the plan, and from every state that the change can leave."""


class ExpectedStates:
    """The expected states of all files of a change. None means no file.

    ``initial``: the states in the plan; ``final``: inode and size after the last step.
    """

    def __init__(self, change: Change) -> None:
        self._change = change
        self.initial: dict[str, FileState | None] = {}
        self.final: dict[str, _File | None] = {}
        self._inodes: dict[str, set[int | None]] = {}
        self._sizes: dict[int, list[tuple[int, int]]] = {}
        self._times: dict[int, tuple[int, int]] = {}
        for k in range(len(change.steps)):
            self._follow(k)

    def _follow(self, k: int) -> None:
        step, made = self._change.steps[k], self._change.made.get(k)
        self._add_name(step.file, step.before if step.made_by is None else None)
        inode = self._change.changed_inode(k)
        file = None if inode is None or step.before is None else _File(inode, step.before.size)
        if step.makes:
            file = None if made is None else _File(made.inode, made.size)
            if made is not None:
                self._add_file(made)
        elif step.action == plan.DELETE:
            file = None
        elif step.action == plan.RENAME:
            self._add_name(step.target, None)
            self._set(step.target, file)
            file = None
        elif file is not None:  # cut or extended
            low, high = sorted((file.size, step.size))
            self._sizes[file.inode] += [(low, high)] if step.action == plan.EXTEND else [(step.size, step.size)]
            if step.action == plan.EXTEND:
                self._times.pop(file.inode, None)
            file = file._replace(size=step.size)
        self._set(step.file, file)

    def _add_name(self, name: str, found: FileState | None) -> None:
        if name not in self.initial:
            self.initial[name] = found
            self._set(name, _File(found.inode, found.size) if found else None)
            if found is not None:
                self._add_file(found)

    def _add_file(self, found: FileState) -> None:
        self._sizes.setdefault(found.inode, []).append((found.size, found.size))
        self._times[found.inode] = (found.size, found.mtime_ns)

    def _set(self, name: str, file: _File | None) -> None:
        self.final[name] = file
        self._inodes.setdefault(name, set()).add(file.inode if file else None)

    def _may_be(self, inode: int, now: FileState, with_time: bool = True) -> bool:
        """Whether the file has this size at some point, and the expected time if it is the one of a known time."""
        size, mtime_ns = self._times.get(inode, (-1, 0))
        is_of_time = not with_time or now.size != size or now.mtime_ns == mtime_ns
        return is_of_time and any(low <= now.size <= high for low, high in self._sizes[inode])

    def check_intermediate(self, is_new: bool = False) -> None:
        """Raises ChangedSinceError if a file is in a state that no step expects or leaves.

        ``is_new``: no step was applied, and all files were checked when they were read for the change. Then only logs
        are checked again: side files that a broker has written meanwhile can be rebuilt.
        """
        for name, inodes in self._inodes.items():
            if is_new and not name.endswith(LOGS):
                continue
            now = file_state(self._change.path(name))
            if (now and now.inode) not in inodes or (now and not self._may_be(now.inode, now)):
                raise self._changed(name)

    def _changed(self, name: str) -> ChangedSinceError:
        change = self._change
        return ChangedSinceError(f"{change.path(name)}: was changed by another program during {change.command!r}")

    def check_final(self, is_new: bool = False) -> dict[str, FileState | None]:
        """Returns the current state of each name. Raises ChangedSinceError if one differs from the final state.

        ``is_new``: this process has just given the new files their names, and knows their states.
        """
        after: dict[str, FileState | None] = {}
        named = {made.inode: made for k, made in self._change.made.items() if k not in self._change.by_delta}
        for name, file in self.final.items():
            if is_new and file is not None and file.inode in named and not name.endswith(LOGS):
                after[name] = named[file.inode]
                continue
            now = after[name] = file_state(self._change.path(name))
            if (None if now is None else _File(now.inode, now.size)) != file:
                raise self._changed(name)
        return after

    # Identifies the files of an interrupted change in a copy of its directory: all inodes differ from the manifest.
    #
    # Copies made with `cp -a`, rsync or snapshots preserve sizes and modification times. A kept file identifies its
    # original by the SHA-256, and files of equal content are told apart by their times; other files must have the
    # recorded size and modification time.

    def recognize(self) -> bool:
        """Whether every file is known to the change; the change then gets the new inodes. Raises OSError, PathError."""
        change, staged = self._change, _staged(self._change)
        if any(k not in change.by_delta and now[1:] != change.made[k][1:] for k, now in staged.items()):
            return False
        inodes_now = {change.made[k].inode: now.inode for k, now in staged.items()}
        moved = {k: change.steps[k].before for k in change.made.keys() - staged.keys()}
        gone = {old.inode for k, old in moved.items() if old and old.inode != change.made[k].inode} | inodes_now.keys()
        candidates: dict[str, list[int]] = {}
        present: dict[str, FileState] = {}
        for name, known in self._inodes.items():
            now = file_state(change.path(name))
            if now is not None and now.inode not in inodes_now.values():
                present[name] = now
                inodes = [each for each in known if each is not None and each not in gone]
                inodes = [inode for inode in inodes if self._is_like(inode, name, now)]
                timed = [inode for inode in inodes if self._times.get(inode) == now[1:]]
                if len(timed) == 1:  # others may have equal contents, such as empty files
                    inodes = timed
                candidates[name] = [now.inode] if now.inode in inodes else inodes
        while candidates:
            name = min(candidates, key=lambda name: len(candidates[name]))
            if len(candidates[name]) != 1:
                return False
            [inode] = candidates.pop(name)
            inodes_now[inode] = present[name].inode
            for others in candidates.values():
                others[:] = [other for other in others if other != inode]
        replace_inodes(change, {inode: inodes_now.get(inode, -inode) for inode in self._sizes})
        return True

    def _is_like(self, inode: int, name: str, now: FileState) -> bool:
        """Whether the file under a name can be the one that had this inode."""
        change = self._change
        if not self._may_be(inode, now, with_time=False):
            return False
        for k, step in enumerate(change.steps):
            kept = change.stored.get(k)
            is_original = step.before is not None and step.made_by is None and step.before.inode == inode
            if kept is not None and is_original and step.before is not None and now.size == step.before.size:
                start = step.size if step.action == plan.TRUNCATE else 0
                is_same = digest(change.path(name), start, kept.data_size) == kept.sha256
                return is_same and now.size == start + kept.size
        return self._may_be(inode, now)


def is_staged(change: Change) -> bool:
    """Whether the staged files have the recorded inodes. Raises OSError, PathError."""
    return all(now.inode == change.made[k].inode for k, now in _staged(change).items())


def _staged(change: Change) -> dict[int, FileState]:
    """Returns the present states of the staged files, by step. Raises OSError, PathError."""
    return {k: now for k in change.made if (now := file_state(change.new(k)))}


def replace_inodes(change: Change, inodes: dict[int, int]) -> None:
    """Replaces inodes in the change."""
    for k, step in enumerate(change.steps):
        if step.before is not None and step.made_by is None:
            before = step.before._replace(inode=inodes.get(step.before.inode, step.before.inode))
            change.steps[k] = replace(step, before=before)
    for k, made in change.made.items():
        change.made[k] = made._replace(inode=inodes.get(made.inode, made.inode))


# Names, sizes and digests of the files in a quarantine.

_HASH_BYTES = 4 << 20


def digest(path: str, position: int, length: int) -> str:
    """Returns the SHA-256 of a range of a file in hex. If the file is shorter, only the existing bytes count. Raises
    OSError.
    """
    found = hashlib.sha256()
    with os.fdopen(open_file(path), "rb", 0) as file:
        file.seek(position)
        while length > 0 and (data := file.read(min(length, _HASH_BYTES))):
            found.update(data)
            length -= len(data)
    return found.hexdigest()


MAX_HASHED_BYTES = 64 << 20
"""A larger file is not read for its hash alone; the hash of one that is kept whole is known without."""


def hash_before(change: Change) -> None:
    """Records size and hash of each file before the change."""
    kept = {}
    for k, found in change.stored.items():
        if change.steps[k].action != plan.TRUNCATE and found.data_size == found.size:
            kept[change.steps[k].origin] = found.sha256
    for name, state in ExpectedStates(change).initial.items():
        known = None if state is None else kept.get(name) or _hash(change.path(name), state.size)
        change.hashes[name] = FileHashes(state and state.size, known)


def hash_after(change: Change) -> None:
    """Records size and hash of each file after the change."""
    initial = ExpectedStates(change).initial
    unchanged = {state: change.hashes[name] for name, state in initial.items() if state and name in change.hashes}
    for name, state in change.after.items():
        if state is not None:
            old, before = unchanged.get(state), change.hashes.get(name, FileHashes())
            known = old.sha256_before if old is not None else _hash(change.path(name), state.size)
            change.hashes[name] = before._replace(size_after=state.size, sha256_after=known)


def _hash(path: str, size: int) -> str | None:
    """Returns the SHA-256 of a file; None if it is too large, sparse (as a preallocated index) or unreadable."""
    try:
        if size > MAX_HASHED_BYTES or os.stat(path, follow_symlinks=False).st_blocks * 1024 < size:
            return None
        return digest(path, 0, size)
    except (OSError, KsegError):
        return None


def is_unchanged(path: str, known: Stored) -> bool:
    """Whether a file is unchanged since it was kept. Raises OSError."""
    if known.data_size == known.size:  # the digest covers the whole file, trailing zeros included
        return os.stat(path).st_size == known.size and digest(path, 0, known.size) == known.sha256
    return stored(path) == known


def stored(path: str) -> Stored:
    """Returns size and digest of a file. Raises OSError."""
    with opened(path) as descriptor:
        size = os.fstat(descriptor).st_size
        start = end = stored_end(descriptor, size)
        while start > 0:  # from the end on, until a part holds more than zeros
            start, stop = max(start - _HASH_BYTES, 0), start
            data = os.pread(descriptor, stop - start, start).rstrip(b"\0")
            end = start + len(data)
            if data:
                break
    return Stored(size, end, digest(path, 0, end))


def kept_name(directory: str, number: int, time_ms: int) -> str:
    """Returns the name of the folder for bytes that are kept elsewhere. It identifies the directory and the change."""
    directory = Place(directory).absolute
    place = hashlib.sha256(os.fsencode(directory)).hexdigest()[:32]
    ending = f".{number}.{time_ms}.{place}"
    name = os.fsencode(os.path.basename(directory))[: MAX_NAME_BYTES - len(ending)]
    return os.fsdecode(name) + ending
