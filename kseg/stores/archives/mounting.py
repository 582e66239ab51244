"""Opens packed files and archives as trees at their own paths, for the length of a command.

Modules for archives are imported only if the first bytes of a file are those of one.
"""

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from io import BufferedReader
from typing import cast

from kseg.errors import KsegError, PathError, UnsupportedError, text_of
from kseg.stores.archives.forms import ARCHIVE_SUFFIXES, HEAD_BYTES, REDPANDA_NAME, form_of
from kseg.stores.archives.spool import Spool, current_spool, use_spool
from kseg.stores.extent import Extent
from kseg.stores.place import DirectoryCache, Place, directory_cache, normal, place_in
from kseg.stores.source import (
    STANDARD_INPUT,
    is_disk_error,
    open_source,
    seekable_descriptor,
    standard_input,
    wait_for_bytes,
)
from kseg.stores.stored_object import is_url, shown, store_root
from kseg.stores.trees import DIRECTORY, FILE, ArchiveProblem, Tree, UnopenedTree


@contextmanager
def archives_at(
    paths: Iterable[str], spool: Spool, stores: Iterable[Place] = (), is_live: bool = False
) -> Iterator[list[Place]]:
    """Opens packed files and archives that are at the paths or contain them, and the stores of URLs.

    Yields the places; URLs are without credentials, their globs are expanded. `Place.check` raises the error of a path
    that could not be opened. ``stores``: the roots of stores that are open.
    """
    with use_spool(spool), ExitStack() as made:
        found, opened = list[Place](), {str(store): store.tree for store in stores}
        cache = made.enter_context(directory_cache(is_live))
        for path in paths:
            if is_url(path):
                found += _places_of_url(path, spool, made, opened)
            else:
                found.append(_place_of(path, cache, spool, made, opened))
        yield found


def problems_of(places: Iterable[Place]) -> Iterator[tuple[str, ArchiveProblem]]:
    """Yields the problems of archives, each with the archive's path."""
    trees = {tree.token: tree for place in places if (tree := place.tree) is not None}
    for tree in trees.values():
        yield from ((tree.path, problem) for problem in tree.problems)


def _place_of(
    path: str, cache: DirectoryCache | None, spool: Spool, made: ExitStack, opened: dict[str, Tree | None]
) -> Place:
    """Opens the archive that a path leads into, in ``made``; ``opened``: those of the paths before, by their files."""
    place = Place(path, is_named=True, cache=cache)
    root = None if place.tree is not None or place.is_dir() else _file_of(path)
    if root is None:
        return place
    if root not in opened:
        work = partial(_standard_input, spool) if root == STANDARD_INPUT else partial(_opened_file, root, spool)
        opened[root] = _tree_or_error(root, work, made)
    if opened[root]:
        return Place(path, opened[root], normal(path[len(root) :].strip("/")), is_named=True)
    return place


def _places_of_url(url: str, spool: Spool, made: ExitStack, opened: dict[str, Tree | None]) -> list[Place]:
    """Opens the store of a URL, and objects at the URL that are packed or archives, in ``made``. Returns the places at
    the URL.
    """
    from kseg.stores.object_urls import UrlObjects, UrlTree  # most runs read no URL
    from kseg.stores.objects import expand_url, has_glob

    found = [Place(url)]
    if found[0].tree is None:  # whoever has opened the store may have settings of its own
        root = store_root(url)
        if shown(root) not in opened:
            opened[shown(root)] = _tree_or_error(shown(root), lambda: UrlTree(UrlObjects(root), spool), made)
        store = Place(shown(root), opened[shown(root)])

        def expand() -> None:
            store.check()
            found[:] = expand_url(url, store) if has_glob(url) else [place_in(shown(url), [store])]

        if (failed := _tree_or_error(shown(url), expand, made)) is not None:
            return [Place(shown(url), failed)]
    return [
        place if (tree := _tree_or_error(place, partial(_opened_object, place, spool), made)) is None
        else Place(place, tree)
        for place in found
    ]  # fmt: skip


def _opened_object(place: Place, spool: Spool) -> Tree | None:
    """Returns the tree of an object of a store that is packed or an archive."""
    node = None if place.tree is None or place.tree.is_archive else place.tree.node(place.inner)
    if node is None or node.kind != FILE:
        return None
    with open_source(place) as source:
        source.need(0, HEAD_BYTES)
        form = form_of(bytes(source.buffer[:HEAD_BYTES]))
    return None if form is None else _opened(place.open_extent(), spool)


@contextmanager
def packed_segment_at(path: Place) -> Iterator[Place | None]:
    """Opens a packed file in a directory or an archive for the length of a block, and yields the place of its content;
    None if it is not packed or is itself an archive.

    Raises KsegError if the spool cannot hold it, OSError.
    """
    tree = _opened(path.open_extent(), current_spool(), path)
    with nullcontext() if tree is None else closing(tree):
        is_file = tree is not None and (node := tree.node("")) is not None and node.kind == FILE
        yield Place(path, tree) if is_file else None


def _tree_or_error(path: str, work: Callable[[], Tree | None], made: ExitStack) -> Tree | None:
    """Returns the tree, which ``made`` closes, or one that has the error of opening it."""
    try:
        if (tree := work()) is not None:
            tree.path = path
            made.callback(tree.close)
        return tree
    except (KsegError, OSError) as error:
        kind, text = type(error) if isinstance(error, KsegError) else PathError, text_of(error)
        return UnopenedTree(kind(text if path in text else f"{path}: {text}"))


def _file_of(path: str) -> str | None:
    """Returns the regular file that a path names or leads through, None if there is none; "-" for standard input."""
    if path == STANDARD_INPUT:
        return path
    while path not in ("", os.sep):
        try:
            return path if stat.S_ISREG(os.stat(path).st_mode) else None
        except NotADirectoryError:
            path = os.path.dirname(path)
        except (OSError, ValueError):
            return None
    return None


def form_at(path: str) -> str | None:
    """Returns how a file is packed, as `form_of` says; None if it is not packed or cannot be read."""
    with suppress(OSError):
        return form_of(Place(os.path.realpath(path)).head(HEAD_BYTES))
    return None


def _opened_file(path: str, spool: Spool) -> Tree | None:
    try:
        extent = Place(os.path.realpath(path)).open_extent()
    except PermissionError:
        return None  # the command reports it
    tree = _opened(extent, spool, path)
    if tree is not None and not path.endswith(ARCHIVE_SUFFIXES):
        node = tree.node("")
        if node is None or not (node.size if node.kind == FILE else any(tree.nodes(""))):
            tree.close()
            return None  # nothing could be unpacked: a damaged segment that begins like a packed file
    return tree


def _opened(extent: Extent, spool: Spool, path: str = "") -> Tree | None:
    """Returns the tree of a packed file or archive; closes the extent if it is neither."""
    tree, name, form = None, os.path.basename(path), None
    try:
        try:
            form = form_of(extent.pread(HEAD_BYTES, 0))
        except OSError as error:
            if not is_disk_error(error):  # a file whose disk cannot read it is read as a segment
                raise
        if form is not None or REDPANDA_NAME.fullmatch(name):
            from kseg.stores.archives.opening import opened  # imports modules for each format

            tree = opened(extent, os.fstat(extent.descriptor).st_uid, spool, name)
    finally:
        if tree is None:
            extent.close()
    return tree


def _standard_input(spool: Spool) -> Tree | None:
    head = b""
    with suppress(OSError, ValueError, AttributeError):  # closed, or a stream of a program that embeds Python
        stream = cast(BufferedReader, sys.stdin.buffer)
        head = stream.peek(HEAD_BYTES)
        if not head and not os.get_blocking(stream.fileno()):
            wait_for_bytes(stream)
            head = stream.peek(HEAD_BYTES)
    if form_of(head) is None:
        return None
    tree = _opened(Extent(seekable_descriptor(standard_input())), spool)
    node = None if tree is None else tree.node("")
    if node is not None and node.kind == DIRECTORY:
        raise UnsupportedError("an archive on standard input: give its path, or one segment of it")
    return tree
