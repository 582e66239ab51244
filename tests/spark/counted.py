"""A file system of fsspec in memory that notes what is requested of it: counted://NAME/path."""

from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import fsspec
from fsspec.implementations.memory import MemoryFileSystem


class Request(NamedTuple):
    """``kind``: "list" or "read"; of a read the name of the file, and its range."""

    kind: str
    name: str
    start: int = 0
    end: int = 0


class CountedFileSystem(MemoryFileSystem):
    """Files in memory. The requests of all instances are in one list."""

    protocol = "counted"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    requests: ClassVar[list[Request]] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return MemoryFileSystem._strip_protocol(path.removeprefix("counted://"))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        self.requests.append(Request("list", path.rpartition("/")[2]))
        return super().ls(path, detail, **kwargs)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        self.requests.append(Request("read", path.rpartition("/")[2], start or 0, end or 0))
        return super().cat_file(path, start, end, **kwargs)


fsspec.register_implementation("counted", CountedFileSystem, clobber=True)


def stored(directory: Path, name: str, without: str = "none") -> str:
    """Copies a partition directory to counted://NAME/, without files of a suffix; returns its URL."""
    system = fsspec.filesystem("counted")
    for file in directory.iterdir():
        if file.is_file() and file.suffix != without:
            system.pipe_file(f"/{name}/{directory.name}/{file.name}", file.read_bytes())
    CountedFileSystem.requests.clear()
    return f"counted://{name}/{directory.name}"


def reads() -> list[Request]:
    return [each for each in CountedFileSystem.requests if each.kind == "read"]
