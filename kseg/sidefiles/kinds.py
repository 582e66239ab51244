"""Maps file names to kinds of side files and their readers."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kseg.errors import errors_at
from kseg.formats.rows import Sliceable
from kseg.formats.suffixes import INDEX, LEFTOVER_SUFFIXES, SIDE_SUFFIXES, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from kseg.segment.files import (
    CLEAN_SHUTDOWN,
    LAST_OFFSET,
    QUORUM_STATE,
    REMOTE_INDEX_CACHE,
    is_regular_file,
    parse_remote_index_name,
    unpacked_name,
)
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, OFFSET_CHECKPOINTS, read_leader_epochs, read_offset_checkpoint
from kseg.sidefiles.indexes import EntryFile, OffsetIndex, TimeIndex, TransactionIndex
from kseg.sidefiles.producer_state import read_producer_snapshot
from kseg.sidefiles.text_files import (
    META_PROPERTIES,
    PARTITION_METADATA,
    read_clean_shutdown,
    read_meta_properties,
    read_partition_metadata,
    read_quorum_state,
)
from kseg.stores import trees

LEFTOVERS = (*LEFTOVER_SUFFIXES, ".tmp")

ENTRY_NAMES = {
    INDEX: "offsetIndexEntry",
    TIME_INDEX: "timeIndexEntry",
    TRANSACTION_INDEX: "abortedTxn",
    SNAPSHOT: "producerState",
    LEADER_EPOCHS: "leaderEpoch",
    ".leader_epoch_checkpoint": "leaderEpoch",
    **OFFSET_CHECKPOINTS,
    PARTITION_METADATA: "partitionMetadata",
    META_PROPERTIES: "metaProperties",
    CLEAN_SHUTDOWN: "cleanShutdown",
    QUORUM_STATE: "quorumState",
}
"""Kind (a suffix or a whole file name) to the JSON name of its entries."""

_SUFFIXES = (*SIDE_SUFFIXES, ".leader_epoch_checkpoint")
_INDEXES: dict[str, type[EntryFile[Any]]] = {
    INDEX: OffsetIndex, TIME_INDEX: TimeIndex, TRANSACTION_INDEX: TransactionIndex
}  # fmt: skip
_TEXT_READERS: dict[str, Callable[[Any], Iterator[Any]]] = {
    LEADER_EPOCHS: read_leader_epochs,
    ".leader_epoch_checkpoint": read_leader_epochs,
    **dict.fromkeys(OFFSET_CHECKPOINTS, read_offset_checkpoint),
    PARTITION_METADATA: read_partition_metadata,
    META_PROPERTIES: read_meta_properties,
    CLEAN_SHUTDOWN: read_clean_shutdown,
    QUORUM_STATE: read_quorum_state,
}


@dataclass(frozen=True, slots=True)
class SideFile:
    """A side file, as its name describes it.

    ``kind`` is a key of ENTRY_NAMES, ``leftover`` one of LEFTOVERS or "", ``base_offset`` the leading number of the
    name or 0, and ``stem`` the name up to the first dot.
    """

    path: str
    kind: str
    leftover: str
    base_offset: int
    stem: str

    @property
    def is_remote_copy(self) -> bool:
        """Whether the file is a local copy of a remote segment's index; there is no .log next to it."""
        name = os.path.basename(self.path)
        directory = os.path.basename(os.path.dirname(os.path.abspath(self.path)))
        return directory == REMOTE_INDEX_CACHE or parse_remote_index_name(name) is not None

    def beside(self, suffix: str) -> str:
        """Path of the same segment's file with another suffix, with the same leftover suffix if such a file exists."""
        path = os.path.join(os.path.dirname(self.path), self.stem + suffix)
        return path + self.leftover if self.leftover and trees.exists(path + self.leftover) else path


def side_file(path: str) -> SideFile | None:
    """Returns the side file that ``path`` names, None for other names. Does not access the disk."""
    name = unpacked_name(path)
    whole, leftover = name, ""
    for suffix in LEFTOVERS:
        if whole.endswith(suffix):
            whole, leftover = whole.removesuffix(suffix), suffix
    kind = whole if whole in _TEXT_READERS else next((suffix for suffix in _SUFFIXES if whole.endswith(suffix)), "")
    if not kind:
        return None
    digits = re.match(r"0*([0-9]{1,19})(?![0-9])", name)
    base_offset = int(digits[1]) if digits else 0
    return SideFile(path, kind, leftover, base_offset if base_offset <= LAST_OFFSET else 0, name.split(".")[0])


def list_side_files(directory: str) -> list[SideFile]:
    """Lists the side files of a partition or log directory by base offset and name, then its remote index cache.

    Raises PathError if a directory cannot be read.
    """
    with errors_at(directory), trees.scandir(directory) as entries:
        names = [entry.name for entry in entries if is_regular_file(entry)]
    files = [file for name in names if (file := side_file(os.path.join(directory, name)))]
    found = sorted(files, key=lambda file: (file.base_offset, os.path.basename(file.path)))
    cache = os.path.join(directory, REMOTE_INDEX_CACHE)
    return found + (list_side_files(cache) if trees.isdir(cache) else [])


def read_items(kind: str, buffer: Sliceable, base_offset: int = 0) -> Iterator[Any]:
    """Yields the entries and problems of a side file of any kind."""
    if kind in _INDEXES:
        return _INDEXES[kind](buffer, base_offset).items()
    if kind == SNAPSHOT:
        return read_producer_snapshot(buffer)
    return _TEXT_READERS[kind](buffer)
