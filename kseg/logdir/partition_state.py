"""The recorded state of one partition, from its log directory: checkpoints, shutdown marker, topic settings."""

from typing import NamedTuple

COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that brokers create with cleanup.policy=compact; __share_group_state and __remote_log_metadata have delete."""

CLEANER_SETTINGS = ("min.compaction.lag.ms", "max.compaction.lag.ms", "min.cleanable.dirty.ratio")
"""The topic settings that decide whether the log cleaner cleans a compacted partition."""


class BrokerState(NamedTuple):
    """None for an unknown value: no log directory, no such checkpoint, or no entry for the partition.

    ``is_compacted``: cleanup.policy includes compact, by the newest __cluster_metadata, the broker's server.properties
    or the topic's name; ``cleaner_settings``: the CLEANER_SETTINGS that are set. ``was_clean``: .kafka_cleanshutdown
    exists. ``is_known``: the partition is in a log directory. ``is_kraft``: the broker runs without ZooKeeper.
    ``retention_ms``: retention.ms, if it is set.
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


_UNKNOWN, _COMPACTED = BrokerState(), BrokerState(is_compacted=True)


def state_by_name(topic: str | None) -> BrokerState:
    """Returns the state of a partition outside of a log directory: only the topic's name is known."""
    return _COMPACTED if topic in COMPACTED_TOPICS else _UNKNOWN
