"""``kseg verify``: checks segments, partitions and log directories."""

import gc
from dataclasses import replace
from typing import Any

import click

from kseg.cli.archives import spool_options
from kseg.cli.completion import complete_codes
from kseg.cli.engine import Engine, engine_options, spark_session
from kseg.cli.help import Command
from kseg.cli.options import (
    LogPath,
    as_presentation,
    batch_limit_option,
    era_07_option,
    number_option,
    output_options,
    server_option,
)
from kseg.cli.remote_options import remote_options
from kseg.cli.times import now_option
from kseg.errors import RequestError
from kseg.findings.table import INFO, KINDS, SEVERITIES
from kseg.kernel.files.system import keep_freed_memory
from kseg.output.findings.printer import FindingsPrinter, FindingsReporter
from kseg.output.fleet_table import CENSUS_FIELDS, MAX_SEPARATE_PARTITIONS
from kseg.output.notices import Presentation, on_one_line
from kseg.output.progress import progress_over
from kseg.output.sink import Sink, open_sink
from kseg.segment.paths import partition_count
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.remote.keys import private_keys as read_private_keys
from kseg.verification.run import LEVELS, VerifyOptions, verify


@click.command("verify", cls=Command)
@click.argument("paths", nargs=-1, metavar="PATH...", type=LogPath())
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="full",
    show_default=True,
    help="quick: headers; full: also checksums and side files; deep: also every record.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "junit", "html"]),
    default="text",
    show_default=True,
    help="Form of the output; junit: a report for CI servers; html: a page for people (needs kseg[report]).",
)
@click.option(
    "--against",
    type=LogPath(),
    metavar="DIR",
    help="Also compare with another replica: a partition, a log directory or a segment.",
)
@click.option(
    "--manifest",
    type=click.Path(readable=False),
    metavar="FILE",
    help="Also compare with the digests in FILE; if FILE does not exist, write it.",
)
@click.option(
    "--explain", metavar="CODE", shell_complete=complete_codes, help="Explain a finding ('all': all of them), and exit."
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="CODE",
    shell_complete=complete_codes,
    help="Omit findings with this code; may be repeated.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Lowest severity with exit status 1.",
)
@click.option(
    "--severity",
    type=click.Choice(SEVERITIES),
    help="Lowest severity of the findings and partitions shown; infos are only counted in text by default.",
)
@click.option(
    "--sort",
    type=click.Choice(CENSUS_FIELDS),
    metavar="FIELD",
    help=f"Print one line for each partition, and totals, sorted by FIELD: {', '.join(CENSUS_FIELDS)}. "
    "Without it, more than ten partitions get totals and a line for each with problems.",
)
@now_option
@batch_limit_option
@era_07_option
@click.option(
    "--live",
    "is_live",
    is_flag=True,
    help="The last segment is being written: a partial batch at its end is no damage.",
)
@number_option("--jobs", 1, "Number of threads or processes (default: the cores).")
@spool_options
@remote_options
@server_option
@engine_options
@output_options
@as_presentation
def command(
    engine: Engine,
    spool: Spool,
    private_keys: tuple[str, ...],
    topics: tuple[str, ...],
    explain: str | None,
    severity: str | None,
    sort: str | None,
    output: str | None,
    presentation: Presentation,
    **given: Any,
) -> int:
    """Check segments (.log, .kafka), partitions and whole log directories.

    Each finding has a code, a severity and the command that repairs it. Exit status 1: there is an error.
    """
    options = VerifyOptions(**given)
    if not options.paths and options.server is not None:
        options = replace(options, paths=tuple(options.server.log_dirs))
    _check_codes([*options.ignored, *([explain] if explain not in (None, "all") else [])])
    if explain:
        return _explain(explain, output, presentation)
    if sort is not None and presentation.form in ("junit", "html"):
        raise click.UsageError(f"--sort has no {presentation.form} form")
    if not options.paths:
        raise click.UsageError("no PATH is given")
    if options.manifest:
        if topics:
            raise click.UsageError("--manifest covers whole paths: name partitions instead of --topic")
        from kseg.verification.manifest import check_manifest_path

        try:
            check_manifest_path(options.manifest, options.paths)
        except RequestError as error:
            raise click.UsageError(str(error)) from error
    spool.omits_batches = options.needs_only_headers and not engine.is_spark
    keep_freed_memory()
    gc.freeze()  # imported modules are never freed
    others = () if options.against is None else (options.against,)
    with (
        spark_session(engine, options.jobs) as spark,
        archives_at(options.paths, spool) as found,
        archives_at(others, spool) as replicas,
    ):
        remote = RemoteChoice(read_private_keys(private_keys), topics, tuple(found))
        takes_census = _takes_census(tuple(found), sort, presentation.form)
        if len(replicas) > 1:
            raise click.UsageError(f"--against matches {len(replicas)} paths")
        against = replicas[0] if replicas else None
        options = replace(options, paths=tuple(found), against=against, remote=remote, takes_census=takes_census)
        return _verify(options, output, presentation, spark, sort, severity)


def _takes_census(paths: tuple[str, ...], sort: str | None, form: str) -> bool:
    """Whether facts about partitions are shown: on request, on a page, and as text if there are many partitions."""
    if form == "text" and sort is None:
        return partition_count(paths) > MAX_SEPARATE_PARTITIONS
    return sort is not None or form == "html"


def _verify(
    options: VerifyOptions,
    output: str | None,
    presentation: Presentation,
    spark: Any,
    sort: str | None,
    severity: str | None,
) -> int:
    checker = None
    if spark is not None:
        from kseg.spark.jobs import judging

        checker = judging(spark)
    with open_sink(output) as sink, progress_over(options.paths, presentation.quiet) as progress:
        if progress.total is not None:
            progress.total *= options.passes
        printer = _printer(options, presentation, sink, sort, severity)
        return verify(options, FindingsReporter(printer, presentation.notices(), progress), open_sink, checker)


def _printer(
    options: VerifyOptions, presentation: Presentation, sink: Sink, sort: str | None, severity: str | None
) -> FindingsPrinter:
    if presentation.form == "html":
        from kseg.report.findings import FindingsPage

        return FindingsPage(sink, options.paths, options.level, severity or INFO)
    if presentation.form == "junit":
        from kseg.output.findings.junit import JunitFindings

        return JunitFindings(sink, options.fail_on, options.paths, severity or INFO)
    if presentation.is_json:
        from kseg.output.findings.jsonl import JsonFindings

        return JsonFindings(sink, sort, severity or INFO)
    from kseg.output.findings.text import TextFindings

    return TextFindings(sink, presentation.color, sort, severity)


def _check_codes(codes: list[str]) -> None:
    """Raises UsageError for an unknown code."""
    for code in codes:
        if code in KINDS:
            continue
        from difflib import get_close_matches

        near = get_close_matches(code, KINDS, 3, 0.5)
        hint = f"; is it {' or '.join(near)}?" if near else "; --explain all lists them"
        raise click.UsageError(f"no finding has the code {on_one_line(code)!r}{hint}")


def _explain(code: str, output: str | None, presentation: Presentation) -> int:
    from kseg.output.findings.text import explain

    if presentation.form in ("junit", "html"):
        raise click.UsageError(f"--explain has no {presentation.form} form")
    with open_sink(output) as sink:
        explain(KINDS if code == "all" else [code], presentation.form, sink, presentation.color)
    return 0
