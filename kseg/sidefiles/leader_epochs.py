"""``leader-epoch-checkpoint``: the start offset of each leader epoch (LeaderEpochCheckpointFile; since 0.11).

``NNN-UUID.leader_epoch_checkpoint`` in remote storage has the same layout.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kseg.formats.rows import Sliceable
from kseg.sidefiles.checkpoints import build_checkpoint_file, read_checkpoint_file
from kseg.sidefiles.problems import SideFileProblem
from kseg.sidefiles.text_files import integer

LEADER_EPOCHS = "leader-epoch-checkpoint"


class EpochEntry(NamedTuple):
    """``start_offset`` is the offset of the first record appended in ``epoch``."""

    epoch: int
    start_offset: int


def read_leader_epochs(buffer: Sliceable) -> Iterator[EpochEntry | SideFileProblem]:
    """Yields entries and problems; both fields must increase from entry to entry."""
    return read_checkpoint_file(buffer, _parse, _check)


def plain_epochs(data: bytes) -> list[EpochEntry] | None:
    """Parses a well-formed file at once; returns None for any other, which `read_leader_epochs` then reads."""
    try:
        version, count, *lines, rest = data.decode("ascii").split("\n")
        if version != "0" or rest or count != str(len(lines)):
            return None
        entries: list[EpochEntry] = []
        epoch = start = -1
        for line in lines:
            first, second = line.split(" ")
            if not (first.isdigit() and second.isdigit() and len(first) < 10 and len(second) < 19):
                return None
            if int(first) <= epoch or int(second) <= start:
                return None
            entries.append(EpochEntry(epoch := int(first), start := int(second)))
    except ValueError:
        return None
    return entries


def _check(entry: EpochEntry, before: EpochEntry | None) -> tuple[str, str] | None:
    if min(entry) < 0:
        return "bad-value", f"epoch {entry.epoch} begins at offset {entry.start_offset}"
    if before and (entry.epoch <= before.epoch or entry.start_offset <= before.start_offset):
        message = f"epoch {entry.epoch} from {entry.start_offset} follows {before.epoch} from {before.start_offset}"
        return "unsorted", message
    return None


def _parse(fields: list[str]) -> EpochEntry | None:
    if len(fields) != 2:
        return None
    epoch, start_offset = integer(fields[0], 32), integer(fields[1], 64)
    return None if epoch is None or start_offset is None else EpochEntry(epoch, start_offset)


def build_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """Returns the bytes of the file."""
    return build_checkpoint_file(entries)


def starting_at(entries: Iterable[EpochEntry], start_offset: int) -> list[EpochEntry]:
    """Returns the entries after the log start moves to ``start_offset``: the epoch current there starts there.

    (LeaderEpochFileCache.truncateFromStart.)
    """
    entries = list(entries)
    before = [entry for entry in entries if entry.start_offset <= start_offset]
    if not before:
        return entries
    kept = [entry for entry in entries if entry.start_offset > start_offset]
    return [EpochEntry(before[-1].epoch, start_offset), *kept]
