"""Makes archives, packed files and remote storage among the paths of the Python interface readable while in use."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from threading import Lock

from kseg.changes.driver.command import Reporter
from kseg.segment.paths import places_of
from kseg.stores import trees
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool
from kseg.stores.object_urls import open_objects
from kseg.stores.remote.keys import PrivateKeys
from kseg.stores.remote.recognition import is_remote_storage
from kseg.stores.stored_object import is_url, shown, store_root

_lock = Lock()
_readers: dict[str, int] = {}
_released: deque[str] = deque()
"""Names in `_readers`, each for a reader that has ended and is still counted there."""
_mounted: dict[str, ExitStack] = {}
_keys: dict[str, PrivateKeys] = {}
"""Those of mounted remote storage: concurrent blocks share them."""
_REMOTE = "remote:"


@contextmanager
def readable(
    paths: Sequence[str], keys: PrivateKeys | None = None, omits_batches: bool = False
) -> Iterator[tuple[str, ...]]:
    """Makes archives and stores among the paths readable inside the block; concurrent blocks share them.

    ``keys``: remote storage becomes readable too, as log directories. ``omits_batches``: see `Spool`.

    Yields the paths by which they are read: URLs without credentials, their globs expanded. Raises PathError for a glob
    without a match.
    """
    taken, found = list[str](), list[str]()
    spool = Spool()
    spool.omits_batches = omits_batches

    def take(path: str) -> None:
        _take(path, partial(archives_at, (path,), spool))
        taken.append(path)

    try:
        for path in paths:
            expanded = [path]
            if is_url(path):
                from kseg.stores.objects import expand_url, has_glob

                take(store_root(path))  # blocks of several objects share the store
                expanded = expand_url(path) if has_glob(path) else expanded
            for each in expanded:
                take(each)
                if keys is not None and trees.isdir(shown(each)):
                    _take(_REMOTE + each, partial(_remote_storage_at, each))
                    taken.append(_REMOTE + each)
                    _keys[each].add(keys)
                found.append(shown(each))
        yield tuple(found)
    finally:
        for path in reversed(taken):
            _leave(path)


@contextmanager
def _remote_storage_at(path: str) -> Iterator[None]:
    keys = _keys[path] = PrivateKeys()
    if not is_remote_storage(path):
        yield
        return
    from kseg.node.remote_partitions import RemoteTree  # few read remote storage

    with trees.mounted([(shown(path), RemoteTree(open_objects(path), keys))]):
        yield


@contextmanager
def places_for_output(paths: Sequence[str], reporter: Reporter) -> Iterator[list[str]]:
    """Yields the paths, archives as the log directories and partitions in them. Reports the archives' problems."""
    with readable(paths) as places:
        yield places_of(places)
        for path, problem in trees.problems():
            where = "" if problem.position is None else f" at position {problem.position}"
            reporter.warning(f"{path}: {problem.code}{where}: {problem.message}")


def _take(name: str, make: Callable[[], AbstractContextManager[object]]) -> None:
    try:
        with _lock:
            _end_released()
            if not _readers.get(name):
                _mounted[name] = ExitStack()
                _mounted[name].enter_context(make())
            _readers[name] = _readers.get(name, 0) + 1
    finally:
        _end_released_if_free()


def _leave(name: str) -> None:
    _released.append(name)
    _end_released_if_free()


def _end_released_if_free() -> None:
    """Unmounts archives and stores without readers, unless the lock is taken: its holder does so afterwards.

    A garbage collection runs `_leave` in the middle of anything: in a thread for whose answer the holder of the lock
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
            _mounted.pop(name).close()
