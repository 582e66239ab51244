"""Cleans a partition as `kseg compact` does, without the command line."""

from pathlib import Path

from kseg.changes.apply import Keeping, apply
from kseg.changes.quarantine import staging
from kseg.cleaner.planner import Compaction, Compactor, RoundMaker
from kseg.cleaner.rounds import Round
from kseg.cleaner.settings import CleanerSettings
from kseg.node.log_directory import BrokerState

NOW, RETENTION = 2_000_000_000, 1000


def clean(
    partition: Path, checkpoint: int | None = None, rounds: RoundMaker = Round, each: bool = False, **changed: object
) -> Compaction:
    chosen: dict[str, object] = {
        "min_ratio": 0.0,
        "includes_active": True,
        "delete_retention_ms": RETENTION,
        "segment_bytes": 1 << 20,
    }
    chosen |= {"now_ms": NOW, "memory_bytes": 1 << 16, **changed}
    given_settings = CleanerSettings(**chosen)  # type: ignore[arg-type]
    with staging(str(partition)) as stage:
        compactor = Compactor(
            str(partition), BrokerState(cleaner_offset=checkpoint), given_settings, stage, each, rounds=rounds
        )
        for plan in compactor.plans():
            apply(plan, "compact", Keeping(keeps=False))
    return compactor.result
