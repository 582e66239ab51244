"""The options of the data source, as strings from Spark. Names are case-insensitive.

Those of Spark's Kafka source have its names and meanings (KafkaSourceProvider).
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from kseg.api.modes import ROW_MODES
from kseg.errors import KsegError
from kseg.export.decoded import FORMS, Decoding
from kseg.export.pushdown import Bounds
from kseg.export.scanning import ScanRequest
from kseg.options.declaration import BYTE_UNITS, codec_name, scaled
from kseg.quantities import parse_time_expression
from kseg.segment.files import LAST_OFFSET
from kseg.spark.hadoop import Settings, Storage, located, storage_options
from kseg.stores.place import Place
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.stored_object import is_url

# Where a read begins and ends in each partition, by the options of Spark's Kafka source.
#
# ``startingOffsets`` and ``endingOffsets`` name offsets, the options by timestamp the earliest record with that
# timestamp or a later one. The start is included, the end is not. Source: Spark's Kafka source (KafkaSourceProvider).

EARLIEST, LATEST = -2, -1
"""Numbers in JSON that mean the ends of a log."""

FIRST_OFFSET = -(1 << 63)

TopicPartition = tuple[str, int]
EVERY_PARTITION: TopicPartition = ("", -1)


@dataclass(frozen=True, slots=True)
class Positions:
    """One end of a read: the first of these fields that has the partition; without one, the end of its log.

    ``timestamp`` (ms) holds for all partitions.
    """

    timestamp: int | None = None
    timestamps: Mapping[TopicPartition, int] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_latest(self) -> bool:
        """Whether some partition is to begin at the end of its log, as only streams can."""
        return self.timestamp is None and LATEST in self.offsets.values()

    def number_of(self, partition: TopicPartition, usual: int) -> int:
        """Returns the offset of a partition, `EARLIEST` or `LATEST`; ``usual`` if none is given."""
        return self.offsets.get(partition, self.offsets.get(EVERY_PARTITION, usual))

    def timestamp_of(self, partition: TopicPartition) -> int | None:
        """Returns the timestamp of a partition in ms, None if none is given."""
        return self.timestamps.get(partition) if self.timestamp is None else self.timestamp


def offsets_or(words: Mapping[str, Mapping[TopicPartition, int]]) -> Callable[[str], Mapping[TopicPartition, int]]:
    """Returns a parser of offsets such as ``{"topic": {"0": 23}}``, and of words, each with what it stands for."""
    least = EARLIEST if "earliest" in words else LATEST

    def parse(text: str) -> Mapping[TopicPartition, int]:
        found = words.get(text.strip().lower())
        expected = f'{", ".join(words)} or JSON such as {{"orders": {{"0": 23}}}}, from {least} on'
        return parse_numbers(text, expected, least) if found is None else found

    return parse


def parse_numbers(text: str, expected: str, least: int = 0) -> Mapping[TopicPartition, int]:
    """Returns the numbers of ``{"topic": {"0": 23}}`` by topic and partition. Raises ValueError(``expected``)."""
    try:
        given = json.loads(text)
        found = {(topic, int(number)): value for topic, each in given.items() for number, value in each.items()}
    except (ValueError, AttributeError):
        raise ValueError(expected) from None
    if not all(type(value) is int and least <= value <= LAST_OFFSET for value in found.values()):
        raise ValueError(expected)
    return found


MODES = ("records", "counts", *ROW_MODES)
LEVELS = ("quick", "full", "deep")
SKIP, FAIL, INCLUDE = "skip", "fail", "include"
"""Values of onDamage; include has the readable records of broken batches, with a column ``proven``."""
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
class Options(ScanRequest):
    """The options of a read: the request of a scan, and how Spark plans it. ``now_ms`` None: the time of planning.

    ``names``, ``partitions``, ``pattern`` (of topics) and ``assigned``: the partitions to read are in each of these
    that is not None. ``split_bytes`` None: the size of a task grows with the total. ``min_tasks``: about so many at
    least. ``max_task_offsets``: in a task, in modes records and counts. ``max_files``, ``max_bytes`` and
    ``max_offsets``: in a micro-batch of a stream; None: no limit. ``start`` and ``end``: where Spark's Kafka source
    would begin and end; both they and the ranges hold. ``storage``: settings of the file systems of URLs.
    ``reads_offsets``: the columns need nothing of records but their offsets. ``decoding``: of keys and values, to JSON
    text.
    """

    paths: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    assigned: frozenset[TopicPartition] | None = None
    split_bytes: int | None = None
    min_tasks: int | None = None
    max_task_offsets: int | None = None
    fails_on_damage: bool = False
    pushes_filters: bool | None = None
    fails_without_timestamp: bool = True
    includes_headers: bool = True
    start: Positions = field(default_factory=Positions)
    end: Positions = field(default_factory=Positions)
    max_files: int | None = None
    max_bytes: int | None = None
    max_offsets: int | None = None
    includes_last: bool = False
    fails_on_data_loss: bool = True
    storage: Storage = field(default_factory=Storage)
    reads_offsets: bool = False
    decoding: Decoding = field(default_factory=Decoding)

    def has(self, topic: str | None, partition: int | None) -> bool:
        """Whether a topic and partition are requested."""
        if self.pattern is not None and (topic is None or not self.pattern.fullmatch(topic)):
            return False
        is_assigned = self.assigned is None or (topic, partition) in self.assigned
        return is_assigned and ScanRequest.has(self, topic, partition)

    def task_bytes(self, total: int) -> int:
        """Returns the size of a task if all have ``total`` bytes."""
        is_quick = self.reads_offsets and not any(map(is_url, self.paths))
        size = self.split_bytes or max(OFFSETS_SPLIT_BYTES if is_quick else SPLIT_BYTES, total // TASKS)
        return size if self.min_tasks is None else max(min(size, total // self.min_tasks), 1)


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
    on_damage = found.pop("on_damage", SKIP)
    found |= {"fails_on_damage": on_damage == FAIL, "includes_broken": on_damage == INCLUDE}
    options = Options(storage=Storage(storage_options(given), hadoop), **found, **groups)
    if options.decoding.columns and options.mode != "records":
        raise KsegError(f"options keys and values of format kseg: mode {options.mode} has neither")
    if options.includes_broken and (options.mode != "records" or options.is_committed):
        raise KsegError("option onDamage include of format kseg: for mode records, not with isolation read_committed")
    return options


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
        if key in WITHOUT_EFFECT and known is READ_OPTIONS:
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
    return tuple(located(path, hadoop) if urlsplit(path).scheme else Place(path).absolute for path in paths)


# Parsers of values. Each raises ValueError, whose text is the expected form.


def one_of(*values: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in values:
            raise ValueError(f"one of {', '.join(values)}")
        return text.lower()

    return parse


def chosen(first: str, second: str) -> Callable[[str], bool]:
    """Returns a parser that returns True for the second of two words."""
    parse = one_of(first, second)
    return lambda text: parse(text) == second


truth = chosen("false", "true")


def number_from(least: int) -> Callable[[str], int]:
    """Returns a parser of numbers of at most 18 digits."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) >= least):
            raise ValueError(f"a number from {least} on")
        return int(text)

    return parse


def time(end: int) -> Callable[[str], int]:
    """Returns a parser of times. ``end``: 0 for the first millisecond of a period such as a day, 1 for the last one."""

    def parse(text: str) -> int:
        is_fixed = text[:1].isdigit()  # not as now or -2h, because reads are repeated
        found = parse_time_expression(text, 0, UTC) if is_fixed else None
        if found is None:
            raise ValueError("a time such as 2026-01-31T09:00:00Z, 2026-01-31 or 1769850000000")
        return found[end]

    return parse


def private_keys(text: str) -> PrivateKeys:
    """Relative paths become absolute: workers have another working directory."""
    try:
        given = (
            json.loads(text) if text.lstrip().startswith("{") else dict(each.split("=", 1) for each in text.split(","))
        )
        return PrivateKeys({key.strip(): Place(path.strip()).absolute for key, path in given.items()})
    except (ValueError, AttributeError):
        raise ValueError("keys and PEM files such as k1=/keys/k1.pem,k2=/keys/k2.pem, or JSON") from None


def byte_count(text: str) -> int:
    found = scaled(text.upper(), BYTE_UNITS)
    if not found:
        raise ValueError("a number of bytes such as 1000000, 64m or 1g")
    return found


def codec(text: str) -> str:
    try:
        return codec_name(text)
    except ValueError as error:
        raise ValueError(f"none or a codec: {error}") from None


def topics(text: str) -> frozenset[str]:
    found = frozenset(filter(None, (name.strip() for name in text.split(","))))
    if not found:
        raise ValueError("a list of topics such as orders,payments")
    return found


def topic_pattern(text: str) -> "re.Pattern[str]":
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression: {error}") from None


def assigned(text: str) -> frozenset[TopicPartition]:
    expected = 'JSON such as {"orders": [0, 1]}'
    try:
        found = frozenset((topic, number) for topic, numbers in json.loads(text).items() for number in numbers)
    except (ValueError, AttributeError, TypeError):
        raise ValueError(expected) from None
    if not found or not all(type(number) is int and number >= 0 for _, number in found):
        raise ValueError(expected)
    return found


_Option = tuple[str, str, Callable[[str], Any]]
"""The name, the field of `Options` (of one of its groups: after a dot), and the parser of its value."""

_GROUPS: dict[str, Callable[..., Any]] = {"wanted": Bounds, "start": Positions, "end": Positions, "decoding": Decoding}

_TIMESTAMPS = partial(parse_numbers, expected='JSON such as {"orders": {"0": 1769850000000}}')
_READING: tuple[_Option, ...] = (
    ("mode", "mode", one_of(*MODES)),
    ("startOffset", "wanted.first_offset", number_from(0)),
    ("endOffset", "wanted.last_offset", number_from(0)),
    ("startTimestamp", "wanted.earliest_ms", time(0)),
    ("endTimestamp", "wanted.latest_ms", time(1)),
    ("startingOffsets", "start.offsets", offsets_or({"earliest": {}, "latest": {EVERY_PARTITION: LATEST}})),
    ("endingOffsets", "end.offsets", offsets_or({"latest": {}})),
    ("startingTimestamp", "start.timestamp", number_from(0)),
    ("endingTimestamp", "end.timestamp", number_from(0)),
    ("startingOffsetsByTimestamp", "start.timestamps", _TIMESTAMPS),
    ("endingOffsetsByTimestamp", "end.timestamps", _TIMESTAMPS),
    ("startingOffsetsByTimestampStrategy", "fails_without_timestamp", chosen("latest", "error")),
    ("subscribe", "names", topics),
    ("subscribePattern", "pattern", topic_pattern),
    ("assign", "assigned", assigned),
    ("keys", "decoding.keys", one_of(*FORMS)),
    ("values", "decoding.values", one_of(*FORMS)),
    ("schemas", "decoding.schemas", os.path.abspath),
    ("includeHeaders", "includes_headers", truth),
    ("ignoreLogStart", "ignores_log_start", truth),
    ("maxFilesPerTrigger", "max_files", number_from(1)),
    ("maxBytesPerTrigger", "max_bytes", byte_count),
    ("maxOffsetsPerTrigger", "max_offsets", number_from(1)),
    ("includeLast", "includes_last", truth),
    ("failOnDataLoss", "fails_on_data_loss", truth),
    ("isolation", "is_committed", chosen("read_uncommitted", "read_committed")),
    ("onDamage", "on_damage", one_of(SKIP, FAIL, INCLUDE)),
    ("splitBytes", "split_bytes", byte_count),
    ("minPartitions", "min_tasks", number_from(1)),
    ("maxRecordsPerPartition", "max_task_offsets", number_from(1)),
    ("maxBatchBytes", "max_batch_bytes", byte_count),
    ("pushFilters", "pushes_filters", truth),
    ("privateKeys", "keys", private_keys),
    ("level", "level", one_of(*LEVELS)),
    ("now", "now_ms", time(0)),
)
_WRITING: tuple[_Option, ...] = (
    ("codec", "codec", codec),
    ("batchBytes", "batch_bytes", byte_count),
    ("segmentBytes", "segment_bytes", byte_count),
    ("indexIntervalBytes", "interval_bytes", byte_count),
)
WITHOUT_EFFECT = {
    "groupidprefix": "groupIdPrefix has no effect: files have no consumer groups",
    "minoffsetspertrigger": "minOffsetsPerTrigger has no effect: micro-batches do not wait for more segments",
    "maxtriggerdelay": "maxTriggerDelay has no effect: micro-batches do not wait for more segments",
}
"""Options of Spark's Kafka source that are accepted, by their names in lower case."""
READ_OPTIONS = {option[0].lower(): option for option in _READING}
WRITE_OPTIONS = {option[0].lower(): option for option in _WRITING}
"""By their names in lower case."""
