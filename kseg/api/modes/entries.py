"""Mode ``entries``: the entries of offset, time and transaction indexes and of producer snapshots."""

from collections.abc import Iterable, Iterator
from typing import Any

from kseg.errors import UnsupportedError
from kseg.export.arrow import location_columns
from kseg.export.scanning import ReportDamage, ScanRequest, places_of_scan
from kseg.formats.suffixes import SIDE_SUFFIXES
from kseg.output.side_files import fields
from kseg.segment.files import segment_file
from kseg.sidefiles.kinds import ENTRY_NAMES, SideFile, list_side_files, read_items, side_file
from kseg.sidefiles.problems import SideFileProblem
from kseg.stores import trees
from kseg.stores.source import open_source

TYPES = {suffix: ENTRY_NAMES[suffix] for suffix in SIDE_SUFFIXES}
"""The kinds of files, and the names of their entries in the JSON of `kseg dump`."""


def works(request: ScanRequest, _slice_bytes: int | None = None) -> Iterator[tuple[int, SideFile]]:
    """Yields the side files. Raises UnsupportedError for a named file without entries."""
    for place in places_of_scan(request):
        if trees.isdir(place):
            found = list_side_files(place)
        else:
            file = side_file(place)
            if file is None or file.kind not in TYPES:
                raise UnsupportedError(f"{place}: mode entries reads {', '.join(TYPES)} files")
            found = [file]
        for file in found:
            if file.kind in TYPES and request.keeps(segment_file(file.path)):
                yield trees.size_of(file.path), file


def rows(files: Iterable[SideFile], _request: ScanRequest, _report: ReportDamage) -> Iterator[dict[str, Any]]:
    """Yields a row for each entry. Preallocated space has no entries; damage is reported by mode findings."""
    for file in files:
        named = segment_file(file.path)
        location = location_columns(file.path, named.topic, named.partition) | {"type": TYPES[file.kind]}
        with open_source(file.path) as source:
            items = read_items(file.kind, source.buffer, file.base_offset)
            entries = (item for item in items if not isinstance(item, SideFileProblem))
            for number, entry in enumerate(entries):
                yield fields(entry) | location | {"number": number}
