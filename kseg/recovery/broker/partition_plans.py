"""Plans for the partitions of a log directory, made on several cores.

Small partitions are planned in processes, as most of that work is Python's own. A large one is planned by this process,
whose threads read it, and so is one whose new content is too large to be sent from one process to another.
"""

import os
import signal
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kseg.changes.plan import Content, Pieces
from kseg.errors import KsegError, PathError
from kseg.recovery.broker.partition import Recovery, plan_partition
from kseg.recovery.broker.segments import LOG
from kseg.recovery.broker.start import Start
from kseg.recovery.spill import File, spill
from kseg.recovery.workspace import SPILL_BYTES, Workspace
from kseg.signals import restore_defaults

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

LEAST_PARTITIONS = 8
"""For fewer small partitions, processes take longer to start than they save."""

LARGEST_BYTES = 64 << 20
"""Of the segments of a small partition."""

CHUNKS_EACH = 8
"""How often a process takes some partitions: more often evens out their sizes, less often saves messages."""

Task = tuple[str, Start]
"""A partition directory, and what a broker's start knows of it."""

Outcome = Recovery | KsegError
"""A plan, or why there is none."""


def plan_partitions(tasks: Sequence[Task], jobs: int) -> Generator[Outcome]:
    """The outcome of each task, in their order. ``jobs``: how many processes.

    Raises KsegError where a process dies. To be closed, as that ends the processes.
    """
    small = [number for number, (directory, _) in enumerate(tasks) if _is_small(directory)]
    if jobs == 1 or len(small) < LEAST_PARTITIONS:
        yield from map(_plan, tasks)
        return
    chosen = frozenset(small)
    with _processes(tasks, min(jobs, len(small))) as pool:
        with _deaths_told():  # a process may die before all are sent
            sent = pool.map(_plan_to_send, small, chunksize=max(1, len(small) // (jobs * CHUNKS_EACH)))
        for number, task in enumerate(tasks):
            found = _received(sent) if number in chosen else None
            yield _plan(task) if found is None else found


def _is_small(directory: str) -> bool:
    try:
        with os.scandir(directory) as entries:
            sizes = (entry.stat(follow_symlinks=False).st_size for entry in entries if entry.name.endswith(LOG))
            return sum(sizes) <= LARGEST_BYTES
    except OSError:
        return False  # `plan_partition` tells what is wrong


def _plan(task: Task) -> Outcome:
    try:
        return plan_partition(*task)
    except KsegError as error:
        return error
    except OSError as error:
        return PathError(f"{error.filename or task[0]}: {error.strerror or error}")


@contextmanager
def _processes(tasks: Sequence[Task], count: int) -> "Iterator[ProcessPoolExecutor]":
    # The import of these takes as long as the planning of a small partition.
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # a forked process would write it once more
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(count, context, _begin, (tasks,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


_tasks: Sequence[Task] = ()
"""In a process of the pool: given to it once, as all tasks share what is known of the log directory."""


def _begin(tasks: Sequence[Task]) -> None:
    global _tasks
    _tasks = tasks
    restore_defaults()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends its processes


def _plan_to_send(number: int) -> Outcome | None:
    """None for a plan that cannot be sent, because its content is made as it is read."""
    directory, start = _tasks[number]
    found = _plan((directory, replace(start, jobs=1)))
    if isinstance(found, Recovery):
        if any(isinstance(step.pieces, Content) for step in found.plan.steps):
            return None
        found.plan.steps = [replace(step, pieces=_copied(step.pieces)) for step in found.plan.steps]
    return found


def _copied(pieces: Pieces) -> Pieces:
    """Without views of the memory, or of the temporary files, of this process."""
    return tuple(bytes(piece) if isinstance(piece, memoryview) else piece for piece in pieces)


@contextmanager
def _deaths_told() -> Iterator[None]:
    """Raises KsegError where a process of the pool has died."""
    from concurrent.futures import BrokenExecutor

    try:
        yield
    except BrokenExecutor as error:
        raise KsegError(
            "a process that planned a partition has died (killed for want of memory?); nothing was changed; "
            "--jobs 1 works without such processes"
        ) from error


def _received(sent: Iterator[Outcome | None]) -> Outcome | None:
    """The next outcome. Content beyond SPILL_BYTES, of all partitions, goes to temporary files."""
    with _deaths_told():
        found = next(sent)
    if isinstance(found, Recovery):
        steps = found.plan.steps
        Workspace.made_bytes += sum(len(p) for step in steps for p in step.pieces if isinstance(p, bytes))
        if Workspace.made_bytes > SPILL_BYTES:
            files = spill({str(k): File(None, step.size, step.pieces) for k, step in enumerate(steps)})
            for k, file in files.items():
                steps[int(k)] = replace(steps[int(k)], pieces=file.pieces)
    return found
