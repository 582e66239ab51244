"""Selects the printer of a view: table, hex, summary, committed offsets."""

import os
from collections.abc import Callable
from typing import Any

from kseg.dump.options import JSON, SORT_FIELDS, TABLE, DumpOptions
from kseg.formats.rows import Scratch
from kseg.output.printer import Style
from kseg.output.sink import Sink

PIPED_TABLE_WIDTH = 120
HEX_WIDTH = 80
MOST_SUMMARIES = 10
"""Partitions that have a summary each; more have a line each."""


def view_printer(
    options: DumpOptions,
    sink: Sink,
    style: Style,
    scratch: Scratch,
    warn: Callable[[str], None],
    partitions: Callable[[], int],
) -> Any:
    """Returns None for text and JSON, and for open transactions. ``warn`` receives lines for standard error.

    ``partitions`` counts the partitions that are dumped.
    """
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
            jobs=options.jobs or os.cpu_count() or 1, fleet=_fleet_table(options, sink, paint, partitions),
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


def _fleet_table(options: DumpOptions, sink: Sink, paint: Any, partitions: Callable[[], int]) -> Any:
    """Returns None if each partition has a summary of its own."""
    if options.form == JSON or options.what_if or (options.sort is None and partitions() <= MOST_SUMMARIES):
        return None
    from kseg.output.fleet_table import FleetTable

    return FleetTable(options.sort or SORT_FIELDS[0], paint, _width(sink, PIPED_TABLE_WIDTH))


def _width(sink: Sink, otherwise: int) -> int:
    """Returns the width in columns: from COLUMNS, from the terminal, or the default for a pipe."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told) > 0:
        return int(told)
    if not sink.is_terminal:
        return otherwise
    import shutil

    return shutil.get_terminal_size().columns
