"""Scans as datasets of pyarrow: DuckDB and polars read only the columns of a query."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs

from kseg.api.arrow_scan import Scan
from kseg.errors import UnsupportedError

_READAHEAD_BATCHES = 2
"""Record batches that pyarrow holds, of some MiB each; its default is 16."""


class ScanDataset(Scan, ds.FileSystemDataset):  # type: ignore[misc]
    """A `Scan` that is also a ``pyarrow.dataset.Dataset``. Its scanner decodes only the requested columns.

    The base class holds one fragment, which cannot be opened: functions of pyarrow that bypass the scanner raise
    UnsupportedError.
    """

    def __init__(self, *fields: Any) -> None:
        Scan.__init__(self, *fields)
        form, files = ds.IpcFileFormat(), fs.PyFileSystem(_NoFiles())
        ds.FileSystemDataset.__init__(self, [form.make_fragment("scan", files)], self.schema, form, files)

    def __reduce__(self) -> Any:
        return ScanDataset, (self.columns, self._request, self._skips_damage, self._parts)

    def scanner(
        self,
        columns: Sequence[str] | dict[str, Any] | None = None,
        filter: Any = None,  # noqa: A002 - the name that pyarrow gives it
        **options: Any,
    ) -> Any:
        """Returns a `ScanScanner` of the rows that match a filter.

        With ``options``, those of ``pyarrow.dataset.Scanner``, it is such a scanner. Its threads read ahead, and must
        have read all rows before the interpreter ends.
        """
        if not options:
            return ScanScanner(self, columns, filter)
        options.setdefault("batch_readahead", _READAHEAD_BATCHES)
        if columns is None and filter is None:
            return ds.Scanner.from_batches(self.batches(), **options)
        read = self.with_columns(self.names_for(columns, filter))
        return ds.Scanner.from_batches(read.batches(), columns=columns or [*self.columns], filter=filter, **options)

    def names_for(self, columns: Sequence[str] | dict[str, Any] | None, condition: Any) -> list[str]:
        """Returns the columns to read for a projection and a filter."""
        wanted = set(self.columns if columns is None else columns)
        expressions = [] if condition is None else [condition]
        if isinstance(columns, dict):
            wanted, expressions = set(), [*expressions, *columns.values()]
        wanted |= _names_in(expressions, self.schema)
        return [name for name in self.columns if name in wanted] or ["offset"]  # without columns, rows are counted

    def to_batches(
        self,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        **_options: Any,
    ) -> "Iterator[pa.RecordBatch]":
        """Yields the batches of a `ScanScanner`. Options of pyarrow are accepted, here and below, and not needed."""
        return ScanScanner(self, columns, filter).to_batches()

    def to_table(self, columns: Any = None, filter: Any = None, **_options: Any) -> "pa.Table":  # noqa: A002
        """Returns the rows of a `ScanScanner`."""
        return ScanScanner(self, columns, filter).to_table()

    def head(self, num_rows: int, columns: Any = None, filter: Any = None, **_options: Any) -> "pa.Table":  # noqa: A002
        """Returns the first rows of a `ScanScanner`."""
        return ScanScanner(self, columns, filter).head(num_rows)

    def take(self, indices: Any, columns: Any = None, filter: Any = None, **_options: Any) -> "pa.Table":  # noqa: A002
        """Returns rows of a `ScanScanner` by their places."""
        return ScanScanner(self, columns, filter).take(indices)

    def count_rows(self, filter: Any = None, **_options: Any) -> int:  # noqa: A002
        """Counts the rows that match a filter."""
        return ScanScanner(self, [], filter).count_rows()

    def filter(self, expression: Any) -> Any:
        """Raises UnsupportedError: `scanner` takes filters."""
        raise UnsupportedError(f"a scan keeps no filter; give it to scanner: {expression}")


class ScanScanner:
    """The rows of a scan that match a filter, with the methods of a ``pyarrow.dataset.Scanner``.

    Rows are decoded when they are requested. A scanner of pyarrow reads ahead, on threads that abort the process if
    they still call Python when the interpreter ends, as they do after a limit.
    """

    def __init__(
        self, scan: ScanDataset, columns: Sequence[str] | dict[str, Any] | None, condition: Any | None
    ) -> None:
        self._read = scan.with_columns(scan.names_for(columns, condition))
        self._columns = [*scan.columns] if columns is None else columns
        self._filter = condition
        self.dataset_schema = scan.schema
        self.projected_schema = self._scanner_of(pa.RecordBatch.from_pylist([], self.dataset_schema)).projected_schema

    def to_reader(self) -> "pa.RecordBatchReader":
        """Returns a reader of record batches."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_batches(self) -> "Iterator[pa.RecordBatch]":
        """Yields record batches."""
        for batch in self._read.batches():
            if self._filter is None and not isinstance(self._columns, dict):
                yield batch.select(self._columns)
            else:
                yield from self._scanner_of(batch).to_table().to_batches()

    def to_table(self) -> "pa.Table":
        """Returns all rows."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> "pa.Table":
        """Returns the first rows."""
        found, left = [], num_rows
        for batch in self.to_batches() if num_rows > 0 else ():
            found.append(batch.slice(0, left))
            left -= found[-1].num_rows
            if not left:
                break
        return pa.Table.from_batches(found, self.projected_schema)

    def take(self, indices: Any) -> "pa.Table":
        """Returns the rows at these places."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Counts the rows."""
        batches = self._read.batches()
        return sum(
            batch.num_rows if self._filter is None else self._scanner_of(batch).count_rows() for batch in batches
        )

    def _scanner_of(self, batch: "pa.RecordBatch") -> "ds.Scanner":
        scanned = ds.InMemoryDataset(batch)  # its threads call no Python
        return scanned.scanner(columns=self._columns, filter=self._filter, use_threads=False)


class _NoFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """The file system of the fragment."""

    def get_type_name(self) -> str:
        return "kseg"

    def _refuse(self, *_: object, **_named: object) -> Any:
        raise UnsupportedError("a scan of kseg has no fragments: read it by its scanner, or make a table by to_arrow")

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = delete_root_dir_contents = move = _refuse
    get_file_info = get_file_info_selector = normalize_path = open_append_stream = open_output_stream = _refuse
    open_input_file = open_input_stream = _refuse


def _names_in(expressions: Iterable[Any], schema: "pa.Schema") -> set[str]:
    """Returns the columns in the expressions: those without which pyarrow cannot bind them."""
    found = set()
    for i, name in enumerate(schema.names):
        others = schema.remove(i)
        for expression in expressions:
            try:
                ds.Scanner.from_batches([], schema=others, columns={"found": expression})
            except pa.ArrowInvalid:
                found.add(name)
    return found
