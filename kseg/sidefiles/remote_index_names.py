"""File names of locally cached indexes of remote segments: ``<start offset>_<segment id>.index`` (RemoteIndexCache).

The contents are those of the remote segment's indexes; the base offset is the number in the name. The name ends in
``.tmp`` while the file is fetched, and in ``.deleted`` before it is removed.
"""

import re
from typing import NamedTuple

from kseg.sidefiles.identifiers import is_uuid

DIRECTORY = "remote-log-index-cache"
# An id may itself contain "_" and "-".
_NAME = re.compile(r"([0-9]{1,19})_([A-Za-z0-9_-]{22})(\.index|\.timeindex|\.txnindex)(\.tmp|\.deleted)?")


# LocalTieredStorage keeps the files of all remote segments of a partition in one directory.
_SEGMENT = re.compile(r"[0-9]{20}-([A-Za-z0-9_-]{22})\.(log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint)")


class RemoteIndexName(NamedTuple):
    """``segment_id`` is the remote segment's id as text; ``leftover`` is ".tmp", ".deleted" or ""."""

    start_offset: int
    segment_id: str
    suffix: str
    leftover: str


def parse_remote_index_name(name: str) -> RemoteIndexName | None:
    """Parses a file name; returns None if it has another form."""
    found = _NAME.fullmatch(name)
    if not found or not is_uuid(found[2]):
        return None
    return RemoteIndexName(int(found[1]), found[2], found[3], found[4] or "")


def is_remote_segment_name(name: str) -> bool:
    """Whether LocalTieredStorage gives a file of a remote segment such a name."""
    found = _SEGMENT.fullmatch(name)
    return found is not None and is_uuid(found[1])
