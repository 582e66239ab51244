"""Whole processes: how long one takes, and the most anonymous memory it and its children held at once."""

import os
import resource
import subprocess
import time
from pathlib import Path

PROC = Path("/proc")
LOOK_SECONDS = 0.004


def timed(command: list[str], **environment: str) -> tuple[float, int]:
    """(wall seconds, peak anonymous bytes) of a command that must end with 0; its output is thrown away."""
    start, peak = time.perf_counter(), 0
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    while process.poll() is None:
        peak = max(peak, anonymous_bytes(process.pid))
        time.sleep(LOOK_SECONDS)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}")
    return seconds, peak


def spent(command: list[str], status: int = 0) -> tuple[float, float]:
    """(wall seconds, processor's seconds) of a command that must end with a status; its output is thrown away."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != status:
        raise SystemExit(f"{' '.join(command)}: exit status {done.returncode}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def printed(command: list[str], **environment: str) -> list[float]:
    """The numbers that a benchmark of one process prints: seconds of its best rounds first, records or bytes last."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **environment}, check=True
    )
    return [float(number) for number in done.stdout.split()]


def anonymous_bytes(pid: int) -> int:
    """Anonymous resident memory of a process and its children; 0 where the system does not tell."""
    total = 0
    try:
        for line in (PROC / f"{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                total += int(line.split()[1]) * 1024
        for task in (PROC / f"{pid}/task").iterdir():
            total += sum(anonymous_bytes(int(child)) for child in (task / "children").read_text().split())
    except OSError:
        return total  # it has just ended
    return total


def largest_bytes(pid: int) -> int:
    """The most resident memory that a process has had, shared pages among it; 0 where the system does not tell.

    Not what `os.wait4` tells: that counts what the parent had when the process began.
    """
    try:
        for line in (PROC / f"{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # it has just ended
    return 0
