"""Runs `kseg verify`: checks, compares and reports all paths."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from kseg.errors import KsegError
from kseg.verification.check import Check
from kseg.verification.options import VerifyOptions
from kseg.verification.report import Finding, Report

if TYPE_CHECKING:
    from kseg.verification.directories.directory_tree import PartitionChecker
    from kseg.verification.manifest.manifest_option import OpenOutput
    from kseg.verification.replicas.comparison import Comparison


class CheckReporter(Protocol):
    """Called in order while a verification runs."""

    def begin(self, path: str) -> None:
        """The check of a path starts."""

    def advance(self, count: int) -> None:
        """``count`` more bytes were read."""

    def finding(self, finding: Finding) -> None:
        """A finding, with its repair."""

    def compared(self, comparison: "Comparison") -> None:
        """Two replicas were compared."""

    def failed(self, message: str) -> None:
        """A part could not be checked; the check goes on."""

    def noted(self, message: str) -> None:
        """A note for the user."""

    def finish(self, report: Report) -> None:
        """The check ended, or was interrupted."""


def verify(
    options: VerifyOptions,
    reporter: CheckReporter,
    open_output: "OpenOutput",
    checker: "PartitionChecker | None" = None,
    single_process: bool = False,
) -> int:
    """Checks all paths. Returns the exit status.

    ``open_output``: opens a new manifest; ``checker``: checks partitions elsewhere; ``single_process``: no worker
    processes are started. After an interrupt the findings so far are reported.
    """
    check = Check(
        options.paths, options.settings(), reporter.finding, options.ignored, checker, single_process, reporter.advance
    )
    failed = False
    try:
        for failure in _failures(check, options, reporter, open_output):
            reporter.failed(failure)
            failed = True
    except KeyboardInterrupt:
        check.report.was_interrupted = True
        reporter.finish(check.finish())
        raise
    report = check.finish()
    reporter.finish(report)
    return max(KsegError.exit_status if failed else 0, int(options.fails(report.totals)))


def _failures(
    check: Check, options: VerifyOptions, reporter: CheckReporter, open_output: "OpenOutput"
) -> Iterator[str]:
    """Runs all parts of the check. Yields a message for each part that could not be checked."""
    for path in options.paths:
        reporter.begin(path)
        yield from check.judge(path)
        if options.against:
            yield from check.compare(path, options.against, reporter.compared)
    if manifest := options.manifest:
        from kseg.verification.manifest.manifest_option import keep_manifest  # few checks have a manifest

        def keep() -> None:
            done = keep_manifest(manifest, options.paths, check.settings, check.report, reporter.advance, open_output)
            reporter.noted(done)

        yield from check.attempt(manifest, keep)
