"""Runs a changing command: passes its planner to the driver, and prints plans, results and messages."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import click

from kseg.changes.apply import Keeping
from kseg.changes.driver.command import ChangeOptions, MakePlanner, Messages, Outcome, run
from kseg.changes.plan import Plan
from kseg.cli import ARGUMENTS
from kseg.cli.options import (
    CommandFunction,
    Decorator,
    check_topics,
    color,
    form,
    gathered,
    report_problems,
    usage_errors,
)
from kseg.options.declaration import CHANGES, OUTPUT, Option, PathKind
from kseg.output.changes import JsonPlans, PlanPrinter, RetentionPrinter, TextPlans
from kseg.output.notices import Color, Presentation
from kseg.output.sink import Sink, open_report, open_sink
from kseg.segment.paths import places_of
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import current_spool
from kseg.stores.no_follow import resolved
from kseg.stores.stored_object import is_url

# The options that all changing commands share. Commands get them as typed objects.


def presentation_options(report: str = "-o --report") -> Decorator:
    """As ``presentation``: --format, --color, --quiet, --verbose, --report; ``report``: the names of the last one."""
    text = "Form of the output; html: a page for people, of a dry run (needs kseg[report])."
    return gathered("presentation", _presentation, {
        "form_of_output": form(text, "text", "json", "html"),
        "verbose": Option("-v --verbose", OUTPUT, "Print more details on standard error.", bool),
        "quiet": Option("-q --quiet", OUTPUT, "Only errors: no plan unless --dry-run, no warnings, no summary.", bool),
        "color": color("Colour"),
        "report": Option(
            report, OUTPUT, "Write the plan of a dry run to FILE instead, completely or not at all.", PathKind(),
            metavar="FILE",
        ),
    })  # fmt: skip


def _presentation(form_of_output: str, verbose: bool, quiet: bool, color: Color, report: str | None) -> Presentation:
    as_page = form_of_output == "html"
    return Presentation("json" if as_page else form_of_output, color, quiet, verbose, as_page, report)


DRY_AND_LOCK = {
    "dry_run": Option("-n --dry-run", CHANGES, "Print the plan, change nothing; exit status 1 if it has steps.", bool),
    "no_lock": Option("--no-lock", CHANGES, "Do not lock the log directory.", bool),
}
_KEEPING = {
    "quarantine": Option(
        "--quarantine", CHANGES, "Keep removed bytes in DIR.", PathKind(is_checked=True), metavar="DIR"
    ),
    "no_quarantine": Option("--no-quarantine", CHANGES, "Do not keep removed bytes: no undo.", bool),
}
_OUTPUT = {
    "output": Option(
        "--output", CHANGES, "Write the result to DIR/PARTITION, completely or not at all; PATH is only read.",
        PathKind(is_checked=True), metavar="DIR",
    ),
    "link": Option(
        "--link", CHANGES, "Let --output share unchanged segments with PATH by hard links.", bool
    ),
}  # fmt: skip


def _change(
    dry_run: bool, no_lock: bool, quarantine: str | None = None, no_quarantine: bool = False,
    output: str | None = None, link: bool = False,
) -> ChangeOptions:  # fmt: skip
    """Raises UsageError if options contradict each other."""
    if link and output is None:
        raise click.UsageError("--link needs --output")
    if quarantine and no_quarantine:
        raise click.UsageError("--quarantine and --no-quarantine exclude each other")
    if output and (quarantine or no_quarantine):
        raise click.UsageError("--output removes nothing: no --quarantine, no --no-quarantine")
    output = output if output is None or is_url(output) else resolved(output)
    words = tuple(click.get_current_context().meta[ARGUMENTS])
    return ChangeOptions(dry_run, not no_lock, Keeping(not no_quarantine, quarantine), output, link, words)


in_place_options = gathered("change", _change, _KEEPING | DRY_AND_LOCK)
"""As ``change``: --dry-run, --no-lock, --quarantine, --no-quarantine."""
dry_and_lock_options = gathered("change", _change, DRY_AND_LOCK)
"""As ``change``: --dry-run, --no-lock."""
_ONLY_OUTPUT = DRY_AND_LOCK | {"output": _OUTPUT["output"]}
output_only_options = gathered("change", _change, _ONLY_OUTPUT)
"""As ``change``: --dry-run, --no-lock, --output."""
unlinked_options = gathered("change", _change, _ONLY_OUTPUT | _KEEPING)
"""As ``change`` those of `in_place_options`, and --output."""


def changing_options(command: CommandFunction) -> CommandFunction:
    """As ``change`` those of `in_place_options`, --output and --link; ``presentation``."""
    return presentation_options()(gathered("change", _change, DRY_AND_LOCK | _KEEPING | _OUTPUT)(command))


ENDED_BY_SIGNAL = 128
"""Smallest exit status of a command that a signal ends."""


@contextmanager
def open_plans(
    presentation: Presentation, is_dry: bool, report_error: Callable[[str], None], is_explained: bool = False
) -> Iterator[Sink]:
    """Opens the sink for plans: standard output, or for a dry run the file or page that the options choose.

    ``is_explained``: the page explains a retention. ``report_error`` gets a message at the end if output was lost.
    Raises UsageError.
    """
    if not is_dry and (presentation.as_page or presentation.report):
        raise click.UsageError("--format html and --report are for a dry run: add --dry-run")
    with ExitStack() as stack:
        to_file = is_dry and presentation.report is not None
        sink = stack.enter_context(open_sink(presentation.report) if to_file else open_report(is_dry, report_error))
        if presentation.as_page:
            from kseg.report.pages import PLAN, RETENTION, html_report

            context = click.get_current_context()
            title = f"kseg {context.info_name} {'--explain' if is_explained else '--dry-run'}"
            kind = RETENTION if is_explained else PLAN
            sink = stack.enter_context(html_report(sink, kind, title, context.params["paths"]))
        yield sink


@contextmanager
def open_printer(
    presentation: Presentation,
    is_dry: bool,
    text: type[PlanPrinter] = TextPlans,
    keeps: bool = False,
    is_explained: bool = False,
) -> Iterator[PlanPrinter]:
    """Opens the printer for plans, as by `open_plans`; ``text`` is that of the text form, ``keeps``: whether removed
    bytes are kept. Raises UsageError.
    """
    notices = presentation.notices()
    with open_plans(presentation, is_dry, notices.error, is_explained) as sink:
        make_printer = JsonPlans if presentation.form == "json" else text
        yield make_printer(sink, notices, is_dry, keeps)


def run_change(
    paths: Sequence[str],
    make_planner: MakePlanner,
    change: ChangeOptions,
    presentation: Presentation,
    is_explained: bool = False,
) -> Outcome:
    """Runs the planner over the paths, and prints its plans; ``is_explained``: the decisions of a retention, and only
    the totals of plans.

    Raises UsageError, and PathError if a name given as --topic is that of no topic.
    """
    notices = presentation.notices()
    with archives_at(() if change.output is None else paths, current_spool()) as archives:
        paths = paths if change.output is None else places_of(archives)
        check_topics(paths, notices)
        keeps = change.keeping.keeps
        with open_printer(presentation, change.is_dry, keeps=keeps, is_explained=is_explained) as printer:
            printer.is_summary = is_explained
            if is_explained:
                printer.summaries = RetentionPrinter(printer.sink, presentation.color)
            try:
                with usage_errors():
                    outcome = run(paths, make_planner, change, printer)
            except KeyboardInterrupt:
                printer.finish(Outcome(ENDED_BY_SIGNAL, has_changed=printer.has_changed))
                raise
            printer.finish(outcome)
        for line in outcome.conclusion:
            printer.warning(line)
        printer.summaries.total()
        is_damaged = report_problems(archives, notices)
    return replace(outcome, exit_status=max(outcome.exit_status, int(is_damaged)))


def write_new(
    write: Callable[[ChangeOptions, Messages], list[Plan]], change: ChangeOptions, presentation: Presentation
) -> int:
    """Calls ``write``, which creates only new partitions, and prints its plans. Returns the exit status."""
    with open_printer(presentation, change.is_dry) as printer:
        return printer.created(write(change, printer.notices)).exit_status
