"""The topic and broker settings that log cleaning uses."""

from dataclasses import dataclass

from kseg.releases.release import HIGH_WATERMARK
from kseg.segment.times import DAY_MS
from kseg.segment.writer import DEFAULT_INDEX_BYTES, DEFAULT_INTERVAL_BYTES, DEFAULT_SEGMENT_BYTES

FOREVER_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """Times in ms, sizes in bytes; `kseg.cleaner.topic_settings` has the names of these settings for a topic.

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
