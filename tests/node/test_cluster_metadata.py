"""Topic settings and ids by the __cluster_metadata of a real node."""

from kseg.node.cluster_metadata import read_topic_settings
from verification.log_directories import INTERNAL


def test_settings_of_the_newest_metadata() -> None:
    found = read_topic_settings(str(INTERNAL / "__cluster_metadata-0"))
    assert found is not None
    assert not found.lacking
    assert found.ids["__consumer_offsets"] == "Y2rdlpQ9R2qbu70MnjhEQg"
    assert found.setting("__consumer_offsets", "cleanup.policy") == "compact"
    assert found.setting("meta-0", "cleanup.policy") is None
    assert "meta-7" not in found.ids, "deleted behind the snapshot"


def test_the_clusters_own_default() -> None:
    found = read_topic_settings(str(INTERNAL / "__cluster_metadata-0"))
    assert found is not None
    found.image.replay(4, {"resourceType": 4, "resourceName": "", "name": "log.cleanup.policy", "value": "compact"})
    found.image.apply()
    assert found.setting("meta-0", "cleanup.policy") == "compact"
    found.image.replay(4, {"resourceType": 4, "resourceName": "", "name": "log.cleanup.policy", "value": None})
    found.image.apply()
    assert found.setting("meta-0", "cleanup.policy") is None


def test_the_brokers_of_partitions_come_from_the_same_reading() -> None:
    found = read_topic_settings(str(INTERNAL / "__cluster_metadata-0"))
    assert found is not None
    assert {topic_id for topic_id, _ in found.partitions} <= set(found.ids.values())
    assert all(partition.replicas for partition in found.partitions.values())
