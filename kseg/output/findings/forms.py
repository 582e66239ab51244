"""Selects the printer of findings."""

from kseg.findings.table import ERROR, INFO
from kseg.output.findings.printer import FindingsPrinter
from kseg.output.sink import Sink


def printer_of(
    form: str,
    sink: Sink,
    color: str,
    fail_on: str = ERROR,
    paths: tuple[str, ...] = (),
    sort: str | None = None,
    least: str | None = None,
) -> FindingsPrinter:
    """Returns the printer for ``--format``; ``paths``, ``fail_on`` and ``sort`` are the command line's.

    ``least``: the lowest severity that is shown; None for all, but warnings in text.
    """
    if form == "json":
        from kseg.output.findings.jsonl import JsonFindings

        return JsonFindings(sink, sort, least or INFO)
    if form == "junit":
        from kseg.output.findings.junit import JunitFindings

        return JunitFindings(sink, fail_on, paths, least or INFO)
    from kseg.output.findings.text import TextFindings

    return TextFindings(sink, color, sort, least)
