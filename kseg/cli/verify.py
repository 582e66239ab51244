"""``kseg verify``: checks segments, partitions and log directories."""

import gc
from contextlib import suppress
from dataclasses import replace
from functools import partial

import click

from kseg.cli import options as cli
from kseg.errors import KsegError
from kseg.findings.table import INFO, KINDS
from kseg.node.paths import expanded
from kseg.node.topics import Topics
from kseg.options.declaration import CONTENTS, Option
from kseg.output import findings
from kseg.output.fleet_table import CENSUS_FIELDS, MAX_SEPARATE_PARTITIONS
from kseg.output.notices import Color, Presentation, on_one_line
from kseg.output.progress import Progress, progress_over
from kseg.output.sink import Sink, open_sink
from kseg.segment.paths import expand_path, partition_count
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool
from kseg.stores.remote.keys import RemoteChoice
from kseg.stores.remote.keys import private_keys as read_private_keys
from kseg.verification.run import VerifyOptions, verify

_OPTIONS = {
    "form": cli.form(
        "Form of the output; junit: a report for CI servers; html: a page for people (needs kseg[report]).",
        "text", "json", "junit", "html",
    ),
    "explain": Option(
        "--explain", CONTENTS, "Explain a finding ('all': all of them), and exit.", metavar="CODE"
    ),
    "sort": Option(
        "--sort", CONTENTS,
        f"Print one line for each partition, and totals, sorted by FIELD: {', '.join(CENSUS_FIELDS)}. "
        "Without it, more than ten partitions get totals and a line for each with problems.",
        CENSUS_FIELDS, metavar="FIELD",
    ),
}  # fmt: skip


@click.command("verify", cls=cli.Command)
@cli.paths_argument(is_required=False)
@cli.with_options(_OPTIONS)
@cli.filled(VerifyOptions)
@cli.spool_options
@cli.engine_options
@cli.output_options
def command(
    options: VerifyOptions,
    engine: cli.Engine,
    spool: Spool,
    explain: str | None,
    sort: str | None,
    output: str | None,
    form: str,
    color: Color,
    quiet: bool,
    verbose: bool,
) -> int:
    """Check segments (.log, .kafka), partitions and whole log directories.

    Each finding has a code, a severity and the command that repairs it. Exit status 1: there is an error.
    """
    presentation = Presentation(form, color, quiet, verbose)
    if not options.paths and options.server is not None:
        options = replace(options, paths=tuple(options.server.directories))
    for code in [*options.ignored, *([explain] if explain is not None and explain != "all" else [])]:
        if code not in KINDS:
            from difflib import get_close_matches

            near = get_close_matches(code, KINDS, 3, 0.5)
            hint = f"; is it {' or '.join(near)}?" if near else "; --explain all lists them"
            raise click.UsageError(f"no finding has the code {on_one_line(code)!r}{hint}")
    if explain:
        if form in ("junit", "html"):
            raise click.UsageError(f"--explain has no {form} form")
        with open_sink(output) as sink:
            findings.put_explanations(KINDS if explain == "all" else [explain], form, sink, color)
        return 0
    if sort is not None and form in ("junit", "html"):
        raise click.UsageError(f"--sort has no {form} form")
    if not options.paths:
        raise click.UsageError("no PATH is given")
    if options.manifest:
        if options.topics:
            raise click.UsageError("--manifest covers whole paths: name partitions instead of --topic")
        from kseg.verification.manifest import check_manifest_path

        with cli.usage_errors():
            check_manifest_path(options.manifest, options.paths)
    with cli.usage_errors():
        options.check()
    spool.omits_batches = options.needs_only_headers and not engine.is_spark
    gc.freeze()  # imported modules are never freed
    others = () if options.against is None else (options.against,)
    with (
        cli.spark_session(engine, options.jobs) as spark,
        archives_at(options.paths, spool, is_live=options.is_live) as found,
        archives_at(others, spool, is_live=options.is_live) as replicas,
    ):
        remote = RemoteChoice(read_private_keys(options.private_keys), options.topics, tuple(found))
        cli.check_topics(found, presentation.notices())
        if len(replicas) > 1:
            raise click.UsageError(f"--against matches {len(replicas)} paths")
        against = replicas[0] if replicas else None
        # Facts about partitions are shown on request, on a page, and as text if there are many partitions.
        takes_census = sort is not None or form == "html"
        takes_census |= (
            form == "text" and not takes_census and partition_count(expanded(found)) > MAX_SEPARATE_PARTITIONS
        )
        options = replace(options, paths=tuple(found), against=against, remote=remote, takes_census=takes_census)
        checker = None
        if spark is not None:
            from kseg.spark.jobs import check_partitions

            checker = partial(check_partitions, spark)
        with open_sink(output) as sink, progress_over(options.paths, quiet) as progress:
            if progress.total is not None:
                progress.total *= options.passes
            return verify(options, _printer(options, presentation, sink, progress, sort), open_sink, checker)


def _printer(
    options: VerifyOptions, presentation: Presentation, sink: Sink, progress: Progress, sort: str | None
) -> findings.FindingsPrinter:
    outputs, least = (sink, presentation.notices(), progress), options.severity or INFO
    if presentation.form == "html":
        from kseg.report.pages import FindingsPage

        return FindingsPage(*outputs, options.paths, _parts(options), options.level, least)
    if presentation.form == "junit":
        return findings.JunitFindings(*outputs, options.fail_on, _parts(options), least)
    if presentation.form == "json":
        return findings.JsonFindings(*outputs, sort, least)
    return findings.TextFindings(*outputs, presentation.color, sort, options.severity)


def _parts(options: VerifyOptions) -> list[str]:
    """Returns the partitions and files that are checked, without what fails: the report tells of it."""
    found, topics = list[str](), Topics(options.topics)
    for path in expanded(options.paths):
        with suppress(KsegError):
            found += topics.parts(path)[0] if options.topics else expand_path(path)
    return found
