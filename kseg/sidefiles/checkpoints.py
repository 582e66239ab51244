"""Checkpoints: text files of an offset per partition, and of the start offset of each leader epoch."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple, TypeVar

from kseg.formats.rows import Sliceable
from kseg.segment import files
from kseg.sidefiles.problems import SideFileProblem, entries_of
from kseg.sidefiles.text_files import Line, integer, lines, problem_at, read_once, text_bytes, unreadable

E = TypeVar("E")

# The layout shared by all of Kafka's checkpoint files (CheckpointFile; unchanged since 0.8.0).
#
#     <version>     always 0
#     <count>
#     <entry>       count times; fields separated by white space
#
# An empty file, or one with only a version line, has no entries.

VERSION = 0
_SPACE = re.compile(r"[ \t\x0b\f]+")


def _read_checkpoint(
    data: bytes,
    make: Callable[..., E],
    bits: tuple[int, ...],
    check: Callable[[E, E | None], tuple[str, str] | None] = lambda _entry, _before: None,
) -> Iterator[E | SideFileProblem]:
    """Yields entries and problems in file order.

    ``make`` makes an entry of its fields; ``bits``: the size of each, 0 for text. ``check`` gets an entry and the
    previous one, and returns the code and message of a problem, or None.
    """
    rest = lines(data)
    version, count = next(rest, None), next(rest, None)
    if version is None:
        return
    number = integer(version.text, 32)
    if number != VERSION:
        shown = "the first line" if number is None else f"version {number}"
        yield problem_at("unknown-version", version, f"{shown} is not {VERSION}")
    if count is None:
        return

    def entry_in(line: Line) -> E | None:
        # Java's String.split keeps an empty field before leading white space and drops trailing empty fields.
        fields = _SPACE.split(line.text.rstrip(" \t\x0b\f"))
        values = [integer(field, size) if size else field for field, size in zip(fields, bits, strict=False)]
        return make(*values) if len(fields) == len(bits) and None not in values else None

    claimed = integer(count.text, 32)
    if claimed is None:
        yield unreadable(count, "the number of entries")
        if entry_in(count) is not None:
            rest = chain([count], rest)
    found, before = 0, None
    for line in rest:
        entry = entry_in(line)
        if entry is None:
            yield unreadable(line, "an entry")
            continue
        found += 1
        yield entry
        if problem := check(entry, before):
            yield problem_at(problem[0], line, problem[1])
        before = entry
    if claimed not in (None, found):
        yield problem_at("wrong-count", count, f"the count is {claimed}, but {found} entries are readable")


def _build_checkpoint(entries: Iterable[Iterable[object]]) -> bytes:
    """Returns the bytes of a checkpoint file, with the entries in the given order."""
    rows = [" ".join(map(str, entry)) for entry in entries]
    return "".join(f"{row}\n" for row in [str(VERSION), str(len(rows)), *rows]).encode()


# The offset checkpoints of a log directory: one offset per partition (OffsetCheckpointFile).
#
#     recovery-point-offset-checkpoint   the first offset that is not known to be flushed
#     replication-offset-checkpoint      the high watermark
#     log-start-offset-checkpoint        the log start offset, if it differs from the first segment's base offset
#     cleaner-offset-checkpoint          the first offset that the log cleaner has not cleaned
#
# The order of the entries has no meaning.

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = files.LOG_STARTS
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = {
    RECOVERY_POINTS: "recoveryPoint",
    HIGH_WATERMARKS: "highWatermark",
    LOG_STARTS: "logStartOffset",
    CLEANER_OFFSETS: "cleanerCheckpoint",
}
"""File name to the JSON name of its entries."""


_PLAIN = re.compile(rb"0\n([0-9]{1,9})\n((?:[!-~]+ [0-9]{1,9} [0-9]{1,18}\n)*)")
"""A file without problems: count, entries."""


class OffsetCheckpoint(NamedTuple):
    """One line: the offset of one partition."""

    topic: str
    partition: int
    offset: int


def read_offset_checkpoint(buffer: Sliceable) -> Iterator[OffsetCheckpoint | SideFileProblem]:
    """Yields the entries and problems of one of the OFFSET_CHECKPOINTS files."""
    data = text_bytes(buffer)
    # One as brokers write it is read 6 times as fast: log directories have thousands of entries in several files.
    if plain := _PLAIN.fullmatch(data):
        words = plain[2].decode().split()
        if len(words) == 3 * int(plain[1]):
            return map(OffsetCheckpoint, words[::3], map(int, words[1::3]), map(int, words[2::3]))
    return _read_checkpoint(data, OffsetCheckpoint, (0, 32, 64))


def offsets_of(items: Iterable[OffsetCheckpoint | SideFileProblem]) -> dict[tuple[str, int], int]:
    """Returns the offsets among the entries and problems of a file, by topic and partition."""
    return {(item.topic, item.partition): item.offset for item in items if isinstance(item, OffsetCheckpoint)}


def build_offset_checkpoint(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Returns the bytes of an offset checkpoint, with the entries in the given order."""
    return _build_checkpoint((*partition, offset) for partition, offset in offsets.items())


def set_log_start(
    offsets: dict[tuple[str, int], int], partition: tuple[str, int], offset: int, first_base: int
) -> None:
    """Changes the entry of a partition among the log starts: there is one only above the base of its first segment
    (LogManager.checkpointLogStartOffsetsInDir)."""
    if offset > first_base:
        offsets[partition] = offset
    else:
        offsets.pop(partition, None)


# ``leader-epoch-checkpoint``: the start offset of each leader epoch (LeaderEpochCheckpointFile; since 0.11).
# ``NNN-UUID.leader_epoch_checkpoint`` in remote storage has the same layout.

LEADER_EPOCHS = "leader-epoch-checkpoint"


class EpochEntry(NamedTuple):
    """``start_offset`` is the offset of the first record appended in ``epoch``."""

    epoch: int
    start_offset: int


@read_once
def read_leader_epochs(data: bytes) -> Iterator[EpochEntry | SideFileProblem]:
    """Yields entries and problems; both fields must increase from entry to entry."""

    def check(entry: EpochEntry, before: EpochEntry | None) -> tuple[str, str] | None:
        if min(entry) < 0:
            return "bad-value", f"epoch {entry.epoch} begins at offset {entry.start_offset}"
        if before and (entry.epoch <= before.epoch or entry.start_offset <= before.start_offset):
            message = f"epoch {entry.epoch} from {entry.start_offset} follows {before.epoch} from {before.start_offset}"
            return "unsorted", message
        return None

    return _read_checkpoint(data, EpochEntry, (32, 64), check)


def build_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Returns the bytes of the file."""
    return _build_checkpoint(entries)


def plain_epochs(data: bytes) -> list[EpochEntry] | None:
    """Returns the entries of a file that is as a broker writes it, None for any other, which may have problems."""
    items = list(read_leader_epochs(data))
    entries = entries_of(items)
    return entries if len(entries) == len(items) and build_leader_epochs(entries) == data else None


def starting_at(entries: Iterable[EpochEntry], start_offset: int) -> list[EpochEntry]:
    """Returns the entries after the log start moves to ``start_offset``: the epoch current there starts there.

    (LeaderEpochFileCache.truncateFromStart.)
    """
    entries = list(entries)
    current = [EpochEntry(entry.epoch, start_offset) for entry in entries if entry.start_offset <= start_offset]
    return current[-1:] + [entry for entry in entries if entry.start_offset > start_offset]
