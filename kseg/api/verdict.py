"""The findings of ``kseg verify`` as data: the result of ``kseg.verify``."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Unpack

from kseg.api.archives import readable
from kseg.api.arguments import Level, Path, Paths, Reading, checked, keys_of, paths_of, words_of
from kseg.errors import PathError, refuse_if
from kseg.findings.table import KINDS
from kseg.options.declaration import filled
from kseg.output.sink import open_sink
from kseg.quantities import shell_line
from kseg.stores.remote.keys import RemoteChoice
from kseg.verification.report import CheckReporter, ClusterState, Comparison, Finding, Report
from kseg.verification.run import VerifyOptions
from kseg.verification.run import verify as check


class Summary(NamedTuple):
    """Counts of checked files, batches and records, and of findings by severity.

    ``not_judged`` counts files and directories that may be Kafka's and were not read.

    >>> summary = kseg.verify("crashed-0").summary
    >>> summary.errors, summary.batches, summary.records
    (1, 6, 32)
    """

    files: int
    bytes: int
    batches: int
    records: int
    errors: int
    warnings: int
    infos: int
    not_judged: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings of a check, in the order in which the command prints them.

    ``ok``: there is no error, and everything could be checked; ``failures`` lists the parts that could not.
    ``next``: the commands to run, in order. ``omitted``: file, code and number of findings that are only counted,
    beyond the first 100 of a code in a file. ``comparisons``: of each partition with ``against``. ``clusters``: those
    of which several nodes were checked, each with the partitions of which a start may lose records.

    >>> verdict = kseg.verify("crashed-0")
    >>> verdict.ok, [finding.code for finding in verdict.findings], verdict.next
    (False, ['crc-mismatch'], (['kseg', 'recover', '--mode', 'salvage', 'crashed-0'],))
    """

    ok: bool
    findings: tuple[Finding, ...]
    summary: Summary
    next: tuple[list[str], ...]
    omitted: tuple[tuple[str, str, int], ...]
    failures: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    clusters: tuple[ClusterState, ...] = ()

    def __repr__(self) -> str:
        return f"<Verdict {self._sentence()}>"

    def _repr_html_(self) -> str:
        from kseg.report.pages import html_table  # only notebooks need it

        columns = ("severity", "code", "file", "position", "offset", "message", "repair")
        rows = (
            (
                each.severity, each.code, each.file, each.position, each.offset, each.message,
                each.repair and shell_line(each.repair),
            )
            for each in self.findings
        )  # fmt: skip
        return html_table(self._sentence(), columns, rows, self.failures)

    def _sentence(self) -> str:
        found = self.summary
        state = "ok" if self.ok else "not ok"
        more = "; not all could be checked" if self.failures else ""
        return (
            f"{state}: errors: {found.errors}, warnings: {found.warnings}, infos: {found.infos}; files: {found.files}, "
            f"records: {found.records}{more}"
        )


@checked
def verify(
    path: Paths,
    *,
    level: Level = "full",
    against: Path | None = None,
    by: str | Iterable[str] | None = None,
    ignore: str | Iterable[str] | None = None,
    now: int | None = None,
    **reading: Unpack[Reading],
) -> Verdict:
    """Checks segments, partitions and log directories as ``kseg verify`` does.

    ``level``: "quick" reads headers, "full" checksums and side files too, "deep" every record as well. ``against``:
    another replica to compare with. ``by``: records are matched by these of key, value, headers and timestamp, or by
    "content" for all of them; None: by offset. ``ignore``: codes of findings to omit. ``now``: the current time, in ms
    since the epoch. ``live``: a partial batch at the end of the last segment is no damage. ``private_keys``: for
    encrypted remote storage, as in `kseg.open`. Raises RequestError for invalid arguments, PathError if nothing could
    be checked.

    >>> kseg.verify("orders-0", level="deep").ok
    True
    """
    given = locals() | reading | {"by": None if by is None else ",".join(words_of(by) or ())}
    other = None if against is None else os.fspath(against)
    options = filled(VerifyOptions, given, paths=paths_of(path), against=other, private_keys=())
    options.check()
    for code in options.ignored:
        refuse_if(code not in KINDS, f"ignore: no finding has the code {code!r}")
    found = _Findings()
    with (
        readable(options.paths, omits_batches=options.needs_only_headers) as paths,
        readable(() if other is None else (other,)) as others,
    ):
        refuse_if(len(others) > 1, f"against={other!r}: matches {len(others)} paths")
        against = others[0] if others else None
        remote = RemoteChoice(keys_of(reading["private_keys"]), log_directories=paths)
        # A program with threads must not fork: this process checks all partitions.
        check(replace(options, paths=paths, against=against, remote=remote), found, open_sink, may_fork=False)
    report, totals = found.report, found.report.totals
    if report.failures and not totals.files:
        raise PathError("; ".join(report.failures))
    return Verdict(
        totals.errors == 0 and report.is_whole,
        tuple(found.findings),
        Summary(*(getattr(totals, name) for name in Summary._fields)),
        tuple(step.argv for step in report.steps),
        tuple(report.unshown()),
        tuple(report.failures),
        tuple(found.comparisons),
        tuple(report.clusters),
    )


class _Findings(CheckReporter):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.comparisons: list[Comparison] = []
        self.report: Report

    def finding(self, finding: Finding) -> None:
        self.findings.append(finding)

    def compared(self, comparison: Comparison) -> None:
        self.comparisons.append(comparison)

    def finish(self, report: Report) -> None:
        self.report = report
