"""Prints side files as text: .index, .timeindex, .txnindex and .snapshot as kafka-dump-log.sh 4.4.0 does.

That tool's report on standard error at the end is collected for `report`. If it would fail with an exception, printing
continues: a rejected entry of a .txnindex is a damage line, an index entry without a batch a mismatch with offset -1.
"""

import os
from collections.abc import Iterable
from typing import Any

from kseg.formats.rows import Sliceable
from kseg.formats.suffixes import SNAPSHOT
from kseg.output.file_names import as_java_writes
from kseg.output.kafka_text import printable
from kseg.output.side_files.fields import fields
from kseg.output.side_files.printer import SidePrinter
from kseg.sidefiles.index_checks import OffsetMismatch, TimeMismatch
from kseg.sidefiles.kinds import SideFile
from kseg.sidefiles.offset_index import OffsetIndexEntry
from kseg.sidefiles.problems import SideFileProblem, problems_of
from kseg.sidefiles.producer_state import ProducerSnapshot, ProducerStateEntry
from kseg.sidefiles.time_index import TimeIndexEntry
from kseg.sidefiles.transaction_index import TransactionIndex

SHOWN_PROBLEMS = 3
"""Up to this number, problems of a kind and file are listed; the others are counted."""


class SideTextPrinter(SidePrinter):
    """Prints side files as text."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._offset_mismatches: dict[str, dict[int, int]] = {}
        self._time_mismatches: dict[str, dict[str, list[TimeMismatch]]] = {}
        self._counts: dict[str, int] = {}

    def dump(self, file: SideFile) -> None:
        self._counts = {}
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

    def offset_entry(self, file: SideFile, i: int, entry: OffsetIndexEntry, mismatch: OffsetMismatch | None) -> None:
        if mismatch:
            self._offset_mismatches.setdefault(file.path, {})[mismatch.index_offset] = mismatch.log_offset
        if not self.style.verify_only:
            self.sink.write(b"offset: %d position: %d\n" % entry)

    def time_entry(self, file: SideFile, i: int, entry: TimeIndexEntry, mismatches: list[TimeMismatch]) -> None:
        for mismatch in mismatches:
            self._time_mismatches.setdefault(mismatch.code, {}).setdefault(file.path, []).append(mismatch)
        if not self.style.verify_only:
            self.sink.write(b"timestamp: %d offset: %d\n" % entry)

    def index_problem(self, file: SideFile, problem: SideFileProblem) -> None:
        if not problem.is_damage:
            return
        count = self._counts[problem.code] = self._counts.get(problem.code, 0) + 1
        if count <= SHOWN_PROBLEMS:
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
            self._problem(file, item)
        else:
            self._put(" ".join(f"{name}: {_shown(value)}" for name, value in fields(item).items()))

    def _problem(self, file: SideFile, problem: SideFileProblem) -> None:
        self.errors += problem.is_damage
        self._damage_line(problem)
        self.warn(f"{file.path}: {problem.message}")

    def _damage_line(self, problem: SideFileProblem) -> None:
        self._put(f"| damage: {problem.code} position: {problem.position} length: {problem.length}")

    def _transaction_index(self, file: SideFile, index: TransactionIndex) -> None:
        size = index.LAYOUT.size
        for i, entry in enumerate(index):
            shown = fields(entry) | {"version": entry.version_as_kafka_reads_it}
            if shown["version"] > 0:  # kafka-dump-log ends here
                self._damage_line(SideFileProblem("unknown-version", i * size, size, ""))
            else:
                self._put(" ".join(f"{name}: {value}" for name, value in shown.items()))
        self._warn_problems(file, index.items())

    def _snapshot(self, file: SideFile, snapshot: ProducerSnapshot) -> None:
        refusal = snapshot.kafka_refusal()
        if refusal:
            self.errors += 1
            self.warn(f"{file.path}: {refusal}")
            return
        self._warn_problems(file, snapshot.problems())
        for entry in snapshot:
            self._put(_producer_line(entry))

    def _warn_problems(self, file: SideFile, items: Iterable[Any]) -> None:
        """Reports problems that kafka-dump-log ignores."""
        for problem in problems_of(items):
            self.errors += problem.is_damage
            self.index_problem(file, problem)

    def _put(self, line: str) -> None:
        data = printable(line) if self.style.escape else os.fsencode(line)
        self.sink.write(data + b"\n")

    def report(self) -> list[str]:
        """Returns kafka-dump-log's final report, with files in dump order."""
        found = []
        for path, offsets in self._offset_mismatches.items():
            found.append(f"Mismatches in :{_absolute(path)}")
            found += [f"  Index offset: {i}, log offset: {offsets[i]}" for i in sorted(offsets, reverse=True)]
        for code, heading, line in _TIME_REPORTS:
            for path, mismatches in self._time_mismatches.get(code, {}).items():
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
    return path if path.startswith("/") else os.path.join(os.getcwd(), path)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    return "null" if value is None else str(value)


def _optional_long(number: int) -> str:
    return f"OptionalLong[{number}]" if number >= 0 else "OptionalLong.empty"


def _producer_line(entry: ProducerStateEntry) -> str:
    shown = fields(entry) | {"currentTxnFirstOffset": _optional_long(entry.current_txn_first_offset)}
    return " ".join(f"{name}: {value}" for name, value in shown.items() if value is not None)
