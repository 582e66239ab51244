"""The options of ``kseg convert``, and what they ask for."""

import os
from collections.abc import Callable
from typing import Any

import click

from kseg.cli.engine import check_master
from kseg.cli.options import ByteCount, interval_option
from kseg.conversion.request import Request
from kseg.errors import PathError
from kseg.formats.areas import NONE
from kseg.formats.compressing import Target, parse_target
from kseg.limits import MAX_BATCH_BYTES
from kseg.runtime.cores import usable_cores
from kseg.segment.files import LOG_DIRECTORY_FILES, file_names, holds_segments
from kseg.segment.writer import DEFAULT_INTERVAL_BYTES

FORMATS = {"v0": 0, "v1": 1, "v2": 2}
EXPORTS = ("jsonl", "csv", "parquet", "arrow")


class Codec(click.ParamType):  # type: ignore[type-arg]
    """``none`` or a codec, with ``:level`` where it has any."""

    name = "CODEC[:LEVEL]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            target_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def target_of(text: str) -> Target:
    """Raises ValueError, with a sentence for people."""
    return NONE if text == "none" else parse_target(text)


_OPTIONS = (
    click.option("--from", "from_", type=click.Choice(["jsonl"]), help="Build segments from lines of JSON."),
    click.option("--to", type=click.Choice([*FORMATS, *EXPORTS]), help="Format; default: segments as they are."),
    click.option("--codec", type=Codec(), help="none, gzip, snappy, lz4 or zstd, with a level such as zstd:19."),
    click.option("--batch-bytes", type=ByteCount(), help="Put records into batches of at most BYTES."),
    click.option("--segment-bytes", type=ByteCount(), help="Begin new segments as a broker with this setting."),
    click.option(
        "--base-offset", type=click.IntRange(min=0), metavar="N", help="Offset of the first record, where none has any."
    ),
    click.option("--position-header", metavar="NAME", help="Of 0.7, keep byte positions as a header of this name."),
    click.option("--lossy", is_flag=True, help="Leave out what the format cannot hold."),
    click.option("--skip-damage", is_flag=True, help="Go on without what is damaged, and tell what that is."),
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
)  # fmt: skip


def convert_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All that are the command's own, and PATH..."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(readable=False))(command)


isolation_option = click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="read_committed leaves out aborted transactions and all from the last stable offset on.",
)


_SEGMENT_OPTIONS = ("codec", "batch_bytes", "segment_bytes", "index_interval_bytes", "lossy", "base_offset")
_PLACE_OPTIONS = ("in_place", "quarantine", "no_quarantine", "dry_run", "no_lock")


def check_usage(options: dict[str, Any]) -> None:
    """Raises UsageError where options contradict each other."""
    form, codec = options["to"], options["codec"]
    check_master(options)
    if options["engine"] == "spark" and (form in EXPORTS or options["from_"]):
        other = "spark.read reads" if form in EXPORTS else "df.write writes"
        raise click.UsageError(f"only segments to segments is done on Spark; there, {other} DataFrames (kseg-spark(7))")
    if form in EXPORTS:
        has_codec = form in ("parquet", "arrow")
        _refuse(options, f"--to {form}", _PLACE_OPTIONS + _SEGMENT_OPTIONS[has_codec:] + ("from_", "position_header"))
        return
    if options["from_"]:
        _refuse(options, "--from jsonl", ("in_place", "position_header"))
        if options["isolation"] != "read_uncommitted":
            raise click.UsageError("--isolation does not go with --from jsonl")
    if options["in_place"] == bool(options["output"]):
        raise click.UsageError("give either --output DIR or --in-place")
    if options["output"] and (options["quarantine"] or options["no_quarantine"]):
        raise click.UsageError("--output keeps nothing, as nothing goes: no --quarantine, no --no-quarantine")
    if options["position_header"] and form in ("v0", "v1"):
        raise click.UsageError("--position-header needs --to v2: older formats have no headers")
    if codec and codec.startswith("zstd") and form in ("v0", "v1"):
        raise click.UsageError(f"--to {form} has no zstd: gzip, snappy or lz4")


def _refuse(options: dict[str, Any], what: str, names: tuple[str, ...]) -> None:
    for name in names:
        if options[name] not in (None, False):
            raise click.UsageError(f"--{name.strip('_').replace('_', '-')} does not go with {what}")


def asked(options: dict[str, Any]) -> Request:
    """What the options ask for."""
    codec, header, interval = options["codec"], options["position_header"], options["index_interval_bytes"]
    return Request(
        magic=FORMATS.get(options["to"]),
        target=None if codec is None else target_of(codec),
        has_level=codec is not None and ":" in codec,
        batch_bytes=options["batch_bytes"],
        segment_bytes=options["segment_bytes"],
        committed_only=options["isolation"] == "read_committed",
        is_lossy=options["lossy"],
        skips_damage=options["skip_damage"],
        base_offset=options["base_offset"] or 0,
        position_header=None if header is None else header.encode("utf-8", "surrogateescape"),
        interval_bytes=DEFAULT_INTERVAL_BYTES if interval is None else interval,
        max_batch_bytes=options["max_batch_bytes"],
        jobs=options["jobs"] or usable_cores(),
    )


def check_output(output: str | None) -> None:
    """Raises PathError where the output would lie in a partition, among the files that a broker reads there."""
    if output is None or output == "-":
        return
    place = os.path.realpath(output)
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    if os.path.isdir(folder) and (holds_segments(folder) or LOG_DIRECTORY_FILES & set(file_names(folder))):
        kind = "partition" if holds_segments(folder) else "log directory"
        raise PathError(f"{output}: lies in the {kind} {folder}; nothing was written: name a place outside of it")
