"""Carves images into a new log directory, which is written completely or not at all."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from kseg.carving.evidence import CarvedLog, Joining, carved_logs
from kseg.carving.image import Piece, TornBatches, batch_rows, block_shift, pieces_of, without_lost_offsets
from kseg.carving.names import name_logs
from kseg.carving.side_files import BatchRanges, SideFiles, SideFileSearch
from kseg.changes.apply import free_bytes
from kseg.changes.disk import Disk
from kseg.changes.driver.command import ChangeOptions
from kseg.changes.new_directories import OUTPUT_MARK, OUTPUT_TEXT, new_directories
from kseg.changes.plan import CREATE, Plan, Step
from kseg.errors import KsegError, PathError, errors_at
from kseg.formats.json_values import fields_of, name_value
from kseg.formats.suffixes import LOG
from kseg.kernel.scan.pieces import PIECE_LARGEST_PRODUCER, PIECE_LAST_TIME, PIECE_OLDEST_TIME
from kseg.node.log_directory import topic_id_at
from kseg.options import declaration
from kseg.options.declaration import INPUT, PathKind, option
from kseg.quantities import plural, shown_bytes
from kseg.runtime.threads import usable_cores
from kseg.segment.files import file_names, parse_partition_name, segment_stem
from kseg.segment.writer import LogWriter
from kseg.sidefiles.text_files import META_PROPERTIES, PARTITION_METADATA, PartitionMetadata, build_partition_metadata
from kseg.stores.archives.forms import TAR
from kseg.stores.archives.mounting import form_at
from kseg.stores.extent import Extent
from kseg.stores.place import Place
from kseg.stores.source import Source, open_source

MANY_LOGS = 100
MAX_PAIRS = 5
"""Pairs of logs, and nodes, that messages name; JSON has all."""
_SIDE_FILE_SHARE = 64
"""Side files take at most so small a share of a log's size, and one block each."""


@dataclass(slots=True)
class CarvedImages:
    """``torn``: headers behind whole batches whose own batch is not whole; ``given_up``: those of them whose rest was
    not sought everywhere; ``unfit``: whole batches that no log can hold, by their offsets, or whose offsets are lost,
    with ``unfit_ranges`` of the images; ``mended``: batches whose rest was found elsewhere; ``read_in_part``: logs of
    internal topics of which not all records were read for names; ``single_batch_logs``: logs that hold one batch;
    ``undecided``: pairs of logs that may belong together, by directory;
    ``nodes``: cluster and node of each meta.properties; ``packed``: packed images in which nothing was found, and
    their form."""

    plans: list[Plan]
    batches: int = 0
    duplicates: int = 0
    torn: int = 0
    given_up: int = 0
    mended: int = 0
    unfit: int = 0
    unfit_ranges: tuple[dict[str, Any], ...] = ()
    read_in_part: int = 0
    single_batch_logs: int = 0
    undecided: tuple[tuple[str, str], ...] = ()
    nodes: tuple[tuple[str, int], ...] = ()
    packed: tuple[tuple[str, str], ...] = ()

    def summary(self) -> dict[str, Any]:
        """The fields that a carving adds to the summary of its plans."""
        pairs = [{"one": name_value(one), "two": name_value(two)} for one, two in self.undecided]
        return {
            **fields_of(self, "batches", "duplicates", "torn", "given_up", "mended", "unfit", "read_in_part"),
            "singleBatchLogs": self.single_batch_logs,
            "unfitRanges": list(self.unfit_ranges),
            "undecided": pairs,
            "nodes": [{"clusterId": cluster, "nodeId": node} for cluster, node in self.nodes],
        }

    def messages(self) -> Iterator[str]:
        """Yields the same as sentences for people."""
        found = f"found {plural(self.batches, 'batch', 'batches')} of {plural(len(self.plans), 'log', 'logs')}"
        more = [f"{plural(self.duplicates, 'copy', 'copies')} left out"] if self.duplicates else []
        more += [f"{plural(self.mended, 'cut batch', 'cut batches')} put together"] if self.mended else []
        more += [f"{plural(self.torn, 'batch', 'batches')} cut off"] if self.torn else []
        if self.given_up:
            more.append(f"for {self.given_up:,} of these, only a part of the image was searched for the rest")
        if self.unfit:
            more.append(f"{plural(self.unfit, 'batch', 'batches')} with lost or impossible offsets left out")
        yield "; ".join([found if self.plans else "found no batches", *more])
        for path, form in self.packed:
            yield f"{path}: is packed with {form}: unpack it first"
        if self.single_batch_logs > MANY_LOGS:
            yield (
                f"{self.single_batch_logs:,} of the logs hold one batch each, which nothing joins to others: each is a "
                "directory; --like LOGDIR joins and names those of which it holds a part"
            )
        if self.read_in_part:
            read = plural(self.read_in_part, "log of internal topics", "logs of internal topics")
            yield f"{read} read only in part for names: --like may name more"
        for one, two in self.undecided[:MAX_PAIRS]:
            yield f"{one} and {two} may be parts of one log: nothing decides it"
        if len(self.undecided) > MAX_PAIRS:
            yield f"so may {len(self.undecided) - MAX_PAIRS} more pairs of logs: --format json names them"
        for cluster, node in self.nodes[:MAX_PAIRS]:
            yield f"found meta.properties of node {node}, cluster {cluster}"
        if len(self.nodes) > MAX_PAIRS:
            yield f"and of {len(self.nodes) - MAX_PAIRS} more nodes: --format json names them"


@dataclass(frozen=True, slots=True)
class CarveOptions:
    """The options of `kseg carve`. ``likes``: log directories that hold a part of the same logs."""

    likes: tuple[str, ...] = option(
        "--like",
        INPUT,
        "Name logs as this log directory does, which holds a part of them; may be repeated.",
        PathKind(is_checked=True),
        metavar="LOGDIR",
        is_many=True,
    )
    jobs: int | None = declaration.jobs("threads for each file")


def carve(
    images: Sequence[str], change: ChangeOptions, options: CarveOptions, advance: Callable[[int], None]
) -> CarvedImages:
    """Carves the images into the output, or plans that in a dry run. Raises KsegError; nothing was written then.

    ``advance`` gets numbers of bytes read.
    """
    likes, jobs = options.likes, options.jobs or usable_cores()
    with ExitStack() as stack:
        sources = [stack.enter_context(open_image(path)) for path in images]
        pieces: list[Piece] = []
        unfit: list[Piece] = []
        torn, side_files = [], SideFiles()
        mended: list[tuple[Piece, ...]] = []
        for source in sources:
            found, search = _pieces_of_image(source, side_files, jobs, advance)
            whole = [piece for piece in found if piece.fits_a_log]
            torn.append(TornBatches(whole))
            joined = list(torn[-1].mended())
            ranges = [(piece.position, piece.end) for piece in found] + torn[-1].ranges
            ranges += [place[1:] for each in joined for place in getattr(each[1].source, "places", ())]
            search.read(BatchRanges(ranges))
            mended += joined
            pieces += whole
            unfit += (piece for piece in found if not piece.fits_a_log)
        for number, piece in enumerate(pieces):
            piece.number = number
        held = [piece for like in likes for piece in _pieces_of_directory(like, jobs)]
        joining = Joining([*held, *pieces, *(found[1] for found in mended)])
        for parts in mended:
            joining.join_all(parts, "checksum")
        logs = list(carved_logs(joining, joining.run(side_files)))
        topic_ids = name_logs(logs, side_files)
        logs.sort(key=lambda log: log.directory)
        carved = CarvedImages([], mended=len(mended))
        carved.torn, carved.given_up = sum(each.count for each in torn), sum(each.given_up for each in torn)
        carved.unfit = sum(map(len, unfit))
        carved.unfit_ranges = tuple(range_ for piece in unfit for range_ in _ranges(piece))
        carved.batches = sum(len(run) for log in logs for run in log.runs)
        carved.duplicates = sum(map(len, pieces)) + len(mended) - carved.batches
        names = {log.log: log.directory for log in reversed(logs)}
        pairs = {tuple(names.get(joining.logs[piece], "") for piece in pair) for pair in joining.undecided}
        carved.undecided = tuple(sorted((one, two) for one, two in pairs if one and two and one != two))
        internal = [log for log in logs if log.named_by == "records"]
        carved.read_in_part = sum(sum(map(len, log.newest)) < sum(map(len, log.runs)) for log in internal)
        carved.single_batch_logs = sum(sum(map(len, log.runs)) == 1 for log in logs)
        carved.nodes = tuple(sorted(side_files.nodes))
        if logs:
            _write(change, likes, topic_ids, carved, logs)
        else:
            forms = ((path, form_at(path)) for path in images)
            carved.packed = tuple((path, form) for path, form in forms if form not in (None, TAR))
        return carved


def _pieces_of_image(
    source: Source, side_files: SideFiles, jobs: int, advance: Callable[[int], None]
) -> tuple[list[Piece], SideFileSearch]:
    """Returns the pieces, and a search for side files that looked at each part just after its batches: one pass."""
    search, end = SideFileSearch(side_files, source), 0

    def searched(count: int) -> None:
        nonlocal end
        search.find(end, end + count)
        end += count
        advance(count)

    pieces = pieces_of(source, batch_rows(source, jobs, searched))
    shift = block_shift(pieces)
    if (shift - search.shift) % search.step:  # blocks begin elsewhere, as of a partition that begins at sector 63
        search = SideFileSearch(side_files, source, shift)
        search.find(0, source.size)
    return list(without_lost_offsets(pieces, shift)), search


def open_image(path: str) -> Source:
    """Opens a file or a block device that the user has named. Raises PathError."""
    with errors_at(path):
        if Place(path).tree is None and stat.S_ISBLK(os.stat(path).st_mode):
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            return _BlockDevice(Extent(descriptor, 0, os.lseek(descriptor, 0, os.SEEK_END)), path)
    return open_source(Place(path, is_named=Place(path).is_file()))


def image_bytes(path: str) -> int:
    """Returns the size of an image. Raises PathError."""
    with open_image(path) as source:
        return source.size


class _BlockDevice(Source):
    """A block device, whose size stat() does not give."""

    def current_size(self) -> int:
        return self.size


class _Reopened:
    """The bytes of a segment of --like, which is opened for each range: there may be more segments than descriptors."""

    def __init__(self, path: str, size: int) -> None:
        self.path, self.size, self.buffer = path, size, self

    def __getitem__(self, key: slice) -> bytes:
        with open_source(self.path) as source:
            return bytes(source.buffer[key])


def _pieces_of_directory(directory: str, jobs: int) -> Iterator[Piece]:
    """Yields the pieces of all partitions of a log directory. Raises PathError."""
    names = [name for name in sorted(Place(directory).names()) if parse_partition_name(name)]
    if not names:
        raise PathError(f"{directory}: holds no partitions, which --like needs")
    for name in names:
        partition = Place(directory) / name
        for file in sorted(file_names(partition)) if partition.is_dir() else ():
            if file.endswith(LOG):
                path = partition / file
                with open_source(path) as source:
                    tables = list(batch_rows(source, jobs, lambda _: None))
                    size = source.size
                found = pieces_of(_Reopened(path, size), tables, like=name)
                yield from (piece for piece in found if piece.fits_a_log)


def _write(
    change: ChangeOptions, likes: Sequence[str], topic_ids: dict[str, str], carved: CarvedImages, logs: list[CarvedLog]
) -> None:
    output = change.output or ""
    with new_directories(output, change.takes_lock, change.is_dry) as made:
        if not change.is_dry:
            needed = sum(log.size + log.size // _SIDE_FILE_SHARE for log in logs)
            needed += sum(snapshot.size for log in logs for snapshot in log.snapshots.values())
            if needed > free_bytes(made.folder):
                raise KsegError(f"{output}: {shown_bytes(needed)} are needed, more than are free")
        for log in logs:
            folder = made.add(log.directory, change.is_dry)
            if change.is_dry:
                sizes = {segment_stem(log.first_offset) + LOG: log.size}
                sizes |= {name: snapshot.size for name, snapshot in log.snapshots.items()}
            else:
                # The topic's id is that of --like or of carved metadata.
                alike = [Place(like) / log.directory for like in likes if log.log.like == log.directory]
                topic_id = next(filter(None, map(topic_id_at, alike)), topic_ids.get(log.topic))
                sizes = _written(log, folder, topic_id)
            directory = Place(output) / log.directory
            plan = Plan(directory, [])
            for name in sorted(sizes):
                source = log.snapshots.get(name, log)
                batches = plural(sum(map(len, source.runs)), "batch", "batches")
                places = plural(len(source.runs), "place", "places")
                reason = f"{batches} found in {places}, {_NAMED_BY[source.named_by]}"
                plan.steps.append(Step(CREATE, name, reason, None, sizes[name]))
            plan.facts.append(_row(log, directory))
            carved.plans.append(plan)
        if not change.is_dry and not (Place(output) / META_PROPERTIES).lexists():
            Disk().write_file(Place(made.folder) / OUTPUT_MARK, OUTPUT_TEXT, made.folder)


def _written(log: CarvedLog, folder: str, topic_id: str | None) -> dict[str, int]:
    """Writes the partition. Returns the sizes of its files."""
    from kseg.conversion.rows_writer import make_side_files  # a dry run makes none

    with closing(LogWriter(folder, log.first_offset)) as writer:
        for batches in _contents(log):
            writer.append(batches)
        segments = writer.finish()
    sizes = {segment.name(suffix): size for segment in segments for suffix, size in segment.sizes.items()}
    side_files = list(make_side_files(segments, None))
    if topic_id is not None:
        side_files.append((PARTITION_METADATA, build_partition_metadata(PartitionMetadata(0, topic_id))))
    for name, snapshot in log.snapshots.items():
        with Disk().new_file(Place(folder) / name, folder) as descriptor:
            for batches in _contents(snapshot):
                Disk().write(descriptor, batches)
        sizes[name] = snapshot.size
    for name, content in side_files:
        Disk().write_file(Place(folder) / name, content, folder)
        sizes[name] = len(content)
    return sizes


def _contents(log: CarvedLog) -> Iterator[Any]:
    """Yields the bytes of its batches."""
    for run in log.runs:
        for window in run.windows():
            yield run.source.buffer[window.position : window.end]


_NAMED_BY = {
    "like": "named as in --like",
    "records": "named by its records",
    "transactions": "named by its transactions",
    "checkpoint": "named by offsets of checkpoints",
    "directory": "named by the names of its files",
    "commits": "named by offsets that groups have committed",
    "": "of an unknown topic",
}


def _row(log: CarvedLog, directory: str) -> dict[str, Any]:
    """Returns the JSON object of a carved log."""
    runs = log.runs
    first_times = [time for run in runs if (time := run.summary[PIECE_OLDEST_TIME]) >= 0]
    if not first_times:
        first_times = [time for run in runs for time in run.max_timestamps if time >= 0]
    last_time = max(run.summary[PIECE_LAST_TIME] for run in runs)
    with_producers = [run for run in runs if run.summary[PIECE_LARGEST_PRODUCER] >= 0]
    producers = {producer for run in with_producers for producer in run.producer_ids if producer >= 0}
    return {
        "type": "carved",
        "directory": name_value(directory),
        "topic": name_value(log.topic),
        "partition": log.partition,
        "evidence": {
            "name": log.named_by or None,
            "aside": log.stands_aside,
            "joined": dict(sorted(log.log.evidence.items())),
            "matched": dict(sorted(log.matched.items())),
            "candidates": [name_value(f"{topic}-{number}") for topic, number in log.candidates],
        },
        "batches": sum(map(len, runs)),
        "records": log.records,
        "bytes": log.size,
        "firstOffset": log.first_offset,
        "lastOffset": log.next_offset - 1,
        "gaps": log.gaps,
        "firstTimestamp": min(first_times, default=None),
        "lastTimestamp": last_time if last_time >= 0 else None,
        "producers": len(producers),
        "ranges": [range_ for run in runs for range_ in _ranges(run)],
    }


def _ranges(run: Piece) -> Iterator[dict[str, Any]]:
    """Yields the places of its bytes as JSON objects."""
    for file, start, end in getattr(run.source, "places", [(run.source.path, run.position, run.end)]):
        yield {"file": name_value(file), "position": start, "length": end - start}
