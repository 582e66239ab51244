"""Settings of file systems: options that start with ``storage.``, and Spark's Hadoop configuration.

A task of a Python data source has no access to the JVM, and so to the configuration: `kseg.spark.register` reads it on
the driver. Names of Hadoop are those of hadoop-aws (fs.s3a), hadoop-azure (fs.azure) and Google's connector (fs.gs),
which become parameters of Python's file systems, and those of HDFS and of mount tables. None is shown: they contain
credentials.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from kseg.errors import KsegError, UnsupportedError
from kseg.stores.object_urls import BUCKETS
from kseg.stores.place import Place
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
    for name, value in properties.items():
        if name.startswith(f"{_RPC}.") and _with_port(value) == _with_port(authority):
            return (_address(properties.get(http + name.removeprefix(_RPC), ""), authority),)
    given, host = properties.get(http, ""), authority.partition(":")[0]
    is_default = _with_port(urlsplit(properties.get(DEFAULT, "")).netloc) == _with_port(authority)
    is_own = is_default or given.rpartition(":")[0] in ("", "0.0.0.0", host)
    return (_address(given if is_own else "", authority),)


def _address(given: str, authority: str) -> str:
    """Returns an address; a host of its own replaces the wildcard. "" if nothing is known."""
    host, _, port = given.rpartition(":")
    own = authority.partition(":")[0]
    if host not in ("", "0.0.0.0"):
        return given
    return f"{own}:{port}" if own and port else own


def _with_port(authority: str) -> str:
    return authority if ":" in authority or not authority else f"{authority}:{_RPC_PORT}"


# Paths as Spark's JVM understands them: of the default file system, of mount tables (viewfs) and of Databricks.
#
# Source: FileSystem.getDefaultUri, and the links of org.apache.hadoop.fs.viewfs.

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
            local = f"{_DATABRICKS}/{path.partition(':')[2].lstrip('/')}"
            if Place(_DATABRICKS).is_dir():
                return local
            raise UnsupportedError(f"{path}: Databricks mounts it as {local}, but this machine has no {_DATABRICKS}")
        if parts.scheme in ("hdfs", "viewfs") and not parts.netloc:
            # hdfs:///PATH is completed by the default file system, viewfs:///PATH also by the default mount table.
            usual = urlsplit(properties.get(DEFAULT, ""))
            authority = usual.netloc if usual.scheme == parts.scheme else ""
            if not authority and parts.scheme == "viewfs":
                authority = properties.get(f"{MOUNT_TABLES}default.name.key", "default")
            if not authority:
                known = "there is no fs.defaultFS"
                if DEFAULT in properties:
                    known = f"fs.defaultFS is {shown(properties[DEFAULT])}"
                raise KsegError(f"{path}: has no name node, and {known}: give hdfs://HOST/PATH")
            path = f"{parts.scheme}://{authority}/{path.partition(':')[2].lstrip('/')}"
        if parts.scheme != "viewfs":
            return path
        link, path = _target(path, properties)
        if link in links:
            raise KsegError(f"{link}: this link leads to itself: {', '.join(links)}")
        links.append(link)


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


HDFS_SCHEMES = ("hdfs", "webhdfs", "swebhdfs")
"""Schemes of HDFS."""

Settings = tuple[tuple[str, str], ...]
"""Names and values."""

_WORDS = {"true": True, "false": False}

_S3A = "fs.s3a."
_S3_NAMES = {
    "access.key": "access_key", "secret.key": "secret_key", "session.token": "session_token",
    "endpoint.region": "region", "assumed.role.arn": "role_arn",
}  # fmt: skip
_S3_OTHERS = ("endpoint", "connection.ssl.enabled", "aws.credentials.provider")
_SECRETS = ("access.key", "secret.key", "session.token")
"""Names that a credential file of Hadoop can hold."""
_AMAZON = re.compile(r"s3[.-](?:([a-z0-9-]+)\.)?amazonaws\.com(\.cn)?$")

_AZURE = "fs.azure."
_AZURE_NAMES = {
    "account.key": "account_key", "sas.fixed.token": "sas_token", "account.oauth2.client.id": "client_id",
    "account.oauth2.client.secret": "client_secret",
}  # fmt: skip
_AZURE_ENDPOINT = "account.oauth2.client.endpoint"

_GOOGLE = ("fs.gs.auth.", "google.cloud.auth.")
"""Prefixes of credentials; the second is that of earlier releases."""
_GOOGLE_NAMES = ("type", "null.enable", "service.account.json.keyfile")
_GOOGLE_ROOT = "fs.gs.storage.root.url"


@dataclass(frozen=True, slots=True)
class Storage:
    """Settings for URLs. ``given``: options without their prefix; ``hadoop``: properties of the configuration."""

    given: Settings = field(default=(), repr=False)
    hadoop: Settings = field(default=(), repr=False)

    def options_for(self, url: str) -> dict[str, Any]:
        """Returns the parameters of a URL's file system; an option takes precedence over a property."""
        place, properties, given = urlsplit(url), dict(self.hadoop), dict(self.given)
        options: dict[str, Any] = {}
        if (scheme := BUCKETS.get(place.scheme)) == "s3":
            options = _s3_options(properties, place.netloc)
        elif scheme == "abfs":
            options = _azure_options(properties, place.netloc.rpartition("@")[2])
        elif scheme == "gs":
            options = _google_options(properties)
        elif place.scheme in HDFS_SCHEMES and given.pop("libhdfs", "false") != "true":
            if "token" not in given:
                if properties.get(SECURITY) == "kerberos":
                    options["kerberos"] = True
                elif USER in properties and not place.username:
                    options["user"] = properties[USER]
            if place.scheme == "hdfs":
                is_https = properties.get(_POLICY) == "HTTPS_ONLY"
                others = {"host", "port", "name_nodes"} & given.keys()
                found = () if others else name_nodes(place.netloc.rpartition("@")[2], properties, is_https)
                options |= {"name_nodes": found, "use_https": is_https}
        return options | {name: _WORDS.get(value, value) for name, value in given.items()}


def storage_options(given: Mapping[str, str]) -> Settings:
    """Returns the options that start with ``storage.``, without it."""
    found = ((name[8:].lower(), text) for name, text in given.items() if name.lower().startswith("storage."))
    return tuple(sorted(found))


def hadoop_settings(spark: Any) -> Settings:
    """Returns the properties of stores in the Hadoop configuration of a session; none if it is a Connect session."""
    session = getattr(spark, "_jsparkSession", None)
    if session is None:
        return ()
    spark._jvm.org.apache.hadoop.hdfs.HdfsConfiguration.init()  # hdfs-site.xml
    configuration = session.sessionState().newHadoopConf()
    found = {
        prefix + name: str(value)
        for prefix, known in _KNOWN.items()
        for name, value in configuration.getPropsWithPrefix(prefix).items()
        if re.fullmatch(known, name) and value
    }
    found[USER] = str(spark.sparkContext.sparkUser())
    for name in _SECRETS:
        if (secret := configuration.getPassword(_S3A + name)) is not None:
            found[_S3A + name] = "".join(secret)
    return tuple(sorted(found.items()))


_KNOWN: Mapping[str, str] = {
    _S3A: rf"(bucket\..*\.)?({'|'.join(map(re.escape, (*_S3_NAMES, *_S3_OTHERS)))})",
    _AZURE: rf"({'|'.join(map(re.escape, (*_AZURE_NAMES, _AZURE_ENDPOINT)))})(\..*)?",
    **dict.fromkeys(_GOOGLE, "|".join(map(re.escape, _GOOGLE_NAMES))),
    **dict.fromkeys((_SERVICES, _RPC, *_HTTP.values()), r"(\..*)?"),
    **dict.fromkeys((_POLICY, DEFAULT, SECURITY, _GOOGLE_ROOT), ""),
    MOUNT_TABLES: ".*",
}
"""Prefixes of properties, each with the regular expression of its names that are used."""


def _getter(properties: Mapping[str, str], *places: tuple[str, str]) -> Callable[[str], str]:
    """Returns a function that looks for a name between each prefix and suffix, in order; "" if it is nowhere."""
    return lambda name: next(filter(None, (properties.get(before + name + end) for before, end in places)), "")


def _s3_options(properties: Mapping[str, str], bucket: str) -> dict[str, Any]:
    get = _getter(properties, (f"{_S3A}bucket.{bucket}.", ""), (_S3A, ""))
    options: dict[str, Any] = {ours: get(name) for name, ours in _S3_NAMES.items() if get(name)}
    if "AnonymousAWSCredentialsProvider" in get("aws.credentials.provider"):
        options = {"anonymous": True} | {name: value for name, value in options.items() if name == "region"}
    if endpoint := get("endpoint"):
        scheme, _, host = endpoint.rpartition("://")
        host = host.rstrip("/")
        amazon = _AMAZON.fullmatch(host)
        if amazon is None:
            usual = "http" if get("connection.ssl.enabled") == "false" else "https"
            options |= {"endpoint_override": host, "scheme": scheme or usual}
        elif amazon[1]:  # pyarrow knows the endpoints of Amazon by their regions
            options["region"] = amazon[1]
    return options | {"region": get("endpoint.region")} if get("endpoint.region") else options


def _azure_options(properties: Mapping[str, str], host: str) -> dict[str, Any]:
    get = _getter(properties, (_AZURE, f".{host}"), (_AZURE, ""))
    options: dict[str, Any] = {ours: get(name) for name, ours in _AZURE_NAMES.items() if get(name)}
    if "client_id" in options and (endpoint := get(_AZURE_ENDPOINT)):
        options["tenant_id"] = urlsplit(endpoint).path.strip("/").partition("/")[0]
    return options


def _google_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns parameters of pyarrow's file system; with a key file those of gcsfs, because pyarrow takes none."""
    get = _getter(properties, *((prefix, "") for prefix in _GOOGLE))
    kind, root = get("type"), properties.get(_GOOGLE_ROOT, "").rstrip("/")
    is_anonymous = kind == "UNAUTHENTICATED" or get("null.enable") == "true"
    key_file = get("service.account.json.keyfile")
    if key_file and not is_anonymous and kind in ("", "SERVICE_ACCOUNT_JSON_KEYFILE"):
        # Streams would not find new segments in a listing that is kept.
        options: dict[str, Any] = {"token": key_file, "use_listings_cache": False}
        return options | ({"endpoint_url": root} if root else {})
    options = {"anonymous": True} if is_anonymous else {}
    scheme, _, host = root.rpartition("://")
    return options | ({"endpoint_override": host, "scheme": scheme or "https"} if host else {})
