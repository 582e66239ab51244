"""Writes a new log directory partition by partition; the same command continues an interrupted run.

A record in the directory holds the request and the finished partitions; it is removed at the end. The directory must be
new, empty, or have a record.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from kseg.changes.disk import Disk, is_temporary, umask
from kseg.changes.lock import LOCK_NAME, locked
from kseg.errors import KsegError, PathError, StoppedHalfwayError, errors_at, text_of
from kseg.limits import MAX_MANIFEST_BYTES
from kseg.stores.no_follow import is_directory, names_in, read_file, resolved

if TYPE_CHECKING:
    from kseg.stores.object_urls import UrlObjects

RECORD = ".kseg-from-remote"
OUTPUT_MARK = ".kseg-output"
"""A file of a complete output. It is no broker's log directory: its partitions are for that of another cluster."""
OUTPUT_TEXT = b"Partitions made by kseg, to be moved to the log directory of a broker; see kseg-recover(1).\n"


class ResumableOutput:
    """The new log directory, a local one: a partition is written to a hidden folder, which is then renamed.

    ``work_directory``: the local directory in which partitions are written; ``done``: facts about each finished
    partition, by name; ``request`` must be the same in all runs.
    """

    def __init__(self, directory: str, work_directory: str, request: Mapping[str, Any]) -> None:
        self.directory, self.work_directory = directory, work_directory
        self.disk = Disk()
        self.done: dict[str, dict[str, Any]] = {}
        self._lock, self._request = Lock(), dict(request)

    @contextmanager
    def partition(self, name: str) -> Iterator[str]:
        """Yields an empty local folder, whose files become the partition at `finish_partition`."""
        staged = os.path.join(self.directory, f".kseg-{name}.new")
        if os.path.lexists(os.path.join(self.directory, name)):
            raise PathError(f"{os.path.join(self.directory, name)}: already exists")
        self.disk.remove_tree(staged)
        self.disk.make_directory(staged)
        os.chmod(staged, 0o777 & ~umask())
        try:
            yield staged
        except BaseException:
            self.disk.remove_tree(staged)
            raise

    def finish_partition(self, name: str, staged: str, facts: dict[str, Any]) -> None:
        """Puts the files of a partition, which are synced, into place, and records it."""
        self.disk.sync_directory(staged)
        with self._lock:
            self.done[name] = facts
            self.write_record()
            self.disk.rename(staged, os.path.join(self.directory, name))
            self.disk.sync_directory(self.directory)

    def write_file(self, name: str, content: bytes) -> None:
        """Writes or replaces a file of the log directory."""
        path = os.path.join(self.directory, name)
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
        except (OSError, ValueError, KeyError, TypeError) as error:
            text = f"{self.directory}: the record of an interrupted run cannot be read: {error}"
            raise KsegError(text) from error
        if begun != self._request:
            raise KsegError(
                f"{self.directory}: was begun with other options: repeat that command, or give another --output"
            )

    def close(self) -> None:
        """Marks the log directory as complete, and removes the record."""
        self.write_file(OUTPUT_MARK, OUTPUT_TEXT)
        self.disk.unlink(os.path.join(self.directory, RECORD))
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

    def finish_partition(self, name: str, staged: str, facts: dict[str, Any]) -> None:
        for file in sorted(names_in(staged)):
            self._store.upload(f"{name}/{file}", os.path.join(staged, file))
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
    output = _StoreOutput(store, work_directory, request)
    if next(iter(store.list()), None) is None:
        output.write_record()
    elif not any(found.name == RECORD for found in store.list(RECORD)):
        raise PathError(f"{store.root}: already exists; nothing was written")
    else:
        content = store.read(RECORD, 0, MAX_MANIFEST_BYTES)
        output.load(lambda: content)
    yield output


@contextmanager
def resumable_output(directory: str, request: Mapping[str, Any], takes_lock: bool) -> Iterator[ResumableOutput]:
    """Creates the directory, or continues an interrupted run, and holds its lock.

    The caller writes the last files and calls `ResumableOutput.close`. Raises KsegError if the directory has other
    contents, StoppedHalfwayError if writing fails; the same command then continues.
    """
    directory = os.path.abspath(resolved(directory))
    output = ResumableOutput(directory, directory, request)
    with errors_at(directory):
        if not os.path.lexists(directory):
            output.disk.make_directory(directory)
            os.chmod(directory, 0o777 & ~umask())
        elif not is_directory(directory):
            raise PathError(f"{directory}: is no directory")
        names = set(names_in(directory)) - {LOCK_NAME}
        is_begun = RECORD in names
        if not (is_begun or all(map(is_temporary, names))):
            raise PathError(f"{directory}: already exists; nothing was written")
    with locked(directory, takes_lock):
        if is_begun:
            output.load(lambda: read_file(os.path.join(directory, RECORD), MAX_MANIFEST_BYTES)[0])
            # A kill may have come between the record and the rename.
            done = (name for name in output.done if is_directory(os.path.join(directory, name)))
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
