"""What a log directory says of one of its partitions: checkpoints, shutdown marker, the topic's settings."""

from typing import NamedTuple

COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that brokers make with cleanup.policy=compact; __share_group_state and __remote_log_metadata have delete."""


class BrokerState(NamedTuple):
    """None is what is not known: no log directory, no such checkpoint, or the partition is not in it.

    ``is_compacted``: cleanup.policy holds compact, by the newest __cluster_metadata or by the topic's name;
    ``is_deleting``: it holds delete. ``was_clean``: .kafka_cleanshutdown is there. ``is_known``: a log directory with
    files of its own lies around. ``is_kraft``: its node is one of KRaft, not of ZooKeeper. ``topic_id`` is "" where
    __cluster_metadata is there and has no such topic.
    """

    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start_offset: int | None = None
    cleaner_offset: int | None = None
    is_compacted: bool | None = None
    is_deleting: bool | None = None
    max_message_bytes: int | None = None
    topic_id: str | None = None
    was_clean: bool | None = None
    is_known: bool = False
    is_kraft: bool | None = None

    def will_be_scanned(self, next_offset: int | None) -> bool:
        """Whether a broker's start scans a segment that ends before ``next_offset``, and rebuilds its indexes.

        It does so after an unclean stop, from the segment on that holds the recovery point.
        """
        if not self.is_known or self.was_clean is not False or next_offset is None:
            return False
        return next_offset > (self.recovery_point or 0)


_NOTHING_KNOWN, _COMPACTED = BrokerState(), BrokerState(is_compacted=True, is_deleting=False)


def state_by_name(topic: str | None) -> BrokerState:
    """What is known of a partition that lies in no log directory."""
    return _COMPACTED if topic in COMPACTED_TOPICS else _NOTHING_KNOWN
