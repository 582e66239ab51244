"""Whether gaps in a log may be the work of its cleaner: what the log directory around it says."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kseg.logdir.log_directory import LogDirectory


class CompactedTopics:
    """Each log directory is read once, when it is first asked for: its metadata may be large."""

    def __init__(self) -> None:
        self._around: dict[str, LogDirectory | None] = {}

    def is_compacted(self, directory: str) -> bool:
        """By the topic's policy in __cluster_metadata, by the cleaner's checkpoint, or by the name of the topic."""
        from kseg.logdir.log_directory import directory_around
        from kseg.logdir.partition_state import state_by_name  # few logs have gaps

        root, name = os.path.split(os.path.abspath(directory))
        if root not in self._around:
            self._around[root] = directory_around(directory)
        around = self._around[root]
        state = around.broker_state(name) if around else state_by_name(name.rpartition("-")[0])
        return bool(state.is_compacted) or state.cleaner_offset is not None
