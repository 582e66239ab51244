"""Computes the disk space that a plan needs in the file system of its directory, at its peak and permanently."""

import os
from typing import NamedTuple

from kseg.changes.delta import deltas_of
from kseg.changes.plan import DELETE, EXTEND, REPLACE, TRUNCATE, Plan, Step
from kseg.stores import trees


class Space(NamedTuple):
    """Additional bytes: the peak, and the difference in the end (below 0 if space is freed)."""

    peak: int
    left: int


def space_of(plan: Plan, links: bool = True, keeps: bool = True) -> Space:
    """Returns the space that a plan needs, without kseg's own manifests and deltas.

    ``links``: deleted and replaced files are kept beside the others by a hard link, which needs no space; otherwise all
    removed bytes are kept elsewhere. ``keeps``: whether anything is kept.
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
        elif _is_copied(plan, step):
            at += trees.status(step.source).st_size
            copied += trees.status(step.source).st_size * (step.action == EXTEND)
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
    """Returns the space that kept bytes need in their file system. ``links``: whether files can be kept there by hard
    links.
    """
    removed_ranges, found = deltas_of(plan).removed_ranges, 0
    for k, step in enumerate(plan.steps):
        if k in removed_ranges:
            found += removed_ranges[k].size
        elif step.action == TRUNCATE or not links:
            found += step.freed_bytes
    return found


def _has_second_link(plan: Plan, step: Step) -> bool:
    """Whether the step writes a new file, because the file has a second hard link whose bytes must not change."""
    try:
        return trees.status(os.path.join(plan.directory, step.origin or step.file), follow_symlinks=False).st_nlink > 1
    except FileNotFoundError:
        return False


def _is_copied(plan: Plan, step: Step) -> bool:
    """Whether the step's content is in another file system."""
    return bool(step.source) and trees.status(step.source).st_dev != trees.status(plan.directory).st_dev
