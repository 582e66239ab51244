"""``kseg.scan``: records as Arrow columns, and as a dataset of pyarrow."""

from collections.abc import Iterable
from typing import Unpack

from kseg.api.argument_types import checked
from kseg.api.arguments import (
    ISOLATIONS,
    ON_DAMAGE,
    Paths,
    Range,
    Reading,
    TimeRange,
    is_second,
    keys_of,
    paths_of,
    wanted_of,
    words_of,
)
from kseg.api.arrow_scan import Scan
from kseg.errors import RequestError
from kseg.export.arrow import COLUMNS
from kseg.export.scanning import ScanRequest
from kseg.limits import MAX_BATCH_BYTES


@checked
def scan(
    path: Paths,
    *,
    topics: str | Iterable[str] | None = None,
    columns: Iterable[str] | None = None,
    partitions: int | Iterable[int] | None = None,
    offsets: Range | None = None,
    time: TimeRange | None = None,
    key: bytes | None = None,
    isolation: str = "read_uncommitted",
    on_damage: str = "raise",
    **reading: Unpack[Reading],
) -> Scan:
    """Returns the records of segments, partitions and log directories as Arrow columns. Nothing is read yet.

    ``topics``: names or globs of topics; ``partitions``: their numbers; an empty list selects nothing. ``columns``:
    some of key, value, topic, partition, offset, timestamp, timestampType (-1 none, 0 CreateTime, 1 LogAppendTime),
    headers; None for all. The other arguments are those of `Log.records`; ``max_batch_bytes`` and ``private_keys``
    those of `kseg.open`. Segments whose names show that they hold no matching record are not opened, and indexes show
    where to start. Needs pyarrow: ``pip install 'kseg[parquet]'``. Raises RequestError for invalid arguments, PathError
    for a glob of paths without a match; of a URL, that is known when it is read. Reading raises RequestError for the
    name of a topic that is not there, and warns (SelectionWarning) of a glob that matches none.
    """
    names = COLUMNS if columns is None else words_of(columns)
    for name in names:
        if name not in COLUMNS:
            raise RequestError(f"columns: there is no column {name!r}; there are {', '.join(COLUMNS)}")
    if len(set(names)) < len(names) or not names:
        raise RequestError(f"columns={list(names)}: give at least one, and each once")
    numbers = None
    if partitions is not None:
        numbers = frozenset([partitions] if isinstance(partitions, int) else partitions)
    if unknown := reading.keys() - Reading.__annotations__.keys():
        raise TypeError(f"scan() got an unexpected keyword argument {min(unknown)!r}")
    request = ScanRequest(
        paths_of(path), wanted_of(offsets, time, key), None if topics is None else words_of(topics), numbers,
        is_second("isolation", isolation, ISOLATIONS),
        max_batch_bytes=reading.get("max_batch_bytes", MAX_BATCH_BYTES),
        keys=keys_of(reading.get("private_keys")),
    )  # fmt: skip
    return _kind()(tuple(names), request, is_second("on_damage", on_damage, ON_DAMAGE))


def _kind() -> type[Scan]:
    """Returns the class of scans, which are datasets where pyarrow has these."""
    try:
        from kseg.api.dataset import ScanDataset
    except ImportError:
        return Scan
    return ScanDataset
