"""Predicate pushdown: the ranges and names outside which a filter of Spark or of pyarrow is never true."""

import operator
import re
from array import array
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, NamedTuple, TypeVar

from kseg.export import pa
from kseg.segment.files import LAST_OFFSET

T = TypeVar("T")

LEAST = -(1 << 63)
"""Of offsets, and of timestamps in ms."""
LARGEST = LAST_OFFSET


class Bounds(NamedTuple):
    """Rows for which a filter can be true. Ranges include both ends; None stands for all names, numbers or keys."""

    first_offset: int = LEAST
    last_offset: int = LARGEST
    earliest_ms: int = LEAST
    latest_ms: int = LARGEST
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    keys: frozenset[bytes] | None = None

    @property
    def is_empty(self) -> bool:
        ends = self.first_offset > self.last_offset or self.earliest_ms > self.latest_ms
        return ends or any(each is not None and not each for each in (self.topics, self.partitions, self.keys))

    @property
    def columns(self) -> memoryview:
        """The ranges as ``wanted`` of `kseg.kernel.records.columns`, in the order of WANTED_*."""
        return memoryview(array("q", (self.first_offset, self.last_offset, self.earliest_ms, self.latest_ms)))

    @property
    def has_all_times(self) -> bool:
        """Whether records of all times are within, and those without a timestamp."""
        return (self.earliest_ms, self.latest_ms) == (LEAST, LARGEST)

    def __and__(self, other: "Bounds") -> "Bounds":
        """Returns the rows within both bounds."""
        return self._joined(other, max, min, lambda one, two: two if one is None else one if two is None else one & two)

    def __or__(self, other: "Bounds") -> "Bounds":
        """Returns the least bounds of the rows within either."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        return self._joined(other, min, max, lambda one, two: None if one is None or two is None else one | two)

    def _joined(self, other: "Bounds", least: Any, largest: Any, names: Any) -> "Bounds":
        return Bounds(
            least(self.first_offset, other.first_offset), largest(self.last_offset, other.last_offset),
            least(self.earliest_ms, other.earliest_ms), largest(self.latest_ms, other.latest_ms),
            names(self.topics, other.topics), names(self.partitions, other.partitions), names(self.keys, other.keys),
        )  # fmt: skip


ALL_ROWS = Bounds()
NO_ROWS = Bounds(first_offset=0, last_offset=-1)

EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = "equal", "less", "less_equal", "greater", "greater_equal"
_SWAPPED = {
    EQUAL: EQUAL, LESS: GREATER, LESS_EQUAL: GREATER_EQUAL, GREATER: LESS, GREATER_EQUAL: LESS_EQUAL,
}  # fmt: skip
"""The comparison of two values in the other order."""


def bounds_of(column: str, comparison: str, value: Any) -> Bounds | None:
    """Returns the bounds of the rows for which a comparison is true, and for no others; None if there are none.

    ``value``: an integer; of a timestamp the ms before and after, equal for a whole one; text, or bytes of a key.
    """
    if column == "offset" and isinstance(value, int):
        return Bounds(*_ends(comparison, value, value))
    if column == "timestamp" and isinstance(value, tuple):
        return Bounds(LEAST, LARGEST, *_ends(comparison, *value))
    if comparison == EQUAL and column == "topic" and isinstance(value, str):
        return Bounds(topics=frozenset([value]))
    if comparison == EQUAL and column == "partition" and isinstance(value, int):
        return Bounds(partitions=frozenset([value]))
    if comparison == EQUAL and column == "key" and isinstance(value, bytes):
        return Bounds(keys=frozenset([value]))
    return None


def _ends(comparison: str, floor: int, ceiling: int) -> tuple[int, int]:
    """Returns the first and last integer for which a comparison is true with a value between the two, which are equal
    for an integer."""
    if comparison == EQUAL:
        return ceiling, floor
    if comparison in (GREATER, GREATER_EQUAL):
        return floor + 1 if comparison == GREATER else ceiling, LARGEST
    return LEAST, ceiling - 1 if comparison == LESS else floor


# Expressions of pyarrow. It offers no way to take one apart, but serializes it for pickle: as a record batch that has
# the literals as columns, and the calls, columns and literals in its metadata, in order.


class FieldName(NamedTuple):
    name: str


class Call(NamedTuple):
    function: str
    arguments: "list[Node]"
    options: Any


Node = Call | FieldName | Any
"""A part of an expression; a literal is a scalar of pyarrow."""


def bounds_of_filter(expression: Any) -> Bounds:
    """Returns the bounds of the rows for which an expression of pyarrow is true. What is not understood narrows
    nothing.
    """
    return _read(expression, _bounds, ALL_ROWS)


def columns_of(expression: Any) -> frozenset[str] | None:
    """Returns the columns in an expression of pyarrow, None if they are unknown."""

    def columns(node: Node) -> frozenset[str]:
        if isinstance(node, FieldName):
            return frozenset([node.name])
        return frozenset().union(*map(columns, node.arguments)) if isinstance(node, Call) else frozenset()

    return _read(expression, columns, None)


def _read(expression: Any, read: Callable[[Node], T], otherwise: T) -> T:
    try:
        _, (data,) = expression.__reduce__()
        with pa.ipc.open_file(data) as reader:
            literals = reader.get_batch(0)
        pairs = _pairs(literals.schema)
        return read(_node(*next(pairs), pairs, literals))
    except (LookupError, TypeError, ValueError, RecursionError, pa.ArrowException):
        return otherwise  # a form of another version of pyarrow, or too deep


def _pairs(schema: "pa.Schema") -> Iterator[tuple[str, str]]:
    """Yields the metadata in order, from the text of the schema: keys repeat, and pyarrow's dict loses them."""
    text = schema.to_string(truncate_metadata=False, show_field_metadata=False)
    for line in text.partition("-- schema metadata --\n")[2].split("\n"):
        pair = re.fullmatch(r"(\w+): '(.*)'", line)
        if pair is None:  # a name with a line break
            raise ValueError(line)
        yield pair[1], pair[2]


def _node(kind: str, text: str, pairs: Iterator[tuple[str, str]], literals: "pa.RecordBatch") -> Node:
    if kind == "literal":
        return literals.column(int(text))[0]
    if kind == "field_ref":
        return FieldName(text)
    if kind == "nested_field_ref":
        names = [next(pairs)[1] for _ in range(int(text))]
        return Call(kind, [FieldName(names[0])], None)
    if kind != "call":
        raise ValueError(kind)
    arguments: list[Node] = []
    options = None
    for inner, what in pairs:
        if inner == "end":
            break
        if inner == "options":
            options = literals.column(int(what))[0]
        else:
            arguments.append(_node(inner, what, pairs, literals))
    return Call(text, arguments, options)


def _bounds(node: Node) -> Bounds:
    """Returns the bounds of the rows for which a part of a filter is true: neither false nor null."""
    if isinstance(node, FieldName):
        return ALL_ROWS
    if not isinstance(node, Call):
        return ALL_ROWS if node.as_py() else NO_ROWS
    function, arguments = node.function, node.arguments
    if function in ("and", "and_kleene"):
        return _bounds(arguments[0]) & _bounds(arguments[1])
    if function in ("or", "or_kleene"):
        return _bounds(arguments[0]) | _bounds(arguments[1])
    if function == "if_else":
        return _bounds(arguments[1]) | _bounds(arguments[2])
    if function == "is_in" and isinstance(arguments[0], FieldName):
        values = node.options["value_set"].values
        every = [_compared(arguments[0].name, EQUAL, each) if each.is_valid else ALL_ROWS for each in values]
        return reduce(operator.or_, every, NO_ROWS)
    if function in _SWAPPED and isinstance(arguments[1], FieldName):
        function, arguments = _SWAPPED[function], arguments[::-1]
    if function in _SWAPPED and isinstance(arguments[0], FieldName) and not isinstance(arguments[1], Call | FieldName):
        return _compared(arguments[0].name, function, arguments[1])
    return ALL_ROWS


def _compared(column: str, comparison: str, literal: Any) -> Bounds:
    if not literal.is_valid:
        return NO_ROWS
    found = bounds_of(column, comparison, _value(column, literal))
    return ALL_ROWS if found is None else found


_PER_MS = {"s": (1, 1000), "ms": (1, 1), "us": (1000, 1), "ns": (1_000_000, 1)}
"""Ticks per ms and ms per tick, by the unit of a timestamp."""


def _value(column: str, literal: Any) -> Any:
    """Returns a value for `bounds_of`. None for a type that pyarrow converts before it compares."""
    kind = literal.type
    if column == "timestamp" and pa.types.is_timestamp(kind) and kind.tz is not None:
        ticks, ms = _PER_MS[kind.unit]
        below, rest = divmod(literal.value * ms, ticks)
        return below, below + bool(rest)
    if column in ("offset", "partition") and pa.types.is_integer(kind):
        return literal.as_py()
    if column not in ("topic", "key"):
        return None
    found = literal.as_py()
    if column == "topic":
        return found.decode() if isinstance(found, bytes) else found
    return found.encode() if isinstance(found, str) else found
