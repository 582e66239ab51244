"""``kseg``: subcommands are imported when they are called, and errors end a process here and nowhere else."""

import errno
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from kseg import __version__
from kseg.errors import KsegError

HALFWAY = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

COMMANDS = {
    "dump": "Print the batches and records of segments, as kafka-dump-log does and beyond.",
    "compact": "Clean logs as the broker's log cleaner does: of each key only the last record stays.",
    "recover": "Repair what a crash or a disk has damaged, as a broker does or keeping all that is intact.",
    "reindex": "Rebuild index files from the .log, as a broker's recovery does.",
    "convert": "Write segments in another format or codec, and records to and from JSON Lines, CSV, Parquet, Arrow.",
    "retain": "Delete the segments that a broker's retention would, or explain why they stay.",
    "verify": "Check segments, partitions and log directories: what is wrong, and what repairs it.",
    "undo": "Put the last change back, list changes, or free what they keep.",
}


class LazyGroup(click.Group):
    """Knows the names and one-line helps of the subcommands; imports one when it is asked for."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            ctx.exit(0)  # click itself would end with 1, as if there were damage
        except KeyboardInterrupt as interrupt:
            raise InterruptedError from interrupt  # for a KeyboardInterrupt click prints an empty line

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
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except click.exceptions.Exit as exit_request:
        _end(exit_request.exit_code)
    except click.ClickException as error:
        if sys.stderr is not None:  # else click would show it on standard output
            error.show()
        _end(error.exit_code)
    except (InterruptedError, KeyboardInterrupt, click.Abort):
        _end(130, "interrupted")
    except BrokenPipeError:
        _end(0)
    except KsegError as error:
        _end(error.exit_status, error)
    except MemoryError:
        _end(3, "out of memory (a lower --max-batch-bytes bounds what one batch may take)")
    except OSError as error:
        _end(4 if error.errno in HALFWAY else 3, error)


def _end(status: int, message: object = None) -> NoReturn:
    """Ends the process; what standard output did not take must not raise once more at exit."""
    if message is not None:
        from kseg.output.notices import Notices

        with suppress(BrokenPipeError):  # nobody is left to be told
            Notices().error(message)
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)
