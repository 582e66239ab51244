"""``kseg verify``: judges segments, partitions and log directories."""

import time
from typing import Any

import click

from kseg.cli.options import ByteCount, output_options, usable_cores
from kseg.cli.watching import progress_over
from kseg.errors import KsegError, StoppedHalfwayError
from kseg.kernel.guard import keep_freed_memory
from kseg.limits import MAX_BATCH_BYTES
from kseg.output.findings import printer_of
from kseg.output.notices import Notices
from kseg.output.sink import open_sink
from kseg.verify.report import Finding, Report
from kseg.verify.verification import Settings, judge_path

LEVELS = ("quick", "full", "deep")


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(readable=False))
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
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the output.",
)
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
@output_options
def command(**options: Any) -> int:
    """Check segments (.log, .kafka), partitions and whole log directories.

    Each finding has a code, a severity and the command that repairs it. Exit status 1: there is one of severity error.
    """
    keep_freed_memory()
    now = options["now"] if options["now"] is not None else int(time.time() * 1000)
    jobs = options["jobs"] or usable_cores()
    settings = Settings(
        LEVELS.index(options["level"]), now, jobs, options["max_batch_bytes"], options["live"], options["era"] == "0.7"
    )
    notices = Notices(options["color"], options["quiet"], options["verbose"])
    with open_sink(options["output"]) as sink:
        printer = printer_of(options["form"], sink, options["color"])
        progress = progress_over(options["paths"], options["quiet"])

        def show(finding: Finding) -> None:
            progress.erase()
            printer.show(finding)

        report = Report(show, options["ignore"])
        status = told = 0
        notices.before = progress.erase
        try:
            with progress:
                for path in options["paths"]:
                    try:
                        judge_path(path, settings, report, progress.advance)
                    except StoppedHalfwayError:
                        raise
                    except KsegError as error:
                        report.failures.append(str(error))
                    for failure in report.failures[told:]:
                        notices.error(failure)
                        status = KsegError.exit_status
                    told = len(report.failures)
        except KeyboardInterrupt:
            report.was_interrupted = True
            printer.finish(report, notices)
            raise
        printer.finish(report, notices)
    failed = report.totals.errors > 0 or (options["fail_on"] == "warning" and report.totals.warnings > 0)
    return max(status, int(failed))
