"""Checks the arguments of the Python interface, and converts them to requests for other packages."""

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypedDict, TypeVar, get_args, get_type_hints

from kseg.errors import PathError, RequestError
from kseg.export.records import Wanted
from kseg.segment.files import LAST_OFFSET
from kseg.segment.paths import expand_globs
from kseg.segment.times import LAST_TIMESTAMP, parse_time
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.stored_object import local_path

Path = str | os.PathLike[str]
Paths = Path | Iterable[Path]
"""One path or several, with globs, like PATH... on the command line."""
Time = int | str | datetime
"""ms since the epoch; text as ``2026-11-01`` or ``2026-11-01T09:00:00Z``; a datetime, in local time if it is naive."""
Range = tuple[int | None, int | None]
TimeRange = tuple[Time | None, Time | None]

Keys = Mapping[str, Path]
"""The PEM files of private keys by the ids of their key pairs."""


class Reading(TypedDict, total=False):
    """How segments are read, as in ``kseg.open``."""

    max_batch_bytes: int
    private_keys: Keys | None


ISOLATIONS = ("read_uncommitted", "read_committed")
ON_DAMAGE = ("raise", "skip")

_SMALLEST = -(1 << 63)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_T = TypeVar("_T")


def paths_of(given: Paths) -> tuple[str, ...]:
    """Returns the paths with globs expanded.

    Raises RequestError for no path, PathError for a path with a NUL and for a glob without a match.
    """
    several = [given] if isinstance(given, str | os.PathLike) else given
    found = expand_globs(os.fspath(path) for path in several)
    if not found:
        raise RequestError("no path is given")
    for path in found:
        if "\0" in path:
            raise PathError(f"{path!r}: no file has such a name")
    return tuple(found)


def keys_of(given: Keys | None) -> PrivateKeys:
    """Returns the private keys for remote storage; their files are read on first use."""
    return PrivateKeys({key: os.path.abspath(path) for key, path in (given or {}).items()})


def one_path(given: Path) -> str:
    """Returns the path as text, that of a ``file:`` URL too."""
    return local_path(os.fspath(given))


def words_of(given: str | Iterable[str]) -> tuple[str, ...]:
    """Returns one word, or several, as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def is_second(name: str, given: str, choices: tuple[str, str]) -> bool:
    """Whether the second of two words is given. Raises RequestError for any other word."""
    if given not in choices:
        raise RequestError(f"{name}={given!r}: is neither {choices[0]} nor {choices[1]}")
    return given == choices[1]


def wanted_of(offsets: Range | None, time: TimeRange | None, key: bytes | None) -> Wanted:
    """Returns the requested records. Raises RequestError for ranges that end before they begin, and for other types."""
    first, last = _ends("offsets", offsets) or (None, None)
    earliest, latest = _ends("time", time) or (None, None)
    if key is not None and not isinstance(key, bytes):
        raise RequestError(f"key={key!r}: keys are bytes")
    wanted = Wanted(
        _SMALLEST if first is None else _offset(first),
        LAST_OFFSET if last is None else _offset(last),
        _SMALLEST if earliest is None else _moments(earliest)[0],
        LAST_TIMESTAMP if latest is None else _moments(latest)[1],
        key=key,
    )
    if wanted.first_offset > wanted.last_offset or wanted.earliest_ms > wanted.latest_ms:
        name, given = ("offsets", offsets) if wanted.first_offset > wanted.last_offset else ("time", time)
        raise RequestError(f"{name}={given!r}: ends before it begins")
    return wanted


def _ends(name: str, given: _T | None) -> _T | None:
    if given is None or (isinstance(given, tuple | list) and len(given) == 2):
        return given
    raise RequestError(f"{name}={given!r}: is no pair of first and last, both included; None leaves an end open")


def _offset(given: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not _SMALLEST <= given <= LAST_OFFSET:
        raise RequestError(f"offsets: {given!r} is no offset")
    return given


def _moments(given: Time) -> tuple[int, int]:
    """Returns the first and last ms of a time; they differ only for a day."""
    if isinstance(given, datetime):
        ms = (given.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
        return ms, ms
    if isinstance(given, str) and (found := parse_time(given)) is not None:
        return found
    if isinstance(given, int) and not isinstance(given, bool) and _SMALLEST <= given <= LAST_TIMESTAMP:
        return given, given
    raise RequestError(f"time: {given!r} is no time: ms since the epoch, a datetime, 2026-01-31, 2026-01-31T09:00:00Z")


# Checks the types of arguments, so that the error for a wrong one is a RequestError with its name.

P = ParamSpec("P")
R = TypeVar("R")
Check = Callable[[Any], Any]


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a public function: arguments whose annotation is in the table below are checked when it is called.

    The function gets tuples for iterables, and text for paths. Flags are not checked: whatever is true is True.
    """
    kinds = dict[str, Any]()
    for name, parameter in signature(function).parameters.items():
        if parameter.kind == parameter.VAR_KEYWORD:
            kinds |= get_type_hints(*get_args(parameter.annotation))  # Unpack[a TypedDict]
        else:
            kinds[name] = parameter.annotation

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> R:
        right = [_right(name, value, kinds[name]) for name, value in zip(kinds, arguments, strict=False)]
        others = {name: _right(name, value, kinds.get(name)) for name, value in named.items()}
        return function(*right, *arguments[len(right) :], **others)

    return call


def _right(name: str, value: Any, kind: Any) -> Any:
    if kind not in _CHECKS or (value is None and type(None) in get_args(kind)):
        return value
    check, what = _CHECKS[kind]
    try:
        return check(value)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{name}={value!r:.80}: is no {what}") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _real(value: Any) -> float:
    return value if isinstance(value, float) else _number(value)


def _path(value: Any) -> str:
    return _text(os.fspath(value))


def _keep(value: Any) -> bool | str:
    return value if isinstance(value, bool) else _path(value)


def _keys(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise TypeError
    return {_text(key): _path(path) for key, path in value.items()}


def _several(one: Check) -> Check:
    """Returns a check of one value or an iterable of values; bytes are neither. It returns a tuple."""

    def check(value: Any) -> tuple[Any, ...]:
        is_one = isinstance(value, str | bytes | os.PathLike) or not isinstance(value, Iterable)
        return tuple(map(one, [value] if is_one else value))

    return check


def _with_none(kind: Any) -> tuple[Any, Any]:
    return kind, kind | None


_CHECKS: dict[Any, tuple[Check, str]] = {
    **dict.fromkeys(_with_none(str), (_text, "text")),
    **dict.fromkeys(_with_none(int), (_number, "whole number")),
    **dict.fromkeys(_with_none(float), (_real, "number")),
    **dict.fromkeys(_with_none(Path), (_path, "path")),
    Paths: (_several(_path), "path, and no iterable of paths"),
    **dict.fromkeys(
        (Iterable[str] | None, str | Iterable[str] | None), (_several(_text), "text, and no iterable of it")
    ),
    **dict.fromkeys(
        (Iterable[int], int | Iterable[int] | None), (_several(_number), "whole number, and no iterable of such")
    ),
    Keys | None: (_keys, "mapping of names to paths"),
    bool | str | os.PathLike[str]: (_keep, "path, and neither True nor False"),
}
