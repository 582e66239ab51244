"""One command's change of a log directory: each partition is changed completely or not at all, then the root's files.
A change of one partition is the smallest.

1. The journal is created. It records the root's files as the command found them.
2. If a .log will change, the clean shutdown marker is removed.
3. Partitions are changed one by one.
4. Partition directories are renamed, the root's other files (checkpoints) get their new contents, and the journal is
   marked as done.

After a kill at any point, the same command resumes from the journal: it sees the root's files as recorded, and the
finished partitions. If a broker or another program has changed files meanwhile, the journal is abandoned and the
command starts again.
"""

import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from kseg.changes import accepted_gaps, quarantine
from kseg.changes.apply import MAX_TOGETHER_BYTES, Keeping, apply_all, free_bytes, needed_together
from kseg.changes.disk import Disk
from kseg.changes.journal import (
    ABANDONED,
    DONE,
    OPEN,
    Journal,
    RootFile,
    carry_out,
    journals,
    moved_now,
    planned_move,
    read_root_file,
    remove_marker,
    remove_temporary_files,
    replace_file,
    root_state,
)
from kseg.changes.manifest import Change
from kseg.changes.plan import CREATE, RENAME, REPLACE, Plan
from kseg.errors import KsegError, StoppedHalfwayError, errors_at, text_of
from kseg.quantities import named_path, shell_line
from kseg.segment.files import CLEAN_SHUTDOWN


class LogDirectoryChange:
    """The change of a log directory. Nothing is written before the first plan with steps.

    ``known``: the root's files as the command's first run found them, None if absent; plans must be made from these.
    ``messages``: sentences about an interrupted run.
    """

    def __init__(
        self,
        directory: str,
        command: str,
        names: Iterable[str] = (),
        keeping: Keeping | None = None,
        disk: Disk | None = None,
        keeps_marker: bool = False,
        path_name: str = "",
    ) -> None:
        """``names``: files of the root that the command uses, besides the marker. ``path_name``: as in `Journal`.

        ``keeps_marker``: the marker stays, because no .log changes, and after a kill at any point every file is valid
        after a clean stop. Writes nothing. Raises KsegError. Before changing anything the caller takes the lock and
        calls `complete_interrupted_in_log_directory`.
        """
        self.directory = os.path.abspath(directory)
        self.command = command
        self.messages: list[str] = []
        self._keeping, self._disk = keeping or Keeping(), disk or Disk()
        self._keeps_marker, self._path_name = keeps_marker, path_name
        self._stale: Journal | None = None
        self._changes: list[Change] = []
        self._journal = self._resumed()
        self.known = dict(self._journal.known) if self._journal else {}
        self._restorable = {*names, CLEAN_SHUTDOWN}
        for name in sorted(self._restorable):
            if name not in self.known:
                self.known[name] = read_root_file(self.directory, name)

    def leave_root_files(self) -> None:
        """Leaves the root's files to others, except for the marker: an undo does not restore them."""
        self._restorable = {CLEAN_SHUTDOWN}

    @property
    def is_begun(self) -> bool:
        """Whether the change has started."""
        return self._journal is not None

    @property
    def done(self) -> list[str]:
        """Names of the partitions that this command, or its interrupted run, has changed."""
        if self._journal is None:
            return []
        found = (os.path.basename(path) for path in partitions_of(self.directory, self._journal.group))
        return sorted({*self._journal.partitions, *found})

    def apply(self, plan: Plan) -> Change | None:
        """Applies the plan for a partition. Returns None if there is nothing to do.

        Raises KsegError if the partition was not changed, StoppedHalfwayError if it was changed partly.
        """
        [(_, found)] = self.apply_all([plan])
        if isinstance(found, KsegError):
            raise found
        return found

    def apply_all(self, plans: Iterable[Plan], at_once: int = 1) -> Iterator[tuple[Plan, Change | KsegError | None]]:
        """Applies plans, ``at_once`` at a time. Yields each plan in order, with the result or the error of `apply`.

        Each plan is for a different partition. The next plan is taken from the iterator when at most ``at_once`` plans
        before it are unfinished; with ``at_once`` 1, when all are finished.
        """
        together: list[Plan] = []
        needed = 0
        for plan in plans:
            more = needed_together(plan, self._keeping)
            if together and needed + more > min(MAX_TOGETHER_BYTES, free_bytes(self.directory) // 2):
                yield from self._applied(together)
                together, needed = [], 0
            together.append(plan)
            needed += more
            if len(together) >= at_once:
                yield from self._applied(together)
                together, needed = [], 0
        yield from self._applied(together)

    def _applied(self, plans: list[Plan]) -> Iterator[tuple[Plan, Change | KsegError | None]]:
        """Applies plans together, and records them in the journal. Yields each with its result."""
        found: list[Change | KsegError] = []
        if changing := [plan for plan in plans if plan]:
            try:
                journal = self._begin()
                found = apply_all(changing, self.command, self._keeping, self._disk, journal.group)
                done = [change for change in found if isinstance(change, Change)]
                self._changes += done
                self._halfway(lambda: self._record_partitions(journal, [os.path.basename(c.directory) for c in done]))
            except KsegError as error:
                failed = error
                found = found or [failed] * len(changing)
                found = [outcome if isinstance(outcome, KsegError) else failed for outcome in found]
        outcomes = iter(found)
        for plan in plans:
            yield plan, next(outcomes) if plan else None

    @contextmanager
    def rolled_back_if_unchanged(self) -> Iterator[None]:
        """Re-raises an error or Ctrl-C from the block; if no partition was changed, the log directory is restored
        first.

        Raises StoppedHalfwayError if it cannot be restored, and for an error after something was changed.
        """
        try:
            yield
        except StoppedHalfwayError:
            raise
        except (KsegError, OSError) as error:
            if not self.is_begun:
                raise
            if self.has_changed:
                raise StoppedHalfwayError(
                    f"{text_of(error)}; a part is done: repeat the command, or kseg undo"
                ) from error
            self.roll_back()
            raise
        except KeyboardInterrupt:
            if self.is_begun and not self.has_changed:
                self.roll_back()
            raise

    @property
    def has_changed(self) -> bool:
        """Whether this command, or its interrupted run, has changed any file except the marker."""
        return self._journal is not None and has_changed_anything(self._journal)

    def roll_back(self) -> None:
        """Cancels a change that has changed nothing yet, and restores the marker. Raises StoppedHalfwayError."""
        if self._journal is not None:
            journal, self._journal = self._journal, None
            self._halfway(lambda: roll_back_journal(journal, self._disk))

    def _record_partitions(self, journal: Journal, names: list[str]) -> None:
        if rows := [{"partition": name} for name in names if name not in journal.partitions]:
            journal.append_all(rows, self._disk)

    def finish(self, root: Plan | None = None) -> None:
        """Renames directories and writes the root's files from the plan (steps with bytes as content), and ends the
        change.

        Raises StoppedHalfwayError if a system call fails.
        """
        contents = _contents(root) if root else {}
        renames = [(step.file, step.target) for step in root.steps if step.action == RENAME] if root else []
        if contents or renames or self._journal:
            journal = self._begin()
            self._halfway(lambda: self._move(journal, renames))
            self._halfway(lambda: self._finish(journal, contents))

    def _move(self, journal: Journal, renames: list[tuple[str, str]]) -> None:
        if not renames:
            return
        moves = [*journal.moves, *(planned_move(self.directory, name, target) for name, target in renames)]
        journal.append({"moves": moves}, self._disk)
        carry_out(self.directory, moves, self._disk)

    def _finish(self, journal: Journal, contents: dict[str, bytes]) -> None:
        disk = self._disk
        if contents != journal.planned:
            journal.append({"planned": {name: b64encode(content).decode() for name, content in contents.items()}}, disk)
        for name, content in sorted(contents.items()):
            found = read_root_file(self.directory, name)
            if found is None or found.content != content:
                replace_file(os.path.join(self.directory, name), content, disk)
        names = {os.path.basename(change.directory) for change in self._changes}
        end_journal(
            journal, disk, changes=self._changes if names == {*journal.partitions} and not journal.moves else None
        )

    def _halfway(self, run: Callable[[], object]) -> None:
        """Calls ``run``. Raises StoppedHalfwayError for its errors."""
        try:
            run()
        except StoppedHalfwayError:
            raise
        except (OSError, KsegError) as error:
            raise StoppedHalfwayError(
                f"{self.directory}: stopped half-way: {text_of(error)}; repeat the command, or kseg undo"
            ) from error

    def _begin(self) -> Journal:
        """Returns the journal, after removing the marker. Raises KsegError if nothing was changed."""
        journal, disk = self._journal, self._disk
        if journal is None:
            if self._stale is not None:
                stale = self._stale
                self._halfway(lambda: stale.append({"state": ABANDONED}, disk))
            number = max((found.number for found in journals(self.directory)), default=0) + 1
            now = time.time_ns() // 1_000_000
            known = {name: found for name, found in self.known.items() if name in self._restorable}
            journal = Journal(
                self.directory, number, self.command, now, self._keeping.keeps, known, path_name=self._path_name
            )
            try:
                journal.create(disk)
            except BaseException as error:
                _drop(journal, disk)
                if isinstance(error, OSError):
                    raise KsegError(f"{self.directory}: nothing was changed: {text_of(error)}") from error
                raise
            self._journal = journal
        if journal.begun_ns is None:
            try:
                self._remove_marker_and_record_start(journal)
            except OSError as error:
                self.roll_back()
                raise KsegError(f"{self.directory}: nothing was changed: {text_of(error)}") from error
        return journal

    def _remove_marker_and_record_start(self, journal: Journal) -> None:
        if not self._keeps_marker:
            remove_marker(self.directory, self._disk)
        state = root_state(self.directory, journal.known)
        journal.append({"begunNs": os.stat(self.directory).st_mtime_ns, "root": state}, self._disk)

    def _resumed(self) -> Journal | None:
        """Returns the journal of an interrupted run of this command, if the files still match it.

        Raises KsegError if another command was interrupted.
        """
        found = [journal for journal in journals(self.directory) if journal.state == OPEN]
        if not found:
            return None
        journal = found[-1]
        if journal.command.split()[:1] != self.command.split()[:1]:
            text = f"{self.directory}: {journal.command!r} was interrupted here: repeat it, or undo it with"
            raise KsegError.with_command(text, shell_line(["kseg", "undo", named_path(self.directory)]))
        if changed := _changed_since(journal, self._keeps_marker):
            self._stale = journal
            self.messages.append(
                f"{self.directory}: {journal.command!r} was interrupted, and {changed} has changed since: begun anew"
            )
            return None
        done = len(journal.partitions)
        self.messages.append(
            f"{self.directory}: {journal.command!r} was interrupted with {done} partitions done: going on"
        )
        return journal


def _changed_since(journal: Journal, keeps_marker: bool = False) -> str:
    """Returns the name of a file that another program changed after the journal was written; "" if none did."""
    for name, known in journal.known.items():
        now = read_root_file(journal.directory, name)
        if name == CLEAN_SHUTDOWN:
            if now is not None and (now != known or (journal.begun_ns is not None and not keeps_marker)):
                return name
        elif not _is_one_of(now, known, journal.planned.get(name)):
            return name
    if journal.begun_ns is not None and not journal.planned and not journal.moves:
        if os.stat(journal.directory).st_mtime_ns != journal.begun_ns:
            return "the directory"
    return ""


def _is_one_of(now: RootFile | None, known: RootFile | None, planned: bytes | None) -> bool:
    if now is None or known is None:
        return now is known or (now is not None and now.content == planned)
    return now.content in (known.content, planned)


def _contents(root: Plan) -> dict[str, bytes]:
    """Returns the new contents of the root's files in a plan."""
    found = {}
    for step in root.steps:
        if step.file == CLEAN_SHUTDOWN or step.action == RENAME:
            continue  # the marker is removed in any case
        if step.action not in (CREATE, REPLACE) or not all(isinstance(piece, bytes) for piece in step.pieces):
            raise ValueError(f"{step.action} of {step.file}: files of a log directory can only be given new contents")
        found[step.file] = b"".join(piece for piece in step.pieces if isinstance(piece, bytes))
    return found


def _drop(journal: Journal, disk: Disk) -> None:
    try:
        remove_temporary_files(journal.directory, disk)
        if os.path.lexists(journal.path):
            journal.remove(disk)
    except OSError:
        return  # an empty journal is harmless: the next command removes it


def partitions_now(journal: Journal) -> dict[str, str]:
    """Returns the present name of each partition directory that was changed, by its name when it was changed."""
    moved = {move.name: move.target for move in moved_now(journal.directory, journal.moves)}
    found = [os.path.basename(path) for path in partitions_of(journal.directory, journal.group)]
    before = {target: name for name, target in moved.items()}
    return {name: moved.get(name, name) for name in {*journal.partitions, *(before.get(now, now) for now in found)}}


def partitions_of(directory: str, group: str) -> list[str]:
    """Returns the paths of the partitions that have a change of this group, sorted by name."""
    found = []
    for path in changed_partitions(directory):
        if any(change.group == group for change in quarantine.changes(path)):
            found.append(path)
    return found


def changed_partitions(directory: str) -> list[str]:
    """Returns the paths of the partitions with a quarantine in a log directory, sorted by name. Raises KsegError."""
    with errors_at(directory, KsegError), os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    paths = (os.path.join(directory, name) for name in names)
    return [path for path in paths if os.path.lexists(quarantine.folder_of(path))]


def forget(journal: Journal, disk: Disk, kept_in: str = "", changes: list[Change] | None = None) -> int:
    """Removes a finished journal and the bytes that its partitions kept. Returns the number of bytes freed.

    ``kept_in``: as in `quarantine.changes`; ``changes``: those of its partitions, if the caller knows them. Raises
    OSError, or KsegError if a manifest names a folder that it may not name.
    """
    if changes is None:
        paths = partitions_of(journal.directory, journal.group)
        found = (change for path in paths for change in quarantine.changes(path, kept_in))
        changes = [change for change in found if change.group == journal.group]
    for change in changes:
        quarantine.check_kept_path(change)
    if changes:
        accepted_gaps.end(*changes, disk=disk)
    journal.remove(disk)
    return sum(change.kept_bytes for change in changes)


def end_journal(journal: Journal, disk: Disk, changes: list[Change] | None = None) -> None:
    """Marks a journal as done; one that keeps nothing is removed. ``changes``: as in `forget`. Raises OSError."""
    left = {name: read_root_file(journal.directory, name) for name in {*journal.known, *journal.planned}}
    journal.append({"left": {k: found.row() if found else None for k, found in left.items()}, "state": DONE}, disk)
    if not journal.keeps:
        forget(journal, disk, changes=changes)


def has_changed_anything(journal: Journal) -> bool:
    """Whether any partition or root file was changed, or is about to be."""
    has_partitions = journal.partitions or partitions_of(journal.directory, journal.group)
    return bool(has_partitions or journal.moves or journal.planned)


def roll_back_journal(journal: Journal, disk: Disk) -> None:
    """Removes the journal of a command that had changed nothing yet; at most the marker was removed.

    If this is interrupted, too, the marker may stay removed: then a broker recovers all logs, which is safe.
    """
    marker, path = journal.known.get(CLEAN_SHUTDOWN), os.path.join(journal.directory, CLEAN_SHUTDOWN)
    if marker is not None and not os.path.lexists(path) and not _changed_since(journal):
        replace_file(path, marker.content, disk, marker)
    journal.remove(disk)
