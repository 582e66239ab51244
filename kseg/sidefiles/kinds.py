"""Maps file names to kinds of side files and their readers."""

import os
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kseg.formats.rows import Sliceable
from kseg.formats.suffixes import INDEX, LEFTOVER_SUFFIXES, SIDE_SUFFIXES, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from kseg.segment import files as segment_files
from kseg.sidefiles import text_files
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, OFFSET_CHECKPOINTS, read_leader_epochs, read_offset_checkpoint
from kseg.sidefiles.indexes import EntryFile, OffsetIndex, TimeIndex, TransactionIndex
from kseg.sidefiles.producer_state import read_producer_snapshot
from kseg.stores.place import Place

LEFTOVERS = (*LEFTOVER_SUFFIXES, ".tmp")

_KINDS: dict[str, tuple[str, type[EntryFile[Any]] | Callable[[Sliceable], Iterator[Any]]]] = {
    INDEX: ("offsetIndexEntry", OffsetIndex),
    TIME_INDEX: ("timeIndexEntry", TimeIndex),
    TRANSACTION_INDEX: ("abortedTxn", TransactionIndex),
    SNAPSHOT: ("producerState", read_producer_snapshot),
    LEADER_EPOCHS: ("leaderEpoch", read_leader_epochs),
    ".leader_epoch_checkpoint": ("leaderEpoch", read_leader_epochs),
    **{kind: (name, read_offset_checkpoint) for kind, name in OFFSET_CHECKPOINTS.items()},
    segment_files.STREAMS_CHECKPOINT: ("streamsOffset", read_offset_checkpoint),
    text_files.PARTITION_METADATA: ("partitionMetadata", text_files.read_partition_metadata),
    text_files.META_PROPERTIES: ("metaProperties", text_files.read_meta_properties),
    segment_files.CLEAN_SHUTDOWN: ("cleanShutdown", text_files.read_clean_shutdown),
    segment_files.QUORUM_STATE: ("quorumState", text_files.read_quorum_state),
}
"""Kind (a suffix or a whole file name) to the JSON name of its entries, and the reader of entries and problems."""
ENTRY_NAMES = {kind: name for kind, (name, _) in _KINDS.items()}
_SUFFIXES = (*SIDE_SUFFIXES, ".leader_epoch_checkpoint")


class SideFile(NamedTuple):
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
        return directory == segment_files.REMOTE_INDEX_CACHE or segment_files.is_remote_index_name(name)

    def beside(self, suffix: str) -> str:
        """Path of the same segment's file with another suffix, with the same leftover suffix if such a file exists."""
        directory, name = Place(self.path).parent, self.stem + suffix
        if self.leftover and (path := directory / (name + self.leftover)).exists():
            return path
        return directory / name


def side_file(path: str) -> SideFile | None:
    """Returns the side file that ``path`` names, None for other names. Does not access the disk."""
    name = segment_files.unpacked_name(path)
    whole, leftover = name, ""
    for suffix in LEFTOVERS:
        if whole.endswith(suffix):
            whole, leftover = whole.removesuffix(suffix), suffix
    kind = whole if whole in _KINDS else next((suffix for suffix in _SUFFIXES if whole.endswith(suffix)), "")
    if not kind:
        return None
    digits = re.match(r"0*([0-9]{1,19})(?![0-9])", name)
    base_offset = int(digits[1]) if digits else 0
    return SideFile(
        path, kind, leftover, base_offset if base_offset <= segment_files.LAST_OFFSET else 0, name.split(".")[0]
    )


def list_side_files(directory: str) -> list[SideFile]:
    """Lists the side files of a partition or log directory by base offset and name, then its remote index cache.

    Raises PathError if a directory cannot be read.
    """
    names = segment_files.file_names(directory)
    files = [file for name in names if (file := side_file(Place(directory) / name))]
    found = sorted(files, key=lambda file: (file.base_offset, os.path.basename(file.path)))
    cache = Place(directory) / segment_files.REMOTE_INDEX_CACHE
    return found + (list_side_files(cache) if cache.is_dir() else [])


def read_items(kind: str, buffer: Sliceable, base_offset: int = 0) -> Iterator[Any]:
    """Yields the entries and problems of a side file of any kind."""
    read = _KINDS[kind][1]
    return read(buffer, base_offset).items() if isinstance(read, type) else read(buffer)
