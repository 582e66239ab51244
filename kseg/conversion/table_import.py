"""Builds new partitions from the rows of Parquet and Arrow files: all rows, or none.

The columns are those of `kseg.export.arrow.record_columns`; names of directories such as ``topic=orders`` stand for
columns that files lack. Files whose rows have offsets are merged by topic, partition and offset.
"""

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import heappop, heappush
from io import BufferedReader
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast
from urllib.parse import unquote

from kseg.changes.driver.planner import ChangeOptions, Messages
from kseg.changes.plan import Plan
from kseg.conversion.lines_import import NAMELESS, Import, add_lines, build, open_input
from kseg.conversion.options import ConvertOptions
from kseg.conversion.record_files import NULL_DIRECTORY
from kseg.errors import KsegError, PathError, UnsupportedError, errors_at
from kseg.export.arrow import by_partition, int64_column, record_columns
from kseg.export.chunk import OFFSET
from kseg.limits import CHUNK_ROWS, MAX_BATCH_BYTES
from kseg.stores.source import STANDARD_INPUT

if TYPE_CHECKING:
    import pyarrow

    Reader = Callable[[str, BinaryIO], Iterator[pyarrow.RecordBatch]]

_STEP_BYTES = 16 << 20
"""Size of the rows that are decoded at once, and a row more."""
_ERROR_CHARACTERS = 300


def import_records(
    paths: Sequence[str], output: str, request: ConvertOptions, change: ChangeOptions, messages: Messages
) -> list[Plan]:
    """Writes partitions below ``output``, or in a dry run only counts. Returns a plan for each. Raises KsegError."""
    add = add_lines if request.source not in _READERS else _add_tables
    return build(paths, output, request, change, messages, add)


def _add_tables(work: Import, paths: Sequence[str], request: ConvertOptions) -> None:
    read = _READERS[str(request.source)]
    files = [_TableFile(path, read) for given in paths for path in _files_at(given)]
    for name, rows, path in _merged(files):
        try:
            work.add_table(name, rows)
        except KsegError as error:
            hint = ": sort the rows of each file by topic, partition and offset" * ("comes behind" in str(error))
            raise type(error)(f"{path}: {error}{hint}; nothing was written") from error
        except ValueError as error:
            raise KsegError(f"{path}: {error}; nothing was written") from error


# Files of a directory

_FOREIGN = {
    "_delta_log": "a Delta table: read it with deltalake",
    "metadata": "an Iceberg table: read it with pyiceberg",
}
"""Directories of tables whose files may hold rows that were deleted."""


def _files_at(path: str) -> Iterator[str]:
    """Yields the files below a directory in order of their names, without hidden ones; or the path itself."""
    if not os.path.isdir(path):
        yield path
        return
    found = False
    for folder, folders, names in os.walk(path, onerror=_refuse):
        for name in _FOREIGN.keys() & {*folders}:
            inside = os.listdir(os.path.join(folder, name))
            if name != "metadata" or any(each.endswith(".metadata.json") for each in inside):
                raise UnsupportedError(f"{folder}: is {_FOREIGN[name]} (kseg-convert(1))")
        folders[:] = sorted(each for each in folders if not each.startswith(("_", ".")))
        for name in sorted(names):
            if not name.startswith(("_", ".")):
                found = True
                yield os.path.join(folder, name)
    if not found:
        raise PathError(f"{path}: holds no files of a table")


def _refuse(error: OSError) -> None:
    raise PathError(f"{error.filename}: {error.strerror}") from error


# Rows of a file


class _Rows(NamedTuple):
    """Rows of one partition. ``first``: their first offset, -1 if they have none."""

    name: str
    first: int
    batch: "pyarrow.RecordBatch"


class _TableFile:
    """Reads a file. Errors of pyarrow, and ValueError, become KsegError."""

    def __init__(self, path: str, read: "Reader") -> None:
        self.path, self._read = path, read
        self._constants = {
            key: unquote(value)
            for key, is_set, value in (part.partition("=") for part in os.path.dirname(path).split(os.sep))
            if is_set and key in ("topic", "partition") and value != NULL_DIRECTORY
        }

    def rows(self) -> Iterator[_Rows]:
        name = "standard input" if self.path == STANDARD_INPUT else self.path
        with ExitStack() as opened:
            stream = open_input(self.path, opened)
            opened.enter_context(_errors_of_pyarrow(name))
            batches = self._read(self.path, stream)
            for batch in chain.from_iterable(map(_in_steps, batches)):
                columns = record_columns(self._with_constants(batch))
                has_place = {"topic", "partition"} & {*columns.schema.names}
                for name, rows in by_partition(columns) if has_place else ((NAMELESS, columns),):
                    if rows.num_rows:
                        yield _rows(name, rows)

    def _with_constants(self, batch: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
        import pyarrow as pa

        for name in self._constants.keys() - {*batch.schema.names}:
            batch = batch.append_column(name, pa.repeat(self._constants[name], batch.num_rows))
        return batch


def _rows(name: str, batch: "pyarrow.RecordBatch") -> _Rows:
    if OFFSET not in batch.schema.names:
        return _Rows(name, -1, batch)
    first = batch.column(OFFSET)[0].as_py()
    if batch.column(OFFSET).null_count or first < 0:
        raise ValueError("column offset: a record has none")
    return _Rows(name, first, batch)


@contextmanager
def _errors_of_pyarrow(path: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except KsegError as error:
        raise type(error)(f"{path}: {error}; nothing was written") from error
    except (pa.ArrowException, OSError, MemoryError, ValueError, OverflowError) as error:
        text = str(error.strerror or error) if isinstance(error, OSError) else str(error)
        reason = re.sub(r"\s+", " ", text)[:_ERROR_CHARACTERS] or type(error).__name__
        raise PathError(f"{path}: {reason}; nothing was written") from error


def _merged(files: Sequence[_TableFile]) -> Iterator[tuple[str, "pyarrow.RecordBatch", str]]:
    """Yields all rows by partition and offset, with the path of their file; those without offsets first, as given.

    A file is opened once for its first rows, and again when it is their turn: files that follow each other are not open
    at once.
    """
    heads: list[tuple[tuple[str, int, int], _Rows, Iterator[_Rows] | None]] = []

    def push(at: int, rows: Iterator[_Rows], is_kept: bool = True) -> None:
        if (head := next(rows, None)) is not None:
            key = ("", at, at) if head.first < 0 else (head.name, head.first, at)
            heappush(heads, (key, head, rows if is_kept else None))

    for at, file in enumerate(files):
        push(at, file.rows(), is_kept=len(files) == 1 or file.path == STANDARD_INPUT)
    while heads:
        (name, _, at), head, rest = heappop(heads)
        if rest is None:
            push(at, files[at].rows())
            continue
        batch, count = head.batch, head.batch.num_rows
        if head.first >= 0 and heads and heads[0][0][0] == name:
            count = max(bisect_left(int64_column(batch.column(OFFSET)), heads[0][0][1]), 1)
        yield head.name, batch.slice(0, count), files[at].path
        push(at, rest if count == batch.num_rows else chain((_rows(name, batch.slice(count)),), rest))


def _parquet(path: str, opened: BinaryIO) -> "Iterator[pyarrow.RecordBatch]":
    import pyarrow.parquet as pq

    if path == STANDARD_INPUT:
        raise UnsupportedError("a Parquet file is read from its end: give its path")
    with pq.ParquetFile(opened) as file:
        columns = [file.schema.column(at) for at in range(len(file.schema))]
    # Values that repeat stay so until `_in_steps`: a page of a few bytes can hold gigabytes of them.
    repeated = [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]
    with pq.ParquetFile(opened, read_dictionary=repeated, page_checksum_verification=True) as file:
        for group in range(file.num_row_groups):
            found = file.metadata.row_group(group)
            rows = _STEP_BYTES * found.num_rows // max(found.total_byte_size, 1)
            yield from file.iter_batches(min(max(rows, 1), CHUNK_ROWS), row_groups=[group], use_threads=False)


def _arrow(_: str, opened: BinaryIO) -> "Iterator[pyarrow.RecordBatch]":
    """Reads a stream, or a file: its magic, a stream, and its footer."""
    import pyarrow as pa

    if is_file := cast(BufferedReader, opened).peek(len(_ARROW_MAGIC)).startswith(_ARROW_MAGIC):
        opened.read(8)
    with pa.ipc.open_stream(opened) as reader:
        for batch in reader:
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                with errors_at(f"column {name}", KsegError, of=pa.ArrowInvalid):
                    column.validate(full=True)  # pyarrow takes the lengths of a file on trust
            yield batch
    end = b""
    while block := opened.read(1 << 16):
        end = (end + block)[-len(_ARROW_MAGIC) :]
    if is_file and end != _ARROW_MAGIC:
        raise ValueError("is cut off")


_ARROW_MAGIC = b"ARROW1"
_READERS: "dict[str, Reader]" = {"parquet": _parquet, "arrow": _arrow}


def _in_steps(batch: "pyarrow.RecordBatch") -> "Iterator[pyarrow.RecordBatch]":
    """Yields the rows in parts that are small also when values that repeat are written out."""
    size = sum(map(_written_out, batch.columns))
    if batch.num_rows <= (CHUNK_ROWS if size <= _STEP_BYTES else 1):
        if size > MAX_BATCH_BYTES:
            raise ValueError(f"a row has {size} bytes")
        yield batch
        return
    half = batch.num_rows // 2
    yield from _in_steps(batch.slice(0, half))
    yield from _in_steps(batch.slice(half))


def _written_out(column: "pyarrow.Array") -> int:
    """Returns the size of the values of a column without dictionaries."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_map(kind):
        pair = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        column = column.cast(pa.list_(pair))
    if pa.types.is_struct(kind):
        return sum(map(_written_out, column.flatten()))
    if pa.types.is_nested(kind):
        return 4 * len(column) + _written_out(column.flatten())
    if pa.types.is_dictionary(kind) and not pa.types.is_primitive(kind.value_type):
        lengths = pc.binary_length(column.dictionary)
        return 4 * len(column) + (pc.sum(lengths.take(column.indices)).as_py() or 0)
    return int(column.nbytes)
