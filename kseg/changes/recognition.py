"""Finds the files of an interrupted change in a copy of its directory, where no file has the inode that was noted.

Copies as `cp -a`, rsync and snapshots make them keep sizes and times. What was kept tells by its SHA-256 whether an old
file is the same; of others size and time have to be as they were noted.
"""

from dataclasses import replace

from kseg.changes import kept_files
from kseg.changes.course import Course
from kseg.changes.manifest import Change
from kseg.changes.plan import TRUNCATE, Seen, seen


def recognize(change: Change) -> bool:
    """Whether each file is one that the change knows; then the change has its inode. Raises OSError, PathError."""
    course = Course(change)
    found = _staged(change)
    if found is None:
        return False
    candidates: dict[str, list[int]] = {}
    there: dict[str, Seen] = {}
    gone = _replaced(change)
    for name in course.names:
        now = seen(change.path(name))
        if now is not None and now.inode not in found.values():
            there[name] = now
            inodes = [inode for inode in course.inodes(name) if inode not in found and inode not in gone]
            inodes = [inode for inode in inodes if _is_like(change, course, inode, name, now)]
            candidates[name] = [now.inode] if now.inode in inodes else inodes
    while candidates:
        name = min(candidates, key=lambda name: len(candidates[name]))
        if len(candidates[name]) != 1:
            return False
        [inode] = candidates.pop(name)
        found[inode] = there[name].inode
        for others in candidates.values():
            others[:] = [other for other in others if other != inode]
    take_inodes(change, {inode: found.get(inode, -inode) for inode in course.all_inodes})
    return True


def is_staged(change: Change) -> bool:
    """Whether the new files that are not in place yet have the inodes that were noted. Raises OSError, PathError."""
    staged = {made.inode: now for k, made in change.made.items() if (now := seen(change.new(k)))}
    return all(inode == now.inode for inode, now in staged.items())


def _staged(change: Change) -> dict[int, int] | None:
    """Inodes of new files that are not in place yet, by those that were noted; None where one is another file."""
    found = {}
    for k, made in change.made.items():
        now = seen(change.new(k))
        if now is None:
            continue
        if k not in change.remade and now[1:] != made[1:]:
            return None
        found[made.inode] = now.inode
    return found


def _replaced(change: Change) -> set[int]:
    """Inodes of old files whose places new ones have taken."""
    return {
        step.before.inode
        for k, step in enumerate(change.steps)
        if k in change.made
        and step.before is not None
        and step.before.inode != change.made[k].inode
        and seen(change.new(k)) is None
    }


def _is_like(change: Change, course: Course, inode: int, name: str, now: Seen) -> bool:
    """Whether what lies under a name may be the file that had this inode."""
    if not course.may_have_size(inode, now.size):
        return False
    for k, step in enumerate(change.steps):
        kept = change.stored.get(k)
        is_it = step.before is not None and step.made_by is None and step.before.inode == inode
        if kept is not None and is_it and step.before is not None and now.size == step.before.size:
            start = step.size if step.action == TRUNCATE else 0
            is_same = kept_files.digest(change.path(name), start, kept.data_size) == kept.sha256
            return is_same and now.size == start + kept.size
    return course.may_have_time(inode, now)


def take_inodes(change: Change, inodes: dict[int, int]) -> None:
    """Notes that files have other inodes than before."""
    for k, step in enumerate(change.steps):
        if step.before is not None and step.made_by is None:
            before = step.before._replace(inode=inodes.get(step.before.inode, step.before.inode))
            change.steps[k] = replace(step, before=before)
    for k, made in change.made.items():
        change.made[k] = made._replace(inode=inodes.get(made.inode, made.inode))
