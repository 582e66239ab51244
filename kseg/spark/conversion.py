"""Conversion on Spark: one task for each segment, or for a partition whose segments depend on each other.

Each attempt of a task writes to its own folder. The driver collects the files of the reported attempts.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from kseg.changes.disk import Disk
from kseg.conversion.options import ConvertOptions
from kseg.conversion.partition import (
    Converted,
    ConvertedSegment,
    check_kinds,
    convert_segment,
    convert_segments,
    is_divisible,
    joined,
    transactions_of,
)
from kseg.errors import DamageError, KsegError, PathError, UnsupportedError
from kseg.export.record_files import SKIP_HINT, ExportOptions
from kseg.segment.files import SegmentFile
from kseg.segment.isolation import Transactions
from kseg.spark import register
from kseg.spark.jobs import Failure, failure_of, run
from kseg.spark.session import reason_of
from kseg.stores.source import STANDARD_INPUT

# Writes the records of segments on Spark as a directory of Parquet files, one for each task.

_GROUP_BYTES = 16 << 20
"""Size of a row group. Each core has one in memory, and a session of the command has little."""
_CODEC_NAMES = {"lz4": "lz4_raw"}
"""Where Parquet's name differs from Kafka's."""
_TIMESTAMP_SETTING = "spark.sql.parquet.outputTimestampType"
_ZSTD_LEVEL = "parquet.compression.codec.zstd.level"


def write_parquet(spark: Any, options: ExportOptions, output: str) -> None:
    """Writes the records to the new directory ``output``, completely or not at all. Damage is refused.

    Raises PathError, DamageError, UnsupportedError, KsegError.
    """
    if os.path.lexists(output):
        raise PathError(f"{output}: exists; nothing was written")
    written = _write_options(options)
    register(spark)
    draft = Path(os.path.realpath(output)).with_name(f".kseg-{uuid4().hex}")
    try:
        with _timestamps_in_microseconds(spark):
            frame = spark.read.format("kseg").options(**_read_options(options)).load(list(options.paths))
            frame.write.options(**written).parquet(draft.as_uri())
        os.rename(draft, output)
    except Exception as error:  # Java's and py4j's errors have no common class
        reason = reason_of(error)
        if DamageError.__name__ in str(error):  # the traceback of the task: Spark passes on no exception
            raise DamageError(f"{reason}; without --engine spark, {SKIP_HINT}") from error
        raise reason from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _read_options(options: ExportOptions) -> dict[str, str]:
    return {
        "isolation": "read_committed" if options.read_committed else "read_uncommitted",
        "onDamage": "fail",
        "maxBatchBytes": str(options.max_batch_bytes),
        "ignoreLogStart": "true",
    }


def _write_options(options: ExportOptions) -> dict[str, str]:
    written = {"parquet.block.size": str(_GROUP_BYTES)}
    if options.codec is not None:
        written["compression"] = _CODEC_NAMES.get(options.codec, options.codec)
    if options.level is not None:
        if options.codec != "zstd":
            raise UnsupportedError(f"on Spark, Parquet has no levels of {options.codec}")
        written[_ZSTD_LEVEL] = str(options.level)
    return written


@contextmanager
def _timestamps_in_microseconds(spark: Any) -> Iterator[None]:
    """Timestamps have the type of the local engine; Spark's default is a deprecated one of 96 bits."""
    before = spark.conf.get(_TIMESTAMP_SETTING)
    spark.conf.set(_TIMESTAMP_SETTING, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.set(_TIMESTAMP_SETTING, before)


class _Job(NamedTuple):
    """The request shared by all tasks of a partition."""

    name: str
    request: ConvertOptions
    folder: str | None
    transactions: Transactions | None


class SparkConversion:
    """Converts segments on Spark, with the result of `kseg.conversion.partition.convert_segments`."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __call__(self, name: str, files: list[SegmentFile], request: ConvertOptions, folder: str | None) -> Converted:
        """Raises KsegError, OSError as the local engine does."""
        check_kinds(name, files)
        if any(file.path == STANDARD_INPUT for file in files):
            return convert_segments(name, files, request, folder)  # tasks cannot read these files
        job = _Job(name, replace(request, jobs=1), folder, None)
        if is_divisible(files, request):
            job = job._replace(transactions=transactions_of(files, request))
            segments = [
                each for each in run(self._spark, files, _ConvertSegments(job)) if isinstance(each, ConvertedSegment)
            ]
            # A failure may be caused by an earlier segment; converting the whole partition shows it.
            found = joined(name, files, request, segments) if len(segments) == len(files) else None
            if found is not None:
                return _gather(found, folder)
            if folder is not None:
                _clear(folder)
        [whole] = run(self._spark, [files], _ConvertPartition(job))
        if isinstance(whole, Failure):
            raise whole.error()
        return _gather(whole, folder)


def _gather(found: Converted, folder: str | None) -> Converted:
    """Moves the files of all tasks to one folder, and removes those of other attempts."""
    if folder is None:
        return found
    disk = Disk()
    for segment in found.segments:
        for suffix, path in segment.paths.items():
            segment.paths[suffix] = os.path.join(folder, segment.name(suffix))
            disk.rename(path, segment.paths[suffix])
    _clear(folder)
    return found


def _clear(folder: str) -> None:
    """Removes unused task output from a folder."""
    with os.scandir(folder) as entries:
        left = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    for path in left:
        Disk().remove_tree(path)


class _ConvertSegments:
    """Converts segments independently."""

    def __init__(self, job: _Job) -> None:
        self._job = job

    def __call__(self, files: Iterable[SegmentFile]) -> Iterator[ConvertedSegment | Failure]:
        name, request, folder, transactions = self._job
        for file in files:
            attempt = _attempt_folder(folder)
            try:
                yield convert_segment(name, file, request, attempt, transactions)
            except (KsegError, OSError) as error:
                _remove(attempt)
                yield failure_of(error)


class _ConvertPartition:
    """Converts all segments of a partition."""

    def __init__(self, job: _Job) -> None:
        self._job = job

    def __call__(self, partitions: Iterable[list[SegmentFile]]) -> Iterator[Converted | Failure]:
        name, request, folder, _ = self._job
        for files in partitions:
            attempt = _attempt_folder(folder)
            try:
                yield convert_segments(name, files, request, attempt)
            except (KsegError, OSError) as error:
                _remove(attempt)
                yield failure_of(error)


def _attempt_folder(folder: str | None) -> str | None:
    if folder is None:
        return None
    path = os.path.join(folder, uuid4().hex)
    Disk().make_directory(path)
    return path


def _remove(folder: str | None) -> None:
    if folder is not None:
        Disk().remove_tree(folder)
