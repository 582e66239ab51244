"""Restores the first leader epochs of a restored log start, and keeps epochs appended meanwhile."""

from kseg.sidefiles.leader_epochs import EpochEntry, build_leader_epochs, read_leader_epochs
from kseg.sidefiles.problems import entries_of, problems_of


def restore_start(known: bytes, now: bytes) -> bytes | None:
    """Returns ``now`` with the entries of ``known`` that precede its first entry.

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
