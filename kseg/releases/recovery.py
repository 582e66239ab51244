"""What differs between releases of Kafka in how a partition is loaded and recovered, 0.7 to 4.3.

Each property names the releases between which a rule changed; all of it was read in the sources of these releases
(kafka.log.Log, LogSegment, ProducerStateManager, LeaderEpochFileCache, later LogLoader) and compared with what their
brokers left behind.
"""

from dataclasses import dataclass

RELEASES = (
    (0, 7), (0, 8, 0), (0, 8, 1), (0, 8, 2), (0, 9, 0), (0, 10, 0), (0, 10, 1), (0, 10, 2), (0, 11, 0),
    *((1, minor) for minor in range(2)), *((2, minor) for minor in range(9)), *((3, minor) for minor in range(10)),
    *((4, minor) for minor in range(4)),
)  # fmt: skip
"""Those between which anything differs are told by their first numbers."""

NEWEST = RELEASES[-1]

IGNORED, AT_ONCE, RECOVERED, RENAMED = 0, 1, 2, 3
"""What becomes of a .swap: nothing; its .log is renamed before segments are loaded; it is recovered behind the others
and takes the place of those that it replaces; all of it is renamed in place of the segments in its range."""

JAVA, SCALA_2_12, SCALA_2_13 = 0, 1, 2
"""The map whose order a producer snapshot has: java.util.HashMap, scala.collection.mutable.HashMap up to 2.12 or since
2.13."""

DEFAULT_MESSAGE_LIMIT_BYTES = 1_000_012

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Era:
    """A release by its first numbers, such as (0, 10, 2).

    ``message_limit_bytes``: max.message.bytes where a larger message counts as corrupt.
    """

    release: tuple[int, ...] = NEWEST
    message_limit_bytes: int = DEFAULT_MESSAGE_LIMIT_BYTES

    @property
    def name(self) -> str:
        return ".".join(map(str, self.release))

    # Which files there are

    @property
    def is_07(self) -> bool:
        """.kafka segments, and nothing beside them."""
        return self.release < (0, 8)

    @property
    def has_time_index(self) -> bool:
        return self.release >= (0, 10, 1)

    @property
    def has_producers(self) -> bool:
        """Producer snapshots and transaction indexes, and record batches of v2."""
        return self.release >= (0, 11)

    @property
    def has_epochs(self) -> bool:
        return self.release >= (0, 11)

    @property
    def has_topic_ids(self) -> bool:
        """partition.metadata."""
        return self.release >= (2, 8)

    # How segments are scanned

    @property
    def max_message_bytes(self) -> int | None:
        """What is larger is taken for corrupt; None: nothing is, and v2 is known."""
        if self.release >= (0, 11):
            return None
        return self.message_limit_bytes if self.release >= (0, 8, 1) else (1 << 31) - 1

    @property
    def uses_first_offset(self) -> bool:
        """Offset indexes hold the first offset of a batch, not its last."""
        return self.release < (2, 0)

    @property
    def checks_range(self) -> bool:
        """An offset that a segment cannot hold splits it; before, the index holds its low 32 bits."""
        return self.release >= (2, 0)

    @property
    def scans_last_only(self) -> bool:
        """After an unclean stop only the last segment is scanned; later the recovery point says from where on."""
        return self.release < (0, 8, 1)

    @property
    def refuses_bad_tails(self) -> bool:
        """A length that no batch has, where the end of the log is looked for, stops the broker."""
        return self.release >= (0, 10, 2)

    @property
    def searches_by_first_offset(self) -> bool:
        """Where an offset is looked for in a segment, first offsets of batches are compared; before, last ones."""
        return self.release >= (4, 1)

    @property
    def bounds_each_replayed(self) -> bool:
        """Producers are replayed up to an offset in each segment, not only in the one that holds it."""
        return self.release < (2, 3)

    @property
    def drops_log_below_start(self) -> bool:
        """A log that ends below its start offset is dropped."""
        return self.release >= (2, 2)

    # Leftovers and indexes

    @property
    def deletes_leftovers(self) -> bool:
        """.deleted and .cleaned files go."""
        return self.release >= (0, 8, 1)

    @property
    def swaps(self) -> int:
        """IGNORED, AT_ONCE, RECOVERED or RENAMED."""
        if self.release < (0, 9):
            return AT_ONCE if self.deletes_leftovers else IGNORED
        return RECOVERED if self.release < (3, 0) else RENAMED

    @property
    def deletes_index_swaps(self) -> bool:
        """With a .log.swap its indexes go, to be built anew; later those that it replaces go instead."""
        return self.release < (1, 1)

    @property
    def knows_splits(self) -> bool:
        """A .cleaned tells that each .swap from its offset on belongs to a split that was not finished (KAFKA-6264)."""
        return self.release >= (2, 0)

    @property
    def refuses_bad_indexes(self) -> bool:
        """Indexes are checked last, and a bad one stops the broker; later it is rebuilt."""
        return self.release < (0, 9)

    @property
    def refuses_lost_indexes(self) -> bool:
        return self.release < (0, 8, 1)

    @property
    def checks_indexes(self) -> bool:
        """The offset index is looked at, and the time index where there is one (until KAFKA-7283)."""
        return self.release < (2, 3)

    @property
    def empty_index_is_at_base(self) -> bool:
        """An index whose last entry is at the base offset, as zeros are, is bad."""
        return self.release < (2, 0)

    @property
    def misses_lost_indexes(self) -> bool:
        """A segment without .index is not noticed, and gets an empty one for good."""
        return (1, 1) <= self.release < (2, 3)

    # Producers

    @property
    def snapshot_form(self) -> int:
        """FORM_… of `kseg.sidefiles.producer_state`: what a marker leaves in a snapshot."""
        if self.release < (1, 0):
            return 0
        return 1 if self.release < (2, 4) else 2

    @property
    def snapshot_order(self) -> int:
        """JAVA, SCALA_2_12 or SCALA_2_13, by the Scala of the release that its project page names first."""
        if self.release >= (3, 5):
            return JAVA
        return SCALA_2_12 if self.release < (2, 6) else SCALA_2_13

    @property
    def expiration_ms(self) -> int:
        """After which a producer is forgotten: transactional.id.expiration.ms, later producer.id.expiration.ms."""
        return 7 * _DAY_MS if self.release < (3, 4) else _DAY_MS

    @property
    def forgets_below_start(self) -> bool:
        """A producer whose last record lies below the log start is not loaded."""
        return self.release < (2, 4)

    @property
    def indexes_empty_aborts(self) -> bool:
        """An ABORT of a transaction without records here gets an entry in the transaction index."""
        return self.release < (2, 8)

    @property
    def snapshots_before_scan(self) -> bool:
        """One is taken at the base of a segment before it is scanned."""
        return self.release >= (1, 0)

    @property
    def snapshots_each_replayed(self) -> bool:
        """One is taken at each segment that is replayed at the end of a load, not only at the last two; none when
        producers are brought to where a scan begins."""
        return self.release < (2, 0)

    @property
    def keeps_snapshot_of_each(self) -> bool:
        """One for each segment stays; before, only those that a log cut in its last two segments would need."""
        return self.release >= (2, 8)

    # Formats and epochs

    @property
    def knows_old_formats(self) -> bool:
        """The topic's message format decides on snapshots."""
        return self.release < (3, 0)

    @property
    def skips_old_formats(self) -> bool:
        """No producer state is built from a log of v0 or v1, whatever snapshots there are."""
        return (2, 0) <= self.release < (3, 0)

    @property
    def deletes_epochs_of_old_formats(self) -> bool:
        return (2, 1) <= self.release < (3, 0)

    @property
    def lowest_scanned_epoch(self) -> int:
        """Of a batch that a scan may learn an epoch from."""
        return 1 if (2, 1) <= self.release < (2, 6) else 0

    @property
    def has_strict_epochs(self) -> bool:
        """An epoch that contradicts those known is ignored; later it replaces them."""
        return self.release < (2, 0)

    @property
    def learns_epochs_while_loading(self) -> bool:
        """Also from segments that are scanned for the sake of their indexes."""
        return self.release >= (3, 0)

    @property
    def starts_epochs_at_checkpoint(self) -> bool:
        """Epochs are cut at the checkpoint of the log start; before, at the first segment where that is above it."""
        return self.release >= (3, 0)


def era_of(version: str) -> Era:
    """The era of a release such as 0.10.2.2, 2.8 or 4.3.1; fewer numbers stand for the newest that begins so.

    Raises ValueError for one that is not known.
    """
    parts = version.split(".")
    if all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts):
        numbers = tuple(map(int, parts))
        for release in reversed(RELEASES):
            shared = min(len(numbers), len(release))
            if numbers[:shared] == release[:shared]:
                return Era(release)
    raise ValueError(f"{version} is no release that kseg knows: 0.7 to {'.'.join(map(str, NEWEST))}")
