"""``kseg convert``: segments in another format, codec or size; records to and from other forms."""

from typing import Any

import click

from kseg.cli.changing_options import common_options, keeping_options
from kseg.cli.convert_options import EXPORTS, check_output, check_usage, convert_options, isolation_option
from kseg.cli.engine import engine_options
from kseg.kernel.files.guard import keep_freed_memory
from kseg.output.change_reporter import Presentation


@click.command("convert")
@convert_options
@isolation_option
@engine_options
@keeping_options
@common_options
def command(presentation: Presentation, **options: Any) -> int:
    """Write the records of PATH in another format: older or newer segments, another codec, JSON Lines, CSV, Parquet.

    Segments keep offsets, timestamps and, where only the codec changes, everything else. What an older format cannot
    hold is refused unless --lossy is given. PATH is a segment file, a partition or log directory, or - for a segment
    on standard input; with --from jsonl a file of JSON Lines.
    """
    keep_freed_memory()
    check_usage(options)
    check_output(options["output"])
    notices = presentation.notices()
    if options["from_"]:
        from kseg.cli.imports import import_lines

        return import_lines(options, presentation, notices)
    if options["to"] in EXPORTS:
        from kseg.cli.exports import export

        return export(options, presentation, notices)
    from kseg.cli.conversions import convert

    return convert(options, presentation)
