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
from kseg.cli.options import ByteCount, all_paths, output_options, paths_argument
from kseg.cli.remote_options import remote_options
from kseg.dump.decoding import INTERNAL_TOPICS
from kseg.dump.options import JSON, TABLE, TEXT, DumpOptions
from kseg.dump.run import Dump
from kseg.kernel.files.guard import keep_freed_memory
from kseg.limits import MAX_BATCH_BYTES
from kseg.output.notices import Notices
from kseg.output.sink import Sink, open_sink
from kseg.stores.archives.spool import Spool
from kseg.stores.remote.choice import RemoteChoice
from kseg.stores.remote.keys import private_keys


@click.command("dump", cls=Command)
@paths_argument
@click.option("--deep-iteration", is_flag=True, help="Print the records of each batch, not only the batch.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values too; implies --deep-iteration.")
@click.option("--skip-record-metadata", is_flag=True, help="Text: leave out all of a record but its key and value.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "table", "html"]),
    default="text",
    show_default=True,
    help="Form of the output.",
)
@content_options
@filter_options
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Stop after N records, or N batches without --deep-iteration.",
)
@click.option(
    "--isolation",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="read_committed leaves out aborted transactions and all from the last stable offset on.",
)
@click.option("--max-bytes", type=ByteCount(), help="Read only the first BYTES of each file (whole batches inside).")
@click.option(
    "--max-batch-bytes", type=ByteCount(), default=MAX_BATCH_BYTES, help="What one batch may decompress to (256M)."
)
@click.option("--era", type=click.Choice(["0.7"]), help="Read files as those of 0.6 and 0.7 whatever their suffix.")
@decoder_options
@click.option(
    "--fetch-response", is_flag=True, help="The files are captured answers to fetch requests, of 0.6 and 0.7."
)
@click.option(
    "--live", is_flag=True, help="The last segment is being written: a partial batch at its end is no damage."
)
@click.option("--stop-on-damage", is_flag=True, help="End at the first damage instead of going on behind it.")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Of directories, print side files and .deleted, .cleaned, .swap files too.",
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Work with N threads (default: the cores).")
@side_file_options
@view_options
@remote_options
@spool_options
@engine_options
@output_options
def command(engine: Engine, spool: Spool, **given: Any) -> int:
    """Print the batches and records of segments (.log, .kafka, .checkpoint).

    Text is that of kafka-dump-log.sh 4.3 where that tool reads a file to its end; it goes on behind damage. JSON is one
    object a line and loses no byte. Exit status 1: damage, a wrong checksum or undecodable records were met.
    """
    as_page = given["form"] == "html"
    if as_page:
        given["form"] = JSON
    options = _options(given)
    _check(options)
    if as_page and not options.summary:
        raise click.UsageError("--format html is for --summary")
    keep_freed_memory()
    if engine.is_spark:
        _check_for_spark(options)
    notices = Notices(options.color, options.quiet, options.verbose)
    with ExitStack() as stack:
        sink = stack.enter_context(open_sink(options.output))
        if as_page:
            from kseg.report.rows import SUMMARY, html_report

            sink = stack.enter_context(html_report(sink, SUMMARY, "kseg dump --summary", options.paths))
        spark = stack.enter_context(spark_session(engine, options.jobs))
        if spark is None:
            return over_archives(options.paths, spool, notices, lambda paths: _dump(sink, options, paths))
        from kseg.spark.dump import Remote

        return Dump(sink, options, lambda files: Remote(spark, options, sink.is_terminal, files)).run()


def _dump(sink: Sink, options: DumpOptions, paths: Sequence[str]) -> int:
    return Dump(sink, replace(options, paths=paths)).run()


def _options(given: dict[str, Any]) -> DumpOptions:
    """Raises UsageError where no PATH is given, or two ways to choose a decoder."""
    decoder = next((name for name in INTERNAL_TOPICS if given[name.replace("-", "_") + "_decoder"]), None)
    if decoder is not None and given["decode"]:
        raise click.UsageError(f"--decode auto chooses by topic: give it or --{decoder}-decoder")
    committed_offsets = given["committed_offsets"] or (given["offsets_decoder"] and given["form"] == TABLE)
    return DumpOptions(
        paths=all_paths(given["paths"], given["files"]),
        form=TABLE if committed_offsets and given["form"] == TEXT else given["form"],
        everything=given["everything"],
        deep=given["deep_iteration"],
        contents=given["print_data_log"],
        skip_record_metadata=given["skip_record_metadata"],
        decoder=decoder,
        decode_by_topic=given["decode"] is not None,
        key_format=given["key_format"] or given["key_decoder_class"],
        value_format=given["value_format"] or given["value_decoder_class"],
        redact=given["redact"],
        offsets=given["offsets"],
        times=given["time"],
        key=given["key"],
        key_pattern=given["key_pattern"],
        grep=given["grep"],
        producer_id=given["producer_id"],
        read_committed=given["isolation"] == "read_committed",
        limit=given["limit"],
        last=given["last"],
        around=given["around"],
        committed_offsets=committed_offsets,
        open_transactions=given["open_transactions"],
        transaction_state=given["transaction_state"],
        now=given["now"],
        as_hex=given["as_hex"],
        positions=given["position"],
        summary=given["summary"] or bool(given["what_if"]) or given["sort"] is not None,
        sort=given["sort"],
        what_if=given["what_if"],
        sample=given["sample"],
        max_bytes=given["max_bytes"],
        max_batch_bytes=given["max_batch_bytes"],
        is_07=given["era"] == "0.7",
        fetch_response=given["fetch_response"],
        remote=RemoteChoice(private_keys(given["private_keys"]), given["topics"]),
        live=given["live"],
        stop_on_damage=given["stop_on_damage"],
        max_message_size=given["max_message_size"],
        verify_index_only=given["verify_index_only"],
        index_sanity_check=given["index_sanity_check"],
        jobs=given["jobs"],
        output=given["output"],
        color=given["color"],
        quiet=given["quiet"],
        verbose=given["verbose"],
    )


def _check(options: DumpOptions) -> None:
    """Raises UsageError for options that exclude each other."""
    others = options.as_hex or options.summary or options.open_transactions or options.everything
    if options.committed_offsets and others:
        raise click.UsageError("--committed-offsets goes with none of --hex, --summary, --open-transactions, --all")
    if options.open_transactions and (options.as_hex or options.summary):
        raise click.UsageError("--open-transactions goes neither with --hex nor with --summary")
    if options.as_hex and (options.summary or options.form != TEXT):
        raise click.UsageError("--hex goes neither with --summary nor with another --format than text")
    if options.summary and options.form == TABLE:
        raise click.UsageError("--summary has --format text and json")
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


def _check_for_spark(options: DumpOptions) -> None:
    """Raises UsageError for options that need one reader from the first record to the last."""
    wanted = {
        "--offsets": options.offsets, "--time": options.times, "--key": options.key,
        "--producer-id": options.producer_id, "--limit": options.limit, "--last": options.last,
        "--around": options.around, "--key-pattern": options.key_pattern, "--grep": options.grep,
        "--topic": options.remote.topics or None,
        "--isolation": options.read_committed, "--stop-on-damage": options.stop_on_damage,
        "--open-transactions": options.open_transactions, "--committed-offsets": options.committed_offsets,
        "--fetch-response": options.fetch_response, "--hex": options.as_hex, "--summary": options.summary,
        "--format table": options.form == TABLE,
    }  # fmt: skip
    for name, value in wanted.items():
        if value not in (None, False):
            raise click.UsageError(f"{name} is for the local engine")
