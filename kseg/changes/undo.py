"""Undoes and completes changes of partitions and log directories: partitions first, then checkpoints, the marker last.

The undo of a partition's change is made from the bytes in its quarantine; it is a plan, applied like any other.
"""

import os
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from kseg.changes import accepted_gaps, full_disk, manifest, quarantine
from kseg.changes import journal as journaling
from kseg.changes.apply import Keeping, apply, check_intermediate, rolled_forward
from kseg.changes.content import old_content
from kseg.changes.disk import Disk, opened
from kseg.changes.full_disk import TakenBack
from kseg.changes.journal import OPEN, UNDOING, DirectoryMove, Journal, RootFile
from kseg.changes.lock import log_directory_of
from kseg.changes.manifest import ABANDONED, COMMITTED, DONE, Change, ChangedSinceError, ExpectedStates, write_change
from kseg.changes.new_directories import complete_new_directories
from kseg.changes.plan import CREATE, RENAME, REPLACE, TRUNCATE, Content, FileState, Plan, Step, file_state
from kseg.errors import KsegError, PathError, StoppedHalfwayError, errors_at, text_of
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.quantities import shell_line
from kseg.segment.files import CLEAN_SHUTDOWN, directory_name
from kseg.sidefiles import checkpoints
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.stores.no_follow import directories_held, is_directory
from kseg.stores.place import Place

# Reverts one command's entries in a checkpoint of a log directory or of leader epochs, and keeps those of others.


def revert_entries(now: bytes, known: bytes, left: bytes) -> bytes | None:
    """Returns ``now`` with the entries that differ between ``known`` and ``left`` set back to those in ``known``.

    ``known`` is the file before the command, ``left`` the file after it, ``now`` the file today. Entries that are
    already reverted stay. Returns None if an entry has a third value, or if one of the contents is not a valid
    checkpoint.
    """
    contents = [list(checkpoints.read_offset_checkpoint(content)) for content in (now, known, left)]
    if any(map(problems_of, contents)):
        return None
    if now == left:
        return known
    found, before, after = map(checkpoints.offsets_of, contents)
    merged = dict(found)
    for partition in before.keys() | after.keys():
        old, new, current = before.get(partition), after.get(partition), found.get(partition)
        if old == new or current == old:
            continue
        if current != new:
            return None
        if old is None:
            del merged[partition]
        else:
            merged[partition] = old
    if merged == found:
        return now
    return checkpoints.build_offset_checkpoint(merged)


def restore_start(known: bytes, now: bytes) -> bytes | None:
    """Returns leader epochs: ``now`` with the entries of ``known`` that precede its first entry.

    Returns None if ``now`` is not a continuation of ``known``, or if its start was not the part that changed.
    """
    items, found = list(checkpoints.read_leader_epochs(known)), list(checkpoints.read_leader_epochs(now))
    old, new = entries_of(items), entries_of(found)
    if problems_of(items) or problems_of(found) or not new:
        return None
    first = new[0]
    start = next((entry.start_offset for entry in old if entry.epoch == first.epoch), None)
    if start is None or start > first.start_offset:
        return None
    before = [entry for entry in old if entry.epoch < first.epoch]
    whole = [*before, checkpoints.EpochEntry(first.epoch, start), *new[1:]]
    return None if whole == new else checkpoints.build_leader_epochs(whole)


def changes_of(directory: str, group: str | None = None, kept_in: str = "") -> list[Change]:
    """Returns the changes that `undo` can undo, newest first: those that are done or interrupted.

    ``group``: only those of this group; ``kept_in``: as in `quarantine.changes`.
    """
    return _undoable(change for change in quarantine.changes(directory, kept_in) if group in (None, change.group))


def _undoable(changes: Iterable[Change]) -> list[Change]:
    return [change for change in reversed([*changes]) if not change.undoes and change.state != ABANDONED]


def last_change(directory: str, kept_in: str = "") -> Change:
    """Returns the change that `undo` undoes, the newest of `changes_of`. Raises KsegError if there is none."""
    if not (found := changes_of(directory, kept_in=kept_in)):
        raise KsegError(f"{directory}: there is no change to undo")
    return found[0]


def plan_undo(change: Change, later: Mapping[str, FileState | None] | None = None, is_checked: bool = False) -> Plan:
    """Plans the undo; changes nothing. ``later``: states of files after later changes are undone.

    ``is_checked``: the digests of the kept bytes were verified just before. Raises ChangedSinceError if a file has
    changed since the change, KsegError if the kept bytes are missing.
    """
    found = later or {}
    with errors_at(change.directory, KsegError, "; nothing was undone"):
        if change.state == COMMITTED:
            check_intermediate(change)
        for name, left in change.after.items() if change.state != COMMITTED else ():
            now = found[name] if name in found else file_state(change.path(name))
            if not _is_as_left(change, name, left, now) and _epochs_since(change, name) is None:
                where = f"; removed bytes are in {change.kept}" if change.kept else ""
                raise ChangedSinceError(
                    f"{change.path(name)}: has changed since {change.command!r}, or was copied without its time "
                    f"(cp -a keeps it); nothing was undone{where}"
                )
        quarantine.check_kept_path(change)
        for k, step in enumerate(change.steps):
            if not step.is_kept:
                continue
            if not change.kept:
                raise KsegError(f"{change.directory}: {change.command!r} kept nothing; it cannot be undone")
            kept, by_delta = file_state(change.old(k)), change.by_delta.get(k)
            size = by_delta.size if by_delta else step.freed_bytes
            is_other = kept is None or kept.size < size or (kept.size > size and (step.action == TRUNCATE or by_delta))
            stored = by_delta or change.stored.get(k)  # none if the file was unreadable
            if is_other or (stored and not is_checked and not manifest.is_unchanged(change.old(k), stored)):
                raise KsegError(f"{change.old(k)}: is missing or has changed since; nothing was undone")
        return _Reversal(change, found).plan


def plan_all(changes: list[Change]) -> list[Plan]:
    """As `plan_undo`, for several changes of a partition, newest first."""
    later, plans = dict[str, FileState | None](), list[Plan]()
    for change in changes:
        plans.append(plan_undo(change, later))
        later.update(ExpectedStates(change).initial)
    return plans


def undo(change: Change, disk: Disk | None = None, is_checked: bool = False) -> None:
    """Undoes a change and removes its quarantine. The caller holds the lock.

    ``is_checked``: as in `plan_undo`. Raises as `plan_undo` and `apply` do.
    """
    disk = disk or Disk()
    plan = plan_undo(change, is_checked=is_checked)
    with errors_at(change.folder, StoppedHalfwayError, "; repeat the command"):
        if plan:
            apply(plan, f"undo of {change.number}", Keeping(keeps=False), disk, undoes=change.number)
            if change.is_kept_path_given:
                quarantine.remove_kept(change.kept, disk)
            return
        accepted_gaps.withdraw(change.directory, change.gaps, disk)
        quarantine.end(change, disk=disk)  # there is nothing to restore


def _is_as_left(change: Change, name: str, left: FileState | None, now: FileState | None) -> bool:
    if now is None and any(step.keeps and step.target == name for step in change.steps):
        return True  # a broker has deleted the file, as intended
    return (left and left[1:]) == (now and now[1:])


def _epochs_since(change: Change, name: str) -> bytes | None:
    """Returns the leader epochs for a log whose start is restored while a broker has appended epochs; None in other
    cases.
    """
    k = next((k for k, step in enumerate(change.steps) if step.action == REPLACE and step.file == name), None)
    if name != checkpoints.LEADER_EPOCHS or k is None or not change.kept or change.state != DONE:
        return None
    with suppress(FileNotFoundError):
        with Place(change.old(k)).open() as known, Place(change.path(name)).open() as now:
            return restore_start(known.read(MAX_ROOT_FILE_BYTES), now.read(MAX_ROOT_FILE_BYTES))
    return None


class _Reversal:
    """Reverses the applied steps of a change, last first."""

    def __init__(self, change: Change, later: Mapping[str, FileState | None]) -> None:
        self.plan = Plan(change.directory, restores_from=change.kept if change.is_kept_inside else "")
        self._change, self._later = change, later
        for name, found in later.items():
            self.plan.assume(name, found)
        self._restored: dict[int | None, int | None] = {}  # inodes of old files by the step that restores them
        for k in range(len(change.steps) - 1, -1, -1):
            if self._is_applied(k, change.steps[k]):
                self._reverse(k, change.steps[k])

    def _is_applied(self, k: int, step: Step) -> bool:
        """Whether step k was applied. All later steps are already reversed in the plan."""
        if self._change.state == DONE:
            return True  # inodes do not matter: this may be a copy of the directory
        changed_inode = self._change.changed_inode(k)
        if step.action == CREATE:
            return self._inode(step.file) == self._change.made[k].inode
        if step.action == RENAME:
            return self._inode(step.target) == changed_inode or (step.keeps and not self._is_somewhere(changed_inode))
        if step.action == TRUNCATE:
            now = self.plan.state_of(step.file)
            return self._inode(step.file) == changed_inode and now is not None and now.size == step.size
        return not self._is_somewhere(changed_inode)

    def _inode(self, name: str) -> int | None:
        """Returns the inode under a name after the steps so far; a restored file counts as the old one."""
        found = self.plan.file_at(name)
        if found is None:
            return None
        return found.state.inode if found.made_by is None else self._restored.get(found.made_by)

    def _is_somewhere(self, inode: int | None) -> bool:
        names = {name for step in self._change.steps for name in (step.file, step.target) if name}
        return any(self._inode(name) == inode for name in names)

    def _reverse(self, k: int, step: Step) -> None:
        change = self._change
        if step.action == CREATE:
            self.plan.delete(step.file, "was not there before")
            return
        if step.action == RENAME and self.plan.file_at(step.target) is not None:
            self.plan.rename(step.target, step.file, "was called so before")
            return
        if step.made_by is not None:
            return
        if step.action == TRUNCATE and step.before is not None:
            self.plan.extend(step.file, change.old(k), step.before.size, step.before.mtime_ns, "was cut off")
            return
        if change.state == DONE and step.file in change.after and step.file not in self._later:
            now = file_state(change.path(step.file))
            is_as_left = _is_as_left(change, step.file, change.after[step.file], now)
            if not is_as_left and (epochs := _epochs_since(change, step.file)) is not None:
                self.plan.write(step.file, [epochs], "was so before, but for the epochs since")
                return
        if k in change.by_delta and step.before is not None:
            found = self.plan.file_at(step.file)
            name = found.origin if found else step.file
            pieces = Content(partial(old_content, change, k, name), step.before.size)
            deque(pieces, maxlen=0)  # raises if the delta does not fit the file
            model = change.old(k) if change.is_kept_inside else ""
            self.plan.write(step.file, pieces, "was so before", mtime_ns=step.before.mtime_ns, model=model)
        else:
            self.plan.write(step.file, (), "was there before", source=change.old(k))
        self._restored[len(self.plan.steps) - 1] = self._change.changed_inode(k)


def purge(change: Change, disk: Disk | None = None) -> None:
    """Removes the kept bytes of a finished change, except for the record of its gaps.

    Raises StoppedHalfwayError.
    """
    with errors_at(change.folder, StoppedHalfwayError, "; repeat the command"):
        accepted_gaps.end(change, disk=disk or Disk())


# The undo of one command's change of a log directory.


class LogDirectoryUndo(NamedTuple):
    """The plan of an undo.

    ``plans``: those that undo the changes of partitions, the newest first for each; ``restored``: contents of the root
    files that are restored, None to remove one; ``not_restored``: root files that have changed since and stay as they
    are; ``skipped``: partitions that were undone earlier; ``kept_in``: as in `last_change`;
    ``moves``: renames of directories that are undone; ``used_since``: why the clean shutdown marker is not restored
    although it has not changed.
    """

    journal: Journal
    plans: list[Plan]
    restored: dict[str, bytes | None]
    not_restored: list[str]
    skipped: list[str]
    kept_in: str = ""
    moves: tuple[DirectoryMove, ...] = ()
    used_since: str = ""


def last_journal(directory: str) -> Journal | None:
    """Returns the last change of a log directory as a whole, interrupted or not; None if there is none."""
    found = [journal for journal in journaling.journals(directory) if journal.state in (OPEN, DONE, ABANDONED)]
    return found[-1] if found else None


def last_change_beside(directory: str) -> Journal | None:
    """Returns the last change of a partition, if it has changed only files of the log directory; otherwise None."""
    root, name = os.path.split(Place(directory).absolute)
    journals = journaling.journals(root)
    found = [journal for journal in journals if journal.path_name == name and journal.state in (OPEN, DONE)]
    if not found or journaling.partitions_now(found[-1]):
        return None
    later = (change for change in quarantine.changes(directory) if change.time_ms >= found[-1].time_ms)
    return None if any(not change.undoes for change in later) else found[-1]


def plan_log_directory_undo(journal: Journal, kept_in: str = "") -> LogDirectoryUndo:
    """Plans the undo; changes nothing. ``kept_in``: as in `last_change`. Raises KsegError if a partition cannot be
    restored.
    """
    journaling.check_log_bytes(journal.directory, journal.moves)
    moves = tuple(journaling.moved_now(journal.directory, journal.moves))
    plans = list[Plan]()
    for path in reversed(journaling.partitions_of(journal)):
        change = last_change(path)
        if change.group != journal.group:
            raise KsegError(f"{path}: {change.command!r} came later; undo it first")
        plans += plan_all(_undoable(journal.changes_of(path, kept_in)))
    found = {os.path.basename(plan.directory) for plan in plans}
    restored, not_restored, are_as_left = dict[str, bytes | None](), list[str](), True
    for name, known in journal.known.items():
        now = journaling.read_root_file(journal.directory, name)
        if now is None and known is None:
            continue
        if journal.state == DONE:
            is_as_left = now == journal.left.get(name)
        else:
            is_as_left = now in (known, None) or (now is not None and now.content in journal.contents(name))
            is_as_left &= journal.state != ABANDONED
        if (merged := _merged(journal, name, now)) is None and not is_as_left:
            not_restored.append(name)
        else:
            restored[name] = merged if merged is not None else known.content if known else None
            are_as_left &= is_as_left
    why = ""
    if CLEAN_SHUTDOWN in restored and (not_restored or not are_as_left):
        del restored[CLEAN_SHUTDOWN]  # a broker must recover all logs
        why = "the log directory has changed since"
    elif CLEAN_SHUTDOWN in restored and (why := _used_since(journal)):
        del restored[CLEAN_SHUTDOWN]
    names_now = journaling.partitions_now(journal)
    skipped = [name for name in journal.partitions if names_now[name] not in found]
    if missing := sorted(set(skipped) - set(journal.undone)):
        raise KsegError(
            f"{os.path.join(journal.directory, missing[0])}: the bytes that {journal.command!r} kept there are "
            "missing; nothing was undone"
        )
    return LogDirectoryUndo(journal, plans, restored, not_restored, skipped, kept_in, moves, why)


def _merged(journal: Journal, name: str, now: RootFile | None) -> bytes | None:
    """Returns a checkpoint with the entries of this change reverted and those changed by others kept; None for other
    files.
    """
    known, left = journal.known[name], journal.left.get(name)
    if name not in checkpoints.OFFSET_CHECKPOINTS or now is None or left is None or now == left:
        return None
    return revert_entries(now.content, known.content if known else b"", left.content)


def is_sole(journal: Journal, directory: str) -> bool:
    """Whether the change of a log directory has changed this partition and no other one."""
    return set(journaling.partitions_now(journal).values()) == {directory_name(directory)}


def sole_change(directory: str, group: str) -> Journal | None:
    """Returns the change of the surrounding log directory named by ``group``, if this partition is the only one it
    changed.

    Raises KsegError if this partition was restored together with others.
    """
    root, name = os.path.split(Place(directory).absolute)
    for journal in journaling.journals(root):
        if group and journal.group == group:
            if is_sole(journal, directory):
                return journal
            if any(move.target == name for move in journaling.moved_now(root, journal.moves)):
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
    for journal in journaling.journals(root):
        if journal.group == changes[0].group and name not in journal.undone:
            journal.note(disk, undone=[*journal.undone, name], partitions=sorted({*journal.partitions, name}))
    marker = journaling.read_root_file(root, CLEAN_SHUTDOWN)
    if any(change.changes_a_log for change in changes):
        journaling.remove_marker(root, disk)
    for k, change in enumerate(changes):
        try:
            undo(change, disk, is_checked=True)
        except StoppedHalfwayError:
            raise
        except KsegError as error:
            if k:
                raise StoppedHalfwayError(f"{error}; a later change is undone: repeat the command") from error
            if marker is not None and not Place(path := Place(root) / CLEAN_SHUTDOWN).lexists():
                journaling.replace_file(path, marker.content, disk, marker)
            raise


def _used_since(journal: Journal) -> str:
    """Returns why the marker stays away: the log directory, or a log in it, has changed since the marker was removed,
    apart from the files that an undo restores. "" if nothing has, or if there was no marker.
    """
    if journal.known[CLEAN_SHUTDOWN] is None:
        return ""
    moves = journaling.moved_now(journal.directory, journal.moves)
    if journaling.root_state(journal.directory, journal.known, moves) != journal.root:
        return "the log directory has changed since"
    for path in journaling.changed_partitions(journal.directory):
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
    with journaling.stopping_halfway(journal.directory, "repeat the command to go on"):
        journal.note(disk, restored=list(found.restored), state=UNDOING)
        _continue_undo(journal, disk, found.kept_in, is_checked=True)


def _continue_undo(journal: Journal, disk: Disk, kept_in: str = "", is_checked: bool = False) -> None:
    """Does the remaining work of an undo. ``is_checked``: as in `plan_undo`. Raises OSError, KsegError."""
    journaling.remove_marker(journal.directory, disk)
    journaling.carry_out(journal.directory, journal.moves, disk, is_back=True)
    for path in reversed(journaling.changed_partitions(journal.directory)):
        for change in reversed(journal.changes_of(path, kept_in)):
            undo(change, disk, is_checked)
    for name in sorted(journal.restored, key=lambda name: (name == CLEAN_SHUTDOWN, name)):  # the marker comes last
        path, known = Place(journal.directory) / name, journal.known[name]
        now = journaling.read_root_file(journal.directory, name)
        if (merged := _merged(journal, name, now)) is not None:
            if now and now.content != merged:
                journaling.replace_file(path, merged, disk)
        elif known is None:
            if now is not None:
                disk.unlink(path)
        elif now != known:
            journaling.replace_file(path, known.content, disk, known)
    disk.sync_directory(journal.directory)
    journal.remove(disk)


# Completes or removes the interrupted changes of a partition or log directory, before the next command starts.


def complete_interrupted(directory: str, disk: Disk | None = None, before_undo: bool = False) -> list[str]:
    """Rolls committed changes forward and removes leftovers. Returns a sentence for each action.

    A change is abandoned if another program, such as a broker, has changed its files since; the bytes that it kept
    stay. The caller holds the lock. ``before_undo``: a change that cannot be completed stays, because an undo follows;
    otherwise raises StoppedHalfwayError if a system call fails. Raises KsegError if a manifest cannot be read.
    """
    disk, messages = disk or Disk(), []
    directory = Place(directory).absolute
    with errors_at(f"{directory}: an interrupted change cannot be completed", StoppedHalfwayError):
        disk.remove_temporary_files(directory)
        if taken_back := full_disk.take_back(directory, disk):
            messages.append(taken_back)
        folder = quarantine.folder_of(directory)
        if is_directory(folder):  # what a killed process has written last counts as done
            disk.sync_directory(folder)
            for number in quarantine.numbers(directory)[-1:]:
                disk.sync_directory(Place(folder) / str(number))
        pending = quarantine.pending(directory)
        if any(change.changes_a_log for change in pending):
            journaling.remove_marker(log_directory_of(directory), disk)
        for change in pending:
            if change.number in quarantine.numbers(directory):  # completing an undo has removed the undone change
                messages.append(_complete(change, disk, before_undo))
        if quarantine.remove_leftovers(directory, disk):
            messages.append(f"{directory}: temporary files of an interrupted command were removed")
    return messages


def _complete(change: Change, disk: Disk, before_undo: bool) -> str:
    undone = f"the undo of change {change.undoes}" if change.undoes else repr(change.command)
    was = f"{change.directory}: {undone} was interrupted"
    with directories_held():
        [error] = rolled_forward([change], disk)
    if isinstance(error, ChangedSinceError | PathError):
        if change.undoes:
            quarantine.end(change, disk=disk)  # it holds only hard links and copies
            return f"{was} and is given up: {error}"
        change.state = ABANDONED
        write_change(change, disk)
        kept = f"kept bytes are in {change.kept}" if change.kept else "no bytes were kept"
        return f"{was} and is given up: {error}; {kept}"
    if isinstance(error, StoppedHalfwayError) and before_undo and not change.undoes:
        return f"{was} and cannot be completed: {text_of(error.__cause__ or error)}"
    if isinstance(error, KsegError):
        raise error
    told = f"{was}, and is complete now"
    return TakenBack(told, change.directory) if change.undoes else told


def complete_interrupted_in_log_directory(
    directory: str, disk: Disk | None = None, before_undo: bool = False, kept_in: str = ""
) -> list[str]:
    """As `complete_interrupted`, for all partitions of a log directory, and for an interrupted undo.

    Syncs the names in the directory and all journals first: what a killed process has written counts as done.
    ``kept_in``: as in `last_change`.
    """
    directory, disk, messages = Place(directory).absolute, disk or Disk(), []
    with errors_at(f"{directory}: an interrupted change cannot be completed", StoppedHalfwayError):
        if found := journaling.journals(directory):
            for journal in found:
                with opened(journal.path) as descriptor:
                    disk.sync(descriptor)
            disk.sync_directory(directory)
        disk.remove_temporary_files(directory)
        messages += complete_new_directories(directory, disk)
        for path in journaling.changed_partitions(directory):
            messages += complete_interrupted(path, disk, before_undo)
        for journal in found:
            if journal.state == OPEN and not journaling.has_changed_anything(journal):
                journaling.roll_back_journal(journal, disk)
            elif journal.state == OPEN and journal.path_name and journal.known.keys() == {CLEAN_SHUTDOWN}:
                journaling.end_journal(journal, disk)  # its partition is complete, and no file of the root changes
            elif journal.state == UNDOING:
                names = {*journaling.partitions_now(journal), *journal.partitions}
                _continue_undo(journal, disk, kept_in)
                told = f"{directory}: the undo of {journal.command!r} was interrupted, and is complete now"
                messages.append(TakenBack(told, directory, *(Place(directory) / name for name in names)))
            elif journal.state == DONE and not journal.keeps:
                journaling.forget(journal, disk)
    return messages
