"""Which segments are live: by hand, by a model that looks at each offset, and as Kafka's cache says for real stores."""

from hypothesis import given
from hypothesis import strategies as st

from kseg.logdir.lineage import (
    Candidate,
    Lineage,
    LiveSegments,
    MissingOffsets,
    epochs_within,
    lineage_of,
    live_segments,
)
from kseg.logdir.remote_partition import candidates_of
from kseg.sidefiles.leader_epochs import EpochEntry
from stores.remote.stores import partition, truth


def lineage(*entries: tuple[int, int]) -> Lineage:
    return [EpochEntry(*entry) for entry in entries]


def candidate(name: str, start: int, end: int, *epochs: tuple[int, int]) -> Candidate[str]:
    return Candidate(name, start, end, lineage(*(epochs or ((0, 0),))))


def shown(live: LiveSegments[str]) -> list[tuple[str, int, int]]:
    return [(piece.candidate.segment, piece.first, piece.last) for piece in live.pieces]


def test_segments_that_follow_each_other() -> None:
    found = live_segments([candidate("b", 10, 19), candidate("a", 0, 9)], lineage((0, 0)))
    assert shown(found) == [("a", 0, 9), ("b", 10, 19)]
    assert all(piece.is_whole for piece in found.pieces)
    assert (found.holes, found.abandoned, found.superseded) == ([], [], [])


def test_an_abandoned_leader() -> None:
    """Epoch 2 wrote offsets 300 on, and was lost; epoch 4 wrote them anew."""
    old = candidate("old", 156, 300, (0, 0), (2, 300))
    lost = candidate("lost", 301, 444, (0, 0), (2, 300))
    new = candidate("new", 156, 301, (0, 0), (4, 300))
    later = candidate("later", 302, 451, (0, 0), (4, 300))
    candidates = [candidate("a", 0, 155), old, new, lost, later]
    assert lineage_of(candidates) == later.epochs
    found = live_segments(candidates, lineage_of(candidates))
    assert shown(found) == [("a", 0, 155), ("new", 156, 301), ("later", 302, 451)]
    assert found.abandoned == [old, lost]


def test_a_segment_is_cut_where_the_lineage_leaves_it() -> None:
    candidates = [candidate("a", 0, 99), candidate("b", 50, 120, (0, 0), (3, 50))]
    found = live_segments(candidates, lineage((0, 0), (3, 50)))
    assert shown(found) == [("a", 0, 49), ("b", 50, 120)]
    assert [piece.is_whole for piece in found.pieces] == [False, True]
    assert found.abandoned == [candidates[0]]


def test_replicas_that_rolled_at_other_offsets() -> None:
    candidates = [candidate("a", 0, 60), candidate("b", 50, 99), candidate("copy", 10, 40)]
    found = live_segments(candidates, lineage((0, 0)))
    assert shown(found) == [("a", 0, 60), ("b", 61, 99)]
    assert found.superseded == [candidates[2]]


def test_of_two_that_reach_as_far_the_one_that_begins_there_is_taken() -> None:
    candidates = [candidate("a", 0, 9), candidate("b", 5, 19), candidate("c", 10, 19)]
    found = live_segments(candidates, lineage((0, 0)))
    assert shown(found) == [("a", 0, 9), ("c", 10, 19)]
    assert all(piece.is_whole for piece in found.pieces)
    assert found.superseded == [candidates[1]]


def test_holes_and_the_log_start() -> None:
    candidates = [candidate("a", 0, 9), candidate("b", 10, 29), candidate("c", 40, 49)]
    found = live_segments(candidates, lineage((0, 15)), 15)
    assert shown(found) == [("b", 10, 29), ("c", 40, 49)]
    assert found.holes == [MissingOffsets(30, 39)]


def test_epochs_below_the_first_entry_stay_in_a_segment_that_it_cuts() -> None:
    found = live_segments([candidate("a", 0, 29, (1, 0), (2, 20))], lineage((2, 25)), 25)
    assert shown(found) == [("a", 0, 29)]


def test_epochs_within() -> None:
    assert epochs_within(lineage((0, 5), (2, 20), (7, 90)), 0, 30) == [(0, 0, 19), (2, 20, 30)]
    assert epochs_within(lineage((0, 0), (2, 20)), 25, 30) == [(2, 25, 30)]


def test_a_store_as_kafka_sees_it() -> None:
    """The live segments that RemoteLogMetadataCache gave for each offset."""
    candidates, unusable = candidates_of(partition("zstd", "t-roll-0"))
    found = live_segments(candidates, lineage_of(candidates))
    assert unusable == []
    places = {fact["id"]: fact for fact in truth("zstd").values()}
    live = [places[piece.candidate.segment.segment_id] for piece in found.pieces]
    assert [(fact["startOffset"], fact["endOffset"], fact["epochs"][-1][0]) for fact in live] == [
        (0, 155, 0), (156, 301, 4), (302, 451, 4), (452, 598, 4),
    ]  # fmt: skip


def test_the_end_offset_without_metadata() -> None:
    candidates, _ = candidates_of(partition("local", "t-txn-0"))
    assert [(found.start_offset, found.end_offset) for found in candidates] == [
        (0, 11), (12, 103), (104, 115), (116, 207), (208, 219), (220, 311), (312, 323),
    ]  # fmt: skip


SEGMENTS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 2)), max_size=8)


@given(SEGMENTS)
def test_each_offset_is_taken_once_from_a_segment_that_has_its_epoch(places: list[tuple[int, int, int]]) -> None:
    """The second of three leaders was lost: its segments have epoch 1 from offset 10 on, the lineage epoch 2."""
    shapes = [lineage((0, 0)), lineage((0, 0), (1, 10)), lineage((0, 0), (2, 10))]
    candidates = [Candidate(str(i), start, start + more, shapes[k]) for i, (start, more, k) in enumerate(places)]
    current = shapes[2]
    found = live_segments(candidates, current)

    def epoch_of(entries: Lineage, offset: int) -> int:
        return max(entry.epoch for entry in entries if entry.start_offset <= offset)

    covered = {
        offset
        for one in candidates
        for offset in range(one.start_offset, one.end_offset + 1)
        if epoch_of(one.epochs, offset) == epoch_of(current, offset)
    }
    taken = [(offset, piece) for piece in found.pieces for offset in range(piece.first, piece.last + 1)]
    assert [offset for offset, _ in taken] == sorted(covered)
    for offset, piece in taken:
        assert piece.candidate.start_offset <= offset <= piece.candidate.end_offset
        assert epoch_of(piece.candidate.epochs, offset) == epoch_of(current, offset)
    missing = set(range(min(covered), max(covered) + 1)) - covered if covered else set()
    assert {offset for hole in found.holes for offset in range(hole.first, hole.last + 1)} == missing
