"""Names of the objects of remote storage, by which its two layouts are recognised.

    LocalTieredStorage    kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset>-<segment id>.<suffix>
    Aiven's plugin        <prefix><topic>-<topic id>/<partition>/<start offset>-<segment id>.<suffix>

A start offset has 20 digits, an id 22 characters of base64url, which may contain "-". A prefix is put before the topic
without a separator and may contain "/", so a name alone does not separate it from the topic (see `storage`).
Sources: LocalTieredStorage and RemoteLogSegmentFileset of Kafka; ObjectKeyFactory of the plugin.
"""

import re
from typing import NamedTuple

LOCAL, AIVEN = "LocalTieredStorage", "Aiven"
MANIFEST, INDEXES = ".rsm-manifest", ".indexes"

TOPIC = r"[a-zA-Z0-9._-]{1,249}"
_ID = r"[A-Za-z0-9_-]{22}"
_SEGMENT = rf"(?P<start>[0-9]{{20}})-(?P<segment>{_ID})"
_NUMBER = r"(?P<partition>0|[1-9][0-9]{0,9})"
_ROOT = "kafka-tiered-storage"
_LOCAL = (
    rf"(?P<folder>(?:.*/)?(?P<topic>{TOPIC})-{_NUMBER}-(?P<topic_id>{_ID}))/{_SEGMENT}"
    r"(?P<suffix>\.(?:log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint))"
)
_AIVEN = (
    rf"(?P<folder>(?:.*/)?(?P<topic>[^/]+)-(?P<topic_id>{_ID}))/{_NUMBER}/{_SEGMENT}"
    r"(?P<suffix>\.(?:log|indexes|rsm-manifest))"
)
_LARGEST_OFFSET = (1 << 63) - 1
_LARGEST_PARTITION = (1 << 31) - 1


class ObjectName(NamedTuple):
    """The parsed name of an object. ``topic`` begins with the last part of the prefix, if there is one."""

    layout: str
    folder: str
    topic: str
    topic_id: str
    partition: int
    start_offset: int
    segment_id: str
    suffix: str


def parse_object_name(name: str) -> ObjectName | None:
    """Parses a name; returns None if it is not that of an object of remote storage."""
    layout, found = AIVEN, re.fullmatch(_AIVEN, name)
    if found is None:
        layout, found = LOCAL, re.fullmatch(_LOCAL, name)
    if found is None:
        return None
    partition, start = int(found["partition"]), int(found["start"])
    if partition > _LARGEST_PARTITION or start > _LARGEST_OFFSET:
        return None
    return ObjectName(
        layout, found["folder"], found["topic"], found["topic_id"], partition, start, found["segment"], found["suffix"]
    )


def is_topic(text: object) -> bool:
    """Whether Kafka allows this name for a topic."""
    return isinstance(text, str) and text not in (".", "..") and re.fullmatch(TOPIC, text) is not None


def is_partition_name(folder: str) -> bool:
    """Whether a folder's own name is that of a partition in a log directory."""
    return re.fullmatch(r".+-[0-9]+", folder) is not None


def may_hold_segments(folder: str) -> bool:
    """Whether a folder's own name is that of a topic or partition in remote storage, or of its root."""
    return folder == _ROOT or re.fullmatch(rf".+-{_ID}", folder) is not None
