"""``kseg undo``: puts the last change of a partition or log directory back, lists changes, frees what they keep."""

import os
from collections.abc import Callable
from typing import Any

import click

from kseg.changes import quarantine
from kseg.changes.disk import Disk
from kseg.changes.driver.failures import Failures
from kseg.changes.driver.paths import interrupted_changes, is_partition, locked_and_completed
from kseg.changes.journal import ABANDONED, DONE, MARKER, Journal, journals
from kseg.changes.lock import directories_to_lock, log_directory_of
from kseg.changes.log_directory import changed_partitions, forget
from kseg.changes.log_directory_undo import (
    last_journal,
    plan_log_directory_undo,
    restorable_marker,
    restored_content,
    sole_change,
    undo_log_directory,
    undo_partition,
)
from kseg.changes.manifest import COMMITTED, Change
from kseg.changes.plan import Plan
from kseg.changes.undo import changes_of, last_change, plan_all, purge
from kseg.cli.changing import open_plans
from kseg.cli.changing_options import common_options, paths_argument
from kseg.errors import KsegError, StoppedHalfwayError
from kseg.formats.json_values import encode, name_value
from kseg.output.changes.changes_list import ListedChange, show_changes
from kseg.output.changes.plans import PlanPrinter, plan_printer
from kseg.output.changes.reporter import Presentation
from kseg.output.notices import Notices
from kseg.output.sink import Sink
from kseg.quantities import shown_bytes
from kseg.stores.no_follow import resolved


@click.command("undo")
@paths_argument
@click.option("--list", "lists", is_flag=True, help="List the changes that are known, and what they keep.")
@click.option("--complete", "completes", is_flag=True, help="Complete what was interrupted, and undo nothing.")
@click.option("--purge", "purges", is_flag=True, help="Free what changes keep; they cannot be undone then.")
@click.option("--change", type=click.IntRange(min=1), metavar="N", help="With --purge: only of change N.")
@click.option(
    "--quarantine",
    type=click.Path(),
    default="",
    metavar="DIR",
    help="Where bytes were kept with --quarantine, if the partition has moved since.",
)
@common_options
def command(presentation: Presentation, **options: Any) -> int:
    """Put the last change of a partition or log directory back, from what its quarantine keeps.

    Repeated, it puts the change before that back. Refused where a file has changed since.
    """
    if sum(options[name] for name in ("lists", "completes", "purges")) > 1:
        raise click.UsageError("--list, --complete and --purge exclude each other")
    if options["change"] and not options["purges"]:
        raise click.UsageError("--change belongs to --purge")
    notices, form = presentation.notices(), presentation.form
    if presentation.as_page and (options["lists"] or options["purges"]):
        raise click.UsageError("--format html is for a dry run that puts something back")
    with open_plans(presentation, options["dry_run"] or options["lists"], notices.error) as sink:
        if options["lists"]:
            return _list(options, form, sink, notices)
        if options["purges"]:
            return _over(options, notices, lambda path: _purge(path, options, form, sink, notices))
        printer = plan_printer(form, sink, presentation.color, options["dry_run"], keeps=False)
        if options["completes"]:
            status = _over(options, notices, lambda path: _complete(path, options, notices, printer))
            printer.finish(notices, status)
            return status
        status = _over(options, notices, lambda path: _undo(path, options, printer, notices))
        printer.finish(notices, status)
    return max(status, int(options["dry_run"] and printer.totals.directories > 0))


def _over(options: dict[str, Any], notices: Notices, act: Callable[[str], int]) -> int:
    """The exit status of what is done to each path."""
    failures, status = Failures(notices), 0
    for path in options["paths"]:
        with failures.of(path):
            status = max(status, act(path))
    return max(status, failures.status)


def _place(path: str, options: dict[str, Any]) -> tuple[list[str], str, bool]:
    """What is to be locked, the resolved path, and whether that is a partition. Raises PathError."""
    real = resolved(path)
    alone = is_partition(real)
    return [] if options["no_lock"] else directories_to_lock(path, real, alone), real, alone


def _undo(path: str, options: dict[str, Any], printer: PlanPrinter, notices: Notices) -> int:
    try:
        _undo_path(path, options, printer, notices)
    finally:
        printer.failed()
    return 0


def _undo_path(path: str, options: dict[str, Any], printer: PlanPrinter, notices: Notices) -> None:
    to_lock, path, alone = _place(path, options)
    place = options["quarantine"] and resolved(options["quarantine"])
    act = _undo_partition if alone else _undo_log_directory
    if options["dry_run"]:
        told = interrupted_changes(path, alone)
        for line in told:
            notices.warning(line)
        if not told:
            act(path, place, True, printer, notices)
        return
    with locked_and_completed(path, alone, to_lock, notices.warning):
        act(path, place, False, printer, notices)


def _complete(path: str, options: dict[str, Any], notices: Notices, printer: PlanPrinter) -> int:
    """Rolls forward what was begun, and removes what never began."""
    to_lock, path, alone = _place(path, options)
    if not options["dry_run"]:
        with locked_and_completed(path, alone, to_lock, notices.warning) as told:
            printer.totals.has_changed |= bool(told)
        return 0
    found = interrupted_changes(path, alone)
    for line in found:
        notices.warning(line)
    return int(bool(found))


def _undo_partition(path: str, place: str, is_dry: bool, printer: PlanPrinter, notices: Notices) -> None:
    change = last_change(path, place)
    if journal := sole_change(path, change.group):  # what was changed beside the partition comes back with it
        _undo_change(journal, place, is_dry, printer, notices)
        return
    found = plan_all(changes_of(path, change.group, place) if change.group else [change])
    changes, root = [each for each, _ in found], log_directory_of(path)
    _show_marker(root, printer)
    for _, plan in found:
        printer.show(plan)
    if restored := restorable_marker(changes):
        marker = Plan(root)
        marker.write(MARKER, [restored.content], "was so before")
        printer.show(marker)
    if not is_dry:
        try:
            undo_partition(changes)
        except OSError as error:
            raise StoppedHalfwayError(
                f"{path}: stopped half-way: {error.strerror or error}; repeat the command"
            ) from error
        printer.done()


def _show_marker(root: str, printer: PlanPrinter) -> None:
    marker = Plan(root)
    if marker.state_of(MARKER) is not None:
        marker.delete(MARKER, "a log changes: a broker has to look into all of them when it starts")
        printer.show(marker)


def _undo_log_directory(path: str, place: str, is_dry: bool, printer: PlanPrinter, notices: Notices) -> None:
    journal = last_journal(path)
    if journal is None:
        raise KsegError(f"{path}: there is no change of the log directory to undo; its partitions may have some")
    _undo_change(journal, place, is_dry, printer, notices)


def _undo_change(journal: Journal, place: str, is_dry: bool, printer: PlanPrinter, notices: Notices) -> None:
    path = journal.directory
    found = plan_log_directory_undo(journal, place)
    for _, plan in found.partitions:
        printer.show(plan)
    root = Plan(path)
    for name in found.restored:
        content = restored_content(journal, name)
        if content is not None:
            root.write(name, [content], "was so before")
        elif root.state_of(name) is not None:
            root.delete(name, "was not there before")
    printer.show(root)
    for name in found.skipped:
        notices.warning(f"{os.path.join(path, name)}: nothing of this change is left to put back")
    for name in found.not_restored:
        notices.warning(f"{os.path.join(path, name)}: has changed since, and is not put back")
    if not is_dry:
        undo_log_directory(found)
        printer.done()


def _list(options: dict[str, Any], form: str, sink: Sink, notices: Notices) -> int:
    found: list[ListedChange] = []

    def add(path: str) -> int:
        partitions = [path] if is_partition(path) else changed_partitions(path)
        found.extend(_of_journal(path, journal) for journal in ([] if is_partition(path) else journals(path)))
        for partition in partitions:
            found.extend(_of_change(partition, change) for change in quarantine.changes(partition))
        return 0

    status = _over(options, notices, add)
    show_changes(found, form, sink)
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


def _purge(path: str, options: dict[str, Any], form: str, sink: Sink, notices: Notices) -> int:
    to_lock, path, alone = _place(path, options)
    number, place = options["change"], options["quarantine"] and resolved(options["quarantine"])
    is_dry = options["dry_run"]
    if is_dry:
        freed, count = _purgeable(path, alone, number)
    else:
        with locked_and_completed(path, alone, to_lock, notices.warning):
            freed, count = _purge_settled(path, alone, number, place)
        if number and not count:
            raise KsegError(f"{path}: there is no change {number} that is over")
    if form == "json":
        row = {"type": "purge", "path": name_value(path), "changes": count, "freedBytes": freed, "dryRun": is_dry}
        sink.write(encode(row) + b"\n")
    else:
        notices.warning(f"{path}: {'would free' if is_dry else 'freed'} {shown_bytes(freed)} (changes: {count})")
    return int(is_dry and count > 0)


def _purgeable(path: str, alone: bool, number: int | None) -> tuple[int, int]:
    partitions = [path] if alone else changed_partitions(path)
    found = [change for partition in partitions for change in quarantine.changes(partition) if _is_over(change, number)]
    return sum(change.kept_bytes for change in found), len(found)


def _is_over(change: Change, number: int | None) -> bool:
    return change.state != COMMITTED and number in (None, change.number)


def _purge_settled(path: str, alone: bool, number: int | None, place: str) -> tuple[int, int]:
    freed = count = 0
    if not alone:
        for journal in journals(path):
            if journal.state in (DONE, ABANDONED) and number in (None, journal.number):
                count += 1
                freed += _forget(journal, place)
        if number is not None:
            return freed, count
    for partition in [path] if alone else changed_partitions(path):
        for change in quarantine.changes(partition, place):
            if _is_over(change, number):
                count += 1
                freed += purge(change)
    return freed, count


def _forget(journal: Journal, place: str) -> int:
    try:
        return forget(journal, Disk(), place)
    except OSError as error:
        raise StoppedHalfwayError(f"{journal.path}: {error.strerror or error}; repeat the command") from error
