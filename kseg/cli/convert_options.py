"""The options of ``kseg convert``, and which of them exclude each other."""

from typing import Any

import click

from kseg.changes.driver.planner import ChangeOptions
from kseg.cli.changing_options import paths_argument
from kseg.cli.completion import complete_codecs
from kseg.cli.engine import Engine
from kseg.cli.options import (
    ByteCount,
    CommandFunction,
    batch_limit_option,
    interval_option,
    isolation_option,
    number_option,
    refuse,
    threads_option,
    topic_option,
    with_options,
)
from kseg.conversion.options import EXPORTS, FORMATS, ConvertOptions, codec_target
from kseg.errors import RequestError


class Codec(click.ParamType):  # type: ignore[type-arg]
    """``none`` or a codec, with ``:level`` where it has any."""

    name = "CODEC[:LEVEL]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            codec_target(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


_OPTIONS = (
    click.option(
        "--from",
        "from_lines",
        type=click.Choice(["jsonl"]),
        callback=lambda _ctx, _param, form: form is not None,
        help="Build segments from JSON Lines.",
    ),
    click.option(
        "--to", type=click.Choice([*FORMATS, *EXPORTS]), help="Format; default: that of the segments."
    ),
    click.option(
        "--codec", type=Codec(), shell_complete=complete_codecs,
        help="none, gzip, snappy, lz4 or zstd, with a level such as zstd:19.",
    ),
    click.option("--batch-bytes", type=ByteCount(), help="Put records into batches of at most BYTES."),
    click.option("--segment-bytes", type=ByteCount(), help="Start new segments as a broker with this setting."),
    number_option("--base-offset", 0, "Offset of the first record if the lines have no offsets."),
    click.option("--position-header", metavar="NAME", help="From 0.7: store byte positions in a header of this name."),
    click.option("--lossy", "is_lossy", is_flag=True, help="Drop fields that the format lacks."),
    click.option(
        "--skip-damage", "skips_damage", is_flag=True, help="Skip damaged data, and report it; default: refuse."
    ),
    click.option("--in-place", is_flag=True, help="Replace the segments; kseg undo restores the old ones."),
    click.option(
        "-o", "--output", type=click.Path(), metavar="PATH",
        help="Segments: write DIR/PARTITION, completely or not at all. Exports: the file, - is standard output.",
    ),
    interval_option,
    batch_limit_option,
    threads_option,
    isolation_option,
    topic_option,
)  # fmt: skip


def convert_options(command: CommandFunction) -> CommandFunction:
    """The options of this command alone, and PATH..."""
    return paths_argument(with_options(command, _OPTIONS))


def _check_spark(options: ConvertOptions) -> None:
    if options.form != "parquet" and (options.is_export or options.from_lines):
        other = "spark.read reads" if options.is_export else "df.write writes"
        raise click.UsageError(
            f"on Spark, convert writes segments or Parquet; otherwise {other} DataFrames (kseg-spark(7))"
        )
    if options.form == "parquet":
        refuse({"--skip-damage": options.skips_damage}, "does not go with --to parquet on Spark")
        if options.output in (None, "-"):
            raise click.UsageError("--to parquet on Spark writes a directory: give -o DIR")


def check_usage(options: ConvertOptions, change: ChangeOptions, engine: Engine) -> None:
    """Raises UsageError if options contradict each other."""
    form, keeping = options.form, change.keeping
    if engine.is_spark:
        _check_spark(options)
    for_segments = {
        "--batch-bytes": options.batch_bytes is not None,
        "--segment-bytes": options.segment_bytes is not None,
        "--index-interval-bytes": options.interval_bytes is not None,
        "--lossy": options.is_lossy,
        "--base-offset": options.base_offset is not None,
    }
    for_changes = {
        "--in-place": options.in_place,
        "--quarantine": keeping.elsewhere is not None,
        "--no-quarantine": not keeping.keeps,
        "--dry-run": change.is_dry,
        "--no-lock": not change.takes_lock,
    }
    if options.is_export:
        others = {
            "--codec": options.codec is not None and form not in ("parquet", "arrow"),
            "--from": options.from_lines,
            "--position-header": options.position_header is not None,
        }
        refuse(for_changes | for_segments | others, f"does not go with --to {form}")
        return
    if options.from_lines:
        for_paths = {
            "--in-place": options.in_place,
            "--position-header": options.position_header is not None,
            "--isolation": options.read_committed,
        }
        refuse(for_paths | {"--topic": bool(options.topics)}, "does not go with --from jsonl")
    if options.in_place == bool(options.output):
        raise click.UsageError("give either --output DIR or --in-place")
    if options.output and (keeping.elsewhere or not keeping.keeps):
        raise click.UsageError("--output removes nothing: no --quarantine, no --no-quarantine")
    if options.position_header and form in ("v0", "v1"):
        raise click.UsageError("--position-header needs --to v2: older formats have no headers")
    try:
        options.check()
    except RequestError as error:
        raise click.UsageError(str(error)) from error
