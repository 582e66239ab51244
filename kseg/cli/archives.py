"""Commands on packed files and archives: the options of the spool, and the problems of an archive itself."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from kseg.cli.options import ByteCount, CommandFunction, with_options
from kseg.output.notices import Notices
from kseg.segment.paths import places_of
from kseg.stores import trees
from kseg.stores.archives.forms import REDPANDA_SEGMENT
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool

_OPTIONS = (
    click.option(
        "--spool-dir",
        type=click.Path(readable=False),
        metavar="DIR",
        help="Directory of the unnamed temporary files for packed PATHs; default: that of TMPDIR.",
    ),
    click.option(
        "--spool-bytes",
        type=ByteCount(),
        help="Largest size of these temporary files; default: half of the free space there.",
    ),
)


def spool_options(command: CommandFunction) -> CommandFunction:
    """As ``spool``: --spool-dir and --spool-bytes."""

    @wraps(command)
    def with_spool(spool_dir: str | None, spool_bytes: int | None, **given: Any) -> Any:
        return command(spool=Spool(spool_dir, spool_bytes), **given)

    return with_options(with_spool, _OPTIONS)


def over_archives(paths: Sequence[str], spool: Spool, notices: Notices, work: Callable[[tuple[str, ...]], int]) -> int:
    """Calls ``work`` with the paths; archives are replaced by their log directories and partitions. Returns the status.

    Problems of an archive are reported after the work; the status is then at least 1.
    """
    with archives_at(paths, spool) as found:
        status = work(tuple(places_of(found)))
        return max(status, int(report_problems(notices)))


def report_problems(notices: Notices) -> bool:
    """Reports the problems of the mounted archives. Returns whether a member was not read."""
    has_unread = False
    for path, problem in trees.problems():
        where = "" if problem.position is None else f" at position {problem.position}"
        is_unread = problem.code != REDPANDA_SEGMENT
        notify = notices.error if is_unread else notices.warning
        notify(f"{path}: {problem.code}{where}: {problem.message}")
        has_unread |= is_unread
    return has_unread
