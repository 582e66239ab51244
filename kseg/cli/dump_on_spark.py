"""``kseg dump --engine spark``: parts of segments are rendered by tasks, and what they print comes back in its order.

Only so much is under way at once that its text fits into memory, whatever there is to dump.
"""

import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import click

from kseg.errors import KsegError, PathError
from kseg.output.sink import Sink
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.slices import Slice, runs_of, slices
from kseg.segment.source import STANDARD_INPUT, open_source

PART_BYTES = 4 << 20
WAVE_BYTES = 64 << 20
"""Of segments, under way at once."""


class Part(NamedTuple):
    """Part of a segment; ``is_live`` as `kseg.segment.reader` has it."""

    file: SegmentFile
    is_live: bool
    slice: Slice


class Rendered(NamedTuple):
    """What a part prints, compressed, and what it counts. ``failure``: why it could not be read at all."""

    text: bytes = b""
    errors: int = 0
    damaged_ranges: int = 0
    damaged_bytes: int = 0
    batches: int = 0
    size: int = 0
    end: int = 0
    shrank: str | None = None
    failure: str | None = None


class TextSink(Sink):
    """Keeps what is written."""

    def __init__(self, is_terminal: bool) -> None:
        self.is_terminal = is_terminal
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def write_view(self, view: Any) -> None:
        self.pieces.append(bytes(view))

    def flush(self) -> None:
        """Nothing waits."""


def check_options(options: dict[str, Any]) -> None:
    """Raises UsageError for what only one reader that goes from the first record to the last can answer."""
    wanted = {
        "--offsets": options["offsets"], "--time": options["time"], "--key": options["key"],
        "--producer-id": options["producer_id"], "--limit": options["limit"],
        "--isolation": options["isolation"] == "read_committed", "--stop-on-damage": options["stop_on_damage"],
        "--open-transactions": options["open_transactions"], "--committed-offsets": options["committed_offsets"],
        "--fetch-response": options["fetch_response"], "--hex": options["as_hex"], "--summary": options["summary"],
        "--format table": options["form"] == "table",
    }  # fmt: skip
    for name, value in wanted.items():
        if value not in (None, False):
            raise click.UsageError(f"{name} is for the local engine")


class Remote:
    """Has the segments of ``files``, in that order, rendered on Spark; `rendered` gives the parts of each."""

    def __init__(
        self, spark: Any, options: dict[str, Any], is_terminal: bool, files: Iterable[tuple[SegmentFile, bool]]
    ) -> None:
        self._spark = spark
        local = {"engine": "local", "master": None, "jobs": 1, "quiet": True, "verbose": False, "output": None}
        self._work = _Render(options | local, is_terminal)
        self._parts = _parts(files, is_cut=options["era"] is None)
        self._next: Part | None = next(self._parts, None)
        self._done: deque[tuple[Part, Rendered]] = deque()

    def rendered(self, file: SegmentFile) -> list[Rendered] | None:
        """What the parts of the file print, None where it is not among those that are read elsewhere.

        Raises PathError where it cannot be read.
        """
        found: list[Rendered] = []
        while self._done or self._next is not None:
            if not self._done:
                self._wave()
            if self._done[0][0].file != file:
                break
            found.append(self._done.popleft()[1])
        for each in found:
            if each.failure is not None:
                raise PathError(each.failure)
        return found or None

    def _wave(self) -> None:
        from kseg.spark.jobs import run

        wave: list[Part] = []
        room = WAVE_BYTES
        while self._next is not None and room > 0:
            wave.append(self._next)
            room -= PART_BYTES
            self._next = next(self._parts, None)
        self._done.extend(zip(wave, run(self._spark, wave, self._work), strict=True))


def _parts(files: Iterable[tuple[SegmentFile, bool]], is_cut: bool) -> Iterator[Part]:
    """Whole files unless they may be cut."""
    for file, is_live in files:
        if not file.is_segment or file.path == STANDARD_INPUT:
            continue
        try:
            size = os.stat(file.path).st_size
        except OSError:
            size = 0  # the task says why
        for part in slices(size, PART_BYTES) if is_cut and file.kind == ".log" else [Slice()]:
            yield Part(file, is_live, part)


class _Render:
    """Renders parts as the command does, in the process of a task."""

    def __init__(self, options: dict[str, Any], is_terminal: bool) -> None:
        self._options = options
        self._is_terminal = is_terminal

    def __call__(self, parts: Iterable[Part]) -> Iterator[Rendered]:
        for part in parts:
            try:
                yield self._one(part)
            except KsegError as error:
                yield Rendered(failure=str(error))

    def _one(self, part: Part) -> Rendered:
        from kseg.cli.dump import Dump, shrank

        sink = TextSink(self._is_terminal)
        dump = Dump(sink, self._options | {"paths": (part.file.path,), "files": None})
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
            failure = shrank(part.file.path, source) if source.current_size() < source.size else None
            return Rendered(
                zlib.compress(b"".join(sink.pieces), 1), dump.printer.errors, dump.damaged_ranges, dump.damaged_bytes,
                batches, size, reader.end, failure,
            )  # fmt: skip


def text_of(rendered: Rendered) -> bytes:
    """What it prints."""
    return zlib.decompress(rendered.text)
