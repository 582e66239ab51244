"""The options of conversions as one typed object."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kseg.errors import KsegError, RequestError
from kseg.formats.compressing import NONE, Target, parse_target
from kseg.options import declaration
from kseg.options.declaration import CHANGES, INPUT, RULES, Number, PathKind, Value, given_in, option, refuse
from kseg.runtime.threads import usable_cores
from kseg.segment.files import LAST_OFFSET
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES, LARGEST_SEGMENT_BYTES, RollLimits

if TYPE_CHECKING:
    from kseg.export.pushdown import Bounds


class LossError(KsegError):
    """The target format cannot represent some information of the log."""


FORMATS = {"v0": 0, "v1": 1, "v2": 2}
JSON_LINES = "jsonl"
EXPORTS = (JSON_LINES, "csv", "parquet", "arrow")
IMPORTS = (JSON_LINES, "parquet", "arrow")


def partition_columns(text: str) -> tuple[str, ...]:
    """Reads ``topic,partition``, or some of these and ``date``. Raises ValueError."""
    names = tuple(text.split(","))
    if not {*names} <= {"topic", "partition", "date"} or len({*names}) < len(names):
        raise ValueError(f"{text!r} is not some of topic,partition,date")
    return names


PARTS = Value("COLUMNS", partition_columns)


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """The options of `kseg convert`; None for an option that is not given.

    ``form``: one of FORMATS or EXPORTS, None keeps the format of each batch. ``source``: one of IMPORTS, the form of
    the paths; None for logs. ``codec``: ``none``, or a codec with or without a level, such as ``zstd:19``; None keeps
    that of each batch.
    ``batch_bytes``: records are regrouped to batches of at most this size before compression; None keeps the batches.
    ``segment_bytes``: None keeps the segments. ``base_offset``: that of the first message of a 0.7 log, whose byte
    positions become a header named ``position_header``. ``offsets`` and ``times`` (ms), both ends included: the records
    in these ranges only. ``read_committed``: only records that such a consumer sees.
    ``partition_by``: columns that become directories of tables.
    ``output``: a directory for new partitions, or the file of an export; ``-`` is standard output. ``interval_bytes``:
    index.interval.bytes.
    """

    source: str | None = option(
        "--from", INPUT, "Build segments from JSON Lines, Parquet or Arrow.", IMPORTS, in_python="from_"
    )
    form: str | None = option("--to", RULES, "Format; default: that of the segments.", (*FORMATS, *EXPORTS))
    offsets: tuple[int, int] | None = declaration.offsets("Only records with offsets in A..B (inclusive).")
    times: tuple[int, int] | None = declaration.times(
        "Only records with timestamps in FROM..TO, as -2h.. or yesterday; local time, unless it has a zone."
    )
    codec: str | None = option(
        "--codec", RULES, "none, gzip, snappy, lz4 or zstd, with a level such as zstd:19.", declaration.CODEC
    )
    batch_bytes: int | None = option(
        "--batch-bytes", RULES, "Put records into batches of at most BYTES.", declaration.BYTES
    )
    segment_bytes: int | None = option(
        "--segment-bytes", RULES, "Start new segments as a broker with this setting.", declaration.BYTES
    )
    base_offset: int | None = option(
        "--base-offset",
        RULES,
        "Offset of the first record if the input has no offsets.",
        Number(0, LAST_OFFSET),
        metavar="N",
    )
    position_header: str | None = option(
        "--position-header", RULES, "From 0.7: store byte positions in a header of this name.", metavar="NAME"
    )
    partition_by: tuple[str, ...] | None = option(
        "--partition-by", RULES, "Tables: write files below DIR/topic=T/partition=N/date=DAY.", PARTS
    )
    is_lossy: bool = option("--lossy", RULES, "Drop fields that the format lacks.", bool)
    skips_damage: bool = option("--skip-damage", RULES, "Skip damaged data, and report it; default: refuse.", bool)
    in_place: bool = option("--in-place", CHANGES, "Replace the segments; kseg undo restores the old ones.", bool)
    output: str | None = option(
        "-o --output",
        CHANGES,
        "Segments: write DIR/PARTITION, completely or not at all. Exports: the file; - is standard output.",
        PathKind(is_checked=True),
        metavar="PATH",
    )
    interval_bytes: int | None = declaration.index_interval()
    max_batch_bytes: int = declaration.batch_limit()
    jobs: int | None = declaration.jobs()
    read_committed: bool = declaration.isolation()
    ignores_log_start: bool = option(
        "--ignore-log-start", INPUT, "Exports: include deleted records, below the log start offset.", bool
    )
    topics: tuple[str, ...] = declaration.topics()
    decodes_keys: bool = option(
        "--key-format", RULES, "Exports: avro decodes keys with their schemas.", ("avro",), is_switch=True
    )
    decodes_values: bool = option(
        "--value-format", RULES, "Exports: avro decodes values with their schemas.", ("avro",), is_switch=True
    )
    schemas: str | None = declaration.schemas()
    csv_safe: bool = option(
        "--csv-safe", RULES, "CSV: put ' before texts that spreadsheets would run as formulas (= + - @).", bool
    )

    @property
    def is_export(self) -> bool:
        return self.form in EXPORTS

    @property
    def is_selective(self) -> bool:
        """Whether only some records are converted, by offset or time."""
        return self.offsets is not None or self.times is not None

    @property
    def wanted(self) -> "Bounds":
        """The offsets and times of the records that are converted."""
        from kseg.export.pushdown import ALL_ROWS, Bounds

        return Bounds(*(self.offsets or ALL_ROWS[:2]), *(self.times or ALL_ROWS[2:4]))

    def check_form(self, others: Collection[str] = ()) -> None:
        """Raises RequestError for options that an export and an import do not take. ``others``: names of given options
        that are not of this class.
        """
        given = given_in(self) | set(others)
        lock = () if self.partition_by else ("--no-lock",)
        of_changes = ("--in-place", "--quarantine", "--no-quarantine", "--dry-run", *lock)
        if self.schemas and not (self.decodes_keys or self.decodes_values):
            raise RequestError("--schemas is for --key-format avro and --value-format avro")
        if not self.is_export:
            of_exports = ("--key-format", "--value-format", "--ignore-log-start")
            refuse(of_exports, given, "is for --to jsonl, csv, parquet and arrow")
        of_segments = ("--batch-bytes", "--segment-bytes", "--index-interval-bytes", "--lossy", "--base-offset")
        if self.csv_safe and self.form != "csv":
            raise RequestError("--csv-safe is for --to csv")
        is_table = self.form in ("parquet", "arrow")
        if self.partition_by and not is_table:
            raise RequestError("--partition-by needs --to parquet or arrow")
        if self.partition_by and self.output in (None, "-"):
            raise RequestError("--partition-by writes a directory: give -o DIR")
        if self.is_export:
            codec = () if is_table else ("--codec",)
            names = (*of_changes, *of_segments, *codec, "--from", "--position-header")
            refuse(names, given, f"does not go with --to {self.form}")
        elif self.source:
            of_lines = () if self.source == "jsonl" else ("--skip-damage", "--max-batch-bytes")
            names = ("--in-place", "--position-header", "--isolation", "--topic", "--offsets", "--time", *of_lines)
            refuse(names, given, f"does not go with --from {self.source}")
        if self.in_place:
            refuse(("--offsets", "--time"), given, "needs --output: in place, all other records would be lost")

    def check_for_spark(self) -> None:
        """Raises RequestError for what Spark does not write."""
        if self.form != "parquet" and (self.is_export or self.source):
            other = "spark.read reads" if self.is_export else "df.write writes"
            raise RequestError(
                f"on Spark, convert writes segments or Parquet; otherwise {other} DataFrames (kseg-spark(7))"
            )
        if self.form == "parquet":
            refuse(("--skip-damage", "--partition-by"), given_in(self), "does not go with --to parquet on Spark")
            if self.output in (None, "-"):
                raise RequestError("--to parquet on Spark writes a directory: give -o DIR")

    def check(self) -> None:
        """Raises RequestError for a header or codec that the format lacks, and for segments on standard output."""
        if self.output == "-" and not self.is_export:
            raise RequestError("-o - is for exports; segments need -o DIR")
        if self.position_header and self.form in ("v0", "v1"):
            raise RequestError("--position-header needs --to v2: older formats have no headers")
        if self.codec and self.codec.startswith("zstd") and self.form in ("v0", "v1"):
            raise RequestError(f"{self.form} has no zstd: gzip, snappy or lz4")

    @property
    def target(self) -> Target | None:
        """The codec and its level."""
        return None if self.codec is None else codec_target(self.codec)

    @property
    def has_level(self) -> bool:
        """Whether batches with the same codec are recompressed, too."""
        return self.codec is not None and ":" in self.codec

    @property
    def packing(self) -> tuple[str | None, int | None]:
        """The codec and the level of an exported table, None for the default."""
        target = self.target
        return (None, None) if target is None else (target.name, target.level if self.has_level else None)

    @property
    def magic(self) -> int | None:
        """The message format, None to keep that of each batch."""
        return FORMATS.get(self.form or "")

    @property
    def first_offset(self) -> int:
        return self.base_offset or 0

    @property
    def roll_limits(self) -> RollLimits:
        """When new segments begin."""
        interval = DEFAULT_INTERVAL_BYTES if self.interval_bytes is None else self.interval_bytes
        return RollLimits(self.segment_bytes or LARGEST_SEGMENT_BYTES, interval_bytes=interval)

    @property
    def threads(self) -> int:
        return self.jobs or usable_cores()

    @property
    def reason(self) -> str:
        """The reason of each step of a plan: the options of format, codec and sizes, as they were given."""
        given: dict[str, object] = {"to": self.form, "codec": self.codec, "batch-bytes": self.batch_bytes}
        given["segment-bytes"] = self.segment_bytes
        for name, ends in (("offsets", self.offsets), ("time", self.times)):
            given[name] = None if ends is None else "{}..{}".format(*ends)
        options = " ".join(f"--{name} {value}" for name, value in given.items() if value is not None)
        return f"converted ({options})" if options else "converted"


def codec_target(text: str) -> Target:
    """Returns the codec of ``none``, ``zstd`` or ``zstd:19``. Raises ValueError with a message for people."""
    return NONE if text == "none" else parse_target(text)
