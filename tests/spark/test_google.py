"""Google Cloud Storage by properties of Hadoop, without a JVM: anonymous with pyarrow, with a key file by gcsfs.

Skipped without the server; CONTRIBUTING says how to install it.
"""

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="cryptography is not installed")

from pyspark.sql.types import StructType

from bucket_servers import Bucket, google
from kseg.spark.source import configured
from spark.reading import read, rows_of
from spark.test_writing import COLUMNS, batch, numbered, write

SOURCE = Path(__file__).resolve().parents[2] / "testdata/kafka-4.3.1/clients/librdkafka-gzip-0"
pytestmark = pytest.mark.spark


class TokenHandler(BaseHTTPRequestHandler):
    """Exchanges the signature of a service account for a token."""

    answered: list[str] = []  # noqa: RUF012 - by all requests

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answered.append(self.path)
        content = json.dumps({"access_token": "t0ken", "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: object) -> None:
        """Standard error is a command's."""


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with google(tmp_path_factory.mktemp("server")) as found:
        found.put_tree(f"archive/{SOURCE.name}", SOURCE)
        yield found


@pytest.fixture
def endpoint(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of the store, which is not in the environment."""
    found = os.environ["STORAGE_EMULATOR_HOST"]
    for name in ("STORAGE_EMULATOR_HOST", "FSSPEC_GS_TOKEN"):
        monkeypatch.delenv(name)
    from fsspec.config import conf

    monkeypatch.delitem(conf, "gs", raising=False)
    return found


@pytest.fixture
def key_file(tmp_path: Path) -> Iterator[str]:
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()).decode()
    with ThreadingHTTPServer(("127.0.0.1", 0), TokenHandler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        account = {
            "type": "service_account", "project_id": "p", "private_key_id": "1", "private_key": text,
            "client_email": "kseg@p.example", "token_uri": f"http://127.0.0.1:{server.server_port}/token",
        }  # fmt: skip
        (tmp_path / "key.json").write_text(json.dumps(account))
        yield str(tmp_path / "key.json")
        server.shutdown()


def source(hadoop: dict[str, str], path: str) -> Any:
    return configured(tuple(hadoop.items()), plans_apart=True)({"path": path})


def copied(hadoop: dict[str, str], url: str) -> list[dict[str, Any]]:
    """The rows of a partition that is written to a URL and read again."""
    found = source(hadoop, url)
    whole = found.schema()
    writer = found.writer(StructType([whole[name] for name in COLUMNS]), False)
    write(writer, [batch(numbered(0, 50))])
    again = source(hadoop, url)
    return read(again.reader(again.schema()))


def partitions(endpoint: str, folder: str) -> set[str]:
    """The names of all folders with objects in a folder of the bucket."""
    import fsspec

    system = fsspec.filesystem("gs", token="anon", endpoint_url=endpoint, skip_instance_cache=True)
    return {name.split("/")[2] for name in system.find(f"bucket/{folder}")}


@pytest.mark.parametrize("folder", ["plain", "keyed"])
def test_a_store_is_read_and_written(bucket: Bucket, endpoint: str, key_file: str, folder: str) -> None:
    credentials = {
        "plain": {"fs.gs.auth.type": "UNAUTHENTICATED"},
        "keyed": {"fs.gs.auth.service.account.json.keyfile": key_file},
    }
    hadoop = credentials[folder] | {"fs.gs.storage.root.url": f"{endpoint}/"}
    TokenHandler.answered.clear()
    found = source(hadoop, f"{bucket.url}/archive/*-0")
    assert read(found.reader(found.schema())) == rows_of(SOURCE)
    assert ("/token" in TokenHandler.answered) == (folder == "keyed")
    assert [row["offset"] for row in copied(hadoop, f"{bucket.url}/{folder}/copy-0")] == list(range(50))
    assert partitions(endpoint, folder) == {"copy-0"}
