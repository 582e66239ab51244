"""``kseg.scan``: records as Arrow columns, and as a dataset of pyarrow."""

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

from kseg.api import arguments
from kseg.api.archives import readable
from kseg.api.arguments import Level, Path, Paths, Reading, RecordSelection, checked, includes_broken
from kseg.api.log import Damage, raise_damage
from kseg.api.modes import mode_of
from kseg.decoders.avro import need_fastavro
from kseg.errors import RequestError, UnsupportedError
from kseg.export import fs, pa
from kseg.export.arrow import PROVEN, need_pyarrow, record_batch, record_batches, schema, types_of
from kseg.export.chunk import Chunks
from kseg.export.decoded import DecodedColumns, Decoding, with_types
from kseg.export.pushdown import ALL_ROWS, Bounds, bounds_of_filter, columns_of
from kseg.export.scanning import DamageLog, PartReader, ScanPart, ScanRequest, grouped, parts_of_scan
from kseg.runtime.threads import until_exit, usable_cores
from kseg.stores.place import in_trees
from kseg.stores.stored_object import shown

Dataset = object
if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow.dataset as ds
else:
    try:
        import pyarrow.dataset as ds

        Dataset = ds.FileSystemDataset
    except ImportError:  # without pyarrow, reading raises UnsupportedError; without its datasets, a scan is none
        pass

SPLIT_BYTES = 64 << 20
_READAHEAD_BATCHES = 2
"""Record batches of some MiB each that pyarrow holds; its default is 16."""
Columns = Sequence[str] | dict[str, Any] | None
"""Names of columns, or expressions of pyarrow by the names of their results; None for all columns."""


@dataclass(frozen=True, repr=False)
class Scan(Dataset):
    """Records that can be read as Arrow columns any number of times. It holds no data and can be pickled.

    pyarrow, polars, DuckDB, pandas and DataFusion read it directly, through Arrow's PyCapsule interface. `kseg.scan`
    creates it.

    It is also a ``pyarrow.dataset.Dataset``, whose scanner decodes only the requested columns, and of a filter on
    offset, timestamp, topic, partition and key only what it can match. The base class holds one fragment, which cannot
    be opened: functions of pyarrow that bypass the scanner raise UnsupportedError.

    >>> scan = kseg.scan("orders-0", columns=["offset", "value"])
    >>> scan.to_arrow().num_rows, scan.count_rows()
    (150, 150)
    >>> import duckdb
    >>> duckdb.sql('select max("offset") from scan').fetchall()
    [(149,)]
    """

    columns: tuple[str, ...]
    _request: ScanRequest = field(repr=False)
    _skips_damage: bool = field(repr=False)
    _parts: tuple[ScanPart, ...] | None = field(default=None, repr=False)
    _decoding: Decoding = field(default_factory=Decoding, repr=False)
    _skipped: DamageLog = field(default_factory=lambda: DamageLog(logging.getLogger("kseg")), repr=False, compare=False)
    """Shared with the scans that are made of this one."""

    def __post_init__(self) -> None:
        if Dataset is not object:
            form, files = ds.IpcFileFormat(), _no_files()
            fragments = [form.make_fragment("scan", files)]
            Dataset.__init__(self, fragments, self._plain_schema, form, files)  # type: ignore[call-arg]

    def __reduce__(self) -> Any:
        return Scan, (self.columns, self._request, self._skips_damage, self._parts, self._decoding)

    @property
    def schema(self) -> "pa.Schema":
        """The columns with the types of the Spark source; timestamps are ``timestamp[ms, UTC]``.

        If keys or values are decoded, the first use reads all of them, because the types depend on all.
        """
        return self._typed.schema(self._plain_schema)

    @property
    def _plain_schema(self) -> "pa.Schema":
        need_pyarrow()
        return schema(self.columns, "ms", self._request.mode)

    @cached_property
    def _typed(self) -> Decoding:
        """The decoding with the types of its columns."""
        if self._decoding.types is not None or {*self._decoding.by_schema}.isdisjoint(self.columns):
            return self._decoding
        with self._readable() as request:
            return with_types(self._decoding, request, (part for _, part in self._works(request)), usable_cores())

    def batches(self) -> "pa.RecordBatchReader":
        """Returns a reader of record batches, in the order of the files. Memory does not depend on their size.

        Raises DamageError at damage unless it is skipped, PathError if a file cannot be read.
        """
        need_pyarrow()
        return pa.RecordBatchReader.from_batches(self.schema, until_exit(self._batches()))

    def _batches(self) -> "Iterator[pa.RecordBatch]":
        wanted = self.schema
        report = self._skipped if self._skips_damage else raise_damage
        with self._readable() as request:
            works = (work for _, work in self._works(request))
            if request.mode != "records":
                yield from record_batches(mode_of(request.mode).rows(works, request, report), wanted)
                return
            decoded = DecodedColumns(self._typed, logging.getLogger("kseg").warning, not self._skips_damage)
            reader = PartReader(request, Chunks(self._typed.read_columns(self.columns)), report, usable_cores())
            for part, chunk in reader.chunks_of(works):
                constants = {"topic": part.file.topic, "partition": part.file.partition, PROVEN: chunk.is_proven}
                yield record_batch(chunk, wanted, constants, decoded.arrays(chunk, part.file, wanted))

    @property
    def skipped(self) -> list[Damage]:
        """The damaged ranges that reads of this scan have met so far, each once, in this process; those of its splits
        and scanners too. It is complete when all rows were read. Not more than 100,000 are kept.

        >>> scan = kseg.scan("crashed-0", on_damage="skip")
        >>> rows = scan.to_arrow().num_rows
        >>> scan.skipped
        [<Damage 00000000000000000116.log:7129 305 bytes: crc-mismatch>]
        """
        return [
            Damage(file.path, file.topic, file.partition, found.position, found.length, found.code, found.message)
            for file, found in self._skipped.ranges
        ]

    @contextmanager
    def _readable(self) -> Iterator[ScanRequest]:
        """Yields the request with readable paths. Mode findings verifies remote storage itself."""
        request = self._request
        with readable(request.paths, None if request.mode == "findings" else request.keys) as places:
            yield replace(request, paths=places)

    def _works(self, request: ScanRequest, size: int | None = None) -> Iterator[tuple[int, Any]]:
        """Yields what `splits` divides, each with its size in bytes; 0 in a split."""
        if self._parts is not None:
            yield from ((0, part) for part in in_trees(self._parts, request.paths))
        else:
            works = parts_of_scan if request.mode == "records" else mode_of(request.mode).works
            yield from works(request, size)

    def needed(self, columns: Columns, condition: Any) -> list[str]:
        """Returns the columns to read for a projection and a filter, at least one, by which rows are counted."""
        expressions = [] if condition is None else [condition]
        wanted = set[str]()
        if isinstance(columns, dict):
            expressions += columns.values()
        else:
            wanted.update(columns or ())
        for expression in expressions:
            found = columns_of(expression)
            wanted.update(self.columns if found is None else found)
        counted = "offset" if self._request.mode == "records" else self.columns[0]
        return [name for name in self.columns if name in wanted] or [counted]

    def within(self, bounds: Bounds, columns: Sequence[str] | None = None) -> "Scan":
        """Returns the scan of the rows within bounds. ``columns``: at least one; None for the same."""
        if "key" in self._decoding.columns:  # bounds have its bytes
            bounds = bounds._replace(keys=None)
        request, parts = self._request.within(bounds), self._parts
        if parts is not None and request.mode == "records":
            parts = tuple(part for part in parts if request.keeps(part.file))
        return self._changed(_request=request, _parts=parts, columns=tuple(columns or self.columns))

    def _changed(self, **fields: Any) -> "Scan":
        return replace(self, _decoding=self._typed, **fields)

    @checked
    def splits(self, size: int = SPLIT_BYTES) -> "list[Scan]":
        """Returns scans of about ``size`` bytes of segments that together give the same rows, each once.

        They can be pickled for the workers of Dask, Ray or a pool, which must have the same files at the same paths.
        Raises RequestError for a size below 1, PathError if a file cannot be read.

        >>> sum(split.count_rows() for split in kseg.scan("orders-0").splits(10_000))
        150
        """
        if size < 1:
            raise RequestError(f"splits({size}): is no number of bytes")
        with self._readable() as request:
            return [self._changed(_parts=tuple(group)) for group in grouped(self._works(request, size), size)]

    def to_arrow(self) -> "pa.Table":
        """Returns all rows as a table."""
        return self.batches().read_all()

    def to_pandas(self) -> "pandas.DataFrame":
        """Returns all rows as a pandas DataFrame. Raises UnsupportedError if pandas is not installed."""
        _need("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "polars.DataFrame":
        """Returns all rows as a polars DataFrame. Raises UnsupportedError if polars is not installed."""
        _need("polars")
        import polars

        return polars.DataFrame(self.to_arrow())

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        """Yields record batches, at least one: ``polars.from_arrow`` takes the columns from it."""
        batches = iter(self.batches())
        yield next(batches, None) or pa.RecordBatch.from_pylist([], self.schema)
        yield from batches

    def scanner(
        self, columns: Columns = None, filter: Any = None, batch_size: int | None = None, **options: Any
    ) -> "ScanScanner":
        """Returns the rows that match an expression of pyarrow. ``batch_size``: the most rows of a batch.

        Other options of pyarrow are accepted, here and below, and not needed.

        >>> import pyarrow.compute as pc
        >>> kseg.scan("orders-0").scanner(columns=["offset"], filter=pc.field("offset") < 3).to_table().to_pydict()
        {'offset': [0, 1, 2]}
        """
        if sys._getframe(1).f_code.co_name == "write_dataset":  # of pyarrow, which takes no other scanners
            return ds.Scanner.from_batches(self.batches(), batch_readahead=_READAHEAD_BATCHES, **options)
        return ScanScanner(self, columns, filter, batch_size)

    def get_fragments(self, filter: Any = None) -> "Iterator[ScanFragment]":
        """Yields `splits` of the rows that can match a filter, for engines that read fragments, as DataFusion does."""
        yield from map(ScanFragment, self.within(_bounds_of(filter)).splits())

    def to_batches(
        self, columns: Columns = None, filter: Any = None, batch_size: int | None = None, **_options: Any
    ) -> "Iterator[pa.RecordBatch]":
        """Yields the batches of a `scanner`."""
        return ScanScanner(self, columns, filter, batch_size).to_batches()

    def to_table(self, columns: Columns = None, filter: Any = None, **_options: Any) -> "pa.Table":
        """Returns the rows of a `scanner`."""
        return ScanScanner(self, columns, filter).to_table()

    def head(self, num_rows: int, columns: Columns = None, filter: Any = None, **_options: Any) -> "pa.Table":
        """Returns the first rows of a `scanner`."""
        return ScanScanner(self, columns, filter).head(num_rows)

    def take(self, indices: Any, columns: Columns = None, filter: Any = None, **_options: Any) -> "pa.Table":
        """Returns rows of a `scanner` by their places."""
        return ScanScanner(self, columns, filter).take(indices)

    def count_rows(self, filter: Any = None, **_options: Any) -> int:
        """Counts the rows that match a filter."""
        return ScanScanner(self, [], filter).count_rows()

    def filter(self, expression: Any) -> Any:
        """Raises UnsupportedError: `scanner` takes filters."""
        raise UnsupportedError(f"a scan keeps no filter; give it to scanner: {expression}")

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Starts a new stream of record batches (Arrow's PyCapsule interface)."""
        return self.batches().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        paths = [shown(path) for path in self._request.paths]
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        parts = "" if self._parts is None else f", parts: {len(self._parts)}"
        return f"<Scan {paths[0][-80:]!r}{more}: {', '.join(self.columns)}{parts}>"


class ScanFragment:
    """A split of a scan, with the methods of a ``pyarrow.dataset.Fragment``."""

    def __init__(self, scan: Scan) -> None:
        self._scan, self.physical_schema = scan, scan.schema

    def scanner(self, schema: Any = None, **options: Any) -> "ScanScanner":
        """Returns the scanner of the split. ``schema``: that of the dataset, which pyarrow passes."""
        return self._scan.scanner(**options)

    def to_batches(self, schema: Any = None, **options: Any) -> "Iterator[pa.RecordBatch]":
        """Yields the batches of a `scanner`."""
        return self._scan.to_batches(**options)

    def to_table(self, schema: Any = None, **options: Any) -> "pa.Table":
        """Returns the rows of a `scanner`."""
        return self._scan.to_table(**options)

    def count_rows(self, filter: Any = None, **options: Any) -> int:
        """Counts the rows that match a filter."""
        return self._scan.count_rows(filter)


class ScanScanner:
    """The rows of a scan that match a filter, with the methods of a ``pyarrow.dataset.Scanner``.

    Rows are decoded when they are requested. A scanner of pyarrow reads ahead, on threads that abort the process if
    they still call Python when the interpreter ends, as they do after a limit.
    """

    def __init__(self, scan: Scan, columns: Columns, condition: Any, batch_size: int | None = None) -> None:
        wanted = scan.columns if columns is None else columns
        self._columns = wanted if isinstance(wanted, dict) else arguments.names_of("columns", wanted)
        self._read = scan.within(_bounds_of(condition), scan.needed(self._columns, condition))
        self._filter = condition
        self._batch_size = None if batch_size is None else arguments.integer_of("batch_size", batch_size, 1)
        self.dataset_schema = scan.schema
        self.projected_schema = self._scanner_of(pa.RecordBatch.from_pylist([], self.dataset_schema)).projected_schema

    def to_reader(self) -> "pa.RecordBatchReader":
        """Returns a reader of record batches."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_batches(self) -> "Iterator[pa.RecordBatch]":
        """Yields record batches."""
        for batch in self._read.batches():
            if self._filter is None and not isinstance(self._columns, dict):
                found = [batch.select(self._columns)]
            else:
                found = self._scanner_of(batch).to_table().to_batches()
            for part in found:
                size = self._batch_size or part.num_rows
                yield from (part.slice(at, size) for at in range(0, part.num_rows, size))

    def to_table(self) -> "pa.Table":
        """Returns all rows."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> "pa.Table":
        """Returns the first rows."""
        found, left = [], arguments.integer_of("num_rows", num_rows)
        for batch in self.to_batches() if left > 0 else ():
            found.append(batch.slice(0, left))
            left -= found[-1].num_rows
            if not left:
                break
        return pa.Table.from_batches(found, self.projected_schema)

    def take(self, indices: Any) -> "pa.Table":
        """Returns the rows at these places."""
        return self.to_table().take(indices if len(indices) else pa.array([], pa.int64()))

    def count_rows(self) -> int:
        """Counts the rows."""
        batches = self._read.batches()
        return sum(
            batch.num_rows if self._filter is None else self._scanner_of(batch).count_rows() for batch in batches
        )

    def _scanner_of(self, batch: "pa.RecordBatch") -> "ds.Scanner":
        scanned = ds.InMemoryDataset(batch)  # its threads call no Python
        return scanned.scanner(columns=self._columns, filter=self._filter, use_threads=False)


def _bounds_of(condition: Any) -> Bounds:
    if condition is None:
        return ALL_ROWS
    if not isinstance(condition, ds.Expression):
        raise RequestError(f"filter={condition!r:.80}: is no expression of pyarrow")
    return bounds_of_filter(condition)


@cache
def _no_files() -> "fs.PyFileSystem":
    """Returns the file system of the fragment of a dataset, which refuses everything."""

    def refuse(*_: object, **_named: object) -> Any:
        raise UnsupportedError("a scan of kseg has no fragments: read it by its scanner, or make a table by to_arrow")

    names = [name for name in dir(fs.FileSystemHandler) if not name.startswith("_") and name != "get_type_name"]
    methods = dict.fromkeys(names, refuse) | {"get_type_name": lambda _: "kseg"}
    return fs.PyFileSystem(type("NoFiles", (fs.FileSystemHandler,), methods)())


def _need(name: str) -> None:
    from importlib.util import find_spec

    if find_spec(name) is None:
        raise UnsupportedError(f"this needs {name}: pip install {name}")


Mode = Literal["records", "batches", "findings", "entries", "commits"]
Form = Literal["bytes", "decoded", "short", "int", "long", "float", "double", "boolean", "uuid", "string"]


class ScanArguments(RecordSelection, Reading, total=False):
    """Which rows are read, and how."""

    mode: Annotated[Mode, "records"]
    keys: Annotated[Form, "bytes"]
    values: Annotated[Form, "bytes"]
    schemas: Annotated[Path | None, None]
    level: Annotated[Level, "full"]
    now: Annotated[int | None, None]


_MODES = {
    "offsets": ("records", "batches"), "level": ("findings",), "now": ("findings",),
    **dict.fromkeys(("time", "key", "isolation", "keys", "values"), ("records",)),
    "ignore_log_start": ("records", "batches"),
}  # fmt: skip
"""The modes that have an argument; other arguments are of all modes."""


@checked
def scan(
    path: Paths,
    *,
    topics: str | Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    partitions: int | Iterable[int] | None = None,
    **reading: Unpack[ScanArguments],
) -> Scan:
    """Returns the records of segments, partitions and log directories as Arrow columns. Nothing is read yet.

    ``topics``: names or globs of topics; ``partitions``: their numbers; an empty list selects nothing. ``columns``:
    some of key, value, topic, partition, offset, timestamp, timestampType (-1 none, 0 CreateTime, 1 LogAppendTime),
    headers; None for all. The other arguments are those of `Log.records` and `kseg.open`. Segments whose names show
    that they hold no matching record are not opened, and indexes show where to start. Needs pyarrow:
    ``pip install 'kseg[parquet]'``. Raises RequestError for invalid arguments, PathError for a glob of paths without a
    match; of a URL, that is known when it is read. Reading raises RequestError for the name of a topic that is not
    there, and warns (SelectionWarning) of a glob that matches none. With ``on_damage`` "include" there is a column
    ``proven``, false for the records of broken batches.

    ``keys`` and ``values`` "decoded": those that were written with the schemas of a Schema Registry are decoded as by
    ``kseg dump --value-format avro``, with the schemas of _schemas-0 in the same log directory, or at ``schemas``, a
    partition of that topic or a folder of ID.avsc files. A column has the type of its Avro schema, such as a struct, if
    all values have the same one; otherwise it is JSON text. Needs ``pip install 'kseg[avro]'``.

    "short", "int", "long", "float", "double", "boolean", "uuid" or "string": they were written by that serializer of
    Kafka's, and the column has its type (text for a UUID). Other bytes raise DamageError, or are null if damage is
    skipped.

    ``mode`` selects other rows, with the columns of kseg-spark(7): "batches", headers of batches (with
    ``offsets``); "findings" of `kseg.verify` with ``level`` and ``now``; "entries" of side files; "commits", the
    committed offsets of groups, whose ``topics`` and ``partitions`` are those of the commits.

    >>> kseg.scan("kafka-logs", topics="orders", columns=["partition", "offset"]).count_rows()
    33
    >>> commits = kseg.scan("kafka-logs", mode="commits", columns=["group", "topic", "partition", "lag"])
    >>> commits.head(1).to_pylist()
    [{'group': 'classic-group', 'topic': 'orders', 'partition': 0, 'lag': 6}]
    """
    defaults = signature(scan).parameters
    for name, modes in _MODES.items():
        if reading["mode"] not in modes and dict(reading)[name] != defaults[name].default:
            raise RequestError(f"{name}: not in mode {reading['mode']}")
    if reading["on_damage"] == "include" and reading["mode"] != "records":
        raise RequestError(f"on_damage='include': not in mode {reading['mode']}")
    if reading["schemas"] is not None and "decoded" not in (reading["keys"], reading["values"]):
        raise RequestError("schemas: needs keys or values 'decoded'")
    known = tuple(types_of(reading["mode"], is_included := includes_broken(reading)))
    names = known if columns is None else tuple(columns)
    for name in names:
        if name not in known:
            raise RequestError(f"columns: there is no column {name!r}; there are {', '.join(known)}")
    if len(set(names)) < len(names) or not names:
        raise RequestError(f"columns={list(names)}: give at least one, and each once")
    numbers = None
    if partitions is not None:
        numbers = frozenset([partitions] if isinstance(partitions, int) else partitions)
    request = ScanRequest(
        arguments.paths_of(path), arguments.wanted_of(reading), arguments.words_of(topics), numbers,
        reading["isolation"] == "read_committed", reading["live"], arguments.batch_limit_of(reading),
        arguments.keys_of(reading["private_keys"]), reading["mode"], reading["level"], reading["now"],
        includes_broken=is_included, ignores_log_start=reading["ignore_log_start"],
    )  # fmt: skip
    schemas = None if reading["schemas"] is None else os.fspath(reading["schemas"])
    decoding = Decoding(reading["keys"], reading["values"], schemas)
    if decoding.by_schema:
        need_fastavro()
    return Scan(names, request, reading["on_damage"] != "raise", None, decoding)
