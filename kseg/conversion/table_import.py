"""Builds new partitions from the rows of Parquet and Arrow files: all rows, or none.

The columns are those of `kseg.export.arrow.record_columns`; names of directories such as ``topic=orders`` stand for
columns that files lack. Files whose rows have offsets are merged by topic, partition and offset.
"""

import os
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from heapq import heappop, heappush
from io import BufferedReader
from itertools import chain
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast
from urllib.parse import unquote

from kseg.changes.driver.command import ChangeOptions, Messages
from kseg.changes.new_directories import new_directories
from kseg.changes.plan import Plan
from kseg.conversion.lines_import import NAMELESS, Import, add_lines, nothing_written, open_input
from kseg.conversion.options import ConvertOptions
from kseg.conversion.planner import plan_of_new
from kseg.conversion.record_files import NULL_DIRECTORY
from kseg.errors import KsegError, PathError, UnsupportedError, errors_at
from kseg.export import pa, pc, pq
from kseg.export.arrow import COLUMNS, by_partition, int64_column, record_columns
from kseg.export.chunk import OFFSET
from kseg.limits import CHUNK_ROWS, MAX_BATCH_BYTES
from kseg.segment.files import LAST_OFFSET
from kseg.stores.source import STANDARD_INPUT

if TYPE_CHECKING:
    Reader = Callable[[str, BinaryIO, Sequence[str]], Iterator[pa.RecordBatch]]

_STEP_BYTES = 16 << 20
"""Size of the rows that are decoded at once, and a row more."""
_ERROR_CHARACTERS = 300


def import_records(
    paths: Sequence[str], output: str, request: ConvertOptions, change: ChangeOptions, messages: Messages
) -> list[Plan]:
    """Writes partitions below ``output``, or in a dry run only counts. Returns a plan for each. Raises KsegError."""
    is_dry = change.is_dry
    with new_directories(output, change.takes_lock, is_dry) as made:

        def folder(name: str) -> str | None:
            path = made.add(name, is_dry)
            return None if is_dry else path

        work = Import(request, folder)
        try:
            (_add_tables if request.source in _READERS else add_lines)(work, paths, request)
            work.finish()
        except BaseException:
            work.close()
            raise
    for skipped in work.skipped:
        messages.warning(f"left out: {skipped}")
    for name, partition in work.partitions.items():
        messages.detail(f"{name}: {partition.records} records")
    return [plan_of_new(os.path.join(output, name), partition.files, "") for name, partition in work.partitions.items()]


def _add_tables(work: Import, paths: Sequence[str], request: ConvertOptions) -> None:
    read = _READERS[str(request.source)]
    files = [_TableFile(path, read, at) for at, path in enumerate(chain.from_iterable(map(_files_at, paths)))]
    with ExitStack() as spilled:
        for rows, path in _merged([each for file in files for each in file.streams(len(files) > 1, spilled)]):
            try:
                work.add_table(rows.name, rows.batch)
            except (KsegError, ValueError) as error:
                raise nothing_written(path, error) from error


# Files of a directory

_FOREIGN = {
    "_delta_log": "a Delta table: give the files that deltalake names",
    "metadata": "an Iceberg table: give the files that pyiceberg names",
}
"""Directories of tables whose files may hold rows that were deleted."""


def _files_at(path: str) -> Iterator[str]:
    """Yields the files below a directory in order of their names, without hidden ones; or the path itself.

    Links to files are followed. Raises PathError for one to a directory, and for what is no file.
    """
    if not os.path.isdir(path):
        yield _file(path)
        return
    found = False
    for folder, folders, names in os.walk(path, onerror=_refuse):
        for name in _FOREIGN.keys() & {*folders}:
            inside = os.listdir(os.path.join(folder, name))
            if name != "metadata" or any(each.endswith(".metadata.json") for each in inside):
                raise UnsupportedError(f"{folder}: is {_FOREIGN[name]} (kseg-python-recipes(7))")
        folders[:] = sorted(each for each in folders if not each.startswith(("_", ".")))
        for each in (os.path.join(folder, name) for name in folders):
            if os.path.islink(each):
                raise PathError(f"{each}: is a symbolic link to a directory: give its path")
        for name in sorted(names):
            if not name.startswith(("_", ".")):
                found = True
                yield _file(os.path.join(folder, name))
    if not found:
        raise PathError(f"{path}: holds no files of a table")


def _file(path: str) -> str:
    if os.path.exists(path) and not os.path.isfile(path):  # opening a FIFO would wait for its writer
        raise PathError(f"{path}: is no file")
    return path


def _refuse(error: OSError) -> None:
    raise PathError(f"{error.filename}: {error.strerror}") from error


# Rows of a file


_PLACE_COLUMNS = ("topic", "partition", OFFSET)
_SORT_BYTES, _RUN_BYTES = 32 << 20, 256 << 10
"""Size of the rows that are sorted at once, and of a batch of them: each sorted run has one in memory."""

Place = tuple[str, int, int]
"""Topic, partition and offset of a row. Rows without offsets have the number of their file, and keep their order."""


class _Rows(NamedTuple):
    """Rows of one partition. ``place``: of the first."""

    name: str
    place: Place
    batch: "pa.RecordBatch"

    @property
    def offsets(self) -> Sequence[int]:
        return int64_column(self.batch.column(OFFSET)) if OFFSET in self.batch.schema.names else ()

    def from_row(self, count: int) -> "_Rows":
        return _Rows(self.name, (*self.place[:2], self.offsets[count]), self.batch[count:])


class _Stream(NamedTuple):
    """Rows in the order of their places, the least of which is ``first``."""

    first: Place
    rows: Callable[[], Iterator[_Rows]]
    path: str


class _TableFile:
    """Reads a file. Errors of pyarrow, and ValueError, become KsegError. ``number``: of the file among all."""

    def __init__(self, path: str, read: "Reader", number: int) -> None:
        self._path, self._read = path, read
        self._no_offset: Place = ("", -2, number)
        self._constants = {
            key: unquote(value)
            for key, is_set, value in (part.partition("=") for part in os.path.dirname(path).split(os.sep))
            if is_set and key in ("topic", "partition") and value != NULL_DIRECTORY
        }

    def streams(self, is_merged: bool, spilled: ExitStack) -> Iterator[_Stream]:
        """Yields the file as one stream, or as sorted runs in a temporary file if its rows have another order.

        ``is_merged``: there are other files, so that the partitions must be in order, too.
        """
        first, is_in_order = self._no_offset, True
        if self._path != STANDARD_INPUT:
            first, is_in_order = self._survey(is_merged)
        if is_in_order:
            yield _Stream(first, self._rows, self._path)
        else:
            yield from self._sorted_runs(spilled)

    def _survey(self, is_merged: bool) -> tuple[Place, bool]:
        """Returns the place of the first row, and whether all rows, or those of each partition, are in order."""
        first, last = self._no_offset, dict[str, Place]()
        for name, place, rows in self._rows(_PLACE_COLUMNS, is_split=not is_merged):
            if OFFSET not in rows.schema.names:
                break
            first, name = first if last else place, "" if is_merged else name
            keys = [(each, "ascending") for each in _PLACE_COLUMNS if each in rows.schema.names]
            if place <= last.get(name, ("",)) or not rows.equals(rows.sort_by(keys)):
                return first, False
            last[name] = self._place(rows, rows.num_rows - 1)
        return first, True

    def _sorted_runs(self, spilled: ExitStack) -> Iterator[_Stream]:
        file, writer, runs = spilled.enter_context(TemporaryFile()), None, list[list[Place]]()
        for held in self._held():
            runs.append([])
            for place in sorted(held):
                table = pa.Table.from_batches(held.pop(place)).combine_chunks().sort_by(OFFSET)
                for batch in table.to_batches(max(table.num_rows * _RUN_BYTES // max(table.nbytes, 1), 1)):
                    with errors_at("temporary file", KsegError, "; nothing was written"):
                        writer = writer or pa.ipc.new_file(file, batch.schema)
                        writer.write_batch(batch)
                    runs[-1].append(self._place(batch))
        if writer is not None:
            writer.close()
            reader, count = pa.ipc.open_file(file), 0
            for run in runs:
                found = range(count, count + len(run))
                count = found.stop
                rows = partial(map, lambda at: self._placed(reader.get_batch(at)), found)
                yield _Stream(run[0], rows, self._path)

    def _held(self) -> "Iterator[dict[tuple[str, int], list[pa.RecordBatch]]]":
        """Yields the rows by topic and partition, some ten MB at a time."""
        held, size = defaultdict(list), 0
        for _, place, batch in self._rows():
            held[place[:2]].append(batch)
            size += batch.nbytes
            if size >= _SORT_BYTES:
                yield held
                held, size = defaultdict(list), 0
        if held:
            yield held

    def _rows(self, names: Sequence[str] = COLUMNS, is_split: bool = True) -> Iterator[_Rows]:
        """Yields the rows with the columns of records that are among the names; ``is_split``: by partition."""
        with ExitStack() as opened:
            stream = open_input(self._path, opened)
            opened.enter_context(_errors_of_pyarrow("standard input" if self._path == STANDARD_INPUT else self._path))
            for batch in chain.from_iterable(map(_in_steps, self._read(self._path, stream, names))):
                for name in self._constants.keys() - {*batch.schema.names}:
                    batch = batch.append_column(name, pa.repeat(self._constants[name], batch.num_rows))
                columns = record_columns(batch)
                has_place = {"topic", "partition"} & {*columns.schema.names}
                found = [rows for _, rows in by_partition(columns)] if has_place else [columns]
                for rows in found if is_split else (columns,):
                    if OFFSET in rows.schema.names and rows.column(OFFSET).null_count:
                        raise ValueError("column offset: a record has none")
                    if rows.num_rows:
                        yield self._placed(rows)

    def _placed(self, batch: "pa.RecordBatch") -> _Rows:
        place, has_name = self._place(batch), "topic" in batch.schema.names
        name = f"{batch.column('topic')[0]}-{batch.column('partition')[0]}" if has_name else NAMELESS
        return _Rows(name, place, batch)

    def _place(self, batch: "pa.RecordBatch", at: int = 0) -> Place:
        names = batch.schema.names
        if OFFSET not in names:
            return self._no_offset
        row = {name: batch.column(name)[at].as_py() for name in names if name in _PLACE_COLUMNS}
        return row.get("topic", ""), row.get("partition", -1), row[OFFSET]


@contextmanager
def _errors_of_pyarrow(path: str) -> Iterator[None]:
    try:
        yield
    except KsegError as error:
        raise nothing_written(path, error) from error
    except (pa.ArrowException, OSError, MemoryError, ValueError, OverflowError) as error:
        text = str(error.strerror or error) if isinstance(error, OSError) else str(error)
        reason = re.sub(r"\s+", " ", text)[:_ERROR_CHARACTERS] or type(error).__name__
        raise PathError(f"{path}: {reason}; nothing was written") from error


def _merged(streams: Sequence[_Stream]) -> Iterator[tuple[_Rows, str]]:
    """Yields all rows in the order of their places, with the path of a file that has them.

    A stream is opened at its turn. Of those that overlap, rows are joined up to the first end of what has been read.
    """
    heads: list[tuple[Place, int, _Rows | None, Iterator[_Rows]]] = []

    def push(at: int, head: _Rows | None, rest: Iterator[_Rows]) -> None:
        if head is not None:
            heappush(heads, (head.place, at, head, rest))

    for at, stream in enumerate(streams):
        heappush(heads, (stream.first, at, None, iter(())))
    while heads:
        partition, end, taken = heads[0][0][:2], LAST_OFFSET, []
        while heads and heads[0][0][:2] == partition and heads[0][0][2] <= end:
            place, at, head, rest = heappop(heads)
            if head is None:
                rest = streams[at].rows()
                push(at, next(rest, None), rest)
                continue
            taken.append((at, head, rest))
            end = min(end, head.offsets[-1] if head.offsets else place[2])
        parts = []
        for at, head, rest in taken:
            count = max(bisect_right(head.offsets, end), 1) if head.offsets else len(head.batch)
            parts.append(pa.Table.from_batches([head.batch[:count]]))
            push(at, head.from_row(count) if count < len(head.batch) else next(rest, None), rest)
        joined = pa.concat_tables(parts or [pa.table({})], promote_options="default")
        for batch in (joined.sort_by(OFFSET).combine_chunks() if len(parts) > 1 else joined).to_batches():
            yield _Rows(taken[0][1].name, taken[0][1].place, batch), streams[taken[0][0]].path


def _parquet(path: str, opened: BinaryIO, names: Sequence[str] = COLUMNS) -> "Iterator[pa.RecordBatch]":
    if path == STANDARD_INPUT:
        raise UnsupportedError("a Parquet file is read from its end: give its path")
    with pq.ParquetFile(opened) as file:
        columns = [file.schema.column(at) for at in range(len(file.schema))]
    # Values that repeat stay so until `_in_steps`: a page of a few bytes can hold gigabytes of them.
    repeated = [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]
    read = None if names == COLUMNS else [*names]
    with pq.ParquetFile(opened, read_dictionary=repeated, page_checksum_verification=True) as file:
        for group in range(file.num_row_groups):
            found = file.metadata.row_group(group)
            rows = _STEP_BYTES * found.num_rows // max(found.total_byte_size, 1)
            yield from file.iter_batches(min(max(rows, 1), CHUNK_ROWS), [group], read, use_threads=False)


def _arrow(path: str, opened: BinaryIO, names: Sequence[str] = COLUMNS) -> "Iterator[pa.RecordBatch]":
    """Reads a stream or a file. On standard input a file is its magic, a stream, and its footer."""
    is_file = cast(BufferedReader, opened).peek(len(_ARROW_MAGIC)).startswith(_ARROW_MAGIC)
    if is_file and path != STANDARD_INPUT:
        reader = pa.ipc.open_file(opened)
        batches = map(reader.get_batch, range(reader.num_record_batches))
    else:
        opened.read(8 * is_file)
        batches = iter(pa.ipc.open_stream(opened))
    for batch in batches:
        if names != COLUMNS:
            batch = batch.select([name for name in batch.schema.names if name in names])
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            with errors_at(f"column {name}", KsegError, of=pa.ArrowInvalid):
                column.validate(full=True)  # pyarrow takes the lengths of a file on trust
        yield batch
    end = b""
    while path == STANDARD_INPUT and (block := opened.read(1 << 16)):
        end = (end + block)[-len(_ARROW_MAGIC) :]
    if is_file and path == STANDARD_INPUT and end != _ARROW_MAGIC:
        raise ValueError("is cut off")


_ARROW_MAGIC = b"ARROW1"
_READERS: "dict[str, Reader]" = {"parquet": _parquet, "arrow": _arrow}


def _in_steps(batch: "pa.RecordBatch") -> "Iterator[pa.RecordBatch]":
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


def _written_out(column: "pa.Array") -> int:
    """Returns the size of the values of a column without dictionaries."""
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
