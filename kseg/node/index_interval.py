"""Chooses index.interval.bytes of a partition: an option, else the topic's setting, else the interval of the indexes.

A broker adds an index entry for a batch that begins more than this number of bytes after the previously indexed
batch. The interval is therefore below each distance between two entries, and at least the distance to the batch
before the second one, unless the broker was restarted in between or several batches were appended at once.
"""

import os
from collections.abc import Callable
from itertools import islice, takewhile
from typing import NamedTuple

from kseg.errors import PathError, errors_at
from kseg.formats.message_set import MIN_SIZE
from kseg.formats.suffixes import INDEX, LOG
from kseg.kernel.layout.headers import ENTRY_OVERHEAD, ENTRY_SIZE
from kseg.kernel.layout.rows import be32
from kseg.node.node import Nodes
from kseg.segment.seek import OFFSET_ENTRY
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES
from kseg.stores.place import Place
from kseg.stores.source import is_disk_error

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


class FilesOnDisk:
    """The regular files of a directory by name; ``others``: the names of directories and the like.

    Raises PathError if the directory cannot be listed or has symbolic links.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._sizes: dict[str, int] = {}
        self.statuses: dict[str, os.stat_result] = {}
        self.others: set[str] = set()
        with errors_at(directory), Place(directory).entries() as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise PathError(f"{Place(directory) / entry.name}: is a symbolic link, which kseg does not change")
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
        path = Place(self.directory) / name
        with errors_at(path), path.open() as stream:
            stream.seek(position)
            return stream.read(length)

    def is_original(self, name: str) -> bool:
        """Whether it is a real file, not new content."""
        return True


def interval_of(files: FilesOnDisk, given_bytes: int | None = None, source: str = "") -> Interval:
    """Returns the given interval, known from ``source``; else 4096 if the partition's indexes allow it, or the roundest
    number that fits them."""
    if given_bytes is not None:
        return Interval(given_bytes, None, source)
    found = list(islice(filter(None, (_distances(files, name) for name in files.names(INDEX))), MAX_INDEXES))
    if not found:
        return Interval(DEFAULT_INTERVAL_BYTES, 0)
    return Interval(_roundest([one for of_index in found for one in of_index]), len(found))


def _roundest(distances: list[tuple[int, int]]) -> int:
    """Returns the interval in bytes: the roundest number that fits these results of `_distances`.

    An interval above the default is believed only if many entries agree: restarts of a broker, appends of several
    batches and followers leave longer distances, too."""
    below = min(to_entry for to_entry, _ in distances)
    least = max(to_batch_before for _, to_batch_before in distances)
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


def _distances(files: FilesOnDisk, name: str) -> list[tuple[int, int]]:
    """Returns distances in bytes from the batch of each of the first entries of an index: to that of the next entry,
    and to the batch before that one; none if the index does not match its .log, or the disk cannot read them."""
    try:
        return _read_distances(files, name)
    except PathError as error:
        if isinstance(error.__cause__, OSError) and is_disk_error(error.__cause__):
            return []
        raise


def _read_distances(files: FilesOnDisk, name: str) -> list[tuple[int, int]]:
    log = name.removesuffix(INDEX) + LOG
    if log not in files or not files.is_original(log):
        return []
    found, last = [], 0
    data = files.read_range(name, 0, MAX_ENTRIES * OFFSET_ENTRY.size)
    entries = OFFSET_ENTRY.iter_unpack(data[: len(data) // OFFSET_ENTRY.size * OFFSET_ENTRY.size])
    for _, position in takewhile(any, entries):  # up to the preallocated zeros
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
        found.append((len(data), before))
        last = position
    return found


Warn = Callable[[str], None]
"""Receives a sentence for people."""


class TopicIntervals:
    """Chooses the intervals of partitions, and reports those that no option gives: each but the default once as a
    warning, all of them as details. ``given_bytes``: the option, None if it is not given."""

    def __init__(self, given_bytes: int | None, nodes: Nodes, warn: Warn, detail: Warn) -> None:
        self._given_bytes, self._nodes, self._warn, self._detail = given_bytes, nodes, warn, detail
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

    def of(self, directory: str) -> int:
        """Returns the interval of a partition, and reports it. Raises KsegError if its files cannot be read."""
        if self._given_bytes is not None:
            return self._given_bytes
        interval = interval_of(FilesOnDisk(directory), *self._nodes.partition(directory).interval_bytes)
        self.report(directory, interval)
        return interval.size
