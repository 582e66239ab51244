"""Puts back what one command did to a log directory: partitions first, then checkpoints, the marker last."""

import os
from dataclasses import dataclass

from kseg.changes import quarantine
from kseg.changes.checkpoint_merge import taken_back
from kseg.changes.clean_stop import CleanStop, remove_marker
from kseg.changes.disk import Disk
from kseg.changes.journal import (
    ABANDONED,
    DONE,
    MARKER,
    OPEN,
    UNDOING,
    Journal,
    RootFile,
    journals,
    read_root_file,
    replace_file,
)
from kseg.changes.log_directory import changed_partitions, partitions_of
from kseg.changes.manifest import Change
from kseg.changes.plan import Plan
from kseg.changes.undo import changes_of, last_change, plan_all, undo
from kseg.errors import KsegError, StoppedHalfwayError, text_of
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS


@dataclass(frozen=True, slots=True)
class LogDirectoryUndo:
    """What undoing would do. ``partitions``: changes and the plans back, of each partition the newest first;
    ``restored``: files of the root that are put back; ``let_be``: those that are not, as they have changed since;
    ``skipped``: partitions that were put back before.
    """

    journal: Journal
    partitions: list[tuple[Change, Plan]]
    restored: list[str]
    let_be: list[str]
    skipped: list[str]
    place: str = ""


def last_journal(directory: str) -> Journal | None:
    """The last change of a log directory as a whole, also an interrupted one; None where there is none."""
    found = [journal for journal in journals(directory) if journal.state in (OPEN, DONE, ABANDONED)]
    return found[-1] if found else None


def plan_log_directory_undo(journal: Journal, place: str = "") -> LogDirectoryUndo:
    """Touches nothing. ``place``: as in `last_change`. Raises KsegError where a partition cannot be put back."""
    back = []
    for path in reversed(partitions_of(journal.directory, journal.group)):
        change = last_change(path)
        if change.group != journal.group:
            raise KsegError(f"{path}: {change.command!r} came later; undo it first")
        back += plan_all(changes_of(path, journal.group, place))
    there = {os.path.basename(change.directory) for change, _ in back}
    restored: list[str] = []
    let_be: list[str] = []
    for name, known in journal.known.items():
        now = read_root_file(journal.directory, name)
        if now is None and known is None:
            continue
        is_back = _is_as_left(journal, name, now) or _merged(journal, name, now) is not None
        (restored if is_back else let_be).append(name)
    if MARKER in restored and (let_be or any(_has_changed(journal, name) for name in restored)):
        restored.remove(MARKER)  # something was at work here since: a broker has to look into all logs
        let_be.append(MARKER)
    skipped = [name for name in journal.partitions if name not in there]
    if missing := sorted(set(skipped) - set(journal.undone)):
        raise KsegError(
            f"{os.path.join(journal.directory, missing[0])}: what {journal.command!r} kept there is gone; nothing was "
            "undone"
        )
    return LogDirectoryUndo(journal, back, restored, let_be, skipped, place)


def _has_changed(journal: Journal, name: str) -> bool:
    return not _is_as_left(journal, name, read_root_file(journal.directory, name))


def _is_as_left(journal: Journal, name: str, now: RootFile | None) -> bool:
    if journal.state == DONE:
        left = journal.left.get(name)
        return now == left
    if journal.state == ABANDONED:
        return False
    known, planned = journal.known[name], journal.planned.get(name)
    return now == known or (now is None and known is not None) or (now is not None and now.content == planned)


def restored_content(journal: Journal, name: str) -> bytes | None:
    """What a file of the root that is put back holds then; None where it goes. Raises KsegError."""
    known, now = journal.known[name], read_root_file(journal.directory, name)
    merged = _merged(journal, name, now)
    return merged if merged is not None else known.content if known else None


def _merged(journal: Journal, name: str, now: RootFile | None) -> bytes | None:
    """A checkpoint in which others have changed entries since, with those of this change put back; None for others."""
    known, left = journal.known[name], journal.left.get(name)
    if name not in OFFSET_CHECKPOINTS or now is None or left is None or now == left:
        return None
    return taken_back(now.content, known.content if known else b"", left.content)


def sole_change(directory: str, group: str) -> Journal | None:
    """The change of the log directory around a partition that ``group`` names, if it changed no other partition."""
    root, name = os.path.split(os.path.abspath(directory))
    for journal in journals(root):
        if group and journal.group == group:
            done = {*journal.partitions, *(os.path.basename(path) for path in partitions_of(root, group))}
            return journal if done == {name} else None
    return None


def undo_partition(changes: list[Change], disk: Disk | None = None) -> None:
    """Puts changes of one partition back by themselves, the newest first: what `plan_all` has planned just now.

    The journal of the log directory notes it. A marker of a clean stop comes back where nothing has changed around the
    partition since it was removed. The caller holds the lock. Raises KsegError where nothing was undone, else
    StoppedHalfwayError, OSError.
    """
    disk, root = disk or Disk(), os.path.dirname(changes[0].directory)
    name = os.path.basename(changes[0].directory)
    for journal in journals(root):
        if journal.group == changes[0].group and name not in journal.undone:
            journal.append({"undone": name}, disk)
    marker = restorable_marker(changes)
    clean_stop = CleanStop(root, disk)
    undo(changes[0], disk, is_checked=True, clean_stop=clean_stop)
    try:
        for change in changes[1:]:
            undo(change, disk, is_checked=True)
    except KsegError as error:
        raise StoppedHalfwayError(f"{error}; a later change is undone: repeat the command") from error
    if marker is not None:
        replace_file(os.path.join(root, MARKER), marker.content, disk, marker)


def restorable_marker(changes: list[Change]) -> RootFile | None:
    """The marker that comes back with the last of these changes of a partition, if a broker may trust it then."""
    first = changes[-1]
    root = os.path.dirname(first.directory)
    if first.marker is None or os.stat(root).st_mtime_ns != first.root_ns:
        return None
    undone = {change.number for change in changes}
    for path in changed_partitions(root):
        for other in quarantine.changes(path):
            is_one = other.directory == first.directory and other.number in undone
            if not is_one and not other.undoes and other.time_ms >= first.time_ms:
                return None
    return first.marker


def undo_log_directory(found: LogDirectoryUndo, disk: Disk | None = None) -> None:
    """The caller holds the lock and has called `settle_log_directory`.

    Raises StoppedHalfwayError where the disk does not allow it; repeated, it goes on.
    """
    disk, journal = disk or Disk(), found.journal
    try:
        journal.append({"restored": found.restored, "state": UNDOING}, disk)
        go_on(journal, disk, found.place, is_checked=True)
    except StoppedHalfwayError:
        raise
    except (OSError, KsegError) as error:
        raise StoppedHalfwayError(
            f"{journal.directory}: stopped half-way: {text_of(error)}; repeat the command to go on"
        ) from error


def go_on(journal: Journal, disk: Disk, place: str = "", is_checked: bool = False) -> None:
    """Takes what is left to do of an undoing; ``is_checked``: as in `plan_undo`. Raises OSError, KsegError."""
    remove_marker(journal.directory, disk)
    for path in reversed(partitions_of(journal.directory, journal.group)):
        for change in reversed(quarantine.changes(path, place)):
            if change.group == journal.group:
                undo(change, disk, is_checked)
    for name in sorted(journal.restored, key=lambda name: (name == MARKER, name)):  # the marker is the last
        path, known = os.path.join(journal.directory, name), journal.known[name]
        now = read_root_file(journal.directory, name)
        if (merged := _merged(journal, name, now)) is not None:
            if now is None or now.content != merged:
                replace_file(path, merged, disk)
        elif known is None:
            if now is not None:
                disk.unlink(path)
        elif now != known:
            replace_file(path, known.content, disk, known)
    disk.sync_directory(journal.directory)
    journal.remove(disk)
