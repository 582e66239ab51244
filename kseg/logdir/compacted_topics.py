"""Determines whether a partition is compacted, so that gaps in its offsets are no damage."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kseg.logdir.log_directory import LogDirectory


class CompactedTopics:
    """Reads each log directory once, on first use: its metadata may be large."""

    def __init__(self) -> None:
        self._around: dict[str, LogDirectory | None] = {}

    def is_compacted(self, directory: str) -> bool:
        """Whether a partition is compacted, by its topic's policy, the cleaner's checkpoint, or the topic's name."""
        from kseg.logdir.log_directory import directory_around
        from kseg.logdir.partition_state import state_by_name  # few logs have gaps

        root, name = os.path.split(os.path.abspath(directory))
        if root not in self._around:
            self._around[root] = directory_around(directory)
        around = self._around[root]
        state = around.broker_state(name) if around else state_by_name(name.rpartition("-")[0])
        return bool(state.is_compacted) or state.cleaner_offset is not None
