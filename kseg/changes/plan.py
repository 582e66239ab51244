"""What a changing command will do, before it does it: steps on the files of one directory, each with its reason.

Nothing here touches a file but `seen`. `kseg.changes.apply` carries plans out.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

TRUNCATE, REPLACE, CREATE, DELETE, RENAME = "truncate", "replace", "create", "delete", "rename"


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


Piece = bytes | Range
"""What new content is made of. Ranges are copied without passing through this process where the system can."""


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

    ``size`` is that of the file afterwards (truncate, replace, create); ``pieces`` its content (replace, create);
    ``target`` its new name (rename). ``before`` is None for a file that is not there.
    """

    action: str
    file: str
    reason: str
    before: Seen | None
    size: int = 0
    target: str = ""
    pieces: tuple[Piece, ...] = ()
    removed: tuple[Removed, ...] = ()

    @property
    def freed_bytes(self) -> int:
        """Bytes that leave the directory and are to be kept."""
        if self.before is None or self.action == RENAME:
            return 0
        return self.before.size - self.size if self.action == TRUNCATE else self.before.size


@dataclass(slots=True)
class Plan:
    """Steps in the order in which they are taken. A file may be deleted (or renamed) and then be the target of another
    step. ``gaps``: ranges of offsets that will be missing afterwards, first and last.
    """

    directory: str
    steps: list[Step] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.steps or self.gaps)

    def truncate(self, file: str, size: int, reason: str, removed: Iterable[Removed] = ()) -> None:
        """Cuts a file that is longer than ``size`` bytes."""
        self.steps.append(Step(TRUNCATE, file, reason, self.seen(file), size, removed=tuple(removed)))

    def write(self, file: str, pieces: Iterable[Piece], reason: str, removed: Iterable[Removed] = ()) -> None:
        """Gives a file new content, whether it is there or not; the file appears whole."""
        before, content = self.seen(file), tuple(pieces)
        size = sum(len(piece) if isinstance(piece, bytes) else piece.length for piece in content)
        action = CREATE if before is None else REPLACE
        self.steps.append(Step(action, file, reason, before, size, pieces=content, removed=tuple(removed)))

    def delete(self, file: str, reason: str, removed: Iterable[Removed] = ()) -> None:
        self.steps.append(Step(DELETE, file, reason, self.seen(file), removed=tuple(removed)))

    def rename(self, file: str, target: str, reason: str) -> None:
        """A file at ``target`` has to be deleted by an earlier step."""
        self.steps.append(Step(RENAME, file, reason, self.seen(file), target=target))

    def seen(self, file: str) -> Seen | None:
        """The file as it is now, None where there is none."""
        return seen(os.path.join(self.directory, file))

    @property
    def freed_bytes(self) -> int:
        """Bytes that go, quarantined or not."""
        return sum(step.freed_bytes for step in self.steps)

    def peak_bytes(self, links: bool = True) -> int:
        """Room that carrying the plan out takes at most: new content, and the cut tails that are kept.

        ``links``: files that are deleted or replaced are kept by a hard link, which takes none.
        """
        new = sum(step.size for step in self.steps if step.action in (REPLACE, CREATE))
        kept = sum(step.freed_bytes for step in self.steps if step.action == TRUNCATE or not links)
        return new + kept


def seen(path: str) -> Seen | None:
    """The file at a path as it is now, None where there is none."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return Seen(status.st_ino, status.st_size, status.st_mtime_ns)
