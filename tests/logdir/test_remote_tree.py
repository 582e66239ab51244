"""Remote storage as a log directory: live segments, their side files, and logs that the lineage cuts."""

import logging
import pickle
from pathlib import Path

import pytest

from kseg.errors import PathError
from kseg.logdir.remote_tree import RemoteTree, live_segment_at
from kseg.segment.batches import Batch
from kseg.segment.reader import SegmentReader
from kseg.sidefiles.leader_epochs import plain_epochs
from kseg.stores import trees
from kseg.stores.objects import LocalObjects
from kseg.stores.remote.keys import KeyMissingError, PrivateKeys
from kseg.stores.source import open_source
from stores.remote.stores import copied, digest, keys, store_of, truth

BOTH = "t-txn-0"


def tree_of(store: Path, given: PrivateKeys | None = None) -> RemoteTree:
    return RemoteTree(LocalObjects(str(store)), keys() if given is None else given)


def content(tree: RemoteTree, inner: str) -> bytes:
    root = str(Path("/remote-storage"))
    trees.mount(root, tree)
    try:
        with open_source(f"{root}/{inner}") as source:
            source.need(0, source.size)
            return bytes(source.buffer[: source.size])
    finally:
        trees.unmount(root)


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


@pytest.mark.parametrize("variant", ["plain", "zstd", "enc"])
def test_logs_are_those_that_the_broker_copied(variant: str) -> None:
    tree, digests = tree_of(store_of(variant)), {fact.get("sha256Log") for fact in truth(variant).values()}
    logs = [f"{place}/{name}" for place, _ in tree.nodes("") for name, _ in tree.nodes(place) if name.endswith(".log")]
    assert logs
    assert {digest(content(tree, inner)) for inner in logs} <= digests


def test_another_process_lists_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, inner = tree_of(store_of("both")), f"{BOTH}/{216:020}.log"
    live = pickle.loads(pickle.dumps(tree.live(inner)))
    assert (live.first, live.last, live.is_whole) == (216, 417, True)
    expected = content(tree, inner)
    monkeypatch.setattr(LocalObjects, "list", lambda *_: pytest.fail("listed"))
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
    cut, facts = content(tree, inner), truth("zstd")[live.objects.segment_id]
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
    assert live_segment_at(str(tmp_path)) is None
