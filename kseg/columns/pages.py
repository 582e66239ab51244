"""How a table becomes pages of Parquet: pieces that a processor's cache holds, and dictionaries that may pay."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle, islice
from typing import Any

PAGE_BYTES = 128 << 10
"""Of a page before it is compressed: in a processor's cache still, where pyarrow's own 1 MiB are not."""
_MOST_ROWS = 1024
"""Handed over at once: pyarrow looks only between them whether a page is full."""
_DICTIONARY_BYTES = 1 << 20
"""As large as pyarrow lets the dictionary of a column of a row group become before it gives it up."""
_PAIRS, _END_BYTES = 128, 64
"""Of values that are compared, two neighbours each time, as the same often follow each other. Of 256, at least one
comes twice with a likelihood of 99.9 % where 4,700 are different ones, a tenth of all in a large row group. Of long
values it is looked at where they begin and end."""
_FEW = 4096
"""Different values of which so many of 256 come twice that it is told by them how many there are."""
_RANDOM_BITS = 31


def _random_numbers(count: int) -> list[int]:
    """The same ones every time: a file does not depend on when it was written. Nor is there a step between them, that
    of the values may have too."""
    numbers = [1]
    while len(numbers) <= count:
        numbers.append(numbers[-1] * 1103515245 + 12345 & (1 << _RANDOM_BITS) - 1)
    return numbers[1:]


_RANDOM = _random_numbers(_PAIRS)


def page_options(table: Any, repeated: Sequence[str]) -> dict[str, Any]:
    """What pyarrow's ParquetWriter is told for one row group; ``repeated``: the columns that may have dictionaries."""
    row_bytes = table.nbytes // max(table.num_rows, 1)
    return {
        "data_page_size": PAGE_BYTES,
        "write_batch_size": max(min(PAGE_BYTES // max(row_bytes, 1), _MOST_ROWS), 1),
        "use_dictionary": [name for name in repeated if "." in name or _may_pay(table, name)],
    }


def _may_pay(table: Any, name: str) -> bool:
    """Whether any of a sample of values of a column comes twice, and large ones so often that a dictionary holds them
    all; true of columns that nothing is known of.

    Of k values, about k * k / 2d come again where there are d different ones; too few to tell d by where it is large.
    """
    import pyarrow as pa

    if name not in table.column_names or not table.num_rows:
        return True
    column = table.column(name)
    if pa.types.is_timestamp(column.type):
        values_at: Callable[[Any, Iterable[int]], Iterator[Any]] = _numbers_at
    elif column.type == pa.binary():
        values_at = _bytes_at
    else:
        return True
    random_numbers = cycle(_RANDOM)
    sample: list[Any] = []
    for chunk in column.chunks:
        sample += values_at(chunk, _places(chunk, len(column), random_numbers))
    again = len(sample) - len(set(sample))
    most_different = _DICTIONARY_BYTES * len(column) // max(column.nbytes, 1)
    if most_different > _FEW:
        return again > 0 or not sample
    return not sample or 2 * again * most_different >= len(sample) ** 2


def _numbers_at(chunk: Any, places: Iterable[int]) -> Iterator[int]:
    """What is null is any number."""
    numbers = memoryview(chunk.buffers()[1]).cast("B").cast("q")
    for i in places:
        yield numbers[i]


def _bytes_at(chunk: Any, places: Iterable[int]) -> Iterator[tuple[bytes, int, bytes] | bytes]:
    """Those that are neither empty nor null, or what stands for them."""
    _, buffer, data = chunk.buffers()
    if data is None:
        return
    ends, view = memoryview(buffer).cast("B").cast("i"), memoryview(data)
    for i in places:
        start, end = ends[i], ends[i + 1]
        if end - start > 2 * _END_BYTES:
            yield bytes(view[start : start + _END_BYTES]), end - start, bytes(view[end - _END_BYTES : end])
        elif end > start:
            yield bytes(view[start:end])


def _places(chunk: Any, count: int, random_numbers: Iterator[int]) -> Iterator[int]:
    """A chunk's share of the sample of a column of so many rows, no place twice, in its buffers."""
    pairs = len(chunk) // 2
    share = min(-(-_PAIRS * len(chunk) // count), pairs)
    for pair in {pairs * number >> _RANDOM_BITS for number in islice(random_numbers, share)}:
        yield chunk.offset + 2 * pair
        yield chunk.offset + 2 * pair + 1
