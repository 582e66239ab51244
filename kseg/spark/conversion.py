"""Conversion on Spark: one task for each segment, or for a partition whose segments depend on each other.

Each attempt of a task writes to its own folder. The driver collects the files of the reported attempts.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from kseg.changes.disk import Disk
from kseg.conversion.options import ConvertOptions
from kseg.conversion.partition import (
    Converted,
    check_kinds,
    convert_segments,
    convert_some,
    is_divisible,
    joined,
    transactions_of,
)
from kseg.conversion.record_files import SKIP_HINT
from kseg.errors import DamageError, PathError, UnsupportedError
from kseg.segment.files import SegmentFile
from kseg.spark import register
from kseg.spark.jobs import Failure, attempt_in, run, whole
from kseg.spark.session import reason_of
from kseg.stores.source import STANDARD_INPUT
from kseg.stores.windows import Buffers

# Writes the records of segments on Spark as a directory of Parquet files, one for each task.

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
    if os.path.lexists(output):
        raise PathError(f"{output}: exists; nothing was written")
    written = _write_options(options)
    register(spark)
    draft = Path(os.path.realpath(output)).with_name(f".kseg-{uuid4().hex}")
    try:
        with _timestamps_in_microseconds(spark):
            frame = spark.read.format("kseg").options(**_read_options(options)).load(list(paths))
            frame.write.options(**written).parquet(draft.as_uri())
        os.rename(draft, output)
    except Exception as error:  # Java's and py4j's errors have no common class
        reason = reason_of(error)
        if DamageError.__name__ in str(error):  # the traceback of the task: Spark passes on no exception
            raise DamageError(f"{reason}; without --engine spark, {SKIP_HINT}") from error
        raise reason from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _read_options(options: ConvertOptions) -> dict[str, str]:
    schemas = {} if options.schemas is None else {"schemas": options.schemas}
    return schemas | {
        "keys": "decoded" if options.decodes_keys else "bytes",
        "values": "decoded" if options.decodes_values else "bytes",
        "isolation": "read_committed" if options.read_committed else "read_uncommitted",
        "onDamage": "fail",
        "maxBatchBytes": str(options.max_batch_bytes),
        "ignoreLogStart": "true",
    }


def _write_options(options: ConvertOptions) -> dict[str, str]:
    written = {"parquet.block.size": str(_GROUP_BYTES)}
    codec, level = options.packing
    if codec is not None:
        written["compression"] = _CODEC_NAMES.get(codec, codec)
    if level is not None:
        if codec != "zstd":
            raise UnsupportedError(f"on Spark, Parquet has no levels of {codec}")
        written[_ZSTD_LEVEL] = str(level)
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


def convert_on_spark(
    spark: Any, name: str, files: list[SegmentFile], request: ConvertOptions, folder: str | None
) -> Converted:
    """Converts segments on Spark, with the result of `kseg.conversion.partition.convert_segments`.

    Raises KsegError, OSError as the local engine does.
    """
    check_kinds(name, files)
    if any(file.path == STANDARD_INPUT for file in files):
        return convert_segments(name, files, request, folder)  # tasks cannot read these files
    task = replace(request, jobs=1)
    if is_divisible(files, request):
        transactions = transactions_of(files, request)
        work = partial(_attempt, folder, lambda some, attempt: convert_some(some, task, attempt, transactions))
        done = run(spark, [[file] for file in files], work)
        segments = [each for each in done if not isinstance(each, Failure)]
        # A failure may be caused by an earlier segment; converting the whole partition shows it.
        found = joined(name, files, request, segments) if len(segments) == len(files) else None
        if found is not None:
            return _gather(found, folder)
        if folder is not None:
            _clear(folder)
    work = partial(_attempt, folder, lambda every, attempt: convert_segments(name, every, task, attempt))
    [outcome] = run(spark, [files], work)
    return _gather(whole(outcome), folder)


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


def _attempt(
    folder: str | None,
    convert: Callable[[list[SegmentFile], str | None], Converted],
    files: list[SegmentFile],
    _: Buffers,
) -> Converted:
    with attempt_in(folder) as path:
        return convert(files, path)
