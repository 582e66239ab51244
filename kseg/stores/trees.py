"""Trees of files that are not the system's: archives, packed files, stores at URLs, remote storage, virtual files."""

import errno
import os
import stat as modes
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from kseg.errors import KsegError, PathError
from kseg.stores.extent import Extent, unnamed_file

if TYPE_CHECKING:
    from kseg.stores.source import Source

FILE, DIRECTORY, LINK, OTHER = modes.S_IFREG, modes.S_IFDIR, modes.S_IFLNK, modes.S_IFCHR


class TreeNode(NamedTuple):
    """``kind`` is FILE, DIRECTORY, LINK or OTHER (devices and the like); ``number`` identifies it in its tree."""

    kind: int
    size: int = 0
    modified_ns: int = 0
    number: int = 0


class ArchiveProblem(NamedTuple):
    """A problem of an archive: ``code`` of a finding, ``position`` in the archive's file, and a sentence.

    ``is_unread``: a member or the rest of the archive could not be read.
    """

    code: str
    position: int | None
    message: str
    is_unread: bool = False


tokens: "WeakValueDictionary[bytes, Tree]" = WeakValueDictionary()
"""A forked process has the trees of its parent: a `Place` that they send each other holds the token of its tree."""


class Tree:
    """Files by path relative to the root, "" for the root itself. Methods raise OSError.

    ``owner``: user id of files that are written from the tree; by default this user's.
    """

    is_archive = False
    """Whether it is one file, which is searched to a greater depth than directories."""
    is_shared = False
    """Whether forked processes can read it."""
    path = ""
    """The path of its root."""

    def __init__(self, owner: int | None = None, problems: list[ArchiveProblem] | None = None) -> None:
        self.token = os.urandom(8)
        tokens[self.token] = self
        this_user = os.geteuid() if hasattr(os, "geteuid") else 0
        self.owner = this_user if owner is None else owner
        self.problems = [] if problems is None else problems

    def node(self, inner: str) -> TreeNode | None:
        """Returns None if the path does not exist."""
        raise NotImplementedError

    def nodes(self, inner: str) -> Iterable[tuple[str, TreeNode]]:
        """Returns the names and nodes in a directory."""
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), inner)

    def open(self, inner: str) -> Extent:
        """Opens a file."""
        raise NotImplementedError

    def read_range(self, inner: str, start: int, length: int) -> bytes:
        """Returns bytes of a file, fewer only at its end."""
        with closing(self.open(inner)) as extent:
            return extent.read(start, start + length)

    def source(self, inner: str, path: str) -> "Source | None":
        """Returns a source for a file that is fetched in parts; None for a file that `open` opens."""
        return None

    def check(self) -> None:
        """Raises KsegError if the tree could not be opened."""

    def close(self) -> None:
        """Closes the files of the tree; may be called again."""


class UnopenedTree(Tree):
    """An archive or a store that could not be opened: ``error`` says why."""

    def __init__(self, error: KsegError) -> None:
        super().__init__()
        self._error = error

    def check(self) -> None:
        raise self._error

    def node(self, inner: str) -> TreeNode | None:
        return TreeNode(OTHER)


# Files whose content is stored elsewhere or in another form, each a tree of one file. The side files of a segment in
# remote storage are parts of one object, and its log is stored in chunks. Readers open both under the paths that they
# have in LocalTieredStorage.


class VirtualLog(Tree):
    """A log, which is only opened as a source.

    ``size`` returns its size in bytes, ``make`` opens it; both may raise PathError.
    """

    def __init__(self, size: Callable[[], int], make: "Callable[[], Source]") -> None:
        super().__init__()
        self._size, self._make = size, make

    def node(self, inner: str) -> TreeNode | None:
        try:
            return TreeNode(FILE, self._size())
        except PathError as error:
            raise OSError(errno.EIO, str(error)) from error

    def open(self, inner: str) -> Extent:
        raise OSError(errno.EOPNOTSUPP, "is stored in chunks")

    def source(self, inner: str, path: str) -> "Source":
        return self._make()


class VirtualSideFile(Tree):
    """A small file. ``content`` returns its bytes, or raises OSError; it is called once."""

    def __init__(self, content: Callable[[], bytes]) -> None:
        super().__init__()
        self._content = content

    @cached_property
    def _bytes(self) -> bytes:
        return self._content()

    def node(self, inner: str) -> TreeNode | None:
        return TreeNode(FILE, len(self._bytes))

    def open(self, inner: str) -> Extent:
        return Extent(unnamed_file([self._bytes]))


class VirtualFiles(Tree):
    """Files of other trees, each by its name in one directory."""

    def __init__(self, files: Mapping[str, Tree]) -> None:
        super().__init__()
        self._files = files

    def node(self, inner: str) -> TreeNode | None:
        if not inner:
            return TreeNode(DIRECTORY)
        return self._files[inner].node("") if inner in self._files else None

    def nodes(self, inner: str) -> Iterable[tuple[str, TreeNode]]:
        if inner:
            return super().nodes(inner)
        return [(name, TreeNode(FILE)) for name in self._files]

    def open(self, inner: str) -> Extent:
        return self._files[inner].open("")

    def source(self, inner: str, path: str) -> "Source | None":
        return self._files[inner].source("", path)
