"""``kseg``: subcommands are imported when they are called, and errors end a process here and nowhere else."""

import os
import sys
from importlib import import_module
from typing import Any

import click

from kseg import __version__
from kseg.errors import KsegError

COMMANDS = {
    "dump": "Print the batches and records of segments, as kafka-dump-log does and beyond.",
}


class LazyGroup(click.Group):
    """Knows the names and one-line helps of the subcommands; imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"kseg.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from kseg.kernel import description

    click.echo(f"kseg {__version__} ({description()} kernel)")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Segment forensics and repair for Apache Kafka logs, with no broker and no JVM.

    A PATH is a segment file, a partition directory, a log directory, or - for a segment on standard input.

    Exit status: 0 clean, 1 damage found, 2 wrong usage, 3 could not do it, 4 stopped half-way, 130 interrupted.
    """


def run(arguments: list[str] | None = None) -> None:
    """Runs a command line and exits with its status; errors become one line on standard error."""
    try:
        status = main.main(arguments, prog_name="kseg", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except click.exceptions.Exit as exit_request:
        sys.exit(exit_request.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _quiet_end(130, "kseg: interrupted")
    except BrokenPipeError:
        _quiet_end(0)
    except KsegError as error:
        _quiet_end(error.exit_status, f"kseg: {error}")
    except MemoryError:
        _quiet_end(3, "kseg: out of memory (a lower --max-batch-bytes bounds what one batch may take)")
    except OSError as error:
        _quiet_end(3, f"kseg: {error}")


def _quiet_end(status: int, message: str = "") -> Any:
    """Ends the process; what was not yet written to a closed pipe must not raise once more at exit."""
    if message:
        click.echo(message, err=True)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)
