"""A real S3 server on loopback, for tests; it needs moto, boto3 and s3fs."""

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pytest
from moto.server import DomainDispatcherApplication, ThreadedMotoServer
from s3fs import S3FileSystem
from werkzeug.serving import WSGIRequestHandler

from http_server import Puts

PAUSE = 3.5
"""More than the 3 seconds after which Amazon's library gives up a request."""


class Store(Puts):
    """The bucket named bucket, and the requests that its server got.

    It answers the next ``failures`` requests with 503, and the next ``slow`` ones after `PAUSE` seconds. A page of a
    listing has ``most_listed`` objects.
    """

    url = "s3://bucket"

    def __init__(self, endpoint: str) -> None:
        self.requests: list[tuple[str, str, str | None]] = []
        self.failures = self.slow = 0
        self.most_listed = 1000
        self.client: Any = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
        self.client.create_bucket(Bucket="bucket")

    def put(self, name: str, data: bytes) -> None:
        self.client.put_object(Bucket="bucket", Key=name, Body=data)

    def files(self, name: str) -> dict[str, bytes]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=f"{name}/")
        keys = [found["Key"] for page in pages for found in page.get("Contents", [])]
        bodies = {key: self.client.get_object(Bucket="bucket", Key=key)["Body"] for key in keys}
        return {key.removeprefix(f"{name}/"): body.read() for key, body in bodies.items()}


def storage_options(**more: str) -> dict[str, str]:
    """Options of Spark's source that lead to the server; of its environment nothing else is used."""
    place = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    given = {"endpoint_override": place, "scheme": "http", "region": "us-east-1"} | more
    return {f"storage.{name}": value for name, value in given.items()}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _answers(store: Store) -> Any:
    whole = DomainDispatcherApplication.__call__

    def answer(self: Any, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if store.slow:
            store.slow -= 1
            time.sleep(PAUSE)
        if store.failures:
            store.failures -= 1
            start_response("503 Slow Down", [("Content-Type", "application/xml")])
            return [b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"]
        if "list-type=2" in environ["QUERY_STRING"] and "max-keys" not in environ["QUERY_STRING"]:
            environ["QUERY_STRING"] += f"&max-keys={store.most_listed}"
        return whole(self, environ, start_response)

    return answer


@contextmanager
def s3_server() -> Iterator[Store]:
    """Starts the server, to which the environment leads clients inside the block."""
    port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "an-access-key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "a-very-secret-key")
        patch.setenv("AWS_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
        server.start()
        endpoint = os.environ["AWS_ENDPOINT_URL"]
        # The servers of a process share their objects: those of earlier tests go.
        urlopen(Request(f"{endpoint}/moto-api/reset", method="POST")).close()
        store = Store(endpoint)
        patch.setattr(DomainDispatcherApplication, "__call__", _answers(store))
        patch.setattr(
            WSGIRequestHandler, "log_request",
            lambda self, *_: store.requests.append((self.command, self.path, self.headers.get("Range"))),
        )  # fmt: skip
        yield store
        server.stop()
    S3FileSystem.clear_instance_cache()  # their clients keep the endpoint
