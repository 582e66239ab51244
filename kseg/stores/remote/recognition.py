"""Recognises remote storage by the names of its objects.

Every check of a path asks this first, and most paths hold none: so it imports nothing that reads a segment.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kseg.errors import KsegError, PathError
from kseg.stores import trees
from kseg.stores.objects import LocalObjects
from kseg.stores.remote.segment import is_partition_name, may_hold_segments, parse_object_name
from kseg.stores.stored_object import is_url, shown

if TYPE_CHECKING:
    from kseg.stores.object_urls import UrlObjects

_LOG_DIRECTORY_FILES = frozenset({"meta.properties", "leader-epoch-checkpoint", "partition.metadata"})
_MIN_NAME = 43
"""Characters of a start offset, a dash and an id."""
_MAX_FOLDERS = 500
"""Limit of folders that are listed to recognise remote storage."""
_MAX_REQUESTS = 32
"""The same at a URL."""


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
