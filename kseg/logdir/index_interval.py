"""Chooses index.interval.bytes of partitions: an option, else the topic's setting, else the interval of the indexes."""

import os
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from kseg.errors import PathError, errors_at
from kseg.formats.message_set import MIN_SIZE
from kseg.formats.suffixes import INDEX, LOG
from kseg.kernel.layout.headers import ENTRY_OVERHEAD, ENTRY_SIZE
from kseg.kernel.layout.rows import be32
from kseg.logdir.topics import KnownTopics, Warn
from kseg.segment.seek import OFFSET_ENTRY
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES
from kseg.stores import trees
from kseg.stores.regular_files import open_regular

# A broker adds an index entry for a batch that begins more than this number of bytes after the previously indexed
# batch. The interval is therefore below each distance between two entries, and at least the distance to the batch
# before the second one, unless the broker was restarted in between or several batches were appended at once.

SMALL_INTERVAL_BYTES = 1024
"""The interval that is assumed if it fits and Kafka's default does not."""

MAX_INDEXES = 8
MAX_ENTRIES = 128
"""Largest number of indexes that are used, and of entries read from each."""
MIN_ENTRIES = 8
"""Entries that must agree on an interval above the default."""
_MAX_DISTANCE_BYTES = 4 << 20
"""An index with entries this far apart is not used."""


class Interval(NamedTuple):
    """``size`` in bytes; ``indexes``: the number of indexes it was inferred from, 0 for Kafka's default, None if it was
    given, or known from ``source``."""

    size: int
    indexes: int | None
    source: str = ""


class _Distances(NamedTuple):
    """Distances in bytes from the batch of an entry: to that of the next entry, and to the batch before that one."""

    to_entry: int
    to_batch_before: int


class FilesOnDisk:
    """The regular files of a directory by name; ``others``: the names of directories and the like.

    Raises PathError if the directory cannot be listed or has symbolic links.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._sizes: dict[str, int] = {}
        self.statuses: dict[str, os.stat_result] = {}
        self.others: set[str] = set()
        with errors_at(directory), trees.scandir(directory) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise PathError(f"{entry.path}: is a symbolic link, which kseg does not change")
                if entry.is_file(follow_symlinks=False):
                    self.statuses[entry.name] = status = entry.stat(follow_symlinks=False)
                    self._sizes[entry.name] = status.st_size
                else:
                    self.others.add(entry.name)

    def __contains__(self, name: object) -> bool:
        return name in self._sizes

    def names(self, suffix: str = "") -> list[str]:
        """Names with a suffix, sorted as strings."""
        return sorted(name for name in self._sizes if name.endswith(suffix))

    def size(self, name: str) -> int:
        return self._sizes[name]

    def read_range(self, name: str, position: int, length: int) -> bytes:
        """Returns bytes of a file; fewer at its end. Raises KsegError."""
        path = os.path.join(self.directory, name)
        with errors_at(path), open_regular(path) as stream:
            stream.seek(position)
            return stream.read(length)

    def is_original(self, name: str) -> bool:
        """Whether it is a real file, not new content."""
        return True


def interval_of(files: FilesOnDisk) -> Interval:
    """Returns 4096 if the indexes allow it, else the roundest number that fits them."""
    found = list(islice(filter(None, (_distances(files, name) for name in files.names(INDEX))), MAX_INDEXES))
    if not found:
        return Interval(DEFAULT_INTERVAL_BYTES, 0)
    return Interval(_roundest([one for of_index in found for one in of_index]), len(found))


def chosen_interval(files: FilesOnDisk, given_bytes: int | None, source: str = "") -> Interval:
    """Returns the given interval, known from ``source``, else the one that the partition's indexes show."""
    return interval_of(files) if given_bytes is None else Interval(given_bytes, None, source)


def _roundest(distances: list[_Distances]) -> int:
    """An interval above the default is believed only if many entries agree: restarts of a broker, appends of several
    batches and followers leave longer distances, too."""
    below = min(each.to_entry for each in distances)
    least = max(each.to_batch_before for each in distances)
    is_larger = DEFAULT_INTERVAL_BYTES < least < below and len(distances) >= MIN_ENTRIES
    if below > DEFAULT_INTERVAL_BYTES and not is_larger:
        return DEFAULT_INTERVAL_BYTES
    if least >= below:
        least = 0
    if least <= SMALL_INTERVAL_BYTES < below:
        return SMALL_INTERVAL_BYTES
    for base in (2, 10):
        fitting = [base**k for k in range(31) if least <= base**k < below]
        if fitting:
            return fitting[0] if least else fitting[-1]
    return least


def _distances(files: FilesOnDisk, name: str) -> list[_Distances]:
    """Returns the distances of the first entries of an index; none if it does not match its .log."""
    log = name.removesuffix(INDEX) + LOG
    if log not in files or not files.is_original(log):
        return []
    found, last = [], 0
    for position in _positions(files, name):
        if not last < position < min(files.size(log), last + _MAX_DISTANCE_BYTES):
            return []
        data = files.read_range(log, last, position - last)
        at = before = 0
        while at < len(data):
            size = be32(data, at + ENTRY_SIZE) if len(data) - at >= ENTRY_OVERHEAD else 0
            if size < MIN_SIZE:
                return []
            before, at = at, at + ENTRY_OVERHEAD + size
        if at != len(data):
            return []
        found.append(_Distances(len(data), before))
        last = position
    return found


def _positions(files: FilesOnDisk, name: str) -> Iterator[int]:
    """Yields the positions of the first entries, up to the preallocated zeros."""
    data = files.read_range(name, 0, MAX_ENTRIES * OFFSET_ENTRY.size)
    for relative, position in OFFSET_ENTRY.iter_unpack(data[: len(data) // OFFSET_ENTRY.size * OFFSET_ENTRY.size]):
        if not relative and not position:
            return
        yield position


class IntervalMessages:
    """Reports intervals that no option gives: each but the default once as a warning, all of them as details."""

    def __init__(self, warn: Warn, detail: Warn) -> None:
        self._warn, self._detail = warn, detail
        self._reported: set[int] = set()

    def report(self, directory: str, interval: Interval | None) -> None:
        if interval is None or (interval.indexes is None and not interval.source):
            return
        source = f"as {interval.indexes} of its indexes show it" if interval.indexes else "which is Kafka's default"
        source = interval.source or source
        line = f"{directory}: index.interval.bytes {interval.size}, {source}; --index-interval-bytes sets it"
        is_expected = interval.size in self._reported or interval.size == DEFAULT_INTERVAL_BYTES
        (self._detail if is_expected else self._warn)(line)
        self._reported.add(interval.size)


class TopicIntervals(IntervalMessages):
    """``given_bytes``: the option, None if it is not given."""

    def __init__(self, given_bytes: int | None, topics: KnownTopics, warn: Warn, detail: Warn) -> None:
        super().__init__(warn, detail)
        self._given_bytes, self._topics = given_bytes, topics

    def of(self, directory: str) -> int:
        """Returns the interval of a partition, and reports it. Raises KsegError if its files cannot be read."""
        if self._given_bytes is not None:
            return self._given_bytes
        interval = chosen_interval(FilesOnDisk(directory), *self._topics.interval_bytes(directory))
        self.report(directory, interval)
        return interval.size
