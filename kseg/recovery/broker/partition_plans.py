"""Plans the partitions of a log directory on several cores.

Small partitions are planned in worker processes, because most of that work runs in Python. This process plans large
partitions, which threads read, and those whose new content is too large to be sent between processes.
"""

import signal
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kseg.changes.plan import Content, Pieces
from kseg.errors import KsegError, PathError
from kseg.formats.suffixes import LOG
from kseg.recovery.broker.partition import Recovery, plan_partition
from kseg.recovery.options import BrokerStart
from kseg.recovery.workspace import SPILL_BYTES, File, Workspace, spill
from kseg.signals import restore_defaults
from kseg.stores import trees

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

MIN_PARTITIONS = 8
"""With fewer small partitions, starting processes takes longer than they save."""

LARGEST_BYTES = 64 << 20
"""Limit of the bytes in the segments of a small partition."""

CHUNKS_EACH = 8
"""Number of chunks per process: more chunks balance different sizes, fewer save messages."""

PartitionStart = tuple[str, BrokerStart]
"""A partition directory, and the facts that a broker's start knows."""

Outcome = Recovery | KsegError
"""A plan, or the error."""


def plan_partitions(tasks: Sequence[PartitionStart], jobs: int) -> Generator[Outcome]:
    """Yields the outcomes in the order of the tasks. ``jobs``: number of processes.

    Raises KsegError if a process dies. The caller must close the generator; this ends the processes.
    """
    small = [number for number, (directory, _) in enumerate(tasks) if _is_small(directory)]
    if jobs == 1 or len(small) < MIN_PARTITIONS or not trees.are_forkable():
        yield from map(_plan, tasks)
        return
    chosen = frozenset(small)
    with _processes(tasks, min(jobs, len(small))) as pool:
        with _worker_deaths_reported():  # a process may die before all are sent
            sent = pool.map(_plan_to_send, small, chunksize=max(1, len(small) // (jobs * CHUNKS_EACH)))
        for number, task in enumerate(tasks):
            found = _received(sent) if number in chosen else None
            yield _plan(task) if found is None else found


def _is_small(directory: str) -> bool:
    try:
        with trees.scandir(directory) as entries:
            sizes = (entry.stat(follow_symlinks=False).st_size for entry in entries if entry.name.endswith(LOG))
            return sum(sizes) <= LARGEST_BYTES
    except OSError:
        return False  # `plan_partition` reports the error


def _plan(task: PartitionStart) -> Outcome:
    try:
        return plan_partition(*task)
    except KsegError as error:
        return error
    except OSError as error:
        return PathError(f"{error.filename or task[0]}: {error.strerror or error}")


@contextmanager
def _processes(tasks: Sequence[PartitionStart], count: int) -> "Iterator[ProcessPoolExecutor]":
    # Importing these takes as long as planning a small partition.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # otherwise a forked process would write it again
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(count, context, _begin, (tasks,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


_tasks: Sequence[PartitionStart] = ()
"""The tasks in a worker process: sent once, because they share the facts of the log directory."""


def _begin(tasks: Sequence[PartitionStart]) -> None:
    global _tasks
    _tasks = tasks
    restore_defaults()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent receives it too, and ends its processes


def _plan_to_send(number: int) -> Outcome | None:
    """Returns None for a plan that cannot be sent, because its content is generated on reading."""
    directory, start = _tasks[number]
    found = _plan((directory, replace(start, jobs=1)))
    if isinstance(found, Recovery):
        if any(isinstance(step.pieces, Content) for step in found.plan.steps):
            return None
        found.plan.steps = [replace(step, pieces=_copied(step.pieces)) for step in found.plan.steps]
    return found


def _copied(pieces: Pieces) -> Pieces:
    """Returns the pieces without views of this process's memory or temporary files."""
    return tuple(bytes(piece) if isinstance(piece, memoryview) else piece for piece in pieces)


@contextmanager
def _worker_deaths_reported() -> Iterator[None]:
    """Raises KsegError if a worker process has died."""
    from concurrent.futures import BrokenExecutor

    try:
        yield
    except BrokenExecutor as error:
        raise KsegError(
            "a process that planned a partition has died (killed for want of memory?); nothing was changed; "
            "--jobs 1 works without such processes"
        ) from error


def _received(sent: Iterator[Outcome | None]) -> Outcome | None:
    """Returns the next outcome. Content of all partitions beyond SPILL_BYTES is moved to temporary files."""
    with _worker_deaths_reported():
        found = next(sent)
    if isinstance(found, Recovery):
        steps = found.plan.steps
        Workspace.made_bytes += sum(len(p) for step in steps for p in step.pieces if isinstance(p, bytes))
        if Workspace.made_bytes > SPILL_BYTES:
            files = spill({str(k): File(None, step.size, step.pieces) for k, step in enumerate(steps)})
            for k, file in files.items():
                steps[int(k)] = replace(steps[int(k)], pieces=file.pieces)
    return found
