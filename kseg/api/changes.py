"""The functions that plan changes: ``kseg.recover``, ``restore``, ``carve``, ``quorum``, ``reindex`` and others.

All take paths of partitions and log directories and return a `Plan`. ``output``: a directory for the resulting
partitions; the paths are only read then. ``keep``: where removed bytes are kept for ``undo``: True beside the
partitions, False nowhere, or a directory. ``lock``: whether the log directory's lock is taken. ``era``: the release of
Kafka whose rules apply, as "2.8"; None for the newest. ``topics``: names or globs; only their partitions are changed,
none if it is empty, all if it is None. Times are ms, sizes bytes. They raise KsegError if nothing could be planned,
RequestError for invalid arguments, for those that contradict each other, and for the name of a topic that is not
there; a glob that matches no topic is a SelectionWarning.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypedDict, Unpack

from kseg.api import arguments
from kseg.api.archives import places_for_output, readable
from kseg.api.arguments import Isolation, Keys, Path, Paths, Range, TimeRange, checked, paths_of, words_of
from kseg.changes.apply import Keeping
from kseg.changes.driver import command as driver
from kseg.changes.driver.undoing import UndoOptions
from kseg.changes.driver.undoing import undo as undo_paths
from kseg.errors import KsegError, RequestError, StoppedHalfwayError, refuse_if
from kseg.export.arrow import need_pyarrow
from kseg.formats.compressing import Codec
from kseg.limits import MAX_BATCH_BYTES
from kseg.node.topics import check_topics, is_of_topics, of_topics
from kseg.options.declaration import filled
from kseg.output.changes import recorded_json
from kseg.output.sink import open_sink
from kseg.stores.no_follow import resolved
from kseg.stores.place import Place
from kseg.stores.stored_object import is_url

if TYPE_CHECKING:
    from kseg.conversion.options import ConvertOptions
    from kseg.node.node import Nodes
    from kseg.recovery.planner import Checks


# Plans of changes.
#
# A plan changes nothing before `Plan.apply`. The driver of the commands makes and applies it.

Run = Callable[[bool, driver.Reporter], driver.Outcome]
"""Runs a command: dry or not, reporting to a reporter."""


class Action(NamedTuple):
    """One operation on a file. ``action``: truncate, replace, create, delete, rename or extend.

    ``size``: of the file afterwards, in bytes; None if it is deleted. ``target``: its new path if it is renamed.
    ``removed_bytes``: bytes that the directory loses, without those that new content of the file replaces.

    >>> [(action.action, action.reason) for action in kseg.recover("crashed-0", mode="salvage").actions][1]
    ('replace', 'damaged ranges are cut out')
    """

    action: str
    file: str
    reason: str
    size: int | None
    target: str | None
    removed_bytes: int


class Lost(NamedTuple):
    """Bytes that a change removes from a file. Offsets and the number of records are None if they are unknown.

    >>> [(lost.position, lost.length) for lost in kseg.recover("crashed-0", mode="salvage").lost]
    [(7129, 305)]
    """

    file: str
    position: int
    length: int
    reason: str
    first_offset: int | None
    last_offset: int | None
    records: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of `Plan.apply`.

    ``changed``: whether any file was changed. ``kept``: the folders that keep removed bytes for ``undo``.
    ``damage_remains``: damage was found that the command does not repair. ``errors``: the partitions that failed while
    others succeeded. ``warnings``: messages for users.

    >>> result = kseg.convert("orders-0", codec="lz4", output="lz4").apply()
    >>> result.changed, result.errors
    (True, {})
    """

    changed: bool
    kept: tuple[str, ...]
    damage_remains: bool
    errors: dict[str, KsegError]
    warnings: tuple[str, ...]


class Plan:
    """The plan of a change. It is true if there is something to do; nothing has been changed yet.

    ``damage_remains``, ``errors`` and ``warnings`` are those of `Result`.

    >>> plan = kseg.recover("crashed-0", mode="salvage")
    >>> plan
    <Plan recover: actions: 5, directories: 1, removed bytes: 305>
    >>> if plan:
    ...     result = plan.apply()
    """

    def __init__(self, command: str, paths: Sequence[str], run_command: Run, keeps: bool) -> None:
        self._command, self._paths, self._run, self._keeps = command, paths, run_command, keeps
        self._recording = driver.Recording()
        self._outcome = run_command(True, self._recording)
        if self._outcome.errors and not any(self._recording.plans):
            raise next(iter(self._outcome.errors.values()))
        self.damage_remains = self._outcome.damage_remains
        self.errors = self._outcome.errors
        self.warnings = tuple(self._recording.warnings)

    def __bool__(self) -> bool:
        return any(self._recording.plans)

    @property
    def actions(self) -> list[Action]:
        """All file operations, in order."""
        found = []
        for plan in self._recording.plans:
            for step in plan.steps:
                file = Place(plan.directory) / step.file
                target = Place(plan.directory) / step.target if step.target else None
                found.append(Action(step.action, file, step.reason, step.new_size, target, step.removed_bytes))
        return found

    @property
    def lost(self) -> list[Lost]:
        """The ranges of bytes that are removed as damaged, deleted or superseded."""
        return [
            Lost(Place(plan.directory) / step.file, *astuple(cut))
            for plan in self._recording.plans
            for step in plan.steps
            for cut in step.removed
        ]

    def to_json(self) -> str:
        """Returns the output of the command with ``--dry-run --format json``: JSON Lines."""
        return recorded_json(self._recording, self._outcome, self._keeps)

    def apply(self) -> Result:
        """Takes the locks, plans again and applies, with the guarantees of the command.

        Raises PathError if files have changed since the plan was made, BrokerRunningError if a broker holds the log
        directory, StoppedHalfwayError if a change could not be completed, and the error of the first partition if none
        could be changed.
        """
        with readable(self._paths) as places:
            driver.check_unchanged(self._recording.plans, places)
        recording = driver.Recording()
        outcome = self._run(False, recording)
        halfway = [error for error in outcome.errors.values() if isinstance(error, StoppedHalfwayError)]
        if outcome.errors and (halfway or not outcome.has_changed):
            raise next(iter(halfway or outcome.errors.values()))
        kept = tuple(change.kept for change in recording.changes if change.kept)
        return Result(outcome.has_changed, kept, outcome.damage_remains, outcome.errors, tuple(recording.warnings))

    def __repr__(self) -> str:
        return f"<Plan {self._sentence()}>"

    def _repr_html_(self) -> str:
        from kseg.report.pages import html_table  # only notebooks need it

        columns = ("action", "file", "size", "removed bytes", "reason")
        rows = ((each.action, each.file, each.size, each.removed_bytes or None, each.reason) for each in self.actions)
        return html_table(self._sentence(), columns, rows, [str(error) for error in self.errors.values()])

    def _sentence(self) -> str:
        actions = self.actions
        if not self:
            return f"{self._command}: nothing to do"
        removed = sum(action.removed_bytes for action in actions)
        directories = len({plan.directory for plan in self._recording.plans if plan})
        failed = f", failed: {len(self.errors)}" if self.errors else ""
        return f"{self._command}: actions: {len(actions)}, directories: {directories}, removed bytes: {removed}{failed}"


def selected(
    paths: Sequence[str], topics: tuple[str, ...] | None, is_dry: bool, takes_files: bool = False
) -> Sequence[str]:
    """Returns the log directories, and the partitions of topics that these globs match; all for None, none without
    globs, or if no path holds any. A log directory that holds none may have the metadata log.

    In a dry run raises and warns as `check_topics`. Paths that cannot be read are returned: whoever changes them
    reports that. ``takes_files``: paths of segments can be read.
    """
    if not topics:
        return paths if topics is None else ()
    places = driver.places_at(paths, takes_files)
    if is_dry and places:
        check_topics(chain.from_iterable(places.values()), topics)
    named = {place for place in chain.from_iterable(places.values()) if is_of_topics(place, topics)}
    found = [path for path in paths if places.get(path) != [path] or path in named]
    return found if named or len(places) < len(paths) else ()


class OutputArguments(TypedDict, total=False):
    """The arguments ``topics``, ``keep``, ``lock`` and ``output``."""

    topics: Annotated[str | Iterable[str] | None, None]
    keep: Annotated[bool | str | os.PathLike[str], True]
    lock: Annotated[bool, True]
    output: Annotated[Path | None, None]


class ConvertArguments(OutputArguments, total=False):
    """Besides those, the form of the paths, the records to convert, the directories of tables, and how keys and values
    are decoded in them.
    """

    from_: Annotated[Literal["jsonl", "parquet", "arrow"] | None, None]
    offsets: Annotated[Range | None, None]
    time: Annotated[TimeRange | None, None]
    partition_by: Annotated[str | Iterable[str] | None, None]
    key_format: Annotated[Literal["avro"] | None, None]
    value_format: Annotated[Literal["avro"] | None, None]
    schemas: Annotated[Path | None, None]
    csv_safe: Annotated[bool, False]
    ignore_log_start: Annotated[bool, False]


class ChangeArguments(OutputArguments, total=False):
    """The arguments ``era`` and ``now``, besides ``topics``, ``keep``, ``lock`` and ``output``."""

    era: Annotated[str | None, None]
    now: Annotated[int | None, None]


class CompactArguments(ChangeArguments, total=False):
    """``until_clean``: rounds go on until all keys are cleaned. ``include_active``: the last segment is cleaned too.
    ``force_policy``: topics whose cleanup.policy lacks compact are compacted too.
    """

    until_clean: Annotated[bool, False]
    include_active: Annotated[bool, False]
    force_policy: Annotated[bool, False]


def _change_options(change: OutputArguments) -> driver.ChangeOptions:
    keep, output = change["keep"], change["output"]
    keeping = Keeping(keep) if isinstance(keep, bool) else Keeping(True, os.fspath(keep))
    if output is not None and not is_url(os.fspath(output)):
        output = resolved(os.fspath(output))
    return driver.ChangeOptions(False, change["lock"], keeping, None if output is None else os.fspath(output))


def _plan(path: Paths, command: str, make_planner: driver.MakePlanner, change: OutputArguments) -> Plan:
    """Returns the plan of a planner for the partitions of the topics at the paths."""
    paths, topics, options = paths_of(path), words_of(change["topics"]), _change_options(change)

    def run_command(is_dry: bool, reporter: driver.Reporter) -> driver.Outcome:
        change = replace(options, is_dry=is_dry)
        if options.output is None:
            return driver.run(selected(paths, topics, is_dry), make_planner, change, reporter)
        with places_for_output(paths, reporter) as places:
            return driver.run(selected(places, topics, is_dry), make_planner, change, reporter)

    return Plan(command, paths, run_command, options.keeping.keeps)


class RepairArguments(ChangeArguments, total=False):
    """``mode``: "broker" gives the result of a broker's start, "salvage" keeps every intact batch; ``drop_undecodable``
    and ``drop_batches`` (offsets) need it. ``full``: all segments are scanned. ``rebuild_epochs``: the leader epochs
    are rebuilt from the batches. ``topic_id``: that of partition.metadata.
    """

    mode: Annotated[Literal["broker", "salvage"], "broker"]
    drop_undecodable: Annotated[bool, False]
    drop_batches: Annotated[Iterable[int], ()]
    full: Annotated[bool, False]
    rebuild_epochs: Annotated[bool, False]
    topic_id: Annotated[str | None, None]
    index_interval_bytes: Annotated[int | None, None]


def _make_checks(nodes: "Nodes") -> "Checks":
    from kseg.verification.recovery_checks import RecoveryChecks  # most recoveries start without them

    return RecoveryChecks(nodes)


@checked
def recover(path: Paths, *, from_replica: Path | None = None, **repair: Unpack[RepairArguments]) -> Plan:
    """Plans the repair of partitions after a crash or disk damage, as ``kseg recover`` does.

    ``mode``: "broker" gives the result of a broker's start, "salvage" keeps every intact batch. ``from_replica``,
    ``drop_undecodable`` and ``drop_batches`` (offsets) need mode "salvage".

    >>> plan = kseg.recover("crashed-0", mode="salvage")
    >>> [(lost.position, lost.length) for lost in plan.lost]
    [(7129, 305)]
    """
    from kseg.recovery.options import RecoverOptions
    from kseg.recovery.planner import RecoveryPlanner

    replica = None if from_replica is None else resolved(os.fspath(from_replica))
    options = filled(RecoverOptions, repair, from_replica=replica)
    options.check_mode()
    return _plan(path, "recover", partial(RecoveryPlanner, options, make_checks=_make_checks), repair)


@checked
def restore(
    path: Paths = (),
    *,
    undelete: bool = False,
    as_: str | None = None,
    for_cluster: Path | None = None,
    from_remote: Path | None = None,
    private_keys: Keys | None = None,
    reset_epochs: bool = False,
    **repair: Unpack[RepairArguments],
) -> Plan:
    """Plans to bring partitions to where they are wanted, as ``kseg restore`` does.

    ``undelete``: deleted directories and segments are taken back. ``as_``: the topic's name in ``output``, or TOPIC-N
    for one partition. ``for_cluster``: a log directory of the cluster that will serve the partitions. ``from_remote``:
    remote storage from which partitions are rebuilt in ``output``; ``path``: the log directories of a node that is
    left, if any. ``reset_epochs``: the leader epochs of batches become 0. Other arguments are those of `recover`.

    >>> result = kseg.restore("orders-0", as_="copy-3", output="copies").apply()
    >>> kseg.verify("copies/copy-3").ok
    True
    """
    given = locals() | repair
    from kseg.recovery.restoring import RestoreOptions, RestorePlanner

    keys = tuple(f"{key}={os.fspath(pem)}" for key, pem in (private_keys or {}).items())
    paths = paths_of(path) if path else ()
    options = filled(RestoreOptions, given, private_keys=keys)
    options.check_mode()
    options.check(paths, change := _change_options(repair))
    if from_remote is not None:
        from kseg.recovery.remote import Rebuild

        def run_command(is_dry: bool, reporter: driver.Reporter) -> driver.Outcome:
            return Rebuild(options, paths, replace(change, is_dry=is_dry)).run(reporter)

        return Plan("restore", paths, run_command, keeps=False)
    return _plan(path, "restore", partial(RestorePlanner, options, make_checks=_make_checks), repair)


@checked
def carve(path: Paths, *, output: Path | None = None, like: Paths = (), lock: bool = True) -> Plan:
    """Plans to bring logs back out of disk images or any files into a new log directory, as ``kseg carve`` does.

    ``like``: log directories that hold a part of the logs, and name them.

    >>> result = kseg.carve("disk.img", output="rescued").apply()
    >>> result.warnings[0]
    'found 7 batches of 1 log'
    """
    from kseg.carving import directories

    if output is None:
        raise RequestError("carve: give an output: an image is only read")
    images, options = paths_of(path), directories.CarveOptions(paths_of(like) if like else ())
    change = driver.ChangeOptions(takes_lock=lock, output=resolved(os.fspath(output)))

    def run_command(is_dry: bool, reporter: driver.Reporter) -> driver.Outcome:
        carved = directories.carve(images, replace(change, is_dry=is_dry), options, lambda _count: None)
        for text in carved.messages():
            reporter.warning(text)
        return driver.created(carved.plans, is_dry, reporter, facts=carved.summary())

    return Plan("carve", images, run_command, keeps=False)


@checked
def redact(
    path: Path,
    *,
    output: Path | None = None,
    names: bool = False,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    lock: bool = True,
) -> Plan:
    """Plans a copy without anybody's data in a new log directory, as ``kseg redact`` does.

    ``names``: topic names and header keys are replaced, too.

    >>> result = kseg.redact("crashed-0", output="twin").apply()
    >>> kseg.verify("twin/crashed-0").ok
    False
    """
    given = locals()
    from kseg.redaction.directories import RedactOptions
    from kseg.redaction.directories import redact as write_twin

    if output is None:
        raise RequestError("redact: give an output: the path is only read")
    (place, *others), options = paths_of(path), filled(RedactOptions, given)
    refuse_if(bool(others), f"path={path!r}: matches {len(others) + 1} paths")
    change = driver.ChangeOptions(takes_lock=lock, output=resolved(os.fspath(output)))

    def run_command(is_dry: bool, reporter: driver.Reporter) -> driver.Outcome:
        twin = write_twin(place, replace(change, is_dry=is_dry), options, lambda _count: None)
        return driver.created(twin.plans, is_dry, reporter, facts=twin.facts)

    return Plan("redact", (place,), run_command, keeps=False)


@checked
def quorum(
    path: Paths = (),
    *,
    rewrite: bool = False,
    survivor: bool | Sequence[str] = False,
    new: int | None = None,
    listener: str | None = None,
    topics_from: Paths = (),
    as_of: int | None = None,
    output: Path | None = None,
    keep: bool | Path = True,
    lock: bool = True,
) -> Plan:
    """Plans to bring the metadata log of a KRaft cluster back, as ``kseg quorum`` does.

    ``rewrite``: the only voter of the quorum gets a snapshot of all records that can be replayed. ``survivor``: the
    most advanced of the copies becomes that of the only voter; instead of True, where voters listen from now on, as
    "NODE=HOST:PORT". ``new``: the node id of a new, single controller, whose log directory is ``output``; ``listener``:
    its NAME://HOST:PORT. ``topics_from``: log directories with the partitions of topics that the metadata log lacks.
    ``as_of``: only records below this offset are used.

    >>> plan = kseg.quorum("kraft-logs", new=9, listener="CONTROLLER://10.0.0.9:9093", output="new")
    >>> [action.action for action in plan.actions]
    ['create', 'create', 'create']
    """
    given = locals()
    from kseg.recovery import metadata_log

    if not isinstance(survivor, bool):
        is_list = isinstance(survivor, (list, tuple))
        refuse_if(not is_list, f"survivor={survivor!r}: is neither True nor a list of NODE=HOST:PORT")
        given |= {"survivor": True, "endpoints": survivor}

    sources, paths = (paths_of(each) if each else () for each in (topics_from, path))
    options = filled(metadata_log.QuorumOptions, given, topics_from=sources)
    paths = metadata_log.metadata_paths(paths)
    options.check(paths, None if output is None else os.fspath(output))
    change = OutputArguments(topics=None, keep=keep, lock=lock, output=output)
    if rewrite:
        return _plan(paths, "quorum", partial(metadata_log.RewritePlanner, options), change)
    if survivor:
        from kseg.recovery.surviving_voter import Survivor, SurvivorPlanner

        found = Survivor.among(paths, options)
        return _plan(found.copy.path, "quorum", partial(SurvivorPlanner, found, options), change)

    def run_command(is_dry: bool, reporter: driver.Reporter) -> driver.Outcome:
        wanted = driver.ChangeOptions(is_dry, lock, output=resolved(os.fspath(output or "")))
        plan, snapshot = metadata_log.write_new_quorum(next(iter(paths), None), options, wanted, reporter.warning)
        snapshot.report(reporter.warning)
        reporter.warning(metadata_log.settings_after(options, snapshot))
        return driver.created([plan], is_dry, reporter, damage_remains=bool(snapshot.left_out))

    return Plan("quorum", paths, run_command, keeps=False)


@checked
def reindex(
    path: Paths,
    *,
    snapshots: bool = False,
    index_interval_bytes: int | None = None,
    **change: Unpack[ChangeArguments],
) -> Plan:
    """Plans new index files, byte for byte as a broker builds them; ``snapshots``: also producer snapshots.

    >>> kseg.reindex("orders-0")
    <Plan reindex: nothing to do>
    """
    given = locals() | change
    from kseg.recovery.options import ReindexOptions
    from kseg.recovery.planner import ReindexPlanner

    return _plan(path, "reindex", partial(ReindexPlanner, filled(ReindexOptions, given)), change)


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
    """Plans a compaction as the broker's log cleaner does it. None means the topic's setting, or a broker's default.

    >>> kseg.compact("compacted-0")
    <Plan compact: actions: 28, directories: 2, removed bytes: 18486>
    """
    given = locals() | change
    from kseg.cleaner.planner import CompactionPlanner
    from kseg.cleaner.settings import CompactOptions

    return _plan(path, "compact", partial(CompactionPlanner, filled(CompactOptions, given)), change)


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

    >>> plan = kseg.retain("orders-0", retention_ms=86_400_000)
    >>> bool(plan)
    True
    """
    given = locals() | change
    from kseg.retention.planner import RetainOptions, RetentionPlanner

    return _plan(path, "retain", partial(RetentionPlanner, filled(RetainOptions, given)), change)


@checked
def convert(
    path: Paths,
    *,
    to: Literal["v0", "v1", "v2", "jsonl", "csv", "parquet", "arrow"] | None = None,
    codec: Codec | None = None,
    batch_bytes: int | None = None,
    segment_bytes: int | None = None,
    isolation: Isolation = "read_uncommitted",
    lossy: bool = False,
    skip_damage: bool = False,
    index_interval_bytes: int | None = None,
    **change: Unpack[ConvertArguments],
) -> Plan:
    """Plans the conversion of partitions, in place or to new ones below ``output``.

    ``to``: format v0, v1 or v2; ``codec``: as in `writer`. ``batch_bytes`` and ``segment_bytes``: records are regrouped
    to this size. ``lossy``: information that the format cannot represent may be lost; ``skip_damage``: damage is left
    out. None keeps what is there. Segments and archives can only be converted to an output.

    ``offsets`` and ``time``, as in `Log.records`: only these records, to an output.

    ``to`` jsonl, csv, parquet or arrow: ``output`` is a new file of the records; tables with ``partition_by``, some of
    topic, partition and date, are a directory of directories such as topic=orders. ``from_``: partitions are built from
    such files, but not from CSV. ``key_format`` and ``value_format`` "avro": keys and values are decoded, as in `scan`,
    with ``schemas``. ``csv_safe``: texts of CSV that a spreadsheet would run as formulas begin with an apostrophe.
    ``ignore_log_start``: deleted records, below the log start offset, are exported too.

    >>> plan = kseg.convert("orders-0", codec="zstd:3", output="zstd")
    >>> len(plan.actions) > 4
    True
    """
    given = locals() | change
    from kseg.conversion.options import EXPORTS, ConvertOptions

    output, partition_by = change["output"], change["partition_by"]
    if output is not None and os.fspath(output) == "-":
        raise RequestError("output='-': only the command writes to standard output: give a path")
    if output is None and (change["from_"] is not None or to in EXPORTS):
        raise RequestError("convert: give an output")
    if output is None and to is None and codec is None and batch_bytes is None and segment_bytes is None:
        raise RequestError("convert: give to, codec, batch_bytes, segment_bytes or output")
    given["offsets"], given["time"] = arguments.offsets_of(change["offsets"]), arguments.times_of(change["time"])
    given["partition_by"] = None if partition_by is None else ",".join(words_of(partition_by) or ())
    place = None if output is None else os.fspath(output)
    options = filled(ConvertOptions, given, output=place, in_place=output is None)
    options.check_form()
    options.check()
    if output is not None:
        if change["keep"] is not True:
            raise RequestError("convert: an output removes nothing that keep could keep")
        return _converted_to(paths_of(path), os.fspath(output), options, words_of(change["topics"]), change["lock"])
    from kseg.conversion.planner import ConversionPlanner

    return _plan(path, "convert", partial(ConversionPlanner, options), change)


def _converted_to(
    paths: tuple[str, ...], output: str, options: "ConvertOptions", topics: tuple[str, ...] | None, lock: bool
) -> Plan:
    from kseg.conversion.options import JSON_LINES
    from kseg.conversion.planner import check_output_of, convert_to_new
    from kseg.conversion.record_files import check_codec, export_to_new
    from kseg.conversion.record_import import import_records
    from kseg.dump.json_lines import json_lines_to_new

    check_output_of(options, output, paths)
    if {options.form, options.source} & {"parquet", "arrow"}:
        need_pyarrow()
    if options.form in ("parquet", "arrow"):
        check_codec(options.form, options.packing[0])

    def run_command(is_dry: bool, reporter: driver.Reporter) -> driver.Outcome:
        change = driver.ChangeOptions(is_dry, lock)
        if options.source:
            return driver.created(import_records(paths, output, options, change, reporter), is_dry, reporter)
        with places_for_output(paths, reporter) as places:
            if not (chosen := selected(places, topics, is_dry, takes_files=True)):
                return driver.Outcome(is_dry=is_dry)
            if options.is_export:
                chosen = of_topics(chosen, topics or (), reporter.warning)
            if options.form == JSON_LINES:
                plans = json_lines_to_new(chosen, output, options, change, reporter)
            elif options.is_export:
                plans = export_to_new(open_sink, chosen, output, options, change, reporter)
            else:
                plans = convert_to_new(chosen, output, options, change, reporter)
            return driver.created(plans, is_dry, reporter)

    return Plan("convert", paths, run_command, keeps=False)


@checked
def erase(
    path: Paths,
    *,
    key: bytes | str | Iterable[bytes | str] = (),
    key_pattern: str | Iterable[str] = (),
    grep: str | Iterable[str] = (),
    offsets: Range | Iterable[Range] = (),
    skip_damage: bool = False,
    certificate: Path | None = None,
    topics: str | Iterable[str] | None = None,
    lock: bool = True,
) -> Plan:
    """Plans to take records out for good, as ``kseg erase`` does: those that match any of the arguments.

    ``key``: bytes, or text as on the command line; ``key_pattern`` and ``grep``: regular expressions, for keys, and for
    keys, values and headers; ``offsets``: as in `Log.records`. ``skip_damage``: what cannot be searched stays.
    ``certificate``: a file that `Plan.apply` writes. Nothing is kept: there is no undo.

    >>> plan = kseg.erase("orders-0", offsets=(3, 5))
    >>> bool(plan)
    True
    """
    from kseg.erasure.certificate import certificate_file
    from kseg.erasure.planner import EraseOptions, ErasurePlanner

    given = {
        "key": key,
        "key_pattern": words_of(key_pattern),
        "grep": words_of(grep),
        "skip_damage": skip_damage,
    }
    options = filled(EraseOptions, given, offsets=arguments.ranges_of(offsets))
    paths, globs = paths_of(path), words_of(topics)

    def run_command(is_dry: bool, reporter: driver.Reporter) -> driver.Outcome:
        proof = None if certificate is None or is_dry else os.fspath(certificate)
        with certificate_file(open_sink, proof) as file:
            change = driver.ChangeOptions(is_dry, lock, Keeping(keeps=False))
            make_planner = partial(ErasurePlanner, options, certificate=file)
            return driver.run(selected(paths, globs, is_dry), make_planner, change, reporter)

    return Plan("erase", paths, run_command, keeps=False)


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

    >>> result = kseg.recover("crashed-0", mode="salvage").apply()
    >>> result = kseg.undo("crashed-0").apply()
    >>> kseg.verify("crashed-0").ok
    False
    """
    paths, globs = paths_of(path), words_of(topics)
    kept_in = "" if quarantine is None else resolved(os.fspath(quarantine))
    options = UndoOptions(True, lock, kept_in, globs or ())

    def run_command(is_dry: bool, reporter: driver.Reporter) -> driver.Outcome:
        return undo_paths(selected(paths, globs, is_dry), replace(options, is_dry=is_dry), reporter)

    return Plan("undo", paths, run_command, keeps=False)
