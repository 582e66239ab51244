"""The files of a log directory itself: checkpoints, and the state of its partitions."""

from pathlib import Path

import pytest

from kseg.node.cluster_metadata import TopicSettings
from kseg.node.log_directory import BrokerState, LogDirectory, state_by_name
from kseg.node.metadata_image import TOPIC_RESOURCE, MetadataImage
from kseg.node.node import Node, Nodes
from kseg.node.server_properties import ServerProperties
from verification.log_directories import kraft

# What a start does with a segment, and what a topic's name alone says of its partitions.


@pytest.mark.parametrize(
    ("state", "next_offset", "is_scanned"),
    [
        (BrokerState(100, was_clean=False, is_known=True), 101, True),
        (BrokerState(100, was_clean=False, is_known=True), 100, False),
        (BrokerState(None, was_clean=False, is_known=True), 1, True),
        (BrokerState(100, was_clean=True, is_known=True), 101, False),
        (BrokerState(100, was_clean=None, is_known=True), 101, False),
        (BrokerState(100, was_clean=False, is_known=False), 101, False),
        (BrokerState(100, was_clean=False, is_known=True), None, False),
    ],
)
def test_a_scan_begins_at_the_recovery_point(state: BrokerState, next_offset: int | None, is_scanned: bool) -> None:
    assert state.will_be_scanned(next_offset) is is_scanned


@pytest.mark.parametrize(
    ("topic", "is_compacted"),
    [
        ("__consumer_offsets", True),
        ("__transaction_state", True),
        ("__share_group_state", None),
        ("orders", None),
        (None, None),
    ],
)
def test_only_some_internal_topics_say_how_they_are_cleaned(topic: str | None, is_compacted: bool | None) -> None:
    state = state_by_name(topic)
    assert state.is_compacted is is_compacted
    assert not state.is_known


def test_policies_of_partitions(tmp_path: Path) -> None:
    node = Nodes().at(str(kraft(tmp_path, "__consumer_offsets-0")))
    (root,) = (one.path for one in node.directories)
    names = ("__consumer_offsets-0", "meta-0-x", "other", "__cluster_metadata-0")
    state, odd, other, metadata = (node.partition(f"{root}/{name}").state for name in names)
    assert (state.is_compacted, state.is_kraft, state.was_clean) == (True, True, True)
    assert odd == other
    assert metadata.will_be_scanned(1), "a KRaft node scans its own log at every start"


@pytest.mark.parametrize(("own", "is_compacted"), [({}, True), ({"cleanup.policy": ""}, False)])
def test_a_topic_without_any_policy_does_not_get_that_of_the_broker(own: dict[str, str], is_compacted: bool) -> None:
    # LogConfig takes an empty list for neither compact nor delete (checked with that of 4.3.1).
    image = MetadataImage()
    image.configs[TOPIC_RESOURCE, "t"] = own
    image.topic_ids["t"] = "B" * 22
    server = ServerProperties("server.properties", {"log.cleanup.policy": "compact"})
    node = Node([LogDirectory("logs", frozenset({"meta.properties"}), ("t-0",))], server)
    node.topics = TopicSettings(image, "", [])
    assert node.partition("logs/t-0").state.is_compacted is is_compacted
