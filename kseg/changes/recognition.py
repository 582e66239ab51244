"""Identifies the files of an interrupted change in a copy of its directory, where all inodes differ from the manifest.

Copies made with `cp -a`, rsync or snapshots preserve sizes and modification times. A kept file identifies its original
by the SHA-256, and files of equal content are told apart by their times; other files must have the recorded size and
modification time.
"""

from dataclasses import replace

from kseg.changes import kept_files
from kseg.changes.expected_states import ExpectedStates
from kseg.changes.manifest import Change
from kseg.changes.plan import TRUNCATE, FileState, file_state


def recognize(change: Change) -> bool:
    """Whether every file is known to the change; the change then gets the new inodes. Raises OSError, PathError."""
    expected = ExpectedStates(change)
    inodes_now = _staged(change)
    if inodes_now is None:
        return False
    candidates: dict[str, list[int]] = {}
    present: dict[str, FileState] = {}
    replaced = _replaced(change)
    for name in expected.names:
        now = file_state(change.path(name))
        if now is not None and now.inode not in inodes_now.values():
            present[name] = now
            inodes = [inode for inode in expected.inodes(name) if inode not in inodes_now and inode not in replaced]
            inodes = [inode for inode in inodes if _is_like(change, expected, inode, name, now)]
            timed = [inode for inode in inodes if expected.has_time(inode, now)]
            if len(timed) == 1:  # others may have equal contents, such as empty files
                inodes = timed
            candidates[name] = [now.inode] if now.inode in inodes else inodes
    while candidates:
        name = min(candidates, key=lambda name: len(candidates[name]))
        if len(candidates[name]) != 1:
            return False
        [inode] = candidates.pop(name)
        inodes_now[inode] = present[name].inode
        for others in candidates.values():
            others[:] = [other for other in others if other != inode]
    replace_inodes(change, {inode: inodes_now.get(inode, -inode) for inode in expected.all_inodes})
    return True


def is_staged(change: Change) -> bool:
    """Whether the staged files have the recorded inodes. Raises OSError, PathError."""
    staged = {made.inode: now for k, made in change.made.items() if (now := file_state(change.new(k)))}
    return all(inode == now.inode for inode, now in staged.items())


def _staged(change: Change) -> dict[int, int] | None:
    """Returns the inodes of staged files by recorded inode; None if a file is not the recorded one."""
    found = {}
    for k, made in change.made.items():
        now = file_state(change.new(k))
        if now is None:
            continue
        if k not in change.by_delta and now[1:] != made[1:]:
            return None
        found[made.inode] = now.inode
    return found


def _replaced(change: Change) -> set[int]:
    """Inodes of old files that were replaced by new ones."""
    return {
        step.before.inode
        for k, step in enumerate(change.steps)
        if k in change.made
        and step.before is not None
        and step.before.inode != change.made[k].inode
        and file_state(change.new(k)) is None
    }


def _is_like(change: Change, expected: ExpectedStates, inode: int, name: str, now: FileState) -> bool:
    """Whether the file under a name can be the one that had this inode."""
    if not expected.may_have_size(inode, now.size):
        return False
    for k, step in enumerate(change.steps):
        kept = change.stored.get(k)
        is_original = step.before is not None and step.made_by is None and step.before.inode == inode
        if kept is not None and is_original and step.before is not None and now.size == step.before.size:
            start = step.size if step.action == TRUNCATE else 0
            is_same = kept_files.digest(change.path(name), start, kept.data_size) == kept.sha256
            return is_same and now.size == start + kept.size
    return expected.may_have_time(inode, now)


def replace_inodes(change: Change, inodes: dict[int, int]) -> None:
    """Replaces inodes in the change."""
    for k, step in enumerate(change.steps):
        if step.before is not None and step.made_by is None:
            before = step.before._replace(inode=inodes.get(step.before.inode, step.before.inode))
            change.steps[k] = replace(step, before=before)
    for k, made in change.made.items():
        change.made[k] = made._replace(inode=inodes.get(made.inode, made.inode))
