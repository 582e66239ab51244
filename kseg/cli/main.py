"""``kseg``: imports a subcommand when it is called, and turns errors into messages and exit statuses."""

import errno
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from kseg.cli import ARGUMENTS
from kseg.errors import KsegError, text_of
from kseg.output.notices import Notices, columns_of_stream
from kseg.signals import Terminated

MAX_HELP_COLUMNS = 100
HALFWAY = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""System errors with exit status 4; all others have 3."""

GROUPS = {
    "Look": {
        "dump": "Print the batches and records of segments, as kafka-dump-log does, or as JSON or tables.",
        "stats": "Show what the bytes of partitions are: sizes, ages, codecs, and what another codec would save.",
        "groups": "List the committed offsets of consumer groups, with lags, and share groups.",
        "transactions": "List transactions that are open, hanging, or prepared and never completed.",
        "cluster": "Print the cluster that the metadata log makes: topics, nodes, settings, ACLs, users.",
    },
    "Judge": {
        "verify": "Check segments, partitions and log directories; name the commands that repair them.",
        "symptoms": "Find the cause of a broker's or client's message, and the commands that help.",
    },
    "Repair": {
        "recover": "Repair logs after a crash or disk damage, as a broker does, or keeping every intact batch.",
        "reindex": "Rebuild index files from the .log, as a broker's recovery does.",
        "undo": "Undo the last change, list changes, or delete the bytes that they keep.",
        "restore": "Bring partitions to where they are wanted: deleted ones, copies, those of tiered storage.",
        "carve": "Bring logs back out of raw bytes: disk images, block devices, any files.",
        "quorum": "Bring a cluster's metadata log back: for one voter, or for a new quorum.",
    },
    "Keep": {
        "retain": "Delete segments as a broker's retention does, or explain why they stay.",
        "compact": "Compact logs as the broker's log cleaner does: keep the last record of each key.",
        "convert": "Write segments in another format or codec; export records to JSON Lines, CSV, Parquet, Arrow.",
        "erase": "Take records out of logs for good, and certify it.",
        "redact": "Copy a log without anybody's data: same sizes, offsets, times and damage, other payloads.",
    },
    "Serve": {
        "serve": "Let any Kafka client read logs: a read-only broker over dead files.",
    },
}
"""The commands with their one-line helps, under the headings of the help."""
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
MOVED: dict[str, dict[str, str]] = {
    "recover": {
        "--carve": "carve",
        "--undelete": "restore --undelete", "--as": "restore --as", "--for-cluster": "restore --for-cluster",
        "--from-remote": "restore --from-remote", "--metadata-snapshot": "quorum --rewrite",
        "--new-quorum": "quorum --new",
    },
    "dump": {
        "--summary": "stats", "--what-if": "stats", "--sort": "stats", "--sample": "stats",
        "--committed-offsets": "groups", "--open-transactions": "transactions",
        "--transaction-state": "transactions", "--image": "cluster", "--as-of": "cluster", "--since": "cluster",
    },
}  # fmt: skip
"""Options of a command that have become commands of their own."""


class _EndedBySignal(KsegError):
    """Ctrl-C, SIGTERM or SIGHUP was received."""

    def __init__(self, interrupt: BaseException) -> None:
        if isinstance(interrupt, Terminated):
            self.exit_status, message = interrupt.exit_status, f"ended by {signal.Signals(interrupt.number).name}"
        else:
            self.exit_status, message = 128 + signal.SIGINT, "interrupted"
        super().__init__(message)


class LazyGroup(click.Group):
    """Has the names and one-line helps of the subcommands; imports a subcommand when it is called."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        extra.setdefault("terminal_width", max(min(columns_of_stream(sys.__stdout__), MAX_HELP_COLUMNS) - 2, 50))
        words = list(args)  # which click takes away
        context = super().make_context(info_name, args, parent, **extra)
        context.meta[ARGUMENTS] = words
        return context

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            ctx.exit(0)  # click would exit with 1, which means damage
        except KeyboardInterrupt as interrupt:
            raise _EndedBySignal(interrupt) from interrupt  # for a KeyboardInterrupt click prints an empty line
        except EOFError as error:  # click would call it an interrupt
            raise KsegError(
                f"a compiled module of this installation is cut off ({error}): delete its __pycache__ directories"
            ) from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"kseg.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            if args[0] == "help":
                ctx.fail("No such command 'help'. Use kseg --help, kseg COMMAND --help, or man kseg.")
            word = args[0].lower()  # a word that means a command, else a similar one
            near = [command for command, words in _OTHER_NAMES.items() if word in words.split()]
            near = near or get_close_matches(word, COMMANDS, 3, 0.5)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            context = click.Context(command, ctx, name)
            try:
                given: list[click.Parameter] = command.make_parser(context).parse_args([*rest])[2]
            except click.NoSuchOption as error:
                moved = MOVED.get(name or "", {})
                option = next((word for word in (each.partition("=")[0] for each in rest) if word in moved), None)
                if option is None:
                    raise
                raise click.UsageError(f"{option} is a command now: kseg {moved[option]}", context) from error
            for parameter in () if any(each.is_eager for each in given) else given:  # --help takes precedence
                is_single = isinstance(parameter, click.Option) and not (parameter.multiple or parameter.is_flag)
                if is_single and given.count(parameter) > 1:  # click would use the last value
                    names = "/".join(parameter.opts)
                    raise click.UsageError(f"{names} is given {given.count(parameter)} times: give it once", context)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write("  kseg verify /kafka-logs\n  kseg dump --print-data-log --last 10 orders-0\n")
        formatter.write("\nman kseg describes everything; kseg COMMAND --help has examples.\n")


_OTHER_NAMES = {
    "symptoms": "diagnose explain why error log message symptom",
    "verify": "check fsck scan test validate inspect lint doctor status compare diff",
    "dump": "list ls show print cat read tail head grep find search decode view describe",
    "stats": "info summary statistics size sizes du count usage top histogram",
    "groups": "offsets consumer-groups consumers lag lags committed",
    "transactions": "txn transaction hanging open-transactions",
    "cluster": "image metadata topics brokers configs acls",
    "recover": "repair fix truncate salvage rescue split",
    "reindex": "index rebuild rebuild-index indexes snapshots",
    "compact": "clean cleanup cleaner compaction dedup",
    "retain": "retention delete remove rm purge expire prune",
    "erase": "forget gdpr erasure delete wipe shred",
    "redact": "anonymize anonymise mask scrub pseudonymize sanitize twin share",
    "convert": "export import upgrade recompress compress transform jsonl csv parquet",
    "undo": "revert rollback back",
    "restore": "undelete bring-back move rename copy remote tiered",
    "carve": "image disk raw photorec",
    "serve": "broker server listen kafka consume consumer client",
    "quorum": "metadata metadata-snapshot new-quorum controller voter kraft",
}
"""Words that people type for a command, by its name."""


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from kseg.cli.version import lines

    click.echo("\n".join(lines(is_verbose=bool(ctx.params.pop("verbose", False)))))
    ctx.exit()


def _print_schema(ctx: click.Context, _param: click.Parameter, wanted: str | None) -> None:
    if wanted is None or ctx.resilient_parsing:
        return
    import json

    from kseg.output.json_schema import OBJECTS, schema

    if wanted not in ("all", *OBJECTS):
        raise click.UsageError(f"--json-schema: {wanted!r} prints no JSON; choose one of {', '.join(OBJECTS)}", ctx)
    click.echo(json.dumps(schema(None if wanted == "all" else wanted), indent=1))
    ctx.exit()


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["--help", "-h"], "max_content_width": MAX_HELP_COLUMNS}
)
@click.option(
    "--verbose",
    is_flag=True,
    is_eager=True,
    help="Let --version also print versions of libraries and the system.",
)
@click.option(
    "--version", is_flag=True, expose_value=False, callback=_print_version, help="Print the version and exit."
)
@click.option(
    "--json-schema",
    is_flag=False,
    flag_value="all",
    metavar="[COMMAND]",
    expose_value=False,
    is_eager=True,
    callback=_print_schema,
    help="Print the JSON Schema of --format json, for one command or for all, and exit.",
)
def main(verbose: bool) -> None:
    """Segment forensics and repair for Apache Kafka logs, with no broker and no JVM.

    A PATH is a segment file, a partition directory, a log directory, or - for a segment on standard input.

    Exit status: 0 clean, 1 damage found, 2 wrong usage, 3 could not do it, 4 stopped half-way, 130 interrupted
    (128 and the number of the signal).
    """
    if verbose:
        raise click.UsageError("--verbose before the command is for --version: put it after the command")


def run(arguments: list[str] | None = None) -> None:
    """Runs a command line and exits with its status; errors become one line on standard error."""
    try:
        status = main.main(arguments, prog_name="kseg", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        _end(status if isinstance(status, int) else 0)
    except click.exceptions.Exit as exit_request:
        _end(exit_request.exit_code)
    except click.ClickException as error:
        if sys.stderr is not None:  # else click would show it on standard output
            with suppress(OSError):
                error.show()
        _end(error.exit_code)
    except (KeyboardInterrupt, click.Abort) as interrupt:
        ended = _EndedBySignal(interrupt)
        _end(ended.exit_status, ended)
    except BrokenPipeError:
        _end(0)
    except KsegError as error:
        _end(error.exit_status, error)
    except MemoryError:
        _end(3, "out of memory (--max-batch-bytes limits the size of a decompressed batch)")
    except OSError as error:
        _end(4 if error.errno in HALFWAY else 3, text_of(error))


def _end(status: int, message: object = None) -> NoReturn:
    if message is not None:
        Notices().error(message)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:  # its output is dropped: Python's own flush at exit would change the status
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(status)
