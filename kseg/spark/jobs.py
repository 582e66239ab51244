"""Runs tasks of verify, dump and convert on Spark, and collects their results on the driver.

Dumps: tasks render parts of segments, and the driver prints their text in order. Only a limited amount is in progress
at the same time, so that its text fits into memory.

Conversion: one task for each segment, or for a partition whose segments depend on each other. Each attempt of a task
writes to its own folder; the driver collects the files of the reported attempts. Parquet is written by Spark itself.
"""

import os
import shutil
import socket
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from kseg.changes.disk import Disk
from kseg.conversion import partition
from kseg.conversion.options import ConvertOptions
from kseg.conversion.partition import convert_segments, convert_some
from kseg.dump.options import DumpOptions, Rendered, Renderer
from kseg.dump.run import Dump
from kseg.errors import DamageError, KsegError, PathError, UnsupportedError
from kseg.formats.suffixes import LOG
from kseg.limits import MAX_BATCH_BYTES
from kseg.output.notices import Notices
from kseg.output.sink import MemorySink
from kseg.segment.files import SegmentFile
from kseg.segment.items import Damage
from kseg.segment.slices import Slice, runs_of, slices
from kseg.spark import register
from kseg.spark.session import for_workers, reason_of
from kseg.stores.place import Place
from kseg.stores.source import STANDARD_INPUT, open_source
from kseg.stores.windows import Buffers
from kseg.verification.directory_tree import CheckedPartition, Task, judge_task
from kseg.verification.partition import CheckSettings
from kseg.verification.report import Finding, Report
from kseg.views.walk import shrank

T = TypeVar("T")
R = TypeVar("R")

TASKS_PER_CORE = 4
POLL_SECONDS = 0.2

Failure = KsegError | OSError
"""An error of a task as a value: raised in Spark, it would lose its class."""


def whole(found: R | Failure) -> R:
    """Returns the result of an item. Raises its KsegError or OSError."""
    if isinstance(found, Failure):
        raise found
    return found


@contextmanager
def attempt_in(folder: str | None) -> Iterator[str | None]:
    """Yields a new folder for one attempt of a task, which is removed if the block raises; None if ``folder`` is."""
    path = None if folder is None else Place(folder) / uuid4().hex
    if path is not None:
        Disk().make_directory(path)
    try:
        yield path
    except BaseException:
        if path is not None:
            Disk().remove_tree(path)
        raise


def run(
    spark: Any,
    items: list[T],
    work: Callable[[T, Buffers], R],
    watch: Callable[[], None] = lambda: None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> list[R | Failure]:
    """Returns the result of ``work`` for each item, or its KsegError or OSError as a value; ``watch`` is called
    meanwhile. All items of a task share their buffers. Raises KsegError for any other error, on any machine.
    """
    slices = min(len(items), TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    if not slices:
        return []
    task = for_workers(_worked, os.getcwd(), work, max_batch_bytes)
    return collected(spark, lambda context: context.parallelize(items, slices).mapPartitions(task), watch)


def _worked(
    directory: str, work: Callable[[T, Buffers], R], max_batch_bytes: int, items: Iterable[T]
) -> Iterator[R | Failure]:
    """Works on items in the driver's working directory, so that relative paths mean the same files."""
    before, buffers = os.getcwd(), Buffers(max_batch_bytes)
    try:
        os.chdir(directory)
    except OSError as error:
        raise KsegError(f"{directory}: {error.strerror} on {socket.gethostname()}") from error
    try:
        for item in items:
            try:
                yield work(item, buffers)
            except (KsegError, OSError) as error:
                yield error
    finally:
        os.chdir(before)


def collected(spark: Any, make_rdd: Callable[[Any], Any], watch: Callable[[], None] = lambda: None) -> list[Any]:
    """Returns the elements of the RDD that ``make_rdd`` creates from a SparkContext; ``watch`` is called meanwhile.

    Raises KsegError for any error, on any machine.
    """
    context = spark.sparkContext
    results: list[Any] = []
    failures: list[BaseException] = []
    group = f"kseg-{id(results)}"

    def collect() -> None:
        try:
            context.setJobGroup(group, "kseg", interruptOnCancel=True)
            results.extend(make_rdd(context).collect())
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            failures.append(error)

    from pyspark import InheritableThread

    thread = InheritableThread(target=collect, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL_SECONDS)
            watch()
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    if failures:
        raise reason_of(failures[0]) from failures[0]
    return results


def check_partitions(
    spark: Any, tasks: list[Task], settings: CheckSettings, report: Report
) -> Iterator[CheckedPartition]:
    """Verifies partitions on Spark. Bound to ``spark``, it is a `kseg.verification.directory_tree.PartitionChecker`."""
    done, reported = spark.sparkContext.accumulator(0), 0

    def watch() -> None:
        nonlocal reported
        report.advance(done.value - reported)
        reported = done.value

    work = partial(_judged, replace(settings, jobs=1), report.ignored, done)
    for found in run(spark, tasks, work, watch, settings.max_batch_bytes):
        findings, outcome, unshown = whole(found)
        for finding in findings:
            report.show(finding)
        report.take(outcome.totals, unshown)
        yield outcome


def _judged(
    settings: CheckSettings, ignored: frozenset[str], done: Any, task: Task, buffers: Buffers
) -> tuple[list[Finding], CheckedPartition, list[tuple[str, str, int]]]:
    """Verifies a partition; ``done`` counts its bytes. Returns its findings, its outcome, and `Report.unshown`'s."""
    found: list[Finding] = []
    report = Report(found.append, ignored)
    outcome = judge_task(task, settings, report, buffers)
    done.add(outcome.totals.bytes)
    return found, outcome, report.unshown()


# Dumps

PART_BYTES = 4 << 20
WAVE_BYTES = 64 << 20
"""Bytes of segments in progress at the same time."""


class DumpPart(NamedTuple):
    """Part of a segment; ``is_live`` as in `kseg.segment.reader`."""

    file: SegmentFile
    is_live: bool
    slice: Slice


class KeptNotices(Notices):
    """Keeps warnings for the driver."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []

    def warning(self, message: str, copied: str = "") -> None:
        self.warnings.append(message)


def renderer_on(
    spark: Any, options: DumpOptions, is_terminal: bool, files: Iterable[tuple[SegmentFile, bool]]
) -> Renderer:
    """Returns a function that renders the segments ``files`` on Spark, called for each in that order."""
    task = replace(options, jobs=1, quiet=True, verbose=False, output=None)
    work, parts = partial(_rendered, task, is_terminal), _parts(files, is_cut=not options.is_07)
    done: deque[tuple[DumpPart, Rendered | Failure]] = deque()

    def rendered(file: SegmentFile) -> list[Rendered] | None:
        found: list[Rendered | Failure] = []
        while True:
            if not done:
                wave = list(islice(parts, -(-WAVE_BYTES // PART_BYTES)))
                done.extend(zip(wave, run(spark, wave, work), strict=True))
            if not done or done[0][0].file != file:
                return list(map(whole, found)) or None
            found.append(done.popleft()[1])

    return rendered


def _parts(files: Iterable[tuple[SegmentFile, bool]], is_cut: bool) -> Iterator[DumpPart]:
    """Yields the parts of files, or complete files if they must not be split."""
    for file, is_live in files:
        if not file.is_segment or file.path == STANDARD_INPUT:
            continue
        try:
            size = os.stat(file.path).st_size
        except OSError:
            size = 0  # the task reports the error
        for part in slices(size, PART_BYTES) if is_cut and file.kind == LOG else [Slice()]:
            yield DumpPart(file, is_live, part)


def _rendered(options: DumpOptions, is_terminal: bool, part: DumpPart, _: Buffers) -> Rendered:
    """Renders a part as the command does, in the process of a task."""
    sink = MemorySink()
    sink.is_terminal = is_terminal
    dump = Dump(sink, replace(options, paths=(part.file.path,)))
    dump.notices = notices = KeptNotices()
    with open_source(part.file.path) as source:
        reader = dump.reader(part.file, source, part.is_live)
        dump.printer.enter(part.file)
        dump.printer.attend(reader)
        batches = size = 0
        for item in runs_of(reader, part.file, part.slice):
            if isinstance(item, Damage):
                size += item.length
                dump.damage(reader, item)
            else:
                size += item.end - item.position
                batches += item.count
                dump.printer.run(reader, item)
        dump.printer.finish()
        sink.flush()
        failure = shrank(part.file.path, source) if source.current_size() < source.size else None
        return Rendered(
            zlib.compress(sink.data, 1), dump.printer.errors, dump.damaged_ranges, dump.damaged_bytes,
            batches, size, reader.end, tuple(notices.warnings), failure,
        )  # fmt: skip


# Conversion


def convert_on_spark(
    spark: Any, name: str, files: list[SegmentFile], request: ConvertOptions, folder: str | None
) -> partition.Converted:
    """Converts segments on Spark, with the result of `kseg.conversion.partition.convert_segments`.

    Raises KsegError, OSError as the local engine does.
    """
    partition.check_kinds(name, files)
    if any(file.path == STANDARD_INPUT for file in files):
        return convert_segments(name, files, request, folder)  # tasks cannot read these files
    task = replace(request, jobs=1)
    if partition.is_divisible(files, request):
        transactions = partition.transactions_of(files, request)
        work = partial(_attempt, folder, lambda some, attempt: convert_some(some, task, attempt, transactions))
        done = run(spark, [[file] for file in files], work)
        segments = [each for each in done if not isinstance(each, Failure)]
        # A failure may be caused by an earlier segment; converting the whole partition shows it.
        found = partition.joined(name, files, request, segments) if len(segments) == len(files) else None
        if found is not None:
            return _gather(found, folder)
        if folder is not None:
            _clear(folder)
    work = partial(_attempt, folder, lambda every, attempt: convert_segments(name, every, task, attempt))
    [outcome] = run(spark, [files], work)
    return _gather(whole(outcome), folder)


def _gather(found: partition.Converted, folder: str | None) -> partition.Converted:
    """Moves the files of all tasks to one folder, and removes those of other attempts."""
    if folder is None:
        return found
    disk = Disk()
    for segment in found.segments:
        for suffix, path in segment.paths.items():
            segment.paths[suffix] = Place(folder) / segment.name(suffix)
            disk.rename(path, segment.paths[suffix])
    _clear(folder)
    return found


def _clear(folder: str) -> None:
    """Removes unused task output from a folder."""
    with os.scandir(folder) as entries:
        left = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    for path in left:
        Disk().remove_tree(path)


def _attempt(
    folder: str | None,
    convert: Callable[[list[SegmentFile], str | None], partition.Converted],
    files: list[SegmentFile],
    _: Buffers,
) -> partition.Converted:
    with attempt_in(folder) as path:
        return convert(files, path)


_GROUP_BYTES = 16 << 20
"""Size of a row group. Each core has one in memory, and a session of the command has little."""
_CODEC_NAMES = {"lz4": "lz4_raw"}
"""Where Parquet's name differs from Kafka's."""
_TIMESTAMP_SETTING = "spark.sql.parquet.outputTimestampType"
_ZSTD_LEVEL = "parquet.compression.codec.zstd.level"


def write_parquet(spark: Any, paths: Sequence[str], options: ConvertOptions) -> None:
    """Writes the records to the new directory ``output`` of the options, completely or not at all. Damage is refused.

    Raises PathError, DamageError, UnsupportedError, KsegError.
    """
    output = options.output or ""
    if Place(output).lexists():
        raise PathError(f"{output}: exists; nothing was written")
    written = {"parquet.block.size": str(_GROUP_BYTES)}
    codec, level = options.packing
    if codec is not None:
        written["compression"] = _CODEC_NAMES.get(codec, codec)
    if level is not None:
        if codec != "zstd":
            raise UnsupportedError(f"on Spark, Parquet has no levels of {codec}")
        written[_ZSTD_LEVEL] = str(level)
    read = {} if options.schemas is None else {"schemas": options.schemas}
    read |= {
        "keys": "decoded" if options.decodes_keys else "bytes",
        "values": "decoded" if options.decodes_values else "bytes",
        "isolation": "read_committed" if options.read_committed else "read_uncommitted",
        "onDamage": "fail",
        "maxBatchBytes": str(options.max_batch_bytes),
        "ignoreLogStart": str(options.ignores_log_start).lower(),
    }
    ranges = {"Offset": options.offsets, "Timestamp": options.times}
    read |= {
        f"{end}{name}": str(at)
        for name, ends in ranges.items()
        if ends
        for end, at in zip(("start", "end"), ends, strict=True)
    }
    register(spark)
    draft = Path(os.path.realpath(output)).with_name(f".kseg-{uuid4().hex}")
    try:
        before = spark.conf.get(_TIMESTAMP_SETTING)
        # The type of the local engine; Spark's default is a deprecated one of 96 bits.
        spark.conf.set(_TIMESTAMP_SETTING, "TIMESTAMP_MICROS")
        try:
            frame = spark.read.format("kseg").options(**read).load(list(paths))
            frame.write.options(**written).parquet(draft.as_uri())
        finally:
            spark.conf.set(_TIMESTAMP_SETTING, before)
        os.rename(draft, output)
    except Exception as error:  # Java's and py4j's errors have no common class
        reason = reason_of(error)
        if DamageError.__name__ in str(error):  # the traceback of the task: Spark passes on no exception
            from kseg.conversion.record_files import SKIP_HINT  # workers do not need its imports

            raise DamageError(f"{reason}; without --engine spark, {SKIP_HINT}") from error
        raise reason from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
