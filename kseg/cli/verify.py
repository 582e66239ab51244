"""``kseg verify``: judges segments, partitions and log directories."""

import gc
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kseg.cli.engine import engine_options, spark_session
from kseg.cli.options import ByteCount, output_options
from kseg.errors import KsegError, StoppedHalfwayError
from kseg.findings.table import KINDS
from kseg.kernel.files.guard import keep_freed_memory
from kseg.limits import MAX_BATCH_BYTES
from kseg.output.findings.forms import printer_of
from kseg.output.notices import Notices, on_one_line
from kseg.output.progress_over import progress_over
from kseg.output.sink import open_sink
from kseg.runtime.cores import usable_cores
from kseg.stores.unreadable import is_disk_error
from kseg.verification.repairs import Repairs
from kseg.verification.report import Finding, Report
from kseg.verification.settings import Settings
from kseg.verification.verification import judge_path

if TYPE_CHECKING:
    from kseg.verification.replicas.comparison import Comparison

MOST_HELD = 1000
"""Findings of one partition that are held back before they are printed."""
LEVELS = ("quick", "full", "deep")


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
    type=click.Choice(["text", "json", "junit"]),
    default="text",
    show_default=True,
    help="Form of the output; junit: a report for CI servers.",
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
@click.option("--now", type=click.IntRange(min=0), metavar="MS", help="What counts as now, in ms since the epoch.")
@click.option(
    "--max-batch-bytes", type=ByteCount(), default=MAX_BATCH_BYTES, help="What one batch may decompress to (256M)."
)
@click.option("--era", type=click.Choice(["0.7"]), help="Read files as those of 0.6 and 0.7 whatever their suffix.")
@click.option(
    "--live", is_flag=True, help="The last segment is being written: a partial batch at its end is no damage."
)
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Work with N threads or processes (the cores).")
@engine_options
@output_options
def command(**options: Any) -> int:
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
    with spark_session(options) as spark:
        return Run(options, spark).run()


class Run:
    """One run over all PATHs; with a session of Spark, partitions are judged there."""

    def __init__(self, options: dict[str, Any], spark: Any = None) -> None:
        self.options = options
        self._spark = spark
        self.paths: tuple[str, ...] = options["paths"]
        self.jobs = options["jobs"] or usable_cores()
        self.notices = Notices(options["color"], options["quiet"], options["verbose"])
        self.progress = progress_over(self.paths, options["quiet"])
        if self.progress.total is not None:
            self.progress.total *= 1 + bool(options["manifest"]) + bool(options["against"])
        self.notices.before = self.progress.erase
        self.repairs = Repairs(self.paths)
        self.status = 0
        self._held: list[Finding] = []
        self._held_place = ""
        self._settled: deque[Finding] = deque()

    def run(self) -> int:
        """Judges, compares, writes; the exit status."""
        options = self.options
        with open_sink(options["output"]) as sink:
            self.printer = printer_of(options["form"], sink, options["color"], options["fail_on"], self.paths)
            self.report = Report(self._show, options["ignore"])
            try:
                with self.progress:
                    self._judge()
            except KeyboardInterrupt:
                self.report.was_interrupted = True
                self._finish()
                raise
            self._finish()
        totals = self.report.totals
        failed = totals.errors > 0 or (options["fail_on"] == "warning" and totals.warnings > 0)
        return max(self.status, int(failed))

    def _judge(self) -> None:
        options = self.options
        now = options["now"] if options["now"] is not None else int(time.time() * 1000)
        settings = Settings(
            LEVELS.index(options["level"]), now, self.jobs, options["max_batch_bytes"], options["live"],
            options["era"] == "0.7",
        )  # fmt: skip
        judge = judge_path
        if self._spark is not None:
            from kseg.spark.jobs import judging

            judge = partial(judge_path, together=judging(self._spark))
        for path in self.paths:
            self.progress.at(path)
            self._attempt(path, partial(judge, path, settings, self.report, self.progress.advance))
            if options["against"]:
                self._attempt(path, partial(self._compare, path))
        if manifest := options["manifest"]:
            from kseg.cli.manifest import keep_manifest

            work = partial(keep_manifest, manifest, self.paths, settings, self.report)
            self._attempt(manifest, partial(work, self.progress.advance, self.notices))

    def _compare(self, path: str) -> None:
        from kseg.verification.replicas.pairs import compare_path

        compare_path(
            path, self.options["against"], self.report, self._compared, self.jobs, self.options["max_batch_bytes"],
            self.progress.advance,
        )  # fmt: skip

    def _attempt(self, path: str, work: Callable[[], None]) -> None:
        """What cannot be done of a path keeps nothing else from being done."""
        told = len(self.report.failures)
        try:
            work()
        except StoppedHalfwayError:
            raise
        except KsegError as error:
            self.report.failures.append(str(error))
        except OSError as error:
            if not is_disk_error(error):
                raise
            self.report.failures.append(f"{error.filename or path}: {error.strerror or error}")
        self._show_held()
        for failure in self.report.failures[told:]:
            self.notices.error(failure)
            self.status = KsegError.exit_status

    def _finish(self) -> None:
        self._show_held()
        self.report.steps, self.report.needs = self.repairs.steps(), self.repairs.needs()
        self.printer.finish(self.report, self.notices)

    def _show(self, finding: Finding) -> None:
        """Findings are printed when all of a partition are known: what repairs one depends on the others."""
        place = self.repairs.place_of(finding)
        if self._held and (place != self._held_place or len(self._held) == MOST_HELD):
            self._settle_held()
        self._held_place = place
        self._held.append(finding)
        self._show_settled()

    def _settle_held(self) -> None:
        self._settled.extend(self.repairs.settled_together(self._held))
        self._held.clear()

    def _show_settled(self) -> None:
        """One at a time, so that after an interrupt the rest is still there."""
        while self._settled:
            self.progress.erase()
            self.printer.show(self._settled.popleft())

    def _show_held(self) -> None:
        self._settle_held()
        self._show_settled()

    def _compared(self, comparison: "Comparison") -> None:
        self._show_held()
        self.printer.compared(comparison)


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

    if options["form"] == "junit":
        raise click.UsageError("--explain has no junit form")
    with open_sink(options["output"]) as sink:
        explain(KINDS if options["explain"] == "all" else [options["explain"]], options["form"], sink, options["color"])
    return 0
