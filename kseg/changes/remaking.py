"""Carries out the steps that remake a file (`kseg.changes.recipes`): what is made before the commit, and what after it.

The new file is there, empty, from the beginning, so that it is known by inode. Stopped while it is filled, it is filled
anew: the old file is in its place until the new one is whole and lasting.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from kseg.changes import kept_files
from kseg.changes.content import made_file, make_file, write_pieces
from kseg.changes.course import ChangedSinceError
from kseg.changes.disk import Disk, open_to_write
from kseg.changes.manifest import Change, Remade
from kseg.changes.plan import Piece, Plan, Range, Seen
from kseg.changes.recipes import Ingredient, forwards, recipe_lines, remaking_of

_RECIPE_BYTES = 1 << 16


def prepare(change: Change, plan: Plan, k: int, disk: Disk) -> None:
    """All up to the commit: the empty file, its recipe, what is added and what is kept. Raises OSError, KsegError."""
    step, remaking, borrows = change.steps[k], remaking_of(plan), change.is_kept_inside
    _make_empty(change, k, disk)
    _write(change, change.recipe(k), _blocks(remaking.ingredients(k, borrows)), disk)
    if remaking.added_bytes(k, borrows):
        _write(change, change.added(k), remaking.added(k, borrows), disk)
    change.remade[k] = Remade(0, "")
    if change.kept and step.before is not None:
        offcuts = remaking.offcuts[k]
        pieces = (Range(step.origin, position, length) for position, length in offcuts)
        _write(change, change.old(k), pieces, disk, change.path(step.origin), step.before.mtime_ns)
        change.remade[k] = Remade(offcuts.size, kept_files.digest(change.old(k), 0, offcuts.size))


def _make_empty(change: Change, k: int, disk: Disk) -> None:
    step, path = change.steps[k], change.new(k)
    model = step.model or change.path(step.origin)
    make_file(path, (), change.directory, disk, model, mtime_ns=step.mtime_ns)
    change.made[k] = made_file(path)._replace(size=step.size)


def _blocks(ingredients: Iterator[Ingredient]) -> Iterator[bytes]:
    """The recipe in blocks."""
    held = bytearray()
    for line in recipe_lines(ingredients):
        held += line
        if len(held) >= _RECIPE_BYTES:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def _write(
    change: Change, path: str, pieces: Iterable[Piece], disk: Disk, model: str = "", mtime_ns: int | None = None
) -> None:
    """A new, lasting file; with a ``model`` it also keeps what that tells of itself, as far as it can."""
    descriptor = disk.create(path)
    try:
        write_pieces(pieces, change.directory, descriptor, disk)
        try:
            disk.take_after(path, model or change.directory, descriptor=descriptor)
        except PermissionError:
            disk.take_after(path, os.path.dirname(path), descriptor=descriptor)
        if model:
            disk.copy_attributes(model, path, descriptor)
        if mtime_ns is not None:
            disk.set_time(descriptor, mtime_ns)
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def take(change: Change, k: int, now: Seen | None, disk: Disk) -> None:
    """Takes step k as far as it is not taken. ``now``: what lies under its name.

    Raises OSError, ChangedSinceError where that is not the file that is to be remade.
    """
    new, path = change.new(k), change.path(change.steps[k].file)
    if os.path.lexists(new):
        if now is not None and now.inode == change.made[k].inode:
            disk.unlink(new)  # the second name of the same file: a rename would do nothing
        else:
            if now != change.steps[k].before:
                raise ChangedSinceError(f"{path}: was changed by someone else in the middle of {change.command!r}")
            _fill(change, k, disk)
            disk.rename(new, path)
    if os.path.lexists(change.added(k)):
        disk.sync_directory(change.directory)  # until then the new file may have to be filled again
        disk.unlink(change.added(k))


def _fill(change: Change, k: int, disk: Disk) -> None:
    made = change.made[k]
    target = open_to_write(change.new(k))
    try:
        if os.fstat(target).st_size:
            disk.truncate(target, 0)
        try:
            if write_pieces(forwards(change, k), change.directory, target, disk) != made.size:
                raise OSError(errno.EIO, "is no recipe for the file that is to be made", change.recipe(k))
        except OSError:
            with suppress(OSError):
                disk.truncate(target, 0)  # so that there is room for the way back
            raise
        disk.set_time(target, made.mtime_ns)
        disk.sync(target)
    finally:
        os.close(target)
