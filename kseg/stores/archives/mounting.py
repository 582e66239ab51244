"""Mounts packed files and archives at their own paths, for the length of a command.

Modules for archives are imported only if the first bytes of a file are those of one.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from kseg.errors import KsegError, PathError, UnsupportedError, text_of
from kseg.stores import trees
from kseg.stores.archives.forms import ARCHIVE_SUFFIXES, HEAD_BYTES, REDPANDA_NAME, form_of
from kseg.stores.archives.spool import Spool, current_spool, use_spool
from kseg.stores.extent import Extent
from kseg.stores.source import STANDARD_INPUT, is_disk_error, open_source, seekable_descriptor
from kseg.stores.stored_object import is_url, shown, store_root
from kseg.stores.trees import DIRECTORY, FILE, Tree


@contextmanager
def archives_at(paths: Iterable[str], spool: Spool) -> Iterator[list[str]]:
    """Mounts packed files and archives that are at the paths or contain them, and stores at URLs.

    Yields the paths; URLs are without credentials, their globs are expanded. `trees.check` raises the error of a path
    that could not be opened.
    """
    found = list[str]()
    with use_spool(spool), ExitStack() as made:
        made.callback(trees.forget_failures)
        for path in paths:
            if is_url(path):
                found += _mounted_urls(path, spool, made)
                continue
            found.append(path)
            root = _file_of(path)
            if root is None or trees.find(root) is not None:
                continue
            with _failures_of(root):
                tree = _standard_input(spool) if root == STANDARD_INPUT else _opened_file(root, spool)
                if tree is not None:
                    made.enter_context(trees.mounted([(root, tree)]))
        yield found


def _mounted_urls(url: str, spool: Spool, made: ExitStack) -> list[str]:
    """Mounts the store of a URL, and objects at the URL that are packed or archives, in ``made``. Returns the paths at
    the URL.
    """
    from kseg.stores.objects import expand_url, has_glob

    path = shown(url)
    found = [path]
    with _failures_of(path):
        if trees.find(path) is None:
            from kseg.stores.object_urls import UrlObjects, UrlTree  # most runs read no URL

            root = store_root(url)
            made.enter_context(trees.mounted([(shown(root), UrlTree(UrlObjects(root), spool))]))
        if has_glob(url):
            found = expand_url(url)
    for each in found:
        _mount_object(each, spool, made)
    return found


def _mount_object(path: str, spool: Spool, made: ExitStack) -> None:
    """Mounts an object of a mounted store in ``made`` if it is packed or an archive."""
    with _failures_of(path):
        place = trees.find(path)
        node = None if place is None or place.tree.is_archive else place.tree.node(place.inner)
        if place is not None and node is not None and node.kind == FILE:
            with open_source(path) as source:
                source.need(0, HEAD_BYTES)
                form = form_of(bytes(source.buffer[:HEAD_BYTES]))
            if form is not None and (tree := _opened(place.open(), spool)) is not None:
                made.enter_context(trees.mounted([(path, tree)]))


@contextmanager
def packed_segment_at(path: str) -> Iterator[Tree | None]:
    """Mounts a packed file in a directory or an archive for the length of a block.

    Yields None, and mounts nothing, if the file is not packed or is itself an archive.

    Raises KsegError if the spool cannot hold it, OSError.
    """
    tree = _opened(trees.open_extent(path), current_spool(), path)
    if tree is not None and ((node := tree.node("")) is None or node.kind != FILE):
        tree.close()
        tree = None
    with trees.mounted([] if tree is None else [(path, tree)]):
        yield tree


@contextmanager
def _failures_of(path: str) -> Iterator[None]:
    try:
        yield
    except (KsegError, OSError) as error:
        kind, text = type(error) if isinstance(error, KsegError) else PathError, text_of(error)
        trees.fail(path, kind(text if path in text else f"{path}: {text}"))


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
        return form_of(trees.first_bytes(os.path.realpath(path), HEAD_BYTES))
    return None


def _opened_file(path: str, spool: Spool) -> Tree | None:
    try:
        extent = trees.open_extent(os.path.realpath(path))
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
        head = sys.stdin.buffer.peek(HEAD_BYTES)  # type: ignore[union-attr]
    if form_of(head) is None:
        return None
    tree = _opened(Extent(seekable_descriptor(sys.stdin.buffer)), spool)
    node = None if tree is None else tree.node("")
    if node is not None and node.kind == DIRECTORY:
        raise UnsupportedError("an archive on standard input: give its path, or one segment of it")
    return tree
