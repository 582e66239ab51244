"""``kseg recover``: repairs logs as a broker's start after a crash does, or keeps every intact batch."""

from dataclasses import replace
from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from kseg.changes.driver.planner import ChangeOptions
from kseg.cli.archives import spool_options
from kseg.cli.changing import run_change
from kseg.cli.changing_options import changing_options
from kseg.cli.eras import era_option
from kseg.cli.from_remote import check_options, recover_from_remote
from kseg.cli.help import Command
from kseg.cli.options import ByteCount, LogPath, interval_option, jobs_option, server_option
from kseg.cli.remote_options import RebuildOptions, rebuild_options
from kseg.cli.times import now_option
from kseg.errors import RequestError
from kseg.kernel.files.guard import keep_freed_memory
from kseg.output.presentation import Presentation
from kseg.recovery.options import BROKER, SALVAGE, RecoverOptions
from kseg.recovery.planner import RecoveryPlanner, check_one_topic
from kseg.releases.recovery import DEFAULT_MESSAGE_LIMIT_BYTES, Era
from kseg.sidefiles.identifiers import ZERO, is_uuid
from kseg.stores.archives.spool import Spool, use_spool
from kseg.stores.no_follow import resolved
from kseg.verification.repairs import recovery_checks

_SALVAGE_OPTIONS = {
    "from_replica": "--from-replica",
    "records": "--records",
    "drops_undecodable": "--drop-undecodable",
    "drop_batches": "--drop-batch",
}


def _topic_id(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and (not is_uuid(value) or value == ZERO):
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
