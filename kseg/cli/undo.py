"""``kseg undo``: puts the last change of a partition or log directory back, lists changes, frees what they keep."""

import os
from typing import Any

import click

from kseg.changes import quarantine
from kseg.changes.disk import Disk
from kseg.changes.journal import ABANDONED, DONE, Journal, journals
from kseg.changes.lock import log_directory_of
from kseg.changes.log_directory import MARKER, changed_partitions, forget
from kseg.changes.log_directory_undo import (
    last_journal,
    plan_log_directory_undo,
    restored_content,
    sole_change,
    undo_log_directory,
)
from kseg.changes.manifest import COMMITTED, Change
from kseg.changes.plan import Plan
from kseg.changes.undo import changes_of, last_change, plan_all, purge, undo
from kseg.cli.changing import is_partition, pending_notices, remove_marker, settled
from kseg.cli.changing_options import common_options, paths_argument
from kseg.errors import KsegError, StoppedHalfwayError
from kseg.output.changes_list import ListedChange, show_changes
from kseg.output.notices import Notices
from kseg.output.paint import shown_bytes
from kseg.output.plans import PlanPrinter, plan_printer
from kseg.output.sink import Sink, open_sink


@click.command("undo")
@paths_argument
@click.option("--list", "lists", is_flag=True, help="List the changes that are known, and what they keep.")
@click.option("--purge", "purges", is_flag=True, help="Free what changes keep; they cannot be undone then.")
@click.option("--change", type=click.IntRange(min=1), metavar="N", help="With --purge: only of change N.")
@common_options
def command(**options: Any) -> int:
    """Put the last change of a partition or log directory back, from what its quarantine keeps.

    Repeated, it puts the change before that back. Refused where a file has changed since.
    """
    if options["lists"] and options["purges"]:
        raise click.UsageError("--list and --purge exclude each other")
    if options["change"] and not options["purges"]:
        raise click.UsageError("--change belongs to --purge")
    notices = Notices(options["color"], options["quiet"], options["verbose"])
    with open_sink(None) as sink:
        if options["lists"]:
            return _list(options, sink, notices)
        if options["purges"]:
            return _over(options, notices, lambda path: _purge(path, options, notices))
        printer = plan_printer(options["form"], sink, options["color"], keeps=False)
        status = _over(options, notices, lambda path: _undo(path, options, printer, notices))
        printer.finish(notices, options["dry_run"])
    return max(status, int(options["dry_run"] and printer.totals.directories > 0))


def _over(options: dict[str, Any], notices: Notices, act: Any) -> int:
    """The exit status of what is done to each path."""
    status = 0
    for path in options["paths"]:
        try:
            status = max(status, act(path) or 0)
        except StoppedHalfwayError:
            raise
        except KsegError as error:
            notices.error(error)
            status = max(status, error.exit_status)
    return status


def _undo(path: str, options: dict[str, Any], printer: PlanPrinter, notices: Notices) -> None:
    alone = is_partition(path)
    if options["dry_run"]:
        told = pending_notices(path, alone)
        for line in told:
            notices.warning(line)
        if not told:
            _undo_partition(path, True, printer, notices) if alone else _undo_log_directory(
                path, True, printer, notices
            )
        return
    with settled(path, alone, not options["no_lock"], notices):
        _undo_partition(path, False, printer, notices) if alone else _undo_log_directory(path, False, printer, notices)


def _undo_partition(path: str, is_dry: bool, printer: PlanPrinter, notices: Notices) -> None:
    change = last_change(path)
    if journal := sole_change(path, change.group):  # what was changed beside the partition comes back with it
        _undo_change(journal, is_dry, printer, notices)
        return
    found = plan_all(changes_of(path, change.group) if change.group else [change])
    root = log_directory_of(path)
    _show_marker(root, printer)
    for _, plan in found:
        printer.show(plan)
    if not is_dry:
        remove_marker(root)
        for each, _ in found:
            undo(each)
        printer.totals.has_changed = True


def _show_marker(root: str, printer: PlanPrinter) -> None:
    marker = Plan(root)
    if marker.seen(MARKER) is not None:
        marker.delete(MARKER, "a log changes: a broker has to look into all of them when it starts")
        printer.show(marker)


def _undo_log_directory(path: str, is_dry: bool, printer: PlanPrinter, notices: Notices) -> None:
    journal = last_journal(path)
    if journal is None:
        raise KsegError(f"{path}: there is no change of the log directory to undo; its partitions may have some")
    _undo_change(journal, is_dry, printer, notices)


def _undo_change(journal: Journal, is_dry: bool, printer: PlanPrinter, notices: Notices) -> None:
    path = journal.directory
    found = plan_log_directory_undo(journal)
    for _, plan in found.partitions:
        printer.show(plan)
    root = Plan(path)
    for name in found.restored:
        content = restored_content(journal, name)
        if content is not None:
            root.write(name, [content], "was so before")
        elif root.seen(name) is not None:
            root.delete(name, "was not there before")
    printer.show(root)
    for name in found.skipped:
        notices.warning(f"{os.path.join(path, name)}: nothing of this change is left to put back")
    for name in found.let_be:
        notices.warning(f"{os.path.join(path, name)}: has changed since, and is not put back")
    if not is_dry:
        undo_log_directory(found)
        printer.totals.has_changed = True


def _list(options: dict[str, Any], sink: Sink, notices: Notices) -> int:
    found: list[ListedChange] = []

    def add(path: str) -> None:
        partitions = [path] if is_partition(path) else changed_partitions(path)
        found.extend(_of_journal(path, journal) for journal in ([] if is_partition(path) else journals(path)))
        for partition in partitions:
            found.extend(_of_change(partition, change) for change in quarantine.changes(partition))

    status = _over(options, notices, add)
    show_changes(found, options["form"], sink)
    if not found and not status:
        notices.warning("no change is known")
    return status


def _of_change(directory: str, change: Change) -> ListedChange:
    return ListedChange(
        directory, change.number, change.time_ms, change.command, change.state, change.kept_bytes, change.kept
    )


def _of_journal(directory: str, journal: Journal) -> ListedChange:
    return ListedChange(
        directory, journal.number, journal.time_ms, journal.command, journal.state, 0, journal.path,
        len(journal.partitions),
    )  # fmt: skip


def _purge(path: str, options: dict[str, Any], notices: Notices) -> int:
    alone = is_partition(path)
    if options["dry_run"]:
        freed, count = _purgeable(path, alone, options["change"])
        notices.warning(f"{path}: would free {shown_bytes(freed)} (changes: {count})")
        return int(count > 0)
    with settled(path, alone, not options["no_lock"], notices):
        freed, count = _purge_settled(path, alone, options["change"])
    if options["change"] and not count:
        raise KsegError(f"{path}: there is no change {options['change']} that is over")
    notices.warning(f"{path}: freed {shown_bytes(freed)} (changes: {count})")
    return 0


def _purgeable(path: str, alone: bool, number: int | None) -> tuple[int, int]:
    partitions = [path] if alone else changed_partitions(path)
    found = [change for partition in partitions for change in quarantine.changes(partition) if _is_over(change, number)]
    return sum(change.kept_bytes for change in found), len(found)


def _is_over(change: Change, number: int | None) -> bool:
    return change.state != COMMITTED and number in (None, change.number)


def _purge_settled(path: str, alone: bool, number: int | None) -> tuple[int, int]:
    freed = count = 0
    if not alone:
        for journal in journals(path):
            if journal.state in (DONE, ABANDONED) and number in (None, journal.number):
                count += 1
                freed += _forget(journal)
        if number is not None:
            return freed, count
    for partition in [path] if alone else changed_partitions(path):
        for change in quarantine.changes(partition):
            if _is_over(change, number):
                count += 1
                freed += purge(change)
    return freed, count


def _forget(journal: Journal) -> int:
    try:
        return forget(journal, Disk())
    except OSError as error:
        raise StoppedHalfwayError(f"{journal.path}: {error.strerror or error}; repeat the command") from error
