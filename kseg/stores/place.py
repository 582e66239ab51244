"""Where bytes are: a path of the system, or of a tree such as an archive or a store at a URL.

A tree has the path of its archive or store, so that a file in it has the path ARCHIVE/inner/path.

Files are opened in directories of other users: this never waits for a FIFO, opens a device or follows a link, except
that a FIFO or link that the user has named is opened.
"""

import errno
import io
import os
import stat as modes
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from io import BufferedReader
from typing import Any, BinaryIO, TypeVar

from kseg.errors import errors_at
from kseg.limits import WINDOW_BYTES
from kseg.stores.extent import Extent, ExtentStream
from kseg.stores.trees import DIRECTORY, FILE, LINK, Tree, TreeNode, tokens

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

_T = TypeVar("_T")

LINK_REFUSAL = "a symbolic link, which is not followed in a directory: name the file itself"


def normal(inner: str) -> str:
    """Returns the path of a node in a tree without ``.`` and ``..``; "" for its root."""
    inner = os.path.normpath(inner)
    return "" if inner == "." else inner


_MAX_CACHED = 64


class CachedListing(dict[str, "os.DirEntry[str]"]):
    """The entries of a directory of the system by name; it is open as long as something refers to the listing. An entry
    can be asked for its status as long; its ``path`` is a name alone."""

    __slots__ = ("descriptor", "kinds")

    def __init__(self, path: str, around: "CachedListing | None") -> None:
        """Opens the directory in the one around it, if that is held, without following a link. Raises OSError."""
        self.descriptor = -1
        self.kinds: tuple[Mapping[str, AnyEntry], Mapping[str, AnyEntry]] | None = None
        """The entries that are regular files, and all others, once that was asked."""
        self.descriptor = os.open(path, _DIRECTORY) if around is None else around.open(path, _DIRECTORY)
        with os.scandir(self.descriptor) as entries:
            super().__init__({entry.name: entry for entry in entries})

    def open(self, path: str, flags: int) -> int:
        """Opens what is in the directory, without following a link. Raises OSError."""
        try:
            return os.open(path.rpartition(os.sep)[2], flags | _NOFOLLOW, dir_fd=self.descriptor)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, path) from error

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class DirectoryCache:
    """The directories of the system that a command which only reads has listed at a PATH, above it and below: each is
    listed once, however many ask for its names and their kinds, and kept open, so that what is opened in it is what was
    listed. With many, the one listed longest ago is closed.

    Sizes, times and the existence of files are asked anew. Nothing is kept after `close`.
    """

    __slots__ = ("_directories", "_is_over", "_listings")

    def __init__(self) -> None:
        self._listings: dict[str, CachedListing] = {}
        self._directories = set[str]()
        self._is_over = False

    def listing(self, path: str) -> CachedListing:
        """Returns the entries of a directory. Raises OSError."""
        found = self._listings.get(path)
        if found is None:
            found = CachedListing(path, self.listing_around(path))
            if not self._is_over:
                if len(self._listings) >= _MAX_CACHED:
                    self._listings.pop(next(iter(self._listings)), None)
                self._listings[path] = found
        return found

    def listing_around(self, path: str) -> CachedListing | None:
        """Returns the entries of the directory that a path is in; None if it was not listed, or had no such name."""
        directory, _, name = path.rpartition(os.sep)
        found = self._listings.get(directory)
        return found if found is not None and name in found else None

    def entry(self, path: str) -> "os.DirEntry[str] | None":
        """Returns the entry of a path; None if its directory was not listed, or had no such name."""
        directory, _, name = path.rpartition(os.sep)
        found = self._listings.get(directory)
        return None if found is None else found.get(name)

    def is_directory(self, path: str) -> bool:
        """As os.path.isdir, which is asked once."""
        entry = self.entry(path)
        if entry is not None:
            return is_of_kind(entry.is_dir)
        if path in self._listings or path in self._directories:
            return True
        is_directory = os.path.isdir(path)
        if is_directory and not self._is_over:
            self._directories.add(path)
        return is_directory

    def close(self) -> None:
        self._listings.clear()
        self._directories.clear()
        self._is_over = True


def directory_cache(is_live: bool = False) -> "AbstractContextManager[DirectoryCache | None]":
    """Returns a `DirectoryCache` for a block; None for ``is_live``, where files may change, and where the system cannot
    open a file in an open directory."""
    can_hold = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
    return closing(DirectoryCache()) if can_hold and not is_live else nullcontext()


class Place(str):
    """A path, which is shown, sorted and compared as such, and what it leads to.

    ``tree`` is None for a path of the system; ``inner`` is its path in the tree. ``is_named``: the user has named it,
    so that a link is followed and a FIFO is waited for. ``cache``: the directories listed so far, which the places
    above and below share; None where files are changed. ``Place(place)`` is the place itself.
    """

    __slots__ = ("cache", "inner", "is_named", "tree")

    tree: Tree | None
    inner: str
    is_named: bool
    cache: DirectoryCache | None

    def __new__(
        cls,
        path: str,
        tree: Tree | None = None,
        inner: str = "",
        is_named: bool = False,
        cache: DirectoryCache | None = None,
    ) -> "Place":
        if tree is None:
            if isinstance(path, Place):
                if path.is_named or not is_named:
                    return path
                tree, inner, cache = path.tree, path.inner, cache or path.cache
        self = super().__new__(cls, path)
        self.tree, self.inner, self.is_named = tree, inner, is_named
        self.cache = cache if tree is None else None
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _received, (str(self), self.tree and self.tree.token, self.inner, self.is_named)

    def __truediv__(self, name: str) -> "Place":
        """Returns the place of a name, or of a relative path, in this directory."""
        if self.tree is None and self and not self.endswith(os.sep) and name[:1] != os.sep and os.altsep is None:
            return _of_system(self + os.sep + name, self.cache)  # a format of a subclass of str is slow
        path = os.path.join(self, name)
        if self.tree is None or os.path.isabs(name):
            return Place(path, cache=self.cache)
        return Place(path, self.tree, normal(os.path.join(self.inner, name)))

    @property
    def name(self) -> str:
        return os.path.basename(self)

    @property
    def parent(self) -> "Place":
        """The directory of its path: "" if the path has none."""
        path = os.path.dirname(self)
        if self.inner and self.tree:
            return Place(path, self.tree, os.path.dirname(self.inner))
        return _of_system(path, self.cache)

    @property
    def absolute(self) -> "Place":
        path = os.path.abspath(self)
        return Place(path, self.tree, self.inner) if self.tree else Place(path, cache=self.cache)

    @property
    def without_slash(self) -> "Place":
        """The place, whose path has no slashes at its end, unless it is that of the root."""
        path = os.path.dirname(os.path.join(self, ""))
        return self if path == self else Place(path, self.tree, self.inner, self.is_named, self.cache)

    def with_ending(self, old: str, new: str) -> "Place":
        """Returns the place with another ending of its path; ``old`` is left out if it ends so."""
        path = self.removesuffix(old) + new
        inner = self.inner and self.inner.removesuffix(old) + new
        return Place(path, self.tree, inner) if inner else _of_system(path, self.cache)

    @property
    def is_forkable(self) -> bool:
        """Whether forked processes can read it."""
        return self.tree is None or (self.tree.is_shared and sys.platform == "linux")

    def check(self) -> None:
        """Raises KsegError if its tree could not be opened."""
        if self.tree is not None:
            self.tree.check()

    def _node(self) -> TreeNode:
        """Returns the node in the tree. Raises OSError."""
        found = None if self.tree is None else self.tree.node(self.inner)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self)
        return found

    def _asked(self, system: Callable[[str], bool], kind: int | None) -> bool:
        if self.tree is None:
            return system(self)
        try:
            found = self.tree.node(self.inner)
        except OSError:
            return False
        return found is not None and (kind is None or found.kind == kind)

    def _cached_entry(self) -> "os.DirEntry[str] | None":
        return None if self.cache is None else self.cache.entry(self)

    # As the functions of os.path: links are followed.

    def is_dir(self) -> bool:
        return self._asked(os.path.isdir, DIRECTORY) if self.cache is None else self.cache.is_directory(self)

    def is_file(self) -> bool:
        entry = self._cached_entry()
        return self._asked(os.path.isfile, FILE) if entry is None else is_of_kind(entry.is_file)

    def is_link(self) -> bool:
        entry = self._cached_entry()
        return self._asked(os.path.islink, LINK) if entry is None else entry.is_symlink()

    def exists(self) -> bool:
        return self._asked(os.path.exists, None)

    def lexists(self) -> bool:
        """As `exists`, also for a link to nowhere."""
        return self._asked(os.path.lexists, None)

    def is_same_file(self, path: str) -> bool:
        """Whether both paths are those of one regular file of the system, which may be packed."""
        return os.path.isfile(self) and os.path.isfile(path) and os.path.samefile(self, path)

    def has_bytes_of(self, other: "Place") -> bool:
        """Whether two regular files hold the same bytes; false if only one exists. Raises OSError."""
        if not other.exists() or self.size() != other.size():
            return False
        with self.open() as mine, other.open() as theirs:
            while (piece := mine.read(WINDOW_BYTES)) == theirs.read(WINDOW_BYTES):
                if not piece:
                    return True
        return False

    def status(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As os.stat. Raises OSError."""
        if self.tree is None:
            return os.stat(self, follow_symlinks=follow_symlinks)
        kind, size, modified_ns, number = self._node()
        seconds = modified_ns // 1_000_000_000
        mode = kind | (0o755 if kind == DIRECTORY else 0o644)
        group = os.getegid() if hasattr(os, "getegid") else 0
        times: dict[str, Any] = {f"st_{name}_ns": modified_ns for name in ("atime", "mtime", "ctime")}
        fields = (mode, number, 0, 1, self.tree.owner, group, size, seconds, seconds, seconds)
        return os.stat_result(fields, {**times, "st_blocks": -(-size // 512)})

    def size(self) -> int:
        """Returns the size in bytes. Raises OSError."""
        return self.status().st_size

    def is_listed_empty(self) -> bool:
        """Whether its directory was listed, and it was a regular file of 0 bytes: nothing is gained by opening it."""
        entry = self._cached_entry()
        try:
            return entry is not None and entry.is_file(follow_symlinks=False) and not entry.stat().st_size
        except OSError:
            return False  # it has gone

    def entries(self) -> "AbstractContextManager[Iterator[AnyEntry]]":
        """As os.scandir, to be used as a context manager. Raises OSError."""
        if self.tree is None:
            return os.scandir(self) if self.cache is None else nullcontext(iter(self.cache.listing(self).values()))
        if self._node().kind != DIRECTORY:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self)
        return nullcontext(TreeEntry(self / name, node) for name, node in self.tree.nodes(self.inner))

    def names(self) -> list[str]:
        """As os.listdir. Raises OSError."""
        if self.tree is None and self.cache is None:
            return os.listdir(self)
        with self.entries() as entries:
            return [entry.name for entry in entries]

    def open_extent(self) -> Extent:
        """Opens a regular file. Raises OSError, also for anything else."""
        if self.tree is None:
            return Extent(self.open_with_status()[0])
        kind = self._node().kind
        if kind == LINK:
            raise OSError(errno.ELOOP, "a link in an archive, which is not followed", self)
        if kind != FILE:
            raise OSError(errno.EINVAL, "not a regular file", self)
        return self.tree.open(self.inner)

    def open(self) -> BufferedReader:
        """Opens a regular file as `open_extent` does. Raises OSError."""
        if self.tree is None:
            return os.fdopen(self.open_with_status()[0], "rb")
        return BufferedReader(ExtentStream(self.open_extent()))

    def head(self, max_bytes: int) -> bytes:
        """Returns at most ``max_bytes`` bytes from the start of a file, opened as by `open_extent`. Raises OSError."""
        with closing(self.open_extent()) as extent:
            return extent.pread(max_bytes, 0)

    def read(self, max_bytes: int) -> bytes:
        """Returns the bytes of a small file. Raises OSError, EFBIG if it has more than ``max_bytes`` bytes."""
        with self.open() as file:
            return read_limited(file, self, max_bytes)

    def read_range(self, start: int, length: int) -> bytes:
        """Returns bytes of a regular file, fewer only at its end; of an object it fetches no others. Raises OSError."""
        if self.tree is not None:
            return self.tree.read_range(self.inner, start, length)
        with closing(self.open_extent()) as extent:
            return extent.read(start, start + length)

    def is_expected_pipe(self) -> bool:
        """Whether it is a FIFO of the system that the user has named."""
        if not self.is_named or self.tree is not None:
            return False
        try:
            return modes.S_ISFIFO(os.stat(self).st_mode)
        except OSError:
            return False

    def open_with_status(self) -> tuple[int, os.stat_result]:
        """Returns a descriptor of a regular file of the system, and its status; follows a link only if the user has
        named it.

        Raises OSError, also for any other file.
        """
        if self.is_named:
            if not modes.S_ISREG(os.stat(self).st_mode):  # merely opening a device may have an effect
                raise OSError(errno.EINVAL, "not a regular file", self)
        elif not _NOFOLLOW and os.path.islink(self):  # on Windows
            raise OSError(errno.ELOOP, LINK_REFUSAL, self)
        around = None if self.is_named or self.cache is None else self.cache.listing_around(self)
        try:
            if around is not None:
                descriptor = around.open(self, _FLAGS)
            else:
                descriptor = os.open(self, _FLAGS if self.is_named else _FLAGS | _NOFOLLOW)
        except OSError as error:
            if error.errno == errno.ELOOP and not self.is_named and os.path.islink(self):
                raise OSError(errno.ELOOP, LINK_REFUSAL, self) from error
            raise
        return descriptor, regular_status(descriptor, self, "not a regular file")


def _of_system(path: str, cache: DirectoryCache | None) -> Place:
    """Returns ``Place(path, cache=cache)``; each file of each partition is asked for so, in less than half the time."""
    place = str.__new__(Place, path)
    place.tree, place.inner, place.is_named, place.cache = None, "", False, cache
    return place


def is_of_kind(ask: Callable[[], bool]) -> bool:
    """Returns the answer of an entry's method about its kind; False if it cannot be determined, as for a link to
    itself."""
    try:
        return ask()
    except OSError:
        return False


def _received(path: str, token: bytes | None, inner: str, is_named: bool) -> Place:
    """Returns a place that another process has sent; `in_trees` finds its tree if this process does not have it."""
    tree = None if token is None else tokens.get(token)
    return Place(path, tree, inner if tree else "", is_named)


def place_in(path: str, roots: Iterable[str]) -> Place:
    """Returns the place of a path, in the tree of the longest of ``roots`` that leads to it."""
    leading = [root for root in map(Place, roots) if path == root or path.startswith(root.rstrip("/") + "/")]
    root = max((root for root in leading if root.tree is not None), key=len, default=None)
    if root is None:
        return Place(path)
    return Place(path, root.tree, normal(os.path.join(root.inner, path[len(root) :].lstrip("/"))))


def in_trees(value: _T, roots: Sequence[str]) -> _T:
    """Returns what was made while other trees were open, with its places as `place_in` finds them."""
    trees = [root for root in map(Place, roots) if root.tree is not None]
    if not trees:
        return value
    import pickle  # few runs need it

    buffer = io.BytesIO()

    class Pickler(pickle.Pickler):
        def persistent_id(self, found: object) -> str | None:
            return str(found) if isinstance(found, Place) else None

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, path: str) -> Place:
            return place_in(path, trees)

    Pickler(buffer).dump(value)
    buffer.seek(0)
    return Unpickler(buffer).load()


class TreeEntry:
    """An entry of a directory in a tree, like os.DirEntry."""

    __slots__ = ("_node", "name", "path")

    def __init__(self, place: Place, node: TreeNode) -> None:
        self.name, self.path = place.name, place
        self._node = node

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._node.kind == FILE

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._node.kind == DIRECTORY

    def is_symlink(self) -> bool:
        return self._node.kind == LINK

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self.path.status()


AnyEntry = os.DirEntry[str] | TreeEntry


def size_of(path: str) -> int:
    """Returns the size of a file in bytes. Raises PathError."""
    with errors_at(path):
        return Place(path).size()


def regular_status(descriptor: int, path: str, refusal: str) -> os.stat_result:
    """Returns the status of an open file. Closes it and raises OSError if it is no regular one."""
    status = os.fstat(descriptor)
    if not modes.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, refusal, path)
    return status


def read_limited(file: BinaryIO, path: str, max_bytes: int) -> bytes:
    """Returns the bytes of an open file. Raises OSError with EFBIG if it has more than ``max_bytes`` bytes."""
    content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"has more than {max_bytes} bytes", path)
    return content
