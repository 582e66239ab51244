"""Plans many small partitions in several processes, with the same plans as one after the other."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TypeVar

from kseg.changes.plan import Content
from kseg.errors import KsegError, PathError
from kseg.formats.suffixes import LOG
from kseg.recovery.broker.loading import Recovery, plan_partition
from kseg.recovery.options import BrokerStart
from kseg.recovery.workspace import SPILL_BYTES, File, Workspace, spill
from kseg.runtime.process_pool import Put, Work, in_processes
from kseg.stores import trees

MIN_PARTITIONS = 8
"""With fewer small partitions, starting processes takes longer than they save."""

LARGEST_BYTES = 64 << 20
"""Limit of the bytes in the segments of a small partition."""

SAMPLED_SEGMENTS = 4
"""Sizes of about as many segments are asked for: one system call each, and only the order of work depends on them."""

CHUNKS_EACH = 8
"""Number of chunks per process: more chunks balance different sizes, fewer save messages."""

_DIED = (
    "a process that planned a partition has died (killed for want of memory?); nothing was changed; --jobs 1 works "
    "without such processes"
)

T = TypeVar("T")

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
        yield from (outcome_of(plan_partition, *task) for task in tasks)
        return
    size, chosen = max(1, len(small) // (jobs * CHUNKS_EACH)), frozenset(small)
    chunks = [[tasks[number] for number in small[first : first + size]] for first in range(0, len(small), size)]
    with closing(in_processes(min(jobs, len(small)), len(chunks), partial(_planning, chunks), _DIED)) as sent:
        for number, task in enumerate(tasks):
            found = _received(next(sent)) if number in chosen else None
            yield outcome_of(plan_partition, *task) if found is None else found


def _is_small(directory: str) -> bool:
    """Whether the segments have at most `LARGEST_BYTES`, as far as a sample of them shows."""
    try:
        with trees.scandir(directory) as entries:
            logs = [entry for entry in entries if entry.name.endswith(LOG)]
            sample = logs[:: max(1, len(logs) // SAMPLED_SEGMENTS)]
            sizes = [entry.stat(follow_symlinks=False).st_size for entry in sample]
            return sum(sizes) * len(logs) <= LARGEST_BYTES * len(sizes)
    except OSError:
        return False  # `plan_partition` reports the error


def outcome_of(plan: Callable[[str, BrokerStart], T], directory: str, start: BrokerStart) -> T | KsegError:
    """Returns the plan, or the error of making it."""
    try:
        return plan(directory, start)
    except KsegError as error:
        return error
    except OSError as error:
        return PathError(f"{error.filename or directory}: {error.strerror or error}")


def _planning(chunks: Sequence[Sequence[PartitionStart]], _number: int) -> Work:
    """Returns the work of a process: the plan of each partition of a chunk."""

    def plan(chunk: int, put: Put) -> None:
        for task in chunks[chunk]:
            put(_plan_to_send(*task))

    return plan


def _plan_to_send(directory: str, start: BrokerStart) -> Outcome | None:
    """Returns None for a plan that cannot be sent, because its content is generated on reading."""
    found = outcome_of(plan_partition, directory, replace(start, jobs=1))
    if isinstance(found, Recovery):
        if any(isinstance(step.pieces, Content) for step in found.plan.steps):
            return None
        for i, step in enumerate(found.plan.steps):  # without views of this process's memory or temporary files
            pieces = tuple(bytes(piece) if isinstance(piece, memoryview) else piece for piece in step.pieces)
            found.plan.steps[i] = replace(step, pieces=pieces)
    return found


def _received(found: Outcome | None) -> Outcome | None:
    """Returns an outcome. Content of all partitions beyond SPILL_BYTES is moved to temporary files."""
    if isinstance(found, Recovery):
        steps = found.plan.steps
        Workspace.made_bytes += sum(len(p) for step in steps for p in step.pieces if isinstance(p, bytes))
        if Workspace.made_bytes > SPILL_BYTES:
            files = spill({str(k): File(None, step.size, step.pieces) for k, step in enumerate(steps)})
            for k, file in files.items():
                steps[int(k)] = replace(steps[int(k)], pieces=file.pieces)
    return found
