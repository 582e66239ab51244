"""Determines the available memory of the machine and of the process's control group."""

import os

_CGROUP_2 = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")
_CGROUP_1 = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes")
_MIN_BYTES = 16 << 20


def default_memory_bytes() -> int:
    """Returns a quarter of the available memory, at least 16 MiB."""
    return max(available_bytes() // 4, _MIN_BYTES)


def available_bytes() -> int:
    """Returns the bytes that can be allocated without swapping, within the control group's limit."""
    found = [free for free in (_of_machine(), _of_group(*_CGROUP_2), _of_group(*_CGROUP_1)) if free is not None]
    return max(min(found, default=0), 0)


def _of_machine() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            for line in stream:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass  # not Linux: half of the memory is a good enough estimate
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return None


def _of_group(limit_path: str, usage_path: str) -> int | None:
    try:
        with open(limit_path, encoding="ascii") as limit, open(usage_path, encoding="ascii") as usage:
            return int(limit.read()) - int(usage.read())
    except (OSError, ValueError):
        return None  # no such control group, or no limit ("max")
