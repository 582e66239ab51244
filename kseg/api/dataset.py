"""Scans as datasets of pyarrow: DuckDB and polars read only the columns of a query."""

from collections.abc import Iterable, Sequence
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
    ) -> "ds.Scanner":
        """Returns a scanner of the rows that match a filter. ``options``: those of ``pyarrow.dataset.Scanner``."""
        options.setdefault("batch_readahead", _READAHEAD_BATCHES)
        if columns is None and filter is None:
            return ds.Scanner.from_batches(self.batches(), **options)
        wanted = set(self.columns if columns is None else columns)
        expressions = [] if filter is None else [filter]
        if isinstance(columns, dict):
            wanted, expressions = set(), [*expressions, *columns.values()]
        wanted |= _names_in(expressions, self.schema)
        names = [name for name in self.columns if name in wanted]
        read = self.with_columns(names or ["offset"])  # without columns, rows are only counted
        projected = list(self.columns) if columns is None else columns
        return ds.Scanner.from_batches(read.batches(), columns=projected, filter=filter, **options)

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # noqa: A002
        """Counts the rows that match a filter."""
        return int(self.scanner([], filter, **options).count_rows())

    def filter(self, expression: Any) -> Any:
        """Raises UnsupportedError: `scanner` takes filters."""
        raise UnsupportedError(f"a scan keeps no filter; give it to scanner: {expression}")


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
