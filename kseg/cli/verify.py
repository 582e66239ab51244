"""``kseg verify``: judges segments, partitions and log directories."""

import gc
import time
from functools import partial
from typing import Any

import click

from kseg.cli.archives import mounted, spool_options
from kseg.cli.engine import Engine, engine_options, spark_session
from kseg.cli.options import ByteCount, output_options
from kseg.cli.remote_options import remote_options
from kseg.cli.times import TimePoint
from kseg.errors import KsegError
from kseg.findings.table import KINDS
from kseg.kernel.files.guard import keep_freed_memory
from kseg.limits import MAX_BATCH_BYTES
from kseg.output.findings.forms import printer_of
from kseg.output.findings.printer import FindingsPrinter
from kseg.output.notices import Notices, on_one_line
from kseg.output.progress_over import progress_over
from kseg.output.sink import Sink, open_sink
from kseg.runtime.cores import usable_cores
from kseg.stores.archives.spool import Spool
from kseg.stores.remote.keys import private_keys
from kseg.stores.remote.storage import RemoteChoice
from kseg.verification.check import LEVELS, Check
from kseg.verification.report import Finding
from kseg.verification.settings import Settings


@click.command("verify")
@click.argument("paths", nargs=-1, metavar="PATH...", type=click.Path(readable=False))
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="full",
    show_default=True,
    help="quick: headers alone; full: checksums and side files too; deep: every record as well.",
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
    type=click.Path(readable=False),
    metavar="DIR",
    help="Compare with another replica as well: a partition, a log directory or a segment.",
)
@click.option(
    "--manifest",
    type=click.Path(readable=False),
    metavar="FILE",
    help="Check against the digests in FILE as well; if there is no FILE, write them.",
)
@click.option("--explain", metavar="CODE", help="Tell about a finding, or all of them, and end.")
@click.option("--ignore", multiple=True, metavar="CODE", help="Leave out findings of this code; may be repeated.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="Exit with 1 from this severity on.",
)
@click.option("--now", type=TimePoint(), help="What counts as now: a time, as 2026-01-31 or -2h.")
@click.option(
    "--max-batch-bytes", type=ByteCount(), default=MAX_BATCH_BYTES, help="What one batch may decompress to (256M)."
)
@click.option("--era", type=click.Choice(["0.7"]), help="Read files as those of 0.6 and 0.7 whatever their suffix.")
@click.option(
    "--live", is_flag=True, help="The last segment is being written: a partial batch at its end is no damage."
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Work with N threads or processes (the cores).")
@spool_options
@remote_options
@engine_options
@output_options
def command(engine: Engine, spool: Spool, **options: Any) -> int:
    """Check segments (.log, .kafka), partitions and whole log directories.

    Each finding has a code, a severity and the command that repairs it. Exit status 1: there is one of severity error.
    """
    _check_codes([*options["ignore"], *([options["explain"]] if options["explain"] not in (None, "all") else [])])
    if options["explain"]:
        return _explain(options)
    if not options["paths"]:
        raise click.UsageError("no PATH is given")
    if options["manifest"]:
        from kseg.cli.manifest import check_place

        check_place(options["manifest"], options["paths"])
    keep_freed_memory()
    gc.freeze()  # what was imported stays
    with spark_session(engine, options["jobs"]) as spark, mounted(options["paths"], spool) as paths:
        options["paths"] = tuple(paths)
        return Run(options, spark).run()


class Run:
    """One run over all PATHs; with a session of Spark, partitions are judged there."""

    def __init__(self, options: dict[str, Any], spark: Any = None) -> None:
        self.options = options
        self._spark = spark
        self.paths: tuple[str, ...] = options["paths"]
        self.notices = Notices(options["color"], options["quiet"], options["verbose"])
        self.progress = progress_over(self.paths, options["quiet"])
        if self.progress.total is not None:
            self.progress.total *= 1 + bool(options["manifest"]) + bool(options["against"])
        self.notices.before = self.progress.erase
        self.status = 0

    def run(self) -> int:
        """Judges, compares, writes; the exit status."""
        options = self.options
        with open_sink(options["output"]) as sink:
            self.printer = self._printer(sink)
            check = Check(
                self.paths, self._settings(), self._show, options["ignore"], self._together(),
                progress=self.progress.advance,
            )  # fmt: skip
            try:
                with self.progress:
                    self._judge(check)
            except KeyboardInterrupt:
                check.report.was_interrupted = True
                self.printer.finish(check.finish(), self.notices)
                raise
            self.printer.finish(check.finish(), self.notices)
        totals = check.report.totals
        failed = totals.errors > 0 or (options["fail_on"] == "warning" and totals.warnings > 0)
        return max(self.status, int(failed))

    def _printer(self, sink: Sink) -> FindingsPrinter:
        options = self.options
        if options["form"] == "html":
            from kseg.report.findings import FindingsPage

            return FindingsPage(sink, self.paths, options["level"])
        return printer_of(options["form"], sink, options["color"], options["fail_on"], self.paths)

    def _settings(self) -> Settings:
        options = self.options
        now = options["now"] if options["now"] is not None else int(time.time() * 1000)
        return Settings(
            LEVELS.index(options["level"]), now, options["jobs"] or usable_cores(), options["max_batch_bytes"],
            options["live"], options["era"] == "0.7",
            RemoteChoice(private_keys(options["private_keys"]), options["topics"], self.paths),
        )  # fmt: skip

    def _together(self) -> Any:
        if self._spark is None:
            return None
        from kseg.spark.jobs import judging

        return judging(self._spark)

    def _judge(self, check: Check) -> None:
        options = self.options
        for path in self.paths:
            self.progress.at(path)
            self._tell(check.judge(path))
            if options["against"]:
                self._tell(check.compare(path, options["against"], self.printer.compared))
        if manifest := options["manifest"]:
            from kseg.cli.manifest import keep_manifest

            work = partial(keep_manifest, manifest, self.paths, check.settings, check.report)
            self._tell(check.attempt(manifest, partial(work, self.progress.advance, self.notices)))

    def _tell(self, failures: list[str]) -> None:
        for failure in failures:
            self.notices.error(failure)
            self.status = KsegError.exit_status

    def _show(self, finding: Finding) -> None:
        self.progress.erase()
        self.printer.show(finding)


def _check_codes(codes: list[str]) -> None:
    """Raises UsageError for a code that no finding has."""
    for code in codes:
        if code in KINDS:
            continue
        from difflib import get_close_matches

        near = get_close_matches(code, KINDS, 3, 0.5)
        hint = f"; is it {' or '.join(near)}?" if near else "; --explain all lists them"
        raise click.UsageError(f"no finding has the code {on_one_line(code)!r}{hint}")


def _explain(options: dict[str, Any]) -> int:
    from kseg.output.explanations import explain

    if options["form"] in ("junit", "html"):
        raise click.UsageError(f"--explain has no {options['form']} form")
    with open_sink(options["output"]) as sink:
        explain(KINDS if options["explain"] == "all" else [options["explain"]], options["form"], sink, options["color"])
    return 0
