"""The client of the brokers of a module."""

from collections.abc import Iterator

import pytest

from broker.client import Client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Client(tmp_path_factory.mktemp("client")) as client:
        yield client
