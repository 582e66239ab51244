"""One command's change of a log directory: its partitions, each all or nothing, and the root's own files.

1. The journal appears: what the command found of the root's files.
2. Files that a broker must not find any more go: the marker of a clean stop, where a .log changes.
3. Partitions are changed, one by one.
4. The root's other files (checkpoints) get their new contents, and the journal says done.

Killed anywhere, the same command goes on with what the journal knows, as if it had not been killed: it sees the root as
it was, and the partitions that are done. If a broker, or anything else, has been at work in between, the journal is
given up, and the command begins anew with what it finds.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NoReturn

from kseg.changes import quarantine
from kseg.changes.apply import Keeping, apply
from kseg.changes.clean_stop import remove_marker
from kseg.changes.disk import Disk
from kseg.changes.journal import (
    ABANDONED,
    DONE,
    MARKER,
    OPEN,
    Journal,
    RootFile,
    journals,
    read_root_file,
    remove_temporary_files,
    replace_file,
)
from kseg.changes.manifest import Change
from kseg.changes.plan import CREATE, REPLACE, Plan
from kseg.errors import KsegError, StoppedHalfwayError, text_of

if TYPE_CHECKING:
    from concurrent.futures import Future


class LogDirectoryChange:
    """Nothing is written before the first plan that changes something.

    ``known`` are the root's files that were asked for, as the command's first run found them, None where there was
    none; plans have to be made from these. ``told``: what was found of an interrupted run, a sentence each.
    """

    def __init__(
        self,
        directory: str,
        command: str,
        names: Iterable[str] = (),
        keeping: Keeping | None = None,
        disk: Disk | None = None,
        keeps_marker: bool = False,
    ) -> None:
        """``names``: files of the root that matter to the command, besides the marker. ``keeps_marker``: no .log
        changes, and whatever a kill leaves, each file is one that a broker may find after a clean stop.

        Writes nothing. Raises KsegError. Before anything is changed the caller takes the lock and calls
        `settle_log_directory`.
        """
        self.directory = os.path.abspath(directory)
        self.command = command
        self.told: list[str] = []
        self._keeping, self._disk = keeping or Keeping(), disk or Disk()
        self._keeps_marker = keeps_marker
        self._stale: Journal | None = None
        self._journal = self._resumed()
        self.known = dict(self._journal.known) if self._journal else {}
        for name in sorted({*names, MARKER}):
            if name not in self.known:
                self.known[name] = read_root_file(self.directory, name)

    @property
    def is_begun(self) -> bool:
        """Whether something was, or is being, changed."""
        return self._journal is not None

    @property
    def done(self) -> list[str]:
        """Names of the partitions that this command, or its interrupted run, has changed."""
        if self._journal is None:
            return []
        found = (os.path.basename(path) for path in partitions_of(self.directory, self._journal.group))
        return sorted({*self._journal.partitions, *found})

    @property
    def planned(self) -> dict[str, bytes]:
        """What an interrupted run wanted to make of the root's files, as far as it had come."""
        return dict(self._journal.planned) if self._journal else {}

    def apply(self, plan: Plan) -> Change | None:
        """Carries the plan for a partition out; None where there is nothing to do.

        Raises KsegError where the partition was not changed, StoppedHalfwayError where it stopped half-way.
        """
        if not plan:
            return None
        journal = self._begin()
        return self._noted(journal, plan, lambda: self._apply(journal, plan))

    def apply_all(self, plans: Iterable[Plan], at_once: int = 1) -> Iterator[tuple[Plan, Change | KsegError | None]]:
        """Each plan with what `apply` returns or raises for it, in their order; ``at_once`` plans are carried out at
        the same time.

        Each plan is for another partition. A plan is asked for once all but ``at_once`` before it have ended.
        """
        plans = iter(plans)
        first = list(islice(plans, 2 if at_once > 1 else 0))
        plans = chain(first, plans)
        if len(first) < 2:  # one alone needs no thread
            for plan in plans:
                yield plan, _outcome(lambda plan=plan: self.apply(plan))  # type: ignore[misc]
            return
        from concurrent.futures import ThreadPoolExecutor  # most changes are of few partitions

        running: deque[tuple[Plan, Callable[[], Change | None]]] = deque()
        pool = ThreadPoolExecutor(at_once)
        try:
            for plan in plans:
                running.append((plan, self._begun(plan, pool.submit)))
                if len(running) > at_once:
                    plan, result = running.popleft()
                    yield plan, _outcome(result)
            while running:
                plan, result = running.popleft()
                yield plan, _outcome(result)
        finally:
            pool.shutdown(cancel_futures=True)

    def _begun(self, plan: Plan, submit: "Callable[..., Future[Change | None]]") -> Callable[[], Change | None]:
        """What waits for the end of a plan that is begun, and notes it."""
        if not plan:
            return lambda: None
        try:
            journal = self._begin()
        except KsegError as error:
            return partial(_raise, error)
        future = submit(self._apply, journal, plan)
        return lambda: self._noted(journal, plan, future.result)

    def _apply(self, journal: Journal, plan: Plan) -> Change | None:
        return apply(plan, self.command, self._keeping, self._disk, journal.group)

    def _noted(self, journal: Journal, plan: Plan, result: Callable[[], Change | None]) -> Change | None:
        """The result; the journal names the partition from then on."""
        change = result()
        self._halfway(lambda: self._note_partition(journal, os.path.basename(os.path.abspath(plan.directory))))
        return change

    @contextmanager
    def rolled_back_if_unchanged(self) -> Iterator[None]:
        """An error or Ctrl-C inside is raised on; where no partition was changed, the log directory is as it was.

        Raises StoppedHalfwayError where that cannot be done, and for an error where something was changed.
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
        """Whether this command, or its interrupted run, has changed any file but the marker."""
        return self._journal is not None and has_changed_anything(self._journal)

    def roll_back(self) -> None:
        """Forgets a change that has changed nothing yet, and puts the marker back. Raises StoppedHalfwayError."""
        if self._journal is not None:
            journal, self._journal = self._journal, None
            self._halfway(lambda: roll_back_journal(journal, self._disk))

    def _note_partition(self, journal: Journal, name: str) -> None:
        if name not in journal.partitions:
            journal.append({"partition": name}, self._disk)

    def finish(self, root: Plan | None = None) -> None:
        """Writes the root's files that the plan tells (steps with contents of bytes), and ends the change.

        Raises StoppedHalfwayError where the disk does not allow it.
        """
        contents = _contents(root) if root else {}
        if contents or self._journal:
            journal = self._begin()
            self._halfway(lambda: self._finish(journal, contents))

    def _finish(self, journal: Journal, contents: dict[str, bytes]) -> None:
        disk = self._disk
        if contents != journal.planned:
            journal.append({"planned": {name: _text(content) for name, content in contents.items()}}, disk)
        for name, content in sorted(contents.items()):
            found = read_root_file(self.directory, name)
            if found is None or found.content != content:
                replace_file(os.path.join(self.directory, name), content, disk)
        left = {name: read_root_file(self.directory, name) for name in {*self.known, *contents}}
        journal.append({"left": {k: found.row() if found else None for k, found in left.items()}, "state": DONE}, disk)
        if not journal.keeps:
            forget(journal, disk)

    def _halfway(self, run: object) -> None:
        try:
            run()  # type: ignore[operator]
        except StoppedHalfwayError:
            raise
        except (OSError, KsegError) as error:
            raise StoppedHalfwayError(
                f"{self.directory}: stopped half-way: {text_of(error)}; repeat the command, or kseg undo"
            ) from error

    def _begin(self) -> Journal:
        """The journal, with the files gone that are to go first. Raises KsegError where nothing was changed."""
        journal, disk = self._journal, self._disk
        if journal is None:
            if self._stale is not None:
                stale = self._stale
                self._halfway(lambda: stale.append({"state": ABANDONED}, disk))
            number = max((found.number for found in journals(self.directory)), default=0) + 1
            now = time.time_ns() // 1_000_000
            journal = Journal(self.directory, number, self.command, now, self._keeping.keeps, self.known)
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
                self._remove_first(journal)
            except OSError as error:
                self.roll_back()
                raise KsegError(f"{self.directory}: nothing was changed: {text_of(error)}") from error
        return journal

    def _remove_first(self, journal: Journal) -> None:
        if not self._keeps_marker:
            remove_marker(self.directory, self._disk)
        journal.append({"begunNs": os.stat(self.directory).st_mtime_ns}, self._disk)

    def _resumed(self) -> Journal | None:
        """The journal of an interrupted run of this command, if it still tells the truth."""
        found = [journal for journal in journals(self.directory) if journal.state == OPEN]
        if not found:
            return None
        journal = found[-1]
        if journal.command.split()[:1] != self.command.split()[:1]:
            raise KsegError(
                f"{self.directory}: {journal.command!r} was interrupted here: repeat it, or kseg undo {self.directory}"
            )
        if changed := _changed_since(journal, self._keeps_marker):
            self._stale = journal
            self.told.append(
                f"{self.directory}: {journal.command!r} was interrupted, and {changed} has changed since: begun anew"
            )
            return None
        done = len(journal.partitions)
        self.told.append(f"{self.directory}: {journal.command!r} was interrupted with {done} partitions done: going on")
        return journal


def _outcome(result: Callable[[], Change | None]) -> Change | KsegError | None:
    try:
        return result()
    except KsegError as error:
        return error


def _raise(error: KsegError) -> NoReturn:
    raise error


def _changed_since(journal: Journal, keeps_marker: bool = False) -> str:
    """What shows that somebody else was at work since the journal was written; "" for nothing."""
    for name, known in journal.known.items():
        now = read_root_file(journal.directory, name)
        if name == MARKER:
            if now is not None and (now != known or (journal.begun_ns is not None and not keeps_marker)):
                return name
        elif not _is_one_of(now, known, journal.planned.get(name)):
            return name
    if journal.begun_ns is not None and not journal.planned:
        if os.stat(journal.directory).st_mtime_ns != journal.begun_ns:
            return "the directory"
    return ""


def _is_one_of(now: RootFile | None, known: RootFile | None, planned: bytes | None) -> bool:
    if now is None or known is None:
        return now is known or (now is not None and now.content == planned)
    return now.content in (known.content, planned)


def _contents(root: Plan) -> dict[str, bytes]:
    """What a plan makes of files of the root."""
    found = {}
    for step in root.steps:
        if step.file == MARKER:
            continue  # it goes in any case
        if step.action not in (CREATE, REPLACE) or not all(isinstance(piece, bytes) for piece in step.pieces):
            raise ValueError(f"{step.action} of {step.file}: files of a log directory can only be given new contents")
        found[step.file] = b"".join(piece for piece in step.pieces if isinstance(piece, bytes))
    return found


def _text(content: bytes) -> str:
    from base64 import b64encode

    return b64encode(content).decode()


def _drop(journal: Journal, disk: Disk) -> None:
    try:
        remove_temporary_files(journal.directory, disk)
        if os.path.lexists(journal.path):
            journal.remove(disk)
    except OSError:
        return  # an empty journal does no harm: the next command ends it


def partitions_of(directory: str, group: str) -> list[str]:
    """Paths of the partitions that have a change of this group, by name."""
    found = []
    for path in changed_partitions(directory):
        if any(change.group == group for change in quarantine.changes(path)):
            found.append(path)
    return found


def changed_partitions(directory: str) -> list[str]:
    """Paths of the subdirectories of a log directory that have a quarantine, by name. Raises KsegError."""
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        raise KsegError(f"{directory}: {error.strerror}") from error
    paths = (os.path.join(directory, name) for name in names)
    return [path for path in paths if os.path.lexists(quarantine.folder_of(path))]


def forget(journal: Journal, disk: Disk, place: str = "") -> int:
    """Removes a journal that is over with all that its partitions kept; the bytes that were freed. Raises OSError.

    ``place``: as in `quarantine.changes`. Raises KsegError where a manifest names a place that it may not.
    """
    freed = 0
    for path in partitions_of(journal.directory, journal.group):
        for change in quarantine.changes(path, place):
            if change.group == journal.group:
                quarantine.check_place(change)
                freed += change.kept_bytes
                quarantine.end(change, disk)
    journal.remove(disk)
    return freed


def has_changed_anything(journal: Journal) -> bool:
    return bool(journal.partitions or journal.planned or partitions_of(journal.directory, journal.group))


def roll_back_journal(journal: Journal, disk: Disk) -> None:
    """Ends a journal whose command had changed nothing yet: at most the marker is gone."""
    marker, path = journal.known.get(MARKER), os.path.join(journal.directory, MARKER)
    if marker is not None and not os.path.lexists(path) and not _changed_since(journal):
        replace_file(path, marker.content, disk, marker)
    journal.remove(disk)
