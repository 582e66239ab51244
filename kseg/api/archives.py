"""Makes archives, packed files and remote storage among the paths of the Python interface readable while in use."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from threading import Lock

from kseg.changes.driver.command import Reporter
from kseg.segment.paths import places_of
from kseg.stores.archives.mounting import archives_at, problems_of
from kseg.stores.archives.spool import Spool
from kseg.stores.object_urls import open_objects
from kseg.stores.place import Place
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.remote.recognition import is_remote_storage
from kseg.stores.stored_object import is_url, store_root

_lock = Lock()
_readers: dict[str, int] = {}
_released: deque[str] = deque()
"""Names in `_readers`, each for a reader that has ended and is still counted there."""
_opened: dict[str, tuple[ExitStack, list[Place]]] = {}
_keys: dict[str, PrivateKeys] = {}
"""Those of open remote storage: concurrent blocks share them."""
_REMOTE = "remote:"


@contextmanager
def readable(
    paths: Sequence[str],
    keys: PrivateKeys | None = None,
    omits_batches: bool = False,
    spool: Spool | None = None,
) -> Iterator[tuple[Place, ...]]:
    """Makes archives and stores among the paths readable inside the block; concurrent blocks share them.

    ``keys``: remote storage becomes readable too, as log directories. ``omits_batches``: see `Spool`. ``spool``: where
    the temporary files are, by default one of its own.

    Yields the paths by which they are read: URLs without credentials, their globs expanded. Raises PathError for a glob
    without a match.
    """
    taken, found = list[str](), list[Place]()
    spool = Spool() if spool is None else spool
    spool.omits_batches = omits_batches

    def take(name: str, make: Callable[[], AbstractContextManager[list[Place]]]) -> list[Place]:
        try:
            with _lock:
                _end_released()
                if not _readers.get(name):
                    stack = ExitStack()
                    _opened[name] = stack, stack.enter_context(make())
                _readers[name] = _readers.get(name, 0) + 1
        finally:
            _end_released_if_free()
        taken.append(name)
        return _opened[name][1]

    try:
        for path in paths:
            expanded, stores = [path], list[Place]()
            if is_url(path):
                from kseg.stores.objects import expand_url, has_glob

                root = store_root(path)
                stores = take(root, partial(archives_at, (root,), spool))  # blocks of several objects share the store
                expanded = [*expand_url(path, stores[0])] if has_glob(path) else expanded
            for each in expanded:
                (place,) = take(each, partial(archives_at, (each,), spool, stores))
                if keys is not None and place.is_dir():
                    (place,) = take(_REMOTE + each, partial(_remote_storage_at, each, place))
                    _keys[each].add(keys)
                found.append(place)
        yield tuple(found)
    finally:
        _released.extend(reversed(taken))
        _end_released_if_free()


@contextmanager
def _remote_storage_at(path: str, place: Place) -> Iterator[list[Place]]:
    keys = _keys[path] = PrivateKeys()
    if not is_remote_storage(place):
        yield [place]
        return
    from kseg.node.remote_partitions import RemoteTree  # few read remote storage

    with closing(RemoteTree(open_objects(path), keys)) as tree:
        yield [Place(place, tree)]


@contextmanager
def places_for_output(paths: Sequence[str], reporter: Reporter) -> Iterator[list[str]]:
    """Yields the paths, archives as the log directories and partitions in them. Reports the archives' problems."""
    with readable(paths) as places:
        yield places_of(places)
        for path, problem in problems_of(places):
            where = "" if problem.position is None else f" at position {problem.position}"
            reporter.warning(f"{path}: {problem.code}{where}: {problem.message}")


def _end_released_if_free() -> None:
    """Closes archives and stores without readers, unless the lock is taken: its holder does so afterwards.

    A garbage collection ends readers in the middle of anything: in a thread for whose answer the holder of the lock
    waits, and in the holder itself.
    """
    while _released and _lock.acquire(blocking=False):
        try:
            _end_released()
        finally:
            _lock.release()


def _end_released() -> None:
    while _released:
        name = _released.popleft()
        _readers[name] -= 1
        if not _readers[name]:
            del _readers[name]
            _opened.pop(name)[0].close()
