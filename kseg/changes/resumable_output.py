"""Writes a new log directory partition by partition; the same command continues an interrupted run.

Each partition is written to a hidden folder, which is then renamed. A record in the directory holds the request and the
finished partitions; it is removed at the end. The directory must be new, empty, or have a record.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, Protocol

from kseg.changes.disk import Disk, is_temporary, umask
from kseg.changes.lock import LOCK_NAME, locked
from kseg.errors import KsegError, PathError, StoppedHalfwayError, text_of
from kseg.limits import MAX_MANIFEST_BYTES
from kseg.stores.no_follow import is_directory, names_in, read_file, resolved
from kseg.stores.stored_object import StoredObject

# A new log directory in an object store, written partition by partition; an interrupted run can be continued.
#
# Stores cannot rename. A partition is written to a local directory and then uploaded. The record of the run, an
# object of the root, lists the complete partitions; it is removed at the end.


class WritableStore(Protocol):
    """The methods of a store that an output needs. All raise PathError if the store cannot do it."""

    root: str

    def list(self, prefix: str = "") -> Iterator[StoredObject]: ...

    def read(self, name: str, start: int, length: int) -> bytes: ...

    def write(self, name: str, content: bytes) -> None: ...

    def upload(self, name: str, path: str) -> None: ...

    def remove(self, name: str) -> None: ...


class ResumableStoreOutput:
    """Like `ResumableOutput`, in a store. ``work_directory``: a local directory in which partitions are written."""

    def __init__(self, store: WritableStore, work_directory: str, request: Mapping[str, Any]) -> None:
        self.directory = store.root
        self.work_directory = work_directory
        self.disk = Disk()
        self.done: dict[str, dict[str, Any]] = {}
        self._store, self._request, self._lock = store, dict(request), Lock()

    def begin(self) -> None:
        """Reads the record of an interrupted run, or writes a first one. Raises PathError if the store has other
        objects, KsegError for a record of another request.
        """
        first = next(iter(self._store.list()), None)
        if first is None:
            self._write_record()
            return
        if not any(found.name == RECORD for found in self._store.list(RECORD)):
            raise PathError(f"{self.directory}: already exists; nothing was written")
        content = self._store.read(RECORD, 0, MAX_MANIFEST_BYTES)
        self.done = parsed_record(self.directory, content, self._request)

    @contextmanager
    def partition(self, name: str) -> Iterator[str]:
        """Yields an empty local folder, whose files become the partition at `finish_partition`."""
        import tempfile  # only a store as the output needs one

        with tempfile.TemporaryDirectory(prefix="kseg-", dir=self.work_directory) as folder:
            yield folder

    def finish_partition(self, name: str, staged: str, facts: dict[str, Any]) -> None:
        """Uploads the files of a partition, and then records it."""
        for file in sorted(names_in(staged)):
            self._store.upload(f"{name}/{file}", os.path.join(staged, file))
        with self._lock:
            self.done[name] = facts
            self._write_record()

    def _write_record(self) -> None:
        self.write_file(RECORD, json.dumps({"request": self._request, "done": self.done}).encode())

    def write_file(self, name: str, content: bytes) -> None:
        self._store.write(name, content)

    def close(self) -> None:
        """Marks the log directory as complete, and removes the record."""
        self.write_file(OUTPUT_MARK, OUTPUT_TEXT)
        self._store.remove(RECORD)


@contextmanager
def resumable_store_output(
    store: WritableStore, work_directory: str, request: Mapping[str, Any]
) -> Iterator[ResumableStoreOutput]:
    """Begins a log directory in a store, or continues an interrupted run. Stores have no locks, so nothing is
    locked."""
    output = ResumableStoreOutput(store, work_directory, request)
    output.begin()
    yield output


RECORD = ".kseg-from-remote"
OUTPUT_MARK = ".kseg-output"
"""A file of a complete output. It is no broker's log directory: its partitions are for that of another cluster."""
OUTPUT_TEXT = b"Partitions made by kseg, to be moved to the log directory of a broker; see kseg-recover(1).\n"


class ResumableOutput:
    """The new log directory.

    ``done``: facts about each finished partition, by name; ``request`` must be the same in all runs.
    """

    def __init__(self, directory: str, request: Mapping[str, Any], disk: Disk) -> None:
        self.directory = directory
        self.disk = disk
        self.done: dict[str, dict[str, Any]] = {}
        self._lock = Lock()
        self._request = dict(request)

    def load(self) -> None:
        """Reads the record of an interrupted run. Raises KsegError if it has another request."""
        try:
            content = read_file(os.path.join(self.directory, RECORD), MAX_MANIFEST_BYTES)[0]
        except OSError as error:
            raise KsegError(f"{self.directory}: the record of an interrupted run cannot be read: {error}") from error
        done = parsed_record(self.directory, content, self._request)
        self.done = {name: facts for name, facts in done.items() if is_directory(os.path.join(self.directory, name))}

    @property
    def work_directory(self) -> str:
        """The directory in which partitions are written."""
        return self.directory

    @contextmanager
    def partition(self, name: str) -> Iterator[str]:
        """Yields an empty folder, which `finish_partition` renames to the partition; removes it if the block raises."""
        staged = os.path.join(self.directory, f".kseg-{name}.new")
        if os.path.lexists(os.path.join(self.directory, name)):
            raise PathError(f"{os.path.join(self.directory, name)}: already exists")
        self._drop(staged)
        self.disk.make_directory(staged)
        os.chmod(staged, 0o777 & ~umask())
        try:
            yield staged
        except BaseException:
            self._drop(staged)
            raise

    def finish_partition(self, name: str, staged: str, facts: dict[str, Any]) -> None:
        """Moves the folder of a partition, whose files are synced, into place."""
        self.disk.sync_directory(staged)
        with self._lock:
            self.done[name] = facts
            self.write_record()
            self.disk.rename(staged, os.path.join(self.directory, name))
            self.disk.sync_directory(self.directory)

    def write_record(self) -> None:
        record = {"request": self._request, "done": self.done}
        self.write_file(RECORD, json.dumps(record).encode())

    def write_file(self, name: str, content: bytes) -> None:
        """Writes or replaces a file of the log directory."""
        with self.disk.replacement(os.path.join(self.directory, name)) as temporary:
            descriptor = self.disk.create(temporary)
            try:
                self.disk.write(descriptor, content)
                self.disk.set_default_mode(descriptor)
                self.disk.sync(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Marks the directory as complete, and removes the record."""
        self.write_file(OUTPUT_MARK, OUTPUT_TEXT)
        self.disk.unlink(os.path.join(self.directory, RECORD))
        self.disk.sync_directory(self.directory)

    def _drop(self, staged: str) -> None:
        if is_directory(staged):
            self.disk.remove_tree(staged)


def parsed_record(directory: str, content: bytes, request: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the facts about the finished partitions in a record. Raises KsegError if it is of another request."""
    try:
        record = json.loads(content)
        begun, done = record["request"], dict(record["done"])
    except (ValueError, KeyError, TypeError) as error:
        raise KsegError(f"{directory}: the record of an interrupted run cannot be read: {error}") from error
    if begun != request:
        raise KsegError(f"{directory}: was begun with other options: repeat that command, or give another --output")
    return done


@contextmanager
def resumable_output(directory: str, request: Mapping[str, Any], takes_lock: bool) -> Iterator[ResumableOutput]:
    """Creates the directory, or continues an interrupted run, and holds its lock.

    The caller writes the last files and calls `ResumableOutput.close`. Raises KsegError if the directory has other
    contents, StoppedHalfwayError if writing fails; the same command then continues.
    """
    directory, disk = os.path.abspath(resolved(directory)), Disk()
    output = ResumableOutput(directory, request, disk)
    try:
        if not os.path.lexists(directory):
            disk.make_directory(directory)
            os.chmod(directory, 0o777 & ~umask())
        elif not is_directory(directory):
            raise PathError(f"{directory}: is no directory")
        is_begun = _check(directory)
    except OSError as error:
        raise PathError(f"{directory}: {error.strerror}") from error
    with locked(directory, takes_lock):
        if is_begun:
            output.load()
        else:
            try:
                output.write_record()
            except OSError as error:
                raise KsegError(f"{directory}: nothing was written: {text_of(error)}") from error
        try:
            yield output
        except OSError as error:
            if isinstance(error, BrokenPipeError | InterruptedError):
                raise
            raise StoppedHalfwayError(f"{directory}: {text_of(error)}; repeat the command to go on") from error


def _check(directory: str) -> bool:
    """Whether an interrupted run has begun here. Raises PathError if the directory has other contents."""
    names = set(names_in(directory)) - {LOCK_NAME}
    if RECORD in names:
        return True
    if any(not is_temporary(name) for name in names):
        raise PathError(f"{directory}: already exists; nothing was written")
    return False
