"""Copies in images are found as by a comparison of the bytes of all batches."""

import random
from pathlib import Path

import pytest

from carving.images import BLOCK, CLEAN, files_one_by_one
from cli.command import TESTDATA
from kseg.carving import image as copies
from kseg.carving.image import Copies, Piece, batch_rows, pieces_of
from kseg.stores.source import open_source

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
