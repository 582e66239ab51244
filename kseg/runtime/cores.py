"""The number of cores that this process may use."""

import os


def usable_cores() -> int:
    """The cores that the scheduler gives this process: the default of ``--jobs``."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
