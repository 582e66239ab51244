"""The options of the data source, as strings from Spark. Names are case-insensitive.

Those of Spark's Kafka source have its names and meanings (KafkaSourceProvider).
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import kseg.spark.option_values as values
from kseg.errors import KsegError
from kseg.limits import MAX_BATCH_BYTES
from kseg.segment.files import LAST_OFFSET
from kseg.segment.times import LAST_TIMESTAMP
from kseg.spark.hadoop_paths import located
from kseg.spark.positions import EARLIEST, FIRST_OFFSET, LATEST, Positions, TopicPartition, parse_word_or_offsets
from kseg.spark.storage import Settings, Storage, storage_options
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.stored_object import is_url

MODES = ("records", "counts", "batches", "findings", "entries")
LEVELS = ("quick", "full", "deep")
SPLIT_BYTES = 128 << 20
"""Size of a task by default, as of Spark's own files (spark.sql.files.maxPartitionBytes)."""
OFFSETS_SPLIT_BYTES = 256 << 20
"""The same if only batch headers of local files are read: a smaller task would take less time than its start."""
TASKS = 100_000
"""More tasks than this cost the driver too much: by default they get larger instead."""

_CATALOG_NAMES = frozenset(
    {"collation", "comment", "external", "is_managed_location", "location", "owner", "provider", "table_type"}
)
"""Properties that Spark's catalogs add to the options of a table (TableCatalog.RESERVED_PROPERTIES)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The partitions to read; None: all. Files outside partition directories are in no subscription."""

    topics: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None
    partitions: frozenset[TopicPartition] | None = None

    def has(self, topic: str | None, partition: int | None) -> bool:
        """Whether a partition is to be read."""
        if self.topics is not None and topic not in self.topics:
            return False
        if self.pattern is not None and (topic is None or not self.pattern.fullmatch(topic)):
            return False
        return self.partitions is None or (topic, partition) in self.partitions


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of streams. ``max_files`` and ``max_bytes`` in a micro-batch; None: no limit."""

    max_files: int | None = None
    max_bytes: int | None = None
    includes_last: bool = False
    fails_on_data_loss: bool = True


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a read. Ranges are inclusive; ``now_ms`` None: the time when the read is planned.

    ``split_bytes`` None: the size of a task grows with the total. ``start`` and ``end``: where Spark's Kafka source
    would begin and end; both they and the ranges hold. ``storage``: settings of the file systems of URLs.
    ``private_keys``: PEM files for encrypted remote storage, by the ids of their key pairs. ``reads_offsets``: the
    columns need nothing of records but their offsets.
    """

    paths: tuple[str, ...] = ()
    mode: str = "records"
    first_offset: int = FIRST_OFFSET
    last_offset: int = LAST_OFFSET
    earliest_ms: int = FIRST_OFFSET
    latest_ms: int = LAST_TIMESTAMP
    is_committed: bool = False
    split_bytes: int | None = None
    max_batch_bytes: int = MAX_BATCH_BYTES
    fails_on_damage: bool = False
    pushes_filters: bool = False
    level: str = "full"
    now_ms: int | None = None
    fails_without_timestamp: bool = True
    includes_headers: bool = True
    ignores_log_start: bool = False
    start: Positions = field(default_factory=Positions)
    end: Positions = field(default_factory=Positions)
    subscription: Subscription = field(default_factory=Subscription)
    stream: StreamOptions = field(default_factory=StreamOptions)
    storage: Storage = field(default_factory=Storage)
    private_keys: tuple[tuple[str, str], ...] = ()
    reads_offsets: bool = False

    @property
    def keys(self) -> PrivateKeys:
        return PrivateKeys(dict(self.private_keys))

    def task_bytes(self, total: int) -> int:
        """Returns the size of a task if all have ``total`` bytes."""
        is_quick = self.reads_offsets and not any(map(is_url, self.paths))
        return self.split_bytes or max(OFFSETS_SPLIT_BYTES if is_quick else SPLIT_BYTES, total // TASKS)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write to ``paths``: sizes in bytes, the codec as in `kseg convert`; ``storage``: as in
    `Options`.
    """

    paths: tuple[str, ...] = ()
    codec: str = "none"
    batch_bytes: int = 16 << 10
    segment_bytes: int = 1 << 30
    interval_bytes: int = 4096
    storage: Storage = field(default_factory=Storage)


def parse_options(given: Mapping[str, str], hadoop: Settings = ()) -> Options:
    """Returns the options of a read. ``hadoop``: properties of Spark's Hadoop configuration.

    Raises KsegError for an unknown option or invalid value.
    """
    found = _parsed(given, READ_OPTIONS, hadoop)
    groups = {
        group: kind(**{name.partition(".")[2]: found.pop(name) for name in list(found) if name.startswith(group + ".")})
        for group, kind in _GROUPS.items()
    }
    return Options(storage=Storage(storage_options(given), hadoop), **found, **groups)


def parse_write_options(given: Mapping[str, str], hadoop: Settings = ()) -> WriteOptions:
    """Returns the options of a write. ``hadoop``: properties of Spark's Hadoop configuration.

    Raises KsegError for an unknown option or invalid value.
    """
    return WriteOptions(storage=Storage(storage_options(given), hadoop), **_parsed(given, WRITE_OPTIONS, hadoop))


def _parsed(given: Mapping[str, str], known: Mapping[str, "_Option"], hadoop: Settings) -> dict[str, Any]:
    found: dict[str, Any] = {"paths": _paths(given, dict(hadoop))}
    for name, text in given.items():
        key = name.lower()
        if key in ("path", "paths") or key in _CATALOG_NAMES or "." in key:  # those with dots are Spark's and Hive's
            continue
        if key not in known:
            from difflib import get_close_matches

            near = get_close_matches(key, known, 1, 0.6)
            hint = f"; is it {known[near[0]][0]}?" if near else f": it has {', '.join(o[0] for o in known.values())}"
            raise KsegError(f"format kseg has no option {name!r}{hint}")
        shown, place, parse = known[key]
        try:
            found[place] = parse(text)
        except ValueError as error:
            raise KsegError(f"option {shown} of format kseg: {text!r} is not {error}") from None
    return found


def _paths(given: Mapping[str, str], hadoop: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the paths of ``load(path)``, or of ``load([path, path])``, which Spark passes as JSON; a catalog passes
    ``location``.

    Local paths become absolute: workers have another working directory. Raises KsegError (`located`).
    """
    paths = [given["path"]] if given.get("path") else []
    paths += json.loads(given["paths"]) if given.get("paths") else ()
    if not paths and given.get("location"):
        paths = [given["location"]]
    return tuple(located(path, hadoop) if urlsplit(path).scheme else os.path.abspath(path) for path in paths)


_Option = tuple[str, str, Callable[[str], Any]]
"""The name, the field of `Options` (of one of its groups: after a dot), and the parser of its value."""

_GROUPS: Mapping[str, Callable[..., Any]] = {
    "start": Positions,
    "end": Positions,
    "subscription": Subscription,
    "stream": StreamOptions,
}

_READING: tuple[_Option, ...] = (
    ("mode", "mode", values.one_of(*MODES)),
    ("startOffset", "first_offset", values.number_from(0)),
    ("endOffset", "last_offset", values.number_from(0)),
    ("startTimestamp", "earliest_ms", values.time(0)),
    ("endTimestamp", "latest_ms", values.time(1)),
    ("startingOffsets", "start.offsets", lambda text: parse_word_or_offsets(text, "earliest", LATEST)),
    ("endingOffsets", "end.offsets", lambda text: parse_word_or_offsets(text, "latest", EARLIEST)),
    ("startingTimestamp", "start.timestamp", values.number_from(0)),
    ("endingTimestamp", "end.timestamp", values.number_from(0)),
    ("startingOffsetsByTimestamp", "start.timestamps", values.timestamps),
    ("endingOffsetsByTimestamp", "end.timestamps", values.timestamps),
    ("startingOffsetsByTimestampStrategy", "fails_without_timestamp", values.chosen("latest", "error")),
    ("subscribe", "subscription.topics", values.topics),
    ("subscribePattern", "subscription.pattern", values.topic_pattern),
    ("assign", "subscription.partitions", values.assigned),
    ("includeHeaders", "includes_headers", values.truth),
    ("ignoreLogStart", "ignores_log_start", values.truth),
    ("maxFilesPerTrigger", "stream.max_files", values.number_from(1)),
    ("maxBytesPerTrigger", "stream.max_bytes", values.byte_count),
    ("includeLast", "stream.includes_last", values.truth),
    ("failOnDataLoss", "stream.fails_on_data_loss", values.truth),
    ("isolation", "is_committed", values.chosen("read_uncommitted", "read_committed")),
    ("onDamage", "fails_on_damage", values.chosen("skip", "fail")),
    ("splitBytes", "split_bytes", values.byte_count),
    ("maxBatchBytes", "max_batch_bytes", values.byte_count),
    ("pushFilters", "pushes_filters", values.truth),
    ("privateKeys", "private_keys", values.private_keys),
    ("level", "level", values.one_of(*LEVELS)),
    ("now", "now_ms", values.time(0)),
)
_WRITING: tuple[_Option, ...] = (
    ("codec", "codec", values.codec),
    ("batchBytes", "batch_bytes", values.byte_count),
    ("segmentBytes", "segment_bytes", values.byte_count),
    ("indexIntervalBytes", "interval_bytes", values.byte_count),
)
READ_OPTIONS = {option[0].lower(): option for option in _READING}
WRITE_OPTIONS = {option[0].lower(): option for option in _WRITING}
"""By their names in lower case."""
