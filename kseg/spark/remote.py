"""Remote (tiered) storage among the paths of a read, mounted as log directories (`kseg.logdir.remote_partitions`).

The driver finds the live segments. A task gets the objects of its own segments, and lists nothing.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kseg.logdir.remote_partitions import LiveSegment, RemoteTree
from kseg.spark.options import Options
from kseg.spark.paths import expanded_paths
from kseg.spark.storage import Storage
from kseg.spark.stores import objects_at
from kseg.stores import trees
from kseg.stores.objects import LocalObjects, Objects
from kseg.stores.remote.recognition import is_mounted_storage
from kseg.stores.stored_object import is_url


@contextmanager
def remote_storage_at(options: Options) -> Iterator[None]:
    """Mounts the remote storage among the paths while a read is planned. Raises PathError if a path does not exist."""
    made: list[str] = []
    try:
        for path in expanded_paths(options.paths):
            if trees.isdir(path) and is_mounted_storage(path):
                _mount(path, options)
                made.append(path)
        yield
    finally:
        for path in made:
            trees.unmount(path)


@contextmanager
def remote_segments_at(found: Iterable[tuple[str, LiveSegment]], options: Options) -> Iterator[None]:
    """Mounts the remote segments of a task at the paths of their .log."""
    made: list[str] = []
    try:
        for path, live in found:
            root = os.path.dirname(os.path.dirname(path))
            if root not in made:
                _mount(root, options)
                made.append(root)
            place = trees.find(path)
            if place is not None and isinstance(place.tree, RemoteTree):
                place.tree.use(place.inner, live)
        yield
    finally:
        for path in made:
            trees.unmount(path)


def _mount(path: str, options: Options) -> None:
    trees.mount(path, RemoteTree(_objects(path, options.storage), options.keys))


def _objects(path: str, storage: Storage) -> Objects:
    return objects_at(path, storage) if is_url(path) else LocalObjects(path)
