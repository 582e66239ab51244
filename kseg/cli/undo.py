"""``kseg undo``: undoes the last change of a partition or log directory, lists changes, deletes kept bytes."""

from functools import partial

import click

from kseg.changes.driver.undoing import UndoOptions, complete, known_changes, purge_changes, undo
from kseg.cli.changing import DRY_AND_LOCK, open_plans, open_printer, presentation_options
from kseg.cli.options import Command, paths_argument, with_options
from kseg.options import declaration
from kseg.options.declaration import CHANGES, CONTENTS, RULES, Number, Option, PathKind, options_of
from kseg.output.changes import show_changes, show_purged
from kseg.output.notices import Presentation
from kseg.stores.no_follow import resolved

_OPTIONS = {
    "lists": Option(
        "--list", CONTENTS, "List recorded changes, and the size of the bytes that they keep.", bool
    ),
    "completes": Option("--complete", RULES, "Complete an interrupted change; undo nothing.", bool),
    "purges": Option(
        "--purge", RULES, "Delete the bytes that changes keep: these changes can no longer be undone.", bool
    ),
    "number": Option("--change", RULES, "Purge only what change N has kept.", Number(1), metavar="N"),
    "quarantine": Option(
        "--quarantine", CHANGES, "Directory given as --quarantine to the change, if the partition has moved since.",
        PathKind(is_checked=True), metavar="DIR",
    ),
    "topics": options_of(declaration.topics())[0],
}  # fmt: skip


@click.command("undo", cls=Command)
@paths_argument()
@with_options(_OPTIONS | DRY_AND_LOCK)
@presentation_options()
def command(
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    presentation: Presentation,
    dry_run: bool,
    no_lock: bool,
    lists: bool,
    completes: bool,
    purges: bool,
    number: int | None,
    quarantine: str | None,
) -> int:
    """Undo the last change of a partition or log directory, from the bytes in its quarantine.

    Repeat it to undo the change before. It is refused if a file has changed since.
    """
    if lists + completes + purges > 1:
        raise click.UsageError("--list, --complete and --purge exclude each other")
    if number and not purges:
        raise click.UsageError("--change is for --purge")
    if presentation.as_page and (lists or purges):
        raise click.UsageError("--format html is for a dry run of an undo")
    options = UndoOptions(dry_run, not no_lock, resolved(quarantine) if quarantine else "", topics)
    notices = presentation.notices()
    if lists:
        with open_plans(presentation, True, notices.error) as sink:
            found, status = known_changes(paths, notices, topics)
            show_changes(found, presentation.form, presentation.color, sink)
        if not found and not status:
            notices.warning("no change is known")
        return status
    if purges:
        with open_plans(presentation, dry_run, notices.error) as sink:
            show = partial(show_purged, is_dry=dry_run, form=presentation.form, sink=sink, notices=notices)
            return purge_changes(paths, options, notices, show, number)
    with open_printer(presentation, dry_run) as printer:
        outcome = (complete if completes else undo)(paths, options, printer)
        printer.finish(outcome)
    return outcome.exit_status
