"""Makes click options of declared ones, in groups of the help, and has the options of the command line itself: engine,
spool, output.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from functools import wraps
from typing import Any

import click

from kseg.errors import PathError, RequestError
from kseg.formats.compression import CODEC_NAMES
from kseg.options import declaration
from kseg.options.declaration import BYTES, HTML, OUTPUT, RESOURCES, Number, Option, PathKind, Value, option
from kseg.output.notices import Notices
from kseg.output.sink import Sink, open_sink
from kseg.segment.files import own_name, parse_partition_name
from kseg.segment.paths import places_of
from kseg.stores.archives.forms import REDPANDA_SEGMENT
from kseg.stores.archives.mounting import archives_at, problems_of
from kseg.stores.archives.spool import Spool
from kseg.stores.place import Place
from kseg.stores.stored_object import local_path

CommandFunction = Callable[..., Any]
"""The function of a subcommand; `Command` is its click command."""
Decorator = Callable[[CommandFunction], CommandFunction]


# The help of each command besides its options: the group of each option, and examples.

EXAMPLES = (
    ("The cause of a line in a broker's log", "kseg symptoms 'Corrupt index found, index file (/a-0/0.index)'"),
    ("All known messages in a broker's log", "kseg symptoms - < server.log"),
    ("All of a broker's partitions", "kseg verify /kafka-logs"),
    (
        "Every record, with a page for a browser",
        "kseg verify --level deep --format html -o report.html /kafka-logs",
    ),
    ("One line for each partition, the worst first", "kseg verify --sort errors /kafka-logs"),
    ("The meaning of a finding", "kseg verify --explain crc-mismatch"),
    ("The last ten records", "kseg dump --print-data-log --last 10 orders-0"),
    ("The records of the last two hours", "kseg dump --print-data-log --time -2h.. orders-0"),
    ("The records of internal topics, decoded", "kseg dump --decode auto --print-data-log /kafka-logs"),
    ("The largest partitions first", "kseg stats --sort size /kafka-logs"),
    ("What zstd would save", "kseg stats --what-if zstd orders-0"),
    ("Committed offsets and lags", "kseg groups /kafka-logs"),
    ("The groups that fill __consumer_offsets", "kseg groups --by-size /kafka-logs"),
    ("Transactions that block consumers", "kseg transactions /kafka-logs"),
    ("Topics, brokers and settings", "kseg cluster /kafka-logs"),
    ("What has changed since an offset", "kseg cluster --since 1200 /kafka-logs"),
    ("Preview the truncation at a broker's next start", "kseg recover --dry-run /kafka-logs"),
    ("Keep every intact batch", "kseg recover --mode salvage orders-0"),
    ("Fill gaps from another replica", "kseg recover --from-replica /backup/orders-0 orders-0"),
    ("Compare the indexes with the log", "kseg reindex --check orders-0"),
    ("Rebuild them, and producer snapshots", "kseg reindex --snapshots orders-0"),
    ("Preview a compaction", "kseg compact --dry-run /kafka-logs"),
    ("Compact the offsets of consumer groups", "kseg compact --topic __consumer_offsets /kafka-logs"),
    ("Preview an erasure", "kseg erase --dry-run --key user-17 /kafka-logs"),
    ("Erase a person's records", "kseg erase --key user-17 --grep 'ann@example' --certificate c.json /kafka-logs"),
    ("Check a backup against the certificate", "kseg erase --check c.json /backup/kafka-logs"),
    ("Explain why a topic does not shrink", "kseg retain --explain orders-0"),
    ("Preview a retention of one week", "kseg retain --dry-run --retention-ms 7d orders-0"),
    ("Old segments in the current format", "kseg convert --to v2 --output new orders-0"),
    ("Another codec, in place", "kseg convert --codec zstd --in-place orders-0"),
    ("Records for analysis", "kseg convert --to parquet -o orders.parquet orders-0"),
    ("A copy to send to those who can help", "kseg redact --output /twin /kafka-logs"),
    ("One partition, without the names of topics and headers", "kseg redact --names --output /twin orders-0"),
    ("List the changes of a log directory", "kseg undo --list /kafka-logs"),
    ("Undo the last change", "kseg undo orders-0"),
    ("Take back what a broker has deleted", "kseg restore --undelete --dry-run /kafka-logs"),
    ("A copy under another name", "kseg restore --as audit-0 --output /copies orders-0"),
    ("Partitions out of tiered storage", "kseg restore --from-remote /tiered --output /rebuilt /kafka-logs"),
    ("See what an image holds", "kseg carve --dry-run --output /rescued disk.img"),
    ("Write it, named by another replica", "kseg carve --like /replica --output /rescued disk.img"),
    ("A readable metadata log for the only controller", "kseg quorum --rewrite /kafka-logs"),
    (
        "A new controller, from a broker's copy of the metadata",
        "kseg quorum --new 9 --listener CONTROLLER://10.0.0.9:9093 --output /new /kafka-logs",
    ),
    ("A backup, for clients on this machine", "kseg serve /backup/kafka-logs"),
    ("Some topics of an archive, on any free port", "kseg serve --listen 127.0.0.1:0 --topic 'orders*' logs.tar"),
)
"""Purposes and command lines."""


class Command(click.Command):
    """A command whose help has groups and examples."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {group: [] for group in declaration.GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                rows[getattr(parameter, "group", OUTPUT)].append(record)
        for group, records in rows.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for purpose, command in EXAMPLES:
                if command.split()[1] == self.name:
                    formatter.write(f"  {purpose}:\n    {command}\n")
        formatter.write(f"\nman kseg-{self.name} describes everything.\n")


# Options of click made of declared ones.


class GroupedOption(click.Option):
    """An option with the heading of its help."""

    def __init__(self, *names: Any, group: str = OUTPUT, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.group = group


class ReadValue(click.ParamType):  # type: ignore[type-arg]
    """The values that a `Value` reads."""

    def __init__(self, kind: Value) -> None:
        self.name, self._read = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class LogPath(click.Path):
    """A path or URL of logs; that of a ``file:`` URL is converted to the path. What is there is not asked yet."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return local_path(os.fsdecode(value))


def _not_empty(_ctx: click.Context, _param: click.Parameter, given: Any) -> Any:
    """Refuses an empty path, as of a shell's variable that is not set: the command would run as without the option."""
    if "" in (given if isinstance(given, tuple) else (given,)):
        raise click.BadParameter("is empty")
    return given


def _topics(ctx: click.Context) -> list[str]:
    """Returns the topics with partitions in the log directories that the command line names, else in the current one.

    While an option is incomplete, click has the paths among ``args``.
    """
    found: set[str] = set()
    for path in (*(ctx.params.get("paths") or ()), *ctx.args) or (os.curdir,):
        try:
            names = os.listdir(path)
        except OSError:
            continue
        places = (parse_partition_name(own_name(name)) for name in names)
        found.update(place[0] for place in places if place is not None)
    return sorted(found)


def _codes(_ctx: click.Context) -> Collection[str]:
    from kseg.findings.table import KINDS

    return KINDS


_COMPLETIONS = {"CODE": _codes, "CODEC[:LEVEL]": lambda _ctx: CODEC_NAMES, "GLOB": _topics}
"""The words that complete a value, by its name in the help."""


def cli_option(declared: Option, destination: str, default: Any = None) -> Decorator:
    """Returns the click option of a declared one."""
    kind: Any = declared.kind
    settings: dict[str, Any] = {"metavar": declared.metavar, "help": declared.help, "multiple": declared.is_many}
    if kind is bool:
        settings = {"is_flag": True, "help": declared.help}
    elif isinstance(kind, Number):
        settings["type"] = (click.FloatRange if kind.is_real else click.IntRange)(kind.least, kind.largest)
    elif isinstance(kind, PathKind):
        settings["type"] = LogPath(readable=False) if kind.is_log else click.Path(readable=kind.is_checked)
        settings["callback"] = _not_empty
    elif isinstance(kind, Value):
        settings["type"] = ReadValue(kind)
    elif isinstance(kind, tuple):
        settings["type"] = click.Choice(kind)
    if declared.is_switch:
        settings["callback"] = lambda _ctx, _param, word: word == kind[-1]
    if kind is not bool and declared.flag_value is not None:
        settings |= {"is_flag": False, "flag_value": declared.flag_value}
    default = declared.default if declared.default is not None else default
    if kind is not bool and default is not None and not declared.is_many and not (declared.is_switch and not default):
        settings |= {"default": default, "show_default": kind is not BYTES}  # the help has it in words
    shown = declared.metavar or (kind.metavar if isinstance(kind, Value) else "")
    if words := _COMPLETIONS.get(shown):
        settings["shell_complete"] = lambda ctx, _param, begun: [each for each in words(ctx) if each.startswith(begun)]
    settings |= {"cls": GroupedOption, "group": declared.group, "hidden": declared.is_hidden}
    return click.option(*declared.names.split(), destination, **settings)


def filled(kind: type[Any], name: str = "options") -> Decorator:
    """Adds the options that fill the fields of a class. The command gets an object of it as ``name``.

    Its other fields are filled, too, if the command has options or arguments of their names. In the help its own
    options come before those that it inherits.
    """
    own = vars(kind).get("__annotations__", {})
    wanted = [
        (each, each.name if not number else f"{each.name}_{number}", declared)
        for each in sorted(fields(kind), key=lambda each: each.name not in own)  # those of base classes last
        for number, declared in enumerate(declaration.options_of(each))
    ]

    def decorate(command: CommandFunction) -> CommandFunction:
        @wraps(command)
        def with_object(**given: Any) -> Any:
            found: dict[str, Any] = {}
            for each, destination, declared in wanted:
                value = given.pop(destination)
                if declared.kind is bool and declared.flag_value is not None:
                    value = declared.flag_value if value else None
                if declared.read_late is not None and value is not None:
                    value = declared.read_late(value)
                value = type(declaration.default_of(each))(value) if declared.is_many else value
                found[each.name] = found.get(each.name) or value
            found |= {each.name: given.pop(each.name) for each in fields(kind) if each.name in given}
            return command(**{name: kind(**found)}, **given)

        made: CommandFunction = with_object
        for each, destination, declared in reversed(wanted):
            default = None if each.default is MISSING else each.default
            made = cli_option(declared, destination, default)(made)
        return made

    return decorate


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turns a RequestError of the block into a UsageError, which leads to the help."""
    try:
        yield
    except RequestError as error:
        raise click.UsageError(str(error)) from error


def with_options(declared: Mapping[str, Option]) -> Decorator:
    """Adds options by the names of their parameters, in the order of the help."""

    def decorate(command: CommandFunction) -> CommandFunction:
        for name, each in reversed([*declared.items()]):
            command = cli_option(each, name)(command)
        return command

    return decorate


def gathered(name: str, make: Callable[..., Any], declared: Mapping[str, Option]) -> Decorator:
    """Adds options by the names of the parameters of ``make``. The command gets its result as ``name``."""

    def decorate(command: CommandFunction) -> CommandFunction:
        @wraps(command)
        def with_object(**given: Any) -> Any:
            return command(**{name: make(**{each: given.pop(each) for each in declared})}, **given)

        return with_options(declared)(with_object)

    return decorate


def paths_argument(is_required: bool = True, metavar: str = "PATH...") -> Decorator:
    """PATH..., logs."""
    return click.argument("paths", nargs=-1, required=is_required, metavar=metavar, type=LogPath(readable=False))


def color(subject: str) -> Option:
    """--color; the help starts with the ``subject``."""
    text = f"{subject}; auto: on a terminal, unless NO_COLOR is set."
    words = ("auto", "always", "never")
    return Option("--color", OUTPUT, text, words, default=words[0])


def form(text: str, *words: str) -> Option:
    """--format, with these words."""
    return Option("--format", OUTPUT, text, words, default=words[0])


output_options = with_options({
    "output": Option(
        "-o --output", OUTPUT, "Write to FILE instead, completely or not at all; - is standard output.",
        PathKind(), metavar="FILE",
    ),
    "color": color("Colour on standard error"),
    "quiet": Option("-q --quiet", OUTPUT, "Only errors on standard error: no warnings, no summary.", bool),
    "verbose": Option("-v --verbose", OUTPUT, "Print details of each file on standard error.", bool),
})  # fmt: skip
"""-o, --color, --quiet, --verbose."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Where a command runs. Raises UsageError for a --master without --engine spark."""

    is_spark: bool = option(
        "--engine", RESOURCES, "spark: run on Apache Spark, with the same results.", ("local", "spark"), shown="local",
        is_switch=True,
    )  # fmt: skip
    master: str | None = option(
        "--master", RESOURCES, "The cluster of --engine spark, such as spark://host:7077.", metavar="URL"
    )

    def __post_init__(self) -> None:
        if not self.is_spark and self.master is not None:
            raise click.UsageError("--master goes with --engine spark")


engine_options = filled(Engine, "engine")
"""As ``engine``: --engine, --master."""


@contextmanager
def spark_session(engine: Engine, jobs: int | None) -> Iterator[Any]:
    """Opens the session of ``--engine spark``; None for the local engine."""
    if not engine.is_spark:
        yield None
        return
    from kseg.spark.session import session

    with session(engine.master, jobs) as spark:
        yield spark


spool_options = gathered("spool", lambda spool_dir, spool_bytes: Spool(spool_dir, spool_bytes), {
    "spool_dir": Option(
        "--spool-dir", RESOURCES,
        "Directory of the unnamed temporary files for packed PATHs; default: that of TMPDIR.", PathKind(),
        metavar="DIR",
    ),
    "spool_bytes": Option(
        "--spool-bytes", RESOURCES, "Largest size of these temporary files; default: half of the free space there.",
        BYTES,
    ),
})  # fmt: skip
"""As ``spool``: --spool-dir and --spool-bytes."""


def check_topics(paths: Sequence[str], notices: Notices) -> None:
    """Raises PathError if a name given as --topic is that of no topic at the paths; warns of globs that match none."""
    topics = click.get_current_context().params.get("topics") or ()
    if not topics:
        return
    from kseg.changes.driver.command import partitions_at
    from kseg.node.topics import unknown_topics

    partitions = partitions_at(paths)
    names, globs = unknown_topics(partitions, topics) if partitions else ([], [])
    if names:
        raise PathError(f"no partition of a topic that --topic names: {', '.join(names)}")
    for glob in globs if len(globs) < len(topics) else ():  # if no topic matches at all, the command reports that
        notices.warning(f"no topic matches --topic {glob}")


def over_archives(paths: Sequence[str], spool: Spool, notices: Notices, work: Callable[[tuple[str, ...]], int]) -> int:
    """Calls ``work`` with the paths; archives are replaced by their log directories and partitions. Returns the status.

    Problems of an archive are reported after the work; the status is then at least 1.
    """
    with archives_at(paths, spool) as found:
        places = tuple(places_of(found))
        check_topics(places, notices)
        status = work(places)
        return max(status, int(report_problems(found, notices)))


def view(options: Any, spool: Spool, work: Callable[[Sink, Any, Notices], int]) -> int:
    """Calls ``work`` of a reading command with the sink of its results, its options with archives among their paths
    replaced as by `over_archives`, and its messages. Makes the page of ``--format html``. Returns the status.
    """
    with ExitStack() as stack:
        sink = stack.enter_context(open_sink(options.output))
        if options.form == HTML:
            from kseg.report.pages import html_report

            name = click.get_current_context().info_name or ""
            sink = stack.enter_context(html_report(sink, name, f"kseg {name}", options.paths))
        notices = Notices(options.color, options.quiet, options.verbose)
        return over_archives(
            options.paths, spool, notices, lambda paths: work(sink, replace(options, paths=paths), notices)
        )


def report_problems(places: Sequence[Place], notices: Notices) -> bool:
    """Reports the problems of the archives that the places are in. Returns whether a member was not read."""
    has_unread = False
    for path, problem in problems_of(places):
        where = "" if problem.position is None else f" at position {problem.position}"
        is_unread = problem.code != REDPANDA_SEGMENT
        notify = notices.error if is_unread else notices.warning
        notify(f"{path}: {problem.code}{where}: {problem.message}")
        has_unread |= is_unread
    return has_unread
