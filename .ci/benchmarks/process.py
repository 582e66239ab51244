"""Runs what is measured, in turns: whole processes and calls, how long each takes, and the most memory it holds."""

import argparse
import compileall
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
POLL_SECONDS = 0.004
KSEG = [sys.executable, "-m", "kseg"]


def parser_of(
    description: str | None, mib: int = 0, rounds: int = 3, kinds: Iterable[str] = ()
) -> argparse.ArgumentParser:
    """The options that benchmarks share: the size of segments and their kinds, if there are any, rounds and folder.

    Compiles kseg's modules to bytecode, too.
    """
    compileall.compile_dir(Path(__file__).parents[2] / "kseg", quiet=2)  # as pip does; otherwise each run might
    parser = argparse.ArgumentParser(description=description)
    if mib:
        parser.add_argument("--mib", type=int, default=mib, help=f"size of each segment (default: {mib})")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"of which the best counts (default: {rounds})")
    if kinds:
        parser.add_argument("--kinds", default=",".join(kinds), help=f"out of {','.join(kinds)}")
    folder = Path(tempfile.gettempdir(), "kseg-benchmarks")
    parser.add_argument("--folder", type=Path, default=folder, help="where segments and jars are kept")
    return parser


def best(measures: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The smallest of each measure, all of them taken in turns."""
    found = dict.fromkeys(measures, float("inf"))
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name] = min(found[name], measure())
    return found


def timed(command: list[str], **environment: str) -> tuple[float, int]:
    """(wall seconds, peak anonymous bytes) of a command that must end with 0; its output is thrown away."""
    start, peak = time.perf_counter(), 0
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    while process.poll() is None:
        peak = max(peak, anonymous_bytes(process.pid))
        time.sleep(POLL_SECONDS)
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


def best_spent(
    commands: dict[str, list[str]],
    rounds: int,
    prepare: Callable[[str], object] = lambda _: None,
    statuses: dict[str, int] | None = None,
) -> dict[str, tuple[float, float]]:
    """The least of `spent` for each command; they take turns, and ``prepare`` gets the name of the next one.

    ``statuses`` of those that do not end with 0.
    """
    found = dict.fromkeys(commands, (float("inf"), float("inf")))
    for _ in range(rounds):
        for name, command in commands.items():
            prepare(name)
            wall, processor = spent(command, (statuses or {}).get(name, 0))
            found[name] = min(found[name][0], wall), min(found[name][1], processor)
    return found


def printed(command: list[str], **environment: str) -> list[float]:
    """The numbers that a benchmark of one process prints: seconds of its best rounds first, records or bytes last."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **environment}, check=True
    )
    return [float(number) for number in done.stdout.split()]


_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Processes below this one stay below it when their parents end: `spent_so_far` goes on to count them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def spent_so_far(pid: int) -> float:
    """Processor's seconds of a process, of its children, and of those that it has waited for."""
    try:
        fields = (PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0  # it has just ended
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(spent_so_far, children(pid)))


def peaks(pid: int) -> dict[str, int]:
    """The most MiB that a process of each name below this one has held, itself included, of those that still run."""
    found = {name: largest_bytes(pid) >> 20 for name in _status(pid, "Name")}
    for child in children(pid):
        for name, size in peaks(child).items():
            found[name] = max(found.get(name, 0), size)
    return found


def _status(pid: int, field: str) -> list[str]:
    """What the system tells of a process under that name; nothing where it does not, or where the process has ended."""
    try:
        lines = (PROC / f"{pid}/status").read_text().splitlines()
    except OSError:
        return []
    return [line.split()[1] for line in lines if line.startswith(f"{field}:")]


def children(pid: int) -> list[int]:
    """Of all threads of a process."""
    found = []
    with suppress(OSError):  # a process that has just ended
        for task in (PROC / f"{pid}/task").glob("*/children"):
            with suppress(OSError):  # a thread that has
                found += map(int, task.read_text().split())
    return found


def anonymous_bytes(pid: int) -> int:
    """Anonymous resident memory of a process and its children; 0 where the system does not tell."""
    return sum(int(size) << 10 for size in _status(pid, "RssAnon")) + sum(map(anonymous_bytes, children(pid)))


def largest_bytes(pid: int) -> int:
    """The most resident memory that a process has had, shared pages among it; 0 where the system does not tell.

    Not what `os.wait4` tells: that counts what the parent had when the process began.
    """
    return sum(int(size) << 10 for size in _status(pid, "VmHWM"))
