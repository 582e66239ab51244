"""Segments of real stores: their bytes are those that the broker copied, by the digests beside them."""

import re
import shutil
from pathlib import Path

import pytest

from cli.command import flip
from kseg.errors import KsegError, PathError, RequestError
from kseg.stores.remote.keys import KeyMissingError, PrivateKeys, private_keys
from kseg.stores.remote.recognition import is_remote_storage
from kseg.stores.remote.segment import EPOCHS, ChunkError, RemoteSource, open_storage
from stores.remote.stores import (
    REMOTE,
    copied,
    digest,
    first_segment,
    keys,
    noted_reads,
    partition,
    storage,
    store_of,
    truth,
)

VARIANTS = ["plain", "zstd", "enc", "both"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_logs_are_those_that_the_broker_copied(variant: str) -> None:
    known = truth(variant)
    segments = [segment for found in storage(variant).partitions for segment in found.segments if not segment.missing]
    assert len(segments) >= 2
    for segment in segments:
        source = RemoteSource(segment, segment.path())
        for _ in range(2):  # a second pass spools it anew
            with source:
                assert digest(bytes(source.buffer[0 : source.size])) == known[segment.segment_id]["sha256Log"]
                assert digest(source.extent.pread(source.size, 0)) == known[segment.segment_id]["sha256Log"]
        with RemoteSource(segment, segment.path(), is_in_place=True) as source:
            source.need(0, source.size)
            assert digest(bytes(source.buffer)) == known[segment.segment_id]["sha256Log"]
        assert list(segment.size_problems()) == []


@pytest.mark.parametrize(
    ("variant", "names"),
    [("plain", ["t-del-0", "t-int-0"]), ("zstd", ["t-roll-0"]), ("both", ["t-txn-0"]), ("local", ["t-txn-0"])],
)
def test_prefixes_are_no_part_of_topics(variant: str, names: list[str]) -> None:
    assert [found.name for found in storage(variant).partitions] == names
    assert is_remote_storage(str(store_of(variant)))


@pytest.mark.parametrize(
    ("folder", "has_manifests", "topic"),
    [("backup_other", False, "other"), ("kept_other", False, "kept_other"), ("kept_t-txn", True, "kept_t-txn")],
)
def test_prefixes_of_other_partitions(folder: str, has_manifests: bool, topic: str, tmp_path: Path) -> None:
    """Without manifests, which name the topic, a partition has a prefix that the manifests of others give away. A
    manifest of another topic id names no topic."""
    store = copied("both", tmp_path)
    (known,) = store.glob("backup_t-txn-*")
    other = Path(shutil.copytree(known, store / f"{folder}-AAECAwQFBgcICQoLDA0ODw"))
    for manifest in () if has_manifests else other.rglob("*.rsm-manifest"):
        manifest.unlink()
    found = open_storage(str(store), keys()).partitions
    assert {partition.name for partition in found} == {"t-txn-0", f"{topic}-0"}


def test_a_log_directory_is_no_remote_storage(tmp_path: Path) -> None:
    assert not is_remote_storage(str(REMOTE / "plain" / "logs"))
    assert not is_remote_storage(str(tmp_path))
    with pytest.raises(PathError, match="no remote storage"):
        open_storage(str(tmp_path), keys())


@pytest.mark.parametrize("variant", ["both", "enc", "local"])
def test_side_files_are_restored(variant: str) -> None:
    segment = partition(variant, "t-txn-0").segments[0]
    assert segment.side_file(EPOCHS) == b"0\n1\n0 0\n"
    snapshot = segment.side_file(".snapshot")
    assert snapshot is not None
    assert snapshot[:2] == b"\0\1"


def test_an_empty_side_file_is_stored_as_nothing() -> None:
    segment = partition("enc", "t-txn-0").segments[-1]
    assert segment.manifest.parts[".index"].size == 0
    assert segment.side_file(".index") == b""
    assert segment.side_file(".txnindex") is None


def test_a_range_reads_only_its_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = partition("both", "t-txn-0").segments[1]
    assert len(segment.chunks) > 20
    reads, log = noted_reads(monkeypatch), segment.path()
    with RemoteSource(segment, "x", is_in_place=True) as source:
        source.need(segment.size - 100, segment.size)
        at = segment.chunks.positions
        assert reads == [(log, at[-2], at[-1] - at[-2])]
        assert source.reach(0, segment.size) == segment.chunks.original_chunk_bytes
        source.reach_further(0, segment.size)
        assert source.reach(0, segment.size) == 2 * segment.chunks.original_chunk_bytes
        assert reads[1:] == [(log, at[0], at[1]), (log, at[1], at[2] - at[1])]
        assert bytes(source.buffer[segment.size - 100 :]).strip(b"\0")


def test_an_object_that_has_gone_is_named(tmp_path: Path) -> None:
    segment = open_storage(str(copied("both", tmp_path)), keys()).partitions[0].segments[0]
    assert segment.chunks
    path = segment.path()
    Path(path).unlink()
    with pytest.raises(PathError, match=f"^{re.escape(path)}: No such file or directory$"):
        next(segment.read_chunks())


def test_a_damaged_chunk_reads_as_zeros_and_is_listed(tmp_path: Path) -> None:
    store = copied("both", tmp_path)
    segment = open_storage(str(store), keys()).partitions[0].segments[1]
    log = Path(segment.path())
    flip(log, segment.chunks.positions[2] + 20)
    for in_place in (True, False):
        with RemoteSource(segment, "x", in_place) as source:
            source.need(0, source.size)
            whole = bytes(source.buffer[0 : source.size])
            assert source.look_for_unreadable()
            assert not source.look_for_unreadable()
            begin, end = segment.chunks.original_range(2)
            assert source.unreadable == [(begin, end)]
            assert list(source.failures) == [2]
            assert "authentication failed" in source.failures[2]
            assert whole[begin:end] == bytes(end - begin)
            assert whole[end:].strip(b"\0")


def test_a_log_that_is_cut_off(tmp_path: Path) -> None:
    segment = first_segment(copied("zstd", tmp_path))
    log = Path(segment.path())
    log.write_bytes(log.read_bytes()[:-1])
    *_, (number, last) = segment.read_chunks()
    assert number == len(segment.chunks) - 1
    assert isinstance(last, ChunkError)
    assert "ends before the chunk" in str(last)


def test_keys_that_are_missing_or_wrong(tmp_path: Path) -> None:
    given = REMOTE / "keys"
    for found, reason in (
        (PrivateKeys(), "--private-key k1=PEM"),
        (private_keys([f"k1={given}/k2-private.pem"]), "does not open the data key"),
        (private_keys([f"k1={tmp_path}/none"]), "No such file"),
        (private_keys([f"k1={store_of('enc')}/../truth/segments.jsonl"]), "no private key in PEM"),
    ):
        segment = open_storage(str(store_of("enc")), found).partitions[0].segments[0]
        with pytest.raises(KsegError, match=reason) as error:
            next(segment.read_chunks())
        assert error.value.exit_status == 3
    assert issubclass(KeyMissingError, KsegError)
    for option in ("k1", "=x", "k1="):
        with pytest.raises(RequestError, match="ID=PEM"):
            private_keys([option])
    with pytest.raises(RequestError, match="twice"):
        private_keys(["a=x", "a=y"])


def test_objects_of_a_segment_under_two_prefixes(tmp_path: Path) -> None:
    store = copied("zstd", tmp_path)
    old = next(store.rglob("*.log"))
    moved = tmp_path / "zstd" / "older" / Path(*old.relative_to(store).parts[1:])
    moved.parent.mkdir(parents=True)
    old.rename(moved)
    segment = next(s for s in open_storage(str(store), keys()).partitions[0].segments if s.segment_id in old.name)
    assert segment.missing == []
    assert segment.path() == str(moved)
