"""The options that all changing commands share. Commands get them as typed objects."""

from dataclasses import replace
from functools import partial, wraps
from typing import Any

import click

from kseg.changes.apply import Keeping
from kseg.changes.driver.planner import ChangeOptions
from kseg.cli.options import CommandFunction, LogPath, color_option, quiet_option, with_options
from kseg.output.notices import Color, Presentation
from kseg.stores.no_follow import resolved
from kseg.stores.stored_object import is_url

_OPTIONS = (
    click.option(
        "-n", "--dry-run", is_flag=True, help="Print the plan, change nothing; exit status 1 if it has steps."
    ),
    click.option("--no-lock", is_flag=True, help="Do not lock the log directory."),
    click.option(
        "--format",
        "form",
        type=click.Choice(["text", "json", "html"]),
        default="text",
        show_default=True,
        help="Form of the output; html: a page for people, of a dry run (needs kseg[report]).",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Print more details on standard error."),
    partial(quiet_option, text="Only errors: no plan unless --dry-run, no warnings, no summary."),
    color_option("Colour"),
)
_KEEPING_OPTIONS = (
    click.option("--quarantine", type=click.Path(), metavar="DIR", help="Keep removed bytes in DIR."),
    click.option("--no-quarantine", is_flag=True, help="Do not keep removed bytes: no undo."),
)
_OUTPUT_OPTIONS = (
    click.option(
        "--output",
        type=click.Path(),
        metavar="DIR",
        help="Write the result to DIR/PARTITION, completely or not at all; PATH is only read.",
    ),
    click.option("--link", is_flag=True, help="Let --output share unchanged segments with PATH by hard links."),
)


def paths_argument(command: CommandFunction) -> CommandFunction:
    """PATH..., partition or log directories."""
    return click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=LogPath())(command)


def common_options(command: CommandFunction, has_short_report: bool = True) -> CommandFunction:
    """--dry-run, --no-lock, and as ``presentation``: --format, --color, --quiet, --verbose, --report.

    ``has_short_report``: -o is --report.
    """

    @wraps(command)
    def with_presentation(form: str, color: Color, quiet: bool, verbose: bool, report: str | None, **given: Any) -> Any:
        as_page = form == "html"
        presentation = Presentation("json" if as_page else form, color, quiet, verbose, as_page, report)
        return command(presentation=presentation, **given)

    report_option = click.option(
        *(["-o"] if has_short_report else []),
        "--report",
        type=click.Path(readable=False),
        metavar="FILE",
        help="Write the plan of a dry run to FILE instead, completely or not at all.",
    )
    return with_options(with_presentation, (*_OPTIONS, report_option))


def keeping_options(command: CommandFunction) -> CommandFunction:
    """--quarantine, --no-quarantine."""
    return with_options(command, _KEEPING_OPTIONS)


def changing_options(command: CommandFunction) -> CommandFunction:
    """The common ones with ``presentation``, and as ``change``: --dry-run, --no-lock, --quarantine, --no-quarantine,
    --output and --link.
    """

    @wraps(command)
    def with_change(
        dry_run: bool,
        no_lock: bool,
        quarantine: str | None,
        no_quarantine: bool,
        output: str | None,
        link: bool,
        **given: Any,
    ) -> Any:
        if link and output is None:
            raise click.UsageError("--link needs --output")
        change = change_options(dry_run, no_lock, quarantine, no_quarantine, output)
        return command(change=replace(change, links=link), **given)

    return common_options(keeping_options(with_options(with_change, _OUTPUT_OPTIONS)))


def _resolved(output: str | None) -> str | None:
    return output if output is None or is_url(output) else resolved(output)


def change_options(
    dry_run: bool, no_lock: bool, quarantine: str | None, no_quarantine: bool, output: str | None = None
) -> ChangeOptions:
    """Raises UsageError if options contradict each other."""
    if quarantine and no_quarantine:
        raise click.UsageError("--quarantine and --no-quarantine exclude each other")
    if output and (quarantine or no_quarantine):
        raise click.UsageError("--output removes nothing: no --quarantine, no --no-quarantine")
    return ChangeOptions(dry_run, not no_lock, Keeping(not no_quarantine, quarantine), _resolved(output))
