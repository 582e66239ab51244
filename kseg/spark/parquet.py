"""Writes the records of segments on Spark as a directory of Parquet files, one for each task."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from kseg.errors import DamageError, PathError, UnsupportedError
from kseg.export.record_files import SKIP_HINT, ExportOptions
from kseg.spark import register
from kseg.spark.reasons import reason_of

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
