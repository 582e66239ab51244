"""``kseg recover --carve``: logs out of raw bytes."""

from collections.abc import Sequence

from kseg.carving.logs import CarveRequest, carve
from kseg.changes.driver.planner import ChangeOptions
from kseg.cli.changing import open_plans
from kseg.output.changes.plans import CarvedTable, plan_printer
from kseg.output.notices import Presentation, on_one_line
from kseg.output.progress import Progress
from kseg.quantities import plural
from kseg.stores import trees

MAX_PAIRS = 5
"""Pairs of logs that messages name; JSON has all."""


def carve_images(
    images: Sequence[str], likes: Sequence[str], jobs: int, change: ChangeOptions, presentation: Presentation
) -> int:
    """Carves the images to ``change.output``, and prints what was found. Returns the exit status: 1 if nothing was."""
    notices, output = presentation.notices(), str(change.output)
    with open_plans(presentation, change.is_dry, notices.error) as sink:
        if presentation.is_json:
            printer = plan_printer(presentation, sink, notices, change.is_dry, keeps=False)
        else:
            printer = CarvedTable(sink, notices, change.is_dry, keeps=False, is_quiet=presentation.quiet)
        with Progress(sum(map(trees.getsize, images)), presentation.quiet) as progress:
            notices.before = progress.erase
            carved = carve(
                CarveRequest(images, output, likes, change.is_dry, change.takes_lock, jobs, progress.advance)
            )
        printer.begin(1, len(carved.plans))
        printer.totals.more = carved.summary()
        for plan in carved.plans:
            printer.plan(plan)
        printer.applied()
        printer.finish()
    found = f"found {plural(carved.batches, 'batch', 'batches')} of {plural(len(carved.plans), 'log', 'logs')}"
    more = [f"{plural(carved.duplicates, 'copy', 'copies')} left out"] if carved.duplicates else []
    more += [f"{plural(carved.mended, 'cut batch', 'cut batches')} put together"] if carved.mended else []
    more += [f"{plural(carved.torn, 'batch', 'batches')} cut off"] if carved.torn else []
    notices.warning("; ".join([found if carved.plans else "found no batches", *more]))
    for one, two in carved.undecided[:MAX_PAIRS]:
        notices.warning(f"{on_one_line(one)} and {on_one_line(two)} may be parts of one log: nothing decides it")
    if len(carved.undecided) > MAX_PAIRS:
        notices.warning(f"so may {len(carved.undecided) - MAX_PAIRS} more pairs of logs: --format json names them")
    if carved.plans and not change.is_dry:
        notices.warning("look at the result with:", f"kseg verify {change.output}")
    return int(not carved.plans or change.is_dry)
