"""How much room carrying a plan out takes in the file system of its directory, and how much of it for good."""

import os
from typing import NamedTuple

from kseg.changes.plan import DELETE, EXTEND, REPLACE, TRUNCATE, Plan, Step
from kseg.changes.recipes import remaking_of


class Room(NamedTuple):
    """In bytes, more than before: the most on the way, and in the end (below 0 where room is freed)."""

    peak: int
    left: int


def room_of(plan: Plan, links: bool = True, keeps: bool = True) -> Room:
    """What kseg notes of its own work (manifest, recipes) is not counted.

    ``links``: what is deleted or replaced is kept beside the files by a hard link, which takes none; if not, all that
    goes is kept elsewhere. ``keeps``: whether anything is kept.
    """
    remaking, inside = remaking_of(plan), links and keeps
    at = copied = 0
    for k, step in enumerate(plan.steps):
        if k in remaking.offcuts:
            at += remaking.added_bytes(k, inside) + remaking.offcuts[k].size * inside
        elif step.makes and not step.source:
            at += step.size
        elif step.action == TRUNCATE:
            at += step.freed_bytes * inside + step.size * _has_other_name(plan, step)
        elif _is_copied(plan, step):
            at += os.stat(step.source).st_size
            copied += os.stat(step.source).st_size * (step.action == EXTEND)
        if step.action == EXTEND and step.before is not None:
            at += step.before.size * _has_other_name(plan, step)
    peak = at
    for k, step in enumerate(plan.steps):
        if k in remaking.offcuts and step.before is not None:
            peak = max(peak, at + step.size)
            at += step.size - step.before.size - remaking.added_bytes(k, inside)
        elif step.action == EXTEND and step.before is not None:
            at += step.size - step.before.size
            peak = max(peak, at)
        elif (step.action == TRUNCATE and not _has_other_name(plan, step)) or (
            step.action in (REPLACE, DELETE) and not keeps
        ):
            at -= step.freed_bytes
    return Room(peak, at - copied)


def kept_bytes(plan: Plan, links: bool) -> int:
    """What is kept takes so much room where it lies, in all. ``links``: whether files can be kept there by a link."""
    offcuts, found = remaking_of(plan).offcuts, 0
    for k, step in enumerate(plan.steps):
        if k in offcuts:
            found += offcuts[k].size
        elif step.action == TRUNCATE or not links:
            found += step.freed_bytes
    return found


def _has_other_name(plan: Plan, step: Step) -> bool:
    """Whether the step's file is written anew, as it has another name whose bytes are not to change."""
    try:
        return os.stat(os.path.join(plan.directory, step.origin or step.file), follow_symlinks=False).st_nlink > 1
    except FileNotFoundError:
        return False


def _is_copied(plan: Plan, step: Step) -> bool:
    """Whether the step's content lies in another file system."""
    return bool(step.source) and os.stat(step.source).st_dev != os.stat(plan.directory).st_dev
