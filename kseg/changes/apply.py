"""Applies a plan. If the process is killed at any system call, the old state or a completable change is left.

1. Prepare: new content is staged, and the bytes to be removed are copied or linked, all in the folder of the change.
   Up to here nothing has changed; `complete_interrupted` removes the folder.
2. Commit: the folder gets its final name. From now on the change is rolled forward, or undone.
3. Steps: each step is idempotent, because files are identified by inode. A large file that is rewritten from a delta
   (`kseg.changes.content`) is written now, so that only one such file needs space beside its old version.
4. The manifest is marked as done.

Several partitions go through these steps together. What they have written is synced at the end of each step, and many
files are staged and renamed by several processes.

If a file differs both from the state in the plan and from the result of a step, another program has changed it: then
nothing is touched.
"""

import errno
import os
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from threading import current_thread, main_thread
from typing import Any

from kseg.changes import accepted_gaps, manifest, quarantine
from kseg.changes.content import copy_owner, created_state, delta_lines, deltas_of, make_file, new_content, write_pieces
from kseg.changes.disk import MANY_FILES, Disk, Model, attributes_in, end_with_parent, opened
from kseg.changes.disk_space import freeing_steps, kept_bytes, record_bytes, space_of
from kseg.changes.manifest import DONE, Author, Change, ChangedSinceError, ExpectedStates
from kseg.changes.plan import DELETE, EXTEND, RENAME, TRUNCATE, FileState, Piece, Plan, Range, Step, file_state
from kseg.errors import KsegError, PathError, StoppedHalfwayError, caused, errors_at, is_system_error, text_of
from kseg.quantities import shell_line
from kseg.runtime.threads import usable_cores
from kseg.signals import ENDING_SIGNALS, mask
from kseg.stores.no_follow import directories_held, directory_status, names_in, parent_of
from kseg.stores.place import Place
from kseg.stores.source import is_disk_error

# Prepares (before the commit) and applies the steps that rewrite a file from a delta (`kseg.changes.content`).
#
# The new file is created empty before the commit, so that its inode is known. If writing it is interrupted, it is
# written again: the old file stays in place until the new file is complete and synced.


def _prepare_delta(change: Change, plan: Plan, k: int, model: str | Model, disk: Disk) -> None:
    """Does everything up to the commit: the empty file, its delta, added and kept bytes. Raises OSError, KsegError."""
    step, deltas, borrows = change.steps[k], deltas_of(plan), change.is_kept_inside
    made = make_file(change.new(k), (), change.directory, disk, model, mtime_ns=step.mtime_ns)
    change.made[k] = made._replace(size=step.size)

    def write(path: str, pieces: Iterable[Piece], model: str = "", mtime_ns: int | None = None) -> None:
        """Creates and syncs a file; with a ``model``, owner, mode and attributes are copied as far as possible."""
        fallback = Place(path).parent
        with disk.new_file(path, model or change.directory, fallback, attributes=model, mtime_ns=mtime_ns) as target:
            write_pieces(pieces, change.directory, target, disk)

    write(change.delta_path(k), delta_lines(deltas.delta_pieces(k, borrows)))
    if deltas.added_bytes(k, borrows):
        write(change.added(k), deltas.added(k, borrows))
    change.by_delta[k] = manifest.Stored(0, 0, "")
    if change.kept and step.before is not None:
        removed_ranges = deltas.removed_ranges[k]
        pieces = (Range(step.origin, position, length) for position, length in removed_ranges)
        write(change.old(k), pieces, change.path(step.origin), step.before.mtime_ns)
        size = removed_ranges.size
        change.by_delta[k] = manifest.Stored(size, size, manifest.digest(change.old(k), 0, size))


def _put_in_place(change: Change, k: int, now: FileState | None, disk: Disk) -> None:
    """Gives the new file of step k its name, unless it has it; one that is rewritten from a delta is written first.

    ``now``: the state of the file under that name. Raises OSError, ChangedSinceError if it is not the one to be
    rewritten.
    """
    new, path = change.new(k), change.path(change.steps[k].file)
    if Place(new).lexists():
        if now is not None and now.inode == change.made[k].inode:
            disk.unlink(new)  # both names are the same file: rename(2) would do nothing
        else:
            if k in change.by_delta:
                if now != change.steps[k].before:
                    raise ChangedSinceError(f"{path}: was changed by another program during {change.command!r}")
                _fill(change, k, disk)
            disk.rename(new, path)
    if k in change.by_delta and Place(change.added(k)).lexists():
        disk.sync_directory(change.directory)  # before this sync, the new file might have to be written again
        disk.unlink(change.added(k))


def _fill(change: Change, k: int, disk: Disk) -> None:
    made = change.made[k]
    with opened(change.new(k), os.O_RDWR) as target:
        if os.fstat(target).st_size:
            disk.truncate(target, 0)
        try:
            if write_pieces(new_content(change, k), change.directory, target, disk) != made.size:
                raise OSError(errno.EIO, "is no delta to the new file", change.delta_path(k))
        except OSError:
            with suppress(OSError):
                disk.truncate(target, 0)  # frees space for an undo
            raise
        disk.set_time(target, made.mtime_ns)
        disk.sync(target)


MARGIN_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where removed bytes are kept: beside the files, in the directory ``elsewhere``, or nowhere (not ``keeps``)."""

    keeps: bool = True
    elsewhere: str | None = None

    def place(self) -> str:
        """Returns ``elsewhere``, or the directory in which it will be created; "" for none. Raises KsegError."""
        if not self.elsewhere:
            return ""
        path = Place(self.elsewhere).absolute
        path = path if path.is_dir() else path.parent
        if not path.is_dir():
            raise KsegError(f"{path}: is no directory; nothing was changed")
        return path

    def is_on_another_disk_than(self, directory: str) -> bool:
        """Whether removed bytes are kept on another file system. Raises KsegError."""
        place = self.place() if self.keeps else ""
        return bool(place) and os.stat(place).st_dev != os.stat(directory).st_dev


def apply(
    plan: Plan, command: str, keeping: Keeping | None = None, disk: Disk | None = None, group: str = "", undoes: int = 0
) -> Change | None:
    """Applies a plan. Returns None if there is nothing to do.

    The caller holds the lock, has called `complete_interrupted`, and has removed the clean shutdown marker if a log
    changes. ``group``: the change of a log directory that this change belongs to; its folder then stays, even if
    nothing is kept.

    Raises KsegError if nothing was changed, StoppedHalfwayError if `complete_interrupted` must finish the change.
    """
    if not plan:
        return None
    [found] = apply_all([plan], command, keeping, disk, group, undoes)
    if isinstance(found, KsegError):
        raise found
    return found


Outcome = Change | KsegError
"""A change, or the error that has ended it."""


def apply_all(
    plans: Sequence[Plan],
    command: str,
    keeping: Keeping | None = None,
    disk: Disk | None = None,
    group: str = "",
    undoes: int = 0,
    author: Author | None = None,
) -> list[Outcome]:
    """Applies plans for different partitions of a file system phase by phase: a phase's bytes are synced together.

    Several plans take the disk space that they need together, and keep nothing elsewhere. Arguments and errors are
    those of `apply`; the error of one plan does not stop the others.
    """
    disk, keeping = disk or Disk(), keeping or Keeping()
    places = [plan.directory for plan in plans]
    failed = partial(dropped, disk=disk)
    planned: dict[str, Plan] = {Place(plan.directory).absolute: plan for plan in plans}

    def prepare(change: Change) -> None:
        _prepare(change, planned[change.directory], disk)
        change.state = manifest.COMMITTED
        manifest.write_change(change, disk)

    def commit(change: Change) -> None:
        folder = quarantine.folder_of(change.directory) / str(change.number)
        disk.rename(change.folder, folder)
        change.move_to(folder)
        disk.sync_directory(quarantine.folder_of(change.directory))

    with directories_held():
        changes = [_begun(plan, command, keeping, disk, group, undoes, author) for plan in plans]
        try:
            with disk.phase(places):
                changes = _each(prepare, changes, failed)
            with disk.phase(places):
                changes = [_attempted(commit, change, failed) for change in changes]
        except BaseException as error:
            changes = [failed(change, error) if isinstance(change, Change) else change for change in changes]
            if not is_system_error(error):
                raise
            return changes
        ends = rolled_forward(changes, disk, is_new=True)
    for k, end in enumerate(ends):
        if isinstance(end, ChangedSinceError) and isinstance(changes[k], Change):
            ends[k] = caused(StoppedHalfwayError(f"{end}; stopped half-way"), end)
    return ends


MIN_SHARED_STEPS = 1000
"""With fewer steps, starting processes takes longer than they save; with many, two halve the time."""

Failed = Callable[[Change, BaseException], KsegError]


def _attempted(act: Callable[[Change], None], change: Outcome, failed: Failed) -> Outcome:
    if isinstance(change, Change):
        try:
            act(change)
        except (KsegError, OSError) as error:
            return failed(change, error)
    return change


def _each(
    act: Callable[[Change], None],
    changes: list[Outcome],
    failed: Failed,
    within: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> list[Outcome]:
    """Calls ``act`` for each change, in a block ``within``; many steps are divided among processes."""
    alive = {k: change for k, change in enumerate(changes) if isinstance(change, Change)}
    steps, processes = sum(len(change.steps) for change in alive.values()), min(usable_cores(), len(alive))
    if steps < MIN_SHARED_STEPS or processes < 2 or not sys.platform.startswith("linux"):
        with within():
            return [_attempted(act, change, failed) for change in changes]
    from kseg.runtime.process_pool import Child, Tickets  # most changes have few steps

    tickets, children, parent = Tickets(len(alive)), list[Child](), os.getpid()
    ends: dict[int, Any] = {}

    def work(send: Callable[[object], None]) -> None:
        end_with_parent(parent)
        mask("SIG_BLOCK", ENDING_SIGNALS)  # what is begun is finished; the parent decides what follows
        done, numbers = {}, list(alive)
        with within():
            while (number := tickets.take()) is not None:
                k = numbers[number]
                end = _attempted(act, alive[k], failed)
                done[k] = (end, end.__cause__) if isinstance(end, KsegError) else end.results()
        send(done)

    try:
        for _ in range(processes):
            children.append(Child(work, children))
        for child in children:
            with suppress(EOFError):
                ends |= child.receive()
    finally:
        while tickets.take() is not None:
            pass
        for child in children:
            child.end()
    found = list(changes)
    for k, change in alive.items():
        if k not in ends:
            found[k] = failed(change, OSError(errno.ECHILD, "a process of kseg has died"))
        elif isinstance(ends[k][0], KsegError):
            found[k] = caused(*ends[k])
        else:
            change.take_results(ends[k])
    return found


def _begun(
    plan: Plan, command: str, keeping: Keeping, disk: Disk, group: str, undoes: int, author: Author | None
) -> Outcome:
    """Returns a change in state ``prepared`` with its own folder, which it may remove; or why nothing was changed."""
    try:
        change = new_change(plan, command, keeping, group, undoes, author)
        inside = Place(change.folder).parent
        _check_space(plan, keeping, author)
        with suppress(FileExistsError):
            disk.make_directory(inside)
        try:
            disk.make_directory(change.folder)
        except FileExistsError as error:
            raise KsegError(f"{change.folder}: another kseg is running here; nothing was changed") from error
        except OSError:
            quarantine.remove_if_empty(inside, disk)
            raise
    except KsegError as error:
        return error
    except OSError as error:
        return caused(KsegError(f"{plan.directory}: nothing was changed: {text_of(error)}"), error)
    return change


def new_change(plan: Plan, command: str, keeping: Keeping, group: str, undoes: int, author: Author | None) -> Change:
    """Returns a change in state ``prepared``, whose folders do not exist yet. Raises KsegError."""
    directory, time_ms = Place(plan.directory).absolute, time.time_ns() // 1_000_000
    quarantine.check_folder(directory)
    number = max((number for number, _ in quarantine.folders(directory)), default=0) + 1
    folder = quarantine.folder_of(directory) / f"{number}{quarantine.PREPARING}"
    kept = folder / manifest.KEPT if keeping.keeps else ""
    if kept and keeping.elsewhere:
        kept = Place(os.path.realpath(keeping.elsewhere)) / manifest.kept_name(directory, number, time_ms)
    return Change(
        number, folder, directory, manifest.PREPARED, command, time_ms, kept, list(plan.steps), list(plan.gaps), group,
        undoes, author, purges=list(plan.purges),
    )  # fmt: skip


def dropped(change: Change, cause: BaseException, disk: Disk) -> KsegError:
    """Removes what was prepared of a change. Returns the error that says so, with a remark if that fails."""
    remark = ""
    try:
        if change.kept and not change.is_kept_inside:
            quarantine.remove_kept(change.kept, disk)
            quarantine.forget(change, disk)
        if Place(change.folder).is_dir() and not change.folder.endswith(quarantine.PREPARING):
            quarantine.end(change, disk=disk)
        else:
            disk.remove_tree(change.folder)
            quarantine.remove_if_empty(quarantine.folder_of(change.directory), disk)
    except OSError as error:
        remark = f" (and {change.folder} could not be removed, the next command tries again: {text_of(error)})"
    if isinstance(cause, KsegError):
        return caused(type(cause)(f"{cause}; nothing was changed{remark}"), cause)
    return caused(KsegError(f"{change.directory}: nothing was changed: {text_of(cause)}{remark}"), cause)


def _check_space(plan: Plan, keeping: Keeping, author: Author | None) -> None:
    """Raises KsegError if a file system lacks the space that the plan needs at its peak. The error names the command
    that keeps nothing, if there is room for it."""
    needed = space_of(plan, links=not keeping.elsewhere, keeps=keeping.keeps).peak
    is_elsewhere = keeping.is_on_another_disk_than(plan.directory)
    try:
        check_free(plan.directory, needed + record_bytes(plan), 0)
    except KsegError as error:
        arguments = author.arguments if author else None
        is_kept_here = keeping.keeps and not is_elsewhere
        if is_kept_here and arguments is not None and "--quarantine" not in arguments:
            steps = freeing_steps(plan)
            if steps is not None and steps.room_bytes <= free_bytes(plan.directory):
                line = shell_line(["kseg", *arguments, "--no-quarantine"])
                text = f"{error}; removed bytes that are kept free no space: without them it works:"
                raise KsegError.with_command(text, line) from None
        raise
    if keeping.keeps and (place := keeping.place()):
        check_free(place, kept_bytes(plan, links=not is_elsewhere) + needed * (not is_elsewhere))


def check_free(place: str, needed: int, margin: int = MARGIN_BYTES) -> None:
    """Raises KsegError if the file system of ``place`` has less than ``needed`` bytes free, and a margin."""
    needed += margin
    if (free := free_bytes(place)) < needed:
        raise KsegError(
            f"{place}: {needed} bytes of disk space are needed, {free} bytes are free: {needed - free} bytes have to "
            "be freed first; nothing was changed"
        )


def free_bytes(place: str) -> int:
    """Returns the bytes that this user may still write to the file system of a path. Raises KsegError; nothing has
    changed.
    """
    with errors_at(place, KsegError, "; nothing was changed"):
        status = os.statvfs(place)
    blocks = status.f_bfree if hasattr(os, "geteuid") and os.geteuid() == 0 else status.f_bavail
    return blocks * status.f_frsize


def _prepare(change: Change, plan: Plan, disk: Disk) -> None:
    """Does everything up to the commit. Raises OSError, ChangedSinceError."""
    directory = change.directory
    own = Model(directory, directory_status(directory), {})
    for path in (quarantine.folder_of(directory), change.folder):
        copy_owner(path, own, disk, as_directory=True)
    disk.sync_directory(directory)
    new = Place(change.folder) / "new"
    make_folder(new, own, disk)
    if change.kept:
        if not change.is_kept_inside:
            manifest.write_change(change, disk)  # so that the kept bytes are found after an interruption here
        make_kept_folder(change, own, disk)
    absent = {name for name, found in ExpectedStates(change).initial.items() if found is None}
    for name in sorted(absent.intersection(names_in(directory))):
        if file_state(change.path(name)) is not None:
            raise ChangedSinceError(f"{change.path(name)}: has changed since it was read")
    old: dict[str, Model] = {"": own}
    for step in change.steps:
        if step.origin and step.origin not in old:
            old[step.origin] = examined(change, step)
    removed_ranges = deltas_of(plan).removed_ranges
    for k, step in enumerate(change.steps):
        model, path = step.model or old[step.origin], change.new(k)
        if k in removed_ranges:
            _prepare_delta(change, plan, k, model, disk)
        elif step.source:
            disk.link_or_copy(step.source, path)
            if os.stat(path).st_uid != os.stat(directory).st_uid and os.stat(path).st_nlink == 1:
                copy_owner(path, directory, disk)  # a copy from a file system without owners
            if step.makes:
                change.made[k] = created_state(path)
        elif step.makes:
            made = make_file(path, step.pieces, plan.directory, disk, model, bool(step.origin), step.mtime_ns)
            change.made[k] = made
        if change.kept and step.is_kept:
            keep(change, k, disk)
    if change.kept:
        manifest.hash_before(change)
    disk.sync_directory(new)
    if change.kept:
        disk.sync_directory(change.kept)


def make_folder(path: str, model: Model, disk: Disk) -> None:
    """Creates a folder with the owner of the partition, so that a broker can remove it together with the topic."""
    disk.make_directory(path)
    copy_owner(path, model, disk, as_directory=True)


def make_kept_folder(change: Change, model: Model, disk: Disk) -> None:
    """Creates and syncs the folder for the kept bytes, and the directory that the user has named for it."""
    place = Place(change.kept).parent
    if not place.lexists():
        disk.make_directory(place)
        disk.sync_directory(place.parent)
    make_folder(change.kept, model, disk)
    disk.sync_directory(place)


def examined(change: Change, step: Step) -> Model:
    """Returns the old file of a step. Raises OSError now if the step would fail later, as the file cannot be written to
    or cannot be removed; ChangedSinceError if the file is not as planned.

    Also raises for a file of another owner that has a second hard link: the owner may have linked it here so that kseg
    copies its bytes.
    """
    path = change.path(step.origin)
    try:
        with parent_of(path) as (at, name):
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                raise PathError(f"{path}: is no regular file, which kseg does not change")
            is_writable = os.access(name, os.W_OK, dir_fd=at)
            attributes = attributes_in(at, name) if step.makes else {}
    except FileNotFoundError as error:
        raise ChangedSinceError(f"{path}: has changed since it was read") from error
    if step.made_by is None and FileState(status.st_ino, status.st_size, status.st_mtime_ns) != step.before:
        raise ChangedSinceError(f"{path}: has changed since it was read")
    if step.action == TRUNCATE or not is_writable:
        _check_writable(path, needs_permission=step.action == TRUNCATE)
    if status.st_nlink > 1 and status.st_uid != directory_status(change.directory).st_uid:
        raise OSError(errno.EPERM, "has another name, and another owner than its directory", path)
    return Model(path, status, attributes)


def _check_writable(path: str, needs_permission: bool = False) -> None:
    """Raises OSError if a file is immutable or append-only, so that it cannot be removed; ``needs_permission``: also if
    this user may not write to it.
    """
    try:
        with opened(path, os.O_RDWR):
            return
    except PermissionError as error:
        if needs_permission or error.errno == errno.EPERM:
            raise


def keep(change: Change, k: int, disk: Disk) -> None:
    """Keeps the bytes that step k removes. Records the digests of the removed ranges, and of the kept file."""
    step = change.steps[k]
    path, kept = change.path(step.origin), change.old(k)
    if k not in change.by_delta:
        if step.action != TRUNCATE:
            if not disk.link(path, kept):
                _check_writable(path)  # an append-only file can neither be linked nor removed
                disk.copy_file(path, kept, change.kept)
        elif step.before is not None:
            with disk.new_file(kept, path, change.kept) as target:
                write_pieces([Range(path, step.size, step.before.size - step.size)], "", target, disk)
    try:
        digests = [manifest.digest(path, removed.position, removed.length) for removed in step.removed]
        change.digests[k] = digests
        if step.before is not None and k not in change.by_delta:
            start = step.size if step.action == TRUNCATE else 0
            size = step.before.size - start
            is_whole = [(removed.position, removed.length) for removed in step.removed] == [(start, size)]
            if is_whole and os.stat(kept).st_blocks * 512 >= size:  # its digest is known
                change.stored[k] = manifest.Stored(size, size, digests[0])
            else:
                change.stored[k] = manifest.stored(kept)
    except OSError as error:
        if not is_disk_error(error):
            raise
        change.digests[k] = []  # the file is kept, but unreadable bytes have no digest


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defers signals that end a process until the block ends, so that an interrupt leaves either the old or the new
    files.

    The delay is the time to write the files that are rewritten from deltas; without such files there is none.

    Handlers belong to the process. Signal masks belong to each thread, and the system delivers a signal to any thread
    that does not block it; so handlers are replaced here, not masks.
    """
    if current_thread() is not main_thread():
        yield
        return
    held: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    heard = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    try:
        for number in heard:
            signal.signal(number, lambda number, _frame: held.append(number))
        yield
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)
        for late in held:
            signal.raise_signal(late)


def rolled_forward(changes: list[Outcome], disk: Disk, is_new: bool = False) -> list[Outcome]:
    """Applies all remaining steps of committed changes, within `directories_held`. ``is_new``: none was applied yet.

    Errors are StoppedHalfwayError if a step fails, ChangedSinceError if another program has changed the files.
    """

    def phase(act: Callable[[Change], None], is_ordered: bool = False) -> None:
        nonlocal changes
        places = [] if is_ordered else [change.directory for change in changes if isinstance(change, Change)]
        try:
            with disk.phase(places):
                changes = [_attempted(act, change, _stopped) for change in changes]
        except OSError as error:
            changes = [_stopped(change, error) if isinstance(change, Change) else change for change in changes]

    def apply_steps(change: Change) -> None:
        check_intermediate(change, is_new)
        left: set[str] = set()
        for k, step in enumerate(change.steps):
            if (step.target or step.file) in left:
                disk.sync_directory(change.directory)  # otherwise a power cut may leave only the later name
            _apply_step(change, k, disk, is_new)
            left |= {step.file} if step.action == RENAME else set()

    def sync(change: Change) -> None:
        disk.sync_directory(change.directory)
        change.after = ExpectedStates(change).check_final(is_new)
        if change.kept:
            manifest.hash_after(change)

    removed = sum(len(change.steps) for change in changes if isinstance(change, Change) and not change.kept)
    with _signals_deferred():
        changes = _each(apply_steps, changes, _stopped, lambda: disk.freeing_late(removed >= MANY_FILES))
        phase(sync)
        phase(partial(_finish, disk=disk), is_ordered=True)
        phase(lambda change: manifest.stage_manifest(change, disk) if change.state == DONE else None)
        phase(lambda change: manifest.publish_manifest(change, disk) if change.state == DONE else None)
    return changes


def _stopped(change: Change, error: BaseException) -> KsegError:
    if isinstance(error, KsegError):
        return error
    text = f"{change.directory}: stopped half-way: {text_of(error)}; repeat the command to go on, or kseg undo"
    return caused(StoppedHalfwayError(text), error)


def check_intermediate(change: Change, is_new: bool = False) -> None:
    """As `ExpectedStates.check_intermediate`. If the directory was copied meanwhile, the change gets the new inodes.

    ``is_new``: this process has prepared the change.
    """
    if not is_new and not manifest.is_staged(change) and not ExpectedStates(change).recognize():
        raise ChangedSinceError(
            f"{change.folder}: was changed by another program during {change.command!r}, or copied without its times"
        )
    try:
        ExpectedStates(change).check_intermediate(is_new)
    except ChangedSinceError:
        if is_new or not ExpectedStates(change).recognize():
            raise
        ExpectedStates(change).check_intermediate()


def _finish(change: Change, disk: Disk) -> None:
    """Ends a change that leaves no record; the manifest of one that keeps bytes is to be marked as done.

    A change that keeps nothing and belongs to another stays as it is: its steps can be applied again.
    """
    if change.purges:
        accepted_gaps.purge(change.directory, change.purges, disk)
    if change.undoes:
        for other in quarantine.changes(change.directory):
            if other.number == change.undoes:
                accepted_gaps.withdraw(change.directory, other.gaps, disk)
                quarantine.end(other, disk=disk)
        quarantine.end(change, disk=disk)
    elif not (change.kept or change.group):
        accepted_gaps.end(change, disk=disk)
    elif change.kept:
        change.state = DONE


def _apply_step(change: Change, k: int, disk: Disk, is_new: bool) -> None:
    """Applies step k, unless its file is not in the state before the step: then it was applied earlier.

    ``is_new``: no step was.
    """
    step, path = change.steps[k], change.path(change.steps[k].file)
    if is_new and step.makes and k not in change.by_delta:
        disk.rename(change.new(k), path)
        return
    now = file_state(path)
    if step.makes:
        _put_in_place(change, k, now, disk)
    elif now is None or now.inode != change.changed_inode(k):
        return
    elif step.action in (TRUNCATE, EXTEND):
        _resize(change, k, disk)
    elif step.action == DELETE:
        disk.unlink(path)
    elif step.action == RENAME:
        disk.rename(path, change.path(step.target))


def _resize(change: Change, k: int, disk: Disk) -> None:
    """Truncates the file of step k, or appends its staged bytes. An interrupted append starts again, because the bytes
    may not be synced.

    A file that has a second hard link is replaced by a new file, because the bytes under the other name must not
    change.
    """
    step, path, staged = change.steps[k], change.path(change.steps[k].file), list[Range]()
    left = step.size
    if step.action == EXTEND:
        if step.before is None or not Place(change.new(k)).lexists():
            return
        left = step.before.size
        staged = [Range(change.new(k), 0, step.size - left)]
    with opened(path, os.O_RDWR) as target:
        size = os.fstat(target).st_size
        if (staged or size > left) and disk.has_second_link(target):
            new = f"{change.new(k)}.whole"
            if Place(new).lexists():
                disk.unlink(new)
            pieces = [Range(path, 0, left), *staged]
            old, made = created_state(path), make_file(new, pieces, "", disk, path, mtime_ns=step.mtime_ns)
            disk.rename(new, path)
            manifest.replace_inodes(change, {old.inode: made.inode})
            return
        if size > left:
            disk.truncate(target, left)
        if staged:
            os.lseek(target, 0, os.SEEK_END)
            write_pieces(staged, "", target, disk)
            if step.mtime_ns is not None:
                disk.set_time(target, step.mtime_ns)
        disk.sync(target)
