"""Checks the arguments of the Python interface, and converts them to requests for other packages."""

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import reduce, wraps
from inspect import Parameter, signature
from time import time_ns
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

from kseg.errors import PathError, RequestError, refuse_if
from kseg.export.pushdown import Bounds
from kseg.formats.compressing import Codec
from kseg.limits import MAX_BATCH_BYTES
from kseg.quantities import LAST_TIMESTAMP, local_time, parse_time_expression
from kseg.segment.files import LAST_OFFSET
from kseg.segment.paths import expand_globs
from kseg.stores.place import Place
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.stored_object import local_path

Path = str | os.PathLike[str]
Paths = Path | Iterable[Path]
"""One path or several, with globs, like PATH... on the command line."""
Time = int | str | datetime
"""ms since the epoch, text as on the command line, or a datetime. A time without a zone is local."""
Range = tuple[int | None, int | None]
TimeRange = tuple[Time | None, Time | None]

Keys = Mapping[str, Path]
"""The PEM files of private keys by the ids of their key pairs."""


Isolation = Literal["read_uncommitted", "read_committed"]
OnDamage = Literal["raise", "skip", "include"]
Level = Literal["quick", "full", "deep"]


class Reading(TypedDict, total=False):
    """How segments are read, as in ``kseg.open``."""

    live: Annotated[bool, False]
    max_batch_bytes: Annotated[int, MAX_BATCH_BYTES]
    private_keys: Annotated[Keys | None, None]


class RecordSelection(TypedDict, total=False):
    """Which records are read, as in `Log.records`."""

    offsets: Annotated[Range | None, None]
    time: Annotated[TimeRange | None, None]
    key: Annotated[bytes | None, None]
    isolation: Annotated[Isolation, "read_uncommitted"]
    on_damage: Annotated[OnDamage, "raise"]
    ignore_log_start: Annotated[bool, False]


_SMALLEST = -(1 << 63)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def batch_limit_of(reading: Reading) -> int:
    """Returns the largest size of a decompressed batch. Raises RequestError for a negative one."""
    limit = reading["max_batch_bytes"]
    refuse_if(limit < 0, f"max_batch_bytes={limit}: is no number of bytes")
    return limit


def keys_of(given: Keys | None) -> PrivateKeys:
    """Returns the private keys for remote storage; their files are read on first use."""
    return PrivateKeys({key: Place(os.fspath(path)).absolute for key, path in (given or {}).items()})


def words_of(given: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """Returns one word, or several, as a tuple; None for None."""
    return (given,) if isinstance(given, str) else None if given is None else tuple(given)


def wanted_of(selection: RecordSelection) -> Bounds:
    """Returns the requested records. Raises RequestError for ranges that end before they begin, and for other types."""
    offsets, times, key = offsets_of(selection["offsets"]), times_of(selection["time"]), selection["key"]
    if key is not None and not isinstance(key, bytes):
        raise RequestError(f"key={key!r}: keys are bytes")
    return Bounds(
        *(offsets or (_SMALLEST, LAST_OFFSET)),
        *(times or (_SMALLEST, LAST_TIMESTAMP)),
        keys=None if key is None else frozenset([key]),
    )


def includes_broken(selection: RecordSelection) -> bool:
    """Whether records of broken batches are requested. Raises RequestError where transactions would hide records."""
    is_included = selection["on_damage"] == "include"
    if is_included and selection["isolation"] == "read_committed":
        raise RequestError("on_damage='include': not with isolation='read_committed'")
    return is_included


def offsets_of(given: Range | None) -> tuple[int, int] | None:
    """Returns the first and last offset. Raises RequestError as `wanted_of`."""

    def ends(offset: int) -> tuple[int, int]:
        found = integer_of("offsets", offset)
        return found, found

    return _ends("offsets", given, ends, LAST_OFFSET)


def ranges_of(given: Range | Iterable[Range]) -> tuple[tuple[int, int], ...]:
    """Returns first and last offsets of one range or several. Raises RequestError as `offsets_of`."""
    several = list(given) if isinstance(given, Iterable) else [given]
    ranges = several if all(isinstance(each, tuple) for each in several) else [given]
    return tuple(found for each in ranges if (found := offsets_of(each)) is not None)  # type: ignore[arg-type]


def times_of(given: TimeRange | None) -> tuple[int, int] | None:
    """Returns the first and last ms. Raises RequestError as `wanted_of`."""
    return _ends("time", given, _moments, LAST_TIMESTAMP)


def _ends(name: str, given: Any, read: Callable[[Any], tuple[int, int]], largest: int) -> tuple[int, int] | None:
    """Returns both ends of a range; ``read`` returns those of one of its values."""
    if given is None:
        return None
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise RequestError(f"{name}={given!r}: is no pair of first and last, both included; None leaves an end open")
    first, last = given
    found = _SMALLEST if first is None else read(first)[0], largest if last is None else read(last)[1]
    if found[0] > found[1]:
        raise RequestError(f"{name}={given!r}: ends before it begins")
    return found


def milliseconds_of(given: datetime) -> int:
    """Returns a time in ms since the epoch; a naive one is in local time. Raises RequestError for NaT of pandas."""
    if given != given:
        raise RequestError(f"{given!r} is no time")
    if given.utcoffset() is None:
        given = datetime.combine(given.date(), given.time())  # a Timestamp of pandas has no local time
        try:
            given = local_time(given)
        except (ValueError, OverflowError):  # the first or last day of `datetime`, whose local time has no other name
            given = given.replace(tzinfo=UTC)
    return (given - _EPOCH) // timedelta(milliseconds=1)


def _moments(given: Time) -> tuple[int, int]:
    """Returns the first and last ms of a time; they differ only for a day or a minute."""
    if isinstance(given, datetime):
        given = milliseconds_of(given)
    if isinstance(given, str) and (found := parse_time_expression(given, time_ns() // 1_000_000)) is not None:
        return found
    try:
        moment = _number(given)
    except (TypeError, ValueError) as error:
        forms = "ms since the epoch, a datetime, 2026-01-31, 2026-01-31T09:00:00Z"
        raise RequestError(f"time: {given!r} is no time: {forms}") from error
    return moment, moment


# Checks the types of arguments, so that the error for a wrong one is a RequestError with its name.

P = ParamSpec("P")
R = TypeVar("R")
Check = Callable[[Any], Any]


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a public function: arguments whose annotation is in the table below are checked when it is called.

    The function gets tuples for iterables, and text for paths, those of ``file:`` URLs too. Flags are not checked:
    whatever is true is True. Keyword arguments of a TypedDict (``**reading: Unpack[Reading]``) are listed by the
    function's signature, each with the default of its ``Annotated`` type, with which the function gets those that are
    not given.
    """
    parameters, defaults = list[Parameter](), dict[str, Any]()
    declared = signature(function)
    for parameter in declared.parameters.values():
        if parameter.kind != parameter.VAR_KEYWORD:
            parameters.append(parameter)
            continue
        (arguments,) = get_args(parameter.annotation)
        for name, hint in get_type_hints(arguments, include_extras=True).items():
            kind, defaults[name] = get_args(hint)
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=kind))
    kinds = {parameter.name: _kind_of(parameter.annotation) for parameter in parameters}

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> R:
        if (unknown := next((name for name in named if name not in kinds), None)) is not None:
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown!r}")
        right = [_right(name, value, kinds[name]) for name, value in zip(kinds, arguments, strict=False)]
        others = {name: _right(name, value, kinds[name]) for name, value in named.items()}
        return function(*right, *arguments[len(right) :], **defaults | others)

    vars(call)["__signature__"] = declared.replace(parameters=parameters)
    return call


_Kind = tuple[Any, tuple[str, ...], bool]


def _kind_of(kind: Any) -> _Kind:
    """Returns a type without None, text for a Literal of words; the words; and whether None is allowed."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    # The words of a codec include its levels, too many for a message: `parse_target` refuses wrong ones.
    words = next((get_args(each) for each in parts if get_origin(each) is Literal and each != Codec), ())
    others = [str if get_origin(each) is Literal else each for each in parts if each is not NoneType]
    return reduce(operator.or_, others), words, len(others) < len(parts)


def _right(name: str, value: Any, kind: _Kind) -> Any:
    plain, words, may_be_none = kind
    if plain not in _CHECKS or (value is None and may_be_none):
        return value
    check, what = _CHECKS[plain]
    try:
        found = check(value)
    except (TypeError, ValueError) as error:
        raise RequestError(f"{name}={value!r:.80}: is no {what}") from error
    if words and found not in words:
        which = f"neither {words[0]} nor {words[1]}" if len(words) == 2 else f"none of {', '.join(words)}"
        raise RequestError(f"{name}={value!r}: is {which}")
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _key(value: Any) -> bytes | str:
    return value if isinstance(value, bytes) else _text(value)


def integer_of(name: str, given: Any, least: int = _SMALLEST, largest: int = LAST_OFFSET) -> int:
    """Returns an integer, one of numpy too. Raises RequestError for other types and for those out of the range."""
    try:
        if least <= (found := _number(given)) <= largest:
            return found
    except (TypeError, ValueError):
        pass
    raise RequestError(f"{name}={given!r}: is no integer from {least} to {largest}")


def names_of(name: str, given: Any) -> list[str]:
    """Returns one name or several. Raises RequestError for other types."""
    return list(_right(name, given, _kind_of(Iterable[str])))


def _number(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    number = operator.index(value)
    if not _SMALLEST <= number <= LAST_OFFSET:
        raise ValueError
    return number


def _place(value: Any) -> str:
    path = _text(os.fspath(value))
    os.fsencode(path)  # ValueError: a lone surrogate stands for no bytes
    return path


def _path(value: Any) -> str:
    """Returns the path as text, that of a ``file:`` URL too."""
    path = local_path(_place(value))
    if not path or "\0" in path:
        raise ValueError
    return path


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


_CHECKS: dict[Any, tuple[Check, str]] = {
    str: (_text, "text"),
    int: (_number, "whole number of 64 bits"),
    float: (lambda value: value if isinstance(value, float) else _number(value), "number"),
    Path: (_path, "path"),
    Paths: (_several(_place), "path, and no iterable of paths"),
    **dict.fromkeys((Iterable[str], str | Iterable[str]), (_several(_text), "text, and no iterable of it")),
    bytes | str | Iterable[bytes | str]: (_several(_key), "bytes or text, and no iterable of them"),
    **dict.fromkeys(
        (Iterable[int], int | Iterable[int]), (_several(_number), "whole number of 64 bits, and no iterable of such")
    ),
    Keys: (_keys, "mapping of names to paths"),
    bool | str | os.PathLike[str]: (
        lambda value: value if isinstance(value, bool) else _path(value),
        "path, and neither True nor False",
    ),
}
