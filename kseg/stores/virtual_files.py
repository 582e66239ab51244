"""Files whose content is stored elsewhere or in another form. Each is a tree of one file.

The side files of a segment in remote storage are parts of one object, and its log is stored in chunks. Readers of a
segment and of the files beside it open both under the paths that they have in LocalTieredStorage.
"""

import errno
import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from kseg.errors import PathError
from kseg.stores.extent import Extent
from kseg.stores.trees import FILE, Node, Tree

if TYPE_CHECKING:
    from kseg.stores.source import Source


class VirtualLog(Tree):
    """A log, which is only opened as a source.

    ``size`` returns its size in bytes, ``make`` opens it; both may raise PathError.
    """

    def __init__(self, size: Callable[[], int], make: "Callable[[], Source]") -> None:
        super().__init__()
        self._size, self._make = size, make

    def node(self, inner: str) -> Node | None:
        try:
            return Node(FILE, self._size())
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

    def node(self, inner: str) -> Node | None:
        return Node(FILE, len(self._bytes))

    def open(self, inner: str) -> Extent:
        import tempfile

        with tempfile.TemporaryFile() as file:
            file.write(self._bytes)
            file.flush()
            return Extent(os.dup(file.fileno()))
