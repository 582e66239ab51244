"""Topic settings and ids by the __cluster_metadata of a real node."""

import pytest

from kseg.node.cluster_metadata import TopicSettings, read_topic_settings
from kseg.node.node import Nodes
from verification.log_directories import INTERNAL, TESTDATA


@pytest.fixture
def found() -> TopicSettings:
    settings = read_topic_settings(str(INTERNAL / "__cluster_metadata-0"))
    assert settings is not None
    return settings


def test_settings_of_the_newest_metadata(found: TopicSettings) -> None:
    assert not found.lacking
    assert found.ids["__consumer_offsets"] == "Y2rdlpQ9R2qbu70MnjhEQg"
    assert found.setting("__consumer_offsets", "cleanup.policy") == "compact"
    assert found.setting("meta-0", "cleanup.policy") is None
    assert "meta-7" not in found.ids, "deleted behind the snapshot"


def test_the_clusters_own_default(found: TopicSettings) -> None:
    for value in ("compact", None):
        found.image.replay(4, {"resourceType": 4, "resourceName": "", "name": "log.cleanup.policy", "value": value})
        found.image.apply()
        assert found.setting("meta-0", "cleanup.policy") == value


def test_the_brokers_of_partitions_come_from_the_same_reading(found: TopicSettings) -> None:
    assert {topic_id for topic_id, _ in found.partitions} <= set(found.ids.values())
    assert all(partition.replicas for partition in found.partitions.values())


def test_the_index_interval_of_a_topic() -> None:
    """As the topics were made (the README of the log directory)."""
    logs = TESTDATA / "log-directories" / "4.3.1-rounds" / "clean"
    wanted = {"txn-5": 512, "zs-2": 2048, "gz-0": 1024, "cmptx-4": 1024, "lz-2": None, "unknown-0": None}
    assert {name: Nodes().partition(str(logs / name)).interval_bytes[0] for name in wanted} == wanted
