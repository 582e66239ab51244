"""The settings of log cleaning: options first, then the topic's settings, then Kafka's defaults."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from kseg.errors import UnsupportedError
from kseg.logdir.server_properties import ServerProperties
from kseg.options import values
from kseg.options.declaration import RESOURCES, RULES, Number, option
from kseg.options.values import BYTES, MS
from kseg.releases.recovery import Era
from kseg.releases.release import HIGH_WATERMARK
from kseg.segment.times import DAY_MS, show_span
from kseg.segment.writer import DEFAULT_INDEX_BYTES, DEFAULT_INTERVAL_BYTES, DEFAULT_SEGMENT_BYTES

FOREVER_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """Times in ms, sizes in bytes; `kseg.cleaner.settings` has the names of these settings for a topic.

    ``memory_bytes``: size limit of the offset map. ``kept_end``: a constant of `kseg.releases.release`.
    ``keeps_format``: v0 and v1 messages are not converted to v2 batches (up to 3.9). ``drops_null_keys``: records
    without a key are removed. ``jobs``: number of threads. ``has_horizons``: tombstones and markers get a delete
    horizon (KIP-534, 3.1 and later); otherwise the file's modification time decides. ``heeds_high_watermark``: cleaning
    stops at the last stable offset, which the high watermark bounds, and not only at open transactions (3.1 and later).
    ``record_limit_bytes``: a larger record in a compressed batch ends the cleaning; None for no limit.
    """

    now_ms: int
    min_lag_ms: int = 0
    max_lag_ms: int = FOREVER_MS
    delete_retention_ms: int = DAY_MS
    min_ratio: float = 0.5
    segment_bytes: int = DEFAULT_SEGMENT_BYTES
    index_bytes: int = DEFAULT_INDEX_BYTES
    interval_bytes: int = DEFAULT_INTERVAL_BYTES
    memory_bytes: int = 128 << 20
    producer_expiration_ms: int = DAY_MS
    kept_end: int = HIGH_WATERMARK
    keeps_format: bool = False
    includes_active: bool = False
    drops_null_keys: bool = False
    until_clean: bool = False
    jobs: int = 1
    has_horizons: bool = True
    heeds_high_watermark: bool = True
    record_limit_bytes: int | None = None


# The available memory of the machine and of the process's control group.

_CGROUP_2 = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")
_CGROUP_1 = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes")
_MIN_BYTES = 16 << 20


def default_memory_bytes() -> int:
    """Returns a quarter of the available memory, at least 16 MiB."""
    return max(available_bytes() // 4, _MIN_BYTES)


def available_bytes() -> int:
    """Returns the bytes that can be allocated without swapping, within the control group's limit."""
    found = [free for free in (_of_machine(), _of_group(*_CGROUP_2), _of_group(*_CGROUP_1)) if free is not None]
    return max(min(found, default=0), 0)


def _of_machine() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            for line in stream:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass  # not Linux: half of the memory is a good enough estimate
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return None


def _of_group(limit_path: str, usage_path: str) -> int | None:
    try:
        with open(limit_path, encoding="ascii") as limit, open(usage_path, encoding="ascii") as usage:
            return int(limit.read()) - int(usage.read())
    except (OSError, ValueError):
        return None  # no such control group, or no limit ("max")


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """The options of `kseg compact`; times in ms, sizes in bytes, None for an option that is not given.

    The first seven replace settings of topics. ``memory_bytes``: size of the offset map; ``forces_policy``: topics
    without compact in their cleanup.policy are compacted as well; ``era``: the release of Kafka whose rules apply.
    """

    min_lag_ms: int | None = option("--min-compaction-lag-ms", RULES, "Keep records younger than this.", MS)
    max_lag_ms: int | None = option(
        "--max-compaction-lag-ms", RULES, "Clean dirty records older than this, whatever the ratio.", MS
    )
    delete_retention_ms: int | None = option(
        "--delete-retention-ms", RULES, "Keep tombstones and markers for this time after their first cleaning.", MS
    )
    min_ratio: float | None = option(
        "--min-cleanable-ratio", RULES, "Clean a log only if more than this part of it is dirty; default 0.5.",
        Number(0, 1, is_real=True), metavar="RATIO",
    )  # fmt: skip
    segment_bytes: int | None = option("--segment-bytes", RULES, "Merge segments up to this size.", BYTES)
    index_bytes: int | None = option("--max-index-bytes", RULES, "Merge segments up to this size of an index.", BYTES)
    interval_bytes: int | None = values.index_interval()
    memory_bytes: int | None = option(
        "--memory",
        RESOURCES,
        "Size of the key map; default: a quarter of the available memory.",
        BYTES,
        in_python="memory_bytes",
    )
    now_ms: int | None = values.now()
    until_clean: bool = option(
        "--until-clean", RULES, "Clean in several rounds if the key map is too small for all keys.", bool
    )
    includes_active: bool = option("--include-active", RULES, "Clean the last segment too.", bool)
    keeps_format: bool = option("--keep-format", RULES, "Keep messages v0 and v1; default: convert them to v2.", bool)
    drops_null_keys: bool = option(
        "--drop-null-keys", RULES, "Delete records without a key; default: refuse such a log.", bool
    )
    forces_policy: bool = option(
        "--force-policy", RULES, "Also compact topics whose cleanup.policy lacks compact.", bool
    )
    jobs: int | None = values.jobs()
    topics: tuple[str, ...] = values.topics()
    server: ServerProperties | None = values.server()
    era: Era = values.era("2.3")


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
