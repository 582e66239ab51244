"""Records as Arrow columns, decoded when they are read."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kseg.api.archives import readable
from kseg.api.argument_types import checked
from kseg.api.log import raise_damage
from kseg.errors import RequestError, UnsupportedError
from kseg.export.arrow import need_pyarrow, record_batch, schema
from kseg.export.scanning import DamageLog, PartReader, ScanPart, ScanRequest, grouped, parts_of_scan
from kseg.runtime.threads import usable_cores
from kseg.stores.stored_object import shown

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

SPLIT_BYTES = 64 << 20


@dataclass(frozen=True, repr=False)
class Scan:
    """Records that can be read as Arrow columns any number of times. It holds no data and can be pickled.

    pyarrow, polars, DuckDB, pandas and DataFusion read it directly, through Arrow's PyCapsule interface. `kseg.scan`
    creates it.
    """

    columns: tuple[str, ...]
    _request: ScanRequest = field(repr=False)
    _skips_damage: bool = field(repr=False)
    _parts: tuple[ScanPart, ...] | None = field(default=None, repr=False)

    @property
    def schema(self) -> "pyarrow.Schema":
        """The columns with the types of Spark's Kafka source; timestamps are ``timestamp[ms, UTC]``."""
        need_pyarrow()
        return schema(self.columns, "ms")

    def batches(self) -> "pyarrow.RecordBatchReader":
        """Returns a reader of record batches, in the order of the files. Memory does not depend on their size.

        Raises DamageError at damage unless it is skipped, PathError if a file cannot be read.
        """
        need_pyarrow()
        import pyarrow as pa  # after the check, whose error names the package

        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> "Iterator[pyarrow.RecordBatch]":
        wanted, request = self.schema, self._request
        report = DamageLog(logging.getLogger("kseg")) if self._skips_damage else raise_damage
        reader = PartReader(request, self.columns, 1, report, usable_cores())
        with readable(request.paths, request.keys) as places:
            request = replace(request, paths=places)
            parts = (part for _, part in parts_of_scan(request)) if self._parts is None else iter(self._parts)
            for part, chunk in reader.chunks_of(parts):
                constants = {"topic": part.file.topic, "partition": part.file.partition}
                yield record_batch(chunk, wanted, constants)

    def with_columns(self, columns: Sequence[str]) -> "Scan":
        """Returns the scan of other columns of the same records, at least one."""
        return self._changed(tuple(columns), self._parts)

    @checked
    def splits(self, size: int = SPLIT_BYTES) -> "list[Scan]":
        """Returns scans of about ``size`` bytes of segments that together give the same rows, each once.

        They can be pickled for the workers of Dask, Ray or a pool, which must have the same files at the same paths.
        Raises RequestError for a size below 1, PathError if a file cannot be read.
        """
        if size < 1:
            raise RequestError(f"splits({size}): is no number of bytes")
        with readable(self._request.paths, self._request.keys) as places:
            request = replace(self._request, paths=places)
            parts = parts_of_scan(request, size) if self._parts is None else ((0, part) for part in self._parts)
            return [self._changed(self.columns, tuple(group)) for group in grouped(parts, size)]

    def _changed(self, columns: tuple[str, ...], parts: tuple[ScanPart, ...] | None) -> "Scan":
        return type(self)(columns, self._request, self._skips_damage, parts)

    def to_arrow(self) -> "pyarrow.Table":
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


def _need(name: str) -> None:
    from importlib.util import find_spec

    if find_spec(name) is None:
        raise UnsupportedError(f"this needs {name}: pip install {name}")
