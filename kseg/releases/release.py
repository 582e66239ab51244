"""Releases of Kafka, and their differences in retention, log compaction and the load of a partition."""

from dataclasses import dataclass

from kseg.quantities import DAY_MS
from kseg.sidefiles.producer_state import MARKER_IGNORED, MARKER_SETS_OFFSET, MARKER_SETS_TIMESTAMP

RELEASES = (
    (0, 7), (0, 8, 0), (0, 8, 1), (0, 8, 2), (0, 9, 0), (0, 10, 0), (0, 10, 1), (0, 10, 2), (0, 11, 0),
    *((1, minor) for minor in range(2)), *((2, minor) for minor in range(9)), *((3, minor) for minor in range(10)),
    (4, 0), (4, 1), (4, 2), (4, 2, 2), (4, 3), (4, 4),
)  # fmt: skip
"""Version numbers, as far as rules differ. Bug-fix releases of one line share their rules up to the next one listed."""

NEWEST = RELEASES[-1]


class ReleaseRule:
    """Whether the rules of a release include one: from ``since`` on, before ``until``. ``backports``: the first bug-fix
    releases of older lines, from 1.0 on, that have it too."""

    def __init__(
        self,
        since: tuple[int, ...] = (0,),
        until: tuple[int, ...] = (1 << 31,),
        backports: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        self._since, self._until, self._backports = since, until, backports

    def __get__(self, rules: "Release", _owner: object = None) -> bool:
        release = rules.release
        is_backported = any(release[:2] == each[:2] and release >= each for each in self._backports)
        return self._since <= release < self._until or is_backported


@dataclass(frozen=True, slots=True)
class Release:
    """The rules of a release, given by its version numbers, such as (0, 10, 2)."""

    release: tuple[int, ...] = NEWEST

    @property
    def name(self) -> str:
        return ".".join(map(str, self.release))

    is_07 = ReleaseRule(until=(0, 8))
    """Segments are .kafka files, named by byte position, without other files."""
    has_time_index = ReleaseRule(since=(0, 10, 1))
    """Segments have time indexes (KIP-33)."""


# Differences between Kafka releases: which segments retention deletes, and what remains of them.
#
# Source: LogManager and Log of 0.7 to 2.8, UnifiedLog and LocalLog since.

LOG_START, SIZE, TIME = "log start", "size", "time"
"""The rules: the segment is below the log start offset, the log is too large, the segment is too old."""


class RetentionRules(Release):
    """``has_time_index``: a segment's age is that of its last time index entry; before, its modification time."""

    @property
    def order(self) -> tuple[str, ...]:
        """The order of the rules; each sees the segments that the previous one kept."""
        if self.release >= (3, 0):
            return LOG_START, SIZE, TIME
        return (TIME, SIZE, LOG_START) if self.has_log_start else (TIME, SIZE)

    has_log_start = ReleaseRule(since=(0, 11))
    """DeleteRecords and its checkpoint, the high watermark as a limit, leader epochs and producer snapshots
    exist."""
    starts_compacted_logs = ReleaseRule(since=(2, 1))
    """Segments below the log start are deleted with cleanup.policy=compact too (KAFKA-7321)."""
    renames = ReleaseRule(since=(0, 8, 1))
    """Files are renamed to .deleted first; before, they were removed at once."""
    has_snapshot_of_each_segment = ReleaseRule(since=(2, 8))
    """A segment's producer snapshot is deleted with it; before, all below the log start were deleted at once."""
    renames_snapshots = ReleaseRule(since=(3, 0))
    """Snapshots are renamed as the segment's other files; 2.8 removed them unrenamed, after the delete delay."""


# Differences between Kafka releases in log compaction.
#
# Source: LogCleaner, Cleaner and LogCleanerManager of 2.3 to 4.4.

OLDEST = (2, 3)
"""The first release whose rules are known."""

NO_END, RANGE_END, HIGH_WATERMARK = 0, 1, 2
"""The offset whose batch is kept as an empty one if it loses its records: none, the last one below the cleanable end,
or the last one below the high watermark."""


@dataclass(frozen=True, slots=True)
class CleanerRules(Release):
    """Raises ValueError for a release older than `OLDEST`."""

    def __post_init__(self) -> None:
        if self.release < OLDEST:
            raise ValueError(f"the rules of the cleaner are known from {'.'.join(map(str, OLDEST))} on")

    @property
    def kept_end(self) -> int:
        """NO_END, RANGE_END or HIGH_WATERMARK."""
        if self.release < (4, 0):
            return NO_END
        return RANGE_END if self.release < (4, 4) else HIGH_WATERMARK

    limits_records = ReleaseRule(since=(4, 4), backports=((4, 2, 2),))
    """A compressed record above max.decompressed.message.bytes makes the partition uncleanable."""
    keeps_format = ReleaseRule(until=(4, 0))
    """Messages v0 and v1 keep their format; later they become v2 batches (KIP-724)."""
    has_horizons = ReleaseRule(since=(3, 1))
    """Tombstones and markers get a delete horizon (KIP-534); before, the file's modification time decides."""
    heeds_high_watermark = ReleaseRule(since=(3, 1))
    """The high watermark bounds cleaning too; before, only open transactions did."""


# Differences between Kafka releases, 0.7 to 4.4, in how a broker loads and recovers a partition.
#
# Source: kafka.log.Log, LogSegment, ProducerStateManager and LeaderEpochFileCache of these releases, later LogLoader,
# compared with the files that their brokers left.

SWAP_IGNORED, SWAP_LOG_RENAMED, SWAP_RECOVERED, SWAP_RENAMED = 0, 1, 2, 3
"""How a broker's start handles .swap files: it ignores them; renames the .log.swap before it loads segments; recovers
the .log.swap after the other segments and replaces those in its range; or renames all files of the segment, and deletes
the segments in its range."""

JAVA_ORDER, SCALA_2_12_ORDER, SCALA_2_13_ORDER = 0, 1, 2
"""The hash map that gives a producer snapshot its order: java.util.HashMap, or scala.collection.mutable.HashMap up to
2.12 or since 2.13."""

DEFAULT_MESSAGE_LIMIT_BYTES = 1_000_012


@dataclass(frozen=True, slots=True)
class Era(Release):
    """``message_limit_bytes``: max.message.bytes, for releases that treat a larger message as corrupt."""

    message_limit_bytes: int = DEFAULT_MESSAGE_LIMIT_BYTES

    # Files

    has_producers = ReleaseRule(since=(0, 11))
    """Producer snapshots, transaction indexes and v2 record batches exist."""
    has_epochs = ReleaseRule(since=(0, 11))
    has_topic_ids = ReleaseRule(since=(2, 8))
    """partition.metadata exists."""

    # Batches

    has_timestamps = ReleaseRule(since=(0, 10))
    """Messages of format v1 are written and read."""
    has_lz4 = ReleaseRule(since=(0, 8, 2))
    has_zstd = ReleaseRule(since=(2, 1))

    # Scans of segments

    @property
    def max_message_bytes(self) -> int | None:
        """A larger message counts as corrupt; None for no limit, in releases that read v2."""
        if self.release >= (0, 11):
            return None
        return self.message_limit_bytes if self.release >= (0, 8, 1) else (1 << 31) - 1

    uses_first_offset = ReleaseRule(until=(2, 0))
    """Offset indexes hold the first offset of a batch, not its last."""
    checks_offset_range = ReleaseRule(since=(2, 0))
    """A segment is split at an offset that its index cannot hold; before, the index stores the low 32 bits."""
    scans_last_only = ReleaseRule(until=(0, 8, 1))
    """After an unclean stop only the last segment is scanned; later all from the recovery point on."""
    refuses_corrupt_tails = ReleaseRule(since=(0, 10, 2))
    """An impossible batch length, met while the log end is searched, stops the broker."""
    searches_by_first_offset = ReleaseRule(since=(4, 1))
    """A search for an offset compares the first offsets of batches; before, the last ones."""
    bounds_replay_of_each_segment = ReleaseRule(until=(2, 3))
    """The offset up to which producers are replayed is applied in each segment, not only in the one that holds
    it."""
    drops_log_below_start = ReleaseRule(since=(2, 2))
    """A log that ends below its start offset is deleted, and begins anew there."""

    # Leftovers and indexes

    deletes_leftovers = ReleaseRule(since=(0, 8, 1))
    """.deleted and .cleaned files are removed."""

    @property
    def swap_handling(self) -> int:
        """One of the SWAP_ constants."""
        if self.release < (0, 9):
            return SWAP_LOG_RENAMED if self.deletes_leftovers else SWAP_IGNORED
        return SWAP_RECOVERED if self.release < (3, 0) else SWAP_RENAMED

    deletes_index_swaps = ReleaseRule(until=(1, 1))
    """The indexes of a .log.swap are deleted and rebuilt; later, those of the segment that it replaces."""
    marks_splits = ReleaseRule(since=(2, 0))
    """A .cleaned file marks every .swap from its offset on as part of an unfinished split (KAFKA-6264)."""
    refuses_corrupt_indexes = ReleaseRule(until=(0, 9))
    """Indexes are checked last, and a corrupt one stops the broker; later it is rebuilt."""
    refuses_lost_indexes = ReleaseRule(until=(0, 8, 1))
    """A missing index stops the broker."""
    checks_indexes = ReleaseRule(until=(2, 3))
    """The indexes of all segments are checked at the start (until KAFKA-7283)."""
    empty_index_is_at_base = ReleaseRule(until=(2, 0))
    """An index counts as corrupt if its last entry is at the base offset, as an entry of zeros is."""
    ignores_lost_indexes = ReleaseRule(since=(1, 1), until=(2, 3))
    """A missing .index is not rebuilt: an empty one is created, and stays."""
    refuses_index_versions = ReleaseRule(since=(4, 4))
    """Any version but 0 in a transaction index stops the broker; before, only those whose first byte is above 0."""
    leaves_metadata_indexes_open = ReleaseRule(since=(4, 4))
    """A clean stop neither truncates the active indexes of the metadata log nor adds the last time index entry."""

    # Producers

    @property
    def marker_effect(self) -> int:
        """The effect of a marker on a snapshot entry: a constant MARKER_* of `kseg.sidefiles.producer_state`."""
        if self.release < (1, 0):
            return MARKER_SETS_OFFSET
        return MARKER_IGNORED if self.release < (2, 4) else MARKER_SETS_TIMESTAMP

    @property
    def snapshot_order(self) -> int:
        """One of the _ORDER constants; of several Scala versions the one that the download page recommended."""
        if self.release >= (3, 5):
            return JAVA_ORDER
        return SCALA_2_12_ORDER if self.release < (2, 6) else SCALA_2_13_ORDER

    @property
    def expiration_ms(self) -> int:
        """Default time after which an idle producer expires: transactional.id.expiration.ms, later
        producer.id.expiration.ms."""
        return 7 * DAY_MS if self.release < (3, 4) else DAY_MS

    drops_producers_below_start = ReleaseRule(until=(2, 4))
    """A producer whose last record is below the log start is not loaded."""
    indexes_empty_aborts = ReleaseRule(until=(2, 8))
    """An ABORT marker of a transaction without records gets an entry in the transaction index."""
    snapshots_before_scan = ReleaseRule(since=(1, 0))
    """A snapshot is taken at a segment's base offset before the segment is scanned."""
    snapshots_each_replayed_segment = ReleaseRule(until=(2, 0))
    """The replay at the end of loading takes a snapshot at each segment, not only at the last two; the replay
    before a scan takes none."""
    keeps_snapshot_of_each_segment = ReleaseRule(since=(2, 8))
    """The snapshot of each segment is kept; before, only those that truncation in the last two segments needs."""

    # Message formats and leader epochs

    has_topic_formats = ReleaseRule(until=(3, 0))
    """Snapshots depend on the topic's message.format.version."""
    skips_old_formats = ReleaseRule(since=(2, 0), until=(3, 0))
    """No producer state is built from a log of v0 or v1, even if there are snapshots."""
    deletes_epochs_of_old_formats = ReleaseRule(since=(2, 1), until=(3, 0))
    """The leader epochs of a log of v0 or v1 are deleted."""
    truncates_by_epochs_of_old_formats = ReleaseRule(since=(0, 11), until=(2, 2))
    """A follower truncates by leader epochs, even if v0 or v1 messages follow them; 2.1.1 did so no more
    (KAFKA-7897)."""

    @property
    def lowest_scanned_epoch(self) -> int:
        """The lowest leader epoch that a scan takes from a batch."""
        return 1 if (2, 1) <= self.release < (2, 6) else 0

    has_strict_epochs = ReleaseRule(until=(2, 0))
    """An epoch that contradicts the cached ones is ignored; later it replaces them."""
    learns_epochs_while_loading = ReleaseRule(since=(3, 0))
    """Leader epochs are also taken from segments that are only scanned to rebuild their indexes."""
    starts_epochs_at_checkpoint = ReleaseRule(since=(3, 0))
    """Leader epochs are truncated at the log start checkpoint; before, at the first segment if that is higher."""


def era_of(version: str) -> Era:
    """Returns the rules of a release such as 0.10.2.2, 2.8 or 4.4.0; 2 stands for the newest 2.x, 4.2 for its last
    bug-fix release.

    Raises ValueError for an unknown release.
    """
    parts = version.split(".")
    if all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts):
        numbers = tuple(map(int, parts))
        for release in reversed(RELEASES):
            line = release[: 2 if release[0] else 3]
            shared = min(len(numbers), len(line))
            if numbers[:shared] == line[:shared] and (shared == len(numbers) or numbers >= release):
                return Era(release)
    raise ValueError(f"{version} is no release that kseg knows: 0.7 to {'.'.join(map(str, NEWEST))}")
