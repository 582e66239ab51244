"""The offset checkpoints of a log directory: one offset per partition (OffsetCheckpointFile).

    recovery-point-offset-checkpoint   the first offset that is not known to be flushed
    replication-offset-checkpoint      the high watermark
    log-start-offset-checkpoint        the log start offset, if it differs from the first segment's base offset
    cleaner-offset-checkpoint          the first offset that the log cleaner has not cleaned

The order of the entries has no meaning.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple, TypeVar

from kseg.formats.rows import Sliceable
from kseg.sidefiles.problems import SideFileProblem
from kseg.sidefiles.text_files import Line, integer, lines, text_bytes

# The text layout shared by all of Kafka's checkpoint files (CheckpointFile; unchanged since 0.8.0).
#
#     <version>     always 0
#     <count>
#     <entry>       count times; fields separated by white space
#
# An empty file, or one with only a version line, has no entries.

E = TypeVar("E")

VERSION = 0
_SPACE = re.compile(r"[ \t\x0b\f]+")


def read_checkpoint_file(
    buffer: Sliceable,
    parse: Callable[[list[str]], E | None],
    check: Callable[[E, E | None], tuple[str, str] | None] = lambda _entry, _before: None,
) -> Iterator[E | SideFileProblem]:
    """Yields entries and problems in file order.

    ``parse`` returns None for fields that do not form an entry. ``check`` gets an entry and the previous one, and
    returns the code and message of a problem, or None.
    """
    data = text_bytes(buffer)
    rest = lines(data)
    version, count = next(rest, None), next(rest, None)
    if version is None:
        return
    number = integer(version.text, 32)
    if number != VERSION:
        shown = "the first line" if number is None else f"version {number}"
        yield SideFileProblem("unknown-version", version.position, version.length, f"{shown} is not {VERSION}")
    if count is None:
        return
    claimed = integer(count.text, 32)
    if claimed is None:
        yield _unreadable(count, "the number of entries")
        if _entry(count, parse) is None:
            count = None
    found = 0
    before: E | None = None
    for line in chain([count] if claimed is None and count else [], rest):
        entry = _entry(line, parse)
        if entry is None:
            yield _unreadable(line, "an entry")
        else:
            found += 1
            yield entry
            if problem := check(entry, before):
                yield SideFileProblem(problem[0], line.position, line.length, problem[1])
            before = entry
    if claimed is not None and claimed != found:
        message = f"the count is {claimed}, but {found} entries are readable"
        yield SideFileProblem("wrong-count", count.position if count else 0, count.length if count else 0, message)


def _entry(line: Line, parse: Callable[[list[str]], E | None]) -> E | None:
    # Java's String.split keeps an empty field before leading white space and drops trailing empty fields.
    return parse(_SPACE.split(line.text.rstrip(" \t\x0b\f")))


def _unreadable(line: Line, expected: str) -> SideFileProblem:
    return SideFileProblem("unreadable-line", line.position, line.length, f"{line.text[:80]!r} is not {expected}")


def build_checkpoint_file(entries: Iterable[Iterable[object]]) -> bytes:
    """Returns the bytes of a checkpoint file, with the entries in the given order."""
    rows = [" ".join(map(str, entry)) for entry in entries]
    return "".join(f"{row}\n" for row in [str(VERSION), str(len(rows)), *rows]).encode()


RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = {
    RECOVERY_POINTS: "recoveryPoint",
    HIGH_WATERMARKS: "highWatermark",
    LOG_STARTS: "logStartOffset",
    CLEANER_OFFSETS: "cleanerCheckpoint",
}
"""File name to the JSON name of its entries."""


class OffsetCheckpoint(NamedTuple):
    """One line: the offset of one partition."""

    topic: str
    partition: int
    offset: int


def read_offset_checkpoint(buffer: Sliceable) -> Iterator[OffsetCheckpoint | SideFileProblem]:
    """Yields the entries and problems of one of the OFFSET_CHECKPOINTS files."""
    return read_checkpoint_file(buffer, _parse)


def _parse(fields: list[str]) -> OffsetCheckpoint | None:
    if len(fields) != 3:
        return None
    partition, offset = integer(fields[1], 32), integer(fields[2], 64)
    return None if partition is None or offset is None else OffsetCheckpoint(fields[0], partition, offset)


def offsets_of(items: Iterable[OffsetCheckpoint | SideFileProblem]) -> dict[tuple[str, int], int]:
    """Returns the offsets among the entries and problems of a file, by topic and partition."""
    return {(item.topic, item.partition): item.offset for item in items if isinstance(item, OffsetCheckpoint)}


def build_offset_checkpoint(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Returns the bytes of an offset checkpoint, with the entries in the given order."""
    return build_checkpoint_file((*partition, offset) for partition, offset in offsets.items())


def set_log_start(
    offsets: dict[tuple[str, int], int], partition: tuple[str, int], offset: int, first_base: int
) -> None:
    """Changes the entry of a partition among the log starts: there is one only above the base of its first segment
    (LogManager.checkpointLogStartOffsetsInDir)."""
    if offset > first_base:
        offsets[partition] = offset
    else:
        offsets.pop(partition, None)
