"""Selects the printer of a view: table, hex, summary, committed offsets."""

import os
from collections.abc import Callable
from typing import Any

from kseg.dump.options import JSON, TABLE, DumpOptions
from kseg.formats.rows import Scratch
from kseg.output.printer import Style
from kseg.output.sink import Sink

PIPED_TABLE_WIDTH = 120
HEX_WIDTH = 80


def view_printer(options: DumpOptions, sink: Sink, style: Style, scratch: Scratch, warn: Callable[[str], None]) -> Any:
    """Returns None for text and JSON, and for open transactions. ``warn`` receives lines for standard error."""
    is_table = options.form == TABLE
    if options.open_transactions or not (options.as_hex or options.summary or is_table or options.committed_offsets):
        return None
    from kseg.output.paint import Paint

    paint = Paint(options.color, sink.is_terminal)
    if options.as_hex:
        from kseg.output.hex.view import HexPrinter

        width = _width(sink, HEX_WIDTH)
        return HexPrinter(sink, scratch, paint=paint, width=width, positions=options.positions, unpacked=style.deep)
    if options.summary:
        from kseg.output.summary import SummaryPrinter

        return SummaryPrinter(
            sink, scratch, as_json=options.form == JSON, paint=paint, what_if=options.what_if, sample=options.sample,
            jobs=options.jobs or os.cpu_count() or 1,
        )  # fmt: skip
    width = _width(sink, PIPED_TABLE_WIDTH)
    committed: Any = None
    if options.committed_offsets or options.decode_by_topic:
        from kseg.output.committed_offsets import CommittedOffsetsPrinter

        committed = CommittedOffsetsPrinter(
            sink, style, scratch, as_json=options.form == JSON, warn=warn, paint=paint, width=width, now=options.now
        )
        if options.committed_offsets:
            return committed
    from kseg.output.table import TablePrinter

    table = TablePrinter(sink, style, scratch, paint=paint, width=width)
    if committed is None:
        return table
    from kseg.output.topic_tables import TopicTables

    return TopicTables(table, committed)


def _width(sink: Sink, otherwise: int) -> int:
    """Returns the width in columns: from COLUMNS, from the terminal, or the default for a pipe."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told) > 0:
        return int(told)
    if not sink.is_terminal:
        return otherwise
    import shutil

    return shutil.get_terminal_size().columns
