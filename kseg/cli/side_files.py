"""What ``kseg dump`` has for side files: kafka-dump-log's options of indexes, and the printer of each form."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kseg.cli.options import ByteCount
from kseg.formats.rows import Scratch
from kseg.limits import MAX_MESSAGE_BYTES
from kseg.output.sink import Sink

if TYPE_CHECKING:
    from kseg.output.side_printer import SidePrinter


def side_file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--index-sanity-check, --verify-index-only, --max-message-size."""
    for option in (
        click.option(
            "--max-message-size",
            type=ByteCount(),
            default=MAX_MESSAGE_BYTES,
            help="How far from the position of an index entry its batch may reach (5M).",
        ),
        click.option("--verify-index-only", is_flag=True, help="Check indexes against the .log, print no entries."),
        click.option("--index-sanity-check", is_flag=True, help="Check only whether indexes are sound in themselves."),
    ):
        command = option(command)
    return command


def side_printer(options: dict[str, Any], sink: Sink, scratch: Scratch, warn: Callable[[str], None]) -> "SidePrinter":
    """The printer of the form that is asked for; ``warn`` is given lines for standard error."""
    from kseg.output.side_printer import SideStyle

    style = SideStyle(
        options["verify_index_only"], options["index_sanity_check"], options["max_message_size"], sink.is_terminal
    )
    if options["form"] == "json":
        from kseg.output.side_json import SideJsonPrinter

        return SideJsonPrinter(sink, style, scratch, warn)
    from kseg.output.side_text import SideTextPrinter

    return SideTextPrinter(sink, style, scratch, warn)
