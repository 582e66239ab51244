"""The base of the side file printers: opens a side file and related files, and iterates over its entries.

No file is created: if a .log or .index that kafka-dump-log needs is missing, a line reports it and entries are printed
unchecked.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from kseg.errors import PathError
from kseg.formats.rows import Scratch, Sliceable
from kseg.formats.suffixes import INDEX, INDEX_SUFFIXES, LOG, TIME_INDEX, TRANSACTION_INDEX
from kseg.limits import MAX_INDEX_BYTES, MAX_MESSAGE_BYTES
from kseg.output.sink import Sink
from kseg.sidefiles.index_checks import IndexedLog, OffsetMismatch, TimeMismatch, check_offset_index, check_time_index
from kseg.sidefiles.kinds import SideFile, read_items
from kseg.sidefiles.offset_index import OffsetIndex, OffsetIndexEntry
from kseg.sidefiles.problems import SideFileProblem
from kseg.sidefiles.time_index import TimeIndex, TimeIndexEntry
from kseg.sidefiles.transaction_index import TransactionIndex
from kseg.stores.source import Source, open_source
from kseg.stores.unreadable import named

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class SideStyle:
    """``verify_only``: check indexes, print no entries; ``sanity_check``: only the checks of TimeIndex and OffsetIndex.

    ``max_message_bytes``: largest size of a batch at an index entry's position; ``escape``: escape control characters.
    """

    verify_only: bool = False
    sanity_check: bool = False
    max_message_bytes: int = MAX_MESSAGE_BYTES
    escape: bool = False


class SidePrinter:
    """Base class: call `dump` for each file, then `report` for kafka-dump-log's report at the end.

    ``warn`` receives lines for standard error. ``errors`` counts damage, and entries that mislead readers.
    ``shows_unused``: an index of zeros only has one entry, as in kafka-dump-log.
    """

    shows_unused = True

    def __init__(self, sink: Sink, style: SideStyle, scratch: Scratch, warn: Callable[[str], None]) -> None:
        self.sink = sink
        self.style = style
        self.scratch = scratch
        self.warn = warn
        self.errors = 0

    def dump(self, file: SideFile) -> None:
        """Prints one file. Raises PathError if it cannot be opened."""
        with open_source(file.path) as source:
            self.begin(file)
            is_index = file.kind in INDEX_SUFFIXES
            end = source.end_of_data() if is_index else 0
            if end > MAX_INDEX_BYTES:
                self._fail(f"{file.path}: has {source.size} bytes, more than any index: its entries are not shown")
            elif file.kind == INDEX:
                self._offset_index(file, OffsetIndex(source.buffer, file.base_offset, end))
            elif file.kind == TIME_INDEX:
                self._time_index(file, TimeIndex(source.buffer, file.base_offset, end))
            elif file.kind == TRANSACTION_INDEX:
                self._transaction_index(file, TransactionIndex(source.buffer, file.base_offset, end))
            else:
                self.rest(file, source.buffer)
            if source.current_size() < source.size:
                self._fail(f"{file.path}: the file shrank while it was read")
            source.look_for_unreadable()
            if source.unreadable:
                self._fail(f"{file.path}: {named(source.unreadable)}, and are printed as zeros")

    def _fail(self, text: str) -> None:
        """Reports that a file could not be printed completely."""
        self.errors += 1
        self.warn(text)

    def begin(self, file: SideFile) -> None:
        """Called before a file's entries."""

    def report(self) -> list[str]:
        """Returns lines for standard error at the end of a run."""
        return []

    def empty_index(self, file: SideFile) -> None:
        raise NotImplementedError

    def sanity(self, file: SideFile, problem: str | None) -> None:
        raise NotImplementedError

    def offset_entry(self, file: SideFile, i: int, entry: OffsetIndexEntry, mismatch: OffsetMismatch | None) -> None:
        raise NotImplementedError

    def time_entry(self, file: SideFile, i: int, entry: TimeIndexEntry, mismatches: list[TimeMismatch]) -> None:
        raise NotImplementedError

    def index_problem(self, file: SideFile, problem: SideFileProblem) -> None:
        raise NotImplementedError

    def _transaction_index(self, file: SideFile, index: TransactionIndex) -> None:
        for item in index.items():
            self.item(file, item)

    def rest(self, file: SideFile, buffer: Sliceable) -> None:
        """Prints entries and problems of a file other than an index."""
        for item in read_items(file.kind, buffer, file.base_offset):
            self.item(file, item)

    def item(self, file: SideFile, item: Any) -> None:
        raise NotImplementedError

    def _offset_index(self, file: SideFile, index: OffsetIndex) -> None:
        if not index.capacity:
            self.empty_index(file)
        elif self.style.sanity_check:
            self._sanity(file, index)
            return
        else:
            with self._log_beside(file) as log:
                checked = (
                    check_offset_index(index, log, self.style.max_message_bytes)
                    if log
                    else ((entry, None) for entry in index.as_kafka_lists())
                )
                for i, (entry, mismatch) in enumerate(self._shown(index, checked)):
                    self.errors += i < len(index) and mismatch is not None and mismatch.misleads
                    self.offset_entry(file, i, entry, mismatch)
        self._problems(file, index)

    def _time_index(self, file: SideFile, index: TimeIndex) -> None:
        if self.style.sanity_check:
            self._sanity(file, index)
            return
        with self._log_beside(file) as log, self._index_beside(file) as offsets:
            checked = (
                check_time_index(index, offsets, log)
                if log and offsets is not None
                else ((entry, []) for entry in index.as_kafka_lists())
            )
            for i, (entry, mismatches) in enumerate(self._shown(index, checked)):
                self.errors += i < len(index) and any(_misleads(mismatch) for mismatch in mismatches)
                self.time_entry(file, i, entry, mismatches)
            if log and log.steps_left <= 0:
                self.warn(f"{file.path}: its entries are not in order; some were not checked")
        self._problems(file, index)

    def _shown(self, index: OffsetIndex | TimeIndex, checked: Iterator[C]) -> Iterator[C]:
        return checked if self.shows_unused else islice(checked, len(index))

    def _sanity(self, file: SideFile, index: OffsetIndex | TimeIndex) -> None:
        problem = index.sanity_problem()
        self.errors += problem is not None
        self.sanity(file, problem)

    def _problems(self, file: SideFile, index: OffsetIndex | TimeIndex) -> None:
        for item in index.items():
            if isinstance(item, SideFileProblem):
                self.errors += item.is_damage
                self.index_problem(file, item)

    @contextmanager
    def _log_beside(self, file: SideFile) -> Iterator[IndexedLog | None]:
        with self._beside(file, LOG) as source:
            yield None if source is None else IndexedLog(source.buffer, self.scratch)

    @contextmanager
    def _index_beside(self, file: SideFile) -> Iterator[OffsetIndex | None]:
        with self._beside(file, INDEX) as source:
            yield None if source is None else OffsetIndex(source.buffer, file.base_offset, source.end_of_data())

    @contextmanager
    def _beside(self, file: SideFile, suffix: str) -> Iterator[Source | None]:
        if file.is_remote_copy:
            yield None
            return
        path = file.beside(suffix)
        try:
            source = open_source(path)
        except PathError as error:
            self.warn(f"{error}; the entries of {os.path.basename(file.path)} are not checked against it")
            yield None
            return
        with source:
            yield source


def _misleads(mismatch: TimeMismatch) -> bool:
    """Whether a search by time would miss records because of the mismatch."""
    if mismatch.code == "timestamp-mismatch":
        return mismatch.indexed < mismatch.logged
    return mismatch.code == "timestamp-out-of-order"
