"""``kseg carve``: brings logs back out of raw bytes."""

import click

from kseg.carving.directories import CarveOptions, carve, image_bytes
from kseg.changes.driver.command import ChangeOptions
from kseg.cli.changing import open_printer, output_only_options, presentation_options
from kseg.cli.options import Command, filled, paths_argument, spool_options
from kseg.output.changes import CarvedTable
from kseg.output.notices import Presentation
from kseg.output.progress import Progress
from kseg.stores.archives.spool import Spool, use_spool


@click.command("carve", cls=Command)
@paths_argument(metavar="IMAGE...")
@filled(CarveOptions)
@spool_options
@presentation_options()
@output_only_options
def command(
    paths: tuple[str, ...], options: CarveOptions, change: ChangeOptions, presentation: Presentation, spool: Spool
) -> int:
    """Bring logs back out of raw bytes: disk images, block devices or any files.

    Every whole batch comes back once, in a new log directory, --output. Batches are joined to logs, and logs are named,
    on evidence only. An image is only read; images of one disk are given together.
    """
    if change.output is None:
        raise click.UsageError("carve needs --output: an image is only read")
    with use_spool(spool), open_printer(presentation, change.is_dry, CarvedTable) as printer:
        with Progress(sum(map(image_bytes, paths)), presentation.quiet) as progress:
            printer.notices.before = progress.erase
            carved = carve(paths, change, options, progress.advance)
        printer.created(carved.plans, facts=carved.summary())
    for text in carved.messages():
        printer.warning(text)
    if carved.plans and not change.is_dry:
        printer.warning("look at the result with:", f"kseg verify {change.output}")
    return int(not carved.plans or change.is_dry)
