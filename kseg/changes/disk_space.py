"""Computes the disk space that plans need in the file system of their directory, at the peak and in the end, and the
order of steps that needs the least.
"""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from kseg.changes.content import deltas_of
from kseg.changes.plan import CREATE, DELETE, EXTEND, RENAME, REPLACE, TRUNCATE, Plan, Range, Step
from kseg.formats.suffixes import INDEX_SUFFIXES, LOG_SUFFIXES, LOGS
from kseg.segment.files import segment_file
from kseg.stores.no_follow import status_of
from kseg.stores.place import Place

MAX_GAPS = 1000
"""Largest number of gaps that are kept one by one."""


@dataclass(slots=True)
class PlanTotals:
    """Sums up several plans: operations, sizes, disk space, missing offsets. ``at_once`` plans are applied at the same
    time, in unknown order.

    ``peak_bytes``: the largest amount of disk space that the plans can need. ``left_bytes``: growth of the files after
    the last plan, below 0 if they shrank. ``grown_bytes``: growth by the plans that grow files; ``passing_bytes``: the
    largest amounts, at most ``at_once``, that single plans need beyond their growth.

    ``freed_bytes``: removed bytes, kept or not; ``rewritten_bytes``: the part of them that is only replaced by new
    content of the same file, not removed from it; ``rewriting_bytes``: size of the files that replace others;
    ``created_bytes``: of those that are created under free names; ``new_bytes``: the new content that is written.
    """

    at_once: int = 1
    names: set[str] = field(default_factory=set)
    actions: Counter[str] = field(default_factory=Counter)
    freed_bytes: int = 0
    rewritten_bytes: int = 0
    rewriting_bytes: int = 0
    created_bytes: int = 0
    new_bytes: int = 0
    peak_bytes: int = 0
    left_bytes: int = 0
    grown_bytes: int = 0
    passing_bytes: list[int] = field(default_factory=list)
    records: int = 0
    kept: list[str] = field(default_factory=list)
    missing_offsets: int = 0
    gaps: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def removed_bytes(self) -> int:
        """The removed bytes that nothing replaces."""
        return self.freed_bytes - self.rewritten_bytes

    @property
    def directories(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, plan: Plan, keeps: bool) -> "PlanTotals":
        """Returns the totals of one plan."""
        needed = space_of(plan, keeps=keeps)  # kept bytes still use disk space when the next plan starts
        steps, replacing = plan.steps, [step for step in plan.steps if step.action == REPLACE]
        return cls(
            names={plan.directory},
            actions=Counter(step.action for step in steps),
            freed_bytes=sum(step.freed_bytes for step in steps),
            rewritten_bytes=sum(step.replaced_bytes for step in replacing),
            rewriting_bytes=sum(step.size for step in replacing),
            created_bytes=sum(step.size for step in steps if step.action == CREATE),
            new_bytes=sum(step.size for step in steps if step.makes and not step.source),
            peak_bytes=needed.peak + plan.staged_bytes,
            left_bytes=needed.left + plan.staged_bytes,
            records=sum(removed.records or 0 for step in steps for removed in step.removed),
            missing_offsets=sum(last - first + 1 for first, last in plan.gaps),
            gaps=[(plan.directory, first, last) for first, last in plan.gaps[:MAX_GAPS]],
        )

    def append(self, later: "PlanTotals") -> None:
        """Adds the totals of plans that are applied after these."""
        if self.at_once == 1:
            self.peak_bytes = max(self.peak_bytes, self.left_bytes + later.peak_bytes)
        else:  # worst case: all plans that grow files are done, none that shrink, and the largest peaks coincide
            grown = max(later.left_bytes, 0)
            self.grown_bytes += grown
            heappush(self.passing_bytes, later.peak_bytes - grown)
            if len(self.passing_bytes) > self.at_once:
                heappop(self.passing_bytes)
            self.peak_bytes = self.grown_bytes + sum(self.passing_bytes)
        self.names |= later.names
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.gaps += later.gaps[: MAX_GAPS - len(self.gaps)]


_SUMS = (
    "actions", "freed_bytes", "rewritten_bytes", "rewriting_bytes", "created_bytes", "new_bytes", "left_bytes",
    "records", "missing_offsets",
)  # fmt: skip


class Space(NamedTuple):
    """Additional bytes in use: at the peak, and in the end (below 0 if space is freed)."""

    peak: int
    left: int


def space_of(plan: Plan, links: bool = True, keeps: bool = True) -> Space:
    """Returns the space that a plan needs, without kseg's own manifests and deltas.

    ``links``: deleted and replaced files are kept in the same file system, by hard links, which need no space;
    otherwise all removed bytes are kept elsewhere. ``keeps``: whether anything is kept.
    """
    deltas, inside = deltas_of(plan), links and keeps
    at = copied = 0
    for k, step in enumerate(plan.steps):
        if k in deltas.removed_ranges:
            at += deltas.added_bytes(k, inside) + deltas.removed_ranges[k].size * inside
        elif step.makes and not step.source:
            at += step.size
        elif step.action == TRUNCATE:
            at += step.freed_bytes * inside + step.size * _has_second_link(plan, step)
        elif step.source and (source := Place(step.source).status()).st_dev != Place(plan.directory).status().st_dev:
            at += source.st_size
            copied += source.st_size * (step.action == EXTEND)
        if step.action == EXTEND and step.before is not None:
            at += step.before.size * _has_second_link(plan, step)
    peak = at
    for k, step in enumerate(plan.steps):
        if k in deltas.removed_ranges and step.before is not None:
            peak = max(peak, at + step.size)
            at += step.size - step.before.size - deltas.added_bytes(k, inside)
        elif step.action == EXTEND and step.before is not None:
            at += step.size - step.before.size
            peak = max(peak, at)
        elif (step.action == TRUNCATE and not _has_second_link(plan, step)) or (
            step.action in (REPLACE, DELETE) and not keeps
        ):
            at -= step.freed_bytes
    return Space(peak, at - copied)


def kept_bytes(plan: Plan, links: bool) -> int:
    """Returns the space that kept bytes need in their file system. ``links``: whole files are kept by hard links."""
    removed_ranges, found = deltas_of(plan).removed_ranges, 0
    for k, step in enumerate(plan.steps):
        if k in removed_ranges:
            found += removed_ranges[k].size
        elif step.action == TRUNCATE or not links:
            found += step.freed_bytes
    return found


def _has_second_link(plan: Plan, step: Step) -> bool:
    """Whether the step has to write a new file, because its file has another hard link, whose bytes must not change."""
    try:
        return (Place(plan.directory) / (step.origin or step.file)).status(follow_symlinks=False).st_nlink > 1
    except FileNotFoundError:
        return False


# The order of steps in a file system without room for the record of a change: those that free space come first.

BLOCK_BYTES = 4096
"""The unit in which most file systems give space to files."""


JOURNAL_BYTES = 4 * BLOCK_BYTES
"""The most space that the journal of a command takes that changes one partition."""


def record_bytes(plan: Plan) -> int:
    """Returns the most space that the folders, manifest and journal of a change take, and the last blocks of its new
    files beyond their ends."""
    files = sum(step.makes or step.action in (TRUNCATE, EXTEND) for step in plan.steps)
    return record_bytes_of(files, len(plan.steps))


def record_bytes_of(files: int, steps: int) -> int:
    """Like `record_bytes`, for a plan with these numbers of new files and steps."""
    return (10 + files) * BLOCK_BYTES + 1000 * steps


@dataclass(frozen=True, slots=True)
class FreeingSteps:
    """The steps of a plan: ``first`` those that need no space, then ``writes``, the new files, which are no logs.

    ``room_bytes``: the free space that all steps need; ``grown_bytes``: the growth of all files together, below 0 if
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
        """The free space that the steps need if journal and manifest are written after them."""
        return max(self.room_bytes, self.grown_bytes + 4 * BLOCK_BYTES + _in_blocks(600 * len(self.steps)))


def freeing_steps(plan: Plan) -> FreeingSteps | None:
    """Returns the steps in that order; None if the plan needs a record first, because it writes a log or its order
    cannot be changed. Raises OSError.
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
    ranges = (piece for step in writes for piece in step.pieces if isinstance(piece, Range))
    if changed & {*(step.file for step in writes), *(os.path.basename(piece.file) for piece in ranges)}:
        return None
    freed = room = 0
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
        at -= old * is_removed_first(step)
        at += _in_blocks(step.size)
        room = max(room, at)
        at -= old * (not is_removed_first(step))
    return FreeingSteps(_logs_last(first), writes, room, at)


def is_removed_first(step: Step) -> bool:
    """Whether the old file is removed before the new one is written: a broker makes a missing index anew."""
    return step.file.endswith(INDEX_SUFFIXES)


def _in_blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def _logs_last(steps: Iterable[Step]) -> list[Step]:
    """Returns the steps with each .log deleted or created after its side files: after an interruption the side files
    left are then planned again."""
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
