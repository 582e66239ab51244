"""Undoes a change of a partition from the bytes in its quarantine. The undo is a plan, applied like any other."""

from collections import deque
from collections.abc import Mapping

from kseg.changes import accepted_gaps, manifest, quarantine
from kseg.changes.apply import Keeping, apply, check_intermediate
from kseg.changes.delta import old_content
from kseg.changes.disk import Disk
from kseg.changes.manifest import ABANDONED, COMMITTED, DONE, Change, ChangedSinceError, ExpectedStates
from kseg.changes.plan import CREATE, RENAME, REPLACE, TRUNCATE, FileState, Plan, Step, file_state
from kseg.errors import KsegError, StoppedHalfwayError, errors_at
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.sidefiles.checkpoints import build_offset_checkpoint, offsets_of, read_offset_checkpoint
from kseg.sidefiles.leader_epochs import LEADER_EPOCHS, EpochEntry, build_leader_epochs, read_leader_epochs
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.stores.regular_files import open_regular

# Reverts one command's entries in a checkpoint of a log directory or of leader epochs, and keeps those of others.

OffsetsByPartition = dict[tuple[str, int], int]


def revert_entries(now: bytes, known: bytes, left: bytes) -> bytes | None:
    """Returns ``now`` with the entries that differ between ``known`` and ``left`` set back to those in ``known``.

    ``known`` is the file before the command, ``left`` the file after it, ``now`` the file today. Entries that are
    already reverted stay. Returns None if an entry has a third value, or if one of the contents is not a valid
    checkpoint.
    """
    found, before, after = (_offsets(content) for content in (now, known, left))
    if found is None or before is None or after is None:
        return None
    if now == left:
        return known
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
    return build_offset_checkpoint(merged)


def _offsets(content: bytes) -> OffsetsByPartition | None:
    items = list(read_offset_checkpoint(content))
    return None if problems_of(items) else offsets_of(items)


def restore_start(known: bytes, now: bytes) -> bytes | None:
    """Returns leader epochs: ``now`` with the entries of ``known`` that precede its first entry.

    Returns None if ``now`` is not a continuation of ``known``, or if its start was not the part that changed.
    """
    items, found = list(read_leader_epochs(known)), list(read_leader_epochs(now))
    old, new = entries_of(items), entries_of(found)
    if problems_of(items) or problems_of(found) or not new:
        return None
    first = new[0]
    start = next((entry.start_offset for entry in old if entry.epoch == first.epoch), None)
    if start is None or start > first.start_offset:
        return None
    before = [entry for entry in old if entry.epoch < first.epoch]
    whole = [*before, EpochEntry(first.epoch, start), *new[1:]]
    return None if whole == new else build_leader_epochs(whole)


def last_change(directory: str, kept_in: str = "") -> Change:
    """Returns the change that `undo` undoes: the last one that is done or interrupted. Raises KsegError if there is
    none.

    ``kept_in``: the directory of bytes that were kept elsewhere, as given by the user.
    """
    found = [
        change for change in quarantine.changes(directory, kept_in) if not change.undoes and change.state != ABANDONED
    ]
    if not found:
        raise KsegError(f"{directory}: there is no change to undo")
    return found[-1]


def plan_undo(change: Change, later: Mapping[str, FileState | None] | None = None, is_checked: bool = False) -> Plan:
    """Plans the undo; changes nothing. ``later``: states of files after later changes are undone.

    ``is_checked``: the digests of the kept bytes were verified just before. Raises ChangedSinceError if a file has
    changed since the change, KsegError if the kept bytes are missing.
    """
    found = later or {}
    with errors_at(change.directory, KsegError, "; nothing was undone"):
        _check_files(change, found)
        _check_kept(change, is_checked)
        return _Reversal(change, found).plan


def plan_all(changes: list[Change]) -> list[tuple[Change, Plan]]:
    """As `plan_undo`, for several changes of a partition, newest first."""
    later: dict[str, FileState | None] = {}
    found = []
    for change in changes:
        found.append((change, plan_undo(change, later)))
        later.update(ExpectedStates(change).initial)
    return found


def changes_of(directory: str, group: str, kept_in: str = "") -> list[Change]:
    """Returns the changes of this group that `undo` can undo, newest first. ``kept_in``: as in `last_change`."""
    found = [change for change in quarantine.changes(directory, kept_in) if change.group == group]
    return [change for change in reversed(found) if not change.undoes and change.state != ABANDONED]


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


def _check_files(change: Change, later: Mapping[str, FileState | None]) -> None:
    if change.state == COMMITTED:
        check_intermediate(change)
        return
    for name, left in change.after.items():
        now = later[name] if name in later else file_state(change.path(name))
        if not _is_as_left(change, name, left, now) and _epochs_since(change, name) is None:
            kept = f"; removed bytes are in {change.kept}" if change.kept else ""
            raise ChangedSinceError(
                f"{change.path(name)}: has changed since {change.command!r}, or was copied without its time "
                f"(cp -a keeps it); nothing was undone{kept}"
            )


def _is_unchanged(change: Change, name: str) -> bool:
    return change.state != DONE or _is_as_left(change, name, change.after[name], file_state(change.path(name)))


def _is_as_left(change: Change, name: str, left: FileState | None, now: FileState | None) -> bool:
    if now is None and any(step.keeps and step.target == name for step in change.steps):
        return True  # a broker has deleted the file, as intended
    return (left and left[1:]) == (now and now[1:])


def _epochs_since(change: Change, name: str) -> bytes | None:
    """Returns the leader epochs for a log whose start is restored while a broker has appended epochs; None in other
    cases.
    """
    k = next((k for k, step in enumerate(change.steps) if step.action == REPLACE and step.file == name), None)
    if name != LEADER_EPOCHS or k is None or not change.kept or change.state != DONE:
        return None
    contents = []
    for path in (change.old(k), change.path(name)):
        try:
            with open_regular(path) as file:
                contents.append(file.read(MAX_ROOT_FILE_BYTES))
        except FileNotFoundError:
            return None
    return restore_start(*contents)


def _check_kept(change: Change, is_checked: bool) -> None:
    quarantine.check_kept_path(change)
    for k, step in enumerate(change.steps):
        if not step.is_kept or step.before is None:
            continue
        if not change.kept:
            raise KsegError(f"{change.directory}: {change.command!r} kept nothing; it cannot be undone")
        kept, by_delta = file_state(change.old(k)), change.by_delta.get(k)
        size = step.before.size - step.size if step.action == TRUNCATE else step.before.size
        size = by_delta.kept_size if by_delta else size
        is_other = kept is None or kept.size < size or (kept.size > size and (step.action == TRUNCATE or by_delta))
        if is_other or (not is_checked and _is_changed(change, k)):
            raise KsegError(f"{change.old(k)}: is missing or has changed since; nothing was undone")


def _is_changed(change: Change, k: int) -> bool:
    """Whether the kept bytes of step k have changed."""
    if by_delta := change.by_delta.get(k):
        return manifest.digest(change.old(k), 0, by_delta.kept_size) != by_delta.sha256
    found = change.stored.get(k)  # none if the file was unreadable
    if found is None:
        return False
    return not manifest.is_unchanged(change.old(k), found)


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
        if step.action == CREATE:
            self.plan.delete(step.file, "was not there before")
        elif step.action == TRUNCATE and step.before is not None:
            mtime_ns = self._mtime_ns(self._change.changed_inode(k))
            if step.made_by is None:
                self.plan.extend(step.file, self._change.old(k), step.before.size, mtime_ns, "was cut off")
        elif step.action == RENAME and self.plan.file_at(step.target) is not None:
            self.plan.rename(step.target, step.file, "was called so before")
        elif step.made_by is None:
            self._restore(k, step)

    def _restore(self, k: int, step: Step) -> None:
        change = self._change
        if step.file in change.after and step.file not in self._later and not _is_unchanged(change, step.file):
            if (epochs := _epochs_since(change, step.file)) is not None:
                self.plan.write(step.file, [epochs], "was so before, but for the epochs since")
                return
        if k in change.by_delta and step.before is not None:
            found = self.plan.file_at(step.file)
            pieces = old_content(change, k, found.origin if found else step.file)
            deque(pieces, maxlen=0)  # raises if the delta does not fit the file
            model = change.old(k) if change.is_kept_inside else ""
            self.plan.write(step.file, pieces, "was so before", mtime_ns=step.before.mtime_ns, model=model)
        else:
            self.plan.write(step.file, (), "was there before", source=change.old(k))
        self._restored[len(self.plan.steps) - 1] = self._change.changed_inode(k)

    def _mtime_ns(self, changed_inode: int | None) -> int | None:
        """Returns the modification time of the file before the change."""
        for step in self._change.steps:
            if step.before is not None and step.made_by is None and step.before.inode == changed_inode:
                return step.before.mtime_ns
        return None


def purge(change: Change, disk: Disk | None = None) -> int:
    """Removes the kept bytes of a finished change, except for the record of its gaps. Returns their number.

    Raises StoppedHalfwayError, KsegError.
    """
    quarantine.check_kept_path(change)
    freed = change.kept_bytes
    with errors_at(change.folder, StoppedHalfwayError, "; repeat the command"):
        accepted_gaps.end(change, disk=disk or Disk())
    return freed


__all__ = ["changes_of", "last_change", "plan_all", "plan_undo", "purge", "undo"]
