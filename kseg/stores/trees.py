"""The functions of os and os.path, also for paths in archives and stores at URLs.

The tree of an archive is mounted at the archive's path, so that a file in it has the path ARCHIVE/inner/path. Readers
of logs use these functions for all paths; those outside of mounted trees are passed to the system.

Files are opened in directories of other users: this never waits for a FIFO, opens a device or follows a link, except
that a FIFO or link that the user has named is opened.
"""

import errno
import os
import stat as modes
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import cached_property, partial
from io import BufferedReader
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from kseg.errors import KsegError, PathError, errors_at
from kseg.stores.extent import Extent, ExtentStream

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


class Tree:
    """Files by path relative to the root, "" for the root itself. Methods raise OSError.

    ``owner``: user id of files that are written from the tree; by default this user's.
    """

    is_archive = False
    """Whether it is one file, which is searched to a greater depth than directories."""
    is_shared = False
    """Whether forked processes can read it."""

    def __init__(self, owner: int | None = None, problems: list[ArchiveProblem] | None = None) -> None:
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

    def source(self, inner: str, path: str) -> "Source | None":
        """Returns a source for a file that is fetched in parts; None for a file that `open` opens."""
        return None

    def close(self) -> None:
        """Closes the files of the tree; may be called again."""


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
        import tempfile

        with tempfile.TemporaryFile() as file:
            file.write(self._bytes)
            file.flush()
            return Extent(os.dup(file.fileno()))


class MountedPath(NamedTuple):
    """A path in a mounted tree."""

    tree: Tree
    inner: str
    path: str

    def required(self) -> TreeNode:
        found = self.tree.node(self.inner)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
        return found

    def open(self) -> Extent:
        """Opens a regular file. Raises OSError, also for anything else."""
        kind = self.required().kind
        if kind == LINK:
            raise OSError(errno.ELOOP, "a link in an archive, which is not followed", self.path)
        if kind != FILE:
            raise OSError(errno.EINVAL, "not a regular file", self.path)
        return self.tree.open(self.inner)

    def status(self) -> os.stat_result:
        kind, size, modified_ns, number = self.required()
        seconds = modified_ns // 1_000_000_000
        mode = kind | (0o755 if kind == DIRECTORY else 0o644)
        group = os.getegid() if hasattr(os, "getegid") else 0
        times: dict[str, Any] = {f"st_{name}_ns": modified_ns for name in ("atime", "mtime", "ctime")}
        fields = (mode, number, 0, 1, self.tree.owner, group, size, seconds, seconds, seconds)
        return os.stat_result(fields, {**times, "st_blocks": -(-size // 512)})


_trees: dict[str, Tree] = {}
"""By root; longer roots come first, so that an archive in an archive is found. Replaced as a whole: another thread may
be looking for a path.
"""
_roots: dict[str, Tree] = {}
"""The same, by the paths as they were given."""
_given: dict[str, Tree] = {}
"""Trees of one file, by the path of the file."""
_failures: dict[str, KsegError] = {}


@contextmanager
def mounted(found: Iterable[tuple[str, Tree]]) -> Iterator[None]:
    """Mounts trees at paths for the length of a block, also at their absolute and real forms. Closes them at the end.

    Each is mounted before the next one is asked for.
    """
    global _trees
    made: dict[str, Tree] = {}
    try:
        for path, tree in found:
            made[path] = _roots[path] = tree
            names = {path} if path == "-" else {path, os.path.abspath(path), os.path.realpath(path)}
            known = _trees | dict.fromkeys((name.rstrip("/") for name in names), tree)
            _trees = {name: known[name] for name in sorted(known, key=len, reverse=True)}
        yield
    finally:
        for path, tree in made.items():
            _roots.pop(path, None)
            _trees = {name: other for name, other in _trees.items() if other is not tree}
            tree.close()


@contextmanager
def given(files: Mapping[str, Tree]) -> Iterator[None]:
    """Mounts trees of one file at exactly these paths for the length of a block."""
    _given.update(files)
    try:
        yield
    finally:
        for path in files:
            _given.pop(path, None)


def fail(path: str, error: KsegError) -> None:
    """Records the error of mounting a path; `check` raises it."""
    _failures[path] = error


def check(path: str) -> None:
    """Raises the recorded error of the path, or of an archive above it."""
    for root, error in _failures.items():
        if path == root or path.startswith(root + "/"):
            raise error


def forget_failures() -> None:
    _failures.clear()


def find(path: str) -> MountedPath | None:
    """Returns the place of a path in a mounted or given tree, None for a path of the system."""
    if (given_tree := _given.get(path)) is not None:
        return MountedPath(given_tree, "", path)
    if not _trees:
        return None
    for root, tree in _trees.items():
        if path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
            inner = path[len(root) :].strip("/")
            return MountedPath(tree, "" if inner in ("", ".") else os.path.normpath(inner), path)
    return None


def problems() -> Iterator[tuple[str, ArchiveProblem]]:
    """Yields the problems of mounted archives, each with the archive's path."""
    for path, tree in list(_roots.items()):
        yield from ((path, problem) for problem in tree.problems)


def are_forkable() -> bool:
    """Whether worker processes can read all mounted trees."""
    return not _trees or (sys.platform == "linux" and all(tree.is_shared for tree in _trees.values()))


class TreeEntry:
    """An entry of a directory in a tree, like os.DirEntry."""

    __slots__ = ("_node", "_place", "name", "path")

    def __init__(self, directory: MountedPath, name: str, node: TreeNode) -> None:
        self.name = name
        self.path = os.path.join(directory.path, name)
        self._node = node
        self._place = MountedPath(directory.tree, f"{directory.inner}/{name}".lstrip("/"), self.path)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._node.kind == FILE

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._node.kind == DIRECTORY

    def is_symlink(self) -> bool:
        return self._node.kind == LINK

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._place.status()


AnyEntry = os.DirEntry[str] | TreeEntry


def scandir(path: str) -> AbstractContextManager[Iterator[AnyEntry]]:
    """As os.scandir, to be used as a context manager. Raises OSError."""
    place = find(path)
    if place is None:
        return os.scandir(path)
    if place.required().kind != DIRECTORY:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return nullcontext(TreeEntry(place, name, node) for name, node in place.tree.nodes(place.inner))


def listdir(path: str) -> list[str]:
    """As os.listdir. Raises OSError."""
    if find(path) is None:
        return os.listdir(path)
    with scandir(path) as entries:
        return [entry.name for entry in entries]


def _asked(system: Callable[[str], bool], kind: int | None, path: str) -> bool:
    place = find(path)
    if place is None:
        return system(path)
    try:
        found = place.tree.node(place.inner)
    except OSError:
        return False
    return found is not None and (kind is None or found.kind == kind)


# As the functions of os.path with these names.
isdir = partial(_asked, os.path.isdir, DIRECTORY)
isfile = partial(_asked, os.path.isfile, FILE)
islink = partial(_asked, os.path.islink, LINK)
exists = partial(_asked, os.path.exists, None)
lexists = partial(_asked, os.path.lexists, None)


def status(path: str, *, follow_symlinks: bool = True) -> os.stat_result:
    """As os.stat. Raises OSError."""
    place = find(path)
    return os.stat(path, follow_symlinks=follow_symlinks) if place is None else place.status()


def getsize(path: str) -> int:
    """As os.path.getsize. Raises OSError."""
    return status(path).st_size


def size_of(path: str) -> int:
    """Returns the size of a file in bytes. Raises PathError."""
    with errors_at(path):
        return getsize(path)


_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

LINK_REFUSAL = "a symbolic link, which is not followed in a directory: name the file itself"

_pipes: set[str] = set()
_links: set[str] = set()
_others: set[str] = set()


def expect_named(path: str) -> None:
    """Allows waiting for a FIFO and following a link that the user has named; those in directories are rejected."""
    with suppress(OSError):
        if modes.S_ISLNK(os.lstat(path).st_mode):
            _links.add(path)
        mode = os.stat(path).st_mode
        if not modes.S_ISREG(mode):
            (_pipes if modes.S_ISFIFO(mode) else _others).add(path)


def is_expected_pipe(path: str) -> bool:
    return path in _pipes


def open_with_status(path: str) -> tuple[int, os.stat_result]:
    """Returns a descriptor of a regular file, and its status; follows a link only if the user has named it.

    Raises OSError, also for any other file.
    """
    if path in _others:  # merely opening a device may have an effect
        raise OSError(errno.EINVAL, "not a regular file", path)
    is_followed = path in _links
    if not is_followed and not _NOFOLLOW and os.path.islink(path):  # on Windows
        raise OSError(errno.ELOOP, LINK_REFUSAL, path)
    try:
        descriptor = os.open(path, _FLAGS if is_followed else _FLAGS | _NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP and not is_followed and os.path.islink(path):
            raise OSError(errno.ELOOP, LINK_REFUSAL, path) from error
        raise
    return descriptor, regular_status(descriptor, path, "not a regular file")


def regular_status(descriptor: int, path: str, refusal: str) -> os.stat_result:
    """Returns the status of an open file. Closes it and raises OSError if it is no regular one."""
    status = os.fstat(descriptor)
    if not modes.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, refusal, path)
    return status


def open_extent(path: str) -> Extent:
    """Opens a file of a tree, or a regular file as `open_with_status` does. Raises OSError."""
    place = find(path)
    return Extent(open_with_status(path)[0]) if place is None else place.open()


def first_bytes(path: str, max_bytes: int) -> bytes:
    """Returns at most ``max_bytes`` bytes from the start of a file, opened as by `open_extent`. Raises OSError."""
    with closing(open_extent(path)) as extent:
        return extent.pread(max_bytes, 0)


def open_regular(path: str) -> BufferedReader:
    """Opens a regular file as `open_extent` does. Raises OSError."""
    place = find(path)
    return os.fdopen(open_with_status(path)[0], "rb") if place is None else BufferedReader(ExtentStream(place.open()))


def read_regular(path: str, max_bytes: int) -> bytes:
    """Returns the bytes of a small file. Raises OSError, EFBIG if it has more than ``max_bytes`` bytes."""
    with open_regular(path) as file:
        return read_limited(file, path, max_bytes)


def read_limited(file: BinaryIO, path: str, max_bytes: int) -> bytes:
    """Returns the bytes of an open file. Raises OSError with EFBIG if it has more than ``max_bytes`` bytes."""
    content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"has more than {max_bytes} bytes", path)
    return content
