"""Selects the printer of a view (table, hex, summary, committed offsets), and that of side files."""

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kseg.dump.options import JSON, TABLE, DumpOptions
from kseg.formats.rows import Scratch
from kseg.output.printer import Style
from kseg.output.sink import Sink
from kseg.runtime.threads import usable_cores
from kseg.segment.files import parse_partition_name

if TYPE_CHECKING:
    from kseg.logdir.log_directory import LogDirectory
    from kseg.output.side_files import SidePrinter


PIPED_TABLE_WIDTH = 120
HEX_WIDTH = 80


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
    from kseg.output.terminal import Paint, line_width

    paint = Paint(options.color, sink.is_terminal)
    if options.as_hex:
        from kseg.output.hex_view import HexPrinter

        width = line_width(sink, HEX_WIDTH)
        return HexPrinter(sink, scratch, paint=paint, width=width, positions=options.positions, unpacked=style.deep)
    if options.summary:
        from kseg.output.summary import SummaryPrinter

        return SummaryPrinter(
            sink, scratch, as_json=options.form == JSON, paint=paint, what_if=options.what_if, sample=options.sample,
            jobs=options.jobs or usable_cores(), fleet=_fleet_table(options, sink, paint, partitions),
            backlog=Backlogs(options.now),
        )  # fmt: skip
    width = line_width(sink, PIPED_TABLE_WIDTH)
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
    from kseg.output.fleet_table import FLEET_WIDTH, MAX_SEPARATE_PARTITIONS, FleetTable
    from kseg.output.terminal import line_width

    if options.form == JSON or options.what_if or (options.sort is None and partitions() <= MAX_SEPARATE_PARTITIONS):
        return None
    return FleetTable(options.sort or "name", paint, line_width(sink, FLEET_WIDTH))


def side_printer(options: DumpOptions, sink: Sink, scratch: Scratch, warn: Callable[[str], None]) -> "SidePrinter":
    """Returns the printer. ``warn`` receives lines for standard error."""
    from kseg.output.side_files import SideStyle

    style = SideStyle(options.verify_index_only, options.index_sanity_check, options.max_message_size, sink.is_terminal)
    if options.form == JSON:
        from kseg.output.side_files import SideJsonPrinter

        return SideJsonPrinter(sink, style, scratch, warn)
    from kseg.output.side_files import SideTextPrinter

    return SideTextPrinter(sink, style, scratch, warn)


class Backlogs:
    """Reads each log directory once. ``now_ms``: None for the current time."""

    def __init__(self, now_ms: int | None) -> None:
        self._now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        self._directories: dict[str, LogDirectory | None] = {}

    def __call__(self, partition: str, damaged: str) -> dict[str, Any] | None:
        """Returns the backlog as JSON, None if no cleaner cleans the partition. ``damaged``: see `backlog_of`."""
        from kseg.cleaner.ranges import backlog_of
        from kseg.logdir.log_directory import directory_around, state_by_name

        path = os.path.abspath(partition)
        around, name = os.path.split(path)
        if around not in self._directories:
            self._directories[around] = directory_around(path)
        directory = self._directories[around]
        place = parse_partition_name(name)
        state = state_by_name(place[0] if place else None) if directory is None else directory.broker_state(name)
        found = backlog_of(partition, state, self._now_ms, damaged)
        return None if found is None else found.as_object()
