"""Batches in hostile images are found in a time that grows with the image, whatever its headers claim."""

import errno
import os
import random
import struct
import time
from pathlib import Path

import pytest

from carving.images import BLOCK, CLEAN, batches_in, files_one_by_one, segments
from cli.command import TESTDATA
from kseg.carving import image
from kseg.carving import image as copies
from kseg.carving.image import Copies, Piece, batch_rows, pieces_of
from kseg.errors import KsegError
from kseg.kernel.layout.rows import BATCH_WIDTH
from kseg.stores.source import open_source
from stores.archives.test_spool import refuse


def smallest_batch() -> bytes:
    return min((batch for _, file in segments(CLEAN) for batch in batches_in(file.read_bytes())), key=len)


def found_in(path: Path, jobs: int) -> tuple[int, float]:
    """The number of batches in an image, and the seconds that the search took."""
    with open_source(str(path)) as source:
        start = time.process_time()
        count = sum(len(table) for table in batch_rows(source, jobs, lambda _: None)) // BATCH_WIDTH
        return count, time.process_time() - start


@pytest.mark.sampled(4)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("at_blocks", [False, True], ids=["adjacent", "in blocks"])
def test_claims_behind_whole_batches_cost_few_checksums(tmp_path: Path, jobs: int, at_blocks: bool) -> None:
    path, batch, took = tmp_path / "disk.img", smallest_batch(), []
    for mib in (1, 8):
        claim = struct.pack(">qiib", 5, mib << 19, 0, 2) + bytes(44)
        unit = (batch + claim).ljust(512 if at_blocks else 0, b"\1")
        count = (mib << 20) // len(unit)
        path.write_bytes(unit * count)
        found, seconds = found_in(path, jobs)
        assert found == count
        took.append(seconds)
    assert took[1] < 24 * took[0] + 0.5  # eightfold if linear, 64-fold if each claim is followed


@pytest.mark.slow
def test_what_was_found_leaves_memory(tmp_path: Path) -> None:
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("the system does not tell how much of a file is in memory")
    path = tmp_path / "disk.img"
    path.write_bytes(smallest_batch().ljust(4096, b"\1") * (64 << 8))
    shared = []
    with open_source(str(path)) as source:
        for _ in batch_rows(source, 1, lambda _: None):
            shared.append(int(statm.read_text().split()[2]) * 4096)
    assert max(shared) - shared[0] < 48 << 20


def test_producers_of_a_piece_do_not_depend_on_the_rows_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, found = tmp_path / "disk.img", []
    path.write_bytes(files_one_by_one(CLEAN, with_side_files=False))
    for rows in (1 << 16, 3):
        monkeypatch.setattr(image, "_ROWS_AT_ONCE", rows)
        with open_source(str(path)) as source:
            pieces = image.pieces_of(source, batch_rows(source, 1, lambda _: None))
            found.append([piece.producers for piece in pieces])
    assert found[0] == found[1]
    assert any(len(producers) > 1 for producers in found[0])


# Copies in images are found as by a comparison of the bytes of all batches.

LEGACY = TESTDATA / "kafka-0.10.2.2" / "codecs"
COMPACTED = TESTDATA / "compaction" / "4.3.1"


def with_copies(chance: random.Random, content: bytes) -> bytes:
    """The content, and parts of it at odd places, some of them with a changed byte."""
    parts = [content]
    for _ in range(6):
        start = chance.randrange(len(content))
        part = bytearray(content[start : start + chance.choice((3000, BLOCK, 40 * BLOCK))])
        if chance.random() < 0.4:
            part[chance.randrange(len(part))] ^= 4
        parts += [chance.randbytes(chance.choice((0, 7, BLOCK))), bytes(part)]
    return b"".join(parts)


@pytest.mark.parametrize("logs", [CLEAN, LEGACY, COMPACTED], ids=["v2", "legacy", "compacted"])
@pytest.mark.parametrize("seed", range(3))
def test_runs_of_copies_are_the_batches_of_equal_bytes(tmp_path: Path, logs: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "disk.img"
    path.write_bytes(with_copies(chance, files_one_by_one(logs, with_side_files=False)))
    with open_source(str(path)) as source:
        pieces = pieces_of(source, batch_rows(source, 1, lambda _: None))
        found = Copies(pieces)
        versions = sum(run is None for _, _, run, _ in found.find())
        originals: dict[bytes, tuple[Piece, int]] = {}
        expected, told = {}, {}
        for piece in pieces:
            for i in range(len(piece)):
                original = originals.setdefault(piece.data(i), (piece, i))
                expected[piece.position, i] = (original[0].position, original[1])
            for run in found.tiles(piece):
                for i in range(run.first, run.stop):
                    told[piece.position, i] = (run.original.position, run.k + i - run.first)
    assert told == expected
    assert any(key != value for key, value in told.items())
    assert versions or logs != COMPACTED


def test_many_keys_are_moved_to_the_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "HELD_TABLE_BYTES", 64)
    monkeypatch.setattr(copies, "WINDOW_BYTES", 100)
    test_runs_of_copies_are_the_batches_of_equal_bytes(tmp_path, LEGACY, 0)


def test_many_keys_need_space_in_the_spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk would end the process where it writes to the mapped table."""
    monkeypatch.setattr(copies, "HELD_TABLE_BYTES", 64)
    monkeypatch.setattr(os, "posix_fallocate", refuse(errno.ENOSPC))
    with pytest.raises(KsegError, match="No space left on device: --spool-dir"):
        test_runs_of_copies_are_the_batches_of_equal_bytes(tmp_path, LEGACY, 0)
