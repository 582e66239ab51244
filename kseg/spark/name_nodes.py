"""WebHDFS addresses of HDFS's name nodes, from a Hadoop configuration (DFSUtil.getInfoServer and HAUtil of Hadoop)."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from kseg.errors import KsegError
from kseg.spark.hadoop_paths import DEFAULT

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
