"""Object stores and other file systems by URL, opened while a read is planned or a task runs (`kseg.stores.trees`).

s3://, gs:// and abfs:// are read with pyarrow (`kseg.stores.arrow_files`), hdfs:// by WebHDFS
(`kseg.stores.webhdfs`). Ranges of a segment are fetched to a temporary file when they are needed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from kseg.errors import KsegError
from kseg.node.paths import expanded
from kseg.node.remote_partitions import LiveSegment, RemoteTree
from kseg.segment.paths import expand_globs, live_parts
from kseg.spark.hadoop import Storage
from kseg.stores.archives.spool import Spool, use_spool
from kseg.stores.object_urls import UrlObjects, UrlTree, check_credentials
from kseg.stores.objects import expand_url
from kseg.stores.place import Place, in_trees, place_in
from kseg.stores.remote.recognition import is_remote_storage
from kseg.stores.stored_object import is_url, local_path, shown, store_root

if TYPE_CHECKING:
    from kseg.spark.options import Options

_Parts = TypeVar("_Parts")

# Resolves the paths of a DataFrame: files, partition and log directories, and globs.


def expanded_paths(paths: Iterable[str], stores: Mapping[str, Place] = MappingProxyType({})) -> list[str]:
    """Returns paths and URLs with globs expanded. Raises PathError if nothing matches, KsegError without a path.

    ``stores``: those of the URLs, as `stores_at` yields them.
    """
    found = list[str]()
    for path in map(local_path, paths):
        found += expand_url(path, stores[store_root(path)]) if is_url(path) else expand_globs([path])
    if not found:
        raise KsegError("format kseg needs a path: load('orders-0'); a table needs one, and no columns of its own")
    return expanded(found)


def places(paths: Iterable[str]) -> Iterator[str]:
    """Yields the files and partition directories of paths (`kseg.segment.paths.live_parts`)."""
    for path in paths:
        yield from live_parts(path)[0]


# Remote (tiered) storage among the paths of a read, as log directories (`kseg.node.remote_partitions`).
#
# The driver finds the live segments. A task gets the objects of its own segments, and lists nothing.


@contextmanager
def readable(options: "Options", with_remote_storage: bool = False) -> Iterator["Options"]:
    """Yields the options with the places of their paths, in the stores of URLs and, if wanted, in remote storage.

    Raises PathError if a path does not exist, KsegError if a URL or its options are not supported.
    """
    with stores_at(options.paths, options.storage) as stores, ExitStack() as made:
        found = expanded_paths(options.paths, stores)
        if with_remote_storage:
            for i, path in enumerate(found):
                if Place(path).is_dir() and is_remote_storage(path):
                    found[i] = Place(path, made.enter_context(closing(RemoteTree(Place(path), options.keys))))
        yield replace(options, paths=tuple(found))


@contextmanager
def readable_parts(task: _Parts, remote: Sequence[tuple[str, LiveSegment]], options: "Options") -> Iterator[_Parts]:
    """Yields the parts of a task with places in the stores of URLs.

    ``remote``: the segments of remote storage among them, each with the path of its .log.
    """
    with stores_at(options.paths, options.storage) as stores, ExitStack() as made:
        storages = {Place(path).parent.parent for path, _ in remote}
        trees = {path: RemoteTree(place_in(str(path), stores.values()), options.keys) for path in storages}
        roots = [Place(path, made.enter_context(closing(tree))) for path, tree in trees.items()]
        for path, live in remote:
            place = place_in(path, roots)
            trees[place.parent.parent].use(place.inner, live)
        yield in_trees(task, [*stores.values(), *roots])


@contextmanager
def stores_at(paths: Iterable[str], storage: Storage) -> Iterator[dict[str, Place]]:
    """Yields the stores of the URLs among the paths, by `store_root`. Raises KsegError if a URL or its options are not
    supported.

    The listings of the stores are kept until the block ends, or until `forget_listing`.
    """
    spool, found = Spool(), dict[str, Place]()
    with use_spool(spool), ExitStack() as made:
        for root in map(store_root, filter(is_url, paths)):
            if root not in found:
                tree = made.enter_context(closing(UrlTree(objects_at(root, storage), spool)))
                found[root] = Place(shown(root), tree)
        yield found


def forget_listing(path: str) -> None:
    """Frees the listing of a directory in a store."""
    place = Place(path)
    if isinstance(place.tree, UrlTree):
        place.tree.forget(place.inner)


def objects_at(url: str, storage: Storage) -> UrlObjects:
    """Returns the objects below a URL. Raises KsegError if it or its options are not supported."""
    from kseg.stores.arrow_files import open_arrow  # and fsspec and pyarrow's, which local paths need not

    check_credentials(url)
    options = storage.options_for(url)
    return UrlObjects(url, options, opened=open_arrow(url, options))


def is_stored(path: str) -> bool:
    """Whether a path is in a store."""
    return isinstance(Place(path).tree, UrlTree)
