"""``kseg.scan``: records as Arrow columns, and as a dataset of pyarrow."""

from collections.abc import Iterable

from kseg.api.arguments import ISOLATIONS, ON_DAMAGE, Paths, Range, TimeRange, is_second, paths_of, wanted_of, words_of
from kseg.api.arrow_scan import COLUMNS, Scan
from kseg.errors import RequestError
from kseg.export.scanning import ScanRequest
from kseg.limits import MAX_BATCH_BYTES


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
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Scan:
    """Returns the records of segments, partitions and log directories as Arrow columns. Nothing is read yet.

    ``topics``: names or globs of topics; ``partitions``: their numbers. ``columns``: some of key, value, topic,
    partition, offset, timestamp, timestampType (-1 none, 0 CreateTime, 1 LogAppendTime), headers; None for all. The
    other arguments are those of `Log.records`. Segments whose names show that they hold no matching record are not
    opened, and indexes show where to start. Needs pyarrow: ``pip install 'kseg[parquet]'``. Raises RequestError for
    invalid arguments, PathError for a glob without a match; of a URL, that is known when it is read.
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
    request = ScanRequest(
        paths_of(path), wanted_of(offsets, time, key), words_of(topics), numbers,
        is_second("isolation", isolation, ISOLATIONS), max_batch_bytes=max_batch_bytes,
    )  # fmt: skip
    return _kind()(tuple(names), request, is_second("on_damage", on_damage, ON_DAMAGE))


def _kind() -> type[Scan]:
    """Returns the class of scans, which are datasets where pyarrow has these."""
    try:
        from kseg.api.dataset import ScanDataset
    except ImportError:
        return Scan
    return ScanDataset
