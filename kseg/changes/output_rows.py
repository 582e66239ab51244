"""The entries of checkpoints that copies of partitions take along to the log directory in which they are written."""

from collections.abc import Mapping

from kseg.changes.journal import TopicPartition, checkpoint_entries, known_root_files, topic_partition_of
from kseg.node.log_directory import checkpoint_offsets
from kseg.sidefiles.checkpoints import (
    CLEANER_OFFSETS,
    LOG_STARTS,
    OFFSET_CHECKPOINTS,
    build_offset_checkpoint,
    offsets_of,
    read_offset_checkpoint,
)
from kseg.stores.place import Place

Rows = dict[str, dict[TopicPartition, int]]
"""The entries of each checkpoint file."""

CopiedRows = dict[str, dict[TopicPartition, int | None]]
"""The entry of each copied partition in each checkpoint file, None for no entry."""

NEEDED_BY_COPIES = (LOG_STARTS, CLEANER_OFFSETS)
"""The checkpoints whose entries a copy cannot do without: deleted records would come back, and nothing else tells that
a partition is compacted."""


def rows_to_extend(directory: str) -> Rows:
    """Returns the entries in the checkpoints of a log directory. Raises KsegError if a file is damaged."""
    known = known_root_files(directory, OFFSET_CHECKPOINTS)
    return {name: checkpoint_entries(directory, name, known) for name in OFFSET_CHECKPOINTS}


def copied_rows(source: str, contents: Mapping[str, bytes], names: Mapping[str, str]) -> CopiedRows:
    """Returns the entries of partitions of a log directory under their new names.

    ``contents``: its checkpoints as a plan leaves them, where they differ from the files; ``names``: the new name of
    each partition directory.
    """
    found: CopiedRows = {}
    for name in OFFSET_CHECKPOINTS:
        is_planned = name in contents
        rows = (
            offsets_of(read_offset_checkpoint(contents[name]))
            if is_planned
            else checkpoint_offsets(Place(source) / name)
        )
        for old, new in names.items():
            target, place = topic_partition_of(new), topic_partition_of(old)
            if target is not None:
                place = target if is_planned and target in rows else place
                found.setdefault(name, {})[target] = None if place is None else rows.get(place)
    return found


def checkpoints_with(rows: Rows, copied: CopiedRows) -> dict[str, bytes]:
    """Returns the contents of the checkpoints that change if ``rows`` get the entries of copied partitions, in place of
    those that an earlier partition of the name has left."""
    found = {}
    for name, entries in copied.items():
        own = rows.get(name, {})
        kept = {place: offset for place, offset in own.items() if place not in entries}
        added = {place: offset for place, offset in entries.items() if offset is not None}
        if kept | added != own:
            found[name] = build_offset_checkpoint(kept | added)
    return found
