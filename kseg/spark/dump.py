"""Dumps on Spark: tasks render parts of segments, and the driver prints their text in order.

Only a limited amount is in progress at the same time, so that its text fits into memory.
"""

import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from kseg.dump.options import DumpOptions, Rendered
from kseg.dump.run import Dump, shrank
from kseg.formats.suffixes import LOG
from kseg.output.notices import Notices
from kseg.output.sink import MemorySink
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.slices import Slice, runs_of, slices
from kseg.spark.jobs import Failure, run, whole
from kseg.stores.source import STANDARD_INPUT, open_source
from kseg.stores.windows import Buffers

PART_BYTES = 4 << 20
WAVE_BYTES = 64 << 20
"""Bytes of segments in progress at the same time."""


class DumpPart(NamedTuple):
    """Part of a segment; ``is_live`` as in `kseg.segment.reader`."""

    file: SegmentFile
    is_live: bool
    slice: Slice


class KeptNotices(Notices):
    """Keeps warnings for the driver."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []

    def warning(self, message: str, copied: str = "") -> None:
        self.warnings.append(message)


class SparkRenderer:
    """Renders the segments ``files`` on Spark, in that order; `rendered` returns the parts of each."""

    def __init__(
        self, spark: Any, options: DumpOptions, is_terminal: bool, files: Iterable[tuple[SegmentFile, bool]]
    ) -> None:
        self._spark = spark
        task = replace(options, jobs=1, quiet=True, verbose=False, output=None)
        self._work = partial(_rendered, task, is_terminal)
        self._parts = _parts(files, is_cut=not options.is_07)
        self._next: DumpPart | None = next(self._parts, None)
        self._done: deque[tuple[DumpPart, Rendered | Failure]] = deque()

    def rendered(self, file: SegmentFile) -> list[Rendered] | None:
        """Returns the text of the parts of the file; None if it is not read by Spark.

        Raises KsegError, OSError if it cannot be read.
        """
        found: list[Rendered | Failure] = []
        while self._done or self._next is not None:
            if not self._done:
                self._wave()
            if self._done[0][0].file != file:
                break
            found.append(self._done.popleft()[1])
        return list(map(whole, found)) or None

    def _wave(self) -> None:
        wave: list[DumpPart] = []
        left = WAVE_BYTES
        while self._next is not None and left > 0:
            wave.append(self._next)
            left -= PART_BYTES
            self._next = next(self._parts, None)
        self._done.extend(zip(wave, run(self._spark, wave, self._work), strict=True))


def _parts(files: Iterable[tuple[SegmentFile, bool]], is_cut: bool) -> Iterator[DumpPart]:
    """Yields the parts of files, or complete files if they must not be split."""
    for file, is_live in files:
        if not file.is_segment or file.path == STANDARD_INPUT:
            continue
        try:
            size = os.stat(file.path).st_size
        except OSError:
            size = 0  # the task reports the error
        for part in slices(size, PART_BYTES) if is_cut and file.kind == LOG else [Slice()]:
            yield DumpPart(file, is_live, part)


def _rendered(options: DumpOptions, is_terminal: bool, part: DumpPart, _: Buffers) -> Rendered:
    """Renders a part as the command does, in the process of a task."""
    sink = MemorySink()
    sink.is_terminal = is_terminal
    dump = Dump(sink, replace(options, paths=(part.file.path,)))
    dump.notices = notices = KeptNotices()
    with open_source(part.file.path) as source:
        reader = dump.reader(part.file, source, part.is_live)
        dump.printer.enter(part.file)
        dump.printer.attend(reader)
        batches = size = 0
        for item in runs_of(reader, part.file, part.slice):
            if isinstance(item, Damage):
                size += item.length
                dump.damage(reader, item)
            else:
                size += item.end - item.position
                batches += item.count
                dump.printer.run(reader, item)
        dump.printer.finish()
        sink.flush()
        failure = shrank(part.file.path, source) if source.current_size() < source.size else None
        return Rendered(
            zlib.compress(sink.data, 1), dump.printer.errors, dump.damaged_ranges, dump.damaged_bytes,
            batches, size, reader.end, tuple(notices.warnings), failure,
        )  # fmt: skip
