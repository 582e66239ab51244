"""Commands on packed files and archives: the options of the spool, and what is wrong with an archive itself."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click

from kseg.cli.options import ByteCount
from kseg.errors import KsegError
from kseg.output.notices import Notices
from kseg.segment.paths import roots_of
from kseg.stores import trees
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool


def spool_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As ``spool``: --spool-dir and --spool-bytes."""

    @wraps(command)
    def with_spool(spool_dir: str | None, spool_bytes: int | None, **given: Any) -> Any:
        return command(spool=Spool(spool_dir, spool_bytes), **given)

    for option in (
        click.option(
            "--spool-bytes",
            type=ByteCount(),
            help="Most bytes of temporary files for packed PATHs; default: half of what is free there.",
        ),
        click.option(
            "--spool-dir",
            type=click.Path(readable=False),
            metavar="DIR",
            help="Where temporary files for packed PATHs are made (nameless); default: as TMPDIR says.",
        ),
    ):
        with_spool = option(with_spool)
    return with_spool


@contextmanager
def mounted(paths: Sequence[str], spool: Spool) -> Iterator[list[str]]:
    """Makes packed files, archives and URLs among the paths readable for the length of a block; yields the paths."""
    with archives_at(paths, spool) as found:
        yield found


def over_archives(paths: Sequence[str], spool: Spool, notices: Notices, work: Callable[[tuple[str, ...]], int]) -> int:
    """Does the work on the paths, and of archives on the log directories and partitions in them; the exit status.

    What is wrong with an archive is told after the work, and makes the status 1 at least.
    """
    with mounted(paths, spool) as found:
        status = work(tuple(places_of(found)))
        return max(status, int(tell_problems(notices)))


def places_of(paths: Sequence[str]) -> list[str]:
    """Returns the paths, and of archives the log directories and partitions in them."""
    places: list[str] = []
    for path in paths:
        try:
            places += roots_of(path)
        except KsegError:
            places.append(path)  # the command reports it
    return places


def tell_problems(notices: Notices) -> bool:
    """Reports what is wrong with the mounted archives; returns whether there is anything."""
    found = list(trees.problems())
    for path, problem in found:
        where = "" if problem.position is None else f" at position {problem.position}"
        notices.error(f"{path}: {problem.code}{where}: {problem.message}")
    return bool(found)
