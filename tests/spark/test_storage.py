"""Settings and paths of file systems: options, what the Hadoop configuration of a session has, and its mount tables."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kseg.errors import KsegError, UnsupportedError
from kseg.spark import hadoop as settings
from kseg.spark.hadoop import Storage, hadoop_settings, located, name_nodes

SOURCE = Path(__file__).resolve().parents[2] / "testdata/kafka-4.3.1/clients/librdkafka-gzip-0"
KEYS = (("fs.s3a.access.key", "a"), ("fs.s3a.secret.key", "b"))
ACCOUNT = "archive.dfs.core.windows.net"
URL = f"abfss://logs@{ACCOUNT}/orders-0"


@pytest.mark.parametrize(
    ("hadoop", "options"),
    [
        (KEYS, {"access_key": "a", "secret_key": "b"}),
        ((*KEYS, ("fs.s3a.bucket.logs.secret.key", "c")), {"access_key": "a", "secret_key": "c"}),
        ((("fs.s3a.bucket.others.secret.key", "c"),), {}),
        ((("fs.s3a.endpoint", "http://minio:9000/"),), {"endpoint_override": "minio:9000", "scheme": "http"}),
        (
            (("fs.s3a.endpoint", "minio:9000"), ("fs.s3a.connection.ssl.enabled", "false")),
            {"endpoint_override": "minio:9000", "scheme": "http"},
        ),
        ((("fs.s3a.endpoint", "minio"),), {"endpoint_override": "minio", "scheme": "https"}),
        ((("fs.s3a.endpoint", "s3.amazonaws.com"),), {}),
        ((("fs.s3a.endpoint", "s3.eu-west-1.amazonaws.com"),), {"region": "eu-west-1"}),
        (
            (("fs.s3a.endpoint", "https://s3.eu-west-1.amazonaws.com"), ("fs.s3a.endpoint.region", "eu-west-2")),
            {"region": "eu-west-2"},
        ),
        (
            (*KEYS, ("fs.s3a.aws.credentials.provider", "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider")),
            {"anonymous": True},
        ),
    ],
)
@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_names_of_s3a(scheme: str, hadoop: Any, options: dict[str, Any]) -> None:
    assert Storage((), hadoop).options_for(f"{scheme}://logs/orders-0") == options
    assert Storage((), hadoop).options_for(URL) == Storage((), hadoop).options_for("gs://logs/orders-0") == {}


def test_names_of_azure() -> None:
    assert Storage((), ((f"fs.azure.account.key.{ACCOUNT}", "k"),)).options_for(URL) == {"account_key": "k"}
    assert Storage((), (("fs.azure.account.key.other", "k"),)).options_for(URL) == {}
    client = {"id": "i", "secret": "s", "endpoint": "https://login.microsoftonline.com/tenant/oauth2/token"}
    hadoop = tuple((f"fs.azure.account.oauth2.client.{name}.{ACCOUNT}", value) for name, value in client.items())
    assert Storage((), hadoop).options_for(URL) == {"client_id": "i", "client_secret": "s", "tenant_id": "tenant"}


@pytest.mark.parametrize(
    ("hadoop", "options"),
    [
        ({}, {}),
        ({"fs.gs.auth.type": "UNAUTHENTICATED"}, {"anonymous": True}),
        ({"fs.gs.auth.null.enable": "true"}, {"anonymous": True}),
        (
            {"google.cloud.auth.null.enable": "true", "fs.gs.auth.service.account.json.keyfile": "/k"},
            {"anonymous": True},
        ),
        ({"fs.gs.storage.root.url": "http://gcs:4443/"}, {"endpoint_override": "gcs:4443", "scheme": "http"}),
        ({"fs.gs.auth.service.account.json.keyfile": "/k"}, {"token": "/k", "use_listings_cache": False}),
        ({"google.cloud.auth.service.account.json.keyfile": "/k"}, {"token": "/k", "use_listings_cache": False}),
        ({"fs.gs.auth.service.account.json.keyfile": "/k", "fs.gs.auth.type": "APPLICATION_DEFAULT"}, {}),
        (
            {"fs.gs.auth.service.account.json.keyfile": "/k", "fs.gs.storage.root.url": "http://gcs/"},
            {"token": "/k", "use_listings_cache": False, "endpoint_url": "http://gcs"},
        ),
    ],
)
@pytest.mark.parametrize("scheme", ["gs", "gcs"])
def test_names_of_google(scheme: str, hadoop: dict[str, str], options: dict[str, Any]) -> None:
    assert Storage((), tuple(hadoop.items())).options_for(f"{scheme}://logs/orders-0") == options
    assert Storage((), tuple(hadoop.items())).options_for(URL) == {}


def test_options_take_precedence_and_nothing_is_shown() -> None:
    storage = Storage((("secret_key", "t0psecret"), ("anonymous", "false")), KEYS)
    expected = {"access_key": "a", "secret_key": "t0psecret", "anonymous": False}
    assert storage.options_for("s3://logs/orders-0") == expected
    assert "t0psecret" not in repr(storage)
    assert KEYS[0][0] not in repr(storage)


def test_a_connect_session_has_no_configuration() -> None:
    assert hadoop_settings(object()) == ()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a store, which is not in the environment."""
    pytest.importorskip("moto.server", reason="moto is not installed")
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    from s3_server import s3_server

    with s3_server() as found:
        found.put_tree(f"archive/{SOURCE.name}", SOURCE)
        place = os.environ["AWS_ENDPOINT_URL"]
        for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            monkeypatch.delenv(name)
        yield place


@pytest.mark.spark
def test_tasks_use_the_sessions_hadoop_settings(spark: Any, endpoint: str, capfd: pytest.CaptureFixture[str]) -> None:
    from spark.reading import hadoop_properties  # needs PySpark

    names = {"endpoint": endpoint, "endpoint.region": "us-east-1", "access.key": "a-key", "secret.key": "s3cret-key"}
    with hadoop_properties(spark, {f"fs.s3a.{name}": value for name, value in names.items()}):
        frame = spark.read.format("kseg").load("s3a://bucket/archive")
        assert frame.count() == 240
        frame.drop("topic", "partition").coalesce(1).write.format("kseg").mode("append").save("s3a://bucket/new/copy-0")
        assert spark.read.format("kseg").load("s3a://bucket/new/copy-0").count() == 240
        frame.explain(extended=True)
        with pytest.raises(Exception, match="s3a://bucket/nowhere") as raised:
            spark.read.format("kseg").load("s3a://bucket/nowhere").count()
    shown = capfd.readouterr()
    assert "s3cret" not in f"{raised.value}{shown.out}{shown.err}"
    assert "kseg" in shown.out


DEFAULT = {"fs.defaultFS": "hdfs://nn:8020"}
LINKS = {
    "fs.viewfs.mounttable.c.link./archive": "hdfs://nn/data/archive/",
    "fs.viewfs.mounttable.c.link./archive/old": "s3a://bucket/old",
    "fs.viewfs.mounttable.c.link./more": "viewfs://d/more",
    "fs.viewfs.mounttable.d.link./more": "hdfs:///more",
    "fs.viewfs.mounttable.d.link./local": "file:///local",
    "fs.viewfs.mounttable.default.link./usual": "hdfs://nn/usual",
    "fs.viewfs.mounttable.loop.link./a": "viewfs://loop/b",
    "fs.viewfs.mounttable.loop.link./b": "viewfs://loop/a/x",
    "fs.viewfs.mounttable.whole.link./": "hdfs://nn/",
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/archive", "/archive"),
        ("s3a://bucket/archive", "s3a://bucket/archive"),
        ("hdfs://other/archive/*-0", "hdfs://other/archive/*-0"),
        ("hdfs:///archive/*-0", "hdfs://nn:8020/archive/*-0"),
        ("hdfs:/archive", "hdfs://nn:8020/archive"),
        ("viewfs://c/archive", "hdfs://nn/data/archive/"),
        ("viewfs://c/archive/orders-[0-9]/", "hdfs://nn/data/archive/orders-[0-9]"),
        ("viewfs://c/archive/old/orders-0", "s3a://bucket/old/orders-0"),
        ("viewfs://c/archive/older", "hdfs://nn/data/archive/older"),
        ("viewfs://c/more/orders-0", "hdfs://nn:8020/more/orders-0"),
        ("viewfs://d/local/orders-0", "file:///local/orders-0"),
        ("viewfs:///usual/orders-0", "hdfs://nn/usual/orders-0"),
        ("viewfs:/usual", "hdfs://nn/usual"),
        ("viewfs://whole/orders-0", "hdfs://nn/orders-0"),
    ],
)
def test_paths_are_those_of_hadoop(path: str, found: str) -> None:
    assert located(path, DEFAULT | LINKS) == found


def test_the_default_file_system_can_be_a_mount_table() -> None:
    properties = {"fs.defaultFS": "viewfs://d"} | LINKS
    assert located("viewfs:///local/orders-0", properties) == "file:///local/orders-0"
    renamed = {"fs.viewfs.mounttable.default.name.key": "c"} | LINKS
    assert located("viewfs:///archive", renamed) == "hdfs://nn/data/archive/"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "viewfs://c/other/orders-0",
            r"no link of mount table c .* leads there: its links are /archive, /archive/old, /m",
        ),
        ("viewfs://c/arch", "leads there"),
        ("viewfs://e/archive", "leads there: it has none"),
        ("viewfs://loop/a/orders-0", r"^viewfs://loop/a: this link leads to itself: viewfs://loop/a, viewfs://loop/b$"),
    ],
)
def test_links_that_lead_nowhere_are_reported(path: str, text: str) -> None:
    with pytest.raises(KsegError, match=text):
        located(path, DEFAULT | LINKS)


def test_a_path_without_a_name_node_is_reported() -> None:
    with pytest.raises(KsegError, match=r"^hdfs:///archive: .* there is no fs.defaultFS: give hdfs://HOST/PATH"):
        located("hdfs:///archive", {})
    with pytest.raises(KsegError, match=r"fs.defaultFS is file:///"):
        located("hdfs:///archive", {"fs.defaultFS": "file:///"})


def test_databricks_mounts_its_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("dbfs:/archive/*-0", "dbfs:///archive/*-0"):
        with pytest.raises(UnsupportedError, match=r"^dbfs:/+archive/\*-0: .* as /dbfs/archive/\*-0, but"):
            located(path, {})
        with monkeypatch.context() as patch:
            patch.setattr(settings, "_DATABRICKS", str(tmp_path))
            assert located(path, {}) == f"{tmp_path}/archive/*-0"


SERVICE = {
    "dfs.ha.namenodes.archive": "nn1, nn2",
    "dfs.namenode.http-address.archive.nn1": "a:50070",
    "dfs.namenode.http-address.archive.nn2": "0.0.0.0:50071",
    "dfs.namenode.https-address.archive.nn1": "a:50470",
    "dfs.namenode.rpc-address.archive.nn1": "a:9000",
    "dfs.namenode.rpc-address.archive.nn2": "b:9000",
}
USUAL = {"dfs.namenode.http-address": "0.0.0.0:9870", "dfs.namenode.https-address": "0.0.0.0:9871"}


@pytest.mark.parametrize(
    ("authority", "properties", "found"),
    [
        ("nn", {}, ("nn",)),
        ("nn:8020", {}, ("nn",)),
        ("nn:8020", USUAL, ("nn:9870",)),
        ("nn:8020", {"dfs.namenode.http-address": "nn:50070"}, ("nn:50070",)),
        ("nn:8020", {"dfs.namenode.http-address": "public:50070"}, ("nn",)),
        ("nn", {"dfs.namenode.http-address": "public:50070"} | DEFAULT, ("public:50070",)),
        ("archive", SERVICE, ("a:50070", "b:50071")),
        ("a:9000", SERVICE | USUAL, ("a:50070",)),
        ("b:9000", SERVICE | USUAL, ("b:50071",)),
        ("one", {"dfs.namenode.rpc-address.one": "c:8020"}, ("c",)),
        ("one", {"dfs.namenode.http-address.one": "c:50070"}, ("c:50070",)),
    ],
)
def test_addresses_of_name_nodes(authority: str, properties: dict[str, str], found: tuple[str, ...]) -> None:
    assert name_nodes(authority, properties, is_https=False) == found


def test_addresses_for_https() -> None:
    assert name_nodes("archive", SERVICE, is_https=True) == ("a:50470", "b")
    assert name_nodes("nn", USUAL, is_https=True) == ("nn:9871",)


def test_a_name_node_without_an_address_is_reported() -> None:
    properties = {"dfs.ha.namenodes.archive": "nn1,nn2", "dfs.namenode.http-address.archive.nn1": "a:1"}
    with pytest.raises(
        KsegError, match=r"no dfs.namenode.rpc-address.archive.nn2 and no dfs.namenode.http-address.arc"
    ):
        name_nodes("archive", properties, is_https=False)


def options_for(url: str, given: dict[str, str], **hadoop: str) -> dict[str, Any]:
    return Storage(
        tuple(given.items()), tuple((name.replace("__", "."), value) for name, value in hadoop.items())
    ).options_for(url)


def test_options_of_hdfs() -> None:
    found = options_for("hdfs://nn/x", {}, HADOOP_USER_NAME="someone")
    assert found == {"name_nodes": ("nn",), "use_https": False, "user": "someone"}
    assert options_for("webhdfs://nn/x", {}, HADOOP_USER_NAME="someone") == {"user": "someone"}
    assert options_for("hdfs://other@nn/x", {}, HADOOP_USER_NAME="someone") == {
        "name_nodes": ("nn",),
        "use_https": False,
    }
    assert options_for("hdfs://nn/x", {"user": "a"}, HADOOP_USER_NAME="someone")["user"] == "a"
    assert options_for("hdfs://nn/x", {}, dfs__http__policy="HTTPS_ONLY")["use_https"] is True
    assert options_for("hdfs://nn/x", {"port": "1"}) == {"name_nodes": (), "use_https": False, "port": "1"}
    assert options_for("hdfs://nn/x", {"name_nodes": "a,b"})["name_nodes"] == "a,b"
    assert options_for("hdfs://nn/x", {"libhdfs": "true"}, HADOOP_USER_NAME="someone") == {}


def test_credentials_of_hdfs() -> None:
    secure = {"hadoop__security__authentication": "kerberos", "HADOOP_USER_NAME": "someone"}
    found = options_for("hdfs://nn/x", {}, **secure)
    assert found == {"name_nodes": ("nn",), "use_https": False, "kerberos": True}
    found = options_for("hdfs://nn/x", {"token": "t"}, **secure)
    assert found == {"name_nodes": ("nn",), "use_https": False, "token": "t"}
