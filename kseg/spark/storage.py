"""Settings of the file systems of URLs: options that start with ``storage.``, and Spark's Hadoop configuration.

A task of a Python data source has no access to the JVM, and so to the configuration: `kseg.spark.register` reads it on
the driver. Names of Hadoop are those of hadoop-aws (fs.s3a), hadoop-azure (fs.azure) and Google's connector (fs.gs),
which become parameters of Python's file systems, and those of HDFS and of mount tables. None is shown: they contain
credentials.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from kseg.spark.hadoop_paths import DEFAULT, MOUNT_TABLES, SECURITY, USER, is_hdfs_property, webhdfs_options

HDFS_SCHEMES = ("hdfs", "webhdfs", "swebhdfs")
"""Schemes of HDFS."""

Settings = tuple[tuple[str, str], ...]
"""Names and values."""

_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs"}
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
        if scheme_of(url) == "s3":
            options = _s3_options(properties, place.netloc)
        elif scheme_of(url) == "abfs":
            options = _azure_options(properties, place.netloc.rpartition("@")[2])
        elif scheme_of(url) == "gs":
            options = _google_options(properties)
        elif place.scheme in HDFS_SCHEMES and given.pop("libhdfs", "false") != "true":
            options = webhdfs_options(url, properties, given)
        return options | {name: _WORDS.get(value, value) for name, value in given.items()}


def scheme_of(url: str) -> str:
    """Returns the scheme of a URL, the same for all names of a store."""
    scheme = urlsplit(url).scheme
    return _ALIASES.get(scheme, scheme)


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
        for prefix, is_known in _KNOWN.items()
        for name, value in configuration.getPropsWithPrefix(prefix).items()
        if is_known(name) and value
    }
    found[USER] = str(spark.sparkContext.sparkUser())
    for name in _SECRETS:
        secret = configuration.getPassword(_S3A + name)
        if secret is not None:
            found[_S3A + name] = "".join(secret)
    return tuple(sorted(found.items()))


def _is_s3(name: str) -> bool:
    """Whether fs.s3a.NAME or fs.s3a.bucket.BUCKET.NAME is known."""
    known = (*_S3_NAMES, *_S3_OTHERS)
    return name in known or (name.startswith("bucket.") and name.endswith(tuple(f".{each}" for each in known)))


def _is_azure(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in (*_AZURE_NAMES, _AZURE_ENDPOINT))


_KNOWN: Mapping[str, Callable[[str], bool]] = {
    _S3A: _is_s3,
    _AZURE: _is_azure,
    "dfs.": lambda name: is_hdfs_property(f"dfs.{name}"),
    MOUNT_TABLES: lambda _: True,
    DEFAULT: lambda name: not name,
    SECURITY: lambda name: not name,
    **dict.fromkeys(_GOOGLE, _GOOGLE_NAMES.__contains__),
    _GOOGLE_ROOT: lambda name: not name,
}
"""Prefixes of properties, and which of their names are used."""


def _s3_options(properties: Mapping[str, str], bucket: str) -> dict[str, Any]:
    def get(name: str) -> str:
        return properties.get(f"{_S3A}bucket.{bucket}.{name}") or properties.get(_S3A + name) or ""

    options: dict[str, Any] = {ours: get(name) for name, ours in _S3_NAMES.items() if get(name)}
    if "AnonymousAWSCredentialsProvider" in get("aws.credentials.provider"):
        options = {"anonymous": True} | {name: value for name, value in options.items() if name == "region"}
    if endpoint := get("endpoint"):
        scheme, _, host = endpoint.rpartition("://")
        usual = "http" if get("connection.ssl.enabled") == "false" else "https"
        options |= _endpoint_options(host.rstrip("/"), scheme or usual)
    return options | {"region": get("endpoint.region")} if get("endpoint.region") else options


def _endpoint_options(host: str, scheme: str) -> Iterator[tuple[str, str]]:
    """Yields the parameters of an endpoint; pyarrow knows those of Amazon by their regions."""
    amazon = _AMAZON.fullmatch(host)
    if amazon is None:
        yield "endpoint_override", host
        yield "scheme", scheme
    elif amazon[1]:
        yield "region", amazon[1]


def _azure_options(properties: Mapping[str, str], host: str) -> dict[str, Any]:
    def get(name: str) -> str:
        return properties.get(f"{_AZURE}{name}.{host}") or properties.get(_AZURE + name) or ""

    options: dict[str, Any] = {ours: get(name) for name, ours in _AZURE_NAMES.items() if get(name)}
    if "client_id" in options and (endpoint := get(_AZURE_ENDPOINT)):
        options["tenant_id"] = urlsplit(endpoint).path.strip("/").partition("/")[0]
    return options


def _google_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns parameters of pyarrow's file system; with a key file those of gcsfs, because pyarrow takes none."""

    def get(name: str) -> str:
        return next((properties[prefix + name] for prefix in _GOOGLE if properties.get(prefix + name)), "")

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
