"""Recognises remote storage by the names of its objects, in two layouts.

    LocalTieredStorage    kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset>-<segment id>.<suffix>
    Aiven's plugin        <prefix><topic>-<topic id>/<partition>/<start offset>-<segment id>.<suffix>

A start offset has 20 digits, an id 22 characters of base64url, which may contain "-". A prefix is put before the topic
without a separator and may contain "/", so a name alone does not separate it from the topic (see `storage`).
Sources: LocalTieredStorage and RemoteLogSegmentFileset of Kafka; ObjectKeyFactory of the plugin.

Every check of a path asks this first, and most paths hold none: so it imports nothing that reads a segment.
"""

import re
from typing import NamedTuple

from kseg.errors import PathError
from kseg.stores.place import Place
from kseg.stores.stored_object import is_url

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
_LOG_DIRECTORY_FILES = frozenset({"meta.properties", "leader-epoch-checkpoint", "partition.metadata"})
_MIN_NAME = 43
"""Characters of a start offset, a dash and an id."""
_MAX_FOLDERS = 500
"""Limit of folders that are listed to recognise remote storage."""
_MAX_REQUESTS = 32
"""The same at a URL."""


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


def may_hold_segments(folder: str) -> bool:
    """Whether a folder's own name is that of a topic or partition in remote storage, or of its root."""
    return folder == _ROOT or re.fullmatch(rf".+-{_ID}", folder) is not None


def is_remote_storage(path: str) -> bool:
    """Whether a directory or a URL holds remote storage, and no log directory.

    Lists as few folders as it can.
    """
    pending, most, seen = [""], _MAX_REQUESTS if is_url(path) else _MAX_FOLDERS, 0
    while pending and seen < most:
        folder, seen = pending.pop(), seen + 1
        place = Place(path) / folder if folder else Place(path)
        try:
            with place.entries() as entries:
                found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        except (OSError, PathError):
            continue
        objects = [name for name, is_folder in found if not is_folder]
        folders = [name for name, is_folder in found if is_folder]
        if is_url(path):  # a request for each partition of a log directory would take too long
            folders = [name for name in folders if may_hold_segments(name) or not re.fullmatch(r".+-[0-9]+", name)]
        if not _LOG_DIRECTORY_FILES.isdisjoint(objects):
            return False
        numbered = [name for name in objects if len(name) > _MIN_NAME and name[:20].isdigit()]
        if any(parse_object_name(f"{folder}/{name}".lstrip("/")) for name in numbered):
            return True
        likely = [name for name in folders if may_hold_segments(name) or name.isdigit()]
        unlikely = [name for name in folders if name not in set(likely)]
        for names in (unlikely, likely):
            pending += [f"{folder}/{name}".lstrip("/") for name in sorted(names, reverse=True)[-_MAX_FOLDERS:]]
    return False
