"""What the segment reader yields for a path, with the types of `kseg.segment`."""

import os
from collections.abc import Iterator

from kseg.segment.items import Batch, Damage, Record
from kseg.segment.paths import expand_path, segments_at
from kseg.segment.reader import open_segment


def items_at(path: str | os.PathLike[str]) -> Iterator[Batch | Damage]:
    """The items of a segment, a partition or a log directory, in order."""
    for part in expand_path(os.fspath(path)):
        for file in segments_at(part):
            with open_segment(file) as reader:
                yield from reader


def records_at(path: str | os.PathLike[str]) -> list[Record]:
    """The records of all batches, control records among them."""
    return [record for item in items_at(path) if isinstance(item, Batch) for record in item]
