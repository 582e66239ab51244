"""The settings of log cleaning: options first, then the topic's settings, then Kafka's defaults."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from kseg.errors import UnsupportedError
from kseg.node.server_properties import SERVER, TOPIC, ServerProperties
from kseg.options import declaration
from kseg.options.declaration import BYTES, MS, RESOURCES, RULES, Number, option
from kseg.quantities import DAY_MS, show_span
from kseg.releases.release import HIGH_WATERMARK, Era
from kseg.segment.writer import DEFAULT_INDEX_BYTES, DEFAULT_INTERVAL_BYTES, DEFAULT_SEGMENT_BYTES
from kseg.sidefiles.text_files import integer_setting

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
    """Returns a quarter of the memory that can be allocated without swapping, within the control group's limit; at
    least 16 MiB."""
    found = list[int]()
    with suppress(OSError, ValueError, IndexError), open("/proc/meminfo", encoding="ascii") as stream:
        found += [int(line.split()[1]) << 10 for line in stream if line.startswith("MemAvailable:")]
    if not found:  # not Linux: half of the memory is a good enough estimate
        with suppress(ValueError, OSError, AttributeError):
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    for limit_path, usage_path in (_CGROUP_2, _CGROUP_1):
        with suppress(OSError, ValueError):  # no such control group, or no limit ("max")
            with open(limit_path, encoding="ascii") as limit, open(usage_path, encoding="ascii") as usage:
                found.append(int(limit.read()) - int(usage.read()))
    return max(min(found, default=0) // 4, _MIN_BYTES)


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
    interval_bytes: int | None = declaration.index_interval()
    memory_bytes: int | None = option(
        "--memory", RESOURCES, "Size of the key map; default: a quarter of the available memory.", BYTES,
        in_python="memory_bytes",
    )  # fmt: skip
    now_ms: int | None = declaration.now()
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
    jobs: int | None = declaration.jobs()
    topics: tuple[str, ...] = declaration.topics()
    server: ServerProperties | None = declaration.server()
    era: Era = declaration.era("2.3")


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
    setting_of: Callable[[str], tuple[str | None, str]],
    limits_records: bool = False,
) -> tuple[CleanerSettings, str]:
    """Returns ``base`` with the settings of a topic, and the settings as text, each with its source; the index interval
    is reported elsewhere.

    ``asked``: settings from options by field name, None if not given; ``setting_of`` is
    `Partition.setting_and_source`; ``limits_records``: see `CleanerRules`. Raises UnsupportedError for a setting that
    is not a number.
    """
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    names = TOPIC_NAMES | ({"record_limit_bytes": RECORD_LIMIT} if limits_records else {})
    for name, topic_name in names.items():
        if (given := asked.get(name)) is not None:
            found[name], sources[name] = given, "by option"
            continue
        text, source = setting_of(topic_name)
        if name == "segment_bytes" and (internal := setting_of(_INTERNAL_SEGMENT_BYTES)[0]):
            text, source = internal, TOPIC
        sources[name] = {TOPIC: "the topic's", SERVER: "by the broker's file"}.get(source, "Kafka's default")
        if text is None:
            continue
        if (number := _number(name, text)) is None:
            raise UnsupportedError(f"{topic_name} is {text!r}, not a number")
        found[name] = number
    chosen = replace(base, **found)
    # A delete horizon beyond int64 would wrap around into the past.
    longest_ms = FOREVER_MS - max(base.now_ms, 0)
    chosen = replace(chosen, delete_retention_ms=min(chosen.delete_retention_ms, longest_ms))
    shown = []
    for name, topic_name in TOPIC_NAMES.items():
        value = getattr(chosen, name)
        text = str(value)
        if name.endswith("_ms") and value:
            text = "unlimited" if value >= FOREVER_MS // 2 else f"{value} = {show_span(int(value))}"
        if name != "interval_bytes":
            shown.append(f"{topic_name} {text} ({sources[name]})")
    return chosen, ", ".join(shown)


def _number(name: str, text: str) -> float | None:
    """Returns the number of a setting by field name; None if it is none."""
    if name != "min_ratio":
        return integer_setting(text, 64 if name.endswith("_ms") else 32)
    try:
        return float(text)
    except ValueError:
        return None
