"""Carves images: the logs that their pieces make, in the order of offsets, each batch once, named, and written as a log
directory, completely or not at all."""

import os
import stat
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from operator import add, gt
from typing import Any

from kseg.carving.evidence import EXPANDED_BYTES, KEY_FIELDS, Joining, LogPieces, internal_topic, records_of
from kseg.carving.image import Piece, SideFiles, TornBatches, batch_rows, pieces_of
from kseg.changes.apply import free_bytes
from kseg.changes.disk import Disk
from kseg.changes.driver.planner import ChangeOptions
from kseg.changes.new_directories import new_directories
from kseg.changes.plan import CREATE, Plan, Step
from kseg.conversion.rewriting import make_side_files
from kseg.decoders import FOR_TOPIC, decoder
from kseg.errors import KsegError, PathError
from kseg.formats.json_values import name_value
from kseg.formats.rows import Scratch
from kseg.formats.suffixes import LOG
from kseg.kernel.layout.headers import ENTRY_MAGIC, MAGIC_V2
from kseg.limits import WINDOW_BYTES
from kseg.quantities import plural, shown_bytes
from kseg.segment.batches import Message
from kseg.segment.files import METADATA_TOPIC, file_names, parse_partition_name, segment_stem
from kseg.segment.writer import LogWriter
from kseg.sidefiles.hash_order import string_hash
from kseg.sidefiles.partition_metadata import (
    PARTITION_METADATA,
    PartitionMetadata,
    build_partition_metadata,
    read_partition_metadata,
)
from kseg.sidefiles.problems import problems_of
from kseg.stores import trees
from kseg.stores.extent import Extent
from kseg.stores.regular_files import read_regular
from kseg.stores.source import Source, open_source

DEFAULT_PARTITIONS = 50
"""Of offsets.topic.num.partitions and transaction.state.log.num.partitions."""

_TELLING = 8
"""A partition is named by the offset at its end if the chance that another ends there is at most one in so many."""

_MAX_METADATA_BYTES = 64 << 20
TRANSACTION_STATE = "__transaction_state"

Partition = tuple[str, int]


@dataclass
class CarvedLog:
    """One log to be written. ``runs``: adjacent batches of pieces, in the order of offsets.

    ``stands_aside``: it does not get the topic's name, because its batches are versions from before a compaction, or
    contradict those of the log that has the name, or because no node could start with it. ``named_by``: "like",
    "records", "checkpoint" or "". ``keys``: those of its records that choose its partition.
    """

    log: LogPieces
    runs: list[Piece]
    stands_aside: bool = False
    topic: str = ""
    partition: int = 0
    named_by: str = ""
    keys: list[str] = field(default_factory=list)
    _taken: list[tuple[int, int]] = field(default_factory=list)

    @property
    def directory(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def next_offset(self) -> int:
        return self.runs[-1].next_offset

    @property
    def size(self) -> int:
        return sum(run.end - run.position for run in self.runs)

    @cached_property
    def first_offset(self) -> int:
        """The first offset; that of a compressed v0 or v1 message stands inside."""
        first = self.runs[0]
        if first[0].first_offset >= 0 or first.magic >= MAGIC_V2:
            return first.first_offset
        return _inside(first, 0)[0]

    @cached_property
    def records(self) -> int:
        """Records of all batches; compressed v0 and v1 messages are opened for it."""
        total = 0
        for run in self.runs:
            counts = run.records
            total += sum(counts)
            for i, count in enumerate(counts) if min(counts) < 0 else ():
                total += 0 if count >= 0 else 1 + _inside(run, i)[1]
        return total

    @cached_property
    def gaps(self) -> int:
        """Places at which offsets are missing, as far as headers tell: not before compressed v0 and v1 messages."""
        found, last = 0, -1
        for run in self.runs:
            firsts, lasts = run.firsts, run.lasts
            found += last >= 0 and firsts[0] > last + 1
            found += sum(map(gt, firsts[1:], map(add, lasts, repeat(1))))
            last = lasts[-1]
        return found

    def has_room(self, runs: list[Piece]) -> bool:
        """Whether no batch overlaps those that are there."""
        for run in runs:
            i = bisect_left(self._taken, (run.next_offset,))
            if i and self._taken[i - 1][1] > run.first_offset:
                return False
        return True

    def add(self, runs: list[Piece]) -> None:
        for run in runs:
            insort(self._taken, (run.first_offset, run.next_offset))
            insort(self.runs, run, key=lambda found: found.first_offset)


def _inside(run: Piece, i: int) -> tuple[int, int]:
    """Returns the first offset in a compressed v0 or v1 message, and its number of records."""
    data = run.data(i)
    message = Message(data, 0, len(data), data[ENTRY_MAGIC], True, Scratch(EXPANDED_BYTES))
    message.offset_before = lambda: -1
    first, count = message.extent()
    return message.last_offset if first is None else first, count


def carved_logs(joining: Joining, logs: Iterable[LogPieces]) -> Iterator[CarvedLog]:
    """Yields the logs of an image; several of one, where batches of it exclude each other."""
    used: set[tuple[int, int]] = set()
    for log in logs:
        layers: list[CarvedLog] = []
        for piece in _newest_first(joining, log):
            runs = list(_unused(joining, piece, used))
            if not runs:
                continue
            stands_aside = piece in log.older
            layer = next(
                (layer for layer in layers if layer.stands_aside >= stands_aside and layer.has_room(runs)), None
            )
            if layer is None:
                layer = CarvedLog(log, [], stands_aside or bool(layers))
                layers.append(layer)
            layer.add(runs)
        yield from layers


def _newest_first(joining: Joining, log: LogPieces) -> list[Piece]:
    """Returns the pieces of an image, those first that --like holds a part of, and the versions that others replaced
    last; with them what continues only them."""
    ends, starts = defaultdict(set), defaultdict(set)
    for piece in log.pieces:
        ends[piece.next_offset].add(piece)
        starts[piece.first_offset].add(piece)
    waiting = list(log.older)
    while waiting:
        older = waiting.pop()
        for beside in (ends[older.first_offset], starts[older.next_offset]):
            if len(beside) == 1 and not beside & log.older:
                log.older |= beside
                waiting += beside
    shared = {piece for piece in log.pieces if any(copy[0].like for copy in joining.copies.get(piece, {}).values())}
    pieces = [piece for piece in log.pieces if piece.like is None]
    return sorted(pieces, key=lambda piece: (piece not in shared, piece in log.older))


def _unused(joining: Joining, piece: Piece, used: set[tuple[int, int]]) -> Iterator[Piece]:
    """Yields the runs of batches of a piece that no log has yet, and marks them."""
    copies, copied = joining.copies.get(piece, {}), joining.copied.get(piece, ())
    first = 0
    for i in sorted({*copies, *copied}):
        original, k = copies.get(i, (piece, i))
        if (id(original), k) in used:
            if i > first:
                yield piece.part(first, i)
            first = i + 1
        used.add((id(original), k))
    if first < len(piece):
        yield piece.part(first, len(piece))


# Names


def name_logs(logs: list[CarvedLog], ends: Mapping[tuple[str, int], set[int]]) -> None:
    """Gives each log a topic and a partition, no two the same. ``ends``: offsets that checkpoints name."""
    taken: set[str] = set()
    found = [(log, *_name(log)) for log in logs]
    _number_coordinators([item for item in found if item[1] in KEY_FIELDS and item[3] == "records"])
    written: dict[int, set[Partition]] = defaultdict(set)
    for log in (log for log, topic, _, _ in found if topic == TRANSACTION_STATE):
        for producer, partitions in _written_partitions(log).items():
            written[producer] |= partitions
    nameless = [log for log, topic, _, _ in found if not topic and not log.stands_aside]
    by_checkpoints = _named_by_checkpoints(nameless, ends, written)
    found.sort(key=lambda item: (item[0].stands_aside, item[3] != "like", -item[0].size))
    number = 0
    for log, topic, partition, why in found:
        if id(log) in by_checkpoints:
            (topic, partition), why = by_checkpoints[id(log)], "checkpoint"
        log.topic, log.named_by = topic, why
        log.partition = log.partition if partition is None else partition
        # A node reads its metadata from offset 0 or a snapshot on.
        log.stands_aside |= topic == METADATA_TOPIC and log.first_offset > 0
        if not topic or log.stands_aside or log.directory in taken:
            number += 1
            log.stands_aside |= bool(topic)
            log.topic = f"{topic}.carved-{number:04}" if topic else f"carved-{number:04}"
        taken.add(log.directory)


def _written_partitions(log: CarvedLog) -> dict[int, set[Partition]]:
    """Returns the partitions that each transactional producer has written to, by a log of the coordinator."""
    found: dict[int, set[Partition]] = defaultdict(set)
    decode = decoder(FOR_TOPIC[TRANSACTION_STATE]).decode
    for key, value in records_of(log.runs) if log.size <= _MAX_METADATA_BYTES else ():
        shown = decode(key, value, 0).value
        told = shown.get("data", {}) if isinstance(shown, dict) else {}
        for written in told.get("transactionPartitions") or ():
            found[told["producerId"]].update((written["topic"], number) for number in written["partitionIds"])
    return found


def _named_by_checkpoints(
    logs: list[CarvedLog], ends: Mapping[Partition, set[int]], written: Mapping[int, set[Partition]]
) -> dict[int, Partition]:
    """Returns names by the id of a log: of the only partition whose checkpoints name the offset at which this log, and
    no other, ends. Partitions that its transactional producers have not ``written`` to do not count, and an offset at
    which many partitions end by chance names none."""
    partitions: dict[int, set[Partition]] = defaultdict(set)
    for partition, found in ends.items():
        for offset in found:
            partitions[offset].add(partition)
    known, ending, named = sorted(partitions), Counter(log.next_offset for log in logs), {}
    for log in logs:
        offset, candidates = log.next_offset, set(partitions.get(log.next_offset, ()))
        for producer in {producer for run in log.runs for producer in run.producer_ids} & written.keys():
            candidates &= written[producer]
        alike = bisect_left(known, 2 * offset) - bisect_left(known, offset // 2)
        if len(candidates) == 1 == ending[offset] and _TELLING * alike <= 1.5 * offset:
            named[id(log)] = candidates.pop()
    counts = Counter(named.values())
    return {log: partition for log, partition in named.items() if counts[partition] == 1}


def _name(carved: CarvedLog) -> tuple[str, int | None, str]:
    """Returns topic, partition (None: to be found out) and what names them; empty if nothing does."""
    if carved.log.like:
        topic, _, partition = carved.log.like.rpartition("-")
        return topic, int(partition), "like"
    topic, keys = internal_topic(carved.runs)
    if topic:
        carved.keys = keys
        return topic, None if topic in KEY_FIELDS else 0, "records"
    return "", 0, ""


def _number_coordinators(found: list[tuple[CarvedLog, str, int | None, str]]) -> None:
    """Finds the partitions of coordinators' logs: keys choose them by their hash, modulo a number that fits all."""
    by_topic = defaultdict(list)
    for log, topic, _, _ in found:
        by_topic[topic].append(log)
    for logs in by_topic.values():
        hashes = [[abs(string_hash(key)) for key in log.keys] for log in logs]
        counts = [DEFAULT_PARTITIONS, *range(2, 200)]
        fits = (count for count in counts if all(len({value % count for value in values}) <= 1 for values in hashes))
        count = next(fits, 1)
        for log, values in zip(logs, hashes, strict=True):
            log.partition = values[0] % count if values else 0


# Images in, directories out

_MAX_PARTITION_METADATA_BYTES = 4096
_SIDE_FILE_SHARE = 64
"""Side files take at most so small a share of a log's size, and one block each."""


@dataclass(slots=True)
class CarvedImages:
    """``torn``: headers behind whole batches whose own batch is not whole; ``mended``: batches whose rest was found
    elsewhere; ``undecided``: pairs of logs that may belong together, by directory."""

    plans: list[Plan]
    batches: int = 0
    duplicates: int = 0
    torn: int = 0
    mended: int = 0
    undecided: tuple[tuple[str, str], ...] = ()

    def summary(self) -> dict[str, Any]:
        """The fields that a carving adds to the summary of its plans."""
        pairs = [{"one": name_value(one), "two": name_value(two)} for one, two in self.undecided]
        return {
            "batches": self.batches,
            "duplicates": self.duplicates,
            "torn": self.torn,
            "mended": self.mended,
            "undecided": pairs,
        }


def carve(
    images: Sequence[str],
    change: ChangeOptions,
    likes: Sequence[str] = (),
    jobs: int = 1,
    advance: Callable[[int], None] = lambda _: None,
) -> CarvedImages:
    """Carves the images into the output, or plans that in a dry run. Raises KsegError; nothing was written then.

    ``likes``: log directories that hold a part of the same logs; ``advance`` gets numbers of bytes read.
    """
    with ExitStack() as stack:
        sources = [stack.enter_context(open_image(path)) for path in images]
        pieces, mended, side_files = [], [], SideFiles()
        torn = 0
        for source in sources:
            found = pieces_of(source, batch_rows(source, jobs, advance))
            torn_batches = TornBatches(found)
            mended += list(torn_batches.mended())
            torn += torn_batches.count
            side_files.find(source, found)
            pieces += found
        for number, piece in enumerate(pieces):
            piece.number = number
        held = [piece for like in likes for piece in _pieces_of_directory(like, jobs)]
        joining = Joining([*held, *pieces, *(batch for _, batch, _ in mended)])
        for before, batch, after in mended:
            joining.join(before, batch, "checksum")
            joining.join(batch, after, "checksum")
        logs = list(carved_logs(joining, joining.run(side_files.snapshots)))
        name_logs(logs, side_files.ends)
        logs.sort(key=lambda log: log.directory)
        carved = CarvedImages([], torn=torn, mended=len(mended))
        carved.batches = sum(len(run) for log in logs for run in log.runs)
        carved.duplicates = sum(map(len, pieces)) + len(mended) - carved.batches
        carved.undecided = _pairs(joining, logs)
        if logs:
            _write(change, likes, logs, carved)
        return carved


def open_image(path: str) -> Source:
    """Opens a file or a block device that the user has named. Raises PathError."""
    try:
        if trees.find(path) is None and stat.S_ISBLK(os.stat(path).st_mode):
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            return _BlockDevice(Extent(descriptor, 0, os.lseek(descriptor, 0, os.SEEK_END)), path)
    except OSError as error:
        raise PathError(f"{path}: {error.strerror or error}") from error
    return open_source(path)


class _BlockDevice(Source):
    """A source whose size the file system does not tell."""

    def current_size(self) -> int:
        return self.size


class _Reopened:
    """The bytes of a segment of --like, which is opened for each range: there may be more segments than descriptors."""

    like = True

    def __init__(self, path: str, size: int) -> None:
        self.path, self.size, self.buffer = path, size, self

    def __getitem__(self, key: slice) -> bytes:
        with open_source(self.path) as source:
            return bytes(source.buffer[key])


def _pieces_of_directory(directory: str, jobs: int) -> Iterator[Piece]:
    """Yields the pieces of all partitions of a log directory. Raises PathError."""
    names = [name for name in sorted(trees.listdir(directory)) if parse_partition_name(name)]
    if not names:
        raise PathError(f"{directory}: holds no partitions, which --like needs")
    for name in names:
        partition = os.path.join(directory, name)
        if not trees.isdir(partition):
            continue
        for file in sorted(file_names(partition)):
            if file.endswith(LOG):
                path = os.path.join(partition, file)
                with open_source(path) as source:
                    tables = list(batch_rows(source, jobs, lambda _: None))
                    size = source.size
                yield from pieces_of(_Reopened(path, size), tables, like=name)


def _pairs(joining: Joining, logs: list[CarvedLog]) -> tuple[tuple[str, str], ...]:
    """Returns the directories of logs that may belong together."""
    by_log: dict[int, str] = {}
    for log in logs:
        by_log.setdefault(id(log.log), log.directory)
    found = set()
    for one, two in joining.undecided:
        names = by_log.get(id(joining.logs[one])), by_log.get(id(joining.logs[two]))
        if names[0] and names[1] and names[0] != names[1]:
            found.add((names[0], names[1]))
    return tuple(sorted(found))


def _write(change: ChangeOptions, likes: Sequence[str], logs: list[CarvedLog], carved: CarvedImages) -> None:
    output = change.output or ""
    with new_directories(output, change.takes_lock, change.is_dry) as made:
        if not change.is_dry:
            needed = sum(log.size + log.size // _SIDE_FILE_SHARE for log in logs)
            if needed > free_bytes(made.folder):
                raise KsegError(f"{output}: {shown_bytes(needed)} are needed, more than are free")
        topic_ids = _topic_ids(logs)
        for log in logs:
            folder = made.add(log.directory, change.is_dry)
            metadata = _partition_metadata(log, likes, topic_ids)
            sizes = _planned(log) if change.is_dry else _written(log, folder, metadata)
            directory = os.path.join(output, log.directory)
            plan = Plan(
                directory, [Step(CREATE, name, _reason(log), None, size) for name, size in sorted(sizes.items())]
            )
            plan.facts.append(_row(log, directory))
            carved.plans.append(plan)


def _planned(log: CarvedLog) -> dict[str, int]:
    return {segment_stem(log.first_offset) + LOG: log.size}


def _written(log: CarvedLog, folder: str, metadata: bytes | None) -> dict[str, int]:
    """Writes the partition. Returns the sizes of its files."""
    writer = LogWriter(folder, log.first_offset)
    try:
        for run in log.runs:
            for start, end in _windows(run):
                writer.append(run.source.buffer[start:end])
        segments = writer.finish()
    except BaseException:
        writer.discard()
        raise
    sizes = {segment.name(suffix): size for segment in segments for suffix, size in segment.sizes.items()}
    side_files = list(make_side_files(segments, None))
    if metadata is not None:
        side_files.append((PARTITION_METADATA, metadata))
    for name, content in side_files:
        Disk().write_file(os.path.join(folder, name), content, folder)
        sizes[name] = len(content)
    return sizes


def _windows(run: Piece) -> Iterator[tuple[int, int]]:
    """Yields ranges of whole batches of about WINDOW_BYTES."""
    start = run.position
    for position, size in zip(run.positions, run.sizes, strict=True):
        if position + size - start >= WINDOW_BYTES:
            yield start, position + size
            start = position + size
    if start < run.end:
        yield start, run.end


def _topic_ids(logs: list[CarvedLog]) -> dict[str, str]:
    """Returns the topic ids that carved cluster metadata name, by topic."""
    found: dict[str, str] = {}
    decode = decoder(FOR_TOPIC[METADATA_TOPIC]).decode
    for log in logs:
        if log.topic == METADATA_TOPIC and log.size <= _MAX_METADATA_BYTES:
            for key, value in records_of(log.runs):
                shown = decode(key, value, 0).value
                if isinstance(shown, dict) and shown.get("type") == "TOPIC_RECORD":
                    found[shown["data"]["name"]] = shown["data"]["topicId"]
    return found


def _partition_metadata(log: CarvedLog, likes: Sequence[str], topic_ids: Mapping[str, str]) -> bytes | None:
    """Returns the bytes of the file with the topic's id, as --like or carved metadata have it."""
    for like in likes if log.log.like == log.directory else ():
        path = os.path.join(like, log.directory, PARTITION_METADATA)
        if trees.isfile(path):
            content = read_regular(path, _MAX_PARTITION_METADATA_BYTES)
            if not problems_of(list(read_partition_metadata(content))):
                return content
    topic_id = topic_ids.get(log.topic)
    return None if topic_id is None else build_partition_metadata(PartitionMetadata(0, topic_id))


def _ranges(run: Piece) -> list[dict[str, Any]]:
    """Returns where the bytes of a run stand."""
    whole = [(run.source.path, run.position, run.end)]
    return [
        {"file": name_value(file), "position": start, "length": end - start}
        for file, start, end in getattr(run.source, "places", whole)
    ]


_NAMED_BY = {
    "like": "named as in --like",
    "records": "named by its records",
    "checkpoint": "named by the offset of a checkpoint",
    "": "of an unknown topic",
}


def _reason(log: CarvedLog) -> str:
    batches = sum(map(len, log.runs))
    named = _NAMED_BY[log.named_by]
    return f"{plural(batches, 'batch', 'batches')} found in {plural(len(log.runs), 'place', 'places')}, {named}"


def _row(log: CarvedLog, directory: str) -> dict[str, Any]:
    """Returns the JSON object of a carved log."""
    runs = log.runs
    times = [time for run in runs for time in run.max_timestamps if time >= 0]
    first_times = [time for run in runs for time in run.base_timestamps if time >= 0] or times
    producers = {producer for run in runs for producer in run.producer_ids if producer >= 0}
    return {
        "type": "carved",
        "directory": name_value(directory),
        "topic": name_value(log.topic),
        "partition": log.partition,
        "evidence": {
            "name": log.named_by or None,
            "aside": log.stands_aside,
            "joined": dict(sorted(log.log.evidence.items())),
        },
        "batches": sum(map(len, runs)),
        "records": log.records,
        "bytes": log.size,
        "firstOffset": log.first_offset,
        "lastOffset": runs[-1].next_offset - 1,
        "gaps": log.gaps,
        "firstTimestamp": min(first_times, default=None),
        "lastTimestamp": max(times, default=None),
        "producers": len(producers),
        "ranges": [row for run in runs for row in _ranges(run)],
    }
