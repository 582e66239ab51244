"""A new log directory in an object store, written partition by partition; an interrupted run can be continued.

Stores cannot rename. A partition is written to a local directory and then uploaded. The record of the run, an object of
the root, lists the complete partitions; it is removed at the end.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, Protocol

from kseg.changes.disk import Disk
from kseg.changes.resumable_output import OUTPUT_MARK, OUTPUT_TEXT, RECORD, parsed_record
from kseg.errors import PathError
from kseg.limits import MAX_MANIFEST_BYTES
from kseg.stores.no_follow import names_in
from kseg.stores.stored_object import StoredObject


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
