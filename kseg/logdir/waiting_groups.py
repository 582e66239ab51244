"""Finds the consumer groups that wait behind a last stable offset, from __consumer_offsets of the same log directory.

A commit does not show whether its group reads only committed records; a group that reads all does not wait.
"""

import os
from collections import defaultdict
from typing import Any, NamedTuple

from kseg.decoders.committed_offsets import CommittedOffsets
from kseg.errors import KsegError
from kseg.formats.json_values import name_value
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG
from kseg.segment.files import OFFSETS_TOPIC, SegmentFile, list_partitions, list_segments, parse_partition_name
from kseg.segment.items import Damage
from kseg.segment.reader import SegmentReader
from kseg.stores.source import open_source

MAX_BYTES = 256 << 20
"""Limit of __consumer_offsets in a log directory; more would take too long to read for this."""


class GroupOffset(NamedTuple):
    """An offset that a group has committed for a partition; ``topic_id``: None if the commit has none."""

    group: str
    offset: int
    topic_id: str | None

    def as_object(self) -> dict[str, Any]:
        return {"group": name_value(self.group), "offset": self.offset}


GroupOffsets = dict[tuple[str, int], list[GroupOffset]]


def group_offsets(log_directory: str) -> GroupOffsets | None:
    """Returns the committed offsets by topic and partition; None if there is no readable __consumer_offsets, or
    more than MAX_BYTES."""
    try:
        partitions = [list_segments(path) for path in list_partitions(log_directory) if _is_of_topic(path)]
    except (KsegError, OSError):
        return None
    found: defaultdict[tuple[str, int], list[GroupOffset]] = defaultdict(list)
    scratch, left = Scratch(), MAX_BYTES
    for files in partitions:
        replay = CommittedOffsets()
        for file in files:
            if file.kind != LOG or file.leftover:
                continue
            try:
                left -= _replayed(file, replay, scratch, left)
            except (KsegError, OSError):
                continue  # verification of that partition itself reports the error
            if left < 0:
                return None
        for each in replay.found():
            if each.offset is not None:
                found[each.topic, each.partition].append(GroupOffset(each.group, each.offset, each.topic_id))
    return dict(found) if partitions else None


def waiting_groups(
    offsets: GroupOffsets | None, partition: tuple[str | None, int | None], stable: int, topic_id: str | None = None
) -> list[GroupOffset] | None:
    """Returns the groups that cannot read beyond the last stable offset ``stable``, by descending offset.

    ``topic_id``: that of the partition; commits for an earlier topic of the same name are skipped. None if no offsets
    are known.
    """
    if offsets is None or partition[0] is None or partition[1] is None:
        return None
    of_topic = [
        each
        for each in offsets.get((partition[0], partition[1]), ())
        if each.offset <= stable and (topic_id is None or each.topic_id in (None, topic_id))
    ]
    return sorted(of_topic, key=lambda each: (-each.offset, each.group))


def _is_of_topic(path: str) -> bool:
    name = os.path.basename(path)
    partition = parse_partition_name(name)
    return partition is not None and partition[0] == OFFSETS_TOPIC and name == f"{OFFSETS_TOPIC}-{partition[1]}"


def _replayed(file: SegmentFile, replay: CommittedOffsets, scratch: Scratch, max_bytes: int) -> int:
    """Adds the intact batches of a segment unless it has more than ``max_bytes`` bytes. Returns its size."""
    with open_source(file.path) as source:
        if source.size <= max_bytes:
            reader = SegmentReader(source, scratch=scratch)
            for run in reader.runs():
                if isinstance(run, Damage):
                    continue
                for i in range(run.count):
                    batch = reader.batch(run, i, keep=False)
                    if batch.is_valid:
                        replay.add(batch)
        return source.size
