"""Remote storage as a log directory: live segments, their side files, and logs that the lineage cuts."""

import logging
import pickle
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import TESTDATA
from kseg.errors import PathError
from kseg.node import remote_partitions
from kseg.node.remote_partitions import Candidate, Lineage, MissingOffsets, holes_between, lineage_of, live_segments
from kseg.segment.items import Batch
from kseg.segment.reader import SegmentReader
from kseg.sidefiles.checkpoints import EpochEntry, plain_epochs
from kseg.stores.place import Place
from kseg.stores.remote.keys import KeyMissingError, PrivateKeys
from kseg.stores.source import open_source
from stores.remote.stores import copied, digest, keys, partition, store_of, truth

# What a log directory knows of segments in remote storage.

PLAIN_LOGS = TESTDATA / "remote/plain/logs"


def test_segments_whose_deletion_has_begun_or_ended_are_deleted() -> None:
    """The deletion of the six of the second topic had begun when the broker was killed; that of the third was over."""
    deleted = remote_partitions.LocalLogs(str(PLAIN_LOGS)).deleted
    assert Counter((topic, partition) for topic, partition, _ in deleted) == {
        ("SMoK-iDiSi2Xzw3-j7wplg", 0): 14,
        ("46evFj_YTyiDq26LBIc1xA", 0): 6,
        ("FJyAz4RTQ1aQezhVw4VQnw", 0): 3,
        ("Lm7Z_puET7S-67p01CnFrQ", 0): 2,
        ("JWRD-xkyTvqvHyq5Haei7w", 0): 1,
    }


def test_the_last_finished_copy_counts(tmp_path: Path) -> None:
    """All segments of t-gone and t-drain are deleted, and the last one of t-wipe."""
    assert remote_partitions.copied_offsets([str(PLAIN_LOGS)]) == {
        ("t-zstd", 0): 1328, ("t-txn", 0): 421, ("t-roll", 0): 599, ("t-int", 0): 377, ("t-plain", 0): 296,
        ("t-lz4", 0): 1304, ("t-ret", 0): 938, ("t-zstd", 1): 386, ("t-del", 0): 491, ("t-wipe", 0): 315,
    }  # fmt: skip
    assert remote_partitions.copied_offsets([str(tmp_path)]) is None


# Which segments are live: by hand, by a model that looks at each offset, and as Kafka's cache says for real stores.


def lineage(*entries: tuple[int, int]) -> Lineage:
    return [EpochEntry(*entry) for entry in entries]


def candidate(name: str, start: int, end: int, *epochs: tuple[int, int]) -> Candidate:
    return Candidate(name, start, end, lineage(*(epochs or ((0, 0),))))


def shown(live: remote_partitions.LiveSegments) -> list[tuple[str, int, int]]:
    return [(piece.candidate.segment, piece.first, piece.last) for piece in live.pieces]


@pytest.mark.parametrize(
    ("candidates", "entries", "pieces", "superseded"),
    [
        pytest.param(
            [candidate("b", 10, 19), candidate("a", 0, 9)], [(0, 0)], [("a", 0, 9), ("b", 10, 19)], "",
            id="segments that follow each other",
        ),
        pytest.param(
            [candidate("a", 0, 60), candidate("b", 50, 99), candidate("copy", 10, 40)], [(0, 0)],
            [("a", 0, 60), ("b", 61, 99)], "copy", id="replicas that rolled at other offsets",
        ),
        pytest.param(
            [candidate("a", 0, 9), candidate("b", 5, 19), candidate("c", 10, 19)], [(0, 0)],
            [("a", 0, 9), ("c", 10, 19)], "b", id="of two that reach as far, the one that begins there",
        ),
        pytest.param(
            [candidate("a", 0, 9), candidate("b", 10, 29), candidate("c", 40, 49)], [(0, 15)],
            [("b", 10, 29), ("c", 40, 49)], "", id="holes, and the log start",
        ),
        pytest.param(
            [candidate("a", 0, 29, (1, 0), (2, 20))], [(2, 25)], [("a", 0, 29)], "",
            id="epochs below the first entry stay in a segment that it cuts",
        ),
    ],
)  # fmt: skip
def test_live_segments(
    candidates: list[Candidate], entries: list[tuple[int, int]], pieces: list[tuple[str, int, int]], superseded: str
) -> None:
    found = live_segments(candidates, lineage(*entries), entries[0][1])
    assert shown(found) == pieces
    assert ([one.segment for one in found.superseded], found.abandoned) == ([superseded] * bool(superseded), [])
    if pieces[-1] == ("c", 40, 49):
        assert holes_between(found.pieces) == [MissingOffsets(30, 39)]


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


def test_epochs_within() -> None:
    assert remote_partitions.epochs_within(lineage((0, 5), (2, 20), (7, 90)), 0, 30) == [(0, 0, 19), (2, 20, 30)]
    assert remote_partitions.epochs_within(lineage((0, 0), (2, 20)), 25, 30) == [(2, 25, 30)]


def test_a_store_as_kafka_sees_it() -> None:
    """The live segments that RemoteLogMetadataCache gave for each offset."""
    candidates, unusable = remote_partitions.candidates_of(partition("zstd", "t-roll-0"))
    found = live_segments(candidates, lineage_of(candidates))
    assert unusable == []
    places = {fact["id"]: fact for fact in truth("zstd").values()}
    live = [places[piece.candidate.segment.segment_id] for piece in found.pieces]
    assert [(fact["startOffset"], fact["endOffset"], fact["epochs"][-1][0]) for fact in live] == [
        (0, 155, 0), (156, 301, 4), (302, 451, 4), (452, 598, 4),
    ]  # fmt: skip


def test_the_end_offset_without_metadata() -> None:
    candidates, _ = remote_partitions.candidates_of(partition("local", "t-txn-0"))
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
    assert {offset for hole in holes_between(found.pieces) for offset in range(hole.first, hole.last + 1)} == missing


BOTH = "t-txn-0"


def tree_of(store: Path, given: PrivateKeys | None = None) -> remote_partitions.RemoteTree:
    return remote_partitions.RemoteTree(Place(str(store)), keys() if given is None else given)


def content(tree: remote_partitions.RemoteTree, inner: str) -> bytes:
    root = str(Path("/remote-storage"))
    with open_source(Place(root, tree) / inner) as source:
        source.need(0, source.size)
        return bytes(source.buffer[: source.size])


def test_the_files_are_those_of_the_broker() -> None:
    tree, local = tree_of(store_of("both")), store_of("both").parent / "logs" / BOTH
    assert [name for name, _ in tree.nodes("")] == [BOTH]
    names = {name for name, _ in tree.nodes(BOTH)}
    assert f"{0:020}.log" in names
    assert f"{216:020}.snapshot" in names
    for stem in (f"{216:020}", f"{418:020}"):
        for suffix in (".log", ".index", ".timeindex"):
            assert content(tree, f"{BOTH}/{stem}{suffix}") == (local / (stem + suffix)).read_bytes()
    assert content(tree, f"{BOTH}/{216:020}.txnindex") == (local / f"{216:020}.txnindex").read_bytes()
    assert content(tree, f"{BOTH}/{418:020}.snapshot") == (local / f"{418:020}.snapshot").read_bytes()
    assert plain_epochs(content(tree, f"{BOTH}/leader-epoch-checkpoint"))
    assert tree.node("absent-0") is None
    assert tree.node(f"{BOTH}/absent") is None
    with pytest.raises(FileNotFoundError):
        tree.nodes("absent-0")
    with pytest.raises(FileNotFoundError):
        tree.open(f"{BOTH}/absent")


def test_another_process_lists_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, inner = tree_of(store_of("both")), f"{BOTH}/{216:020}.log"
    live = pickle.loads(pickle.dumps(tree.live(inner)))
    assert (live.first, live.last, live.is_whole) == (216, 417, True)
    expected = content(tree, inner)
    monkeypatch.setattr("kseg.stores.remote.segment.objects_below", lambda *_: pytest.fail("listed"))
    there = tree_of(store_of("both"))
    there.use(inner, live)
    assert content(there, inner) == expected
    assert content(there, inner.replace(".log", ".index"))
    assert there.live(inner) == live


def test_a_log_that_the_lineage_cuts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without the segment of epoch 4 at 156, that of epoch 2 is used up to where epoch 2 begins."""
    store = copied("zstd", tmp_path)
    whole = next(fact for fact in truth("zstd").values() if fact["startOffset"] == 156 and fact["endOffset"] == 301)
    for path in store.rglob(f"*{whole['id']}*"):
        path.unlink()
    tree, inner = tree_of(store), f"t-roll-0/{156:020}.log"
    live = tree.live(inner)
    assert live is not None
    assert (live.first, live.last, live.is_whole) == (156, 299, False)
    assert tree.node(inner.replace(".log", ".index")) is None
    cut, facts = content(tree, inner), truth("zstd")[live.objects[2]]
    assert digest(cut) != facts["sha256Log"]
    (tmp_path / "cut.log").write_bytes(cut)
    with open_source(str(tmp_path / "cut.log")) as source:
        batches = [item for item in SegmentReader(source) if isinstance(item, Batch)]
    assert (batches[0].base_offset, batches[-1].last_offset) == (156, 299)
    assert sum(batch.size for batch in batches) == len(cut)
    assert "no segment has offsets 300 to 301" in caplog.text
    tree.close()


def test_segments_that_cannot_be_read_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kseg"):
        names = [name for name, _ in tree_of(store_of("plain")).nodes("t-int-0")]
    assert [name for name in names if name.endswith(".log")] == []
    assert "left out: has no .indexes, .rsm-manifest" in caplog.text


def test_keys_and_other_directories(tmp_path: Path) -> None:
    with pytest.raises(KeyMissingError, match="k1"):
        tree_of(store_of("enc"), PrivateKeys()).nodes("t-txn-0")
    with pytest.raises(PathError, match="no remote storage"):
        tree_of(tmp_path).nodes("")
    assert remote_partitions.live_segment_at(str(tmp_path)) is None
