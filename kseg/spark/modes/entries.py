"""Mode ``entries``: the entries of offset, time and transaction indexes and of producer snapshots."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kseg.errors import KsegError
from kseg.export.scanning import grouped
from kseg.formats.suffixes import SIDE_SUFFIXES
from kseg.output.side_files import camel_case
from kseg.segment.files import segment_file
from kseg.sidefiles.kinds import ENTRY_NAMES, SideFile, list_side_files, read_items, side_file
from kseg.sidefiles.problems import SideFileProblem
from kseg.spark.options import Options
from kseg.spark.schemas import location_columns, record_batches
from kseg.spark.stores import places, size_of
from kseg.stores import trees
from kseg.stores.source import open_source

if TYPE_CHECKING:
    import pyarrow

TYPES = {suffix: ENTRY_NAMES[suffix] for suffix in SIDE_SUFFIXES}
"""The kinds of files, and the names of their entries in the JSON of `kseg dump`."""


def plan(options: Options) -> list[Sequence[SideFile]]:
    """Returns the tasks."""
    files = list(_files(options))
    return grouped(files, options.task_bytes(sum(size for size, _ in files)))


def _files(options: Options) -> Iterator[tuple[int, SideFile]]:
    for place in places(options.paths):
        if trees.isdir(place):
            found = list_side_files(place)
        else:
            file = side_file(place)
            if file is None or file.kind not in TYPES:
                raise KsegError(f"{place}: mode entries reads {', '.join(TYPES)} files")
            found = [file]
        for file in found:
            if file.kind in TYPES:
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
                fields = {camel_case(name): value for name, value in entry._asdict().items()}
                yield fields | location | {"number": number}
