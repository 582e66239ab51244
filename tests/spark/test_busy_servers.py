"""Segments on a plain http server that is busy at times, without a JVM."""

from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from http_server import http_server
from kseg.errors import PathError
from spark.reading import rows_of

SOURCE = Path(__file__).resolve().parents[2] / "testdata/kafka-4.3.1/clients/librdkafka-gzip-0"
pytestmark = pytest.mark.spark


def test_a_busy_http_server_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.stores.http_requests.FIRST_PAUSE_SECONDS", 0)
    (segment,) = SOURCE.glob("*.log")
    with http_server({f"/{SOURCE.name}/{segment.name}": segment.read_bytes()}) as http:
        url = f"{http.root}/{SOURCE.name}/{segment.name}"
        http.failures = [503, 503, 429, 503]
        assert rows_of(url) == rows_of(segment)
        assert http.failures == []
        http.failures = [503] * 1000
        with pytest.raises(PathError, match=rf"^{url}: the server answered 503 Service Unavailable$"):
            rows_of(url, **{"storage.max_attempts": "2", "storage.request_timeout": "60"})
        assert len(http.failures) == 996  # the size is asked for in two ways
