"""Determines the cleaner settings: options first, then the topic's settings, then Kafka's defaults."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from kseg.cleaner.settings import FOREVER_MS, CleanerSettings
from kseg.errors import UnsupportedError

TOPIC_NAMES = {
    "min_lag_ms": "min.compaction.lag.ms",
    "max_lag_ms": "max.compaction.lag.ms",
    "delete_retention_ms": "delete.retention.ms",
    "min_ratio": "min.cleanable.dirty.ratio",
    "segment_bytes": "segment.bytes",
    "index_bytes": "segment.index.bytes",
    "interval_bytes": "index.interval.bytes",
}
_INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"


def settings_for(
    base: CleanerSettings, asked: Mapping[str, float | None], lookup: Callable[[str], str | None]
) -> CleanerSettings:
    """``asked``: settings from options by field name, None if not given; ``lookup`` returns a topic's setting.

    Raises UnsupportedError for a setting that is not a number.
    """
    kinds = {field.name: float if field.name == "min_ratio" else int for field in fields(CleanerSettings)}
    found: dict[str, Any] = {}
    for name, topic_name in TOPIC_NAMES.items():
        if (given := asked.get(name)) is not None:
            found[name] = given
            continue
        text = lookup(topic_name)
        if name == "segment_bytes":
            text = lookup(_INTERNAL_SEGMENT_BYTES) or text
        if text is not None:
            try:
                found[name] = kinds[name](text)
            except ValueError as error:
                raise UnsupportedError(f"{topic_name} is {text!r}, not a number") from error
    chosen = replace(base, **found)
    # A delete horizon beyond int64 would wrap around into the past.
    longest_ms = FOREVER_MS - max(base.now_ms, 0)
    return replace(chosen, delete_retention_ms=min(chosen.delete_retention_ms, longest_ms))
