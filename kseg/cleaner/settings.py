"""What a topic and a broker say about cleaning."""

from dataclasses import dataclass

DAY_MS = 86_400_000
FOREVER_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """Names as in a topic's settings; times in ms, sizes in bytes.

    ``memory_bytes``: of the offset map. ``keeps_log_end``: the last batch below the limit stays as a header where its
    records go (4.1 and later). ``keeps_format``: messages v0 and v1 are not turned into v2 batches (up to 3.9).
    ``drops_null_keys``: records without a key may go. ``jobs``: threads.
    ``has_horizons``: tombstones and markers get a time at which they may go (KIP-534, 3.1 and later); else the file's
    time decides. ``heeds_high_watermark``: as the last stable offset does, not only open transactions (3.1 and later).
    """

    now_ms: int
    min_lag_ms: int = 0
    max_lag_ms: int = FOREVER_MS
    delete_retention_ms: int = DAY_MS
    min_ratio: float = 0.5
    segment_bytes: int = 1 << 30
    index_bytes: int = 10 << 20
    interval_bytes: int = 4096
    memory_bytes: int = 128 << 20
    producer_expiration_ms: int = DAY_MS
    keeps_log_end: bool = True
    keeps_format: bool = False
    includes_active: bool = False
    drops_null_keys: bool = False
    until_clean: bool = False
    jobs: int = 1
    has_horizons: bool = True
    heeds_high_watermark: bool = True
