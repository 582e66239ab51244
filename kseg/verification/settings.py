"""The settings of a verification."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kseg.limits import MAX_BATCH_BYTES
from kseg.logdir.log_directory import BrokerState
from kseg.logdir.server_properties import ServerProperties
from kseg.stores.buffers import Buffers
from kseg.stores.remote.keys import RemoteChoice
from kseg.verification.partition import Partition
from kseg.verification.report import Report

Advance = Callable[[int], None]
"""Receives numbers of bytes read."""


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """``level``: QUICK, FULL or DEEP of `kseg.segment.survey`; ``now_ms``: the current time, in ms since the epoch;
    ``is_07``: files are read as 0.7; ``server``: the broker's own settings; ``takes_census``: `Totals` gets
    ``partitions``.
    """

    level: int
    now_ms: int
    jobs: int = 1
    max_batch_bytes: int = MAX_BATCH_BYTES
    is_live: bool = False
    is_07: bool = False
    remote: RemoteChoice = field(default_factory=RemoteChoice)
    server: ServerProperties | None = None
    takes_census: bool = False


def partition_to_check(
    directory: str | None, name: "tuple[str | None, int | None]", is_whole: bool, settings: CheckSettings,
    report: Report, broker: BrokerState, buffers: Buffers | None = None, names: frozenset[str] | None = None,
) -> Partition:  # fmt: skip
    """Returns the context of the rules. ``name``: topic and number; ``names``: the regular files in the directory."""
    return Partition(
        directory, *name, is_whole, settings.level, settings.now_ms, report, broker,
        buffers or Buffers(settings.max_batch_bytes), settings.jobs, settings.is_live, names,
    )  # fmt: skip
