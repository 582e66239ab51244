"""The functions that plan changes: ``kseg.recover``, ``reindex``, ``compact``, ``retain``, ``convert``, ``undo``.

All take paths of partitions and log directories and return a `Plan`. ``output``: a directory for the resulting
partitions; the paths are only read then. ``keep``: where removed bytes are kept for ``undo``: True beside the
partitions, False nowhere, or a directory. ``lock``: whether the log directory's lock is taken. ``era``: the release of
Kafka whose rules apply, as "2.8"; None for the newest. ``topics``: names or globs; only their partitions are changed,
none if it is empty, all if it is None. Times are ms, sizes bytes. They raise KsegError if nothing could be planned,
RequestError for invalid arguments, for those that contradict each other, and for the name of a topic that is not
there; a glob that matches no topic is a SelectionWarning.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack, get_type_hints

from kseg.api.archives import places_for_output
from kseg.api.argument_types import checked
from kseg.api.arguments import ISOLATIONS, Path, Paths, is_second, paths_of, words_of
from kseg.api.plans import Plan, Summaries, keeping_of, plan_of, selected
from kseg.changes.driver.planner import ChangeOptions
from kseg.changes.driver.reporter import Reporter
from kseg.changes.driver.run import MakePlanner, Outcome
from kseg.changes.driver.undoing import UndoOptions
from kseg.changes.driver.undoing import undo as undo_paths
from kseg.errors import RequestError
from kseg.releases.recovery import Era, era_of
from kseg.stores.no_follow import resolved

if TYPE_CHECKING:
    from kseg.conversion.options import ConvertOptions


class KeepingArguments(TypedDict, total=False):
    """The arguments ``topics``, ``keep`` and ``lock``."""

    topics: str | Iterable[str] | None
    keep: bool | str | os.PathLike[str]
    lock: bool


class ChangeArguments(KeepingArguments, total=False):
    """The arguments ``era``, ``now`` and ``output``, besides ``topics``, ``keep`` and ``lock``."""

    era: str | None
    now: int | None
    output: Path | None


class ConvertArguments(KeepingArguments, total=False):
    """The argument ``output``, besides ``topics``, ``keep`` and ``lock``."""

    output: Path | None


class CompactArguments(ChangeArguments, total=False):
    """``until_clean``: rounds go on until all keys are cleaned. ``include_active``: the last segment is cleaned too.
    ``force_policy``: topics whose cleanup.policy lacks compact are compacted too.
    """

    until_clean: bool
    include_active: bool
    force_policy: bool


def _check(given: KeepingArguments, known: type) -> None:
    """Raises TypeError for an argument that the function does not have, as Python does."""
    for name in given:
        if name not in get_type_hints(known):
            raise TypeError(f"unexpected keyword argument {name!r}")


def _era(text: str | None) -> Era:
    try:
        return Era() if text is None else era_of(text)
    except ValueError as error:
        raise RequestError(f"era: {error}") from error


def _plan(
    path: Paths,
    command: str,
    make_planner: MakePlanner,
    change: KeepingArguments | ChangeArguments | ConvertArguments,
    summaries: Summaries | None = None,
) -> Plan:
    output: Path | None = change.get("output")  # type: ignore[assignment]
    keeping, lock = keeping_of(change.get("keep", True)), change.get("lock", True)
    options = ChangeOptions(False, lock, keeping, None if output is None else resolved(os.fspath(output)))
    return plan_of(path, command, make_planner, options, _topics(change), summaries)


def _topics(change: KeepingArguments) -> tuple[str, ...] | None:
    topics = change.get("topics")
    return None if topics is None else words_of(topics)


@checked
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
    index_interval_bytes: int | None = None,
    **change: Unpack[ChangeArguments],
) -> Plan:
    """Plans the repair of partitions after a crash or disk damage, as ``kseg recover`` does.

    ``mode``: "broker" gives the result of a broker's start, "salvage" keeps every intact batch. ``from_replica``,
    ``drop_undecodable`` and ``drop_batches`` (offsets) need mode "salvage".
    """
    from kseg.recovery.options import BROKER, SALVAGE, RecoverOptions
    from kseg.recovery.planner import RecoveryPlanner
    from kseg.verification.repairs import recovery_checks

    _check(change, ChangeArguments)
    if mode not in (BROKER, SALVAGE):
        raise RequestError(f"mode={mode!r}: is neither {BROKER} nor {SALVAGE}")
    dropped = frozenset(drop_batches)
    if mode == BROKER and (from_replica is not None or drop_undecodable or dropped):
        raise RequestError(f"from_replica, drop_undecodable and drop_batches need mode={SALVAGE!r}")
    replica = None if from_replica is None else resolved(os.fspath(from_replica))
    options = RecoverOptions(
        mode, replica, drop_undecodable, dropped, full, rebuild_epochs, topic_id, _era(change.get("era")),
        index_interval_bytes, change.get("now"), topics=_topics(change) or (),
    )  # fmt: skip
    return _plan(path, "recover", partial(RecoveryPlanner, options, make_checks=recovery_checks), change)


@checked
def reindex(
    path: Paths,
    *,
    snapshots: bool = False,
    index_interval_bytes: int | None = None,
    **change: Unpack[ChangeArguments],
) -> Plan:
    """Plans new index files, byte for byte as a broker builds them; ``snapshots``: also producer snapshots."""
    from kseg.recovery.options import ReindexOptions
    from kseg.recovery.reindexing import ReindexPlanner

    _check(change, ChangeArguments)
    options = ReindexOptions(snapshots, _era(change.get("era")), index_interval_bytes, topics=_topics(change) or ())
    return _plan(path, "reindex", partial(ReindexPlanner, options), change)


@checked
def compact(
    path: Paths,
    *,
    min_compaction_lag_ms: int | None = None,
    max_compaction_lag_ms: int | None = None,
    delete_retention_ms: int | None = None,
    min_cleanable_ratio: float | None = None,
    segment_bytes: int | None = None,
    memory_bytes: int | None = None,
    **change: Unpack[CompactArguments],
) -> Plan:
    """Plans a compaction as the broker's log cleaner does it. None means the topic's setting, or a broker's default."""
    from kseg.cleaner.options import CompactOptions
    from kseg.cleaner.planner import CompactionPlanner
    from kseg.output.changes.compaction import CompactionPrinter

    _check(change, CompactArguments)
    options = CompactOptions(
        min_compaction_lag_ms, max_compaction_lag_ms, delete_retention_ms, min_cleanable_ratio, segment_bytes,
        memory_bytes=memory_bytes, now_ms=change.get("now"), until_clean=change.get("until_clean", False),
        includes_active=change.get("include_active", False), topics=_topics(change) or (),
        forces_policy=change.get("force_policy", False), era=_era(change.get("era")),
    )  # fmt: skip
    summaries = partial(CompactionPrinter, as_json=True)
    return _plan(path, "compact", partial(CompactionPlanner, options), change, summaries)


@checked
def retain(
    path: Paths,
    *,
    retention_ms: int | None = None,
    retention_bytes: int | None = None,
    log_start_offset: int | None = None,
    policy: str | None = None,
    keep_active: bool = False,
    **change: Unpack[ChangeArguments],
) -> Plan:
    """Plans the deletions of a broker's retention. ``retention_ms`` and ``retention_bytes``: -1 for no limit.

    None means the topic's setting, or a broker's default.
    """
    from kseg.output.changes.retention import retention_printer
    from kseg.retention.planner import RetentionPlanner
    from kseg.retention.settings import RetainOptions

    _check(change, ChangeArguments)
    options = RetainOptions(
        retention_ms, retention_bytes, policy, log_start_offset, _topics(change) or (), change.get("now"), keep_active,
        release=_era(change.get("era")).release,
    )  # fmt: skip
    summaries = partial(retention_printer, "json", "never")
    return _plan(path, "retain", partial(RetentionPlanner, options), change, summaries)


@checked
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
    **change: Unpack[ConvertArguments],
) -> Plan:
    """Plans the conversion of partitions, in place or to new ones below ``output``.

    ``to``: format v0, v1 or v2; ``codec``: as in `writer`. ``batch_bytes`` and ``segment_bytes``: records are regrouped
    to this size. ``lossy``: information that the format cannot represent may be lost; ``skip_damage``: damage is left
    out. None keeps what is there. Segments and archives can only be converted to an output.
    """
    from kseg.conversion.options import FORMATS, ConvertOptions, codec_target

    _check(change, ConvertArguments)
    if to is not None and to not in FORMATS:
        raise RequestError(f"to={to!r}: is none of {', '.join(FORMATS)}")
    try:
        if codec is not None:
            codec_target(codec)
    except ValueError as error:
        raise RequestError(f"codec: {error}") from error
    output, keep = change.get("output"), change.get("keep", True)
    if output is None and to is None and codec is None and batch_bytes is None and segment_bytes is None:
        raise RequestError("convert: give to, codec, batch_bytes, segment_bytes or output")
    options = ConvertOptions(
        to, codec=codec, batch_bytes=batch_bytes, segment_bytes=segment_bytes,
        read_committed=is_second("isolation", isolation, ISOLATIONS), is_lossy=lossy, skips_damage=skip_damage,
        in_place=output is None, interval_bytes=index_interval_bytes, topics=_topics(change) or (),
    )  # fmt: skip
    options.check()
    if output is not None:
        if keep is not True:
            raise RequestError("convert: an output removes nothing that keep could keep")
        return _converted_to(paths_of(path), os.fspath(output), options, _topics(change), change.get("lock", True))
    from kseg.conversion.planner import ConversionPlanner

    return _plan(path, "convert", partial(ConversionPlanner, options), change)


def _converted_to(
    paths: tuple[str, ...], output: str, options: "ConvertOptions", topics: tuple[str, ...] | None, lock: bool
) -> Plan:
    from kseg.conversion.new_partitions import check_output, run_to_new

    check_output(output)

    def run_command(is_dry: bool, reporter: Reporter) -> Outcome:
        with places_for_output(paths, reporter) as places:
            if not (chosen := selected(places, topics, is_dry, takes_files=True)):
                return Outcome(is_dry=is_dry)
            return run_to_new(chosen, output, options, ChangeOptions(is_dry, lock), reporter)

    return Plan("convert", paths, run_command, keeps=False)


@checked
def undo(
    path: Paths,
    *,
    topics: str | Iterable[str] | None = None,
    quarantine: Path | None = None,
    lock: bool = True,
) -> Plan:
    """Plans to undo the last change of partitions or log directories; with ``topics`` that of each such partition.

    ``quarantine``: the directory given as ``keep`` to the change, if the partition has moved since.
    """
    paths, globs = paths_of(path), None if topics is None else words_of(topics)
    kept_in = "" if quarantine is None else resolved(os.fspath(quarantine))
    options = UndoOptions(True, lock, kept_in, globs or ())

    def run_command(is_dry: bool, reporter: Reporter) -> Outcome:
        return undo_paths(selected(paths, globs, is_dry), replace(options, is_dry=is_dry), reporter)

    return Plan("undo", paths, run_command, keeps=False)
