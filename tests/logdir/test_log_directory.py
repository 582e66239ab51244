"""The files of a log directory itself: checkpoints, and the state of its partitions."""

from pathlib import Path

import pytest

from kseg.logdir.cluster_metadata import TopicSettings
from kseg.logdir.log_directory import BrokerState, LogDirectory, read_log_directory, state_by_name
from kseg.logdir.metadata_image import TOPIC_RESOURCE, MetadataImage
from kseg.logdir.server_properties import ServerProperties
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
def test_a_segment_is_scanned_from_the_recovery_point_on(
    state: BrokerState, next_offset: int | None, is_scanned: bool
) -> None:
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
def test_only_the_names_of_some_internal_topics_say_how_they_are_cleaned(
    topic: str | None, is_compacted: bool | None
) -> None:
    state = state_by_name(topic)
    assert state.is_compacted is is_compacted
    assert not state.is_known


def test_policies_of_partitions(tmp_path: Path) -> None:
    directory = read_log_directory(str(kraft(tmp_path, "__consumer_offsets-0")))
    assert directory is not None
    state = directory.broker_state("__consumer_offsets-0")
    assert (state.is_compacted, state.is_kraft, state.was_clean) == (True, True, True)
    assert directory.broker_state("meta-0-x") == directory.broker_state("other")
    metadata = directory.broker_state("__cluster_metadata-0")
    assert metadata.will_be_scanned(1), "a KRaft node scans its own log at every start"


@pytest.mark.parametrize(("own", "is_compacted"), [({}, True), ({"cleanup.policy": ""}, False)])
def test_a_topic_without_any_policy_does_not_get_that_of_the_broker(own: dict[str, str], is_compacted: bool) -> None:
    # LogConfig takes an empty list for neither compact nor delete (checked with that of 4.3.1).
    image = MetadataImage()
    image.configs[TOPIC_RESOURCE, "t"] = own
    directory = LogDirectory("logs", frozenset(), ("t-0",), topics=TopicSettings(image, "", []))
    directory.server = ServerProperties("server.properties", {"log.cleanup.policy": "compact"})
    assert directory.broker_state("t-0").is_compacted is is_compacted
