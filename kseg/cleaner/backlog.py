"""Determines the backlog of the log cleaner in a partition, and why the partition is not cleaned
(LogCleanerManager)."""

from dataclasses import dataclass
from typing import Any

from kseg.cleaner.active_producers import Producers, read_producers
from kseg.cleaner.log import read_segments
from kseg.cleaner.ranges import ACTIVE, DAMAGE, Checkpoints, Stop, cleanable_range, log_limits
from kseg.cleaner.reading import DamagedError
from kseg.cleaner.settings import CleanerSettings
from kseg.cleaner.topic_settings import settings_for
from kseg.errors import KsegError, text_of
from kseg.logdir.log_directory import BrokerState
from kseg.stores.buffers import Buffers

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Backlog:
    """``ratio``: the dirty share of the bytes that a round would read; ``is_due``: whether a round would begin now.

    ``stops``: the reasons why the partition, or its last part, is not cleaned. The first four fields are None if the
    log cannot be read.
    """

    clean_bytes: int | None
    dirty_bytes: int | None
    ratio: float | None
    is_due: bool | None
    stops: tuple[Stop, ...] = ()

    @property
    def short(self) -> str:
        """A short text for a table."""
        waits = [stop.short for stop in self.stops if stop.code != ACTIVE]
        if self.is_due:
            waits.insert(0, f"due, dirty {self.ratio:.0%}")
        if not waits:
            waits = [stop.short for stop in self.stops] or ["clean"]
        return "; ".join(waits)

    def as_object(self) -> dict[str, Any]:
        """Returns the backlog as JSON."""
        return {
            "state": self.short,
            "cleanBytes": self.clean_bytes,
            "dirtyBytes": self.dirty_bytes,
            "dirtyRatio": None if self.ratio is None else round(self.ratio, 4),
            "isDue": self.is_due,
            "waitsFor": [{"code": stop.code, "message": stop.text} for stop in self.stops],
        }


def backlog_of(
    directory: str, broker: BrokerState, now_ms: int, damaged: str = "", producers: Producers | None = None
) -> Backlog | None:
    """Returns None unless the partition is known to be compacted.

    ``damaged``: the damage that stops the cleaner, "" if none is known; ``producers``: their state at the end of the
    log, if known.
    """
    if not broker.is_compacted and broker.cleaner_offset is None:
        return None
    try:
        segments = read_segments(directory)
        if not segments:
            return Backlog(0, 0, 0.0, False)
        settings = settings_for(CleanerSettings(now_ms), {}, (broker.cleaner_settings or {}).get)
        expiration_ms = settings.producer_expiration_ms
        producers = producers or read_producers(directory, segments, now_ms, expiration_ms, Buffers())
        known = Checkpoints(broker.cleaner_offset, broker.log_start_offset, broker.high_watermark)
        limits = log_limits(known, segments[0].base_offset, producers, settings.heeds_high_watermark)
        found = cleanable_range(segments, known.cleaner, limits, settings)
    except DamagedError as error:
        return _unreadable(Stop(DAMAGE, "damaged", str(error)))
    except (KsegError, OSError) as error:
        return _unreadable(Stop(UNKNOWN, UNKNOWN, text_of(error)))
    if damaged:
        stop = Stop(DAMAGE, f"uncleanable: {damaged}", f"brokers give up cleaning this partition: {damaged}")
        return Backlog(found.clean_bytes, found.dirty_bytes, found.ratio, False, (stop,))
    return Backlog(found.clean_bytes, found.dirty_bytes, found.ratio, found.is_due, tuple(found.stops))


def _unreadable(stop: Stop) -> Backlog:
    return Backlog(None, None, None, None, (stop,))
