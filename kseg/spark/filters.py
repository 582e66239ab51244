"""Pushed-down filters: those that a reader applies exactly, so that Spark need not evaluate them again."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from kseg.segment.files import SegmentFile
from kseg.spark.options import Options

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - as Spark's own
_MICROSECOND, _MILLISECOND = timedelta(microseconds=1), 1000
_LAST_MS = ((1 << 63) - 1) // _MILLISECOND
"""Later timestamps overflow a DataFrame's microseconds and are null, so no comparison is true for them."""


@dataclass(frozen=True, slots=True)
class WantedPartitions:
    """Requested topics and partitions; None: all. Files without a topic are in no set."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None

    def keep(self, file: SegmentFile) -> bool:
        """Whether a file is in a requested topic and partition."""
        return (self.topics is None or file.topic in self.topics) and (
            self.partitions is None or file.partition in self.partitions
        )


@dataclass(slots=True)
class Narrowed:
    """The options of a read after `take`."""

    options: Options
    partitions: WantedPartitions = field(default_factory=WantedPartitions)

    def take(self, filters: Iterable[Filter]) -> list[Filter]:
        """Applies each filter that can be applied exactly. Returns the others."""
        return [each for each in filters if not self._take(each)]

    def _take(self, each: Filter) -> bool:
        column = getattr(each, "attribute", None)
        if isinstance(each, IsNotNull):
            return column == ("offset",)
        value: Any = getattr(each, "value", None)
        if column == ("offset",):
            return isinstance(value, int) and self._narrow("offset", each, value, value)
        if column == ("timestamp",) and isinstance(value, datetime):
            micros = (value if value.tzinfo else value.astimezone()) - _EPOCH
            below, rest = divmod(micros // _MICROSECOND, _MILLISECOND)
            return self._narrow("timestamp", each, below, below + bool(rest))
        if column in (("topic",), ("partition",)) and isinstance(each, EqualTo | In):
            values = frozenset(each.value if isinstance(each, In) else (value,))
            name = "topics" if column == ("topic",) else "partitions"
            before = getattr(self.partitions, name)
            self.partitions = replace(self.partitions, **{name: values if before is None else before & values})
            return True
        return False

    def _narrow(self, column: str, each: Filter, floor: int, ceiling: int) -> bool:
        """Applies a comparison with a value between the integers ``floor`` and ``ceiling``, which are equal for an
        integer.
        """
        first: int | None = None
        last: int | None = None
        if isinstance(each, EqualTo):
            first, last = ceiling, floor
        elif isinstance(each, GreaterThan):
            first = floor + 1
        elif isinstance(each, GreaterThanOrEqual):
            first = ceiling
        elif isinstance(each, LessThan):
            last = ceiling - 1
        elif isinstance(each, LessThanOrEqual):
            last = floor
        else:
            return False
        options = self.options
        if column == "offset":
            low, high = options.first_offset, options.last_offset
            self.options = replace(
                options, first_offset=low if first is None else max(low, first),
                last_offset=high if last is None else min(high, last),
            )  # fmt: skip
        else:
            low, high = max(options.earliest_ms, -_LAST_MS), min(options.latest_ms, _LAST_MS)
            self.options = replace(
                options, earliest_ms=low if first is None else max(low, first),
                latest_ms=high if last is None else min(high, last),
            )  # fmt: skip
        return True
