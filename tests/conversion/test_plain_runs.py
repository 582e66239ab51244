"""Batches converted many at a time become the same as batches converted one by one."""

import random
from pathlib import Path
from typing import Any

import pytest

from conversion.conversions import TESTDATA, a_log, convert, files
from kseg.conversion.options import LossError
from kseg.conversion.partition import _Conversion
from kseg.errors import DamageError, UnsupportedError
from kseg.formats.rows import int64s
from kseg.kernel.layout.rows import ROW_KEY_SIZE, ROW_VALUE, ROW_VALUE_SIZE, ROW_WIDTH
from kseg.kernel.records import building
from kseg.segment.items import Batch
from segment.reading import items_at
from segment.segments import sealed

LEGACY = TESTDATA / "kafka-0.8.2.2/codecs/one-none-0"
REQUESTS: list[dict[str, Any]] = [
    {"magic": 2},
    {"magic": 2, "codec": "none"},
    {"magic": 2, "codec": "lz4"},
    {"magic": 2, "codec": "none", "batch_bytes": 300},
    {"magic": 1, "codec": "none"},
    {"magic": 1, "codec": "gzip"},
    {"magic": 1, "codec": "gzip", "batch_bytes": 500, "is_lossy": True},
    {"magic": 1, "codec": "none", "is_lossy": True, "skips_damage": True},
    {"magic": 0, "codec": "none", "is_lossy": True},
    {"magic": 0, "codec": "snappy", "is_lossy": True, "segment_bytes": 2000},
    {"magic": 0},
    {"codec": "gzip"},
    {"codec": "none", "skips_damage": True, "segment_bytes": 1000},
    {},
]


ANYTHING = {"is_lossy": True, "skips_damage": True}


def real_entries() -> list[bytes]:
    """Returns one batch of each kind in real segments, by format, attributes and presence of headers or a producer."""
    found: dict[tuple[Any, ...], bytes] = {}
    for path in sorted(TESTDATA.rglob("*.log")):
        if "damaged" in path.parts or path.stat().st_size > 1 << 20 or "cluster_metadata" in str(path):
            continue
        for batch in items_at(path):
            if isinstance(batch, Batch) and batch.is_valid and batch.magic < 3 and batch.size < 5000:
                entry = bytes(batch.data)
                kind = (entry[16], entry[22] if entry[16] == 2 else entry[17], entry[43:51], len(entry) // 150)
                found.setdefault(kind, entry)
    return list(found.values())


ENTRIES = real_entries()
FEWER = 12
"""Every twelfth batch: few of them, and still all formats with all their codecs."""


def mixture(choice: random.Random) -> bytes:
    """Returns runs of equal and of different batches, mostly valid, with mostly rising offsets."""
    pieces, offset = [], 0
    while len(pieces) < 60:
        entry = bytearray(choice.choice(ENTRIES))
        for _ in range(choice.choice((1, 1, 2, 5, 20))):
            if choice.random() < 0.02:
                offset -= 3
            entry[:8] = max(offset, 0).to_bytes(8, "big")
            if entry[16] == 1 and choice.random() < 0.2:
                entry[:] = sealed(entry, 17, bytes([entry[17] ^ 8]))
            if entry[16] == 2 and choice.random() < 0.1:
                entry[:] = sealed(entry, 22, bytes([entry[22] ^ 8]))
            if choice.random() < 0.01:
                entry[-1] ^= 1
            pieces.append(bytes(entry))
            delta = int.from_bytes(entry[23:27], "big") if entry[16] == 2 else 0
            offset += delta + choice.choice((1, 1, 1, 7))
    return b"".join(pieces)


def outcome(source: Path, folder: Path, asked: dict[str, Any]) -> Any:
    try:
        found = convert(source, folder, **asked)
    except (DamageError, LossError, UnsupportedError) as error:
        return type(error), str(error).replace(str(folder), "")
    return (
        files(folder, ".log", ".index", ".timeindex", ".snapshot"), found.losses, found.gaps, found.skipped,
        found.batches, found.left_out, found.is_same_log, found.has_same_segments,
    )  # fmt: skip


def both(tmp_path: Path, data: bytes, asked: dict[str, Any], name: str) -> Any:
    source = a_log(tmp_path / f"source-{name}" / "t-0", data)
    many = outcome(source, tmp_path / f"many-{name}" / "t-0", asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Conversion, "_take_plain", lambda _self, _reader, _run, first: first)
        assert outcome(source, tmp_path / f"one-{name}" / "t-0", asked) == many
    return many


def test_there_are_batches_of_all_formats() -> None:
    assert {entry[16] for entry in ENTRIES} == {0, 1, 2}
    assert len(ENTRIES) > 20
    for magic, codecs in ((0, 4), (1, 4), (2, 5)):
        found = {entry[22 if magic == 2 else 17] & 7 for entry in ENTRIES[::FEWER] if entry[16] == magic}
        assert len(found) == codecs


@pytest.mark.sampled(3)
@pytest.mark.parametrize("asked", REQUESTS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_many_at_a_time_equals_one_by_one(seed: int, asked: dict[str, Any], tmp_path: Path) -> None:
    both(tmp_path, mixture(random.Random(seed)), asked | (ANYTHING if seed else {}), "mixed")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("step", [FEWER, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("asked", REQUESTS, ids=str)
def test_each_kind_of_batch(asked: dict[str, Any], step: int, tmp_path: Path) -> None:
    pieces, offset = [], 0
    for entry in ENTRIES[::step]:
        for _ in range(5):
            pieces.append(offset.to_bytes(8, "big") + entry[8:])
            offset += 1 + (int.from_bytes(entry[23:27], "big") if entry[16] == 2 else 0)
    found = both(tmp_path, b"".join(pieces), asked | ANYTHING, "all")
    assert found[4] > len(pieces) // 2


def test_uncompressed_messages_are_not_converted_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Conversion, "_convert", lambda *_: pytest.fail("one message alone"))
    for codec in (None, "zstd"):
        assert convert(LEGACY, tmp_path / f"{codec}-0", codec, magic=2).batches > 1


def test_a_record_larger_than_the_buffer_is_an_error() -> None:
    rows, headers = int64s(ROW_WIDTH), int64s(4)
    rows[ROW_KEY_SIZE], rows[ROW_VALUE], rows[ROW_VALUE_SIZE] = -1, 0, 5
    largest = building.max_bytes(rows, 1)
    assert building.single_batches(b"value", rows, headers, 1, 0, bytearray(largest)) == 61 + 7 + 5
    assert building.single_batches(b"value", rows, headers, 0, 0, bytearray()) == 0
    for size in (0, 60, 61, 72):
        with pytest.raises(ValueError):
            building.single_batches(b"value", rows, headers, 1, 0, bytearray(size))
    for count in (-1, 2):
        with pytest.raises(ValueError):
            building.max_bytes(rows, count)
        with pytest.raises(ValueError):
            building.single_batches(b"value", rows, headers, count, 0, bytearray(largest))
