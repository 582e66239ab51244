"""``recover --mode broker``: the plan that makes of a partition what the newest broker's start makes of it."""

from dataclasses import dataclass, field

from kseg.changes.plan import Plan
from kseg.recovery.loading import Cut, PartitionLoad, Start
from kseg.recovery.workspace import Workspace

DELETE_SUFFIX = "-delete"


@dataclass(slots=True)
class Recovery:
    """A plan for one partition and what it is made for. ``next_offset``: the log end afterwards."""

    directory: str
    plan: Plan
    next_offset: int
    cuts: list[Cut] = field(default_factory=list)
    scanned: list[str] = field(default_factory=list)


def plan_partition(directory: str, start: Start) -> Recovery:
    """Raises BrokerRefusesError where a broker would not start, PathError where the directory cannot be read."""
    workspace = Workspace(directory)
    load = PartitionLoad(workspace, start)
    load.run(is_deleted=directory.rstrip("/").endswith(DELETE_SUFFIX))
    return Recovery(directory, workspace.plan(), load.next_offset, load.cuts, load.scanned)
