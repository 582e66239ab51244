"""Recognises remote storage by the names of its objects, in two layouts.

    LocalTieredStorage    kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset>-<segment id>.<suffix>
    Aiven's plugin        <prefix><topic>-<topic id>/<partition>/<start offset>-<segment id>.<suffix>

A start offset has 20 digits, an id 22 characters of base64url, which may contain "-". A prefix is put before the topic
without a separator and may contain "/", so a name alone does not separate it from the topic (see `storage`).
Sources: LocalTieredStorage and RemoteLogSegmentFileset of Kafka; ObjectKeyFactory of the plugin.

Every check of a path asks this first, and most paths hold none: so it imports nothing that reads a segment.
"""

import os
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kseg.errors import KsegError, PathError
from kseg.stores import trees
from kseg.stores.objects import LocalObjects
from kseg.stores.stored_object import is_url, shown

if TYPE_CHECKING:
    from kseg.stores.object_urls import UrlObjects

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


def is_partition_name(folder: str) -> bool:
    """Whether a folder's own name is that of a partition in a log directory."""
    return re.fullmatch(r".+-[0-9]+", folder) is not None


def may_hold_segments(folder: str) -> bool:
    """Whether a folder's own name is that of a topic or partition in remote storage, or of its root."""
    return folder == _ROOT or re.fullmatch(rf".+-{_ID}", folder) is not None


def is_remote_storage(path: str) -> bool:
    """Whether a directory or URL holds remote storage, and no log directory; reads as few folders as it can."""
    if not is_url(path):
        return _holds_segments(partial(_local_names, LocalObjects(path)), _MAX_FOLDERS)
    from kseg.stores.object_urls import UrlObjects  # few have URLs

    try:
        return _holds_segments(partial(_stored_names, UrlObjects(path)), _MAX_REQUESTS)
    except KsegError:
        return False  # a file, or nothing that can be listed


def is_mounted_storage(path: str) -> bool:
    """As `is_remote_storage`, but a URL is of a mounted store, which keeps the listings for its readers."""
    if not is_url(path):
        return is_remote_storage(path)
    return _holds_segments(partial(_mounted_names, shown(path)), _MAX_REQUESTS)


def _holds_segments(names_in: Callable[[str], tuple[list[str], list[str]]], most: int) -> bool:
    """Lists at most ``most`` folders. ``names_in`` returns names of objects and folders, or raises OSError."""
    pending, seen = [""], 0
    while pending and seen < most:
        folder, seen = pending.pop(), seen + 1
        try:
            objects, folders = names_in(folder)
        except (OSError, PathError):
            continue
        if not _LOG_DIRECTORY_FILES.isdisjoint(objects):
            return False
        if any(_is_segment_object(f"{folder}/{name}".lstrip("/")) for name in objects):
            return True
        likely = [name for name in folders if may_hold_segments(name) or name.isdigit()]
        unlikely = [name for name in folders if name not in set(likely)]
        for names in (unlikely, likely):
            pending += [f"{folder}/{name}".lstrip("/") for name in sorted(names, reverse=True)[-_MAX_FOLDERS:]]
    return False


def _local_names(store: LocalObjects, folder: str) -> tuple[list[str], list[str]]:
    objects, folders = list[str](), list[str]()
    with os.scandir(store.path(folder)) as entries:
        for entry in entries:
            (folders if entry.is_dir(follow_symlinks=False) else objects).append(entry.name)
    return objects, folders


def _mounted_names(url: str, folder: str) -> tuple[list[str], list[str]]:
    with trees.scandir(f"{url}/{folder}".rstrip("/")) as entries:
        found = [(entry.name, entry.is_dir()) for entry in entries]
    # A request for each partition of a log directory would take too long.
    folders = [
        name for name, is_folder in found if is_folder and (may_hold_segments(name) or not is_partition_name(name))
    ]
    return [name for name, is_folder in found if not is_folder], folders


def _stored_names(store: "UrlObjects", folder: str) -> tuple[list[str], list[str]]:
    objects, folders = store.folder(folder)
    return [os.path.basename(item.name) for item in objects], folders


def _is_segment_object(path: str) -> bool:
    name = os.path.basename(path)
    return len(name) > _MIN_NAME and name[:20].isdigit() and parse_object_name(path) is not None
