"""``kseg recover``: repairs logs as a broker's start after a crash does, or keeps every intact batch."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kseg.changes.apply import Keeping
from kseg.changes.disk_space import PlanTotals
from kseg.changes.driver.command import ChangeOptions, Failures, Messages, Outcome
from kseg.changes.new_directories import ResumableOutput, resumable_output, resumable_store_output
from kseg.changes.plan import CREATE
from kseg.cli.changing import changing_options, open_plans, open_printer, run_change
from kseg.cli.options import Command, filled, paths_argument, spool_options, usage_errors
from kseg.errors import RequestError, refuse_if
from kseg.formats.json_values import fields_of, name_value
from kseg.formats.rows import Scratch
from kseg.kernel.files.system import keep_freed_memory
from kseg.node.node import Nodes, is_of_one_node
from kseg.options.declaration import given_in, refuse
from kseg.output.changes import CarvedTable, next_steps, plan_printer, summary_row
from kseg.output.notices import Notices, Presentation, on_one_line, put_line
from kseg.output.progress import Progress
from kseg.output.sink import STANDARD_OUTPUT, Sink, open_report, open_sink
from kseg.quantities import plural
from kseg.recovery.options import BROKER, SALVAGE, RecoverOptions
from kseg.recovery.planner import Checks, RecoveryPlanner, check_one_topic
from kseg.runtime.threads import usable_cores
from kseg.stores.archives.spool import Spool, current_spool, use_spool
from kseg.stores.no_follow import resolved
from kseg.stores.place import Place
from kseg.stores.remote.recognition import is_topic
from kseg.stores.stored_object import is_url, shown

if TYPE_CHECKING:
    from kseg.recovery.remote import RebuiltPartition, UnusedSegment

MAX_PAIRS = 5
"""Pairs of logs that messages name; JSON has all."""
_MAX_LEFT_OUT = 5
_IMPLY_SALVAGE = ("--from-replica", "--records", "--drop-undecodable", "--drop-batch")


def _check(paths: tuple[str, ...], change: ChangeOptions, options: RecoverOptions) -> None:
    """Raises RequestError for options that contradict each other, or the kind of recovery."""
    given = given_in(options)
    if options.carves:
        refuse(sorted(given - {"--carve", "--like", "--jobs"}), given, "excludes --carve")
        refuse_if(not paths, "Missing argument 'PATH...'.")
        refuse_if(change.output is None, "--carve needs --output: an image is only read")
        refuse_if(change.links, "--link excludes --carve")
        return
    refuse(("--like",), given, "is for --carve")
    if options.metadata_snapshot or options.new_quorum is not None:
        _check_metadata(paths, change, options, given)
        return
    refuse(("--listener",), given, "is for --new-quorum")
    refuse(("--as-of", "--topics-from"), given, "is for --metadata-snapshot and --new-quorum")
    refuse_if(options.new_cluster and options.topic_id, "--for-cluster excludes --topic-id")
    refuse_if(options.name is not None and not is_topic(options.name), f"--as {options.name!r}: not a topic name")
    if options.from_remote is None:
        _check_local(paths, change, options)
        return
    refuse((*_IMPLY_SALVAGE, "--full", "--rebuild-epochs", "--undelete"), given, "excludes --from-remote")
    refuse_if(not change.output and not change.is_dry, "--from-remote needs --output")
    refuse_if(change.keeping != Keeping(), "--from-remote removes nothing: no --quarantine, no --no-quarantine")
    refuse_if(change.links, "--link excludes --from-remote")
    refuse_if(len(paths) > 1, "--from-remote takes one log directory")


def _check_metadata(paths: tuple[str, ...], change: ChangeOptions, options: RecoverOptions, given: set[str]) -> None:
    kind, more = "--new-quorum", {"--listener"}
    if options.metadata_snapshot:
        kind, more = "--metadata-snapshot", {"--server-properties"}
    refuse(sorted(given - {kind, "--topics-from", "--as-of"} - more), given, f"excludes {kind}")
    refuse_if(not paths and (options.metadata_snapshot or not options.topics_from), "Missing argument 'PATH...'.")
    if options.metadata_snapshot:
        return
    refuse_if(options.listener is None or change.output is None, "--new-quorum needs --listener and --output")
    refuse_if(len(paths) > 1 or change.links, "--new-quorum takes one log directory, and no --link")


def _check_local(paths: tuple[str, ...], change: ChangeOptions, options: RecoverOptions) -> None:
    given = given_in(options)
    refuse(("--private-key",), given, "is for --from-remote")
    refuse_if(not paths, "Missing argument 'PATH...'.")
    refuse_if(
        options.name is not None and change.output is None,
        "--as needs --output: a log directory has each partition once",
    )
    moves = given & {"--undelete", "--as", "--for-cluster"}
    refuse_if(
        options.from_replica and (moves or options.resets_epochs),
        "--from-replica excludes --undelete, --as, --for-cluster and --reset-epochs",
    )
    if not moves:
        refuse(("--reset-epochs",), given, "is for --from-remote, --undelete, --as and --for-cluster")


def _recover_from_remote(
    paths: tuple[str, ...], change: ChangeOptions, presentation: Presentation, options: RecoverOptions
) -> int:
    """Rebuilds the selected partitions. Returns the exit status.

    Raises RequestError if no partition is selected, UsageError if an option for one topic meets several.
    """
    store, output_name = options.from_remote or "", change.output or ""
    from kseg.recovery.remote import Rebuild  # few recoveries read remote storage
    from kseg.stores.remote.keys import private_keys
    from kseg.stores.remote.segment import open_storage

    rebuild = Rebuild(open_storage(store, private_keys(options.private_keys)), options, next(iter(paths), None))
    if not rebuild.partitions:
        raise RequestError(f"{store}: holds no partition of a topic that --topic names")
    if options.topic_id or options.name:
        topics = sorted({partition.topic for partition in rebuild.partitions})
        if len(topics) > 1:
            raise click.UsageError(f"--topic-id and --as are for one topic; selected: {', '.join(topics[:5])}")
    facts: dict[str, Any] = {
        "store": store, "topics": list(options.topics), "logs": next(iter(paths), None),
        "newCluster": options.new_cluster, "topicId": options.topic_id, "name": options.name,
        "resetEpochs": options.resets_epochs,
    }  # fmt: skip
    # A log directory of another cluster would get partitions that its metadata do not assign.
    may_be_of_node = bool(paths) and options.new_cluster is None and not is_url(output_name)
    is_of_node = may_be_of_node and is_of_one_node(output_name, paths)
    notices = presentation.notices()
    with open_report(change.is_dry, notices.error) as sink:
        of_printer = facts | {"output": shown(output_name)}
        printer = RebuildPrinter(sink, notices, of_printer, change.is_dry, presentation.form == "json")
        printer.left_out(rebuild.left_out)
        if change.is_dry:
            for outcome in rebuild.plans():
                printer.show(outcome, shown(output_name))
        else:
            with _output(output_name, facts, change.takes_lock, is_of_node) as output:
                for outcome in rebuild.carry_out(output):
                    printer.show(outcome, output.directory)
        printer.finish(beside=paths if is_of_node else ())
    would_change = change.is_dry and bool(printer.totals.names)
    return max(printer.failures.status, int(printer.damage_remains or would_change))


def _output(
    place: str, facts: dict[str, object], takes_lock: bool, is_of_node: bool
) -> AbstractContextManager[ResumableOutput]:
    """``facts``: the options that must be equal when an interrupted run is resumed."""
    if not is_url(place):
        return resumable_output(place, facts, takes_lock, is_of_node)
    from kseg.stores.object_urls import UrlObjects  # and fsspec

    return resumable_store_output(UrlObjects(place), current_spool().directory, facts)


class RebuildPrinter:
    """Prints text, or one object per line, of which the last is the summary.

    ``facts``: the request's, and its ``output``. ``totals``: of the partitions made. ``damage_remains``: offsets or
    partitions are missing. ``failures``: the errors of the others.
    """

    def __init__(self, sink: Sink, notices: Notices, facts: dict[str, Any], is_dry: bool, is_json: bool) -> None:
        self._sink, self._notices, self._facts = sink, notices, facts
        self._is_dry, self._is_json = is_dry, is_json
        self._last_epoch = 0
        self.totals, self.failures = PlanTotals(actions=Counter(create=0)), Failures(notices)
        self.damage_remains = self._has_changed = False

    def show(self, outcome: "RebuiltPartition", output: str) -> None:
        """Prints a partition in the directory ``output``, and its problems on standard error."""
        directory, totals = Place(output) / outcome.name, self.totals
        if outcome.error is not None:
            self.failures.add(outcome.error, directory)
            return
        found, built = outcome.selection, outcome.rebuilt
        is_made = bool(outcome.was_done or found.pieces or found.local)
        self.damage_remains |= bool(found.holes or built.damage) or not (is_made or found.is_deleted)
        self._last_epoch = max(self._last_epoch, built.last_epoch)
        if not outcome.was_done:
            totals.new_bytes += built.size
        if is_made:
            totals.names.add(directory)
            totals.actions[CREATE] += 1
            self._has_changed |= not outcome.was_done and not self._is_dry
            made = "would be created" if self._is_dry else "exists already" if outcome.was_done else "created"
            text = f"{directory}: {made}: offsets {outcome.log_start} to {built.end - 1}"
            if not self._is_dry:
                text += f", {plural(built.segments, 'segment', 'segments')}, {built.size} bytes"
            row = {
                "type": "rebuilt", "directory": name_value(directory), "topicId": outcome.topic_id,
                "logStartOffset": outcome.log_start, "logEndOffset": built.end, "lastLeaderEpoch": built.last_epoch,
                "segments": built.segments, "newBytes": built.size, "wasThere": outcome.was_done,
            }  # fmt: skip
            if self._is_json:
                self._sink.put_row(row)
            else:
                self._sink.put(on_one_line(text))
        elif not self._is_json:
            self._notices.warning(f"{directory}: not created: remote storage has no live segment of it")
        self.left_out(found.left_out, directory)
        for text in found.remarks:
            self._notices.warning(f"{directory}: {text}")
        for hole in found.holes:
            totals.gaps.append((directory, hole.first, hole.last))
            totals.missing_offsets += hole.last - hole.first + 1
            offsets = f"offsets {hole.first} to {hole.last}"
            self._notices.warning(f"{directory}: {offsets} are missing: no segment holds them")
        for text in built.damage:
            self._notices.warning(f"{directory}: {text}")

    def left_out(self, found: "Sequence[UnusedSegment]", directory: str = "") -> None:
        """Prints segments that are not used. ``directory``: of the rebuilt partition, "" for none."""
        for left in found if self._is_json else found[:_MAX_LEFT_OUT]:
            if self._is_json:
                row = {"type": "left", "directory": name_value(directory)}
                row |= fields_of(left, "first_offset", "last_offset")
                self._sink.put_row(row | {"from": name_value(left.path), "reason": left.reason})
            else:
                offsets = f"offsets {left.first_offset} to {left.last_offset}"
                self._notices.warning(f"left out: {offsets} of {left.path}: {left.reason}")
        if not self._is_json and len(found) > _MAX_LEFT_OUT:
            self._notices.warning(f"left out: {len(found) - _MAX_LEFT_OUT} more segments; --format json lists all")

    def finish(self, beside: tuple[str, ...]) -> None:
        """Prints the summary, or the remaining steps. ``beside``: other log directories of the output's node."""
        if self._is_json:
            self.totals.peak_bytes = self.totals.new_bytes
            outcome = Outcome(
                has_changed=self._has_changed, damage_remains=self.damage_remains, errors=self.failures.errors
            )
            self._sink.put_row(summary_row(self.totals, outcome, self._is_dry))
        self._sink.flush()
        if not self._is_json and not self._is_dry and self.totals.names and not self._notices.is_quiet:
            for line in next_steps(self._facts, self._last_epoch, beside):
                put_line(line)


@click.command("recover", cls=Command)
@paths_argument(is_required=False)
@filled(RecoverOptions)
@spool_options
@changing_options
def command(
    paths: tuple[str, ...], options: RecoverOptions, change: ChangeOptions, presentation: Presentation, spool: Spool
) -> int:
    """Repair a partition directory, or all partitions of a log directory, after a crash or disk damage.

    Mode broker produces the same bytes as a start of the newest broker, or of release --era: it truncates the log at
    the first invalid batch, deletes later segments, and rebuilds indexes and snapshots. Mode salvage keeps every intact
    batch at its own offset; use it for the last copy, because a replica never fetches the gaps again. Removed bytes are
    kept: see kseg undo.
    """
    keep_freed_memory()
    given = given_in(options)
    implying = [name for name in _IMPLY_SALVAGE if name in given]
    has_mode = click.get_current_context().get_parameter_source("mode") is ParameterSource.COMMANDLINE
    if implying and options.mode == BROKER and has_mode:
        raise click.UsageError(f"{implying[0]} excludes --mode broker")
    options = replace(
        options,
        mode=SALVAGE if implying else options.mode,
        from_replica=resolved(options.from_replica) if options.from_replica else None,
        drop_batches=frozenset(options.drop_batches),
    )
    with usage_errors():
        _check(paths, change, options)
    with use_spool(spool):
        if options.carves:
            return _carve(paths, options.likes, options.jobs or usable_cores(), change, presentation)
        if options.from_remote is not None:
            return _recover_from_remote(paths, change, presentation, options)
        if options.new_quorum is not None:
            return _new_quorum(paths, options, change, presentation)
        if options.metadata_snapshot:
            from kseg.recovery.metadata_log import MetadataSnapshotPlanner

            return run_change(paths, partial(MetadataSnapshotPlanner, options), change, presentation).exit_status

        def make_checks(nodes: Nodes) -> Checks:
            from kseg.verification.recovery_checks import RecoveryChecks  # most recoveries start without them

            return RecoveryChecks(nodes)

        make_planner = partial(RecoveryPlanner, options, make_checks=make_checks)
        with usage_errors():
            if options.topic_id or options.name:
                check_one_topic(paths, "the paths are of several topics")
            if options.records is not None:
                make_planner = partial(make_planner, write_records=_records_file(options.records, paths))
        return run_change(paths, make_planner, change, presentation).exit_status


def _records_file(path: str, paths: Sequence[str]) -> Callable[[Iterable[str], bool, Messages], None]:
    """Returns the writer of the file of --records: the readable records of broken batches, as JSON Lines, of all
    directories, completely or not at all; a dry run only counts them. ``paths``: those of the command.

    Raises RequestError for standard output, for several PATHs, and if the file would be in PATH. The writer raises
    PathError if a segment cannot be read or the file cannot be made, StoppedHalfwayError if writing fails.
    """
    if path == STANDARD_OUTPUT:
        raise RequestError("--records takes a file: standard output is for the plan")
    if len(paths) > 1:
        raise RequestError("--records takes one PATH, because the file is written before PATH is changed")
    place = os.path.realpath(paths[0])
    if os.path.commonpath([place, os.path.realpath(path)]) == place:
        raise RequestError("--records: the file must not be in PATH, where brokers would find it")

    def write(directories: Iterable[str], is_dry: bool, messages: Messages) -> None:
        from kseg.output.jsonl import UnprovenRecords
        from kseg.recovery.salvage.salvage import broken_batches, files_of

        scratch = Scratch()
        with open_sink(os.devnull if is_dry else path) as sink:
            records = UnprovenRecords(sink, scratch)
            for directory in directories:
                for file in files_of(directory):
                    records.begin(file)
                    for batch in broken_batches(file, scratch):
                        records.batch(batch)
                    records.finish()
        done = "would be" if is_dry else "were"
        messages.warning(f"{path}: {records.count} records of broken batches {done} written, unproven")

    return write


def _new_quorum(
    paths: tuple[str, ...], options: RecoverOptions, change: ChangeOptions, presentation: Presentation
) -> int:
    """Writes the log directory of a new controller. Returns the exit status: 1 if something was left out."""
    from kseg.recovery.metadata_log import write_new_quorum

    node, listener = options.new_quorum, options.listener
    assert listener is not None
    with open_printer(presentation, change.is_dry) as printer:
        plan, snapshot = write_new_quorum(next(iter(paths), None), options, change, printer.warning)
        snapshot.report(printer.warning)
        printer.created([plan], damage_remains=bool(snapshot.left_out))
    if not change.is_dry:
        if snapshot.has_dynamic_voters:
            voters = f"controller.quorum.bootstrap.servers={listener.address}"
        else:
            voters = f"controller.quorum.voters={node}@{listener.address}"
        printer.warning(
            f"set node.id={node} of the new controller, and {voters} on all nodes; start the controller first, then "
            "restart the brokers"
        )
    return int(bool(snapshot.left_out) or change.is_dry)


_MANY_LOGS = 100


def _carve(
    images: Sequence[str], likes: Sequence[str], jobs: int, change: ChangeOptions, presentation: Presentation
) -> int:
    """Carves the images to ``change.output``, and prints what was found. Returns the exit status: 1 if nothing was."""
    from kseg.carving.directories import carve, image_bytes  # few recoveries carve

    notices = presentation.notices()
    with open_plans(presentation, change.is_dry, notices.error) as sink:
        if presentation.form == "json":
            printer = plan_printer(presentation, sink, notices, change.is_dry, keeps=False)
        else:
            printer = CarvedTable(sink, notices, change.is_dry, keeps=False, is_quiet=presentation.quiet)
        with Progress(sum(map(image_bytes, images)), presentation.quiet) as progress:
            notices.before = progress.erase
            carved = carve(images, change, likes, jobs, progress.advance)
        printer.created(carved.plans, more=carved.summary())
    found = f"found {plural(carved.batches, 'batch', 'batches')} of {plural(len(carved.plans), 'log', 'logs')}"
    more = [f"{plural(carved.duplicates, 'copy', 'copies')} left out"] if carved.duplicates else []
    more += [f"{plural(carved.mended, 'cut batch', 'cut batches')} put together"] if carved.mended else []
    more += [f"{plural(carved.torn, 'batch', 'batches')} cut off"] if carved.torn else []
    if carved.given_up:
        more.append(f"for {carved.given_up:,} of these, only a part of the image was searched for the rest")
    if carved.unfit:
        more.append(f"{plural(carved.unfit, 'batch', 'batches')} left out, whose offsets no log can have")
    notices.warning("; ".join([found if carved.plans else "found no batches", *more]))
    if carved.single_batch_logs > _MANY_LOGS:
        notices.warning(
            f"{carved.single_batch_logs:,} of the logs hold one batch each, which nothing joins to others: each is a "
            "directory; --like LOGDIR joins and names those of which it holds a part"
        )
    if carved.read_in_part:
        read = plural(carved.read_in_part, "log of internal topics", "logs of internal topics")
        notices.warning(f"{read} read only in part for names: --like may name more")
    for one, two in carved.undecided[:MAX_PAIRS]:
        notices.warning(f"{on_one_line(one)} and {on_one_line(two)} may be parts of one log: nothing decides it")
    if len(carved.undecided) > MAX_PAIRS:
        notices.warning(f"so may {len(carved.undecided) - MAX_PAIRS} more pairs of logs: --format json names them")
    for cluster, node in carved.nodes[:MAX_PAIRS]:
        notices.warning(f"found meta.properties of node {node}, cluster {on_one_line(cluster)}")
    if len(carved.nodes) > MAX_PAIRS:
        notices.warning(f"and of {len(carved.nodes) - MAX_PAIRS} more nodes: --format json names them")
    if carved.plans and not change.is_dry:
        notices.warning("look at the result with:", f"kseg verify {change.output}")
    return int(not carved.plans or change.is_dry)
