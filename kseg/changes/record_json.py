"""The JSON of records of changes: objects are written as the fields of their class, and read again by its types.

Anyone may have edited a record, so every value is checked: the names and numbers in it have then the right types.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from kseg.formats.json_values import camel_case, fields_of


def _plain(found: Any) -> Any:
    if isinstance(found, bytes):
        return b64encode(found).decode()
    return fields_of(found, *(each.name for each in fields(found)))


written = json.JSONEncoder(default=_plain).encode
"""Returns a value as JSON: a dataclass as an object, any tuple as an array, bytes in base64."""


@cache
def reader(kind: Any) -> Callable[[Any], Any]:
    """Returns a function that makes a value of this type of its JSON again; fields that are missing get their defaults.
    It raises AttributeError, TypeError or ValueError for anything else.
    """
    make: Any = kind
    origin, inner = get_origin(kind), [reader(each) for each in get_args(kind) if each not in (None, type(None), ...)]
    if origin is UnionType:
        return lambda value: None if value is None else inner[0](value)
    if origin is dict:
        return lambda value: {inner[0](name): inner[1](each) for name, each in value.items()}
    if origin is list or (origin is tuple and ... in get_args(kind)):
        return lambda value: origin(map(inner[0], _of(list, value)))
    if is_dataclass(kind):
        members = {camel_case(name): (name, reader(each)) for name, each in get_type_hints(kind).items()}
        return lambda value: make(**{n: read(value[key]) for key, (n, read) in members.items() if key in value})
    if origin is tuple or hasattr(kind, "_fields"):
        make = tuple if origin is tuple else kind._make
        inner = inner or [reader(each) for each in get_type_hints(kind).values()]
        return lambda value: make(read(each) for read, each in zip(inner, _of(list, value), strict=True))
    if kind is bytes:
        return lambda value: b64decode(_of(str, value))
    return lambda value: _of(kind, value)


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
