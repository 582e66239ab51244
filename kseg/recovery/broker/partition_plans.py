"""``recover --mode broker``: plans the changes of a broker's start, for many partitions on several cores.

Small partitions are planned in worker processes, because most of that work runs in Python. This process plans large
partitions, which threads read, and those whose new content is too large to be sent between processes.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TypeVar

from kseg.changes.plan import Content, Plan, Removed
from kseg.errors import KsegError, PathError
from kseg.formats.suffixes import LOG, LOG_07
from kseg.kernel.layout.rows import CRC_RIGHT, FRAME_POSITION, FRAME_STATE, FRAME_WIDTH, be32
from kseg.logdir.topics import Interval
from kseg.recovery.broker.loading import PartitionLoad
from kseg.recovery.broker.losses import Cut, Loss, Remaining, remaining
from kseg.recovery.options import BrokerStart
from kseg.recovery.workspace import SPILL_BYTES, BrokerRefusesError, File, Workspace, offset_of, spill
from kseg.runtime.process_pool import Put, Work, in_processes
from kseg.segment.files import segment_stem
from kseg.segment.items import Damage
from kseg.segment.reader import Run, SegmentReader, open_segment
from kseg.stores import trees
from kseg.stores.source import check_readable

# Loads a partition of 0.6 and 0.7 as such a broker's start does (kafka.log.Log @0.7): .kafka segments, no other
# files. Offsets are byte positions.
#
# The name of a segment is its byte position in the whole log. It must end where the next one begins. After an unclean
# stop the last segment is truncated at the first message whose size or checksum is wrong; no other segment is read.

_SIZE_BYTES = 4
_MIN_SIZE = 5
_REASON = "cut at the first message that is not valid"


def _load_07(directory: str, workspace: Workspace, was_clean: bool) -> "Recovery":
    """Loads the partition. Raises BrokerRefusesError if such a broker would not start."""
    names = sorted(workspace.names(LOG_07), key=offset_of)
    if not names and workspace.names(LOG):
        raise BrokerRefusesError(f"{workspace.directory}: holds no .kafka segments: --era is not 0.7")
    if not names:
        names = [segment_stem(0) + LOG_07]
        workspace.write(names[0], [b""], "a log has at least one segment")
    for name, following in pairwise(names):
        if offset_of(name) + workspace.size(name) != offset_of(following):
            raise BrokerRefusesError(
                f"{workspace.directory}/{name}: does not end where {following} begins: a broker does not start"
            )
    last = names[-1]
    is_scanned = not was_clean and workspace.size(last) > 0
    cuts = _recovered_07(workspace, last) if is_scanned else []
    end = offset_of(last) + workspace.size(last)
    return Recovery(directory, workspace.plan(), end, cuts, [last] * is_scanned)


def _recovered_07(workspace: Workspace, name: str) -> list[Cut]:
    size = workspace.size(name)
    with open_segment(workspace.path(name), is_07=True) as reader:
        end = _valid_end(reader, f"{workspace.directory}/{name}")
        if end == size:
            return []
        check_readable(reader.source.path)
        loss = _lost(reader, end, offset_of(name))
    workspace.truncate(name, end, _REASON, [Removed(end, size - end, _REASON, None, None, loss.records)])
    return [Cut(name, end, size - end, offset_of(name) + end, loss=loss)]


def _valid_end(reader: SegmentReader, path: str) -> int:
    """Returns the position of the first invalid message. Raises BrokerRefusesError if 0.7 throws an exception for
    it."""
    position = 0
    while position < reader.end:
        reader.begin_at(position)
        for item in reader.runs():
            if not isinstance(item, Run):
                break
            states = item.rows[FRAME_STATE : item.count * FRAME_WIDTH : FRAME_WIDTH].tolist()
            wrong = next((i for i, state in enumerate(states) if not state & CRC_RIGHT), None)
            position = item.end if wrong is None else int(item.rows[wrong * FRAME_WIDTH + FRAME_POSITION])
            if wrong is not None:
                break
        if position < reader.end:
            size = _message_size(reader, position, path)
            if not size:
                break
            position += size
    return position


def _message_size(reader: SegmentReader, position: int, path: str) -> int:
    """Returns the size of the message at a position by 0.7's own rules, 0 if there is none or its checksum is wrong."""
    left = reader.end - position - _SIZE_BYTES
    if left < _MIN_SIZE:
        return 0
    head = bytes(reader.buffer[position : position + _SIZE_BYTES + 1])
    size, magic = be32(head, 0), head[_SIZE_BYTES]
    if size < _MIN_SIZE or size > left:
        return 0
    if magic > 1 or size < _MIN_SIZE + magic:
        raise BrokerRefusesError(
            f"{path}: the message at position {position} has magic {magic} and {size} bytes, at which this broker does "
            "not start; kseg dump shows the bytes after it"
        )
    found = reader.frame_at(position)
    return _SIZE_BYTES + size if found is not None else 0


def _lost(reader: SegmentReader, position: int, base: int) -> Loss:
    """Returns the intact messages from a position on as a loss."""
    found = Loss()
    reader.begin_at(position)
    for item in reader.runs():
        if isinstance(item, Damage):
            continue
        for at in range(0, item.count * FRAME_WIDTH, FRAME_WIDTH):
            if item.rows[at + FRAME_STATE] & CRC_RIGHT:
                offset = base + item.rows[at + FRAME_POSITION]
                found.add(Loss(1, 1, offset, offset))
    return found


DELETE_SUFFIX = "-delete"


@dataclass(slots=True)
class Recovery:
    """The plan for a partition and its facts. ``next_offset``: the log end afterwards; ``interval``: that of its
    indexes, None if it has none; ``remains``: damage that a broker's rules leave; ``unrepaired``: sentences about
    other problems that remain."""

    directory: str
    plan: Plan
    next_offset: int
    cuts: list[Cut] = field(default_factory=list)
    scanned: list[str] = field(default_factory=list)
    interval: Interval | None = None
    remains: list[Remaining] = field(default_factory=list)
    unrepaired: str = ""


def plan_partition(directory: str, start: BrokerStart) -> Recovery:
    """Plans the recovery. A partition with .kafka segments only is recovered as 0.7 does.

    Raises BrokerRefusesError if a broker would not start, PathError if the directory cannot be read.
    """
    workspace = start.workspace(directory)
    if start.era.is_07 or (workspace.names(LOG_07) and not workspace.names(LOG)):
        return _load_07(directory, workspace, start.was_clean)
    load = PartitionLoad(workspace, start)
    load.run(is_deleted=not start.name and directory.rstrip("/").endswith(DELETE_SUFFIX))
    remains = remaining(directory, load.segments, load.remains)
    return Recovery(
        directory, workspace.plan(), load.next_offset, load.cuts, load.scanned, load.interval, remains, load.unrepaired
    )


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
        yield from map(_plan, tasks)
        return
    size, chosen = max(1, len(small) // (jobs * CHUNKS_EACH)), frozenset(small)
    chunks = [[tasks[number] for number in small[first : first + size]] for first in range(0, len(small), size)]
    with closing(in_processes(min(jobs, len(small)), len(chunks), partial(_planning, chunks), _DIED)) as sent:
        for number, task in enumerate(tasks):
            found = _received(next(sent)) if number in chosen else None
            yield _plan(task) if found is None else found


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


def _plan(task: PartitionStart) -> Outcome:
    return outcome_of(plan_partition, *task)


def _planning(chunks: Sequence[Sequence[PartitionStart]], _number: int) -> Work:
    """Returns the work of a process: the plan of each partition of a chunk."""

    def plan(chunk: int, put: Put) -> None:
        for task in chunks[chunk]:
            put(_plan_to_send(*task))

    return plan


def _plan_to_send(directory: str, start: BrokerStart) -> Outcome | None:
    """Returns None for a plan that cannot be sent, because its content is generated on reading."""
    found = _plan((directory, replace(start, jobs=1)))
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
