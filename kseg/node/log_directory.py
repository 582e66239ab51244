"""Reads what a log directory (one of a broker's log.dirs) says of its partitions: checkpoints, meta.properties, the
shutdown marker, and what is known of a partition without reading its records."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kseg.errors import KsegError, errors_at
from kseg.formats.rows import Scratch, UndecodableError
from kseg.formats.suffixes import LOG
from kseg.segment.files import (
    CLEAN_SHUTDOWN,
    LOG_DIRECTORY_FILES,
    METADATA_TOPIC,
    SegmentFile,
    leads_to_directory,
    list_partitions,
    list_segments,
    listing_of,
    parse_partition_name,
)
from kseg.segment.items import Batch
from kseg.segment.reader import open_segment
from kseg.segment.seek import offset_extent
from kseg.sidefiles import checkpoints
from kseg.sidefiles.problems import SideFileProblem, entries_of, problems_of
from kseg.sidefiles.text_files import (
    MAX_TEXT_BYTES,
    META_PROPERTIES,
    PARTITION_METADATA,
    MetaProperties,
    read_meta_properties,
    topic_id_in,
)
from kseg.stores.place import Place

COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that brokers create with cleanup.policy=compact; __share_group_state and __remote_log_metadata have delete."""

LIVE_BY_COMPACTION = {
    "__consumer_offsets": "groups' committed offsets",
    "__transaction_state": "the states of transactional ids",
    "_schemas": "schemas",
    "connect-configs": "the configurations of connectors",
    "connect-offsets": "the offsets of source connectors",
    "connect-status": "the states of connectors",
}
"""Topics of Kafka, Schema Registry and Connect by their default names, and what is lost without compaction."""

CLEANER_SETTINGS = ("min.compaction.lag.ms", "max.compaction.lag.ms", "min.cleanable.dirty.ratio")
"""The topic settings that decide whether the log cleaner cleans a compacted partition."""


class BrokerState(NamedTuple):
    """The recorded state of one partition. None for an unknown value: no log directory, no such checkpoint, or no
    entry for the partition.

    ``is_compacted``: cleanup.policy includes compact, by the newest __cluster_metadata, the broker's server.properties
    or the topic's name; ``cleaner_settings``: the CLEANER_SETTINGS that are set. ``was_clean``: .kafka_cleanshutdown
    exists. ``is_known``: the partition is in a log directory. ``is_kraft``: the broker runs without ZooKeeper.
    ``retention_ms``: retention.ms, if it is set. ``owner``: user and group of the log directory.
    ``topic_id`` is "" if __cluster_metadata exists and does not have the topic; ``is_assigned``: whether it assigns
    the partition to this node.
    """

    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start_offset: int | None = None
    cleaner_offset: int | None = None
    is_compacted: bool | None = None
    max_message_bytes: int | None = None
    topic_id: str | None = None
    was_clean: bool | None = None
    is_known: bool = False
    is_kraft: bool | None = None
    cleaner_settings: dict[str, str] | None = None
    is_assigned: bool | None = None
    retention_ms: int | None = None
    owner: tuple[int, int] | None = None

    def will_be_scanned(self, next_offset: int | None) -> bool:
        """Whether a broker's start scans a segment that ends before ``next_offset``, and rebuilds its indexes.

        After an unclean stop it scans all segments from the recovery point on.
        """
        if not self.is_known or self.was_clean is not False or next_offset is None:
            return False
        return next_offset > (self.recovery_point or 0)


def is_compacted(policy: str | None) -> bool:
    """Whether a cleanup.policy includes compact."""
    return policy is not None and "compact" in {part.strip() for part in policy.split(",")}


def state_by_name(topic: str | None) -> BrokerState:
    """Returns the state of a partition outside of a log directory: only the topic's name is known."""
    return BrokerState(is_compacted=True if topic in COMPACTED_TOPICS else None)


METADATA_PARTITION = METADATA_TOPIC + "-0"
ABANDONED_SUFFIXES = ("-delete", "-stray")
"""Suffixes of partition directories that no broker serves any more."""
OF_BROKERS = LOG_DIRECTORY_FILES - {checkpoints.CLEANER_OFFSETS, checkpoints.LOG_STARTS}
"""Files that only brokers write: kseg writes the other two beside a copy of a partition."""
OffsetsByPartition = dict[tuple[str, int], int]
_MAX_EPOCH_BYTES = 1 << 22
"""Longer checkpoints of leader epochs are ignored."""


@dataclass
class LogDirectory:
    """``files`` and ``directories``: the names of its entries. ``offsets``: the entries of each checkpoint file.

    A checkpoint with ``problems`` has no entries: a broker takes no offset from such a file. ``unread``: the files that
    this user may not read; nothing is known of them. ``owner``: user and group, None in an archive or store.
    """

    path: str
    files: frozenset[str]
    directories: tuple[str, ...]
    meta: MetaProperties | None = None
    offsets: dict[str, OffsetsByPartition] = field(default_factory=dict)
    problems: dict[str, list[SideFileProblem]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    owner: tuple[int, int] | None = None

    @property
    def ids(self) -> tuple[str | None, int | None]:
        """The ids of cluster and node in meta.properties."""
        return (None, None) if self.meta is None else (self.meta.cluster_id, self.meta.number)

    @property
    def is_marked(self) -> bool:
        """Whether it has any of the LOG_DIRECTORY_FILES."""
        return not LOG_DIRECTORY_FILES.isdisjoint(self.files)

    @property
    def is_of_broker(self) -> bool:
        """Whether it has files that only a broker writes; kseg, too, writes the others beside a partition."""
        return not OF_BROKERS.isdisjoint(self.files)

    @property
    def was_clean(self) -> bool:
        """Whether the last stop of the broker was clean: .kafka_cleanshutdown exists."""
        return CLEAN_SHUTDOWN in self.files

    @property
    def holds_metadata(self) -> bool:
        """Whether it is the node's metadata.log.dir."""
        return METADATA_PARTITION in self.directories

    @property
    def is_kraft(self) -> bool:
        """Whether the broker runs without ZooKeeper."""
        return self.holds_metadata or (self.meta is not None and self.meta.version == 1)


def is_moved(directory: str) -> bool:
    """Whether a partition directory is renamed: it is being deleted or moved here, or its topic is unknown."""
    return directory.endswith((*ABANDONED_SUFFIXES, "-future"))


def read_log_directory(path: str) -> LogDirectory:
    """Returns the entries of a directory, and what its files say if it is a log directory. Raises PathError if it
    cannot be read."""
    listing = listing_of(path)
    directories = sorted(name for name, entry in listing.others.items() if leads_to_directory(entry))
    root = Place(path).without_slash  # the parent of its entries
    found = LogDirectory(root, frozenset(listing.files), tuple(directories), owner=owner_of(path))
    for name in checkpoints.OFFSET_CHECKPOINTS:
        if (offsets := _items(found, name, checkpoints.read_offset_checkpoint)) is not None:
            found.offsets[name] = {} if name in found.problems else checkpoints.offsets_of(offsets)
    items = _items(found, META_PROPERTIES, read_meta_properties) or []
    found.meta = next((item for item in items if isinstance(item, MetaProperties)), None)
    return found


def owner_of(path: str) -> tuple[int, int] | None:
    """Returns user and group of a directory of the system; None for other places. Raises PathError."""
    if Place(path).tree is not None:
        return None
    with errors_at(path):
        status = os.stat(path)
    return status.st_uid, status.st_gid


def is_log_directory_of_broker(path: str) -> bool:
    """Whether a broker has used the directory at a path as a log directory. Raises PathError if it cannot be read."""
    return Place(path).is_dir() and read_log_directory(path).is_of_broker


def checkpoint_offsets(path: str) -> OffsetsByPartition:
    """Returns the entries of an offset checkpoint; none if it is missing or cannot be read."""
    with suppress(OSError), Place(path).open() as stream:
        return checkpoints.offsets_of(checkpoints.read_offset_checkpoint(stream.read(MAX_TEXT_BYTES)))
    return {}


def partitions_in(log_directory: str, topic: str | None = None) -> Iterator[tuple[tuple[str, int], str]]:
    """Yields the partitions as (topic, number), of one topic if it is given, with their paths; no renamed ones. Raises
    PathError."""
    for path in list_partitions(log_directory):
        name = os.path.basename(path)
        place = parse_partition_name(name)
        if place is not None and name == f"{place[0]}-{place[1]}" and topic in (None, place[0]):
            yield place, path


def leader_epochs_at(path: str) -> list[checkpoints.EpochEntry]:
    """Returns the entries of a partition directory's leader-epoch-checkpoint; none if it is missing, cannot be read or
    has a problem."""
    with suppress(OSError):
        items = list(checkpoints.read_leader_epochs((Place(path) / checkpoints.LEADER_EPOCHS).head(_MAX_EPOCH_BYTES)))
        return [] if problems_of(items) else entries_of(items)
    return []


def topic_id_at(path: str) -> str | None:
    """Returns the topic id in a partition directory's partition.metadata; None if it is missing or not valid."""
    with suppress(OSError):
        return topic_id_in((Place(path) / PARTITION_METADATA).head(4096))
    return None


def log_extent(path: str, scratch: Scratch) -> tuple[int, int] | None:
    """Returns the base offset of a partition directory and the offset after its last intact batch; None if it has no
    segment. Raises PathError if the last segment cannot be read.
    """
    logs = [file for file in list_segments(path) if file.kind == LOG and file.base_offset is not None]
    if not logs:
        return None
    last = logs[-1]
    with open_segment(last, scratch) as reader:
        extent = offset_extent(reader, last)
    return logs[0].base_offset or 0, (last.base_offset or 0) if extent is None else extent[1] + 1


def log_end(path: str, scratch: Scratch) -> int:
    """Returns the offset after the last intact batch of a partition, 0 without segments, -1 if it cannot be read."""
    with suppress(KsegError, OSError):  # reported by whoever reads the partition
        return (log_extent(path, scratch) or (0, 0))[1]
    return -1


def longest_copy(paths: Sequence[str], scratch: Scratch) -> str:
    """Returns the copy of a partition that ends last, which the others fetch; of equal ones the first."""
    return paths[0] if len(paths) == 1 else max(paths, key=lambda path: log_end(path, scratch))


def intact_batches(files: Iterable[SegmentFile], scratch: Scratch | None = None) -> Iterator[Batch]:
    """Yields the intact batches of the .log files of a partition. What cannot be read is left out: the check of the
    partition reports it."""
    for file in files:
        if file.kind == LOG:
            with suppress(KsegError, OSError), open_segment(file, scratch) as reader:
                yield from reader.intact()


def records_in(
    files: Iterable[SegmentFile], scratch: Scratch | None = None
) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """As `intact_batches`: yields offset, key and value of their records, without control records."""
    for batch in intact_batches(files, scratch):
        with suppress(UndecodableError):
            for rows in () if batch.is_control else batch.rows():
                yield from rows.entries()


def _items(directory: LogDirectory, name: str, read: Callable[[bytes], Iterable[Any]]) -> list[Any] | None:
    """Returns the lines of a file; None if it is missing or cannot be read. What is wrong is added to the problems."""
    if name not in directory.files:
        return None
    try:
        with (Place(directory.path) / name).open() as stream:
            items = list(read(stream.read(MAX_TEXT_BYTES + 1)))
    except PermissionError:
        directory.unread.append(name)
        return None
    except OSError as error:
        text = f"it cannot be read: {error.strerror}"
        directory.problems[name] = [SideFileProblem("unreadable-line", 0, 0, text)]
        return None
    if problems := [item for item in items if isinstance(item, SideFileProblem) and item.is_damage]:
        directory.problems[name] = problems
    return items
