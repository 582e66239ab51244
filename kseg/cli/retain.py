"""``kseg retain``: deletes segments as a broker's retention does, and explains why the others stay."""

from dataclasses import replace
from functools import partial

import click

from kseg.changes.driver.command import ChangeOptions
from kseg.cli.changing import changing_options, run_change
from kseg.cli.options import Command, filled, paths_argument
from kseg.output.notices import Presentation
from kseg.retention.planner import RetainOptions, RetentionPlanner


@click.command("retain", cls=Command)
@paths_argument()
@filled(RetainOptions)
@changing_options
def command(paths: tuple[str, ...], options: RetainOptions, change: ChangeOptions, presentation: Presentation) -> int:
    """Apply retention to a partition directory, or to the partitions of a log directory, as a broker does.

    Without options, the topics' own settings apply, if the log directory holds __cluster_metadata. Segments are renamed
    to .deleted, which a broker removes at its start. The quarantine keeps them: see kseg undo.
    """
    options = replace(options, counts_records=presentation.verbose)
    change = replace(change, is_dry=change.is_dry or options.explains)
    is_explained = options.explains and (presentation.as_page or presentation.form != "json")
    outcome = run_change(paths, partial(RetentionPlanner, options), change, presentation, is_explained)
    return 0 if options.explains and outcome.exit_status == 1 else outcome.exit_status
