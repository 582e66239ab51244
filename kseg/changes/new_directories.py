"""Creates directories completely or not at all: their contents are written to a staging folder, which is then renamed.
A log directory that takes long is written partition by partition instead (`resumable_output`).

If the output does not exist, the staging folder is renamed to it. If it exists, the staging folder is first renamed to
mark it as complete, then its contents are moved out. The next run completes an interrupted move.

Any number of runs may write to one output at once: each has a staging folder of its own, and they take turns at moving
things into place. The lock file in a staging folder is held while its run lives; other runs remove dead folders.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

from kseg.changes.copies import CopiedRows, Rows, checkpoints_with, rows_to_extend
from kseg.changes.disk import Disk, is_temporary, opened, umask
from kseg.changes.lock import HeldLock, is_locked, locked
from kseg.errors import KsegError, PathError, StoppedHalfwayError, UnsupportedError, errors_at, text_of
from kseg.limits import MAX_MANIFEST_BYTES
from kseg.node.log_directory import OF_BROKERS
from kseg.segment.files import LOCK_NAME, bounded, file_names, holds_segments
from kseg.stores.no_follow import is_directory, names_in, read_file, resolved, status_of
from kseg.stores.place import Place
from kseg.stores.stored_object import StoredObject, is_url, shown

if TYPE_CHECKING:
    from kseg.stores.object_urls import UrlObjects

_INSIDE = "output"
"""The part of their names that staging folders in an existing output have; elsewhere it is the output's name."""
_STAGED = re.compile(r"\.kseg-.+\.(new|staged)")
_COMPLETE = re.compile(rf"\.kseg-{_INSIDE}(\.[0-9a-f]{{32}})?\.complete")
_ATTEMPTS = 20
"""How often a staging folder is made: another run may take one for dead before it is locked."""


class NewDirectories:
    """Directories that appear in ``output`` all together or not at all: see `new_directories`.

    ``folder``: the staging folder. Files that are written beside the directories in it appear with them.
    """

    def __init__(self, output: str, folder: str, disk: Disk, was_completed: bool = False) -> None:
        """``was_completed``: the output of an interrupted run was moved into place just before."""
        self.folder = folder
        self.output, self._disk, self._was_completed = output, disk, was_completed
        self._models: dict[str, str] = {}
        self.is_dropped = False
        self.rows: CopiedRows = {}
        """The entries that the new partitions have in the checkpoints."""

    def add(self, name: str, is_dry: bool = False, model: str = "") -> str:
        """Returns the path of an empty folder that becomes ``output/name``. Raises PathError if the name is taken.

        ``model``: a directory, whose owner and mode the folder gets; or a file: the folder gets those of its directory,
        and at `finish` the files in the folder get those of the file. "" for the defaults of this user.
        """
        target, staged = Place(self.output) / name, Place(self.folder) / name
        if name in self._models:
            raise PathError(f"{target}: two inputs would become it; nothing was written")
        self._check_free(name)
        self._models[name] = model
        self.is_dropped = False
        if not is_dry:
            self._disk.make_directory(staged)
            place = model if not model or Place(model).is_dir() else Place(model).absolute.parent
            if place:
                self._disk.copy_owner_if_allowed(staged, place, as_directory=True)
        return staged

    def drop(self, name: str, is_dry: bool = False) -> None:
        """Removes a folder of `add`. If no other one is left in the end, the output is not made."""
        del self._models[name]
        self.is_dropped = not self._models
        if not is_dry:
            self._disk.remove_tree(Place(self.folder) / name)

    def _check_free(self, name: str) -> None:
        if (target := Place(self.output) / name).lexists():
            why = ": an interrupted run had written it, and all of it is in place now" * self._was_completed
            raise PathError(f"{target}: already exists{why}; nothing was written")

    def finish(self, lock: HeldLock | None, takes_lock: bool) -> None:
        """Sets owner and mode of files, as `add` describes, and moves everything into place.

        ``lock``: that of the output, None if it did not exist.
        """
        for name, model in self._models.items():
            staged = Place(self.folder) / name
            for file in names_in(staged):
                path = staged / file
                if not stat.S_ISREG(status_of(path).st_mode) or Place(model).is_dir():
                    continue
                if model:
                    self._disk.copy_owner_if_allowed(path, model)
                else:
                    with opened(path) as descriptor:
                        self._disk.set_default_mode(descriptor)
            self._disk.sync_directory(staged)
        if lock is not None:
            self._move_in(lock)
            return
        self._write_checkpoints()
        self._disk.sync_directory(self.folder)
        try:
            self._disk.rename(self.folder, self.output)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            with locked(self.output, takes_lock, is_shared=True) as lock:  # another run has made the output meanwhile
                self._move_in(lock)
        else:
            self._disk.sync_directory(Place(self.output).parent)

    def _write_checkpoints(self) -> None:
        """Writes the checkpoints of the output, or those that are to come there, with the entries of `rows`."""
        if self.rows:  # otherwise what stands there is not read: it may be damaged
            new = {name: found for name, found in rows_to_extend(self.folder).items() if found}
            _add_rows(self.folder, rows_to_extend(self.output) | new, self.rows, self._disk)

    def _move_in(self, lock: HeldLock) -> None:
        """Moves everything into the existing output."""
        complete = Place(self.output) / f".kseg-{_INSIDE}.{os.urandom(16).hex()}.complete"
        with lock.alone():
            # Another run may have been killed meanwhile: its checkpoints must not replace those written now.
            self._was_completed |= _complete(self.output, self._disk)
            for name in self._models:
                self._check_free(name)
            self._write_checkpoints()
            self._disk.sync_directory(self.folder)
            self._disk.rename(self.folder, complete)
            try:
                self._disk.sync_directory(self.output)
                _move_out(complete, self.output, self._disk)
            except OSError as error:
                raise StoppedHalfwayError(f"{self.output}: {text_of(error)}; repeat the command to go on") from error


def _add_rows(directory: str, own: Rows, copied: CopiedRows, disk: Disk) -> None:
    """Writes the checkpoints that change if ``own`` entries get those of copied partitions."""
    for name, content in checkpoints_with(own, copied).items():
        path = Place(directory) / name
        with disk.replacement(path) as temporary:
            disk.write_file(temporary, content, path if path.lexists() else directory, needs_owner=False)


def check_local(output: str) -> None:
    """Raises UnsupportedError for an output in an object store."""
    if is_url(output):
        raise UnsupportedError(f"{shown(output)}: only restore --from-remote writes to object stores")


def check_output(output: str, inputs: Sequence[str] = (), may_be_log_directory: bool = False) -> None:
    """Raises PathError if the output would be inside a partition or log directory, among the files of brokers, or
    inside one of these inputs. ``may_be_log_directory``: the output itself may be one that a broker has used.
    """
    place, where = os.path.realpath(output), ""
    folder = place if Place(place).is_dir() else Place(place).parent
    foreign = frozenset() if may_be_log_directory and folder == place else OF_BROKERS
    if Place(folder).is_dir() and holds_segments(folder):
        where = f"partition {folder}"
    elif Place(folder).is_dir() and foreign & {*file_names(folder)}:
        where = f"log directory {folder}"
    for each in inputs:
        if Place(each).is_dir() and os.path.join(place, "").startswith(os.path.join(os.path.realpath(each), "")):
            where, folder = f"input {each}", os.path.realpath(each)
    if where:
        inside = "" if folder == place else "inside "
        raise PathError(f"{output}: is {inside}the {where}; nothing was written: choose a path outside of it")


@contextmanager
def new_directories(output: str, takes_lock: bool, is_dry: bool = False, model: str = "") -> Iterator[NewDirectories]:
    """Creates ``output`` if necessary and holds its lock. If the block raises, nothing is left behind.

    ``model``: the directory whose owner and mode a new ``output`` gets. With ``is_dry`` nothing is created. Raises
    KsegError if the output cannot be written.
    """
    check_local(output)
    disk, output = Disk(), resolved(output).absolute
    if is_dry:
        yield NewDirectories(output, output, disk)
        return
    try:
        with ExitStack() as held:
            lock, was_completed, place = None, False, output.parent
            # Asked in this order, because another run may make it meanwhile.
            if output.lexists():
                if not output.is_dir():
                    raise PathError(f"{output}: is no directory")
                lock, place = held.enter_context(locked(output, takes_lock, is_shared=True)), output
                with lock.alone():
                    was_completed = _complete(output, disk)
            name = bounded(os.path.basename(output), 200) if lock is None else _INSIDE
            staged = re.compile(rf"\.kseg-{re.escape(name)}(\.[0-9a-f]{{32}})?\.new")
            _remove_dead(place, _folders(place, staged), disk)
            folder = _staging_folder(place, name, "" if lock else model, disk, held)
            made = NewDirectories(output, folder, disk, was_completed)
            try:
                yield made
                if made.is_dropped:
                    disk.remove_tree(folder)
                else:
                    made.finish(lock, takes_lock)
            except BaseException:
                disk.remove_tree(folder)
                raise
    except OSError as error:
        if isinstance(error, BrokenPipeError | InterruptedError | KsegError):
            raise
        raise KsegError(f"{output}: nothing was written: {text_of(error)}") from error


def _staging_folder(place: str, name: str, model: str, disk: Disk, held: ExitStack) -> str:
    """Creates a staging folder in a directory, and locks it as long as ``held``. Raises KsegError."""
    for attempt in range(_ATTEMPTS):
        folder = Place(place) / f".kseg-{name}.{os.urandom(16).hex()}.new"
        with errors_at(folder):
            disk.make_directory(folder)
        try:
            if model:
                disk.copy_owner_if_allowed(folder, model, as_directory=True)
            held.enter_context(locked(folder, is_shared=True))
        except BaseException as error:
            with suppress(FileNotFoundError):  # another run, which has the lock, may remove it now
                disk.remove_tree(folder)
            if not isinstance(error, KsegError | FileNotFoundError) or attempt == _ATTEMPTS - 1:
                raise
        else:
            return folder
    raise AssertionError  # the last attempt returns or raises


def is_left(directory: str, name: str) -> bool:
    """Whether a directory beside partitions is the staging folder of a killed run, of this or another module."""
    is_staged = _STAGED.fullmatch(name) or _COMPLETE.fullmatch(name)
    return bool(is_staged) and not is_locked(Place(directory) / name) and not is_locked(directory)


def complete_new_directories(directory: str, disk: Disk) -> list[str]:
    """Moves into place what killed runs had written completely to a log directory, and removes all other staging
    folders. Returns a sentence for each. The caller holds the lock. Raises OSError.
    """
    messages = []
    if _complete(directory, disk):
        messages.append(f"{directory}: an interrupted run had written new partitions, which are in place now")
    if found := _folders(directory, _STAGED):
        _remove_dead(directory, found, disk)
        messages.append(f"{directory}: temporary folders of an interrupted command were removed")
    return messages


def _folders(place: str, pattern: re.Pattern[str]) -> list[str]:
    """Returns the names of directories that match, in order; files and links of such names are not kseg's."""
    names = sorted(filter(pattern.fullmatch, names_in(place)))
    return [name for name in names if is_directory(Place(place) / name)]


def _remove_dead(place: str, names: Iterable[str], disk: Disk) -> None:
    """Removes the staging folders of killed runs: those whose lock nobody holds."""
    for name in names:
        folder = Place(place) / name
        with suppress(KsegError, FileNotFoundError):  # another run works there, or removes it
            if LOCK_NAME in (inside := names_in(folder)):
                with locked(folder):
                    disk.remove_tree(folder)
            elif inside:  # a removal was interrupted: the lock is the first file to come and to go
                disk.remove_tree(folder)
            else:
                try:
                    disk.remove_directory(folder)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise  # otherwise another run has just made it, and its lock file in it


def _complete(output: str, disk: Disk) -> bool:
    """Completes the moves of killed runs: those whose lock nobody holds. Returns whether there was one."""
    folders = [Place(output) / name for name in _folders(output, _COMPLETE)]
    dead = [folder for folder in folders if not is_locked(folder)]
    for folder in dead:
        _move_out(folder, output, disk)
    return bool(dead)


def _move_out(folder: str, output: str, disk: Disk) -> None:
    """Moves the contents of a complete staging folder into the output, and removes the folder."""
    for name in sorted(set(names_in(folder)) - {LOCK_NAME}):
        disk.rename(Place(folder) / name, Place(output) / name)
    disk.sync_directory(output)
    disk.remove_tree(folder)


# Writes a new log directory partition by partition, or adds the partitions to one of the node; the same command
# continues an interrupted run.
#
# A record in the directory holds the request and the finished partitions; it is removed at the end. A directory that is
# not of the node must be new, empty, or have a record.

RECORD = ".kseg-from-remote"
OUTPUT_MARK = ".kseg-output"
"""A file of a complete output. It is no broker's log directory: its partitions are for that of another cluster."""
OUTPUT_TEXT = b"Partitions made by kseg, to be moved to the log directory of a broker; see kseg-restore(1).\n"


class ResumableOutput:
    """The log directory, a local one: a partition is written to a hidden folder, which is then renamed.

    ``work_directory``: the local directory in which partitions are written; ``done``: facts about each finished
    partition, by name; ``request`` must be the same in all runs. ``rows``: the entries in the checkpoints of a log
    directory that a broker has used, None for a new one.
    """

    rows: Rows | None = None

    def __init__(self, directory: str, work_directory: str, request: Mapping[str, Any]) -> None:
        self.directory, self.work_directory = directory, work_directory
        self.disk = Disk()
        self.done: dict[str, dict[str, Any]] = {}
        self._lock, self._request = Lock(), dict(request)

    @contextmanager
    def partition(self, name: str) -> Iterator[str]:
        """Yields an empty local folder, whose files become the partition at `finish_partition`."""
        staged = Place(self.directory) / f".kseg-{bounded(name, 240)}.new"
        if (Place(self.directory) / name).lexists():
            raise PathError(f"{os.path.join(self.directory, name)}: already exists")
        self.disk.remove_tree(staged)
        self.disk.make_directory(staged)
        os.chmod(staged, 0o777 & ~umask())
        try:
            yield staged
        except BaseException:
            self.disk.remove_tree(staged)
            raise

    def finish_partition(self, name: str, staged: str, facts: dict[str, Any], copied: CopiedRows) -> None:
        """Puts the files of a partition, which are synced, into place, and records it. ``copied``: its entries in the
        checkpoints, which come first: without them a broker would begin it with high watermark and log start 0."""
        if self.rows is not None:  # the broker has to write there
            for file in names_in(staged):
                self.disk.copy_owner_if_allowed(Place(staged) / file, self.directory)
            self.disk.copy_owner_if_allowed(staged, self.directory, as_directory=True)
        self.disk.sync_directory(staged)
        with self._lock:
            self.done[name] = facts
            self.write_record()
            if self.rows is not None:
                _add_rows(self.directory, self.rows, copied, self.disk)
                self.rows = rows_to_extend(self.directory)
            self.disk.rename(staged, Place(self.directory) / name)
            self.disk.sync_directory(self.directory)

    def write_file(self, name: str, content: bytes) -> None:
        """Writes or replaces a file of the log directory."""
        path = Place(self.directory) / name
        with self.disk.replacement(path) as temporary, self.disk.new_file(temporary) as descriptor:
            self.disk.write(descriptor, content)
            self.disk.set_default_mode(descriptor)

    def write_record(self) -> None:
        self.write_file(RECORD, json.dumps({"request": self._request, "done": self.done}).encode())

    def load(self, read: Callable[[], bytes]) -> None:
        """Reads the record of an interrupted run. Raises KsegError if it is of another request."""
        try:
            record = json.loads(read())
            begun, self.done = record["request"], dict(record["done"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise KsegError(f"{self.directory}: the record of an interrupted run cannot be read: {error}") from error
        if begun != self._request:
            raise KsegError(
                f"{self.directory}: was begun with other options: repeat that command, or give another --output"
            )

    def close(self) -> None:
        """Marks a new log directory as complete, and removes the record."""
        if self.rows is None:
            self.write_file(OUTPUT_MARK, OUTPUT_TEXT)
        self.disk.unlink(Place(self.directory) / RECORD)
        self.disk.sync_directory(self.directory)


class _StoreOutput(ResumableOutput):
    """In an object store, which cannot rename: a partition is written to a local directory and then uploaded."""

    def __init__(self, store: "UrlObjects", work_directory: str, request: Mapping[str, Any]) -> None:
        super().__init__(store.root, work_directory, request)
        self._store = store

    @contextmanager
    def partition(self, name: str) -> Iterator[str]:
        import tempfile  # only a store as the output needs one

        with tempfile.TemporaryDirectory(prefix="kseg-", dir=self.work_directory) as folder:
            yield folder

    def finish_partition(self, name: str, staged: str, facts: dict[str, Any], copied: CopiedRows) -> None:
        for file in sorted(names_in(staged)):
            self._store.upload(f"{name}/{file}", Place(staged) / file)
        with self._lock:
            self.done[name] = facts
            self.write_record()

    def write_file(self, name: str, content: bytes) -> None:
        self._store.write(name, content)

    def close(self) -> None:
        self.write_file(OUTPUT_MARK, OUTPUT_TEXT)
        self._store.remove(RECORD)


@contextmanager
def resumable_store_output(
    store: "UrlObjects", work_directory: str, request: Mapping[str, Any]
) -> Iterator[ResumableOutput]:
    """Begins a log directory in a store, or continues an interrupted run. Stores have no locks, so nothing is locked.

    Raises PathError if the store has other objects or cannot be written, KsegError for a record of another request.
    """
    output, files, folders = _StoreOutput(store, work_directory, request), list[StoredObject](), list[str]()
    with suppress(FileNotFoundError):
        files, folders = store.folder("")
    if any(found.name == RECORD for found in files):
        content = store.read(RECORD, 0, MAX_MANIFEST_BYTES)
        output.load(lambda: content)
    elif files or folders:
        raise PathError(f"{store.root}: already exists; nothing was written")
    else:
        output.write_record()
    yield output


@contextmanager
def resumable_output(
    directory: str, request: Mapping[str, Any], takes_lock: bool, is_of_node: bool = False
) -> Iterator[ResumableOutput]:
    """Creates the directory, or continues an interrupted run, and holds its lock.

    ``is_of_node``: it is a log directory of the node, and the partitions come beside its own. The caller writes the
    last files and calls `ResumableOutput.close`. Raises KsegError if the directory has other contents,
    StoppedHalfwayError if writing fails; the same command then continues.
    """
    directory = resolved(directory).absolute
    output = ResumableOutput(directory, directory, request)
    with errors_at(directory):
        if not directory.lexists():
            output.disk.make_directory(directory)
            os.chmod(directory, 0o777 & ~umask())
        elif not is_directory(directory):
            raise PathError(f"{directory}: is no directory")
        names = set(names_in(directory)) - {LOCK_NAME}
        is_begun = RECORD in names
        if not (is_begun or is_of_node or all(map(is_temporary, names))):
            raise PathError(f"{directory}: already exists; nothing was written")
    with locked(directory, takes_lock):
        if is_of_node:
            output.rows = rows_to_extend(directory)
        if is_begun:
            output.load(lambda: read_file(directory / RECORD, MAX_MANIFEST_BYTES)[0])
            # A kill may have come between the record and the rename.
            done = (name for name in output.done if is_directory(directory / name))
            output.done = {name: output.done[name] for name in done}
        else:
            try:
                output.write_record()
            except OSError as error:
                raise KsegError(f"{directory}: nothing was written: {text_of(error)}") from error
        try:
            yield output
        except OSError as error:
            if isinstance(error, BrokenPipeError | InterruptedError | KsegError):
                raise
            raise StoppedHalfwayError(f"{directory}: {text_of(error)}; repeat the command to go on") from error
