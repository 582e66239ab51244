"""The options of ``kseg convert``, and which of them exclude each other."""

import os
from collections.abc import Callable
from typing import Any

import click

from kseg.changes.driver.planner import ChangeOptions
from kseg.cli.completion import complete_codecs
from kseg.cli.engine import Engine
from kseg.cli.options import ByteCount, interval_option
from kseg.conversion.options import EXPORTS, FORMATS, ConvertOptions, target_of
from kseg.errors import PathError
from kseg.limits import MAX_BATCH_BYTES
from kseg.segment.files import LOG_DIRECTORY_FILES, file_names, holds_segments


class Codec(click.ParamType):  # type: ignore[type-arg]
    """``none`` or a codec, with ``:level`` where it has any."""

    name = "CODEC[:LEVEL]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            target_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


_ISOLATION_OPTION = click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="read_committed leaves out aborted transactions and all from the last stable offset on.",
)


_OPTIONS = (
    click.option("--from", "source", type=click.Choice(["jsonl"]), help="Build segments from lines of JSON."),
    click.option("--to", type=click.Choice([*FORMATS, *EXPORTS]), help="Format; default: segments as they are."),
    click.option(
        "--codec", type=Codec(), shell_complete=complete_codecs,
        help="none, gzip, snappy, lz4 or zstd, with a level such as zstd:19.",
    ),
    click.option("--batch-bytes", type=ByteCount(), help="Put records into batches of at most BYTES."),
    click.option("--segment-bytes", type=ByteCount(), help="Begin new segments as a broker with this setting."),
    click.option(
        "--base-offset", type=click.IntRange(min=0), metavar="N", help="Offset of the first record, where none has any."
    ),
    click.option("--position-header", metavar="NAME", help="Of 0.7, keep byte positions as a header of this name."),
    click.option("--lossy", "is_lossy", is_flag=True, help="Leave out what the format cannot hold."),
    click.option(
        "--skip-damage", "skips_damage", is_flag=True, help="Go on without what is damaged, and tell what that is."
    ),
    click.option("--in-place", is_flag=True, help="Put the new files in place of the old ones; kseg undo goes back."),
    click.option(
        "-o", "--output", type=click.Path(), metavar="PATH",
        help="Segments: write DIR/PARTITION, whole or not at all. Exports: the file, - is standard output.",
    ),
    interval_option,
    click.option(
        "--max-batch-bytes", type=ByteCount(), default=MAX_BATCH_BYTES, help="What one batch may decompress to (256M)."
    ),
    click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Work with N threads (default: the cores)."),
    _ISOLATION_OPTION,
)  # fmt: skip


def convert_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of this command alone, and PATH..."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(readable=False))(command)


def check_usage(options: ConvertOptions, change: ChangeOptions, engine: Engine) -> None:
    """Raises UsageError if options contradict each other."""
    form, keeping = options.form, change.keeping
    if engine.is_spark and (options.is_export or options.from_lines):
        other = "spark.read reads" if options.is_export else "df.write writes"
        raise click.UsageError(f"only segments to segments is done on Spark; there, {other} DataFrames (kseg-spark(7))")
    for_segments: dict[str, object] = {
        "--batch-bytes": options.batch_bytes,
        "--segment-bytes": options.segment_bytes,
        "--index-interval-bytes": options.interval_bytes,
        "--lossy": options.is_lossy,
        "--base-offset": options.base_offset,
    }
    for_places: dict[str, object] = {
        "--in-place": options.in_place,
        "--quarantine": keeping.elsewhere,
        "--no-quarantine": not keeping.keeps,
        "--dry-run": change.is_dry,
        "--no-lock": not change.takes_lock,
    }
    if options.is_export:
        codec: dict[str, object] = {} if form in ("parquet", "arrow") else {"--codec": options.codec}
        others: dict[str, object] = {"--from": options.from_lines, "--position-header": options.position_header}
        _refuse(f"--to {form}", for_places | codec | for_segments | others)
        return
    if options.from_lines:
        _refuse(
            "--from jsonl",
            {
                "--in-place": options.in_place,
                "--position-header": options.position_header,
                "--isolation": options.read_committed,
            },
        )
    if options.in_place == bool(options.output):
        raise click.UsageError("give either --output DIR or --in-place")
    if options.output and (keeping.elsewhere or not keeping.keeps):
        raise click.UsageError("--output keeps nothing, as nothing goes: no --quarantine, no --no-quarantine")
    if options.position_header and form in ("v0", "v1"):
        raise click.UsageError("--position-header needs --to v2: older formats have no headers")
    if options.codec and options.codec.startswith("zstd") and form in ("v0", "v1"):
        raise click.UsageError(f"--to {form} has no zstd: gzip, snappy or lz4")


def _refuse(what: str, given: dict[str, object]) -> None:
    """Raises UsageError for the first of these options that is given."""
    for name, value in given.items():
        if value not in (None, False):
            raise click.UsageError(f"{name} does not go with {what}")


def check_output(output: str | None) -> None:
    """Raises PathError if the output would lie in a partition or log directory, among the files of brokers."""
    if output is None or output == "-":
        return
    place = os.path.realpath(output)
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    if os.path.isdir(folder) and (holds_segments(folder) or LOG_DIRECTORY_FILES & set(file_names(folder))):
        kind = "partition" if holds_segments(folder) else "log directory"
        raise PathError(f"{output}: lies in the {kind} {folder}; nothing was written: name a place outside of it")
