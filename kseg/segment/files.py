"""File and directory names on a broker's disk: segment files, partition directories, log directories.

Source: Kafka's LogFileUtils, LocalLog and Snapshots. A stem is any run of digits when read, 20 digits when written.
"""

import binascii
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial
from itertools import zip_longest
from typing import NamedTuple

from kseg.errors import errors_at
from kseg.formats.suffixes import CHECKPOINT, LEFTOVER_SUFFIXES, LOG, LOG_07, LOG_SUFFIXES, SIDE_SUFFIXES
from kseg.stores.archives.forms import PACKED_SUFFIXES
from kseg.stores.place import AnyEntry, Place, is_of_kind

QUORUM_STATE = "quorum-state"
PARTITION_FILES = ("leader-epoch-checkpoint", "partition.metadata", QUORUM_STATE)
"""Side files of a partition with a fixed name, written by brokers or KRaft nodes."""
LOG_STARTS = "log-start-offset-checkpoint"
_SUFFIXES = (*LOG_SUFFIXES, *SIDE_SUFFIXES, *PACKED_SUFFIXES)
SIDE_NAMES = (
    *PARTITION_FILES, "meta.properties", "cleaner-offset-checkpoint", LOG_STARTS, "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)  # fmt: skip
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
STREAMS_CHECKPOINT = ".checkpoint"
"""The whole name of the file in which a task of Kafka Streams keeps the offsets of its changelogs."""
BOOTSTRAP = "bootstrap.checkpoint"
"""The first snapshot of __cluster_metadata, in the log directory of a KRaft node."""
LOG_DIRECTORY_FILES = frozenset(
    {*(name for name in SIDE_NAMES if name.endswith("-offset-checkpoint")), "meta.properties", CLEAN_SHUTDOWN}
)
"""Any of these files marks a log directory; no release has all of them."""
_MOVED_SUFFIXES = ("-delete", "-future", "-stray")
LOCK_NAME = ".lock"
"""The file that brokers lock in a log directory. Closing any descriptor of it releases the lock of the process."""
OWN_PREFIX = ".kseg-"
"""Prefix of the names of kseg's own files in partitions and log directories."""
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Uuid.METADATA_TOPIC_ID: the same in each cluster."""
OFFSETS_TOPIC = "__consumer_offsets"
REMOTE_METADATA_TOPIC = "__remote_log_metadata"
LAST_OFFSET = (1 << 63) - 1
LAST_BASE_07 = 1 << 62
"""Limit of the number in a 0.7 name; 0.7 adds byte positions to it, and the sum must fit in an int64."""

# Compiled on first use: a dump of one file needs none of them.
_CHECKPOINT_NAME = r"([0-9]+)-([0-9]+)\.checkpoint"
_NUMBERED = r"([0-9]+\.(log|kafka)|[0-9]+-[0-9]+\.checkpoint|bootstrap\.checkpoint)(\.deleted|\.cleaned|\.swap)*"
_PARTITION = r"(?P<topic>(?s:.+))-(?P<partition>[0-9]+)"
_MOVED_PARTITION = r"(?P<name>.+)\.[0-9a-f]{32}-(?:delete|future|stray)"


MAX_NAME_BYTES = 255
"""The longest name that file systems take. Directories of partitions may have nearly as many."""


def bounded(name: str, most: int) -> str:
    """Returns a name of at most ``most`` bytes: a longer one ends with a digest instead of its last bytes."""
    if len(data := os.fsencode(name)) <= most:
        return name
    from hashlib import sha256

    return f"{os.fsdecode(data[: most - 33])}.{sha256(data).hexdigest()[:32]}"


class SegmentFile(NamedTuple):
    """The facts in a segment file's name and directory, known without reading it.

    ``kind`` is its suffix without leftovers (".log", ".kafka", ".checkpoint", ".index", ".gz", …), the whole name of a
    file such as leader-epoch-checkpoint, or "" for other names. ``base_offset`` is the number at the start of the name
    (0.7: the byte position of its start in the whole log), None if there is none; ``epoch`` is that of a KRaft
    snapshot. ``topic`` and ``partition`` come from the directory's name.
    """

    path: str
    kind: str
    leftover: str
    base_offset: int | None
    epoch: int | None
    topic: str | None
    partition: int | None

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def is_segment(self) -> bool:
        return self.kind in LOG_SUFFIXES

    @property
    def is_07(self) -> bool:
        """Whether its name is that of a segment of a 0.7 broker."""
        return self.kind == LOG_07

    @property
    def is_packed(self) -> bool:
        """Whether the suffix is that of a compressed file."""
        return self.kind in PACKED_SUFFIXES


def segment_stem(offset: int) -> str:
    """Returns the file name of a segment without suffix, 20 digits (LogFileUtils.filenamePrefixFromOffset)."""
    return f"{'-' if offset < 0 else ''}{abs(offset):020d}"


def snapshot_name(offset: int, epoch: int) -> str:
    """Returns the file name of a KRaft snapshot of the records below an offset."""
    return f"{segment_stem(offset)}-{epoch:010}{CHECKPOINT}"


def directory_name(path: str) -> str:
    """Returns the name of the directory at a path, which may end with a slash or lead up."""
    name = os.path.basename(path)
    return os.path.basename(os.path.abspath(path)) if name in ("", os.curdir, os.pardir) else name


@lru_cache(1 << 14)  # more than most brokers have partitions: all names are parsed again in each pass
def parse_partition_name(name: str) -> tuple[str, int] | None:
    """Returns ("orders", 3) for "orders-3" and its -delete, -future and -stray forms; None for any other name."""
    if "-" not in name:
        return None
    moved = re.fullmatch(_MOVED_PARTITION, name) if name.endswith(_MOVED_SUFFIXES) else None
    found = re.fullmatch(_PARTITION, moved["name"] if moved else name)
    return (found["topic"], int(found["partition"])) if found else None


def own_name(directory: str) -> str:
    """Returns a partition directory's original name: orders-3 for its -delete, -future and -stray forms.

    The name of any other directory is returned unchanged.
    """
    name = directory_name(directory)
    moved = re.fullmatch(_MOVED_PARTITION, name) if name.endswith(_MOVED_SUFFIXES) else None
    return moved["name"] if moved and re.fullmatch(_PARTITION, moved["name"]) else name


def is_renamed_directory(path: str) -> bool:
    """Whether a broker has renamed a partition directory: to -delete, -future or -stray."""
    return own_name(path) != directory_name(path)


@lru_cache(1 << 14)
def is_new_partition(name: str) -> bool:
    """Whether a directory of this name would be a partition, and not one that a broker has moved."""
    try:
        if len(os.fsencode(name)) > MAX_NAME_BYTES:
            return False
    except UnicodeEncodeError:
        return False  # a lone surrogate stands for no bytes
    is_plain = own_name(name) == name and not name.startswith(".") and not set(name) & {"\0", "\n"}
    return is_plain and parse_partition_name(name) is not None


def segment_file(path: str) -> SegmentFile:
    """Parses the name in ``path``. Does not access the disk."""
    directory = "" if path == "-" else os.path.basename(os.path.dirname(os.path.abspath(path)))
    return _segment_file(path, unpacked_name(path), parse_partition_name(directory) or (None, None))


def unpacked_name(path: str) -> str:
    """Returns the name in a path, without the suffix of a packed file that is read as if it were not packed."""
    name = os.path.basename(path)
    if name.endswith(PACKED_SUFFIXES) and (place := Place(path)).tree is not None and not place.inner:
        return os.path.splitext(name)[0]
    return name


def file_of_place(place: str) -> SegmentFile:
    """Returns a segment, for a partition one that stands for all of it."""
    return segment_file(Place(place) / "0.log" if Place(place).is_dir() else place)


def topic_of_place(place: str) -> str | None:
    """Returns the topic of a partition or segment by its directory's name; None if that is no partition's."""
    return file_of_place(place).topic


def _segment_file(path: str, name: str, place: "tuple[str | None, int | None]") -> SegmentFile:
    """Like `segment_file`; ``place`` is the topic and partition in the directory's name."""
    stem, leftover = name, ""
    for suffix in LEFTOVER_SUFFIXES:
        if stem.endswith(suffix):
            stem, leftover = stem.removesuffix(suffix), suffix
    kind = stem if stem in SIDE_NAMES else next((suffix for suffix in _SUFFIXES if stem.endswith(suffix)), "")
    if stem == STREAMS_CHECKPOINT:
        kind = "Kafka Streams .checkpoint"  # it has no other name, and is no snapshot
    rest = stem.lstrip("0123456789")
    digits = stem.removesuffix(rest) if rest.startswith((".", "-")) else ""
    base_offset = _number(digits, LAST_BASE_07 if kind == LOG_07 else LAST_OFFSET) if digits else None
    epoch = None
    if kind == CHECKPOINT and (snapshot := re.fullmatch(_CHECKPOINT_NAME, stem)):
        epoch = _number(snapshot[2], LAST_OFFSET)
    return SegmentFile(path, kind, leftover, base_offset, epoch, *place)


def _number(digits: str, largest: int) -> int | None:
    """Returns None for a number above any that Kafka writes; such names may have thousands of digits."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) < 20 and int(digits) <= largest else None


def list_segments(directory: str, everything: bool = False) -> list[SegmentFile]:
    """Lists the segments of a partition directory by base offset: .log, .kafka, and .checkpoint of cluster metadata.

    With ``everything``, also leftovers (.deleted .cleaned .swap). Raises PathError if the directory cannot be read.
    """
    return segments_among(directory, file_names(directory), everything)


def file_names(directory: str) -> list[str]:
    """Returns the names of a directory's regular files, unordered. Raises PathError if it cannot be read."""
    return regular_and_other_names(directory)[0]


class Listing(NamedTuple):
    """The entries of a directory by name: regular files, and all others. ``held``: what they need to be asked more."""

    place: Place
    files: Mapping[str, AnyEntry]
    others: Mapping[str, AnyEntry]
    held: object = None

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """Those of regular files, and all others."""
        return [*self.files], [*self.others]


def listing_of(directory: str) -> Listing:
    """Lists a directory. Raises PathError if it cannot be read."""
    place = Place(directory)
    with errors_at(directory):
        cached = None if place.cache is None else place.cache.listing(place)
        if cached is not None and cached.kinds is not None:
            return Listing(place, *cached.kinds, cached)
        files, others = dict[str, AnyEntry](), dict[str, AnyEntry]()
        with place.entries() as entries:
            for entry in entries:
                (files if is_regular_file(entry) else others)[entry.name] = entry
    if cached is not None:
        cached.kinds = files, others
    return Listing(place, files, others, cached)


def regular_and_other_names(directory: str) -> tuple[list[str], list[str]]:
    """Returns the names of a directory's regular files, and all other names. Raises PathError if it cannot be read."""
    return listing_of(directory).names


def is_regular_file(entry: AnyEntry) -> bool:
    """Whether the entry is a file, or a link to one, which opening then rejects."""
    return is_of_kind(entry.is_file)


def leads_to_directory(entry: AnyEntry, with_links: bool = True) -> bool:
    """Whether the entry is a directory or a link to one."""
    return is_of_kind(partial(entry.is_dir, follow_symlinks=with_links))


def is_part_of_log(name: str) -> bool:
    """Whether brokers give such a name to a file of a partition or log directory."""
    stem = name
    for suffix in LEFTOVER_SUFFIXES:
        stem = stem.removesuffix(suffix)
    if stem in SIDE_NAMES or re.fullmatch(_NUMBERED, name):
        return True
    return stem.endswith(SIDE_SUFFIXES) and stem.partition(".")[0].isdigit()


def segments_among(
    directory: str, names: Iterable[str], everything: bool = False, own_name: str | None = None
) -> list[SegmentFile]:
    """Like `list_segments`, for the given file names of a directory whose original name is ``own_name``."""
    own_name = directory_name(directory) if own_name is None else own_name
    is_metadata = own_name.startswith(METADATA_TOPIC + "-")
    place = parse_partition_name(own_name) or (None, None)
    endings = (*LOG_SUFFIXES, *LEFTOVER_SUFFIXES) if everything else LOG_SUFFIXES
    root, found = Place(directory), []
    for name in sorted([name for name in names if name.endswith(endings)]):
        if re.fullmatch(_NUMBERED, name):
            file = _segment_file(root / name, name, place)
            if is_metadata or file.kind != CHECKPOINT:
                found.append(file)
    if len(found) < 2:
        return found
    return sorted(found, key=lambda file: (file.kind == CHECKPOINT, file.base_offset or 0, file.epoch or 0, file.name))


def holds_segments(directory: str) -> bool:
    """Whether `list_segments`, with ``everything``, finds any. False for a log directory with partitions: a segment
    file beside them is there by mistake. Raises PathError if the directory cannot be read."""
    files, others = regular_and_other_names(directory)
    if not LOG_DIRECTORY_FILES.isdisjoint(files) and any(map(parse_partition_name, others)):
        return False
    return bool(segments_among(directory, files, everything=True))


def list_partitions(directory: str, with_links: bool = True) -> list[str]:
    """Returns the paths of a log directory's partition directories, and of links to such, by topic and number."""
    root = Place(directory)
    with errors_at(directory), root.entries() as entries:
        names = [entry.name for entry in entries if leads_to_directory(entry, with_links)]
    parsed = [(parse_partition_name(name), name) for name in names]
    return [root / name for place, name in sorted((p, n) for p, n in parsed if p)]


def own_partitions(directory: str) -> list[str]:
    """Like `list_partitions`, without links: these lead out of the log directory, beyond the scope of its lock."""
    return list_partitions(directory, with_links=False)


def between(files: list[SegmentFile], first: int, last: int) -> list[SegmentFile]:
    """Filters segments in the order of `list_segments` to those whose names allow offsets first..last.

    Segments outside that order (leftovers, snapshots, 0.7) are kept.
    """
    logs = [file for file in files if file.kind == LOG and not file.leftover and file.base_offset is not None]
    ends = [file.base_offset for file in logs[1:]]
    left_out = {
        file.path
        for file, end in zip_longest(logs, ends)
        if (file.base_offset or 0) > last or (end is not None and end <= first)
    }
    return [file for file in files if file.path not in left_out]


# Kafka's Uuid as text: 16 bytes in base64url without padding, 22 characters.

ZERO_UUID_TEXT = "A" * 22
_FROM_URL = str.maketrans("-_", "+/")


def is_uuid(text: str) -> bool:
    """Whether Uuid.fromString accepts the text."""
    if not text.isascii() or not 22 <= len(text) <= 24 or set("+/") & set(text):
        return False
    try:
        return len(binascii.a2b_base64(text.translate(_FROM_URL).rstrip("=").ljust(24, "="))) == 16
    except binascii.Error:
        return False


# Locally cached indexes of remote segments: ``<start offset>_<segment id>.index`` (RemoteIndexCache).
#
# The contents are those of the remote segment's indexes; the base offset is the number in the name. The name ends in
# ``.tmp`` while the file is fetched, and in ``.deleted`` before it is removed.

REMOTE_INDEX_CACHE = "remote-log-index-cache"
# An id may itself contain "_" and "-".
_CACHED_INDEX = r"[0-9]{1,19}_([A-Za-z0-9_-]{22})\.(index|timeindex|txnindex)(\.tmp|\.deleted)?"
# LocalTieredStorage keeps the files of all remote segments of a partition in one directory.
_REMOTE_SEGMENT = r"[0-9]{20}-([A-Za-z0-9_-]{22})\.(log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint)"


def is_remote_index_name(name: str) -> bool:
    """Whether a file in the cache may have such a name."""
    found = re.fullmatch(_CACHED_INDEX, name)
    return found is not None and is_uuid(found[1])


def is_remote_segment_name(name: str) -> bool:
    """Whether LocalTieredStorage gives a file of a remote segment such a name."""
    found = re.fullmatch(_REMOTE_SEGMENT, name)
    return found is not None and is_uuid(found[1])
