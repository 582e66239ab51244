"""Stores and plain http servers that are busy or slow: rows are right, or one line names them; without a JVM."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="aiohttp is not installed")

from http_server import http_server
from kseg.errors import KsegError, PathError
from s3_server import Store, s3_server, storage_options
from spark.reading import rows_of

SOURCE = Path(__file__).resolve().parents[2] / "testdata/kafka-4.3.1/clients/librdkafka-gzip-0"
URL = f"s3://bucket/archive/{SOURCE.name}"
pytestmark = pytest.mark.spark


@pytest.fixture
def store() -> Iterator[Store]:
    with s3_server() as found:
        found.put_tree(f"archive/{SOURCE.name}", SOURCE)
        yield found


def test_requests_are_repeated(store: Store) -> None:
    store.failures = 3
    assert rows_of(URL, **storage_options()) == rows_of(SOURCE)
    assert store.failures == 0


def test_a_store_that_stays_busy_is_named(store: Store) -> None:
    store.failures = 1 << 30
    with pytest.raises(PathError, match=rf"^{URL}: .*503") as raised:
        rows_of(URL, **storage_options(max_attempts="2"))
    assert len(str(raised.value).splitlines()) == 1
    assert (1 << 30) - store.failures == 2


def test_a_slow_store_is_waited_for(store: Store) -> None:
    store.slow = 1
    assert rows_of(URL, **storage_options(max_attempts="1")) == rows_of(SOURCE)
    store.slow = 1
    with pytest.raises(PathError, match=rf"^{URL}: .*[Tt]imeout"):
        rows_of(URL, **storage_options(max_attempts="1", request_timeout="1"))


def test_invalid_numbers_are_reported(store: Store) -> None:
    with pytest.raises(KsegError, match="s3://bucket: could not convert string to float: 'soon'"):
        rows_of(URL, **storage_options(request_timeout="soon"))


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
