"""Prints side files: as text, .index, .timeindex, .txnindex and .snapshot as kafka-dump-log.sh 4.4.0 does; or as JSON.

No file is created: if a .log or .index that kafka-dump-log needs is missing, a line reports it and entries are printed
unchecked. If that tool would fail with an exception, printing continues: a rejected entry of a .txnindex is a damage
line, an index entry without a batch a mismatch with offset -1.

JSON has one object for each entry, named after the file's kind, and one for each problem:
``{"type":"damage","code","file","position","length","message"}`` as in a dump of segments; for an index entry that
differs from the .log also ``indexOffset`` and ``logOffset``, or ``indexTimestamp`` and ``logTimestamp``
(``previousTimestamp`` if it contradicts the entry before it). Zeros at an index's end are not entries.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any

from kseg.errors import PathError
from kseg.formats.json_values import camel_case, fields_of, name_value
from kseg.formats.rows import Scratch, Sliceable
from kseg.formats.suffixes import INDEX, INDEX_SUFFIXES, LOG, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from kseg.limits import MAX_INDEX_BYTES, MAX_MESSAGE_BYTES
from kseg.output.kafka_text import as_java_writes, text_bytes
from kseg.output.sink import Sink
from kseg.sidefiles import indexes
from kseg.sidefiles.kinds import ENTRY_NAMES, SideFile, read_items
from kseg.sidefiles.problems import SideFileProblem
from kseg.sidefiles.producer_state import ProducerSnapshot, ProducerStateEntry
from kseg.stores.place import Place
from kseg.stores.source import Source, named, open_source

IndexEntry = indexes.OffsetIndexEntry | indexes.TimeIndexEntry
_MISMATCH_KEYS = {
    "index-mismatch": ("indexOffset", "logOffset"),
    "timestamp-mismatch": ("indexTimestamp", "logTimestamp"),
    "timestamp-out-of-order": ("indexTimestamp", "previousTimestamp"),
    "offset-not-found": ("indexOffset", "logOffset"),
}


class SideJsonPrinter:
    """Prints side files as JSON Lines; base of the text form. Call `dump` for each file, then `report` for
    kafka-dump-log's report at the end.

    ``warn`` receives lines for standard error. ``errors`` counts damage, and entries that mislead readers.
    ``shows_unused``: an index of zeros only has one entry, as in kafka-dump-log.

    ``verify_only``: check indexes, print no entries; ``sanity_check``: only the checks of TimeIndex and OffsetIndex.
    ``max_message_bytes``: largest size of a batch at an index entry's position; ``escape``: escape control characters.
    """

    shows_unused = False

    def __init__(
        self, sink: Sink, scratch: Scratch, warn: Callable[[str], None], *, verify_only: bool = False,
        sanity_check: bool = False, max_message_bytes: int = MAX_MESSAGE_BYTES, escape: bool = False,
    ) -> None:  # fmt: skip
        self.sink, self.scratch, self.warn = sink, scratch, warn
        self.verify_only, self.sanity_check = verify_only, sanity_check
        self.max_message_bytes, self.escape = max_message_bytes, escape
        self.errors = 0

    def dump(self, file: SideFile) -> None:
        """Prints one file. Raises PathError if it cannot be opened."""
        with open_source(file.path) as source:
            self.begin(file)
            is_index = file.kind in INDEX_SUFFIXES
            end = source.end_of_data() if is_index else 0
            if end > MAX_INDEX_BYTES:
                self._fail(f"{file.path}: has {source.size} bytes, more than any index: its entries are not shown")
            elif file.kind in (INDEX, TIME_INDEX):
                make = indexes.OffsetIndex if file.kind == INDEX else indexes.TimeIndex
                self._index(file, make(source.buffer, file.base_offset, end))
            elif file.kind == TRANSACTION_INDEX:
                self._transaction_index(file, indexes.TransactionIndex(source.buffer, file.base_offset, end))
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
        """Called for an empty index, which has no entries."""

    def sanity(self, file: SideFile, problem: str | None) -> None:
        self._put_row({"type": "sanityCheck", "file": file.path, "passed": problem is None, "message": problem})

    def entry(self, file: SideFile, i: int, entry: IndexEntry, mismatches: Sequence[indexes.Mismatch]) -> None:
        if not self.verify_only:
            self.item(file, entry)
        for mismatch in mismatches:
            size = indexes.OffsetIndex.LAYOUT.size
            if isinstance(entry, indexes.OffsetIndexEntry):
                message = f"the batch at position {entry.position} ends at offset {mismatch.logged}"
            else:
                size, values = indexes.TimeIndex.LAYOUT.size, f"{mismatch.indexed} and {mismatch.logged}"
                message = f"entry {entry.timestamp} of offset {entry.offset}: {values} disagree"
            keys = dict(zip(_MISMATCH_KEYS[mismatch.code], (mismatch.indexed, mismatch.logged), strict=True))
            self.index_damage(file, SideFileProblem(mismatch.code, i * size, size, message), keys)

    def index_damage(self, file: SideFile, problem: SideFileProblem, keys: dict[str, int] | None = None) -> None:
        found = {"type": "damage", "code": problem.code, "file": file.path}
        self._put_row(found | fields_of(problem, "position", "length", "message") | (keys or {}))

    def _transaction_index(self, file: SideFile, index: indexes.TransactionIndex) -> None:
        for item in index.items():
            self.item(file, item)

    def rest(self, file: SideFile, buffer: Sliceable) -> None:
        """Prints entries and problems of a file other than an index."""
        for item in read_items(file.kind, buffer, file.base_offset):
            self.item(file, item)

    def item(self, file: SideFile, item: Any) -> None:
        if isinstance(item, SideFileProblem):
            self._index_problems(file, [item])
        else:
            self._put_row({"type": ENTRY_NAMES[file.kind], "file": file.path} | fields(item))

    def _put_row(self, found: dict[str, Any]) -> None:
        self.sink.put_row(found | {"file": name_value(found["file"])})

    def _index(self, file: SideFile, index: indexes.OffsetIndex | indexes.TimeIndex) -> None:
        """Prints the entries, checked against the .log, and those of a time index by the .index."""
        is_time = isinstance(index, indexes.TimeIndex)
        if not is_time and not index.capacity:
            self.empty_index(file)
        elif self.sanity_check:
            problem = index.sanity_problem()
            self.errors += problem is not None
            self.sanity(file, problem)
            return
        else:
            with ExitStack() as stack:
                source = self._beside(file, LOG, stack)
                log = None if source is None else indexes.IndexedLog(source.buffer, self.scratch)
                source, offsets = self._beside(file, INDEX, stack) if is_time else None, None
                if source is not None:
                    offsets = indexes.OffsetIndex(source.buffer, file.base_offset, source.end_of_data())
                checked: Iterator[tuple[IndexEntry, Sequence[indexes.Mismatch]]]
                if isinstance(index, indexes.OffsetIndex) and log:
                    limit = self.max_message_bytes
                    checked = ((each, indexes.check_offset_entry(each, log, limit)) for each in index.as_kafka_lists())
                elif isinstance(index, indexes.TimeIndex) and log and offsets is not None:
                    checked = indexes.check_time_index(index, offsets, log)
                else:
                    checked = ((each, ()) for each in index.as_kafka_lists())
                for i, (entry, mismatches) in enumerate(checked if self.shows_unused else islice(checked, len(index))):
                    self.errors += i < len(index) and any(mismatch.misleads for mismatch in mismatches)
                    self.entry(file, i, entry, mismatches)
                if is_time and log and log.steps_left <= 0:
                    self.warn(f"{file.path}: its entries are not in order; some were not checked")
        self._index_problems(file, index.items())

    def _index_problems(self, file: SideFile, items: Iterable[Any]) -> None:
        for item in items:
            if isinstance(item, SideFileProblem) and item.is_damage:
                self.errors += 1
                self.index_damage(file, item)

    def _beside(self, file: SideFile, suffix: str, stack: ExitStack) -> Source | None:
        """Opens another file of the segment; None if there is none."""
        if file.is_remote_copy:
            return None
        try:
            return stack.enter_context(open_source(file.beside(suffix)))
        except PathError as error:
            self.warn(f"{error}; the entries of {os.path.basename(file.path)} are not checked against it")
            return None


def fields(entry: Any) -> dict[str, Any]:
    """Returns every field of an entry in order, except those that its version lacks.

    Those of a producer are kafka-dump-log's, in its order; None for unset ones, and for those of a batch if none is
    known.
    """
    if isinstance(entry, ProducerStateEntry):
        found = fields_of(entry, "producer_id", "producer_epoch", "coordinator_epoch")
        first = entry.current_txn_first_offset
        found |= {"currentTxnFirstOffset": first if first >= 0 else None, "lastTimestamp": entry.timestamp}
        batch = fields_of(entry, "first_sequence", "last_sequence", "last_offset", "offset_delta", "timestamp")
        return found | (batch if entry.has_batch else dict.fromkeys(batch))
    foreign = entry.foreign_fields() if hasattr(entry, "foreign_fields") else set()
    return {camel_case(name): value for name, value in entry._asdict().items() if name not in foreign}


SHOWN_PROBLEMS = 3
"""Up to this number, problems of a kind and file are listed; the others are counted."""


class SideTextPrinter(SideJsonPrinter):
    """Prints side files as text."""

    shows_unused = True

    def __init__(self, *args: Any, **style: Any) -> None:
        super().__init__(*args, **style)
        self._mismatches: dict[str, dict[str, list[indexes.Mismatch]]] = {}
        """By code and path."""
        self._counts = Counter[str]()

    def dump(self, file: SideFile) -> None:
        self._counts.clear()
        super().dump(file)
        for code, count in self._counts.items():
            if count > SHOWN_PROBLEMS:
                self.warn(f"{file.path}: {code} {count - SHOWN_PROBLEMS} more times")

    def begin(self, file: SideFile) -> None:
        self._put(f"Dumping {as_java_writes(file.path)}")

    def empty_index(self, file: SideFile) -> None:
        self._put(f"{as_java_writes(file.path)} is empty.")

    def sanity(self, file: SideFile, problem: str | None) -> None:
        outcome = f"failed sanity check: {problem}." if problem else "passed sanity check."
        self._put(f"{as_java_writes(file.path)} {outcome}")

    def entry(self, file: SideFile, i: int, entry: IndexEntry, mismatches: Sequence[indexes.Mismatch]) -> None:
        for mismatch in mismatches:
            self._mismatches.setdefault(mismatch.code, {}).setdefault(file.path, []).append(mismatch)
        if not self.verify_only:
            line = b"offset: %d position: %d\n" if file.kind == INDEX else b"timestamp: %d offset: %d\n"
            self.sink.write(line % entry)

    def index_damage(self, file: SideFile, problem: SideFileProblem, keys: dict[str, int] | None = None) -> None:
        self._counts[problem.code] += 1
        if self._counts[problem.code] <= SHOWN_PROBLEMS:
            self.warn(f"{file.path}: {problem.code} at position {problem.position}: {problem.message}")

    def rest(self, file: SideFile, buffer: Sliceable) -> None:
        if file.kind == SNAPSHOT:
            self._snapshot(file, ProducerSnapshot(buffer))
            return
        if file.kind == ".kafka_cleanshutdown" and not len(buffer):
            self.empty_index(file)
            return
        super().rest(file, buffer)

    def item(self, file: SideFile, item: Any) -> None:
        if isinstance(item, SideFileProblem):
            self.errors += item.is_damage
            self._damage_line(item)
            self.warn(f"{file.path}: {item.message}")
        else:
            row = fields(item)
            for name, value in row.items():
                row[name] = f"[{', '.join(map(str, value))}]" if isinstance(value, list) else value
            self._put_fields({name: "null" if value is None else value for name, value in row.items()})

    def _damage_line(self, problem: SideFileProblem) -> None:
        self._put(f"| damage: {problem.code} position: {problem.position} length: {problem.length}")

    def _transaction_index(self, file: SideFile, index: indexes.TransactionIndex) -> None:
        size = index.LAYOUT.size
        for i, entry in enumerate(index):
            shown = fields(entry) | {"version": entry.version_as_kafka_reads_it}
            if shown["version"] > 0:  # kafka-dump-log ends here
                self._damage_line(SideFileProblem("unknown-version", i * size, size, ""))
            else:
                self._put_fields(shown)
        self._index_problems(file, index.items())  # kafka-dump-log ignores them

    def _snapshot(self, file: SideFile, snapshot: ProducerSnapshot) -> None:
        refusal = snapshot.kafka_refusal()
        if refusal:
            self.errors += 1
            self.warn(f"{file.path}: {refusal}")
            return
        self._index_problems(file, snapshot.problems())  # kafka-dump-log ignores them
        for entry in snapshot:
            first = entry.current_txn_first_offset
            shown = f"OptionalLong[{first}]" if first >= 0 else "OptionalLong.empty"
            row = fields(entry) | {"currentTxnFirstOffset": shown}
            self._put_fields({name: value for name, value in row.items() if value is not None})

    def _put_fields(self, row: dict[str, Any]) -> None:
        self._put(" ".join(f"{name}: {value}" for name, value in row.items()))

    def _put(self, line: str) -> None:
        self.sink.write(text_bytes(line, self.escape) + b"\n")

    def report(self) -> list[str]:
        """Returns kafka-dump-log's final report, with files in dump order."""
        found = []
        for path, mismatches in self._mismatches.get("index-mismatch", {}).items():
            found.append(f"Mismatches in :{_absolute(path)}")
            offsets = {mismatch.indexed: mismatch.logged for mismatch in mismatches}
            found += [f"  Index offset: {i}, log offset: {offsets[i]}" for i in sorted(offsets, reverse=True)]
        for code, heading, line in _TIME_REPORTS:
            for path, mismatches in self._mismatches.get(code, {}).items():
                found.append(f"{heading} in :{_absolute(path)}")
                found += [line % (mismatch.indexed, mismatch.logged) for mismatch in mismatches]
        return found


_TIME_REPORTS = (
    ("timestamp-mismatch", "Found timestamp mismatch", "  Index timestamp: %d, log timestamp: %d"),
    (
        "timestamp-out-of-order",
        "Found out of order timestamp",
        "  Index timestamp: %d, Previously indexed timestamp: %d",
    ),
    ("offset-not-found", "The following indexed offsets are not found", "Indexed offset: %d, found log offset: %d"),
)


def _absolute(path: str) -> str:
    """Returns File.getAbsolutePath: the path with the working directory prepended, otherwise unchanged."""
    path = as_java_writes(path)
    return path if path.startswith("/") else Place(os.getcwd()) / path
