"""Converts a partition to a folder, with its side files, and plans the replacement of the old files.

Transaction indexes, producer snapshots and leader epochs are unchanged if every batch stays in a segment with the same
base offset; except snapshots, if records are regrouped. Otherwise they are built from the batches, as a broker does
when it appends and rolls.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from kseg.changes.disk import Disk, umask
from kseg.changes.plan import Plan, Removed
from kseg.conversion.options import ConvertOptions
from kseg.conversion.partition import Converted, convert_segments
from kseg.errors import PathError, UnsupportedError
from kseg.formats.suffixes import CLEANED, LOG, LOGS, SIDE_SUFFIXES, SNAPSHOT, SWAP, TRANSACTION_INDEX
from kseg.kernel.layout.headers import MAGIC_V2
from kseg.kernel.layout.rows import BATCH_FIRST_OFFSET, BATCH_LEADER_EPOCH, BATCH_MAGIC, BATCH_PRODUCER_ID, BATCH_WIDTH
from kseg.limits import MAX_ROOT_FILE_BYTES
from kseg.segment.files import METADATA_TOPIC, SegmentFile, list_segments, segment_stem
from kseg.segment.items import Damage
from kseg.segment.writer import WrittenSegment, batch_rows
from kseg.sidefiles.checkpoints import LEADER_EPOCHS, EpochEntry, build_leader_epochs
from kseg.sidefiles.indexes import build_transaction_index
from kseg.sidefiles.problems import entries_of, problems_of
from kseg.sidefiles.producer_state import (
    ProducerStateEntry,
    ProducerStates,
    build_producer_snapshot,
    order_as_broker,
    read_producer_snapshot,
)
from kseg.sidefiles.text_files import PARTITION_METADATA
from kseg.stores import trees
from kseg.stores.regular_files import open_regular, read_regular
from kseg.stores.source import open_source

_CARRIED = (TRANSACTION_INDEX, SNAPSHOT)


def make_side_files(segments: list[WrittenSegment], seed: bytes | None) -> Iterator[tuple[str, bytes]]:
    """Yields names and contents of side files of the written segments. ``seed``: the producer snapshot at the first
    one.
    """
    states, epochs, last = ProducerStates(_entries(seed)), [], -1
    has_producers = len(states) > 0
    for number, segment in enumerate(segments):
        if number and has_producers:
            yield segment.name(SNAPSHOT), _snapshot(states)
        states.state.clear()
        aborted = []
        with open_source(segment.paths[LOG]) as source:
            for rows, count in batch_rows(source.buffer, 0):
                columns = count * BATCH_WIDTH
                has_producers |= max(rows[BATCH_PRODUCER_ID:columns:BATCH_WIDTH].tolist()) >= 0
                if has_producers:
                    aborted += [abort.entry for abort in states.replay(rows, count)[2] if abort.entry is not None]
                for at in range(0, columns, BATCH_WIDTH):
                    if rows[at + BATCH_MAGIC] == MAGIC_V2 and rows[at + BATCH_LEADER_EPOCH] > last:
                        last = rows[at + BATCH_LEADER_EPOCH]
                        epochs.append(EpochEntry(last, rows[at + BATCH_FIRST_OFFSET]))
        if aborted:
            yield segment.name(TRANSACTION_INDEX), build_transaction_index(aborted)
    # An empty last segment ends at its base offset, where a snapshot was taken.
    is_made = len(segments) > 1 and segments[-1].next_offset == segments[-1].base_offset
    if has_producers and not is_made:
        yield segment_stem(segments[-1].next_offset) + SNAPSHOT, _snapshot(states)
    yield LEADER_EPOCHS, build_leader_epochs(epochs)


def _entries(seed: bytes | None) -> list[ProducerStateEntry]:
    if seed is None:
        return []
    items = list(read_producer_snapshot(seed))
    return [] if problems_of(items) else entries_of(items)


def _snapshot(states: ProducerStates) -> bytes:
    return build_producer_snapshot(order_as_broker(states.entries()))


MAX_GAPS = 10_000
_UNFINISHED = (CLEANED, SWAP)


Conversion = Callable[[str, list[SegmentFile], ConvertOptions, str | None], Converted]


@dataclass(slots=True)
class Rewritten:
    """``files``: names and sizes of the written files; ``carried``: names of side files that stay unchanged."""

    converted: Converted
    files: dict[str, int] = field(default_factory=dict)
    carried: list[str] = field(default_factory=list)


def segments_of(directory: str) -> list[SegmentFile]:
    """Returns the segments of a partition that can be converted. Raises PathError, UnsupportedError."""
    if os.path.basename(os.path.abspath(directory)).startswith(METADATA_TOPIC + "-"):
        raise UnsupportedError(f"{directory}: the log of cluster metadata has one format only, that of its brokers")
    found = list_segments(directory)
    if not found:
        raise PathError(f"{directory}: holds no segments")
    if unfinished := [name for name in sorted(trees.listdir(directory)) if name.endswith(_UNFINISHED)]:
        raise UnsupportedError(f"{directory}/{unfinished[0]}: a cleaning was interrupted; kseg recover finishes it")
    return found


def rewrite(
    name: str,
    files: list[SegmentFile],
    directory: str | None,
    request: ConvertOptions,
    folder: str | None,
    convert: Conversion = convert_segments,
) -> Rewritten:
    """Writes the segments to ``folder``, or only counts without one.

    ``directory``: the directory of side files, if any; ``convert``: converts the segments. Raises DamageError,
    LossError.
    """
    found = convert(name, files, request, folder)
    made = Rewritten(found)
    for segment in found.segments:
        made.files.update({segment.name(suffix): size for suffix, size in segment.sizes.items()})
    if request.magic in (0, 1):
        return made
    # Producer snapshots contain the last batch of each producer, which differs if records are regrouped.
    keeps_batches = found.is_same_log or request.batch_bytes is None
    stays: tuple[str, ...] = ()
    if directory is not None:
        made.carried = [LEADER_EPOCHS] if trees.exists(os.path.join(directory, LEADER_EPOCHS)) else []
        if found.has_same_segments:
            stays = SIDE_SUFFIXES if keeps_batches else tuple(suffix for suffix in SIDE_SUFFIXES if suffix != SNAPSHOT)
            carried = [name for name in sorted(trees.listdir(directory)) if name.endswith(_CARRIED)]
            made.carried += [name for name in carried if name.endswith(stays) or name == _first_snapshot(found)]
    if folder is not None and not (stays == SIDE_SUFFIXES and LEADER_EPOCHS in made.carried):
        for each, content in make_side_files(found.segments, _seed(directory, found)):
            if each not in made.carried and not each.endswith(stays):
                Disk().write_file(os.path.join(folder, each), content, folder)
                made.files[each] = len(content)
    return made


def _first_snapshot(found: Converted) -> str:
    """Returns the name of the producer snapshot at the first segment, "" without segments."""
    return segment_stem(found.segments[0].base_offset) + SNAPSHOT if found.segments else ""


def _seed(directory: str | None, found: Converted) -> bytes | None:
    """Returns the producer snapshot at the first segment."""
    if directory is None or not found.segments:
        return None
    path = os.path.join(directory, _first_snapshot(found))
    return read_regular(path, MAX_ROOT_FILE_BYTES) if trees.exists(path) else None


def complete(folder: str, directory: str, carried: list[str]) -> None:
    """Adds the unchanged files to a new partition, and gives its files the owner and mode of the old ones."""
    disk = Disk()
    for name in [*carried, PARTITION_METADATA]:
        if trees.exists(os.path.join(directory, name)):
            disk.copy_file(os.path.join(directory, name), os.path.join(folder, name), folder)
    copy_owner_to_files(folder, directory, umask())


def copy_owner_to_files(folder: str, directory: str, mask: int = 0) -> None:
    """Sets owner and mode of new files, less ``mask``, as far as this user may."""
    disk, model = Disk(), next((file.path for file in list_segments(directory)), directory)
    for name in sorted(trees.listdir(folder)):
        with suppress(PermissionError):
            disk.copy_owner(os.path.join(folder, name), model, mask=mask)


def plan_rewriting(directory: str, made: Rewritten, folder: str | None, reason: str) -> Plan:
    """Returns the plan that replaces the old files by the output of ``rewrite``; without a folder it can only be shown.

    The plan is empty if no batch has changed.
    """
    plan = Plan(directory)
    found = made.converted
    if found.is_same_log:
        return plan
    plan.gaps = known_gaps(found.gaps)
    removed = [(os.path.basename(file), damage) for file, damage in found.skipped]
    for name in sorted(trees.listdir(directory), reverse=True):
        is_old = name.endswith((*LOGS, *SIDE_SUFFIXES)) or name == LEADER_EPOCHS
        if (
            is_old
            and name not in made.files
            and name not in made.carried
            and trees.isfile(os.path.join(directory, name))
        ):
            plan.delete(name, f"{reason}: replaced by others", _gone(removed, name))
    for name, size in sorted(made.files.items()):
        if folder is None:
            plan.outline(name, size, reason)
        elif not _is_same(path := os.path.join(folder, name), os.path.join(directory, name)):
            plan.write(name, (), reason, _gone(removed, name) if plan.state_of(name) else [], source=path)
            plan.staged_bytes += size
    return plan


def _gone(removed: list[tuple[str, Damage]], name: str) -> list[Removed]:
    return [Removed(damage.position, damage.length, damage.message) for file, damage in removed if file == name]


def known_gaps(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the gaps that kseg records as its own: none if there are too many."""
    return gaps if len(gaps) <= MAX_GAPS else []


def _is_same(path: str, other: str) -> bool:
    """Whether two side files have the same content; other files count as different."""
    if path.endswith(LOG) or not trees.exists(other) or trees.getsize(path) != trees.getsize(other):
        return False
    with open_regular(path) as mine, open_regular(other) as theirs:
        return mine.read() == theirs.read()
