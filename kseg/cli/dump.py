"""``kseg dump``: the batches and records of segments, as kafka-dump-log.sh prints them or as JSON Lines."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import click

from kseg.cli.archives import over_archives, spool_options
from kseg.cli.dump_options import content_options, decoder_options, filter_options, side_file_options, view_options
from kseg.cli.engine import Engine, engine_options, spark_session
from kseg.cli.help import Command
from kseg.cli.options import (
    ByteCount,
    all_paths,
    batch_limit_option,
    era_07_option,
    isolation_option,
    number_option,
    output_options,
    paths_or_files_argument,
    refuse,
    threads_option,
)
from kseg.cli.remote_options import remote_options
from kseg.dump.options import FORMS, JSON, TABLE, TEXT, DumpOptions
from kseg.dump.run import Dump
from kseg.kernel.files.system import keep_freed_memory
from kseg.output.notices import Notices
from kseg.output.sink import Sink, open_sink
from kseg.stores.archives.spool import Spool
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.remote.keys import private_keys as read_private_keys


@click.command("dump", cls=Command)
@paths_or_files_argument
@click.option("--deep-iteration", "deep", is_flag=True, help="Print the records of each batch, too.")
@click.option("--print-data-log", "contents", is_flag=True, help="Print keys and values; implies --deep-iteration.")
@click.option("--skip-record-metadata", is_flag=True, help="Text: print only the key and value of a record.")
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMS, "html"]),
    default="text",
    show_default=True,
    help="Form of the output.",
)
@content_options
@filter_options
@number_option("--limit", 0, "Stop after N records, or N batches without --deep-iteration.")
@isolation_option
@click.option("--max-bytes", type=ByteCount(), help="Read only the complete batches in the first BYTES of each file.")
@batch_limit_option
@era_07_option
@decoder_options
@click.option("--fetch-response", is_flag=True, help="The files are captured fetch responses of Kafka 0.6 and 0.7.")
@click.option(
    "--live", is_flag=True, help="The last segment is being written: a partial batch at its end is no damage."
)
@click.option("--stop-on-damage", is_flag=True, help="Stop at the first damage; default: continue after it.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Of directories, print side files and .deleted, .cleaned, .swap files too.",
)
@threads_option
@side_file_options
@view_options
@remote_options
@spool_options
@engine_options
@output_options
def command(
    engine: Engine,
    spool: Spool,
    paths: tuple[str, ...],
    files: str | None,
    form: str,
    private_keys: tuple[str, ...],
    topics: tuple[str, ...],
    **given: Any,
) -> int:
    """Print the batches and records of segments (.log, .kafka, .checkpoint).

    Text equals the output of kafka-dump-log.sh 4.4, but continues after damage. JSON is one object per line and loses
    no byte. Exit status 1: damage, a wrong checksum or undecodable records were found.
    """
    as_page = form == "html"
    remote = RemoteChoice(read_private_keys(private_keys), topics)
    options = _implied(DumpOptions(all_paths(paths, files), JSON if as_page else form, remote=remote, **given))
    _check(options)
    if as_page and not options.summary:
        raise click.UsageError("--format html is for --summary")
    keep_freed_memory()
    if engine.is_spark:
        refuse(_for_one_reader(options), "is for the local engine")
    notices = Notices(options.color, options.quiet, options.verbose)
    with ExitStack() as stack:
        sink = stack.enter_context(open_sink(options.output))
        if as_page:
            from kseg.report.rows import SUMMARY, html_report

            sink = stack.enter_context(html_report(sink, SUMMARY, "kseg dump --summary", options.paths))
        spark = stack.enter_context(spark_session(engine, options.jobs))
        if spark is None:
            return over_archives(options.paths, spool, notices, lambda paths: _dump(sink, options, paths))
        from kseg.spark.dump import SparkRenderer

        return Dump(sink, options, lambda files: SparkRenderer(spark, options, sink.is_terminal, files)).run()


def _dump(sink: Sink, options: DumpOptions, paths: Sequence[str]) -> int:
    return Dump(sink, replace(options, paths=paths)).run()


def _implied(options: DumpOptions) -> DumpOptions:
    """Sets the options that others imply."""
    lists_offsets = options.committed_offsets or (options.decoder == "offsets" and options.form == TABLE)
    return replace(
        options,
        committed_offsets=lists_offsets,
        form=TABLE if lists_offsets and options.form == TEXT else options.form,
        summary=options.summary or bool(options.what_if) or options.sort is not None,
    )


def _check(options: DumpOptions) -> None:
    """Raises UsageError for options that exclude each other."""
    if options.decoder is not None and options.decode_by_topic:
        raise click.UsageError(f"--decode auto chooses by topic: give it or --{options.decoder}-decoder")
    others = options.as_hex or options.summary or options.open_transactions or options.everything
    if options.committed_offsets and others:
        raise click.UsageError("--committed-offsets excludes --hex, --summary, --open-transactions and --all")
    if options.open_transactions and (options.as_hex or options.summary):
        raise click.UsageError("--open-transactions excludes --hex and --summary")
    if options.as_hex and (options.summary or options.form != TEXT):
        raise click.UsageError("--hex excludes --summary and all --format except text")
    if options.summary and options.form == TABLE:
        raise click.UsageError("--summary has --format text, json and html")
    if options.transaction_state and not options.open_transactions:
        raise click.UsageError("--transaction-state is for --open-transactions")
    nearest = options.last is not None or options.around is not None
    if nearest and (options.offsets or (options.last is not None and options.around is not None)):
        raise click.UsageError("--last, --around and --offsets exclude each other")
    if nearest and ("-" in options.paths or options.fetch_response):
        raise click.UsageError("--last and --around need files, to be read twice")
    if options.positions and not options.as_hex:
        raise click.UsageError("--position is for --hex")
    if options.sample and not options.what_if:
        raise click.UsageError("--sample is for --what-if")


def _for_one_reader(options: DumpOptions) -> dict[str, bool]:
    """Returns the options that need one reader from the first record to the last, and whether each is given."""
    return {
        "--offsets": options.offsets is not None,
        "--time": options.times is not None,
        "--key": options.key is not None,
        "--producer-id": options.producer_id is not None,
        "--limit": options.limit is not None,
        "--last": options.last is not None,
        "--around": options.around is not None,
        "--key-pattern": options.key_pattern is not None,
        "--grep": options.grep is not None,
        "--topic": bool(options.remote.topics),
        "--isolation": options.read_committed,
        "--stop-on-damage": options.stop_on_damage,
        "--open-transactions": options.open_transactions,
        "--committed-offsets": options.committed_offsets,
        "--fetch-response": options.fetch_response,
        "--hex": options.as_hex,
        "--summary": options.summary,
        "--format table": options.form == TABLE,
    }
