"""Selects the printers of a dump: of the form (text, JSON, table), of a view (hex, summary, ...) and of side files."""

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kseg.dump.options import JSON, TABLE, DumpOptions, partitions_in
from kseg.formats.rows import Scratch
from kseg.kernel import COMPILED
from kseg.output.notices import Notices
from kseg.output.printer import Style
from kseg.output.sink import Sink
from kseg.runtime.threads import usable_cores
from kseg.segment.files import parse_partition_name

if TYPE_CHECKING:
    from kseg.output.side_files import SidePrinter
    from kseg.output.summary import BacklogOf


PIPED_TABLE_WIDTH = 120
HEX_WIDTH = 80


def printers_of(
    options: DumpOptions, sink: Sink, style: Style, scratch: Scratch, notices: Notices, is_selective: bool
) -> list[Any]:
    """Returns the printer of most files, and for tables of decoded topics that of __consumer_offsets.

    ``is_selective``: only some batches or records are printed. Otherwise text and JSON are rendered on several threads.
    """
    if options.open_transactions or not (
        options.as_hex or options.summary or options.committed_offsets or options.form == TABLE
    ):
        return [_form_printer(options, sink, style, scratch, is_selective)]
    from kseg.output.terminal import Paint, line_width

    paint = Paint(options.color, sink.is_terminal)
    if options.as_hex:
        from kseg.output.hex_view import HexPrinter

        width = line_width(sink, HEX_WIDTH)
        return [HexPrinter(sink, scratch, paint=paint, width=width, positions=options.positions, unpacked=style.deep)]
    if options.summary:
        from kseg.output.summary import SummaryPrinter

        return [SummaryPrinter(
            sink, scratch, as_json=options.form == JSON, paint=paint, what_if=options.what_if, sample=options.sample,
            jobs=options.jobs or usable_cores(), fleet=_fleet_table(options, sink, paint),
            backlog=_backlogs(options.now),
        )]  # fmt: skip
    width = line_width(sink, PIPED_TABLE_WIDTH)
    printers: list[Any] = []
    if not options.committed_offsets:
        from kseg.output.table import TablePrinter

        printers.append(TablePrinter(sink, style, scratch, paint=paint, width=width))
    if options.committed_offsets or options.decode_by_topic:
        from kseg.output.committed_offsets import CommittedOffsetsPrinter

        as_json = options.form == JSON
        printers.append(CommittedOffsetsPrinter(
            sink, style, scratch, as_json=as_json, warn=notices.warning, paint=paint, width=width, now=options.now
        ))  # fmt: skip
    return printers


def _form_printer(options: DumpOptions, sink: Sink, style: Style, scratch: Scratch, is_selective: bool) -> Any:
    """Returns the printer of text or JSON; one with several threads if batches can be rendered independently."""
    if options.form == JSON:
        from kseg.output.jsonl import JsonLinesPrinter as Form
    else:
        from kseg.output.kafka_text import KafkaTextPrinter as Form  # type: ignore[assignment]
    jobs = options.jobs or usable_cores()
    if jobs == 1 or is_selective or options.stop_on_damage or not COMPILED:
        return Form(sink, style, scratch)
    from kseg.output.parallel import ParallelPrinter

    return ParallelPrinter(sink, lambda turn: Form(turn, style, Scratch(scratch.max_batch_bytes)), jobs)


def _fleet_table(options: DumpOptions, sink: Sink, paint: Any) -> Any:
    """Returns None if each partition has a summary of its own."""
    from kseg.output.fleet_table import FLEET_WIDTH, MAX_SEPARATE_PARTITIONS, FleetTable
    from kseg.output.terminal import line_width

    if (
        options.form == JSON
        or options.what_if
        or (options.sort is None and partitions_in(options) <= MAX_SEPARATE_PARTITIONS)
    ):
        return None
    return FleetTable(options.sort or "name", paint, line_width(sink, FLEET_WIDTH))


def side_printer(options: DumpOptions, sink: Sink, scratch: Scratch, warn: Callable[[str], None]) -> "SidePrinter":
    """Returns the printer of side files. ``warn`` receives lines for standard error."""
    from kseg.output.side_files import SideJsonPrinter, SideStyle, SideTextPrinter

    style = SideStyle(options.verify_index_only, options.index_sanity_check, options.max_message_size, sink.is_terminal)
    return (SideJsonPrinter if options.form == JSON else SideTextPrinter)(sink, style, scratch, warn)


def _backlogs(now_ms: int | None) -> "BacklogOf":
    """Returns the function for backlogs of the log cleaner. ``now_ms``: None for the current time."""
    from kseg.cleaner.ranges import backlog_of
    from kseg.logdir.log_directory import LogDirectory, directory_around, state_by_name

    now = int(time.time() * 1000) if now_ms is None else now_ms
    directories: dict[str, LogDirectory | None] = {}

    def backlog(partition: str, damaged: str) -> dict[str, Any] | None:
        path = os.path.abspath(partition)
        around, name = os.path.split(path)
        if around not in directories:
            directories[around] = directory_around(path)
        directory, place = directories[around], parse_partition_name(name)
        state = state_by_name(place[0] if place else None) if directory is None else directory.broker_state(name)
        found = backlog_of(partition, state, now, damaged)
        return None if found is None else found.as_object()

    return backlog
