"""Settings of file systems: options, and what the Hadoop configuration of a session has."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kseg.spark.storage import Storage, hadoop_settings

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
def test_tasks_use_the_hadoop_configuration_of_the_session(
    spark: Any, endpoint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    import kseg.spark

    configuration, before = spark.sparkContext._jsc.hadoopConfiguration(), hadoop_settings(spark)
    names = {"endpoint": endpoint, "endpoint.region": "us-east-1", "access.key": "a-key", "secret.key": "s3cret-key"}
    for name, value in names.items():
        configuration.set(f"fs.s3a.{name}", value)
    try:
        kseg.spark.register(spark)
        frame = spark.read.format("kseg").load("s3a://bucket/archive")
        assert frame.count() == 240
        frame.drop("topic", "partition").coalesce(1).write.format("kseg").mode("append").save("s3a://bucket/new/copy-0")
        assert spark.read.format("kseg").load("s3a://bucket/new/copy-0").count() == 240
        frame.explain(extended=True)
        with pytest.raises(Exception, match="s3a://bucket/nowhere") as raised:
            spark.read.format("kseg").load("s3a://bucket/nowhere").count()
    finally:
        for name in names:
            configuration.unset(f"fs.s3a.{name}")
        kseg.spark.register(spark)
    assert hadoop_settings(spark) == before
    shown = capfd.readouterr()
    assert "s3cret" not in f"{raised.value}{shown.out}{shown.err}"
    assert "kseg" in shown.out
