"""Leader epochs of a log whose beginning comes back, where a broker has added some at its end since."""

from kseg.sidefiles.leader_epochs import EpochEntry, build_leader_epochs, read_leader_epochs
from kseg.sidefiles.problems import entries_of, problems_of

EPOCH_FILE = "leader-epoch-checkpoint"


def with_beginning(known: bytes, now: bytes) -> bytes | None:
    """``now`` with what lay before its first entry in ``known``; None where it is no continuation of that, or where
    its beginning is not what was changed."""
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
