"""Names and sizes of objects in a store, and URLs of stores; few paths are URLs, so that urllib is imported late."""

import re
from typing import NamedTuple

_HOST = re.compile(r"[^:]*(:\d*)?|\[.*")
"""A host with or without a port, or an IPv6 address."""


class StoredObject(NamedTuple):
    """An object and its size in bytes."""

    name: str
    size: int


def is_url(path: str) -> bool:
    """Whether a path is a URL other than that of a local file."""
    if "://" not in path:
        return False
    from urllib.parse import urlsplit

    return urlsplit(path).scheme not in ("", "file")


def local_path(path: str) -> str:
    """Returns the path of a file URL: ``file:/a``, ``file:///a`` and ``/a`` are the same file. Others are unchanged."""
    if not path.startswith("file:/"):
        return path
    from urllib.parse import unquote, urlsplit

    return unquote(urlsplit(path).path)


def credentials_of(url: str) -> str:
    """Returns the user and password in a URL, as written; "" without them.

    A password may contain a slash, which should be quoted. ``abfs://container@account`` has no user.
    """
    scheme, _, rest = url.partition("://")
    head = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, _, host = head.rpartition("@")
    if scheme in ("abfs", "abfss") and ":" not in user:
        return ""
    if not user and "@" in rest and not _HOST.fullmatch(host):
        return rest.partition("@")[0]
    return user


def shown(url: str) -> str:
    """Returns a URL without user, password and query, which may contain credentials."""
    if not is_url(url):
        return url
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(_without_user(url))
    return urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


def store_root(url: str) -> str:
    """Returns the URL of the store that an object is in: of a bucket, container or host.

    A URL with a query is that of a single object.
    """
    from urllib.parse import urlsplit

    user = credentials_of(url)
    scheme, _, rest = url.partition("://")
    parts = urlsplit(f"{scheme}://{rest.removeprefix(f'{user}@')}")
    return url if parts.query else f"{scheme}://{user}{'@' if user else ''}{parts.netloc}"


def without_credentials(text: str, url: str) -> str:
    """Returns the text of an error without the user, password and query of a URL, which libraries repeat."""
    from urllib.parse import unquote, urlsplit

    user = credentials_of(url)
    for pair in {f"{user}@", unquote(f"{user}@")} - {"@"}:
        text = text.replace(pair, "")
    found = {user.partition(":")[2] or user, urlsplit(_without_user(url)).query}
    for secret in sorted((found | set(map(unquote, found))) - {""}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return " ".join(word.partition("?")[0] if "://" in word else word for word in text.split())


def _without_user(url: str) -> str:
    user = credentials_of(url)
    return url.replace(f"{user}@", "", 1) if user else url
