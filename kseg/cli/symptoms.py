"""``kseg symptoms``: from a message of a broker, client or tool to its cause and to the commands that help."""

import os
from collections.abc import Iterator

import click

from kseg.cli.options import Command, form, output_options, with_options
from kseg.output.notices import Color, Notices
from kseg.output.sink import open_sink
from kseg.quantities import quoted
from kseg.stores.source import standard_input
from kseg.symptoms.causes import causes_in
from kseg.symptoms.matching import symptoms_of_description
from kseg.symptoms.printing import print_symptoms

MAX_LINE_BYTES = 1 << 20


@click.command("symptoms", cls=Command)
@click.argument("text", nargs=-1, metavar="TEXT...", required=True)
@with_options({"form": form("Form of the output.", "text", "json")})
@output_options
def command(text: tuple[str, ...], form: str, output: str | None, color: Color, quiet: bool, verbose: bool) -> int:
    """Find the cause of a message of a broker, consumer, producer or tool, and the commands that help.

    TEXT is one or more lines of a log, or a few words such as disk full; - reads a whole log from standard input. Exit
    status 1: no message is known.
    """
    is_log = text == ("-",)
    # A line that was pasted without quotes arrives as words; an argument with spaces is a line of its own.
    given = ("\n" if any(" " in word for word in text) else " ").join(text)
    found = causes_in(_lines_of_input()) if is_log else causes_in(map(os.fsencode, given.splitlines()), takes_all=True)
    if not found and not is_log:
        found = symptoms_of_description(given)
    if not found:
        if not quiet:
            advice = "man kseg-symptoms lists them, kseg verify LOGDIR checks the files"
            if os.path.isfile(given):
                advice = f"the log in a file is read by: kseg symptoms - < {quoted(given)}"
            Notices(color).warning(f"no known message; {advice}")
        return 1
    with open_sink(output) as sink:
        print_symptoms(found, form, sink, color)
    return 0


def _lines_of_input() -> Iterator[bytes]:
    """The lines of standard input; very long ones are cut in pieces."""
    stream = standard_input()
    while line := stream.readline(MAX_LINE_BYTES):
        yield line
