"""What a changing command will do, before it does it: steps on the files of one directory, each with its reason.

Nothing here touches a file but `seen`. `kseg.changes.apply` carries plans out.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kseg.errors import PathError

TRUNCATE, REPLACE, CREATE, DELETE, RENAME = "truncate", "replace", "create", "delete", "rename"
EXTEND = "extend"
"""The opposite of truncate, which only `kseg.changes.undo` plans."""

ACTIONS = (TRUNCATE, REPLACE, CREATE, DELETE, RENAME, EXTEND)


class Seen(NamedTuple):
    """A file as it was when the plan was made; one that differs in any of these is not the one that was looked at."""

    inode: int
    size: int
    mtime_ns: int


class Range(NamedTuple):
    """Bytes ``[position, position + length)`` of a file of the directory, or of the file at an absolute path."""

    file: str
    position: int
    length: int


Piece = bytes | memoryview | Range
"""What new content is made of. Ranges are those of files as they are before the first step; a view is of bytes."""


def piece_size(piece: Piece) -> int:
    """In bytes."""
    return piece.length if isinstance(piece, Range) else len(piece)


class Content:
    """Pieces that are made anew for each who goes through them, ``size`` bytes in all: too many to be kept."""

    def __init__(self, pieces: Callable[[], Iterator[Piece]], size: int) -> None:
        self._pieces = pieces
        self.size = size

    def __iter__(self) -> Iterator[Piece]:
        return self._pieces()


Pieces = tuple[Piece, ...] | Content


def gathered(pieces: Iterable[Piece]) -> tuple[Pieces, int]:
    """Pieces as a step holds them, none of them empty, and their bytes."""
    if isinstance(pieces, Content):
        return pieces, pieces.size
    content = tuple(piece for piece in pieces if piece_size(piece))
    return content, sum(map(piece_size, content))


@dataclass(frozen=True, slots=True)
class Removed:
    """Bytes of a step's file that go, and what they were: offsets are Kafka's, None where they are not known."""

    position: int
    length: int
    reason: str
    first_offset: int | None = None
    last_offset: int | None = None
    records: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One change of ``file``, a name in the plan's directory.

    ``size`` is that of the file afterwards (truncate, replace, create, extend); ``pieces`` its content (replace,
    create); ``target`` its new name (rename). ``before`` is what earlier steps leave under that name, None for nothing:
    a file that lies at ``origin`` before the first step, or the product of step ``made_by``. ``keeps``: a rename whose
    file is to be kept as well, because brokers remove what has its new name. ``source``: the path of a file that
    becomes the new content by a link (replace, create), or whose bytes are appended (extend); ``mtime_ns``: the time
    that the file gets; ``model``: the path of a file whose owner, mode and attributes it gets, "" for those of the one
    it replaces.
    """

    action: str
    file: str
    reason: str
    before: Seen | None
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
        """Whether a new file appears under the step's name."""
        return self.action in (REPLACE, CREATE)

    @property
    def freed_bytes(self) -> int:
        """Bytes that leave the directory, and were in it before the plan."""
        if self.before is None or self.made_by is not None or self.action in (CREATE, EXTEND):
            return 0
        if self.action == RENAME:
            return self.before.size if self.keeps else 0
        return self.before.size - self.size if self.action == TRUNCATE else self.before.size

    @property
    def is_kept(self) -> bool:
        """Whether there is something to keep: a file, even if it is empty, or a tail."""
        if self.before is None or self.made_by is not None:
            return False
        return self.action in (TRUNCATE, REPLACE, DELETE) or (self.action == RENAME and self.keeps)


class Taken(NamedTuple):
    """Offsets that come from a file elsewhere, by its path; or that were left there, and ``why``."""

    first_offset: int
    last_offset: int
    file: str
    why: str = ""


class Occupant(NamedTuple):
    """What lies under a name in the middle of a plan."""

    seen: Seen
    origin: str = ""
    made_by: int | None = None


@dataclass(slots=True)
class Plan:
    """Steps in the order in which they are taken; each sees what those before it leave.

    So that it can be completed and taken back from any point, a file is renamed at most once and either cut or kept
    whole, a name is emptied at most once and filled at most once, and what a plan makes it does not cut or delete;
    ValueError else. ``gaps``: ranges of offsets that will be missing afterwards, first and last. ``taken``: offsets
    that another replica has and this partition lacks. ``taken_bytes``: room that files which become part of it have
    taken already. ``facts``: what was found, as objects of JSON with a ``type``. ``restores_from``: the folder of what
    the change has kept that the plan puts back, if that may be read until the plan is carried out.
    ``kept_whole``: files that cannot be read in part: where one is replaced, the old one is kept under a second name.
    """

    directory: str
    steps: list[Step] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    taken_bytes: int = 0
    facts: list[dict[str, Any]] = field(default_factory=list)
    restores_from: str = ""
    kept_whole: frozenset[str] = frozenset()
    remaking: tuple[int, object] | None = field(default=None, repr=False, compare=False)
    """What `kseg.changes.recipes` has found out, and of how many steps."""
    _names: dict[str, Occupant | None] = field(default_factory=dict)
    _done: set[tuple[str, str]] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.steps or self.gaps)

    def truncate(self, file: str, size: int, reason: str, removed: Iterable[Removed] = ()) -> None:
        """Cuts a file that is longer than ``size`` bytes."""
        found = self._required(file, is_old=True)
        self._add(Step(TRUNCATE, file, reason, found.seen, size, removed=tuple(removed)), found)
        self._names[file] = found._replace(seen=found.seen._replace(size=size))

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
        """Gives a file new content, whether it is there or not; the file appears whole.

        ``source``: path of a file that is the content, instead of pieces; ``mtime_ns``, ``model``: as in `Step`.
        """
        found = self.occupant(file)
        content, size = gathered(pieces)
        if source:
            size = os.stat(source).st_size
        action = CREATE if found is None else REPLACE
        before = found.seen if found else None
        self._once(*[("empty", file)] * (found is not None), ("fill", file))
        step = Step(action, file, reason, before, size, "", content, tuple(removed), source=source)
        self._add(replace(step, mtime_ns=mtime_ns, model=model), found)
        self._names[file] = Occupant(Seen(0, size, 0), made_by=len(self.steps) - 1)

    def outline(self, file: str, size: int, reason: str) -> None:
        """Tells of new content that is not made yet: such a plan is to be shown, and cannot be carried out."""
        self.write(file, Content(_nothing, size), reason)

    def delete(self, file: str, reason: str, removed: Iterable[Removed] = ()) -> None:
        """Takes a file away."""
        found = self._required(file, is_old=True)
        self._once(("empty", file))
        self._add(Step(DELETE, file, reason, found.seen, removed=tuple(removed)), found)
        self._names[file] = None

    def rename(self, file: str, target: str, reason: str, removed: Iterable[Removed] = (), keeps: bool = False) -> None:
        """A file at ``target`` has to be deleted by an earlier step. ``keeps``: as in `Step`."""
        found = self._required(file)
        if self.occupant(target) is not None:
            raise ValueError(f"{target} has to be deleted before {file} is renamed to it")
        self._once(("empty", file), ("fill", target), ("move", f"{found.origin}/{found.made_by}"))
        step = Step(RENAME, file, reason, found.seen, target=target, removed=tuple(removed), keeps=keeps)
        self._add(step, found)
        self._names[file], self._names[target] = None, found

    def extend(self, file: str, source: str, size: int, mtime_ns: int | None, reason: str) -> None:
        """Appends the bytes of another file, so that ``file`` has ``size`` bytes then, and that time."""
        found = self._required(file)
        self._add(Step(EXTEND, file, reason, found.seen, size, source=source, mtime_ns=mtime_ns), found)
        self._names[file] = found._replace(seen=found.seen._replace(size=size))

    def _once(self, *acts: tuple[str, str]) -> None:
        """Notes what is done to a name or a file only once."""
        for act in acts:
            if act in self._done:
                raise ValueError(f"a plan cannot {' '.join(act)} twice")
        self._done.update(acts)

    def _add(self, step: Step, found: Occupant | None) -> None:
        if found is not None:
            step = replace(step, origin=found.origin, made_by=found.made_by)
        if step.is_kept:
            self._once(("cut or keep", step.origin))
        self.steps.append(step)

    def suppose(self, file: str, found: Seen | None) -> None:
        """Lets the plan begin with that under a name: it is carried out once something else has left it so."""
        self._names[file] = None if found is None else Occupant(found, file)

    def seen(self, file: str) -> Seen | None:
        """The file as the steps so far leave it, None where there is none."""
        found = self.occupant(file)
        return found.seen if found else None

    def occupant(self, file: str) -> Occupant | None:
        """What the steps so far leave under a name."""
        if file not in self._names:
            if not is_plain_name(file):
                raise ValueError(f"{file!r} is no name of a file in the directory")
            path = os.path.join(self.directory, file)
            try:
                now = seen(path)
            except OSError as error:
                raise PathError(f"{path}: {error.strerror}") from error
            self._names[file] = None if now is None else Occupant(now, file)
        return self._names[file]

    def _required(self, file: str, is_old: bool = False) -> Occupant:
        found = self.occupant(file)
        if found is not None and is_old and found.made_by is not None:
            raise ValueError(f"a plan cannot change {file} twice")
        if found is None:
            raise PathError(f"{os.path.join(self.directory, file)}: has gone while it was looked at")
        return found

    @property
    def initial(self) -> dict[str, Seen]:
        """Files that the steps work on, as they are before the first."""
        found: dict[str, Seen] = {}
        for step in self.steps:
            if step.origin and step.before is not None:
                found.setdefault(step.origin, step.before)
        return found

    @property
    def freed_bytes(self) -> int:
        """Bytes that go, quarantined or not."""
        return sum(step.freed_bytes for step in self.steps)

    @property
    def rewritten_bytes(self) -> int:
        """Those of them that go because their file gets other content, not because they are removed from it."""
        replaced = [step for step in self.steps if step.action == REPLACE]
        return sum(max(step.freed_bytes - sum(cut.length for cut in step.removed), 0) for step in replaced)

    @property
    def rewriting_bytes(self) -> int:
        """Sizes of the files that replace others."""
        return sum(step.size for step in self.steps if step.action == REPLACE)

    @property
    def created_bytes(self) -> int:
        """Sizes of the files under names that were free."""
        return sum(step.size for step in self.steps if step.action == CREATE)

    @property
    def new_bytes(self) -> int:
        """Bytes of new content that is written."""
        return sum(step.size for step in self.steps if step.makes and not step.source)


def _nothing() -> Iterator[Piece]:
    return iter(())


def is_plain_name(name: object) -> bool:
    """Whether this names a file of a directory itself."""
    return isinstance(name, str) and os.path.basename(name) == name and name not in ("", ".", "..") and "\0" not in name


def seen(path: str) -> Seen | None:
    """The file at a path as it is now, None where there is none. Raises OSError; PathError for what is no file."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise PathError(f"{path}: is no regular file, which kseg does not change")
    return Seen(status.st_ino, status.st_size, status.st_mtime_ns)
