"""pyarrow's file systems of S3, Google Cloud Storage and Azure as those of fsspec, for `kseg.stores.object_urls`.

Spark needs pyarrow anyway, and so no library of a store: its options are the parameters of these file systems.
"""

from typing import Any
from urllib.parse import urlsplit

from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow import fs

from kseg.errors import KsegError
from kseg.stores.http_requests import ATTEMPTS, REQUEST_SECONDS
from kseg.stores.object_urls import BUCKETS
from kseg.stores.stored_object import shown

_SYSTEMS = {"s3": "S3FileSystem", "gs": "GcsFileSystem", "abfs": "AzureFileSystem"}
_NUMBERS = {"request_timeout": float, "connect_timeout": float, "load_frequency": int}
"""Parameters that are no strings."""
_OPEN_FILES = 16
_GOOGLE = "gcs"


def open_arrow(url: str, settings: dict[str, Any]) -> tuple["ArrowFiles", str] | None:
    """Returns the file system of a URL, and the path in it.

    Returns None if pyarrow has none for the URL, or if a key file is given for Google Cloud Storage (``token``), which
    only gcsfs takes. Raises KsegError if pyarrow rejects the settings.
    """
    parts = urlsplit(url)
    scheme = BUCKETS.get(parts.scheme)
    if scheme is None or (scheme == "gs" and "token" in settings):
        return None
    container, _, host = parts.netloc.partition("@")
    if scheme == "abfs" and host:
        settings = {"account_name": host.partition(".")[0]} | settings
    try:
        options = {name: _NUMBERS[name](value) if name in _NUMBERS else value for name, value in settings.items()}
        if scheme == "s3":
            attempts = int(options.pop("max_attempts", ATTEMPTS))
            options.setdefault("request_timeout", REQUEST_SECONDS)
            options["retry_strategy"] = fs.AwsStandardS3RetryStrategy(max_attempts=attempts)
        root = container if scheme == "abfs" else parts.netloc
        return ArrowFiles(getattr(fs, _SYSTEMS[scheme])(**options)), f"{root}{parts.path}".rstrip("/")
    except (AttributeError, TypeError, ValueError, OSError) as error:
        raise KsegError(f"{shown(url)}: {error}") from error


class ArrowFiles(ArrowFSWrapper):
    """A file system of pyarrow, with files that stay open for further ranges, and copies made by the store."""

    cachable = False

    def __init__(self, system: fs.FileSystem) -> None:
        super().__init__(system)
        self._files: dict[str, Any] = {}

    def ls(self, path: str, detail: bool = False, **options: Any) -> list[Any]:
        if self.fs.type_name != _GOOGLE:
            return list(super().ls(path, detail, **options))
        # Of Google's folders only those that are objects themselves are listed, unless all below is.
        found: dict[str, Any] = {}
        for info in self.fs.get_file_info(fs.FileSelector(path, recursive=True)):
            first, _, below = info.path.removeprefix(path).strip("/").partition("/")
            name = f"{path}/{first}"
            found[name] = {"name": name, "size": None, "type": "directory"} if below else self._make_entry(info)
        return list(found.values()) if detail else [*found]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        file = self._files.get(path)
        if file is None:  # to open one takes a request
            while len(self._files) >= _OPEN_FILES:
                self._files.pop(next(iter(self._files)), None)
            file = self._files[path] = self.fs.open_input_file(path)
        start = start or 0
        return bytes(file.read_at((file.size() if end is None else end) - start, start))

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        self.fs.copy_file(path1, path2)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Does nothing: these stores need no folders, and pyarrow would leave an empty object for each."""

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        self.info(path)
        # In Google Cloud Storage a folder is mostly no object, and pyarrow fails to remove what is not there.
        (self.fs.delete_dir_contents if self.fs.type_name == _GOOGLE else self.fs.delete_dir)(path)
