"""The client of the brokers of a module, and Kafka's loader of partitions."""

from collections.abc import Iterator

import pytest

from broker.client import Client
from broker.loading import Loader
from broker.rounds import RELEASES


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Client(tmp_path_factory.mktemp("client")) as client:
        yield client


@pytest.fixture(scope="module", params=RELEASES)
def loader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loader]:
    """That of each release for which damaged partitions are recovered."""
    with Loader(request.param, tmp_path_factory.getbasetemp()) as loader:
        yield loader
