"""Paths as Spark's JVM understands them: of the default file system, of mount tables (viewfs) and of Databricks.

Source: FileSystem.getDefaultUri, and the links of org.apache.hadoop.fs.viewfs.
"""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from kseg.errors import KsegError, UnsupportedError
from kseg.stores.stored_object import shown

# WebHDFS addresses of HDFS's name nodes, from a Hadoop configuration (DFSUtil.getInfoServer and HAUtil of Hadoop).

USER = "HADOOP_USER_NAME"
"""The name of the session's user among the properties."""
SECURITY = "hadoop.security.authentication"

_POLICY = "dfs.http.policy"
_SERVICES = "dfs.ha.namenodes"
_RPC = "dfs.namenode.rpc-address"
_HTTP = {False: "dfs.namenode.http-address", True: "dfs.namenode.https-address"}
_RPC_PORT = "8020"


def is_hdfs_property(name: str) -> bool:
    """Whether a property says where name nodes are."""
    return name == _POLICY or any(
        name == each or name.startswith(f"{each}.") for each in (_SERVICES, _RPC, *_HTTP.values())
    )


def webhdfs_options(url: str, properties: Mapping[str, str], given: Mapping[str, str]) -> dict[str, Any]:
    """Returns parameters of WebHDFS for hdfs, webhdfs and swebhdfs. ``given``: options, which take precedence."""
    place, options = urlsplit(url), dict[str, Any]()
    if "token" not in given:
        if properties.get(SECURITY) == "kerberos":
            options["kerberos"] = True
        elif USER in properties and not place.username:
            options["user"] = properties[USER]
    if place.scheme == "hdfs":
        is_https = properties.get(_POLICY) == "HTTPS_ONLY"
        others = {"host", "port", "name_nodes"} & given.keys()
        options["name_nodes"] = () if others else name_nodes(place.netloc.rpartition("@")[2], properties, is_https)
        options["use_https"] = is_https
    return options


def name_nodes(authority: str, properties: Mapping[str, str], is_https: bool) -> tuple[str, ...]:
    """Returns HOST:PORT of each name node of a name service or host; HOST where the default port holds.

    Raises KsegError if a name service has a name node without an address.
    """
    http = _HTTP[is_https]
    numbers = properties.get(f"{_SERVICES}.{authority}", "").replace(",", " ").split()
    suffixes = [f".{authority}.{number}" for number in numbers] or [f".{authority}"]
    found = [_address(properties.get(http + suffix, ""), properties.get(_RPC + suffix, "")) for suffix in suffixes]
    if any(found) or numbers:
        if not all(found):
            suffix = suffixes[found.index("")]
            raise KsegError(f"hdfs://{authority}: the Hadoop configuration has no {_RPC}{suffix} and no {http}{suffix}")
        return tuple(found)
    return (_of_host(authority, properties, http),)


def _of_host(authority: str, properties: Mapping[str, str], http: str) -> str:
    for name, value in properties.items():
        if name.startswith(f"{_RPC}.") and _with_port(value) == _with_port(authority):
            return _address(properties.get(http + name.removeprefix(_RPC), ""), authority)
    given, host = properties.get(http, ""), authority.partition(":")[0]
    is_default = _with_port(urlsplit(properties.get(DEFAULT, "")).netloc) == _with_port(authority)
    is_own = is_default or given.rpartition(":")[0] in ("", "0.0.0.0", host)
    return _address(given if is_own else "", authority)


def _address(given: str, authority: str) -> str:
    """Returns an address; a host of its own replaces the wildcard. "" if nothing is known."""
    host, _, port = given.rpartition(":")
    own = authority.partition(":")[0]
    if host not in ("", "0.0.0.0"):
        return given
    return f"{own}:{port}" if own and port else own


def _with_port(authority: str) -> str:
    return authority if ":" in authority or not authority else f"{authority}:{_RPC_PORT}"


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
