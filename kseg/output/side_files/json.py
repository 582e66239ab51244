"""Prints side files as JSON Lines: one object for each entry, named after the file's kind, and one for each problem.

``{"type":"damage","code","file","position","length","message"}`` as in a dump of segments; for an index entry that
differs from the .log also ``indexOffset`` and ``logOffset``, or ``indexTimestamp`` and ``logTimestamp``
(``previousTimestamp`` if it contradicts the entry before it). Zeros at an index's end are not entries.
"""

import os
from typing import Any

from kseg.formats.json_values import bytes_value, encode
from kseg.output.side_files.fields import fields
from kseg.output.side_files.printer import SidePrinter
from kseg.sidefiles.index_checks import OffsetMismatch, TimeMismatch
from kseg.sidefiles.kinds import ENTRY_NAMES, SideFile
from kseg.sidefiles.offset_index import OffsetIndex, OffsetIndexEntry
from kseg.sidefiles.problems import SideFileProblem
from kseg.sidefiles.time_index import TimeIndex, TimeIndexEntry

_TIME_KEYS = {
    "timestamp-mismatch": ("indexTimestamp", "logTimestamp"),
    "timestamp-out-of-order": ("indexTimestamp", "previousTimestamp"),
    "offset-not-found": ("indexOffset", "logOffset"),
}


class SideJsonPrinter(SidePrinter):
    """Prints side files as JSON Lines."""

    shows_unused = False

    def empty_index(self, file: SideFile) -> None:
        """Does nothing: an empty file has no entries."""

    def sanity(self, file: SideFile, problem: str | None) -> None:
        self._put({"type": "sanityCheck", "file": file.path, "passed": problem is None, "message": problem})

    def offset_entry(self, file: SideFile, i: int, entry: OffsetIndexEntry, mismatch: OffsetMismatch | None) -> None:
        self._entry(file, entry)
        if mismatch:
            size = OffsetIndex.LAYOUT.size
            message = f"the batch at position {entry.position} ends at offset {mismatch.log_offset}"
            problem = SideFileProblem("index-mismatch", i * size, size, message)
            self._damage(file, problem, {"indexOffset": mismatch.index_offset, "logOffset": mismatch.log_offset})

    def time_entry(self, file: SideFile, i: int, entry: TimeIndexEntry, mismatches: list[TimeMismatch]) -> None:
        self._entry(file, entry)
        for mismatch in mismatches:
            size = TimeIndex.LAYOUT.size
            keys = dict(zip(_TIME_KEYS[mismatch.code], mismatch[1:], strict=True))
            message = (
                f"entry {entry.timestamp} of offset {entry.offset}: {mismatch.indexed} and {mismatch.logged} disagree"
            )
            self._damage(file, SideFileProblem(mismatch.code, i * size, size, message), keys)

    def index_problem(self, file: SideFile, problem: SideFileProblem) -> None:
        if problem.is_damage:
            self._damage(file, problem)

    def item(self, file: SideFile, item: Any) -> None:
        if isinstance(item, SideFileProblem):
            self.errors += item.is_damage
            self.index_problem(file, item)
        else:
            self._put({"type": ENTRY_NAMES[file.kind], "file": file.path} | fields(item))

    def _entry(self, file: SideFile, entry: OffsetIndexEntry | TimeIndexEntry) -> None:
        if not self.style.verify_only:
            self.item(file, entry)

    def _damage(self, file: SideFile, problem: SideFileProblem, keys: dict[str, int] | None = None) -> None:
        found = {
            "type": "damage", "code": problem.code, "file": file.path, "position": problem.position,
            "length": problem.length, "message": problem.message,
        }  # fmt: skip
        self._put(found | (keys or {}))

    def _put(self, found: dict[str, Any]) -> None:
        name = bytes_value(os.fsencode(found["file"]))
        self.sink.write(encode(found | {"file": name}) + b"\n")
