"""Options that several commands share, and the types of their values."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ClassVar

import click

from kseg.cli.completion import complete_topics
from kseg.limits import MAX_BATCH_BYTES
from kseg.output.notices import Color, Presentation
from kseg.segment.files import LAST_OFFSET
from kseg.segment.times import UNITS_MS
from kseg.stores import trees
from kseg.stores.stored_object import local_path

CommandFunction = Callable[..., Any]
"""The function of a subcommand; `kseg.cli.help.Command` is its click command."""
Option = Callable[[CommandFunction], CommandFunction]


def with_options(command: CommandFunction, options: Iterable[Option]) -> CommandFunction:
    """Adds the options, in the order of the help."""
    for option in reversed([*options]):
        command = option(command)
    return command


def refuse(options: Mapping[str, bool], reason: str) -> None:
    """Raises UsageError for the first option that is given."""
    for name, is_given in options.items():
        if is_given:
            raise click.UsageError(f"{name} {reason}")


def number_option(name: str, least: int, description: str, metavar: str = "N") -> Option:
    """An option with a whole number, at least ``least``."""
    return click.option(name, type=click.IntRange(min=least), metavar=metavar, help=description)


class OffsetRange(click.ParamType):  # type: ignore[type-arg]
    """``A..B``, inclusive, either end may be omitted; one number is a range of its own. Yields (first, last)."""

    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        first, dots, last = str(value).partition("..")
        if not (first or last) or not all(end == "" or (end.isascii() and end.isdigit()) for end in (first, last)):
            self.fail(f"{value!r} is no range of offsets such as 100..200, 100.. or ..200", param, ctx)
        low = int(first or 0)
        high = (int(last) if last else LAST_OFFSET) if dots else low
        if low > min(high, LAST_OFFSET):
            self.fail(f"{value!r} ends before it begins", param, ctx)
        return low, high


class ByteCount(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes, with K, M, G or T for powers of 1024."""

    name = "BYTES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        number, unit = value.rstrip("kKmMgGtT"), value[len(value.rstrip("kKmMgGtT")) :].upper()
        scale = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}.get(unit)
        if scale is None or not (number.isascii() and number.isdigit()):
            self.fail(f"{value!r} is no number of bytes such as 1000000, 64K or 1G", param, ctx)
        return int(number) * scale


class Milliseconds(click.ParamType):  # type: ignore[type-arg]
    """A length of time in ms, or with a unit: s, min (m), h, d or w. -1 where ``has_none``: no limit."""

    name = "MS"
    _UNITS: ClassVar = {"": 1, "ms": 1, **UNITS_MS}

    def __init__(self, has_none: bool = False) -> None:
        self._has_none = has_none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if self._has_none and value == "-1":
            return -1
        number = value.rstrip("abcdefghijklmnopqrstuvwxyz")
        scale = self._UNITS.get(value[len(number) :])
        if scale is None or not (number.isascii() and number.isdigit()) or len(number) > 19:
            self.fail(
                f"{value!r} is no length of time: a number of ms, or one with s, min, h, d or w, as 7d", param, ctx
            )
        return min(int(number) * scale, (1 << 63) - 1)


class LogPath(click.Path):
    """A path or URL of logs; that of a ``file:`` URL is converted to the path."""

    def __init__(self) -> None:
        super().__init__(readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return local_path(os.fsdecode(super().convert(value, param, ctx)))


def paths_or_files_argument(command: CommandFunction) -> CommandFunction:
    """PATH... and its kafka-dump-log name, ``--files A,B``."""
    command = click.option("--files", metavar="A,B", help="The same as PATH, separated by commas.")(command)
    return click.argument("paths", nargs=-1, metavar="PATH...", type=LogPath())(command)


def all_paths(paths: tuple[str, ...], files: str | None) -> list[str]:
    """The paths of both forms. Raises UsageError if there is none, or if one besides --files does not exist."""
    for word in paths if files else ():
        if word != "-" and not trees.lexists(word):
            raise click.UsageError(f"{word!r} is neither the value of an option nor a file: remove it")
    found = [*paths, *((name for name in files.split(",") if name) if files else ())]
    if not found:
        raise click.UsageError("no PATH is given")
    return found


def quiet_option(
    command: CommandFunction, text: str = "Only errors on standard error: no warnings, no summary."
) -> CommandFunction:
    """--quiet, with this help text."""
    return click.option("-q", "--quiet", is_flag=True, help=text)(command)


def color_option(subject: str) -> Option:
    """--color; the help starts with the ``subject``."""
    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help=f"{subject}; auto: on a terminal, unless NO_COLOR is set.",
    )


_OUTPUT_OPTIONS = (
    click.option(
        "-o",
        "--output",
        type=click.Path(readable=False),
        metavar="FILE",
        help="Write to FILE instead, completely or not at all; - is standard output.",
    ),
    color_option("Colour on standard error"),
    quiet_option,
    click.option("-v", "--verbose", is_flag=True, help="Print details of each file on standard error."),
)


def output_options(command: CommandFunction) -> CommandFunction:
    """-o, --color, --quiet, --verbose."""
    return with_options(command, _OUTPUT_OPTIONS)


isolation_option = click.option(
    "--isolation",
    "read_committed",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    callback=lambda _ctx, _param, level: level == "read_committed",
    help="read_committed omits aborted transactions, and everything from the last stable offset on.",
)
batch_limit_option = click.option(
    "--max-batch-bytes",
    type=ByteCount(),
    default=MAX_BATCH_BYTES,
    help="Largest size of a decompressed batch (256M).",
)
era_07_option = click.option(
    "--era",
    "is_07",
    type=click.Choice(["0.7"]),
    callback=lambda _ctx, _param, era: era is not None,
    help="Read files in the format of Kafka 0.6 and 0.7, whatever their suffix.",
)
threads_option = number_option("--jobs", 1, "Number of threads (default: the cores).")


def as_presentation(command: CommandFunction) -> CommandFunction:
    """Gives --format, --color, --quiet and --verbose to the command as ``presentation``."""

    @wraps(command)
    def with_presentation(form: str, color: Color, quiet: bool, verbose: bool, **given: Any) -> Any:
        return command(presentation=Presentation(form, color, quiet, verbose), **given)

    return with_presentation


jobs_option = number_option("--jobs", 1, "Number of threads for each file (default: the cores).")
"""For commands that process one file after the other."""


def interval_option(command: CommandFunction) -> CommandFunction:
    """--index-interval-bytes."""
    return click.option(
        "--index-interval-bytes",
        "interval_bytes",
        type=ByteCount(),
        help="Bytes between two index entries; default: the topic's setting, else as in existing indexes, else 4096.",
    )(command)


def topic_option(command: CommandFunction) -> CommandFunction:
    """--topic."""
    return click.option(
        "--topic",
        "topics",
        multiple=True,
        metavar="GLOB",
        shell_complete=complete_topics,
        help="Only these topics of a log directory, as orders or 'audit-*'; may be repeated.",
    )(command)


def server_option(command: CommandFunction) -> CommandFunction:
    """--server-properties, as ``server``: a `ServerProperties` or None."""

    @wraps(command)
    def with_server(server_properties: str | None, **given: Any) -> Any:
        if server_properties is None:
            return command(server=None, **given)
        from kseg.logdir.server_properties import read_server_properties

        return command(server=read_server_properties(server_properties), **given)

    return click.option(
        "--server-properties",
        type=click.Path(readable=False),
        metavar="FILE",
        help="The broker's configuration, for settings that a topic does not override.",
    )(with_server)
