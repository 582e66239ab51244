"""``kseg recover --from-remote``: partitions rebuilt from remote storage."""

import os
from collections.abc import Iterable
from typing import Any

import click

from kseg.changes.apply import Keeping
from kseg.changes.driver.failures import Failures
from kseg.changes.driver.planner import ChangeOptions
from kseg.changes.resumable_output import resumable_output
from kseg.errors import RequestError
from kseg.output.change_reporter import Presentation
from kseg.output.rebuilds import LeftOutRow, RebuildPrinter, RebuiltRow, Steps, rebuild_printer
from kseg.output.sink import open_report
from kseg.recovery.remote.rebuild import Outcome, Rebuild
from kseg.recovery.remote.request import RemoteRequest
from kseg.recovery.remote.selection import LeftOut
from kseg.runtime.cores import usable_cores
from kseg.stores.remote.keys import private_keys
from kseg.stores.remote.names import is_topic
from kseg.stores.remote.storage import open_storage

_ONLY_HERE = ("private_keys", "topics", "for_cluster", "reset_epochs", "as_topic")
_NOT_HERE = (
    "from_replica", "records", "drop_undecodable", "drop_batch", "full", "rebuild_epochs",
)  # fmt: skip


def check_options(paths: tuple[str, ...], change: ChangeOptions, options: dict[str, Any]) -> None:
    """Raises UsageError for options that need --from-remote, or exclude it."""
    is_remote = options["from_remote"] is not None
    for name in _NOT_HERE if is_remote else _ONLY_HERE:
        if options[name] not in (None, False, ()):
            shown = {"private_keys": "private-key", "topics": "topic", "as_topic": "as"}.get(name, name)
            relation = "excludes" if is_remote else "is for"
            raise click.UsageError(f"--{shown.replace('_', '-')} {relation} --from-remote")
    if not is_remote:
        if not paths:
            raise click.UsageError("Missing argument 'PATH...'.")
        return
    if not change.output and not change.is_dry:
        raise click.UsageError("--from-remote needs --output")
    if change.keeping != Keeping():
        raise click.UsageError("--from-remote removes nothing: no --quarantine, no --no-quarantine")
    if len(paths) > 1:
        raise click.UsageError("--from-remote takes one log directory")
    if options["for_cluster"] and options["topic_id"]:
        raise click.UsageError("--for-cluster excludes --topic-id")
    if options["as_topic"] is not None and not is_topic(options["as_topic"]):
        raise click.UsageError(f"--as {options['as_topic']!r}: no name of a topic")


def recover_from_remote(
    paths: tuple[str, ...], change: ChangeOptions, presentation: Presentation, options: dict[str, Any]
) -> int:
    """Rebuilds what is wanted; the exit status."""
    request = RemoteRequest(
        options["from_remote"], change.output or "", options["topics"], next(iter(paths), None),
        options["for_cluster"], options["topic_id"], options["as_topic"], options["reset_epochs"],
        options["index_interval_bytes"], options["jobs"] or usable_cores(),
    )  # fmt: skip
    notices = presentation.notices()
    failures = Failures(notices)
    storage = open_storage(request.store, private_keys(options["private_keys"]))
    rebuild = Rebuild(storage, request)
    if not rebuild.partitions:
        raise RequestError(f"{request.store}: holds no partition of a topic that --topic names")
    if request.topic_id or request.name:
        topics = sorted({partition.topic for partition in rebuild.partitions})
        if len(topics) > 1:
            raise click.UsageError(f"--topic-id and --as are for one topic; there are {', '.join(topics[:5])}")
    steps = Steps(request.output, request.new_cluster or "", request.topic_id is not None, request.resets_epochs)
    with open_report(change.is_dry, notices.error) as sink:
        printer = rebuild_printer(presentation.form, sink, notices, steps, change.is_dry)
        printer.left_out(_left_out(rebuild.left_out), "")
        if change.is_dry:
            for outcome in rebuild.plans():
                _show(outcome, request.output, printer, failures)
        else:
            with resumable_output(request.output, request.facts, change.takes_lock) as output:
                for outcome in rebuild.carry_out(output):
                    _show(outcome, output.directory, printer, failures)
        printer.finish(sorted(failures.places))
    would_change = change.is_dry and printer.count > 0
    return max(failures.status, int(printer.has_damage or would_change))


def _show(outcome: Outcome, output: str, printer: RebuildPrinter, failures: Failures) -> None:
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


def _left_out(found: Iterable[LeftOut]) -> list[LeftOutRow]:
    return [LeftOutRow(left.path, left.first_offset, left.last_offset, left.reason) for left in found]
