"""``kseg recover``: what a broker's start would make of a crashed log, or all that is intact."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from kseg.changes.plan import Plan
from kseg.cli.changing import Known, changing_options, paths_argument, run_work
from kseg.cli.eras import IntervalTeller, era_option, interval_option
from kseg.cli.options import ByteCount
from kseg.kernel.guard import keep_freed_memory
from kseg.output.notices import Notices
from kseg.output.paint import shown_time
from kseg.recovery.broker import Recovery, plan_partition
from kseg.recovery.eras import DEFAULT_MESSAGE_LIMIT_BYTES
from kseg.recovery.root import CHECKPOINTS, LOG_STARTS, RECOVERY_POINTS, Root, partition_of
from kseg.recovery.salvage import Salvage, plan_salvage
from kseg.recovery.start import Start
from kseg.segment.files import METADATA_TOPIC, list_partitions


@click.command("recover")
@paths_argument
@click.option(
    "--mode",
    type=click.Choice(["broker", "salvage"]),
    default="broker",
    show_default=True,
    help="broker: as a broker starts after an unclean stop; salvage: cut out only what is damaged.",
)
@click.option("--full", is_flag=True, help="Scan every segment, whatever marker and recovery point say.")
@era_option
@click.option(
    "--max-message-bytes",
    type=ByteCount(),
    default=DEFAULT_MESSAGE_LIMIT_BYTES,
    show_default=True,
    help="With --era 0.8.1 to 0.10.2: a larger message counts as damaged, as for such a broker.",
)
@interval_option
@click.option("--now", type=click.IntRange(min=0), metavar="MS", help="What counts as now, in ms since the epoch.")
@changing_options
def command(**options: Any) -> int:
    """Repair a partition directory, or all partitions of a log directory, after a crash or disk damage.

    Mode broker leaves byte for byte what a start of the newest broker, or of that of --era, leaves: the log is cut at
    the first batch that is not valid, later segments go, indexes and snapshots are rebuilt. Mode salvage keeps every
    intact batch at its own offset; use it for the last copy, as a replica never fetches the holes again. What goes is
    kept: kseg undo.
    """
    keep_freed_memory()
    notices = Notices(options["color"], options["quiet"], options["verbose"])
    return run_work(options["paths"], RecoverWork(options, notices), options)


class RecoverWork:
    """Makes the plans of one run."""

    root_names: tuple[str, ...] = CHECKPOINTS
    damage_remains = False

    def __init__(self, options: dict[str, Any], notices: Notices) -> None:
        self.command = f"recover --mode {options['mode']}"
        self._options = options
        self._notices = notices
        now = options["now"] if options["now"] is not None else int(time.time() * 1000)
        self._start = Start(
            now_ms=now,
            interval_bytes=options["index_interval_bytes"],
            era=replace(options["era"], message_limit_bytes=options["max_message_bytes"]),
        )
        self._intervals = IntervalTeller(notices)
        self._ends: dict[tuple[str, int], int] = {}

    def plan_partition(self, directory: str, known: Known) -> Plan:
        return self._plan(directory, replace(self._start_of(directory, Root.of("", known)), was_clean=False))

    def plan_log_directory(self, directory: str, known: Known, done: list[str]) -> Iterator[Plan]:
        # All of them before the first is carried out: where a broker would not start, nothing is to change.
        root = Root.of(directory, known)
        plans = [self._plan(path, self._start_of(path, root)) for path in list_partitions(directory)]
        yield from plans

    def plan_root(self, directory: str, known: Known, has_changed: bool) -> Plan:
        return Root.of(directory, known).plan(self._ends)

    def _start_of(self, directory: str, root: Root) -> Start:
        key = partition_of(directory)
        if key is not None and key[0] == METADATA_TOPIC:
            return self._start
        point = 0 if self._options["full"] else root.offset(RECOVERY_POINTS, key) or 0
        return replace(
            self._start,
            was_clean=root.was_clean and not self._options["full"],
            recovery_point=point,
            log_start_offset=root.offset(LOG_STARTS, key) or 0,
        )

    def _plan(self, directory: str, start: Start) -> Plan:
        if self._options["mode"] == "salvage":
            salvaged = plan_salvage(directory, start)
            self._tell_salvage(salvaged)
            plan, end = salvaged.plan, salvaged.next_offset
        else:
            recovered = plan_partition(directory, start)
            self._tell_cuts(recovered)
            self._intervals.tell(directory, recovered.interval if recovered.plan else None)
            plan, end = recovered.plan, recovered.next_offset
        if key := partition_of(directory):
            self._ends[key] = end
        return plan

    def _tell_cuts(self, recovered: Recovery) -> None:
        """What is cut, and what of it the other mode would keep."""
        for cut in recovered.cuts:
            loss = cut.loss
            behind = f" and {len(cut.dropped)} later segments" if cut.dropped else ""
            self._notices.warning(
                f"{recovered.directory}/{cut.file}: not valid at position {cut.position}: {cut.length} bytes{behind} "
                f"are cut, the log ends at offset {cut.next_offset}"
            )
            if loss.batches:
                times = ""
                if loss.last_timestamp >= 0:
                    times = f", {shown_time(max(loss.first_timestamp, 0))} to {shown_time(loss.last_timestamp)}"
                self._notices.warning(
                    f"{recovered.directory}: intact in what goes: {loss.batches} batches, {loss.records} records, "
                    f"offsets {loss.first_offset} to {loss.last_offset}{times}; --mode salvage would keep them, a "
                    "replica that is in sync has them"
                )

    def _tell_salvage(self, salvaged: Salvage) -> None:
        for file, cut in salvaged.cuts[:20]:
            place = f"{salvaged.directory}/{file}: position {cut.position}, {cut.length} bytes"
            self._notices.warning(f"{place}: {cut.code}: {cut.message}")
        if len(salvaged.cuts) > 20:
            self._notices.warning(f"{salvaged.directory}: {len(salvaged.cuts) - 20} more damaged ranges")
        if salvaged.mended:
            self._notices.warning(f"{salvaged.directory}: headers mended: {salvaged.mended}")
        if salvaged.plan.gaps:
            missing = sum(last - first + 1 for first, last in salvaged.plan.gaps)
            self._notices.warning(
                f"{salvaged.directory}: offsets that stay missing: {missing}, in {len(salvaged.plan.gaps)} gaps; "
                "a replica may have them"
            )
