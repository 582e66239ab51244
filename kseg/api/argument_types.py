"""Checks the types of arguments, so that the error for a wrong one is a RequestError with its name."""

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar, get_args, get_type_hints

from kseg.api.arguments import Keys, Path, Paths
from kseg.errors import RequestError

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
