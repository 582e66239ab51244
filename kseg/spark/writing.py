"""Writes rows as partitions: ``df.write.format("kseg")``. Each task writes the segments of a range of offsets.

A partition appears completely or not at all (`kseg.spark.writing`). Existing files are not changed.
"""

import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from struct import Struct
from typing import Any
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from kseg.changes.disk import Disk
from kseg.changes.new_directories import new_directories
from kseg.conversion.options import codec_target
from kseg.conversion.rows_writer import PartitionRange, PartitionWriters, RowsWriter, write_side_files
from kseg.errors import KsegError, PathError, errors_at, is_system_error, text_of
from kseg.export import pa
from kseg.export.arrow import by_partition
from kseg.formats.suffixes import LOG
from kseg.node.node import Nodes
from kseg.segment.files import parse_partition_name
from kseg.segment.writer import RollLimits
from kseg.spark.hadoop import Storage
from kseg.spark.modes import columns_of
from kseg.spark.options import Options, WriteOptions
from kseg.spark.session import ForWorkers
from kseg.spark.stores import objects_at
from kseg.stores.no_follow import resolved
from kseg.stores.object_urls import UrlObjects
from kseg.stores.place import Place
from kseg.stores.stored_object import is_url, local_path, shown, without_credentials

# Where a write on Spark puts its partitions: a local log directory, or one in an object store.
#
# Tasks stage segments, each attempt in a folder of its own; the driver puts the reported ones into place. Until then
# nothing else has changed, and a failed job leaves nothing.

REMOVAL_ATTEMPTS, REMOVAL_SECONDS = 20, 0.1
"""Attempts to remove staged segments, and the time between two of them."""
_NOTHING = "nothing was written"
_OFFSET_AND_LENGTH = Struct(">qi")
"""The head of a batch; ``length`` is that of the bytes after it."""
_AT_A_TIME = 8
"""Partitions that are put into place at the same time in a store."""


class LocalOutput:
    """A log directory that all machines have at this path. `begin`, `put` and `remove` run on the driver."""

    def __init__(self, path: str) -> None:
        self.root = resolved(path)
        self._is_new = not self.root.is_dir()
        place = self.root
        while not place.is_dir() and place.parent != place:
            place = place.parent
        self._staging = place / f".kseg-{uuid4().hex}.rows"

    def begin(self, partition: str | None) -> None:
        """Prepares a write. Raises PathError if ``partition``, the only one, exists already."""
        path = self.root / (partition or "")
        if partition is not None and path.lexists():
            raise PathError(f"{path}: already exists; nothing was written")
        with errors_at(f"{self.root}: nothing was written"):
            os.mkdir(self._staging)  # not in tasks: a late task must not recreate a folder that `remove` has removed

    def new_attempt(self) -> str:
        """Returns a new local folder, in which an attempt of a task writes segments."""
        folder = self._staging / uuid4().hex
        try:
            Disk().make_directory(folder)
        except FileNotFoundError as error:
            raise PathError(
                f"{self._staging}: is not there: the job was given up, or this machine has no such disk"
            ) from error
        return folder

    def stage(self, folder: str, partitions: dict[str, PartitionRange]) -> None:
        """Does nothing: the driver finds the segments where the attempt has written them."""

    def discard(self, folder: str) -> None:
        """Removes the folder of an attempt."""
        if Place(folder).is_dir():
            Disk().remove_tree(folder)

    def put(self, partitions: Mapping[str, PartitionRange]) -> None:
        """Puts staged segments into place. Raises KsegError; then nothing has changed."""
        with _parents_of(self.root), new_directories(self.root, takes_lock=True) as made:
            known = Nodes().at(self.root).topics
            for name, whole in partitions.items():
                folder, disk = made.add(name, model="" if self._is_new else self.root), Disk()
                moved = ((segment, *each) for segment in whole.segments for each in segment.paths.items())
                for segment, suffix, path in moved:
                    target = Place(folder) / segment.name(suffix)
                    if suffix == LOG and not path.endswith(segment.name(LOG)):
                        _renumber(path, segment.base_offset)
                    disk.rename(path, target)
                    if not self._is_new:
                        disk.copy_owner_if_allowed(target, folder)
                write_side_files(folder, whole, known.ids if known else None)

    def remove(self) -> None:
        """Removes all that is staged."""
        for left in reversed(range(REMOVAL_ATTEMPTS)):
            try:
                Disk().remove_tree(self._staging)
                return
            except OSError:
                if not left:
                    raise
                time.sleep(REMOVAL_SECONDS)  # a task that is still running has created or removed a file


@contextmanager
def _parents_of(path: str) -> Iterator[None]:
    """Creates the missing parents of a path. If the block raises, they are removed."""
    missing: list[str] = []
    while not Place(parent := Place(missing[-1] if missing else path).parent).is_dir():
        missing.append(parent)
    made: list[str] = []
    try:
        for folder in reversed(missing):
            Disk().make_directory(folder)
            made.append(folder)
        yield
    except BaseException as error:
        for folder in reversed(made):
            with suppress(OSError):  # another program uses it now
                os.rmdir(folder)
        if is_system_error(error):
            raise PathError(f"{path}: nothing was written: {text_of(error)}") from error
        raise


class StoreOutput:
    """A prefix of an object store, with the methods of `LocalOutput`. Objects are copied inside the store, segment by
    segment in the order of offsets; in HDFS they are renamed.
    """

    def __init__(self, url: str, storage: Storage) -> None:
        self.root = shown(url).rstrip("/")
        self._url, self._storage = url, storage
        self._staging = f".kseg-{uuid4().hex}.rows"

    def begin(self, partition: str | None) -> None:
        if partition is not None:
            with self._opened() as store:
                self._check_new(store, partition)

    def _check_new(self, store: UrlObjects, partition: str) -> None:
        with suppress(FileNotFoundError):
            store.info(partition)
            raise PathError(f"{self.root}/{partition}: already exists; {_NOTHING}")

    @contextmanager
    def _opened(self) -> Iterator[UrlObjects]:
        """Yields the store. Raises KsegError for its errors."""
        try:
            yield objects_at(self._url, self._storage)
        except Exception as error:
            if _NOTHING in str(error):
                raise
            text = without_credentials(text_of(error), self._url)
            raise KsegError(f"{self.root}: {_NOTHING}: {text}") from None

    def new_attempt(self) -> str:
        return tempfile.mkdtemp(prefix="kseg-")

    def stage(self, folder: str, partitions: dict[str, PartitionRange]) -> None:
        """Uploads segments to a folder of their own below the root, and sets their paths to those in the store."""
        place = f"{self._staging}/{uuid4().hex}"
        with self._opened() as store:
            for name, whole in partitions.items():
                for segment in whole.segments:
                    for suffix, path in segment.paths.items():
                        target = f"{place}/{name}/{segment.name(suffix)}"
                        store.upload(target, path)
                        os.unlink(path)
                        segment.paths[suffix] = target
        self.discard(folder)

    def discard(self, folder: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def put(self, partitions: Mapping[str, PartitionRange]) -> None:
        with self._opened() as store:
            for name in partitions:
                self._check_new(store, name)
            try:
                with ThreadPoolExecutor(_AT_A_TIME) as threads:
                    list(threads.map(partial(_put_stored, store), partitions, partitions.values()))
            except BaseException:
                for name in partitions:
                    with suppress(KsegError):  # the first error is reported
                        store.remove_folder(name)
                raise

    def remove(self) -> None:
        with self._opened() as store:
            store.remove_folder(self._staging)


def _put_stored(store: UrlObjects, folder: str, whole: PartitionRange) -> None:
    """Puts staged segments into their partition: indexes first, because a reader opens them with the segment."""
    for segment in whole.segments:
        for suffix in sorted(segment.paths, key=lambda suffix: suffix == LOG):
            target = f"{folder}/{segment.name(suffix)}"
            if suffix == LOG and not segment.paths[LOG].endswith(segment.name(LOG)):
                with tempfile.TemporaryDirectory(prefix="kseg-") as made:
                    copy = Place(made) / segment.name(LOG)
                    store.download(segment.paths[LOG], copy)
                    _renumber(copy, segment.base_offset)
                    store.upload(target, copy)
            else:
                store.put(segment.paths[suffix], target)
    with tempfile.TemporaryDirectory(prefix="kseg-") as made:
        write_side_files(made, whole)
        for directory, _, names in os.walk(made):
            for name in names:
                path = Place(directory) / name
                store.upload(f"{folder}/{os.path.relpath(path, made)}", path)


def _renumber(path: str, base_offset: int) -> None:
    """Lets the first of a segment's v2 batches begin at this offset. No checksum covers offsets."""
    with open(path, "r+b", buffering=0) as log:
        position, difference = 0, None
        while len(head := os.pread(log.fileno(), _OFFSET_AND_LENGTH.size, position)) == _OFFSET_AND_LENGTH.size:
            offset, length = _OFFSET_AND_LENGTH.unpack(head)
            difference = base_offset - offset if difference is None else difference
            if not difference:
                return
            os.pwrite(log.fileno(), _OFFSET_AND_LENGTH.pack(offset + difference, length), position)
            position += len(head) + length
        os.fsync(log.fileno())


_SORT_HINT = "write df.repartitionByRange(n, 'offset').sortWithinPartitions('offset')"


@dataclass(slots=True)
class Written(WriterCommitMessage):
    """The output of a task, by partition name."""

    partitions: dict[str, PartitionRange] = field(default_factory=dict)


class KsegWriter(ForWorkers, DataSourceArrowWriter):
    """Writes rows with the columns of mode records. Raises KsegError for rows that cannot form a partition."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise KsegError("format kseg removes nothing: mode('append') writes partitions that are not there yet")
        if len(options.paths) != 1:
            raise KsegError("format kseg writes to one path: save('orders-0')")
        self._options = options
        self._names = _checked_names(schema)
        path = options.paths[0].rstrip("/")
        if not is_url(path):
            path = Place(local_path(path)).absolute
        self._partition: str | None = None
        if "topic" not in self._names:
            path, self._partition = os.path.split(path)
            if parse_partition_name(self._partition) is None:
                raise KsegError(
                    f"{shown(path)}/{self._partition}: is named like no partition, such as orders-0; or give columns "
                    "topic, partition"
                )
        self._output: LocalOutput | StoreOutput = (
            StoreOutput(path, options.storage) if is_url(path) else LocalOutput(path)
        )
        self._output.begin(self._partition)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Written:
        """Runs one task."""
        attempt = self._output.new_attempt()
        writers = PartitionWriters(partial(self._writer, attempt))
        try:
            for batch in (each for each in iterator if each.num_rows):
                with errors_at("rows", KsegError, of=ValueError):
                    parts = [*by_partition(batch)] if self._partition is None else [(self._partition, batch)]
                for name, part in parts:
                    writer = writers.use(name, part.nbytes)
                    with errors_at(name, KsegError, of=ValueError):
                        writer.add_table(part)
            written = {name: writer.finish() for name, writer in writers.by_name.items()}
            self._output.stage(attempt, written)
            return Written(written)
        except BaseException as error:
            writers.close()
            self._output.discard(attempt)
            if is_system_error(error):
                raise KsegError(f"{self._output.root}: nothing was written: {text_of(error)}") from error
            raise

    def _writer(self, attempt: str, name: str) -> RowsWriter:
        options, folder = self._options, Place(attempt) / name
        Disk().make_directory(folder)
        limits = RollLimits(options.segment_bytes, interval_bytes=options.interval_bytes)
        hint = f" in a task: {_SORT_HINT}"
        return RowsWriter(name, folder, codec_target(options.codec), options.batch_bytes, limits, hint)

    def commit(self, messages: list[Any]) -> None:
        """Moves everything into place. Raises KsegError if several tasks have written the same offsets."""
        try:
            found: dict[str, list[PartitionRange]] = defaultdict(list)
            for message in messages:
                for name, each in message.partitions.items() if message is not None else ():
                    found[name].append(each)
            order = iter if "offset" in self._names else _renumbered
            whole = {name: _joined(name, order(found[name])) for name in sorted(found)}
            if whole:
                self._output.put(whole)
        finally:
            self._output.remove()

    def abort(self, messages: list[Any]) -> None:
        """Removes the output of all tasks."""
        self._output.remove()


def _checked_names(schema: StructType) -> list[str]:
    """Returns the names of the columns. Raises KsegError for one that records do not have."""
    known = columns_of(Options())
    for column in schema:
        wanted = known.get(column.name)
        if wanted is None:
            raise KsegError(f"a record has no column {column.name!r}; it has {', '.join(known)}")
        is_text = column.name in ("key", "value") and isinstance(column.dataType, StringType)
        if column.dataType.simpleString() != wanted.simpleString() and not is_text:
            expected, given = wanted.simpleString(), column.dataType.simpleString()
            raise KsegError(f"column {column.name} is {expected}, not {given}")
    names = [column.name for column in schema]
    if ("topic" in names) != ("partition" in names):
        raise KsegError("columns topic and partition go together: without both, the path is a partition")
    return names


def _renumbered(ranges: Iterable[PartitionRange]) -> Iterator[PartitionRange]:
    """Yields the ranges one after the other: without a column of offsets each task has counted from 0."""
    first = 0
    for segments, gaps in ranges:
        moved = [replace(s, base_offset=first + s.base_offset, next_offset=first + s.next_offset) for s in segments]
        yield PartitionRange(moved, gaps)
        first = moved[-1].next_offset


def _joined(name: str, ranges: Iterable[PartitionRange]) -> PartitionRange:
    """Returns the ranges of a partition as one. Raises KsegError if they overlap."""
    whole = PartitionRange([], [])
    for segments, gaps in sorted(ranges, key=lambda each: each.segments[0].base_offset):
        base_offset = segments[0].base_offset
        next_offset = whole.segments[-1].next_offset if whole.segments else base_offset
        if next_offset > base_offset:
            raise KsegError(
                f"{name}: several tasks have offsets around {base_offset}, nothing was written: {_SORT_HINT}"
            )
        if next_offset < base_offset:
            whole.gaps.append((next_offset, base_offset - 1))
        whole.segments.extend(segments)
        whole.gaps.extend(gaps)
    return whole
