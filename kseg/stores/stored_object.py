"""Names and sizes of objects in a store, and URLs of stores."""

from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit


class StoredObject(NamedTuple):
    """An object and its size in bytes."""

    name: str
    size: int


def is_url(path: str) -> bool:
    """Whether a path is a URL other than that of a local file."""
    return "://" in path and urlsplit(path).scheme not in ("", "file")


def shown(url: str) -> str:
    """Returns a URL without user, password and query, which may contain credentials."""
    if not is_url(url):
        return url
    parts = urlsplit(url)
    host = parts.netloc if parts.scheme in ("abfs", "abfss") else parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
