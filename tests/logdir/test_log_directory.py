"""The files of a log directory itself: checkpoints, and the state of its partitions."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kseg.logdir.log_directory import plain_offsets, read_log_directory
from kseg.sidefiles.checkpoints import OffsetCheckpoint, read_offset_checkpoint
from kseg.sidefiles.problems import problems_of
from verification.log_directories import checkpoint, kraft


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
