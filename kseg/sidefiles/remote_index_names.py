"""Names of copies of remote segments' indexes (RemoteIndexCache): ``<start offset>_<segment id>.index`` and so on.

The bytes are those of the remote segment's own indexes; the base offset is the number in the name. While one is fetched
its name ends in ``.tmp``, before it goes in ``.deleted``.
"""

import re
from typing import NamedTuple

from kseg.sidefiles.identifiers import is_uuid

DIRECTORY = "remote-log-index-cache"
# An id may hold "_" and "-" itself.
_NAME = re.compile(r"([0-9]{1,19})_([A-Za-z0-9_-]{22})(\.index|\.timeindex|\.txnindex)(\.tmp|\.deleted)?")


# LocalTieredStorage: the files of a remote segment beside each other, in a folder for each partition.
_SEGMENT = re.compile(r"[0-9]{20}-([A-Za-z0-9_-]{22})\.(log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint)")


class RemoteIndexName(NamedTuple):
    """``segment_id`` is the remote segment's id as text; ``leftover`` ".tmp", ".deleted" or ""."""

    start_offset: int
    segment_id: str
    suffix: str
    leftover: str


def parse_remote_index_name(name: str) -> RemoteIndexName | None:
    """What a file's name says, None for a name of another form."""
    found = _NAME.fullmatch(name)
    if not found or not is_uuid(found[2]):
        return None
    return RemoteIndexName(int(found[1]), found[2], found[3], found[4] or "")


def is_remote_segment_name(name: str) -> bool:
    """Whether it is the name of a file of a remote segment, as LocalTieredStorage gives it."""
    found = _SEGMENT.fullmatch(name)
    return found is not None and is_uuid(found[1])
