"""What the table of findings tells of each code."""

from typing import NamedTuple

ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)

REPLICA, TOPIC_ID, DECISION, BROKER = "replica", "topic id", "decision", "broker"
NEEDS = (REPLICA, TOPIC_ID, DECISION, BROKER)
"""What a repair may need: another replica's bytes, an id, the choice to lose something, a running broker."""

RECOVER, SALVAGE = "kseg recover", "kseg recover --mode salvage"
REBUILD_EPOCHS = "kseg recover --rebuild-epochs"
FROM_REPLICA, WITH_TOPIC_ID = "kseg recover --from-replica DIR", "kseg recover --topic-id UUID"
DROP_UNDECODABLE = "kseg recover --mode salvage --drop-undecodable"
REINDEX, SNAPSHOTS = "kseg reindex", "kseg reindex --snapshots"
COMPLETE = "kseg undo --complete"


class Kind(NamedTuple):
    """``means`` says what follows for a broker and for consumers.

    ``repair`` is the command that helps, "" where none does. ``needs`` is one of NEEDS, None where the command needs
    nothing that kseg cannot know.

    ``is_cut``: a broker's scan cuts the log here. Where other replicas hold the partition that is the repair, as they
    give back what is cut; else salvage. ``is_repaired_alone``: only a command for the partition itself repairs it.
    ``is_refused``: no command for a whole log directory works before someone has decided on it.
    """

    severity: str
    sentence: str
    means: str
    repair: str = ""
    needs: str | None = None
    is_cut: bool = False
    is_repaired_alone: bool = False
    is_refused: bool = False
