"""Selects the printer of side files for the chosen form."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kseg.dump.options import JSON, DumpOptions
from kseg.formats.rows import Scratch
from kseg.output.sink import Sink

if TYPE_CHECKING:
    from kseg.output.side_files.printer import SidePrinter


def side_printer(options: DumpOptions, sink: Sink, scratch: Scratch, warn: Callable[[str], None]) -> "SidePrinter":
    """Returns the printer. ``warn`` receives lines for standard error."""
    from kseg.output.side_files.printer import SideStyle

    style = SideStyle(options.verify_index_only, options.index_sanity_check, options.max_message_size, sink.is_terminal)
    if options.form == JSON:
        from kseg.output.side_files.json import SideJsonPrinter

        return SideJsonPrinter(sink, style, scratch, warn)
    from kseg.output.side_files.text import SideTextPrinter

    return SideTextPrinter(sink, style, scratch, warn)
