"""How a table becomes pages of Parquet: pieces that a processor's cache holds, and dictionaries that may pay."""

from typing import Any

PAGE_BYTES = 128 << 10
"""Of a page before it is compressed: in a processor's cache still, where pyarrow's own 1 MiB are not."""
_MOST_ROWS = 1024
"""Handed over at once: pyarrow looks only between them whether a page is full."""
_DICTIONARY_BYTES = 1 << 20
"""As large as pyarrow lets the dictionary of a column of a row group become before it gives it up."""
_LARGE_BYTES, _SAMPLE, _END_BYTES = 256, 256, 64
"""Values for which it is asked whether they repeat; so many of them, of which there are at most 4,096 in a dictionary,
repeat with a likelihood of 99.97 %. Looked at is where they begin and end."""


def page_options(table: Any, repeated: list[str]) -> dict[str, Any]:
    """What pyarrow's ParquetWriter is told for one row group; ``repeated``: the columns that may have dictionaries."""
    row_bytes = table.nbytes // max(table.num_rows, 1)
    return {
        "data_page_size": PAGE_BYTES,
        "write_batch_size": max(min(PAGE_BYTES // max(row_bytes, 1), _MOST_ROWS), 1),
        "use_dictionary": [name for name in repeated if "." in name or not _hardly_repeats(table, name)],
    }


def _hardly_repeats(table: Any, name: str) -> bool:
    """Whether the values of a column are large, more than fill a dictionary, and all different in a sample of them."""
    import pyarrow as pa

    if name not in table.column_names:
        return False
    column = table.column(name)
    is_large = column.nbytes >= max(_DICTIONARY_BYTES, _LARGE_BYTES * len(column))
    if not is_large or column.type != pa.binary():
        return False
    step, seen, count = max(len(column) // _SAMPLE, 1), set(), 0
    for chunk in column.chunks:
        _, ends, data = map(_view, chunk.buffers())
        ends = ends.cast("i")
        for i in range(chunk.offset, chunk.offset + len(chunk), step):
            value = data[ends[i] : ends[i + 1]]
            if len(value):
                seen.add((len(value), bytes(value[:_END_BYTES]), bytes(value[-_END_BYTES:])))
                count += 1
    return len(seen) == count


def _view(buffer: Any) -> memoryview:
    return memoryview(b"") if buffer is None else memoryview(buffer).cast("B")
