"""The functions that plan changes: ``kseg.recover``, ``reindex``, ``compact``, ``retain``, ``convert``, ``undo``.

All take paths of partitions and log directories and return a `Plan`. ``output``: a directory for the resulting
partitions; the paths are only read then. ``keep``: where removed bytes are kept for ``undo``: True beside the
partitions, False nowhere, or a directory. ``lock``: whether the log directory's lock is taken. ``era``: the release of
Kafka whose rules apply, as "2.8"; None for the newest. Times are ms, sizes bytes. They raise KsegError if nothing could
be planned, RequestError for arguments that contradict each other.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from kseg.api.arguments import Path, Paths, paths_of, words_of
from kseg.api.plans import Plan, plan_of
from kseg.changes.driver.reporter import Reporter
from kseg.changes.driver.run import Outcome
from kseg.changes.driver.undoing import UndoOptions
from kseg.changes.driver.undoing import undo as undo_paths
from kseg.errors import RequestError
from kseg.releases.recovery import Era, era_of
from kseg.stores.no_follow import resolved

Keep = bool | str | os.PathLike[str]


def _era(text: str | None) -> Era:
    try:
        return Era() if text is None else era_of(text)
    except ValueError as error:
        raise RequestError(f"era: {error}") from error


def recover(
    path: Paths,
    *,
    mode: str = "broker",
    from_replica: Path | None = None,
    drop_undecodable: bool = False,
    drop_batches: Iterable[int] = (),
    full: bool = False,
    rebuild_epochs: bool = False,
    topic_id: str | None = None,
    era: str | None = None,
    index_interval_bytes: int | None = None,
    now: int | None = None,
    output: Path | None = None,
    keep: Keep = True,
    lock: bool = True,
) -> Plan:
    """Plans the repair of partitions after a crash or disk damage, as ``kseg recover`` does.

    ``mode``: "broker" leaves what a broker's start leaves, "salvage" keeps every intact batch. ``from_replica``,
    ``drop_undecodable`` and ``drop_batches`` (offsets) need mode "salvage".
    """
    from kseg.recovery.options import BROKER, SALVAGE, RecoverOptions
    from kseg.recovery.planner import RecoveryPlanner

    if mode not in (BROKER, SALVAGE):
        raise RequestError(f"mode={mode!r}: is neither {BROKER} nor {SALVAGE}")
    dropped = frozenset(drop_batches)
    if mode == BROKER and (from_replica is not None or drop_undecodable or dropped):
        raise RequestError(f"from_replica, drop_undecodable and drop_batches need mode={SALVAGE!r}")
    replica = None if from_replica is None else resolved(os.fspath(from_replica))
    options = RecoverOptions(
        mode, replica, drop_undecodable, dropped, full, rebuild_epochs, topic_id, _era(era), index_interval_bytes, now
    )
    return plan_of(path, "recover", partial(RecoveryPlanner, options), output, keep, lock)


def reindex(
    path: Paths,
    *,
    snapshots: bool = False,
    era: str | None = None,
    index_interval_bytes: int | None = None,
    output: Path | None = None,
    keep: Keep = True,
    lock: bool = True,
) -> Plan:
    """Plans new index files from the .log, byte for byte as a broker builds them; ``snapshots``: of producers too."""
    from kseg.recovery.options import ReindexOptions
    from kseg.recovery.reindex_planner import ReindexPlanner

    options = ReindexOptions(snapshots, _era(era), index_interval_bytes)
    return plan_of(path, "reindex", partial(ReindexPlanner, options), output, keep, lock)


def compact(
    path: Paths,
    *,
    min_compaction_lag_ms: int | None = None,
    max_compaction_lag_ms: int | None = None,
    delete_retention_ms: int | None = None,
    min_cleanable_ratio: float | None = None,
    segment_bytes: int | None = None,
    memory_bytes: int | None = None,
    now: int | None = None,
    until_clean: bool = False,
    include_active: bool = False,
    topics: str | Iterable[str] | None = None,
    force_policy: bool = False,
    era: str | None = None,
    output: Path | None = None,
    keep: Keep = True,
    lock: bool = True,
) -> Plan:
    """Plans what the broker's log cleaner would do. Settings that are None are the topic's own, or a broker's."""
    from kseg.cleaner.options import CompactOptions
    from kseg.cleaner.planner import CompactionPlanner
    from kseg.output.changes.compaction import CompactionPrinter

    options = CompactOptions(
        min_compaction_lag_ms, max_compaction_lag_ms, delete_retention_ms, min_cleanable_ratio, segment_bytes,
        memory_bytes=memory_bytes, now_ms=now, until_clean=until_clean, includes_active=include_active,
        topics=words_of(topics), forces_policy=force_policy, era=_era(era),
    )  # fmt: skip
    summaries = partial(CompactionPrinter, as_json=True)
    return plan_of(path, "compact", partial(CompactionPlanner, options), output, keep, lock, summaries)


def retain(
    path: Paths,
    *,
    retention_ms: int | None = None,
    retention_bytes: int | None = None,
    log_start_offset: int | None = None,
    policy: str | None = None,
    topics: str | Iterable[str] | None = None,
    now: int | None = None,
    keep_active: bool = False,
    era: str | None = None,
    output: Path | None = None,
    keep: Keep = True,
    lock: bool = True,
) -> Plan:
    """Plans what a broker's retention would delete. ``retention_ms`` and ``retention_bytes``: -1 for no limit.

    Settings that are None are the topic's own, or a broker's.
    """
    from kseg.output.changes.retention import retention_printer
    from kseg.retention.options import RetainOptions
    from kseg.retention.planner import RetentionPlanner

    options = RetainOptions(
        retention_ms, retention_bytes, policy, log_start_offset, words_of(topics), now, keep_active,
        release=_era(era).release,
    )  # fmt: skip
    summaries = partial(retention_printer, "json", "never")
    return plan_of(path, "retain", partial(RetentionPlanner, options), output, keep, lock, summaries)


def convert(
    path: Paths,
    *,
    to: str | None = None,
    codec: str | None = None,
    batch_bytes: int | None = None,
    segment_bytes: int | None = None,
    isolation: str = "read_uncommitted",
    lossy: bool = False,
    skip_damage: bool = False,
    index_interval_bytes: int | None = None,
    keep: Keep = True,
    lock: bool = True,
) -> Plan:
    """Plans the conversion of partitions in place. ``to``: format v0, v1 or v2; ``codec``: as in `writer`.

    ``batch_bytes`` and ``segment_bytes``: records are regrouped to this size. ``lossy``: information that the format
    cannot represent may be lost; ``skip_damage``: damage is left out. None keeps what is there.
    """
    from kseg.api.arguments import ISOLATIONS, is_second
    from kseg.conversion.options import FORMATS, ConvertOptions, target_of
    from kseg.conversion.planner import ConversionPlanner

    if to is not None and to not in FORMATS:
        raise RequestError(f"to={to!r}: is none of {', '.join(FORMATS)}")
    try:
        if codec is not None:
            target_of(codec)
    except ValueError as error:
        raise RequestError(f"codec: {error}") from error
    if to is None and codec is None and batch_bytes is None and segment_bytes is None:
        raise RequestError("convert: give to, codec, batch_bytes or segment_bytes")
    options = ConvertOptions(
        to, codec=codec, batch_bytes=batch_bytes, segment_bytes=segment_bytes,
        read_committed=is_second("isolation", isolation, ISOLATIONS), is_lossy=lossy, skips_damage=skip_damage,
        in_place=True, interval_bytes=index_interval_bytes,
    )  # fmt: skip
    return plan_of(path, "convert", partial(ConversionPlanner, options), None, keep, lock)


def undo(path: Paths, *, quarantine: Path | None = None, lock: bool = True) -> Plan:
    """Plans to put the last change of partitions or log directories back.

    ``quarantine``: the directory that was given as ``keep``, if the partition has moved since.
    """
    paths = paths_of(path)
    options = UndoOptions(True, lock, "" if quarantine is None else resolved(os.fspath(quarantine)))

    def run_command(is_dry: bool, reporter: Reporter) -> Outcome:
        return undo_paths(paths, replace(options, is_dry=is_dry), reporter)

    return Plan("undo", run_command, keeps=False)
