"""An entry of the findings table: the facts about one code."""

from typing import NamedTuple

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)

REPLICA, TOPIC_ID, DECISION, BROKER = "replica", "topic id", "decision", "broker"
NEEDS = (REPLICA, TOPIC_ID, DECISION, BROKER)
"""Preconditions of a repair: another replica, the topic's id, a decision of the user, a running broker or cluster."""

RECOVER, SALVAGE = "kseg recover", "kseg recover --mode salvage"
REBUILD_EPOCHS = "kseg recover --rebuild-epochs"
FROM_REPLICA, WITH_TOPIC_ID = "kseg recover --from-replica DIR", "kseg recover --topic-id UUID"
DROP_UNDECODABLE = "kseg recover --mode salvage --drop-undecodable"
REINDEX, SNAPSHOTS = "kseg reindex", "kseg reindex --snapshots"
COMPLETE = "kseg undo --complete"

REFUSED, OFFLINE, DOUBTFUL = "refused", "offline", "doubtful"
RECOVERED, EMPTIED, DELETED = "recovered", "emptied", "deleted"
"""Effects on a node's start: it does not start, takes the log directory offline, or may not start; it scans the
partition, deletes all its segments, or deletes files."""


class Kind(NamedTuple):
    """``means``: the consequences for brokers and consumers.

    ``repair``: the command that repairs it, "" for none. ``needs``: one of NEEDS, None if the command alone repairs it.

    ``is_cut``: a broker's scan truncates the log here. That is the repair if other replicas hold the partition, because
    the broker fetches the truncated records from them; otherwise salvage. ``is_repaired_alone``: only a command on the
    partition itself repairs it. ``is_refused``: commands on the log directory are refused until a user has decided.
    ``start``: the effect on a node's start, "" for none.
    """

    severity: str
    sentence: str
    means: str
    repair: str = ""
    needs: str | None = None
    is_cut: bool = False
    is_repaired_alone: bool = False
    is_refused: bool = False
    start: str = ""
