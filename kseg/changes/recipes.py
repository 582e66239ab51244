"""How a file is remade that shares most of its bytes with what was there: from the old file and from little else.

Of the old file only what the new one has not is kept, its `Offcuts`. As batches that move from one segment into another
are offcuts of the first, a new file needs none but its own old one and what is kept: it can be made after the commit,
in its turn, and takes the old one's place before the next is begun.

A recipe is a file of lines, a piece of the new content each: `own`, `kept`, `undone` or `added`, a number, position and
length in bytes. `own` is the old file; `kept` what the step of that number has kept; `undone` what that step of the
change that is being undone has kept; `added` new bytes, staged beside.
"""

import errno
import os
from array import array
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from kseg.changes.disk import open_to_read
from kseg.changes.manifest import Change
from kseg.changes.offcuts import Offcuts
from kseg.changes.plan import DELETE, REPLACE, TRUNCATE, Content, Piece, Plan, Range, Step, piece_size

_LINE_BYTES = 128
OWN, KEPT, UNDONE, ADDED = "own", "kept", "undone", "added"


class Ingredient(NamedTuple):
    """A piece of new content, and where it is taken from; a range is of the old file, or of what is kept."""

    source: str
    number: int
    piece: Piece


class Remaking:
    """``offcuts``: those of each step of a plan that remakes a file."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._directory = os.path.abspath(plan.directory)
        self._keepers = {step.origin: k for k, step in enumerate(plan.steps) if step.is_kept}
        self._added: dict[tuple[int, bool], int] = {}
        self.offcuts: dict[int, Offcuts] = {}
        for k, step in enumerate(plan.steps):
            if step.origin in plan.kept_whole:
                continue
            if step.action == REPLACE and step.before is not None and step.made_by is None and not step.source:
                offcuts = Offcuts(step.before.size, self._staying(step))
                if offcuts.is_whole and 2 * offcuts.shared_bytes >= max(step.size, step.before.size, 1):
                    self.offcuts[k] = offcuts

    def _staying(self, step: Step) -> Iterator[tuple[int, int]]:
        for piece in step.pieces:
            if isinstance(piece, Range) and self._name(piece) == step.origin:
                yield piece.position, piece.length

    def _name(self, piece: Range) -> str:
        """The file's name, where it is one of the directory."""
        if os.sep not in piece.file:
            return piece.file
        folder, name = os.path.split(piece.file)
        return name if folder == self._directory else ""

    def ingredients(self, k: int, borrows: bool) -> Iterator[Ingredient]:
        """Of the new content of step k. ``borrows``: what other steps keep may be read until the change is done."""
        step = self._plan.steps[k]
        for piece in step.pieces:
            if not isinstance(piece, Range):
                yield Ingredient(ADDED, 0, piece)
            elif (name := self._name(piece)) == step.origin:
                yield Ingredient(OWN, 0, piece)
            elif self._plan.restores_from and os.path.dirname(piece.file) == self._plan.restores_from:
                yield Ingredient(UNDONE, int(os.path.basename(piece.file)), piece)
            elif borrows and name in self._keepers:
                yield from self._borrowed(self._keepers[name], piece)
            else:
                yield Ingredient(ADDED, 0, piece)

    def _borrowed(self, k: int, piece: Range) -> Iterator[Ingredient]:
        """A range of a file of which step k keeps something."""
        for position, length, place in self._kept(k, piece):
            if place < 0:
                yield Ingredient(ADDED, 0, piece._replace(position=position, length=length))
            else:
                yield Ingredient(KEPT, k, Range(piece.file, place, length))

    def _kept(self, k: int, piece: Range) -> Iterator[tuple[int, int, int]]:
        """As `Offcuts.split`."""
        step = self._plan.steps[k]
        if k in self.offcuts:
            yield from self.offcuts[k].split(piece.position, piece.length)
        elif step.action == TRUNCATE:
            head = min(max(step.size - piece.position, 0), piece.length)
            if head:
                yield piece.position, head, -1
            if head < piece.length:
                yield piece.position + head, piece.length - head, piece.position + head - step.size
        else:
            whole = step.action in (DELETE, REPLACE)
            yield piece.position, piece.length, piece.position if whole else -1

    def added(self, k: int, borrows: bool) -> Iterator[Piece]:
        """What is staged for step k before the commit."""
        return (one.piece for one in self.ingredients(k, borrows) if one.source == ADDED)

    def added_bytes(self, k: int, borrows: bool) -> int:
        if (k, borrows) not in self._added:
            self._added[k, borrows] = sum(map(piece_size, self.added(k, borrows)))
        return self._added[k, borrows]


def remaking_of(plan: Plan) -> Remaking:
    """Made once for a plan that does not grow any more."""
    if plan.remaking is None or plan.remaking[0] != len(plan.steps):
        plan.remaking = len(plan.steps), Remaking(plan)
    found = plan.remaking[1]
    assert isinstance(found, Remaking)
    return found


def recipe_lines(ingredients: Iterator[Ingredient]) -> Iterator[bytes]:
    """The recipe; what is added lies end to end."""
    added = 0
    for source, number, piece in ingredients:
        length = piece_size(piece)
        position = piece.position if isinstance(piece, Range) and source != ADDED else added
        added += length if source == ADDED else 0
        yield f"{source} {number} {position} {length}\n".encode()


def _read(change: Change, k: int) -> Iterator[tuple[str, int, int, int]]:
    """Raises OSError, also for what is no recipe."""
    path = change.recipe(k)
    with os.fdopen(open_to_read(path), "rb") as file:
        while line := file.readline(_LINE_BYTES):
            try:
                source, *numbers = line.decode("ascii").split()
                number, position, length = map(int, numbers)
            except ValueError as error:
                raise OSError(errno.EIO, "is no recipe", path) from error
            if min(number, position, length) < 0:
                raise OSError(errno.EIO, "is no recipe", path)
            yield source, number, position, length


def forwards(change: Change, k: int) -> Iterator[Range]:
    """The new content of a step that remakes a file, as ranges of files by their paths. Raises OSError."""
    own, added = change.path(change.steps[k].file), change.added(k)
    for source, number, position, length in _read(change, k):
        if source == OWN:
            path = own
        elif source == ADDED:
            path = added
        elif source == KEPT:
            path = change.old(number)
        elif source == UNDONE:
            path = os.path.join(change.undone_kept, str(number))
        else:
            raise OSError(errno.EIO, "is no recipe", change.recipe(k))
        yield Range(path, position, length)


def backwards(change: Change, k: int, name: str) -> Content:
    """The old content of such a file, out of the new one, which has that name, and what is kept. Raises OSError."""
    before = change.steps[k].before
    size = before.size if before else 0
    return Content(partial(_backwards, change, k, name, size), size)


def _backwards(change: Change, k: int, name: str, size: int) -> Iterator[Piece]:
    olds, news, lengths, at, place = array("q"), array("q"), array("q"), 0, 0
    for source, _, position, length in _read(change, k):
        if source == OWN:
            olds.append(position)
            news.append(at)
            lengths.append(length)
        at += length
    done = 0
    for i in sorted(range(len(olds)), key=olds.__getitem__):
        if olds[i] > done:
            yield Range(change.old(k), place, olds[i] - done)
            place += olds[i] - done
            done = olds[i]
        if (end := olds[i] + lengths[i]) > done:
            yield Range(name, news[i] + done - olds[i], end - done)
            done = end
    if done < size:
        yield Range(change.old(k), place, size - done)
        place += size - done
    if max(done, size) > size or at != change.steps[k].size or place != change.remade[k].kept_size:
        raise OSError(errno.EIO, "is no recipe for the file that was there", change.recipe(k))
