"""``kseg redact``: a copy of a log that shows what is wrong with it, and nobody's data."""

import click

from kseg.changes.driver.command import ChangeOptions
from kseg.cli.changing import open_printer, output_only_options, presentation_options
from kseg.cli.options import Command, filled, paths_argument
from kseg.kernel.files.system import keep_freed_memory
from kseg.output.notices import Presentation
from kseg.redaction.directories import RedactOptions, redact


@click.command("redact", cls=Command)
@paths_argument()
@filled(RedactOptions)
@presentation_options()
@output_only_options
def command(paths: tuple[str, ...], options: RedactOptions, change: ChangeOptions, presentation: Presentation) -> int:
    """Copy a log directory, partition or file without anybody's data, to send it to those who can help.

    Keys, values and header values are replaced by bytes of the same length, equal ones by equal ones. Names in internal
    topics are replaced, too. Offsets, times, producers, codecs, side files, checksums and damage stay.
    """
    if change.output is None:
        raise click.UsageError("redact needs --output: PATH is only read")
    if len(paths) != 1:
        raise click.UsageError("give one PATH: a log directory, a partition or a file")
    keep_freed_memory()
    with open_printer(presentation, change.is_dry) as printer:
        with printer.progress() as progress:
            twin = redact(paths[0], change, options, progress.advance)
        outcome = printer.created(twin.plans, facts=twin.facts)
    return outcome.exit_status
