"""The table of all findings: code, severity, repair, effect on a node's start; `texts_of` has their texts.

It feeds the output of ``kseg verify``, ``--explain`` and man/kseg-findings.7. Codes are stable names; messages are not.
"""

from functools import cache
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
    """``repair``: the command that repairs it, "" for none. ``needs``: one of NEEDS, None if the command alone repairs
    it.

    ``is_cut``: a broker's scan truncates the log here. That is the repair if another replica in sync has the range,
    from which the broker fetches it; otherwise a copy that has it fills it, or salvage keeps the rest. ``is_refused``:
    commands on the log directory are refused until a user has decided. ``start``: the effect on a node's start, "" for
    none.
    """

    severity: str
    repair: str = ""
    needs: str | None = None
    is_cut: bool = False
    is_refused: bool = False
    start: str = ""


KINDS: dict[str, Kind] = {
    # Bytes of a .log
    "truncated-batch": Kind(ERROR, SALVAGE, is_cut=True),
    "nonsense-block": Kind(ERROR, SALVAGE, is_cut=True),
    "zero-block": Kind(ERROR, SALVAGE, is_cut=True),
    "bad-length": Kind(ERROR, SALVAGE, is_cut=True),
    "bad-magic": Kind(ERROR, SALVAGE),
    "crc-mismatch": Kind(ERROR, SALVAGE, is_cut=True),
    "undecodable-records": Kind(ERROR, DROP_UNDECODABLE, DECISION),
    "decompression-limit": Kind(ERROR, needs=DECISION),
    "count-mismatch": Kind(ERROR, DROP_UNDECODABLE, DECISION),
    "offsets-not-rising": Kind(ERROR, DROP_UNDECODABLE, DECISION),
    "offset-out-of-range": Kind(ERROR, DROP_UNDECODABLE, DECISION),
    "cut-message-set": Kind(ERROR, DROP_UNDECODABLE, DECISION),
    "compressed-twice": Kind(ERROR, "kseg convert --to v2 --in-place"),
    "refused-compression": Kind(ERROR, "kseg convert --in-place"),
    "bytes-behind-records": Kind(WARNING, needs=DECISION),
    "inner-crc-mismatch": Kind(ERROR, DROP_UNDECODABLE, DECISION),
    "max-timestamp-mismatch": Kind(WARNING, needs=DECISION),
    "record-attributes": Kind(WARNING, needs=DECISION),
    "unused-attributes": Kind(WARNING, needs=DECISION),
    # Offsets from batch to batch
    "wrong-base-offset": Kind(ERROR, SALVAGE),
    "batch-out-of-order": Kind(ERROR, SALVAGE),
    "offset-outside-segment": Kind(ERROR, SALVAGE, start=DOUBTFUL),
    "segments-overlap": Kind(ERROR, SALVAGE),
    "foreign-batches": Kind(ERROR, SALVAGE, DECISION),
    "gap-unexplained": Kind(ERROR, FROM_REPLICA, REPLICA),
    "gap-truncated": Kind(INFO, FROM_REPLICA, REPLICA),
    "gap-compacted": Kind(INFO),
    "gap-control": Kind(INFO),
    "gap-aborted": Kind(INFO),
    "gap-salvaged": Kind(INFO),
    "batch-without-records": Kind(WARNING, needs=DECISION),
    "leader-epoch-falls": Kind(WARNING, SALVAGE),
    "future-timestamp": Kind(WARNING, needs=DECISION),
    "early-timestamp": Kind(WARNING, needs=DECISION),
    "unsupported-format": Kind(ERROR, needs=DECISION),
    "old-message-format": Kind(INFO, "kseg convert --to v2"),
    # Reading
    "file-shrank": Kind(ERROR, needs=BROKER),
    "unreadable-file": Kind(ERROR, needs=DECISION),
    "packed-segment": Kind(ERROR, needs=DECISION),
    "damaged-archive": Kind(ERROR, needs=DECISION),
    "archive-member-skipped": Kind(WARNING, needs=DECISION),
    "redpanda-segment": Kind(WARNING, needs=DECISION),
    "segment-too-large": Kind(ERROR, needs=DECISION),
    "unreadable-bytes": Kind(ERROR, SALVAGE),
    # Offset and time indexes
    "index-missing": Kind(WARNING, REINDEX, start=RECOVERED),
    "index-corrupt": Kind(ERROR, REINDEX),
    "index-misleads": Kind(ERROR, REINDEX),
    "index-beyond-log": Kind(ERROR, REINDEX),
    "index-unsorted": Kind(ERROR, REINDEX),
    "index-below-base": Kind(ERROR, REINDEX),
    "index-zero-tail": Kind(WARNING, REINDEX),
    "index-bad-size": Kind(WARNING, REINDEX),
    "index-imprecise": Kind(WARNING, REINDEX),
    "index-sparse": Kind(INFO, REINDEX),
    "time-index-missing": Kind(WARNING, REINDEX),
    "time-index-corrupt": Kind(ERROR, REINDEX),
    "time-index-mismatch": Kind(WARNING, REINDEX),
    "time-index-incomplete": Kind(WARNING, REINDEX),
    "time-index-beyond-log": Kind(ERROR, REINDEX),
    "time-index-unsorted": Kind(ERROR, REINDEX),
    "time-index-below-base": Kind(ERROR, REINDEX),
    "time-index-zero-tail": Kind(ERROR, REINDEX),
    "time-index-bad-size": Kind(WARNING, REINDEX),
    "orphan-index": Kind(WARNING, RECOVER),
    # Producers and transactions
    "producer-sequence-gap": Kind(WARNING, FROM_REPLICA, REPLICA),
    "producer-epoch-falls": Kind(WARNING, needs=DECISION),
    "coordinator-epoch-falls": Kind(WARNING, needs=DECISION),
    "bad-control-record": Kind(ERROR, SALVAGE, start=DOUBTFUL),
    "batch-outside-transaction": Kind(ERROR, SALVAGE, start=DOUBTFUL),
    "open-transaction": Kind(INFO),
    "hanging-transaction": Kind(WARNING, needs=BROKER),
    "too-many-producers": Kind(INFO),
    "transaction-index-missing": Kind(ERROR, REINDEX),
    "transaction-index-damaged": Kind(ERROR, REINDEX, start=DOUBTFUL),
    "transaction-index-incomplete": Kind(ERROR, REINDEX),
    "transaction-index-wrong-entry": Kind(ERROR, REINDEX),
    # Snapshots of producers
    "producer-snapshot-damaged": Kind(WARNING, SNAPSHOTS),
    "producer-snapshot-mismatch": Kind(WARNING, SNAPSHOTS),
    "producer-snapshot-beyond-end": Kind(ERROR, RECOVER, DECISION),
    "producer-snapshot-missing": Kind(WARNING, SNAPSHOTS),
    # Leader epochs
    "leader-epochs-damaged": Kind(ERROR, REBUILD_EPOCHS, start=OFFLINE),
    "leader-epochs-unsorted": Kind(WARNING, REBUILD_EPOCHS),
    "leader-epochs-missing": Kind(WARNING, REBUILD_EPOCHS),
    "leader-epochs-mismatch": Kind(WARNING, REBUILD_EPOCHS),
    "leader-epochs-stale": Kind(INFO),
    "leader-epochs-beyond-end": Kind(WARNING, RECOVER),
    # Leftovers of kseg
    "pending-change": Kind(WARNING, COMPLETE),
    # The log directory and its own files
    "broker-would-not-start": Kind(ERROR, needs=DECISION, is_refused=True, start=REFUSED),
    "unreadable-checkpoint": Kind(ERROR, RECOVER, start=OFFLINE),
    "disk-full": Kind(ERROR, needs=DECISION, start=OFFLINE),
    "bad-meta-properties": Kind(ERROR, needs=BROKER, start=OFFLINE),
    "node-identity-mismatch": Kind(ERROR, needs=DECISION, start=REFUSED),
    "directory-id-mismatch": Kind(ERROR, needs=DECISION),
    "unknown-node": Kind(WARNING, needs=DECISION),
    "metadata-lost": Kind(ERROR, needs=REPLICA),
    "bad-quorum-state": Kind(ERROR, needs=DECISION, start=REFUSED),
    "quorum-mismatch": Kind(WARNING, needs=DECISION),
    "bad-metadata-snapshot": Kind(ERROR, needs=REPLICA, start=REFUSED),
    "metadata-log-behind": Kind(WARNING, needs=BROKER),
    "metadata-record-refused": Kind(ERROR, needs=DECISION, start=REFUSED),
    "release-mismatch": Kind(ERROR, needs=BROKER, start=REFUSED),
    "metadata-snapshot-mismatch": Kind(ERROR, needs=REPLICA),
    "unclean-shutdown": Kind(INFO),
    "partition-missing": Kind(INFO),
    "only-replica-missing": Kind(ERROR, needs=REPLICA),
    "assigned-partition-missing": Kind(WARNING, needs=REPLICA),
    "partition-elsewhere": Kind(INFO),
    "copied-while-running": Kind(WARNING, needs=BROKER),
    "segments-missing": Kind(ERROR, RECOVER, DECISION),
    "delete-directory": Kind(INFO),
    "future-directory": Kind(INFO),
    "stray-directory": Kind(WARNING, needs=DECISION),
    "log-begins-late": Kind(INFO),
    "only-future-copy": Kind(WARNING, "kseg restore --undelete"),
    "unknown-file": Kind(INFO),
    "other-owner": Kind(WARNING, needs=DECISION),
    "topic-not-compacted": Kind(WARNING, needs=BROKER),
    "high-watermark-missing": Kind(INFO),
    # A partition against its log directory
    "high-watermark-beyond-end": Kind(ERROR, RECOVER, DECISION),
    "log-start-beyond-end": Kind(ERROR, RECOVER, DECISION, start=EMPTIED),
    "recovery-point-beyond-end": Kind(WARNING, RECOVER),
    "cleaner-checkpoint-beyond-end": Kind(WARNING, RECOVER),
    "commit-beyond-end": Kind(WARNING, needs=DECISION),
    "commit-below-start": Kind(INFO),
    "group-not-loaded": Kind(WARNING, needs=DECISION),
    "schema-alive": Kind(WARNING, needs=DECISION),
    "tasks-ignored": Kind(INFO),
    "segments-below-log-start": Kind(INFO, "kseg retain", DECISION),
    "no-partition-metadata": Kind(ERROR, WITH_TOPIC_ID, TOPIC_ID),
    "bad-partition-metadata": Kind(ERROR, WITH_TOPIC_ID, TOPIC_ID, is_refused=True, start=OFFLINE),
    "topic-id-mismatch": Kind(ERROR, WITH_TOPIC_ID, TOPIC_ID),
    "unknown-topic": Kind(WARNING, needs=DECISION),
    "unassigned-replica": Kind(WARNING, needs=DECISION),
    "bad-clean-shutdown": Kind(INFO),
    # Files beside the segments of a partition
    "unpadded-name": Kind(WARNING, SALVAGE, DECISION, is_refused=True),
    "leftover-deleted": Kind(INFO, start=DELETED),
    "leftover-cleaned": Kind(INFO),
    "unfinished-swap": Kind(WARNING, RECOVER),
    "swap-without-index": Kind(WARNING, RECOVER),
    "leftover-holds-data": Kind(WARNING, SALVAGE),
    # Obstacles of the log cleaner
    "cleaner-blocked": Kind(WARNING, SALVAGE),
    "cleaner-hides-damage": Kind(WARNING, SALVAGE),
    "record-without-key": Kind(WARNING, needs=DECISION),
    # Against a manifest (--manifest)
    "manifest-changed": Kind(ERROR, FROM_REPLICA, REPLICA),
    "manifest-missing": Kind(ERROR, FROM_REPLICA, REPLICA),
    "manifest-added": Kind(WARNING, needs=DECISION),
    "manifest-side-file": Kind(WARNING, needs=DECISION),
    "manifest-grown": Kind(INFO),
    "manifest-expired": Kind(INFO),
    # Against another replica (--against)
    "replicas-diverge": Kind(ERROR, needs=DECISION),
    "replica-lacks-records": Kind(ERROR, FROM_REPLICA, REPLICA),
    "replica-not-compared": Kind(WARNING, FROM_REPLICA, REPLICA),
    "replicas-cleaned-apart": Kind(INFO),
    "replica-starts-later": Kind(INFO),
    "replica-ends-earlier": Kind(INFO),
    "replica-missing": Kind(WARNING, needs=DECISION),
    "records-differ": Kind(ERROR, needs=DECISION),
    # Several nodes of one cluster
    "leader-copy-behind": Kind(ERROR, FROM_REPLICA, REPLICA),
    "leader-copy-missing": Kind(ERROR, needs=DECISION),
    "copies-parted": Kind(ERROR, needs=DECISION),
    "voter-behind": Kind(ERROR, FROM_REPLICA, REPLICA),
    "topic-recreated": Kind(WARNING, needs=DECISION),
    "remote-metadata-incomplete": Kind(WARNING, needs=REPLICA),
    "remote-copy-unfinished": Kind(WARNING, needs=DECISION),
    "remote-orphan-object": Kind(WARNING, needs=DECISION),
    "remote-other-objects": Kind(INFO),
    "remote-objects-missing": Kind(ERROR, needs=REPLICA),
    "remote-manifest-damaged": Kind(ERROR, needs=REPLICA),
    "remote-size-mismatch": Kind(ERROR, needs=REPLICA),
    "remote-chunk-damaged": Kind(ERROR, needs=REPLICA),
    "remote-offsets-mismatch": Kind(ERROR, needs=DECISION),
    "remote-lineage-conflict": Kind(WARNING, needs=DECISION),
    "remote-segment-superseded": Kind(INFO),
    "remote-lineage-hole": Kind(ERROR, needs=REPLICA),
    "remote-local-gap": Kind(ERROR, needs=BROKER),
}


def severity_of(code: str) -> str:
    """Returns one of SEVERITIES."""
    return KINDS[code].severity


class Texts(NamedTuple):
    """``means``: the consequences for brokers and consumers."""

    sentence: str
    means: str


def texts_of(code: str) -> Texts:
    """Returns the texts of a finding, which only some outputs have."""
    return _texts()[code]


@cache
def _texts() -> dict[str, Texts]:
    import tomllib
    from importlib.resources import files

    read = [(files("kseg.findings") / name).read_text("utf-8") for name in ("texts.toml", "copies.toml")]
    return {code: Texts(**texts) for text in read for code, texts in tomllib.loads(text).items()}
