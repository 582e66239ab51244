"""Declares an option on the field that it fills: name, kind, default, help and group, once for all interfaces.

The command line offers every declared option (`kseg.cli.options.filled`); the Python interface takes some of them, each
by its long name without dashes (`filled`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

from kseg.errors import RequestError, errors_at, refuse_if

INPUT, CONTENTS, RULES, CHANGES, RESOURCES, OUTPUT = (
    "Input", "Contents", "Rules", "Changes", "Resources", "Output",
)  # fmt: skip
GROUPS = (INPUT, CONTENTS, RULES, CHANGES, RESOURCES, OUTPUT)
"""The headings of the help, in its order."""

T = TypeVar("T")


class Number(NamedTuple):
    """A kind: whole numbers, or with ``is_real`` all, from ``least`` to ``largest``, both included."""

    least: int = 0
    largest: int | None = None
    is_real: bool = False


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
    """``names``: all, separated by spaces. ``kind``: bool for a flag, str, a tuple of words, `Number`, `File` or
    `Value`; of a ``switch``, the option's one word, or the second of two, means True.

    ``default``: as on the command line, if it is not that of the field. ``is_many``: it may be repeated.
    ``flag_value``: what a flag means instead of True, and other options without a value. ``in_python``: its name there,
    if it is not the long one. ``read_late``: reads what a path names when the command runs.
    """

    names: str
    group: str
    help: str
    kind: Any = str
    metavar: str | None = None
    default: Any = None
    shows_default: bool = False
    is_many: bool = False
    is_switch: bool = False
    flag_value: Any = None
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
                others[each.name] = type(default_of(each))(value) if declared.is_many else _value(declared, value)
    return kind(**others)


def _value(declared: Option, value: Any) -> Any:
    name, kind = declared.python_name, declared.kind
    if isinstance(kind, Value) and isinstance(value, str):
        with errors_at(name, RequestError, of=ValueError):
            return kind.read(value)
    if not isinstance(kind, tuple) or isinstance(kind, Number | PathKind | Value):
        return value
    if value not in kind:
        which = f"neither {kind[0]} nor {kind[1]}" if len(kind) == 2 else f"none of {', '.join(kind)}"
        raise RequestError(f"{name}={value!r}: is {which}")
    return value == kind[-1] if declared.is_switch else value
