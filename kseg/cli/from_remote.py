"""``kseg recover --from-remote``: partitions rebuilt from remote storage."""

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager

import click

from kseg.changes.apply import Keeping
from kseg.changes.driver.failures import Failures
from kseg.changes.driver.planner import ChangeOptions
from kseg.changes.resumable_output import resumable_output
from kseg.changes.resumable_store_output import resumable_store_output
from kseg.cli.options import refuse
from kseg.cli.remote_options import RebuildOptions
from kseg.errors import RequestError
from kseg.output.changes.rebuilds import LeftOutRow, RebuildFacts, RebuildPrinter, RebuiltRow, rebuild_printer
from kseg.output.presentation import Presentation
from kseg.output.sink import open_report
from kseg.recovery.options import RecoverOptions
from kseg.recovery.remote.rebuild import Output, Rebuild, RebuiltPartition, RemoteRequest
from kseg.recovery.remote.selection import UnusedSegment
from kseg.runtime.threads import usable_cores
from kseg.stores.archives.spool import current_spool
from kseg.stores.remote.keys import private_keys
from kseg.stores.remote.names import is_topic
from kseg.stores.remote.storage import open_storage
from kseg.stores.stored_object import is_url, shown


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
    facts = RebuildFacts(
        shown(request.output), request.new_cluster or "", request.topic_id is not None, request.resets_epochs
    )
    with open_report(change.is_dry, notices.error) as sink:
        printer = rebuild_printer(presentation.form, sink, notices, facts, change.is_dry)
        printer.left_out(_left_out(rebuild.left_out), "")
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
    row = RebuiltRow(directory, outcome.topic_id, was_done=outcome.was_done, start=outcome.log_start)
    if (selection := outcome.selection) is not None:
        row.is_deleted = selection.is_deleted
        row.is_made = bool(selection.pieces or selection.local)
        row.holes, row.remarks = [(hole.first, hole.last) for hole in selection.holes], selection.remarks
        row.left_out = _left_out(selection.left_out)
        row.last_epoch = selection.lineage[-1].epoch if selection.lineage else 0
        row.end = selection.pieces[-1].last + 1 if selection.pieces else selection.log_start
    if (rebuilt := outcome.rebuilt) is not None:
        row.end, row.segments, row.size, row.damage = rebuilt.end, rebuilt.segments, rebuilt.size, rebuilt.damage
        row.last_epoch = rebuilt.last_epoch
    printer.show(row)


def _left_out(found: Iterable[UnusedSegment]) -> list[LeftOutRow]:
    return [LeftOutRow(left.path, left.first_offset, left.last_offset, left.reason) for left in found]
