"""Reverts one command's entries in a checkpoint of a log directory or of leader epochs, and keeps those of others."""

from kseg.sidefiles.checkpoints import OffsetCheckpoint, build_offset_checkpoint, read_offset_checkpoint
from kseg.sidefiles.leader_epochs import EpochEntry, build_leader_epochs, read_leader_epochs
from kseg.sidefiles.problems import entries_of, problems_of

OffsetsByPartition = dict[tuple[str, int], int]


def revert_entries(now: bytes, known: bytes, left: bytes) -> bytes | None:
    """Returns ``now`` with the entries that differ between ``known`` and ``left`` set back to those in ``known``.

    ``known`` is the file before the command, ``left`` the file after it, ``now`` the file today. Entries that are
    already reverted stay. Returns None if an entry has a third value, or if one of the contents is not a valid
    checkpoint.
    """
    found, before, after = (_offsets(content) for content in (now, known, left))
    if found is None or before is None or after is None:
        return None
    if now == left:
        return known
    merged = dict(found)
    for partition in before.keys() | after.keys():
        old, new, current = before.get(partition), after.get(partition), found.get(partition)
        if old == new or current == old:
            continue
        if current != new:
            return None
        if old is None:
            del merged[partition]
        else:
            merged[partition] = old
    if merged == found:
        return now
    return build_offset_checkpoint(OffsetCheckpoint(*partition, offset) for partition, offset in merged.items())


def _offsets(content: bytes) -> OffsetsByPartition | None:
    items = list(read_offset_checkpoint(content))
    if problems_of(items):
        return None
    return {(entry.topic, entry.partition): entry.offset for entry in entries_of(items)}


def restore_start(known: bytes, now: bytes) -> bytes | None:
    """Returns leader epochs: ``now`` with the entries of ``known`` that precede its first entry.

    Returns None if ``now`` is not a continuation of ``known``, or if its start was not the part that changed.
    """
    items, found = list(read_leader_epochs(known)), list(read_leader_epochs(now))
    old, new = entries_of(items), entries_of(found)
    if problems_of(items) or problems_of(found) or not new:
        return None
    first = new[0]
    start = next((entry.start_offset for entry in old if entry.epoch == first.epoch), None)
    if start is None or start > first.start_offset:
        return None
    before = [entry for entry in old if entry.epoch < first.epoch]
    whole = [*before, EpochEntry(first.epoch, start), *new[1:]]
    return None if whole == new else build_leader_epochs(whole)
