"""``kseg undo``: puts the last change of a partition or log directory back, lists changes, frees what they keep."""

from collections.abc import Callable
from typing import Any

import click

from kseg.changes import quarantine
from kseg.changes.disk import Disk
from kseg.changes.driver.failures import Failures
from kseg.changes.driver.paths import interrupted_changes, is_partition, locked_and_completed
from kseg.changes.driver.undoing import UndoOptions, place_to_change, undo
from kseg.changes.journal import ABANDONED, DONE, Journal, journals
from kseg.changes.log_directory import changed_partitions, forget
from kseg.changes.manifest import COMMITTED, Change
from kseg.changes.undo import purge
from kseg.cli.changing import open_plans
from kseg.cli.changing_options import common_options, paths_argument
from kseg.errors import KsegError, StoppedHalfwayError
from kseg.formats.json_values import encode, name_value
from kseg.output.changes.changes_list import ListedChange, show_changes
from kseg.output.changes.plans import PlanPrinter, plan_printer
from kseg.output.changes.reporter import ChangeReporter, Presentation
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
        quarantine = resolved(options["quarantine"]) if options["quarantine"] else ""
        undo_options = UndoOptions(options["dry_run"], not options["no_lock"], quarantine)
        outcome = undo(options["paths"], undo_options, ChangeReporter(printer, notices))
        printer.finish(notices, outcome.exit_status)
    return outcome.exit_status


def _over(options: dict[str, Any], notices: Notices, act: Callable[[str], int]) -> int:
    """The exit status of what is done to each path."""
    failures, status = Failures(notices), 0
    for path in options["paths"]:
        with failures.of(path):
            status = max(status, act(path))
    return max(status, failures.status)


def _complete(path: str, options: dict[str, Any], notices: Notices, printer: PlanPrinter) -> int:
    """Rolls forward what was begun, and removes what never began."""
    to_lock, path, alone = place_to_change(path, not options["no_lock"])
    if not options["dry_run"]:
        with locked_and_completed(path, alone, to_lock, notices.warning) as told:
            printer.totals.has_changed |= bool(told)
        return 0
    found = interrupted_changes(path, alone)
    for line in found:
        notices.warning(line)
    return int(bool(found))


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
    to_lock, path, alone = place_to_change(path, not options["no_lock"])
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
