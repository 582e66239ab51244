"""Declares an option on the field that it fills: name, kind, default, help and group, once for all interfaces.

The command line offers every declared option (`kseg.cli.options.filled`); the Python interface takes some of them, each
by its long name without dashes (`filled`). Below are the functions that read values from text, and the options that
several commands share.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kseg.errors import RequestError, errors_at, refuse_if
from kseg.limits import MAX_BATCH_BYTES
from kseg.quantities import FIRST_TIMESTAMP, LAST_TIMESTAMP, UNITS_MS, parse_time_expression
from kseg.segment.files import LAST_OFFSET

INPUT, CONTENTS, RULES, CHANGES, RESOURCES, OUTPUT = (
    "Input", "Contents", "Rules", "Changes", "Resources", "Output",
)  # fmt: skip
GROUPS = (INPUT, CONTENTS, RULES, CHANGES, RESOURCES, OUTPUT)
"""The headings of the help, in its order."""
TEXT, JSON, TABLE, HTML = "text", "json", "table", "html"
"""Words of --format."""

T = TypeVar("T")


class Number(NamedTuple):
    """A kind: whole numbers, or with ``is_real`` all, from ``least`` to ``largest``, both included."""

    least: int = 0
    largest: int | None = None
    is_real: bool = False

    @property
    def shown(self) -> str:
        return f"from {self.least} " + ("on" if self.largest is None else f"to {self.largest}")


class Value(NamedTuple):
    """A kind: its name in the help, and the function that reads it from text, and raises ValueError."""

    metavar: str
    read: Callable[[str], Any]


class PathKind(NamedTuple):
    """A kind: a path. ``is_log``: also a URL, and "-". ``is_checked``: one that exists must be readable."""

    is_log: bool = False
    is_checked: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """``names``: all, separated by spaces. ``kind``: bool for a flag, str, a tuple of words, `Number`,
    `PathKind` or `Value`; of a ``switch``, the option's one word, or the second of two, means True.

    ``default``: as on the command line, if it is not that of the field. ``is_many``: it may be repeated.
    ``flag_value``: what a flag means instead of True, and other options without a value. ``is_hidden``: left out of the
    list of options, for other spellings. ``in_python``: its name there, if it is not the long one. ``read_late``: reads
    what a path names when the command runs.
    """

    names: str
    group: str
    help: str
    kind: Any = str
    metavar: str | None = None
    default: Any = None
    is_many: bool = False
    is_switch: bool = False
    flag_value: Any = None
    is_hidden: bool = False
    in_python: str | None = None
    read_late: Callable[[str], Any] | None = None

    @property
    def python_name(self) -> str:
        return self.in_python or self.names.split()[-1].lstrip("-").replace("-", "_")


def option(names: str, group: str, text: str, kind: Any = str, default: Any = MISSING, **more: Any) -> Any:
    """Returns a field of a dataclass with an `Option`. Without a default it is False for flags and switches, () where
    ``is_many``, else None. ``more``: ``factory`` of the field, ``shown``, the option's own default, and others."""
    factory = more.pop("factory", MISSING)
    declared = Option(names, group, text, kind, default=more.pop("shown", None), **more)
    if default is MISSING and factory is MISSING:
        default = False if kind is bool or declared.is_switch else () if declared.is_many else None
    return field(default=default, default_factory=factory, metadata={"options": (declared,)})


def options(*declared: Option) -> Any:
    """Returns a field, None by default, that several options fill: the first that is given."""
    return field(default=None, metadata={"options": declared})


def default_of(each: "Field[Any]") -> Any:
    """Returns the default of a field, None for none."""
    if each.default_factory is not MISSING:
        return each.default_factory()
    return None if each.default is MISSING else each.default


def options_of(each: "Field[Any]") -> tuple[Option, ...]:
    """Returns the options that fill a field."""
    found: tuple[Option, ...] = each.metadata.get("options", ())
    return found


def given_in(found: Any) -> set[str]:
    """Returns the long names of the options whose fields have other values than their defaults."""
    return {
        declared.names.split()[-1]
        for each in fields(found)
        for declared in options_of(each)
        if getattr(found, each.name) != default_of(each)
    }


def refuse(names: Iterable[str], given: Collection[str], reason: str) -> None:
    """Raises RequestError for the first of the names that is given."""
    for name in names:
        refuse_if(name in given, f"{name} {reason}")


def filled(kind: type[T], given: Mapping[str, Any], **others: Any) -> T:
    """Returns an object with the options ``given`` by their names in Python; None stands for the default. ``others``:
    values of fields. Raises RequestError for a value that an option does not take.
    """
    for each in fields(kind):  # type: ignore[arg-type]
        for declared in options_of(each):
            value = given.get(declared.python_name)
            if each.name not in others and value is not None:
                several = type(default_of(each))
                others[each.name] = (
                    several(_value(declared, one) for one in value) if declared.is_many else _value(declared, value)
                )
    return kind(**others)


def _value(declared: Option, value: Any) -> Any:
    name, kind = declared.python_name, declared.kind
    is_negative = isinstance(value, int) and value < 0  # which few options take, as -1 for no limit
    if isinstance(kind, Value) and (isinstance(value, str) or is_negative):
        with errors_at(name, RequestError, of=ValueError):
            return kind.read(str(value))
    if isinstance(kind, Number) and not kind.least <= value <= (LARGEST if kind.largest is None else kind.largest):
        raise RequestError(f"{name}={value!r}: is no number {kind.shown}")
    if not isinstance(kind, tuple) or isinstance(kind, Number | PathKind | Value):
        return value
    if value not in kind:
        which = f"neither {kind[0]} nor {kind[1]}" if len(kind) == 2 else f"none of {', '.join(kind)}"
        raise RequestError(f"{name}={value!r}: is {which}")
    return value == kind[-1] if declared.is_switch else value


# Reads the values of options from text. The functions raise ValueError, whose text is for people.

LARGEST = (1 << 63) - 1
BYTE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
TIMES = "2026-01-31, '2026-01-31 09:00', 2026-01-31T09:00:00Z, yesterday, -2h or 1769850000000"


def scaled(text: str, units: Mapping[str, int]) -> int | None:
    """Returns a number with a unit, as a multiple of the smallest one; None for other text."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    scale = units.get(text[len(digits) :])
    return int(digits) * scale if scale is not None and digits.isascii() and digits.isdigit() else None


def byte_count(text: str) -> int:
    """Reads a number of bytes, with K, M, G or T for powers of 1024."""
    found = scaled(text.upper(), BYTE_UNITS)
    if found is None:
        raise ValueError(f"{text!r} is no number of bytes such as 1000000, 64K or 1G")
    return found


def milliseconds(text: str) -> int:
    """Reads a length of time in ms, or with a unit: s, min (m), h, d or w."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    found = scaled(text, {"": 1, "ms": 1, **UNITS_MS}) if len(digits) < 20 else None
    if found is None:
        raise ValueError(f"{text!r} is no length of time: a number of ms, or one with s, min, h, d or w, as 7d")
    return min(found, LARGEST)


def or_unlimited(read: Callable[[str], int]) -> Callable[[str], int]:
    """Returns a function that reads -1 (no limit) as itself, and other text with ``read``."""
    return lambda text: -1 if text == "-1" else read(text)


def _range(text: str, end: Callable[[str, int], int | None], last: int, wrong: str) -> tuple[int, int]:
    """Reads ``A..B``, inclusive, either end may be omitted; one value is a range of its own."""
    first, dots, after = text.partition("..")
    low, high = end(first, 0), end(after, last)
    if low is None or high is None or not (first or after):
        raise ValueError(f"{text!r} {wrong}")
    high = high if dots else low
    if low > last:
        raise ValueError(f"{text!r} begins above {last}, the largest possible")
    if low > high:
        raise ValueError(f"{text!r} ends before it begins")
    return low, high


def offset_range(text: str) -> tuple[int, int]:
    """Reads ``A..B``, offsets."""

    def end(digits: str, default: int) -> int | None:
        return default if not digits else int(digits) if digits.isascii() and digits.isdigit() else None

    return _range(text, end, LAST_OFFSET, "is no range of offsets such as 100..200, 100.. or ..200")


def position_range(text: str) -> tuple[int, int]:
    """Reads ``A..B``, bytes of a file, decimal or 0x…."""

    def end(number: str, default: int) -> int | None:
        if not number:
            return default
        digits, base = (number[2:], 16) if number[:2] in ("0x", "0X") else (number, 10)
        with suppress(ValueError):
            if digits.isascii() and digits.isalnum() and len(digits) < 20:
                return min(int(digits, base), LARGEST)
        return None

    return _range(text, end, LARGEST, "is no range of positions such as 0..60, 0x1f00.. or ..4095")


def time_range(text: str) -> tuple[int, int]:
    """Reads ``FROM..TO`` as ms. A time without seconds or time of day means the whole minute or day."""
    first, dots, last = text.partition("..")
    now_ms = int(time.time() * 1000)
    low, high = parse_time_expression(first, now_ms), parse_time_expression(last if dots else first, now_ms)
    if not (first or last) or (first and low is None) or (last and high is None):
        raise ValueError(f"{text!r} is no range of times: FROM..TO, FROM.. or ..TO, of times as {TIMES}")
    found = low[0] if low else FIRST_TIMESTAMP, high[1] if high else LAST_TIMESTAMP
    if found[0] > found[1]:
        raise ValueError(f"{text!r} ends before it begins")
    return found


def time_point(text: str) -> int:
    """Reads one time, in ms since the epoch."""
    found = parse_time_expression(text, int(time.time() * 1000))
    if found is None:
        raise ValueError(f"{text!r} is no time such as {TIMES}")
    return found[0]


def key_bytes(text: str) -> bytes:
    """Reads a key: its text, or ``base64:`` or ``hex:`` and the bytes; ``utf8:`` before a text that begins so."""
    form, colon, rest = text.partition(":")
    try:
        if colon and form == "base64":
            from binascii import a2b_base64

            return a2b_base64(rest, strict_mode=True)
        if colon and form == "hex":
            return bytes.fromhex(rest)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from error
    return (rest if colon and form == "utf8" else text).encode("utf-8", "surrogateescape")


def content_format(text: str) -> str:
    """Checks the name of a format of keys or values, of a Kafka class, or ``module:callable``, and returns it.

    The format is loaded at once, so that a wrong name is reported before any output.
    """
    from kseg.decoders.values import load

    load(text)
    return text


def bytes_pattern(text: str) -> "re.Pattern[bytes]":
    """Compiles a regular expression for bytes, given as UTF-8."""
    try:
        return re.compile(text.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error


def codec_target(text: str) -> Any:
    """Reads ``zstd``, ``gzip:9``, ...: a codec and its level, as a `Target`."""
    from kseg.formats.compressing import parse_target

    return parse_target(text)


def codec_name(text: str) -> str:
    """Checks ``none``, or a codec with or without a level, and returns it."""
    if text != "none":
        codec_target(text)
    return text


def era_rules(version: str | None = None) -> Any:
    """Returns the rules of a release, of the newest for None. Raises ValueError for an unknown one."""
    from kseg.releases.release import Era, era_of  # imports the readers of side files

    return Era() if version is None else era_of(version)


BYTES, TIME, CODEC = Value("BYTES", byte_count), Value("TIME", time_point), Value("CODEC[:LEVEL]", codec_name)
MS, KEY, REGEX = Value("MS", milliseconds), Value("KEY", key_bytes), Value("REGEX", bytes_pattern)
OFFSETS, TIME_RANGE = Value("A..B", offset_range), Value("FROM..TO", time_range)
VERSION, FORMAT = Value("VERSION", era_rules), Value("FORMAT", content_format)


def era(oldest: str = "0.7", text: str = "Follow the rules of this release of Kafka.") -> Any:
    """--era; ``oldest``: the release before which the command knows no rules."""
    from kseg.releases.release import NEWEST

    newest = ".".join(map(str, NEWEST))
    text = f"{text.removesuffix('.')}, {oldest} to {newest}."
    return option("--era", INPUT, text, VERSION, factory=era_rules, shown=newest)


# Options without a default of their own: each call returns a new field.

format_of_07 = partial(
    option, "--era", INPUT, "Read files in the format of Kafka 0.6 and 0.7, whatever their suffix.", ("0.7",),
    is_switch=True,
)  # fmt: skip
private_keys = partial(
    option, "--private-key", INPUT, "Remote storage: the private key of the key pair ID; may be repeated.",
    metavar="ID=PEM", is_many=True,
)  # fmt: skip
schemas = partial(
    option, "--schemas", INPUT,
    "Schemas for the format avro: a partition of _schemas, or a folder of ID.avsc; default: _schemas-0 in the same "
    "log directory.",
    PathKind(), metavar="PATH",
)  # fmt: skip
batch_limit = partial(
    option, "--max-batch-bytes", RULES, "Largest size of a decompressed batch (256M).", BYTES, default=MAX_BATCH_BYTES
)
index_interval = partial(
    option, "--index-interval-bytes", RULES,
    "Bytes between two index entries; default: the topic's setting, else as in existing indexes, else 4096.", BYTES,
)  # fmt: skip
live = partial(
    option, "--live", INPUT, "The last segment is being written: a partial batch at its end is no damage.", bool
)
isolation = partial(
    option, "--isolation", INPUT,
    "read_committed omits aborted transactions, and everything from the last stable offset on.",
    ("read_uncommitted", "read_committed"), shown="read_uncommitted", is_switch=True,
)  # fmt: skip


def offsets(text: str) -> Any:
    """--offsets."""
    return option("--offsets", INPUT, text, OFFSETS)


def times(text: str) -> Any:
    """--time."""
    return option("--time", INPUT, text, TIME_RANGE)


def patterns(names: str, text: str) -> Any:
    """An option with regular expressions, any of which is to match."""
    return option(names, INPUT, text, REGEX, is_many=True)


def form(*words: str, text: str = "Form of the output.") -> Any:
    """--format, with these words; the first is the default."""
    return option("--format", OUTPUT, text, words, default=words[0])


def now(text: str = "Use this time as the current time, as 2026-01-31 (local) or -2h.") -> Any:
    """--now."""
    return option("--now", RULES, text, TIME)


def jobs(of: str = "threads") -> Any:
    """--jobs; ``of``: what it counts."""
    return option("--jobs", RESOURCES, f"Number of {of} (default: the cores).", Number(1), metavar="N")


def topics(where: str = "a log directory") -> Any:
    """--topic; ``where`` the topics are."""
    text = f"Only these topics of {where}, as orders or 'audit-*'; may be repeated."
    return option("--topic", INPUT, text, metavar="GLOB", is_many=True, in_python="topics")


def _server_properties(path: str) -> Any:
    from kseg.node.server_properties import read_server_properties  # few commands get such a file

    return read_server_properties(path)


def server(text: str = "The broker's configuration, for settings that a topic does not override.") -> Any:
    """--server-properties."""
    return option("--server-properties", INPUT, text, PathKind(), metavar="FILE", read_late=_server_properties)
