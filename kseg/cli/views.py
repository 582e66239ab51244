"""The options of ``kseg dump`` that are for people: ``--format table``, ``--hex``, ``--summary``, and progress."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kseg.cli.watching import progress_over
from kseg.formats.rows import Scratch
from kseg.output.printer import Style
from kseg.output.progress import Progress
from kseg.output.sink import Sink
from kseg.segment.files import expand_path

if TYPE_CHECKING:
    from kseg.formats.compressing import Target

PIPED_TABLE_WIDTH = 120
HEX_WIDTH = 80
_LARGEST = (1 << 63) - 1


class PositionRange(click.ParamType):  # type: ignore[type-arg]
    """``A..B``, bytes of a file, inclusive, decimal or 0x…; either end may be left out. Yields (first, last)."""

    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        first, dots, last = str(value).partition("..")
        low, high = _position(first, 0), _position(last, _LARGEST)
        if low is None or high is None or not (first or last):
            self.fail(f"{value!r} is no range of positions such as 0..60, 0x1f00.. or ..4095", param, ctx)
        high = high if dots else low
        if low > high:
            self.fail(f"{value!r} ends before it begins", param, ctx)
        return low, high


class CodecTarget(click.ParamType):  # type: ignore[type-arg]
    """``zstd``, ``gzip:9``, ...: a codec and its level. Yields a `Target`."""

    name = "CODEC"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> "Target":
        from kseg.formats.compressing import Target, parse_target

        if isinstance(value, Target):
            return value
        try:
            return parse_target(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def view_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--hex, --position, --summary, --what-if, --sample."""
    for option in (
        click.option(
            "--sample",
            type=click.IntRange(min=1),
            metavar="N",
            help="Of --what-if: try some N batches chosen at random instead of all, and tell the error.",
        ),
        click.option(
            "--what-if",
            type=CodecTarget(),
            metavar="CODEC[:LEVEL]",
            help="With the summary: what compressing every batch with CODEC would save; implies --summary.",
        ),
        click.option("--summary", is_flag=True, help="Print a picture of each partition in numbers instead."),
        click.option("--position", type=PositionRange(), help="Of --hex: only what lies at bytes A..B of each file."),
        click.option(
            "--hex",
            "as_hex",
            is_flag=True,
            help="Print the bytes, field by field; with --deep-iteration those inside compressed batches as well.",
        ),
    ):
        command = option(command)
    return command


def view_printer(
    options: dict[str, Any], sink: Sink, style: Style, scratch: Scratch, warn: Callable[[str], None]
) -> Any:
    """The printer of the view that is asked for; None for text and JSON. ``warn`` is given lines for standard error.

    Raises UsageError for what excludes itself.
    """
    form, summary = options["form"], options["summary"]
    others = options["as_hex"] or summary or options["open_transactions"] or options["everything"]
    if options["committed_offsets"] and others:
        raise click.UsageError("--committed-offsets goes with none of --hex, --summary, --open-transactions, --all")
    if options["open_transactions"] and (options["as_hex"] or summary):
        raise click.UsageError("--open-transactions goes neither with --hex nor with --summary")
    if options["as_hex"] and (summary or form != "text"):
        raise click.UsageError("--hex goes neither with --summary nor with another --format than text")
    if summary and form == "table":
        raise click.UsageError("--summary has --format text and json")
    if options["position"] and not options["as_hex"]:
        raise click.UsageError("--position is for --hex")
    if options["sample"] and options["what_if"] is None:
        raise click.UsageError("--sample is for --what-if")
    if not (options["as_hex"] or summary or form == "table" or options["committed_offsets"]):
        return None
    if options["open_transactions"]:
        return None  # it has lines of its own
    from kseg.output.paint import Paint

    paint = Paint(options["color"], sink.is_terminal)
    if options["as_hex"]:
        from kseg.output.hexview import HexPrinter

        width = _width(sink, HEX_WIDTH)
        return HexPrinter(
            sink, scratch, paint=paint, width=width, positions=options["position"], unpacked=style.deep
        )  # fmt: skip
    if summary:
        from kseg.output.summary import SummaryPrinter

        return SummaryPrinter(
            sink, scratch, as_json=form == "json", paint=paint, what_if=options["what_if"], sample=options["sample"],
            jobs=options.get("jobs") or os.cpu_count() or 1,
        )  # fmt: skip
    width = _width(sink, PIPED_TABLE_WIDTH)
    committed: Any = None
    if options["committed_offsets"] or (form == "table" and options["decode"]):
        from kseg.output.committed_offsets import CommittedOffsetsPrinter

        committed = CommittedOffsetsPrinter(
            sink, style, scratch, as_json=form == "json", warn=warn, paint=paint, width=width, now=options["now"]
        )
        if options["committed_offsets"]:
            return committed
    if form != "table":
        return None
    from kseg.output.table import TablePrinter

    table = TablePrinter(sink, style, scratch, paint=paint, width=width)
    if committed is None:
        return table
    from kseg.output.topic_tables import TopicTables

    return TopicTables(table, committed)


def progress_of(
    options: dict[str, Any], paths: list[str], sink: Sink, parts_of: Callable[[str], list[str]] = expand_path
) -> Progress:
    """Progress over the bytes of all paths; none where the output itself is watched."""
    is_gathered = options["summary"] or options["committed_offsets"]
    quiet = options["quiet"] or (sink.is_terminal and not is_gathered)
    return progress_over(paths, quiet, options["everything"], parts_of)


def _width(sink: Sink, otherwise: int) -> int:
    """Columns: what COLUMNS says, else those of the terminal, else the default for a pipe."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told) > 0:
        return int(told)
    if not sink.is_terminal:
        return otherwise
    import shutil

    return shutil.get_terminal_size().columns


def _position(text: str, default: int) -> int | None:
    """A position, the default for no text, None for what is none."""
    if not text:
        return default
    digits, base = (text[2:], 16) if text[:2] in ("0x", "0X") else (text, 10)
    if not (digits.isascii() and digits.isalnum()) or len(digits) > 19:
        return None
    try:
        return min(int(digits, base), _LARGEST)
    except ValueError:
        return None
