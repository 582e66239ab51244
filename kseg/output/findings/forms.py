"""Selects the printer of findings."""

from kseg.findings.table import ERROR
from kseg.output.findings.printer import FindingsPrinter
from kseg.output.sink import Sink


def printer_of(
    form: str, sink: Sink, color: str, fail_on: str = ERROR, paths: tuple[str, ...] = (), sort: str | None = None
) -> FindingsPrinter:
    """Returns the printer for ``--format``; ``paths``, ``fail_on`` and ``sort`` are the command line's."""
    if form == "json":
        from kseg.output.findings.jsonl import JsonFindings

        return JsonFindings(sink, sort)
    if form == "junit":
        from kseg.output.findings.junit import JunitFindings

        return JunitFindings(sink, fail_on, paths)
    from kseg.output.findings.text import TextFindings

    return TextFindings(sink, color, sort)
