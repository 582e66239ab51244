"""Mode ``entries``: the entries of offset, time and transaction indexes and of producer snapshots."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kseg.errors import KsegError
from kseg.export.scanning import grouped
from kseg.formats.suffixes import SIDE_SUFFIXES
from kseg.segment.files import SegmentFile, segment_file
from kseg.sidefiles.kinds import ENTRY_NAMES, SideFile, list_side_files, read_items, side_file
from kseg.sidefiles.problems import SideFileProblem
from kseg.spark.options import Options
from kseg.spark.schemas import location_columns, record_batches
from kseg.spark.stores import places, size_of
from kseg.stores import trees
from kseg.stores.source import open_source

if TYPE_CHECKING:
    import pyarrow

_NAMES = {
    "offset": "offset", "position": "position", "timestamp": "timestamp", "producer_id": "producerId",
    "producer_epoch": "producerEpoch", "coordinator_epoch": "coordinatorEpoch", "first_offset": "firstOffset",
    "last_offset": "lastOffset", "last_stable_offset": "lastStableOffset", "last_sequence": "lastSequence",
    "offset_delta": "offsetDelta", "current_txn_first_offset": "currentTxnFirstOffset",
}  # fmt: skip
TYPES = {suffix: ENTRY_NAMES[suffix] for suffix in SIDE_SUFFIXES}
"""The kinds of files, and the names of their entries in the JSON of `kseg dump`."""


def plan(options: Options, keep: Callable[[SegmentFile], bool]) -> list[Sequence[SideFile]]:
    """Returns the tasks."""
    files = list(_files(options, keep))
    return grouped(files, options.task_bytes(sum(size for size, _ in files)))


def _files(options: Options, keep: Callable[[SegmentFile], bool]) -> Iterator[tuple[int, SideFile]]:
    for place in places(options.paths):
        if trees.isdir(place):
            found = list_side_files(place)
        else:
            file = side_file(place)
            if file is None or file.kind not in TYPES:
                raise KsegError(f"{place}: mode entries reads {', '.join(TYPES)} files")
            found = [file]
        for file in found:
            if file.kind in TYPES and keep(segment_file(file.path)):
                yield size_of(file.path), file


def read(files: Sequence[SideFile], options: Options, schema: "pyarrow.Schema") -> Iterator["pyarrow.RecordBatch"]:
    """Yields a row for each entry. Preallocated space has no entries; damage is reported by mode findings."""
    yield from record_batches(_rows(files), schema)


def _rows(files: Sequence[SideFile]) -> Iterator[dict[str, Any]]:
    for file in files:
        named = segment_file(file.path)
        location = location_columns(file.path, named.topic, named.partition) | {"type": TYPES[file.kind]}
        with open_source(file.path) as source:
            entries = (
                item
                for item in read_items(file.kind, source.buffer, file.base_offset)
                if not isinstance(item, SideFileProblem)
            )
            for number, entry in enumerate(entries):
                fields = entry._asdict()
                yield location | {"number": number} | {_NAMES[name]: fields[name] for name in fields if name in _NAMES}
