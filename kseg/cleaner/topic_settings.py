"""Determines the cleaner settings: options first, then the topic's settings, then Kafka's defaults."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from kseg.cleaner.settings import FOREVER_MS, CleanerSettings
from kseg.errors import UnsupportedError
from kseg.logdir.server_properties import ServerProperties
from kseg.segment.times import show_span

TOPIC_NAMES = {
    "min_lag_ms": "min.compaction.lag.ms",
    "max_lag_ms": "max.compaction.lag.ms",
    "delete_retention_ms": "delete.retention.ms",
    "min_ratio": "min.cleanable.dirty.ratio",
    "segment_bytes": "segment.bytes",
    "index_bytes": "segment.index.bytes",
    "interval_bytes": "index.interval.bytes",
}
RECORD_LIMIT = "max.decompressed.message.bytes"
_INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"


def settings_for(
    base: CleanerSettings,
    asked: Mapping[str, float | None],
    lookup: Callable[[str], str | None],
    limits_records: bool = False,
) -> CleanerSettings:
    """Returns ``base`` with the settings of a topic.

    ``asked``: settings from options by field name, None if not given; ``lookup`` returns a topic's setting;
    ``limits_records``: see `CleanerRules`. Raises UnsupportedError for a setting that is not a number.
    """
    kinds = {field.name: float if field.name == "min_ratio" else int for field in fields(CleanerSettings)}
    found: dict[str, Any] = {}
    names = TOPIC_NAMES | ({"record_limit_bytes": RECORD_LIMIT} if limits_records else {})
    for name, topic_name in names.items():
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


def shown_settings(
    settings: CleanerSettings,
    asked: Mapping[str, float | None],
    lookup: Callable[[str], str | None],
    server: ServerProperties | None,
) -> str:
    """Returns the settings of a partition as text, each with its source. The index interval is reported elsewhere."""
    parts = []
    for name, topic_name in TOPIC_NAMES.items():
        if name == "interval_bytes":
            continue
        if asked.get(name) is not None:
            source = "by option"
        elif lookup(topic_name) is not None or (name == "segment_bytes" and lookup(_INTERNAL_SEGMENT_BYTES)):
            source = "the topic's"
        elif server is not None and server.setting(topic_name) is not None:
            source = "by the broker's file"
        else:
            source = "Kafka's default"
        parts.append(f"{topic_name} {_shown(name, getattr(settings, name))} ({source})")
    return ", ".join(parts)


def _shown(name: str, value: float) -> str:
    if not name.endswith("_ms") or not value:
        return str(value)
    return "unlimited" if value >= FOREVER_MS // 2 else f"{value} = {show_span(int(value))}"
