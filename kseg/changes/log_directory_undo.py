"""Completes or undoes one command's change of a log directory: partitions first, then checkpoints, the marker last."""

import os
from dataclasses import dataclass

from kseg.changes import quarantine
from kseg.changes.apply import roll_forward
from kseg.changes.disk import Disk
from kseg.changes.journal import (
    ABANDONED,
    DONE,
    OPEN,
    UNDOING,
    DirectoryMove,
    Journal,
    RootFile,
    changed_partitions,
    check_log_bytes,
    end_journal,
    forget,
    has_changed_anything,
    journals,
    move_back,
    moved_now,
    partitions_now,
    partitions_of,
    read_root_file,
    remove_marker,
    remove_temporary_files,
    replace_file,
    roll_back_journal,
    root_state,
)
from kseg.changes.lock import log_directory_of
from kseg.changes.manifest import ABANDONED as CHANGE_ABANDONED
from kseg.changes.manifest import Change, ChangedSinceError, write_change
from kseg.changes.new_directories import complete_new_directories
from kseg.changes.plan import Plan
from kseg.changes.undo import changes_of, last_change, plan_all, revert_entries, undo
from kseg.errors import KsegError, PathError, StoppedHalfwayError, errors_at, text_of
from kseg.quantities import shell_line
from kseg.segment.files import CLEAN_SHUTDOWN
from kseg.sidefiles.checkpoints import OFFSET_CHECKPOINTS
from kseg.stores.no_follow import is_directory

# Completes or removes the interrupted changes of a log directory, before the next command starts.

# Completes or removes the interrupted changes of a partition, before the next command starts.


@dataclass(frozen=True, slots=True)
class LogDirectoryUndo:
    """The plan of an undo.

    ``partitions``: the changes and the plans that undo them, the newest first for each partition; ``restored``: root
    files that are restored; ``not_restored``: root files that have changed since and stay as they are; ``skipped``:
    partitions that were undone earlier; ``kept_in``: as in `last_change`; ``moves``: renames of directories that are
    undone; ``used_since``: why the clean shutdown marker is not restored although it has not changed.
    """

    journal: Journal
    partitions: list[tuple[Change, Plan]]
    restored: list[str]
    not_restored: list[str]
    skipped: list[str]
    kept_in: str = ""
    moves: tuple[DirectoryMove, ...] = ()
    used_since: str = ""


def last_journal(directory: str) -> Journal | None:
    """Returns the last change of a log directory as a whole, interrupted or not; None if there is none."""
    found = [journal for journal in journals(directory) if journal.state in (OPEN, DONE, ABANDONED)]
    return found[-1] if found else None


def last_change_beside(directory: str) -> Journal | None:
    """Returns the last change of a partition, if it has changed only files of the log directory; otherwise None."""
    root, name = os.path.split(os.path.abspath(directory))
    found = [journal for journal in journals(root) if journal.path_name == name and journal.state in (OPEN, DONE)]
    if not found or partitions_now(found[-1]):
        return None
    later = (change for change in quarantine.changes(directory) if change.time_ms >= found[-1].time_ms)
    return None if any(not change.undoes for change in later) else found[-1]


def plan_log_directory_undo(journal: Journal, kept_in: str = "") -> LogDirectoryUndo:
    """Plans the undo; changes nothing. ``kept_in``: as in `last_change`. Raises KsegError if a partition cannot be
    restored.
    """
    check_log_bytes(journal.directory, journal.moves)
    moves = tuple(moved_now(journal.directory, journal.moves))
    back = []
    for path in reversed(partitions_of(journal.directory, journal.group)):
        change = last_change(path)
        if change.group != journal.group:
            raise KsegError(f"{path}: {change.command!r} came later; undo it first")
        back += plan_all(changes_of(path, journal.group, kept_in))
    found = {os.path.basename(change.directory) for change, _ in back}
    restored: list[str] = []
    not_restored: list[str] = []
    for name, known in journal.known.items():
        now = read_root_file(journal.directory, name)
        if now is None and known is None:
            continue
        is_restorable = _is_as_left(journal, name, now) or _merged(journal, name, now) is not None
        (restored if is_restorable else not_restored).append(name)
    why = ""
    if CLEAN_SHUTDOWN in restored and (not_restored or any(_has_changed(journal, name) for name in restored)):
        restored.remove(CLEAN_SHUTDOWN)  # another program has changed files since: a broker must recover all logs
        not_restored.append(CLEAN_SHUTDOWN)
    elif CLEAN_SHUTDOWN in restored and (why := _used_since(journal)):
        restored.remove(CLEAN_SHUTDOWN)
    names_now = partitions_now(journal)
    skipped = [name for name in journal.partitions if names_now[name] not in found]
    if missing := sorted(set(skipped) - set(journal.undone)):
        raise KsegError(
            f"{os.path.join(journal.directory, missing[0])}: the bytes that {journal.command!r} kept there are "
            "missing; nothing was undone"
        )
    return LogDirectoryUndo(journal, back, restored, not_restored, skipped, kept_in, moves, why)


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
    """Returns the content of a root file after the undo; None if it is removed. Raises KsegError."""
    known, now = journal.known[name], read_root_file(journal.directory, name)
    merged = _merged(journal, name, now)
    return merged if merged is not None else known.content if known else None


def _merged(journal: Journal, name: str, now: RootFile | None) -> bytes | None:
    """Returns a checkpoint with the entries of this change reverted and those changed by others kept; None for other
    files.
    """
    known, left = journal.known[name], journal.left.get(name)
    if name not in OFFSET_CHECKPOINTS or now is None or left is None or now == left:
        return None
    return revert_entries(now.content, known.content if known else b"", left.content)


def is_sole(journal: Journal, directory: str) -> bool:
    """Whether the change of a log directory has changed this partition and no other one."""
    return set(partitions_now(journal).values()) == {os.path.basename(os.path.abspath(directory))}


def sole_change(directory: str, group: str) -> Journal | None:
    """Returns the change of the surrounding log directory named by ``group``, if this partition is the only one it
    changed.

    Raises KsegError if this partition was restored together with others.
    """
    root, name = os.path.split(os.path.abspath(directory))
    for journal in journals(root):
        if group and journal.group == group:
            if is_sole(journal, directory):
                return journal
            if any(move.target == name for move in moved_now(root, journal.moves)):
                text = f"{directory}: was restored together with others; undo all of them with"
                raise KsegError.with_command(text, shell_line(["kseg", "undo", root]))
    return None


def undo_partition(changes: list[Change], disk: Disk | None = None) -> None:
    """Undoes changes of one partition, the newest first, as planned by `plan_all`.

    The undo is recorded in the journal of the log directory. The clean shutdown marker is removed if a log changes. The
    caller holds the lock. Raises KsegError if nothing was undone, otherwise StoppedHalfwayError, OSError.
    """
    disk, root = disk or Disk(), log_directory_of(changes[0].directory)
    name = os.path.basename(changes[0].directory)
    for journal in journals(root):
        if journal.group == changes[0].group and name not in journal.undone:
            journal.append({"undone": name}, disk)
    marker = read_root_file(root, CLEAN_SHUTDOWN)
    if any(change.changes_a_log for change in changes):
        remove_marker(root, disk)
    for k, change in enumerate(changes):
        try:
            undo(change, disk, is_checked=True)
        except StoppedHalfwayError:
            raise
        except KsegError as error:
            if k:
                raise StoppedHalfwayError(f"{error}; a later change is undone: repeat the command") from error
            if marker is not None and not os.path.lexists(path := os.path.join(root, CLEAN_SHUTDOWN)):
                replace_file(path, marker.content, disk, marker)
            raise


def _used_since(journal: Journal) -> str:
    """Returns why the marker stays away: the log directory, or a log in it, has changed since the marker was removed,
    apart from the files that an undo restores. "" if nothing has, or if there was no marker.
    """
    if journal.known[CLEAN_SHUTDOWN] is None:
        return ""
    moves = moved_now(journal.directory, journal.moves)
    if journal.root and root_state(journal.directory, journal.known, moves) != journal.root:
        return "the log directory has changed since"
    for path in changed_partitions(journal.directory):
        for other in quarantine.changes(path):
            is_later = other.group != journal.group and other.time_ms >= journal.time_ms
            if is_later and not other.undoes and other.changes_a_log:
                return f"{other.command!r} has changed {path} since"
    return ""


def undo_log_directory(found: LogDirectoryUndo, disk: Disk | None = None) -> None:
    """Undoes the change. The caller holds the lock and has called `complete_interrupted_in_log_directory`.

    Raises StoppedHalfwayError if a system call fails; the next call continues.
    """
    disk, journal = disk or Disk(), found.journal
    try:
        journal.append({"restored": found.restored, "state": UNDOING}, disk)
        continue_undo(journal, disk, found.kept_in, is_checked=True)
    except StoppedHalfwayError:
        raise
    except (OSError, KsegError) as error:
        raise StoppedHalfwayError(
            f"{journal.directory}: stopped half-way: {text_of(error)}; repeat the command to go on"
        ) from error


def continue_undo(journal: Journal, disk: Disk, kept_in: str = "", is_checked: bool = False) -> None:
    """Does the remaining work of an undo. ``is_checked``: as in `plan_undo`. Raises OSError, KsegError."""
    remove_marker(journal.directory, disk)
    move_back(journal.directory, journal.moves, disk)
    for path in reversed(partitions_of(journal.directory, journal.group)):
        for change in reversed(quarantine.changes(path, kept_in)):
            if change.group == journal.group:
                undo(change, disk, is_checked)
    for name in sorted(journal.restored, key=lambda name: (name == CLEAN_SHUTDOWN, name)):  # the marker comes last
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


def complete_interrupted(directory: str, disk: Disk | None = None, before_undo: bool = False) -> list[str]:
    """Rolls committed changes forward and removes leftovers. Returns a sentence for each action.

    A change is abandoned if another program, such as a broker, has changed its files since; the bytes that it kept
    stay. The caller holds the lock. ``before_undo``: a change that cannot be completed stays, because an undo follows;
    otherwise raises StoppedHalfwayError if a system call fails. Raises KsegError if a manifest cannot be read.
    """
    disk, messages = disk or Disk(), []
    directory = os.path.abspath(directory)
    with errors_at(f"{directory}: an interrupted change cannot be completed", StoppedHalfwayError):
        _sync_last(directory, disk)
        pending = quarantine.pending(directory)
        if any(change.changes_a_log for change in pending):
            remove_marker(log_directory_of(directory), disk)
        for change in pending:
            if change.number in quarantine.numbers(directory):  # completing an undo has removed the undone change
                messages.append(f"{directory}: {_complete(change, disk, before_undo)}")
        if quarantine.remove_leftovers(directory, disk):
            messages.append(f"{directory}: temporary files of an interrupted command were removed")
    return messages


def _sync_last(directory: str, disk: Disk) -> None:
    """Syncs what a killed process may have written last in the quarantine: it counts as done. Raises OSError."""
    folder = quarantine.folder_of(directory)
    if is_directory(folder):
        disk.sync_directory(folder)
        for number in quarantine.numbers(directory)[-1:]:
            disk.sync_directory(os.path.join(folder, str(number)))


def _complete(change: Change, disk: Disk, before_undo: bool) -> str:
    name = f"the undo of change {change.undoes}" if change.undoes else repr(change.command)
    try:
        roll_forward(change, disk)
    except (ChangedSinceError, PathError) as error:
        if change.undoes:
            quarantine.end(change, disk=disk)  # it holds only hard links and copies
            return f"{name} was interrupted and is given up: {error}"
        change.state = CHANGE_ABANDONED
        write_change(change, disk)
        kept = f"kept bytes are in {change.kept}" if change.kept else "no bytes were kept"
        return f"{name} was interrupted and is given up: {error}; {kept}"
    except StoppedHalfwayError as error:
        if change.undoes or not before_undo:
            raise
        return f"{name} was interrupted and cannot be completed: {text_of(error.__cause__ or error)}"
    return f"{name} was interrupted, and is complete now"


def complete_interrupted_in_log_directory(
    directory: str, disk: Disk | None = None, before_undo: bool = False
) -> list[str]:
    """As `complete_interrupted`, for all partitions of a log directory, and for an interrupted undo.

    Syncs the names in the directory and all journals first: what a killed process has written counts as done.
    """
    directory, disk, messages = os.path.abspath(directory), disk or Disk(), []
    with errors_at(f"{directory}: an interrupted change cannot be completed", StoppedHalfwayError):
        if found := journals(directory):
            for journal in found:
                journal.sync(disk)
            disk.sync_directory(directory)
        remove_temporary_files(directory, disk)
        messages += complete_new_directories(directory, disk)
        for path in changed_partitions(directory):
            messages += complete_interrupted(path, disk, before_undo)
        for journal in found:
            if journal.state == OPEN and not has_changed_anything(journal):
                roll_back_journal(journal, disk)
            elif journal.state == OPEN and journal.path_name and journal.known.keys() == {CLEAN_SHUTDOWN}:
                # Its partition is complete, and no file of the root changes.
                missing = partitions_now(journal).keys() - set(journal.partitions)
                journal.append_all([{"partition": name} for name in missing], disk)
                end_journal(journal, disk)
            elif journal.state == UNDOING:
                continue_undo(journal, disk)
                messages.append(f"{directory}: the undo of {journal.command!r} was interrupted, and is complete now")
            elif journal.state == DONE and not journal.keeps:
                forget(journal, disk)
    return messages
