"""Thrift's compact protocol, in which the footers of Parquet files are written: any structure as nested values, and
back to the same bytes, so that fields nobody knows here stay as they are.

Specification: thrift/doc/specs/thrift-compact-protocol.md, without maps, which no footer has.
"""

import struct
from typing import Any, NamedTuple

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
_SHORT_LIST = 15


class Field(NamedTuple):
    """A value and how it is written. Numbers are int, structures are `Struct`, lists are `Elements`, others bytes."""

    kind: int
    value: Any


Struct = dict[int, Field]
"""Fields by their ids."""


class Elements(NamedTuple):
    """A list or set, whose elements are all of one kind."""

    kind: int
    values: list[Any]
    """Structures may also be bytes, if they are to be written as they are."""


def read(data: bytes) -> Struct:
    """The structure that ``data`` begins with. Raises ValueError, IndexError where that is none."""
    return _Reader(data).struct()


def written(fields: Struct) -> bytes:
    """The structure as bytes."""
    out = bytearray()
    _put_struct(out, fields)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self) -> Struct:
        found, number = Struct(), 0
        while (first := self._byte()) != 0:
            number = number + (first >> 4) if first >> 4 else self._number()
            kind = first & 15
            found[number] = Field(kind, None if kind in (TRUE, FALSE) else self._value(kind))
        return found

    def _value(self, kind: int) -> Any:
        if kind in (I16, I32, I64):
            return self._number()
        if kind == BINARY:
            return self._take(self._varint())
        if kind == STRUCT:
            return self.struct()
        if kind in (LIST, SET):
            first = self._byte()
            count = first >> 4 if first >> 4 != _SHORT_LIST else self._varint()
            return Elements(first & 15, [self._value(first & 15) for _ in range(count)])
        if kind in (TRUE, FALSE, BYTE):  # a truth value in a list takes a byte
            return self._byte()
        if kind == DOUBLE:
            return self._take(8)
        raise ValueError(f"{kind} is no kind of value in a footer")

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _number(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def _put_struct(out: bytearray, fields: Struct) -> None:
    before = 0
    for number, field in sorted(fields.items()):
        if 0 < number - before < 16:
            out.append((number - before) << 4 | field.kind)
        else:
            out.append(field.kind)
            _put_number(out, number)
        before = number
        if field.kind not in (TRUE, FALSE):
            _put(out, field.kind, field.value)
    out.append(0)


def _put(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        _put_number(out, value)
    elif kind == BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind == STRUCT and isinstance(value, bytes):
        out += value
    elif kind == STRUCT:
        _put_struct(out, value)
    elif kind in (LIST, SET):
        count = len(value.values)
        out.append(min(count, _SHORT_LIST) << 4 | value.kind)
        if count >= _SHORT_LIST:
            _put_varint(out, count)
        for each in value.values:
            _put(out, value.kind, each)
    elif kind == DOUBLE:
        out += value
    else:
        out += struct.pack("B", value)


def _put_number(out: bytearray, value: int) -> None:
    _put_varint(out, value << 1 if value >= 0 else ~(value << 1))


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
