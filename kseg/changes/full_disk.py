"""Applies a plan on a file system that has no room for the record of the change: what frees space goes first.

Without a record (one that keeps bytes has it beside them: `kseg.changes.unrecorded`), the same command completes the
change after a kill: each step is atomic, a broker can start after any of them, and the rest is planned again. Therefore
no step may write the content of a log.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kseg.changes import accepted_gaps
from kseg.changes.content import make_file
from kseg.changes.disk import Disk, Model, attributes_of, opened
from kseg.changes.plan import CREATE, DELETE, EXTEND, RENAME, TRUNCATE, Plan, Range, Step, file_state
from kseg.errors import KsegError, PathError, StoppedHalfwayError, text_of
from kseg.formats.suffixes import INDEX_SUFFIXES, LOG_SUFFIXES, LOGS
from kseg.segment.files import segment_file
from kseg.stores.no_follow import status_of
from kseg.stores.place import Place

BLOCK_BYTES = 4096
"""The unit in which most file systems give space to files."""


JOURNAL_BYTES = 4 * BLOCK_BYTES
"""Space for the journal of a command, at most, if it changes one partition."""


def record_bytes(plan: Plan) -> int:
    """Returns the largest space that folders, manifest and journal of a change take, and the ends of its new files."""
    files = sum(step.makes or step.action in (TRUNCATE, EXTEND) for step in plan.steps)
    return record_bytes_of(files, len(plan.steps))


def record_bytes_of(files: int, steps: int) -> int:
    """Like `record_bytes`, of a plan with so many new files and steps."""
    return (10 + files) * BLOCK_BYTES + 1000 * steps


@dataclass(frozen=True, slots=True)
class FreeingSteps:
    """The steps of a plan, those that need no room first. ``writes``: the others, new files that are no logs.

    ``room_bytes``: the free space that all of them need; ``grown_bytes``: the growth of all files together, below 0 if
    they shrink.
    """

    first: list[Step]
    writes: list[Step]
    room_bytes: int
    grown_bytes: int

    @property
    def steps(self) -> list[Step]:
        return [*self.first, *self.writes]

    @property
    def recorded_room_bytes(self) -> int:
        """Returns the free space that they need if journal and manifest are written after them."""
        return max(self.room_bytes, self.grown_bytes + 4 * BLOCK_BYTES + _in_blocks(600 * len(self.steps)))


def freeing_steps(plan: Plan) -> FreeingSteps | None:
    """Returns None if the plan needs a record, because it writes a log, or its order cannot be changed. Raises
    OSError.
    """
    writes = [step for step in plan.steps if step.makes and step.size]
    first = [step for step in plan.steps if not (step.makes and step.size)]
    if (
        plan.restores_from
        or any(step.action == EXTEND or step.made_by is not None or step.source for step in plan.steps)
        or any(segment_file(step.file).kind in LOG_SUFFIXES for step in writes)
    ):
        return None
    changed = {name for step in first for name in (step.file, step.target, step.origin)}
    if changed & {name for step in writes for name in (step.file, *_files_used(step))}:
        return None
    freed = at = room = 0
    for step in first:
        status = status_of(Place(plan.directory) / step.origin) if step.origin else None
        if status is not None and (step.keeps or step.action in (TRUNCATE, DELETE)):
            if step.action == TRUNCATE and status.st_nlink > 1:
                return None  # its other name keeps the bytes, so a new file has to be written
            left = _in_blocks(step.size) if step.action == TRUNCATE else 0
            freed += max(status.st_blocks * 512 - left, 0) if status.st_nlink == 1 else 0
    at = -freed
    for step in writes:
        old = status_of(Place(plan.directory) / step.origin).st_blocks * 512 if step.origin else 0
        at -= old * _is_removed_first(step)
        at += _in_blocks(step.size)
        room = max(room, at)
        at -= old * (not _is_removed_first(step))
    return FreeingSteps(_logs_last(first), writes, room, at)


TEMPORARY_FILE = ".kseg-new-file"
"""The name of a new file until it is whole, which no file that brokers know has."""


def _files_used(step: Step) -> Iterator[str]:
    return (os.path.basename(piece.file) for piece in step.pieces if isinstance(piece, Range))


def _is_removed_first(step: Step) -> bool:
    """Whether the old file is removed before the new one is written: a broker makes a missing index anew."""
    return step.file.endswith(INDEX_SUFFIXES)


def _in_blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def _logs_last(steps: Iterable[Step]) -> list[Step]:
    """Returns the steps with each .log deleted or created after its side files, so that these are planned again."""
    found, held = list[Step](), list[Step]()
    for step in steps:
        stem = step.file.partition(".")[0]
        if held and (step.action in (RENAME, TRUNCATE) or stem != held[0].file.partition(".")[0]):
            found += held
            held = []
        if step.action in (DELETE, CREATE) and step.file.endswith(LOGS):
            held.append(step)
        else:
            found.append(step)
    return found + held


def apply_without_record(plan: Plan, steps: FreeingSteps, disk: Disk) -> None:
    """Applies a plan that keeps nothing. The caller holds the lock, and has removed the clean shutdown marker.

    Raises KsegError if nothing was changed, otherwise StoppedHalfwayError.
    """
    has_changed = False
    try:
        for step in steps.steps:
            path = Place(plan.directory) / step.file
            if step.action != RENAME and file_state(path) != step.before:
                raise PathError(f"{path}: has changed since it was read")
            apply_step(step, path, plan.directory, disk)
            has_changed = True
        disk.sync_directory(plan.directory)
        accepted_gaps.record(plan.directory, plan.gaps, disk)
    except (OSError, KsegError) as error:
        if has_changed:
            text = f"{plan.directory}: stopped half-way: {text_of(error)}; repeat the command to go on"
            raise StoppedHalfwayError(text) from error
        raise KsegError(f"{plan.directory}: nothing was changed: {text_of(error)}") from error


def apply_step(step: Step, path: str, directory: str, disk: Disk) -> None:
    """Applies a step to the file ``path``. Raises OSError, KsegError."""
    is_ordered = step.action == RENAME or step.file.endswith(LOGS)
    if is_ordered:  # a power cut must not leave this step without the ones before it
        disk.sync_directory(directory)
    if step.action == DELETE:
        disk.unlink(path)
    elif step.action == RENAME:
        disk.rename(path, Place(directory) / step.target)
    elif step.action == TRUNCATE:
        with opened(path, os.O_RDWR) as descriptor:
            disk.truncate(descriptor, step.size)
            disk.sync(descriptor)
    else:
        _write(step, path, directory, disk)
    if is_ordered:
        disk.sync_directory(directory)


def _write(step: Step, path: str, directory: str, disk: Disk) -> None:
    model: str | Model = step.model or directory
    if step.before is not None:
        model = Model(path, status_of(path), attributes_of(path))
        if _is_removed_first(step):
            disk.unlink(path)
    with disk.replacement(path, TEMPORARY_FILE) as temporary:
        make_file(temporary, step.pieces, directory, disk, model, step.before is not None, step.mtime_ns)
