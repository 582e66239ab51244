"""Prepares (before the commit) and applies the steps that rewrite a file from a delta (`kseg.changes.delta`).

The new file is created empty before the commit, so that its inode is known. If writing it is interrupted, it is written
again: the old file stays in place until the new file is complete and synced.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from kseg.changes import kept_files
from kseg.changes.content import created_state, make_file, write_pieces
from kseg.changes.delta import DeltaPiece, delta_lines, deltas_of, new_content
from kseg.changes.disk import Disk, open_to_write
from kseg.changes.expected_states import ChangedSinceError
from kseg.changes.manifest import Change, KeptRanges
from kseg.changes.plan import FileState, Piece, Plan, Range

_BLOCK_BYTES = 1 << 16


def prepare(change: Change, plan: Plan, k: int, disk: Disk) -> None:
    """Does everything up to the commit: the empty file, its delta, added and kept bytes. Raises OSError, KsegError."""
    step, deltas, borrows = change.steps[k], deltas_of(plan), change.is_kept_inside
    _make_empty(change, k, disk)
    _write(change, change.delta_path(k), _blocks(deltas.delta_pieces(k, borrows)), disk)
    if deltas.added_bytes(k, borrows):
        _write(change, change.added(k), deltas.added(k, borrows), disk)
    change.by_delta[k] = KeptRanges(0, "")
    if change.kept and step.before is not None:
        removed_ranges = deltas.removed_ranges[k]
        pieces = (Range(step.origin, position, length) for position, length in removed_ranges)
        _write(change, change.old(k), pieces, disk, change.path(step.origin), step.before.mtime_ns)
        change.by_delta[k] = KeptRanges(removed_ranges.size, kept_files.digest(change.old(k), 0, removed_ranges.size))


def _make_empty(change: Change, k: int, disk: Disk) -> None:
    step, path = change.steps[k], change.new(k)
    model = step.model or change.path(step.origin)
    make_file(path, (), change.directory, disk, model, mtime_ns=step.mtime_ns)
    change.made[k] = created_state(path)._replace(size=step.size)


def _blocks(delta_pieces: Iterator[DeltaPiece]) -> Iterator[bytes]:
    """Yields the delta file in blocks."""
    held = bytearray()
    for line in delta_lines(delta_pieces):
        held += line
        if len(held) >= _BLOCK_BYTES:
            yield bytes(held)
            held.clear()
    yield bytes(held)


def _write(
    change: Change, path: str, pieces: Iterable[Piece], disk: Disk, model: str = "", mtime_ns: int | None = None
) -> None:
    """Creates and syncs a file; with a ``model``, owner, mode and attributes are copied as far as possible."""
    descriptor = disk.create(path)
    try:
        write_pieces(pieces, change.directory, descriptor, disk)
        try:
            disk.copy_owner(path, model or change.directory, descriptor=descriptor)
        except PermissionError:
            disk.copy_owner(path, os.path.dirname(path), descriptor=descriptor)
        if model:
            disk.copy_attributes(model, path, descriptor)
        if mtime_ns is not None:
            disk.set_time(descriptor, mtime_ns)
        disk.sync(descriptor)
    finally:
        os.close(descriptor)


def apply_step(change: Change, k: int, now: FileState | None, disk: Disk) -> None:
    """Applies step k as far as it is not applied yet. ``now``: the state of its file.

    Raises OSError, ChangedSinceError if the file is not the one to be rewritten.
    """
    new, path = change.new(k), change.path(change.steps[k].file)
    if os.path.lexists(new):
        if now is not None and now.inode == change.made[k].inode:
            disk.unlink(new)  # both names are the same file: rename(2) would do nothing
        else:
            if now != change.steps[k].before:
                raise ChangedSinceError(f"{path}: was changed by another program during {change.command!r}")
            _fill(change, k, disk)
            disk.rename(new, path)
    if os.path.lexists(change.added(k)):
        disk.sync_directory(change.directory)  # before this sync, the new file might have to be written again
        disk.unlink(change.added(k))


def _fill(change: Change, k: int, disk: Disk) -> None:
    made = change.made[k]
    target = open_to_write(change.new(k))
    try:
        if os.fstat(target).st_size:
            disk.truncate(target, 0)
        try:
            if write_pieces(new_content(change, k), change.directory, target, disk) != made.size:
                raise OSError(errno.EIO, "is no delta to the new file", change.delta_path(k))
        except OSError:
            with suppress(OSError):
                disk.truncate(target, 0)  # frees space for an undo
            raise
        disk.set_time(target, made.mtime_ns)
        disk.sync(target)
    finally:
        os.close(target)
