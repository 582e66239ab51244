"""A store that answers 503 and slowly: rows are right, or one line names the store; without a JVM."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kseg.errors import KsegError, PathError
from s3_server import Store, s3_server
from spark.reading import rows_of

SOURCE = Path(__file__).resolve().parents[2] / "testdata/kafka-4.3.1/clients/librdkafka-gzip-0"
URL = f"s3://bucket/archive/{SOURCE.name}"
pytestmark = pytest.mark.spark


@pytest.fixture
def store() -> Iterator[Store]:
    with s3_server() as found:
        found.put_tree(f"archive/{SOURCE.name}", SOURCE)
        yield found


def storage(**more: str) -> dict[str, str]:
    place = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    given = {"endpoint_override": place, "scheme": "http", "region": "us-east-1"} | more
    return {f"storage.{name}": value for name, value in given.items()}


def test_requests_are_repeated(store: Store) -> None:
    store.failures = 3
    assert rows_of(URL, **storage()) == rows_of(SOURCE)
    assert store.failures == 0


def test_a_store_that_stays_busy_is_named(store: Store) -> None:
    store.failures = 1 << 30
    with pytest.raises(PathError, match=rf"^{URL}: .*503") as raised:
        rows_of(URL, **storage(max_attempts="2"))
    assert len(str(raised.value).splitlines()) == 1
    assert (1 << 30) - store.failures == 2


def test_a_slow_store_is_waited_for(store: Store) -> None:
    store.slow = 1
    assert rows_of(URL, **storage(max_attempts="1")) == rows_of(SOURCE)
    store.slow = 1
    with pytest.raises(PathError, match=rf"^{URL}: .*[Tt]imeout"):
        rows_of(URL, **storage(max_attempts="1", request_timeout="1"))


def test_invalid_numbers_are_reported(store: Store) -> None:
    with pytest.raises(KsegError, match="s3://bucket: could not convert string to float: 'soon'"):
        rows_of(URL, **storage(request_timeout="soon"))
