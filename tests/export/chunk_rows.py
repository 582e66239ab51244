"""Chunks of columns turned back into rows, without pyarrow: what stands in the buffers, by Arrow's layout."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from kseg.export.chunk import HEADER_ENDS, HEADER_KEYS, HEADER_VALUES, NAMES, Bytes, Chunk, Chunks
from kseg.export.pushdown import ALL_ROWS, Bounds
from kseg.export.scanning import PartReader, ScanPart, ScanRequest
from kseg.segment import slices
from kseg.segment.files import segment_file
from kseg.segment.isolation import Transactions
from kseg.segment.items import Damage
from kseg.segment.slices import Slice

Row = tuple[Any, ...]
"""(offset, timestamp in ms, timestamp type id, key, value, headers)"""


def entry(column: Bytes, i: int) -> bytes | None:
    if not column.valid[i >> 3] >> (i & 7) & 1:
        assert column.ends[i] == column.ends[i + 1]
        return None
    return bytes(column.data[column.ends[i] : column.ends[i + 1]])


def rows_of(chunk: Chunk) -> Iterator[Row]:
    assert chunk.valid is not None
    ends, keys, values = chunk.numbers[HEADER_ENDS], chunk.bytes[HEADER_KEYS], chunk.bytes[HEADER_VALUES]
    assert ends[0] == chunk.bytes["key"].ends[0] == chunk.bytes["value"].ends[0] == 0
    for i in range(chunk.count):
        has_time = chunk.valid[i >> 3] >> (i & 7) & 1
        headers = range(ends[i], ends[i + 1])
        yield (
            chunk.numbers["offset"][i],
            chunk.numbers["timestamp"][i] if has_time else None,
            chunk.numbers["timestampType"][i],
            entry(chunk.bytes["key"], i),
            entry(chunk.bytes["value"], i),
            tuple((entry(keys, h), entry(values, h)) for h in headers),
        )


def read_chunks(
    path: Path,
    wanted: Bounds | None = None,
    part: Slice | None = None,
    names: Collection[str] = NAMES,
    left_out: list[Damage] | None = None,
    jobs: int = 1,
    hidden: Transactions | None = None,
    **sizes: int,
) -> list[Chunk]:
    told = [] if left_out is None else left_out
    request = ScanRequest((str(path),), wanted or ALL_ROWS)
    reader = PartReader(request, Chunks(names, **sizes), lambda _, damage: told.append(damage), jobs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "PART_BYTES", 0)  # threads are worth it
        return list(reader.chunks(ScanPart(segment_file(str(path)), part or Slice(), hidden)))


def read_rows(path: Path, *arguments: Any, **options: Any) -> list[Row]:
    return [row for chunk in read_chunks(path, *arguments, **options) for row in rows_of(chunk)]
