"""Makes archives and packed files among the paths of the Python interface readable while they are used."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import RLock

from kseg.changes.driver.reporter import Reporter
from kseg.segment.paths import places_of
from kseg.stores import trees
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool
from kseg.stores.stored_object import is_url, shown

_lock = RLock()
_readers: dict[str, int] = {}
_mounted: dict[str, ExitStack] = {}


@contextmanager
def readable(paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Makes archives and stores among the paths readable inside the block; concurrent blocks share them.

    Yields the paths by which they are read: URLs without credentials, their globs expanded. Raises PathError for a
    glob without a match.
    """
    taken, found = list[str](), list[str]()

    def take(path: str) -> None:
        _take(path)
        taken.append(path)

    try:
        for path in paths:
            expanded = [path]
            if is_url(path):
                from kseg.stores.object_urls import root_of
                from kseg.stores.url_globs import expand_url, has_glob

                take(root_of(path))  # blocks of several objects share the store
                expanded = expand_url(path) if has_glob(path) else expanded
            for each in expanded:
                take(each)
                found.append(shown(each))
        yield tuple(found)
    finally:
        for path in reversed(taken):
            _leave(path)


@contextmanager
def places_for_output(paths: Sequence[str], reporter: Reporter) -> Iterator[list[str]]:
    """Yields the paths, archives as the log directories and partitions in them. Reports the archives' problems."""
    with readable(paths) as places:
        yield places_of(places)
        for path, problem in trees.problems():
            where = "" if problem.position is None else f" at position {problem.position}"
            reporter.warning(f"{path}: {problem.code}{where}: {problem.message}")


def _take(path: str) -> None:
    with _lock:
        if not _readers.get(path):
            _mounted[path] = ExitStack()
            _mounted[path].enter_context(archives_at((path,), Spool(None, None)))
        _readers[path] = _readers.get(path, 0) + 1


def _leave(path: str) -> None:
    with _lock:
        _readers[path] -= 1
        if not _readers[path]:
            del _readers[path]
            _mounted.pop(path).close()
