"""Reads from __remote_log_metadata how far the partitions of a node are copied to remote storage (KIP-405)."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kseg.decoders import decoder
from kseg.errors import KsegError
from kseg.formats.suffixes import LOG
from kseg.node.log_directory import partitions_in
from kseg.segment.files import REMOTE_METADATA_TOPIC, list_segments
from kseg.segment.reader import open_segment

_FINISHED = 1
"""RemoteLogSegmentState.COPY_SEGMENT_FINISHED."""


def copied_offsets(log_directories: Iterable[str]) -> dict[tuple[str, int], int] | None:
    """Returns the last offset of each partition in segments whose copy is finished and that are not deleted; None if no
    partition of __remote_log_metadata is there, or none can be read."""
    paths: list[str] = []
    with suppress(KsegError, OSError):
        paths = [path for one in log_directories for _, path in partitions_in(one, REMOTE_METADATA_TOPIC)]
    if not paths:
        return None
    read, segments = decoder("remote-log-metadata"), dict[str, list[Any]]()
    for path in paths:
        for file in list_segments(path):
            if file.kind != LOG:
                continue
            with suppress(KsegError, OSError), open_segment(file) as reader:
                for batch in reader.intact():
                    for record in () if batch.is_control else batch:
                        decoded = read.decode(record.key, record.value, record.offset).value
                        _add(segments, decoded.get("data", {}) if isinstance(decoded, dict) else {})
    found: dict[tuple[str, int], int] = {}
    for place, end, state in segments.values():
        if state == _FINISHED:
            found[place] = max(end, found.get(place, end))
    return found


def _add(segments: dict[str, list[Any]], data: dict[str, Any]) -> None:
    """Adds a record: it has all of a segment, or its new state."""
    segment = data.get("remoteLogSegmentId")
    if segment is None:
        return
    place = segment["topicIdPartition"]
    if "endOffset" in data:
        state = data.get("remoteLogSegmentState", 0)
        segments[segment["id"]] = [(place["name"], place["partition"]), data["endOffset"], state]
    elif segment["id"] in segments:
        segments[segment["id"]][2] = data.get("remoteLogSegmentState")
