"""The backlog of the log cleaner in each summarized partition."""

import os
import time
from typing import Any

from kseg.cleaner.backlog import backlog_of
from kseg.logdir.log_directory import LogDirectory, directory_around, state_by_name
from kseg.segment.files import parse_partition_name


class Backlogs:
    """Reads each log directory once. ``now_ms``: None for the current time."""

    def __init__(self, now_ms: int | None) -> None:
        self._now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        self._directories: dict[str, LogDirectory | None] = {}

    def __call__(self, partition: str, damaged: str) -> dict[str, Any] | None:
        """Returns the backlog as JSON, None if no cleaner cleans the partition. ``damaged``: see `backlog_of`."""
        path = os.path.abspath(partition)
        around, name = os.path.split(path)
        if around not in self._directories:
            self._directories[around] = directory_around(path)
        directory = self._directories[around]
        place = parse_partition_name(name)
        state = state_by_name(place[0] if place else None) if directory is None else directory.broker_state(name)
        found = backlog_of(partition, state, self._now_ms, damaged)
        return None if found is None else found.as_object()
