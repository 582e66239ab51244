"""The options that all changing commands share, apart from what carries changes out: that takes time to import."""

from collections.abc import Callable
from typing import Any

import click

from kseg.cli.options import color_option, quiet_option

_OPTIONS = (
    click.option(
        "-n", "--dry-run", is_flag=True, help="Show the plan and change nothing; exit with 1 if there is one."
    ),
    click.option("--no-lock", is_flag=True, help="Go on without the lock of the log directory."),
    click.option(
        "--format",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Form of the output.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Tell more on standard error."),
    quiet_option,
    color_option("Colour"),
)
_KEEPING_OPTIONS = (
    click.option("--quarantine", type=click.Path(), metavar="DIR", help="Keep what goes in DIR."),
    click.option("--no-quarantine", is_flag=True, help="Keep nothing of what goes: it cannot be undone."),
)
_OUTPUT_OPTION = click.option(
    "--output",
    type=click.Path(),
    metavar="DIR",
    help="Write what would come out to DIR/PARTITION, whole or not at all; PATH is only read.",
)


def paths_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """PATH..., partition or log directories."""
    return click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(readable=False))(command)


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--dry-run, --no-lock, --format, --color, --quiet, --verbose."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def keeping_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--quarantine, --no-quarantine."""
    for option in reversed(_KEEPING_OPTIONS):
        command = option(command)
    return command


def changing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The common ones, --quarantine, --no-quarantine and --output."""
    return common_options(keeping_options(_OUTPUT_OPTION(command)))
