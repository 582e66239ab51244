"""Paths as Spark's JVM understands them: of the default file system, of mount tables (viewfs) and of Databricks.

Source: FileSystem.getDefaultUri, and the links of org.apache.hadoop.fs.viewfs.
"""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from kseg.errors import KsegError, UnsupportedError
from kseg.stores.stored_object import shown

MOUNT_TABLES = "fs.viewfs.mounttable."
DEFAULT = "fs.defaultFS"
_DATABRICKS = "/dbfs"
"""Where Databricks mounts its file system."""
_SHOWN_LINKS = 5


def located(path: str, properties: Mapping[str, str]) -> str:
    """Returns a path or URL that readers open. ``properties``: the Hadoop configuration. Raises KsegError."""
    links: list[str] = []
    while True:
        parts = urlsplit(path)
        if parts.scheme == "dbfs":
            return _of_databricks(path)
        if parts.scheme in ("hdfs", "viewfs") and not parts.netloc:
            path = _with_authority(path, properties)
        if parts.scheme != "viewfs":
            return path
        link, path = _target(path, properties)
        if link in links:
            raise KsegError(f"{link}: this link leads to itself: {', '.join(links)}")
        links.append(link)


def _with_authority(path: str, properties: Mapping[str, str]) -> str:
    """Completes hdfs:///PATH by the default file system, viewfs:///PATH also by the default mount table."""
    parts, usual = urlsplit(path), urlsplit(properties.get(DEFAULT, ""))
    authority = usual.netloc if usual.scheme == parts.scheme else ""
    if not authority and parts.scheme == "viewfs":
        authority = properties.get(f"{MOUNT_TABLES}default.name.key", "default")
    if not authority:
        known = f"fs.defaultFS is {shown(properties[DEFAULT])}" if DEFAULT in properties else "there is no fs.defaultFS"
        raise KsegError(f"{path}: has no name node, and {known}: give hdfs://HOST/PATH")
    return f"{parts.scheme}://{authority}/{path.partition(':')[2].lstrip('/')}"


def _target(url: str, properties: Mapping[str, str]) -> tuple[str, str]:
    """Returns the longest link of a viewfs URL as a URL, and the target of the whole. Raises KsegError."""
    scheme, _, rest = url.partition("://")
    table, _, inner = rest.partition("/")
    prefix = f"{MOUNT_TABLES}{table}.link."
    links = {
        name.removeprefix(prefix).strip("/"): value for name, value in properties.items() if name.startswith(prefix)
    }
    inner = inner.strip("/")
    found = max((link for link in links if f"{inner}/".startswith(f"{link}/" if link else "")), key=len, default=None)
    if found is None:
        names = [f"/{link}" for link in sorted(links)]
        more = [f"{len(names) - _SHOWN_LINKS} more"] if len(names) > _SHOWN_LINKS else []
        known = f"its links are {', '.join(names[:_SHOWN_LINKS] + more)}" if names else "it has none"
        raise KsegError(f"{url}: no link of mount table {table} in the Hadoop configuration leads there: {known}")
    below = inner.removeprefix(found).lstrip("/")
    return f"{scheme}://{table}/{found}", f"{links[found].rstrip('/')}/{below}" if below else links[found]


def _of_databricks(path: str) -> str:
    local = f"{_DATABRICKS}/{path.partition(':')[2].lstrip('/')}"
    if not os.path.isdir(_DATABRICKS):
        raise UnsupportedError(f"{path}: Databricks mounts it as {local}, but this machine has no {_DATABRICKS}")
    return local
