"""The plan of a changing command: an ordered list of file operations in one directory, each with its reason.

Making a plan changes no file. `kseg.changes.apply` applies plans.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.errors import PathError, errors_at
from kseg.formats.json_values import fields_of, name_value
from kseg.stores.place import Place

TRUNCATE, REPLACE, CREATE, DELETE, RENAME = "truncate", "replace", "create", "delete", "rename"
EXTEND = "extend"
"""The opposite of truncate; only `kseg.changes.undo` plans it."""

ACTIONS = (TRUNCATE, REPLACE, CREATE, DELETE, RENAME, EXTEND)


class FileState(NamedTuple):
    """Identity of a file at one moment. A file that differs in any field has been changed or replaced."""

    inode: int
    size: int
    mtime_ns: int


class Range(NamedTuple):
    """Bytes ``[position, position + length)`` of a file: a name in the directory, or an absolute path."""

    file: str
    position: int
    length: int


Piece = bytes | memoryview | Range
"""A part of new content. Ranges refer to files before the first step; a memoryview refers to bytes."""


def piece_size(piece: Piece) -> int:
    """Returns the size in bytes."""
    return piece.length if isinstance(piece, Range) else len(piece)


class Content:
    """Pieces that are generated again for each iteration, because they would not fit into memory; ``size`` bytes in
    total.
    """

    def __init__(self, pieces: Callable[[], Iterator[Piece]], size: int) -> None:
        self._pieces = pieces
        self.size = size

    def __iter__(self) -> Iterator[Piece]:
        return self._pieces()


Pieces = tuple[Piece, ...] | Content


def gathered(pieces: Iterable[Piece]) -> tuple[Pieces, int]:
    """Returns the non-empty pieces in the form that a step stores, and their total size in bytes."""
    if isinstance(pieces, Content):
        return pieces, pieces.size
    content = tuple(piece for piece in pieces if piece_size(piece))
    return content, sum(map(piece_size, content))


@dataclass(frozen=True, slots=True)
class Removed:
    """A range of a file that a step removes. Offsets are Kafka's, None if unknown."""

    position: int
    length: int
    reason: str
    first_offset: int | None = None
    last_offset: int | None = None
    records: int | None = None

    def row(self) -> dict[str, Any]:
        """Returns the range as an object of JSON, in plans and in records of changes."""
        return fields_of(self, "position", "length", "reason", "first_offset", "last_offset", "records")


@dataclass(frozen=True, slots=True)
class Step:
    """One operation on ``file``, a name in the plan's directory.

    ``size``: size of the file afterwards (truncate, replace, create, extend); ``pieces``: its content (replace,
    create); ``target``: its new name (rename). ``before``: state of the file before this step, None for no file. That
    file is either ``origin``, its name before the first step, or the product of step ``made_by``. ``keeps``: the
    renamed file is also kept, because brokers delete files with such a name. ``source``: path of a file that becomes
    the new content by a hard link (replace, create), or whose bytes are appended (extend); ``mtime_ns``: the
    modification time to set; ``model``: path of a file whose owner, mode and attributes are copied, "" for the replaced
    file.
    """

    action: str
    file: str
    reason: str
    before: FileState | None
    size: int = 0
    target: str = ""
    pieces: Pieces = ()
    removed: tuple[Removed, ...] = ()
    origin: str = ""
    made_by: int | None = None
    keeps: bool = False
    source: str = ""
    mtime_ns: int | None = None
    model: str = ""

    @property
    def makes(self) -> bool:
        """Whether the step creates a new file under its name."""
        return self.action in (REPLACE, CREATE)

    @property
    def new_size(self) -> int | None:
        """Size of the file after the step; None if it is deleted."""
        if self.action == RENAME:
            return self.before.size if self.before else None
        return None if self.action == DELETE else self.size

    @property
    def freed_bytes(self) -> int:
        """Bytes that were in the directory before the plan and are removed by this step."""
        if self.before is None or self.made_by is not None or self.action in (CREATE, EXTEND):
            return 0
        if self.action == RENAME:
            return self.before.size if self.keeps else 0
        return self.before.size - self.size if self.action == TRUNCATE else self.before.size

    @property
    def replaced_bytes(self) -> int:
        """The part of ``freed_bytes`` that new content of the same file only replaces."""
        if self.action != REPLACE:
            return 0
        return max(self.freed_bytes - sum(cut.length for cut in self.removed), 0)

    @property
    def removed_bytes(self) -> int:
        """The part of ``freed_bytes`` that nothing replaces: what outputs call removed."""
        return self.freed_bytes - self.replaced_bytes

    @property
    def is_kept(self) -> bool:
        """Whether the step removes something that can be kept: a file (even an empty one) or its tail."""
        if self.before is None or self.made_by is not None:
            return False
        return self.action in (TRUNCATE, REPLACE, DELETE) or (self.action == RENAME and self.keeps)


class ReplicaOffsets(NamedTuple):
    """Offsets of another replica, or of remote storage. They are copied from ``file``, unless there is a reason ``why``
    not."""

    first_offset: int
    last_offset: int
    file: str
    why: str = ""

    def row(self, directory: str) -> dict[str, Any]:
        """Returns the offsets as an object of JSON; ``directory``: of the partition."""
        row = {"type": "left" if self.why else "taken", "directory": name_value(directory)}
        row |= fields_of(self, "first_offset", "last_offset") | {"from": name_value(self.file)}
        return row | ({"reason": self.why} if self.why else {})


class PlannedFile(NamedTuple):
    """A file at some point of a plan."""

    state: FileState
    origin: str = ""
    made_by: int | None = None


@dataclass(slots=True)
class Plan:
    """Steps in the order in which they are applied. Each step sees the results of those before it.

    So that a plan can be completed or undone from any point, each file is renamed at most once and either truncated or
    kept completely, each name is freed at most once and taken at most once, and files created by the plan are not
    truncated or deleted; otherwise ValueError is raised. ``gaps``: ranges of offsets that will be missing afterwards,
    first and last. ``from_replica``: offsets that another replica has and this partition lacks. ``staged_bytes``: disk
    space that staged files already use. ``facts``: observations as JSON objects with a ``type``. ``restores_from``: the
    folder of kept bytes that the plan restores, if it can be read until the plan is applied. ``kept_whole``: files that
    cannot be read in part; if one is replaced, the old file is kept under a second name. ``purges``: numbers of earlier
    changes whose kept bytes are removed once the steps are done.
    """

    directory: str
    steps: list[Step] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    from_replica: list[ReplicaOffsets] = field(default_factory=list)
    staged_bytes: int = 0
    facts: list[dict[str, Any]] = field(default_factory=list)
    restores_from: str = ""
    kept_whole: frozenset[str] = frozenset()
    purges: list[int] = field(default_factory=list)
    deltas: tuple[int, object] | None = field(default=None, repr=False, compare=False)
    """The number of steps, and their deltas (`kseg.changes.content`)."""
    _names: dict[str, PlannedFile | None] = field(default_factory=dict)
    _other_names: frozenset[str] | None = None
    _done: set[tuple[str, str]] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.steps or self.gaps or self.purges)

    def truncate(self, file: str, size: int, reason: str, removed: Iterable[Removed] = ()) -> None:
        """Truncates a file that is longer than ``size`` bytes."""
        found = self._required(file, is_old=True)
        self._add(TRUNCATE, file, reason, found, size=size, removed=tuple(removed))
        self._names[file] = found._replace(state=found.state._replace(size=size))

    def write(
        self,
        file: str,
        pieces: Iterable[Piece],
        reason: str,
        removed: Iterable[Removed] = (),
        source: str = "",
        mtime_ns: int | None = None,
        model: str = "",
    ) -> None:
        """Creates or replaces a file atomically.

        ``source``: path of a file that is used instead of pieces; ``mtime_ns``, ``model``: as in `Step`.
        """
        found = self.file_at(file)
        content, size = gathered(pieces)
        if source:
            size = Place(source).status().st_size
        action = CREATE if found is None else REPLACE
        self._once(*[("empty", file)] * (found is not None), ("fill", file))
        more = {"source": source, "mtime_ns": mtime_ns, "model": model}
        self._add(action, file, reason, found, size=size, pieces=content, removed=tuple(removed), **more)
        self._names[file] = PlannedFile(FileState(0, size, 0), made_by=len(self.steps) - 1)

    def outline(self, file: str, size: int, reason: str) -> None:
        """Adds new content of known size that does not exist yet. Such a plan can be shown, but not applied."""
        self.write(file, Content(lambda: iter(()), size), reason)

    def delete(self, file: str, reason: str, removed: Iterable[Removed] = ()) -> None:
        """Deletes a file."""
        found = self._required(file, is_old=True)
        self._once(("empty", file))
        self._add(DELETE, file, reason, found, removed=tuple(removed))
        self._names[file] = None

    def rename(self, file: str, target: str, reason: str, removed: Iterable[Removed] = (), keeps: bool = False) -> None:
        """Renames a file. An existing file ``target`` must be deleted by an earlier step. ``keeps``: as in `Step`."""
        found = self._required(file)
        if self.file_at(target) is not None:
            raise ValueError(f"{target} has to be deleted before {file} is renamed to it")
        self._once(("empty", file), ("fill", target), ("move", f"{found.origin}/{found.made_by}"))
        self._add(RENAME, file, reason, found, target=target, removed=tuple(removed), keeps=keeps)
        self._names[file], self._names[target] = None, found

    def move_directory(self, name: str, target: str, reason: str) -> None:
        """Renames a partition directory, in the plan of a log directory."""
        self._add(RENAME, name, reason, None, target=target)

    def extend(self, file: str, source: str, size: int, mtime_ns: int | None, reason: str) -> None:
        """Appends the bytes of another file, so that ``file`` has ``size`` bytes and this modification time."""
        found = self._required(file)
        self._add(EXTEND, file, reason, found, size=size, source=source, mtime_ns=mtime_ns)
        self._names[file] = found._replace(state=found.state._replace(size=size))

    def _once(self, *acts: tuple[str, str]) -> None:
        """Records operations that are allowed only once for each name or file. Raises ValueError at the second."""
        for act in acts:
            if act in self._done:
                raise ValueError(f"a plan cannot {' '.join(act)} twice")
        self._done.update(acts)

    def _add(self, action: str, file: str, reason: str, found: "PlannedFile | None", **more: Any) -> None:
        """Adds a step, which finds this file under the name. ``more``: fields of `Step`."""
        before, origin, made_by = found or (None, "", None)
        step = Step(action, file, reason, before, origin=origin, made_by=made_by, **more)
        if step.is_kept:
            self._once(("cut or keep", step.origin))
        self.steps.append(step)

    def assume(self, file: str, found: FileState | None) -> None:
        """Sets the state of a file before the plan. The plan is applied after something else has established that
        state.
        """
        self._names[file] = None if found is None else PlannedFile(found, file)

    def state_of(self, file: str) -> FileState | None:
        """Returns the state of a file after the steps so far, None if there is no file."""
        found = self.file_at(file)
        return found.state if found else None

    def take_listing(self, statuses: Mapping[str, os.stat_result], others: Iterable[str]) -> None:
        """Takes the files of the directory, before the first step, as a listing has found them; ``others``: names of
        other kinds of files.
        """
        self._names |= {name: PlannedFile(state_of(status), name) for name, status in statuses.items()}
        self._other_names = frozenset(others)

    def known_sizes(self, endings: tuple[str, ...]) -> list[int]:
        """Returns the sizes of the known files with these endings after the steps; of all after `take_listing`."""
        return [each.state.size for name, each in self._names.items() if each is not None and name.endswith(endings)]

    def file_at(self, file: str) -> PlannedFile | None:
        """Returns the file under a name after the steps so far, None if there is no file."""
        if file not in self._names:
            if not is_plain_name(file):
                raise ValueError(f"{file!r} is no name of a file in the directory")
            path = Place(self.directory) / file
            # After a listing, only a name of another kind of file may still exist.
            with errors_at(path):
                now = file_state(path) if self._other_names is None or file in self._other_names else None
            self._names[file] = None if now is None else PlannedFile(now, file)
        return self._names[file]

    def _required(self, file: str, is_old: bool = False) -> PlannedFile:
        found = self.file_at(file)
        if found is not None and is_old and found.made_by is not None:
            raise ValueError(f"a plan cannot change {file} twice")
        if found is None:
            raise PathError(f"{os.path.join(self.directory, file)}: was removed while it was read")
        return found

    def files_after(self, before: Mapping[str, FileState]) -> dict[str, PlannedFile]:
        """Returns all files of the directory after the steps. ``before``: the states of those before them."""
        files = {name: PlannedFile(state, name) for name, state in before.items()}
        for name in {name for step in self.steps for name in (step.file, step.target) if name}:
            if (found := self._names[name]) is not None:
                files[name] = found
            else:
                files.pop(name, None)
        return files

    @property
    def initial(self) -> dict[str, FileState]:
        """The files that the steps change, in their state before the first step."""
        found: dict[str, FileState] = {}
        for step in self.steps:
            if step.origin and step.before is not None:
                found.setdefault(step.origin, step.before)
        return found


def is_plain_name(name: object) -> bool:
    """Whether a name refers to a file of the directory itself, without any path."""
    return isinstance(name, str) and os.path.basename(name) == name and name not in ("", ".", "..") and "\0" not in name


def file_state(path: str) -> FileState | None:
    """Returns the state of the file at a path, None if there is none. Raises OSError; PathError if it is not a regular
    file.
    """
    try:
        status = Place(path).status(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise PathError(f"{path}: is no regular file, which kseg does not change")
    return state_of(status)


def state_of(status: os.stat_result) -> FileState:
    return FileState(status.st_ino, status.st_size, status.st_mtime_ns)
