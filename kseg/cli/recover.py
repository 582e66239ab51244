"""``kseg recover``: repairs logs as a broker's start after a crash does, or keeps every intact batch."""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from kseg.changes.apply import Keeping
from kseg.changes.driver.planner import ChangeOptions
from kseg.changes.driver.reporter import Failures
from kseg.changes.resumable_output import resumable_output, resumable_store_output
from kseg.cli.archives import spool_options
from kseg.cli.changing import run_change
from kseg.cli.changing_options import changing_options
from kseg.cli.eras import era_option
from kseg.cli.help import Command
from kseg.cli.options import ByteCount, LogPath, interval_option, jobs_option, refuse, server_option
from kseg.cli.remote_options import RebuildOptions, rebuild_options
from kseg.cli.times import now_option
from kseg.errors import RequestError
from kseg.kernel.files.system import keep_freed_memory
from kseg.output.changes.rebuilds import RebuildPrinter
from kseg.output.notices import Presentation
from kseg.output.sink import open_report
from kseg.recovery.options import BROKER, SALVAGE, RecoverOptions
from kseg.recovery.planner import RecoveryPlanner, check_one_topic
from kseg.recovery.remote import Output, Rebuild, Rebuilt, RebuiltPartition, RemoteRequest, UnusedSegment
from kseg.releases.recovery import DEFAULT_MESSAGE_LIMIT_BYTES, Era
from kseg.runtime.threads import usable_cores
from kseg.segment.files import ZERO_UUID_TEXT, is_uuid
from kseg.stores.archives.spool import Spool, current_spool, use_spool
from kseg.stores.no_follow import resolved
from kseg.stores.remote.keys import private_keys
from kseg.stores.remote.recognition import is_topic
from kseg.stores.remote.storage import open_storage
from kseg.stores.stored_object import is_url, shown
from kseg.verification.repairs import recovery_checks

# ``kseg recover --from-remote``: partitions rebuilt from remote storage.


def check_options(
    paths: tuple[str, ...], change: ChangeOptions, remote: RebuildOptions, options: RecoverOptions, records: str | None
) -> None:
    """Raises UsageError for options that contradict each other, or the kind of recovery."""
    if remote.new_cluster and options.topic_id:
        raise click.UsageError("--for-cluster excludes --topic-id")
    if remote.name is not None and not is_topic(remote.name):
        raise click.UsageError(f"--as {remote.name!r}: not a topic name")
    if remote.store is None:
        _check_local(paths, change, remote, options)
        return
    for_local = {
        "--from-replica": options.from_replica is not None,
        "--records": records is not None,
        "--drop-undecodable": options.drops_undecodable,
        "--drop-batch": bool(options.drop_batches),
        "--full": options.scans_all,
        "--rebuild-epochs": options.rebuilds_epochs,
        "--undelete": options.undeletes,
    }
    refuse(for_local, "excludes --from-remote")
    if not change.output and not change.is_dry:
        raise click.UsageError("--from-remote needs --output")
    if change.keeping != Keeping():
        raise click.UsageError("--from-remote removes nothing: no --quarantine, no --no-quarantine")
    refuse({"--link": change.links}, "excludes --from-remote")
    if len(paths) > 1:
        raise click.UsageError("--from-remote takes one log directory")


def _check_local(
    paths: tuple[str, ...], change: ChangeOptions, remote: RebuildOptions, options: RecoverOptions
) -> None:
    refuse({"--private-key": bool(remote.private_keys)}, "is for --from-remote")
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    if remote.name is not None and change.output is None:
        raise click.UsageError("--as needs --output: a log directory has each partition once")
    if options.from_replica and (options.undeletes or remote.name or remote.new_cluster or remote.resets_epochs):
        raise click.UsageError("--from-replica excludes --undelete, --as, --for-cluster and --reset-epochs")
    moves = options.undeletes or remote.name is not None or remote.new_cluster is not None
    if not moves:
        refuse({"--reset-epochs": remote.resets_epochs}, "is for --from-remote, --undelete, --as and --for-cluster")


def recover_from_remote(
    paths: tuple[str, ...],
    change: ChangeOptions,
    presentation: Presentation,
    remote: RebuildOptions,
    options: RecoverOptions,
) -> int:
    """Rebuilds the selected partitions. Returns the exit status.

    Raises RequestError if no partition is selected, UsageError if an option for one topic meets several.
    """
    request = RemoteRequest(
        store=remote.store or "",
        output=change.output or "",
        topics=remote.topics,
        logs=next(iter(paths), None),
        new_cluster=remote.new_cluster,
        topic_id=options.topic_id,
        name=remote.name,
        resets_epochs=remote.resets_epochs,
        interval_bytes=options.interval_bytes,
        jobs=options.jobs or usable_cores(),
    )
    notices = presentation.notices()
    failures = Failures(notices)
    storage = open_storage(request.store, private_keys(remote.private_keys))
    rebuild = Rebuild(storage, request)
    if not rebuild.partitions:
        raise RequestError(f"{request.store}: holds no partition of a topic that --topic names")
    if request.topic_id or request.name:
        topics = sorted({partition.topic for partition in rebuild.partitions})
        if len(topics) > 1:
            raise click.UsageError(f"--topic-id and --as are for one topic; selected: {', '.join(topics[:5])}")
    facts = request.facts | {"output": shown(request.output)}
    with open_report(change.is_dry, notices.error) as sink:
        printer = RebuildPrinter(sink, notices, facts, change.is_dry, presentation.is_json)
        printer.left_out(_left_out(rebuild.left_out, ""))
        if change.is_dry:
            for outcome in rebuild.plans():
                _show(outcome, shown(request.output), printer, failures)
        else:
            with _output(request, change) as output:
                for outcome in rebuild.carry_out(output):
                    _show(outcome, output.directory, printer, failures)
        printer.finish(sorted(failures.paths))
    would_change = change.is_dry and printer.count > 0
    return max(failures.status, int(printer.has_damage or would_change))


def _output(request: RemoteRequest, change: ChangeOptions) -> AbstractContextManager[Output]:
    if not is_url(request.output):
        return resumable_output(request.output, request.facts, change.takes_lock)
    from kseg.stores.object_urls import UrlObjects  # and fsspec

    return resumable_store_output(UrlObjects(request.output), current_spool().directory, request.facts)


def _show(outcome: RebuiltPartition, output: str, printer: RebuildPrinter, failures: Failures) -> None:
    directory = os.path.join(output, outcome.name)
    if outcome.error is not None:
        failures.add(outcome.error, directory)
        return
    found, built = outcome.selection, outcome.rebuilt or Rebuilt()
    if found is not None and outcome.rebuilt is None:
        built.end = found.pieces[-1].last + 1 if found.pieces else found.log_start
        built.last_epoch = found.lineage[-1].epoch if found.lineage else 0
    row = {
        "directory": directory, "topicId": outcome.topic_id, "logStartOffset": outcome.log_start,
        "logEndOffset": built.end, "lastLeaderEpoch": built.last_epoch, "segments": built.segments,
        "newBytes": built.size, "wasThere": outcome.was_done,
    }  # fmt: skip
    if found is None:
        printer.show(row, True, False, (), (), (), built.damage)
        return
    holes = [(hole.first, hole.last) for hole in found.holes]
    is_made = bool(found.pieces or found.local)
    left_out = _left_out(found.left_out, directory)
    printer.show(row, is_made, found.is_deleted, left_out, found.remarks, holes, built.damage)


def _left_out(found: Iterable[UnusedSegment], directory: str) -> list[dict[str, Any]]:
    return [
        {
            "directory": directory, "firstOffset": left.first_offset, "lastOffset": left.last_offset,
            "from": left.path, "reason": left.reason,
        }
        for left in found
    ]  # fmt: skip


_SALVAGE_OPTIONS = {
    "from_replica": "--from-replica",
    "records": "--records",
    "drops_undecodable": "--drop-undecodable",
    "drop_batches": "--drop-batch",
}


def _topic_id(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and (not is_uuid(value) or value == ZERO_UUID_TEXT):
        raise click.BadParameter(
            f"{value!r} is not a topic id: 22 characters of base64url, as kafka-topics.sh shows it"
        )
    return value


@click.command("recover", cls=Command)
@click.argument("paths", nargs=-1, metavar="PATH...", type=LogPath())
@click.option(
    "--mode",
    type=click.Choice(["broker", "salvage"]),
    default="broker",
    show_default=True,
    help="broker: as a broker's start after an unclean shutdown; salvage: remove only damaged bytes.",
)
@click.option(
    "--from-replica",
    type=click.Path(),
    metavar="DIR",
    help="Salvage, and fill gaps from another replica: a partition or its log directory.",
)
@click.option(
    "--records",
    type=click.Path(),
    metavar="FILE",
    help="Salvage, and write the decodable records of broken batches to FILE, as JSON Lines.",
)
@click.option(
    "--drop-undecodable",
    "drops_undecodable",
    is_flag=True,
    help="Salvage, and drop batches whose records cannot be decoded, though their checksums are right.",
)
@click.option(
    "--drop-batch",
    "drop_batches",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="OFFSET",
    help="Salvage, and drop the batch that holds this offset; may be repeated.",
)
@click.option(
    "--full",
    "scans_all",
    is_flag=True,
    help="Scan every segment, even after a clean shutdown or below the recovery point.",
)
@click.option(
    "--undelete",
    "undeletes",
    is_flag=True,
    help="Restore directories that end in -delete, -stray or -future, and segments that end in .deleted.",
)
@click.option(
    "--rebuild-epochs",
    "rebuilds_epochs",
    is_flag=True,
    help="Rebuild leader-epoch-checkpoint from the batches; in a log directory only if it is missing or bad.",
)
@click.option("--topic-id", metavar="UUID", callback=_topic_id, help="Write this topic id to partition.metadata.")
@era_option()
@click.option(
    "--max-message-bytes",
    type=ByteCount(),
    default=DEFAULT_MESSAGE_LIMIT_BYTES,
    show_default=True,
    help="With --era 0.8.1 to 0.10.2: a larger message counts as damaged, as for such a broker.",
)
@rebuild_options
@interval_option
@server_option
@now_option
@jobs_option
@spool_options
@changing_options
def command(
    paths: tuple[str, ...],
    change: ChangeOptions,
    presentation: Presentation,
    remote: RebuildOptions,
    spool: Spool,
    records: str | None,
    **given: Any,
) -> int:
    """Repair a partition directory, or all partitions of a log directory, after a crash or disk damage.

    Mode broker produces the same bytes as a start of the newest broker, or of release --era: it truncates the log at
    the first invalid batch, deletes later segments, and rebuilds indexes and snapshots. Mode salvage keeps every intact
    batch at its own offset; use it for the last copy, because a replica never fetches the gaps again. Removed bytes are
    kept: see kseg undo.
    """
    keep_freed_memory()
    options = _options(records, **given)
    check_options(paths, change, remote, options, records)
    if remote.store is not None:
        with use_spool(spool):
            return recover_from_remote(paths, change, presentation, remote, options)
    options = replace(
        options,
        topics=remote.topics,
        name=remote.name,
        new_cluster=remote.new_cluster,
        resets_epochs=remote.resets_epochs,
    )
    make_planner = partial(RecoveryPlanner, options, make_checks=partial(recovery_checks, options.server))
    try:
        if options.topic_id or options.name:
            check_one_topic(paths, "the paths are of several topics")
        if records is not None:
            from kseg.dump.unproven_records import RecordsFile

            make_planner = partial(make_planner, write_records=RecordsFile(records, paths).write)
    except RequestError as error:
        raise click.UsageError(str(error)) from error
    with use_spool(spool):
        return run_change(paths, make_planner, change, presentation).exit_status


def _options(
    records: str | None,
    mode: str,
    from_replica: str | None,
    drop_batches: tuple[int, ...],
    era: Era,
    max_message_bytes: int,
    **given: Any,
) -> RecoverOptions:
    """Returns the options; some imply mode salvage. Raises UsageError."""
    wanted = {"records": records, "from_replica": from_replica, "drop_batches": drop_batches, **given}
    implying = [option for name, option in _SALVAGE_OPTIONS.items() if wanted[name] not in (None, False, ())]
    if implying:
        is_given = click.get_current_context().get_parameter_source("mode") is ParameterSource.COMMANDLINE
        if mode == BROKER and is_given:
            raise click.UsageError(f"{implying[0]} excludes --mode broker")
        mode = SALVAGE
    return RecoverOptions(
        mode=mode,
        from_replica=resolved(from_replica) if from_replica else None,
        drop_batches=frozenset(drop_batches),
        era=replace(era, message_limit_bytes=max_message_bytes),
        **given,
    )
