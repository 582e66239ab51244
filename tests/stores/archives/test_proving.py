"""Batches that are proven while a file is unpacked are left out of the spool, and are there when asked for."""

import gzip
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kernel.rendering import batch, record
from kseg.errors import PathError
from kseg.stores.archives import opening
from kseg.stores.archives.forms import UnpackError
from kseg.stores.archives.mounting import archives_at
from kseg.stores.archives.spool import Spool
from kseg.stores.archives.unpack import MemoryExtent, unpacked
from segment.long_log import BASE_OFFSET, write_long_log
from segment.segments import TESTDATA
from stores.archives.packed_logs import PACK, SIZE, cut, partition


def omitting(path: Path) -> Any:
    spool = Spool()
    spool.omits_batches = True
    return archives_at([str(path)], spool)


@pytest.mark.parametrize("packing", PACK)
def test_readers_of_the_bytes_get_them(packing: str, tmp_path: Path) -> None:
    directory = partition(tmp_path, cut)
    packed = tmp_path / f"logs.tar.{packing}"
    with tarfile.open(tmp_path / "logs.tar", "w") as tar:
        tar.add(tmp_path / "logs", "logs")
    packed.write_bytes(PACK[packing]((tmp_path / "logs.tar").read_bytes()))
    for name in sorted(path.name for path in directory.iterdir()):
        place = f"logs/orders-0/{name}"
        data = (directory / name).read_bytes()
        with omitting(packed) as (root,):
            assert (root / place).read(1 << 30) == data
        with omitting(packed) as (root,):
            found = root / place
            assert found.tree is not None
            source = found.tree.source(found.inner, place)
            assert (source is not None) == name.endswith(".log")
            if source is not None:
                with source:
                    assert source.head(1 << 20) == data[:65536]
                    with source.behind_proven() as behind:
                        assert bytes(behind.buffer[source.proven.end :]) == data[source.proven.end :]
                    assert bytes(source.buffer) == data


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    packed = tmp_path / f"{BASE_OFFSET:020}.log.gz"
    packed.write_bytes(gzip.compress(Path(write_long_log(tmp_path, SIZE, with_indexes=False).path).read_bytes()))
    for changed in (packed.read_bytes()[:1000], gzip.compress(b"1")):
        kept = packed.read_bytes()
        with omitting(packed) as (place,):
            packed.write_bytes(changed)
            with pytest.raises(PathError, match="has changed while it was read"):
                place.read(1 << 30)
        packed.write_bytes(kept)


def enlarged(payload_bytes: int) -> bytes:
    """A batch of one record whose value has random bytes."""
    return batch([record(0, value=random.Random(payload_bytes).randbytes(payload_bytes))])


def unpacker(data: bytes) -> tuple[opening.ProvingUnpacker, bytearray]:
    """A pass over a packed file, and the unpacked bytes that it keeps."""
    spool = Spool()
    found = opening.ProvingUnpacker(unpacked(MemoryExtent(data)), spool)
    kept = bytearray()
    for position, piece in found.pieces():
        if len(kept) < position + len(piece):
            kept.extend(bytes(position + len(piece) - len(kept)))
        kept[position : position + len(piece)] = piece
    return found, kept


@pytest.mark.parametrize("sizes", [(300_000, 1_500_000, 10, 3_000_000), (5_000_000,) * 2, (1_048_588 - 100,) * 3])
def test_batches_larger_than_the_window_are_proven(sizes: tuple[int, ...]) -> None:
    batches = [enlarged(size) for size in sizes]
    found, _ = unpacker(gzip.compress(b"".join(batches), 0))
    ((start, run),) = found.runs.items()
    assert (start, run.end, run.count) == (0, sum(map(len, batches)), len(sizes))


def test_a_length_beyond_the_largest_window_is_left_to_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LARGEST_WINDOW_BYTES", 1 << 20)
    data = enlarged(300_000) + enlarged(1_100_000) + enlarged(10)
    found, kept = unpacker(gzip.compress(data, 0))
    (run,) = found.runs.values()
    assert (run.end, len(kept)) == (len(enlarged(300_000)), len(data))
    assert kept[run.end :] == data[run.end :]


def test_rows_of_tiny_batches_do_not_replace_them() -> None:
    data = enlarged(10) * 50_000
    found, kept = unpacker(gzip.compress(data))
    (run,) = found.runs.values()
    assert run.end < len(data) // 2
    assert kept[run.end :] == data[run.end :]


def test_an_archive_in_an_archive_is_kept_whole(tmp_path: Path) -> None:
    """A tar member that is itself an archive: what looks like a segment in it is no segment of this archive."""
    partition(tmp_path, bytes)
    with tarfile.open(tmp_path / "inner.tar", "w") as tar:
        tar.add(tmp_path / "logs", "logs")
    inner = (tmp_path / "inner.tar").read_bytes()
    with tarfile.open(tmp_path / "outer.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "inner.tar", "inner.tar")
    with omitting(tmp_path / "outer.tar.gz") as (place,):
        assert (place / "inner.tar").read(1 << 30) == inner


FRAMES = {
    "checksum": zstandard.ZstdCompressor(write_checksum=True),
    "no size": zstandard.ZstdCompressor(write_content_size=False),
    "best": zstandard.ZstdCompressor(level=19),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("input_bytes", [1, 3, 7, 1000])
def test_frames_of_zstd_are_followed_in_pieces_of_any_size(input_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kseg.stores.archives.unpack._INPUT_BYTES", input_bytes)
    real = (TESTDATA / "kafka-4.3.1/codecs/codec-mix-0/00000000000000000000.log").read_bytes()
    for data in (b"", b"x", bytes(300_000), real):
        packed = b"".join(one.compress(data) + b"\x53\x2a\x4d\x18\1\0\0\0z" for one in FRAMES.values())
        assert b"".join(unpacked(MemoryExtent(packed))) == data * len(FRAMES)


@pytest.mark.parametrize("name", FRAMES)
def test_cut_frames_of_zstd_are_told(name: str) -> None:
    packed = FRAMES[name].compress(random.Random(3).randbytes(3000) * 20)
    for end in range(8, len(packed) - 1, 97):
        with pytest.raises(UnpackError, match="it ends in the middle"):
            list(unpacked(MemoryExtent(packed[:end])))
