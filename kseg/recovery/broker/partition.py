"""``recover --mode broker``: plans the changes that a broker's start makes to a partition."""

from dataclasses import dataclass, field

from kseg.changes.plan import Plan
from kseg.formats.suffixes import LOG, LOG_07
from kseg.logdir.index_interval import Interval
from kseg.recovery.broker.loading import PartitionLoad
from kseg.recovery.broker.remains import Remaining, remaining
from kseg.recovery.broker.start import BrokerStart, Cut
from kseg.recovery.broker.v07 import Load07

DELETE_SUFFIX = "-delete"


@dataclass(slots=True)
class Recovery:
    """The plan for a partition and its facts. ``next_offset``: the log end afterwards; ``interval``: that of its
    indexes, None if it has none; ``remains``: damage that a broker's rules leave; ``unrepaired``: sentences about
    other problems that remain."""

    directory: str
    plan: Plan
    next_offset: int
    cuts: list[Cut] = field(default_factory=list)
    scanned: list[str] = field(default_factory=list)
    interval: Interval | None = None
    remains: list[Remaining] = field(default_factory=list)
    unrepaired: str = ""


def plan_partition(directory: str, start: BrokerStart) -> Recovery:
    """Plans the recovery. A partition with .kafka segments only is recovered as 0.7 does.

    Raises BrokerRefusesError if a broker would not start, PathError if the directory cannot be read.
    """
    workspace = start.workspace(directory)
    if start.era.is_07 or (workspace.names(LOG_07) and not workspace.names(LOG)):
        old = Load07(workspace, start)
        old.run()
        return Recovery(directory, workspace.plan(), old.next_offset, old.cuts, old.scanned)
    load = PartitionLoad(workspace, start)
    load.run(is_deleted=not start.name and directory.rstrip("/").endswith(DELETE_SUFFIX))
    remains = remaining(directory, load.segments, load.remains)
    return Recovery(
        directory, workspace.plan(), load.next_offset, load.cuts, load.scanned, load.interval, remains, load.unrepaired
    )
