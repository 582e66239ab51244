"""The files of a log directory itself: checkpoints, and the state of its partitions."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.logdir.log_directory import BrokerState, plain_offsets, read_log_directory, state_by_name
from kseg.sidefiles.checkpoints import OffsetCheckpoint, read_offset_checkpoint
from kseg.sidefiles.problems import problems_of
from verification.log_directories import checkpoint, kraft

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


@given(st.lists(st.tuples(st.text("ab-_.", min_size=1, max_size=5), st.integers(0, 99), st.integers(0, 10**18 - 1))))
def test_plain_checkpoints_read_as_all_others_do(entries: list[tuple[str, int, int]]) -> None:
    data = checkpoint(*(f"{topic} {number} {offset}" for topic, number, offset in entries)).encode()
    slow = [item for item in read_offset_checkpoint(data) if isinstance(item, OffsetCheckpoint)]
    assert plain_offsets(data) == {(entry.topic, entry.partition): entry.offset for entry in slow}


@given(st.binary(max_size=80) | st.text("0123 \n-ax").map(str.encode))
def test_whatever_reads_plainly_has_no_problem(data: bytes) -> None:
    if plain_offsets(data) is not None:
        assert problems_of(read_offset_checkpoint(data)) == []


def test_policies_of_partitions(tmp_path: Path) -> None:
    directory = read_log_directory(str(kraft(tmp_path, "__consumer_offsets-0")))
    assert directory is not None
    state = directory.broker_state("__consumer_offsets-0")
    assert (state.is_compacted, state.is_kraft, state.was_clean) == (True, True, True)
    assert directory.broker_state("meta-0-x") == directory.broker_state("other")
    metadata = directory.broker_state("__cluster_metadata-0")
    assert metadata.will_be_scanned(1), "a KRaft node scans its own log at every start"
