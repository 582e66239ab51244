"""``kseg dump`` of remote storage: records are those that a consumer read, and ranges read only their chunks."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cli.command import Kseg
from kseg.stores.objects import LocalObjects
from stores.remote.stores import KEY_OPTIONS, REMOTE, copied, damage_chunk, storage, store_of

KEYS = [word for option in KEY_OPTIONS for word in ("--private-key", option)]
DEEP = ["--deep-iteration", "--print-data-log", "--format", "json"]


def consumed(variant: str, name: str) -> list[tuple[int, int]]:
    with gzip.open(REMOTE / variant / "truth" / f"{name}.jsonl.gz", "rt") as lines:
        return [(row["offset"], row["timestamp"]) for row in map(json.loads, lines)]


def records(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["offset"], row["timestamp"]) for row in rows if row["type"] == "record" and "control" not in row]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What is read of log objects."""
    found: list[tuple[str, int, int]] = []
    read = LocalObjects.read

    def counted(self: LocalObjects, name: str, start: int, length: int) -> bytes:
        if name.endswith(".log"):
            found.append((name, start, length))
        return read(self, name, start, length)

    monkeypatch.setattr(LocalObjects, "read", counted)
    return found


@pytest.mark.parametrize(("variant", "name", "end"), [("both", "t-txn-0", 422), ("local", "t-txn-0", 324)])
def test_all_records(kseg: Kseg, variant: str, name: str, end: int) -> None:
    rows = kseg("dump", *DEEP, *KEYS, store_of(variant)).objects
    assert records(rows) == [row for row in consumed(variant, f"{name}.ru") if row[0] < end]
    assert {(row["topic"], row["partition"]) for row in rows if row["type"] == "record"} == {("t-txn", 0)}


def test_text_is_that_of_the_file(kseg: Kseg, tmp_path: Path) -> None:
    """As Kafka's tool prints the log that LocalTieredStorage keeps as it is."""
    store = store_of("local")
    path = sorted(store.rglob("*.log"))[0]
    (tmp_path / "00000000000000000000.log").write_bytes(path.read_bytes())
    alone = kseg("dump", "--deep-iteration", tmp_path / "00000000000000000000.log").lines
    whole = kseg("dump", "--deep-iteration", store).lines
    assert whole[: len(alone)] == [f"Dumping {path}", *alone[1:]]


def test_committed_transactions(kseg: Kseg) -> None:
    rows = kseg("dump", *DEEP, *KEYS, "--isolation", "read_committed", store_of("both")).objects
    found, expected = records(rows), [row for row in consumed("both", "t-txn-0.rc") if row[0] < 422]
    # What the store does not have the end of is not stable yet.
    assert found == expected[: len(found)]
    assert len(found) > len(expected) - 10


def test_a_range_of_offsets_reads_its_chunks(kseg: Kseg, reads: list[tuple[str, int, int]]) -> None:
    rows = kseg("dump", *DEEP, *KEYS, "--offsets", "300..305", store_of("both")).objects
    assert records(rows) == [row for row in consumed("both", "t-txn-0.ru") if 300 <= row[0] <= 305]
    segment = next(found for found in storage("both").partitions[0].segments if found.start_offset == 216)
    assert {name for name, _, _ in reads} == {segment.found[".log"].name}
    assert len(segment.chunks) > 20
    assert sum(length for _, _, length in reads) < segment.chunks.stored_bytes / 3


def test_a_limit_reads_the_first_chunks(kseg: Kseg, reads: list[tuple[str, int, int]]) -> None:
    rows = kseg("dump", *DEEP, "--topic", "t-roll", "--limit", "2", store_of("zstd")).objects
    assert [offset for offset, _ in records(rows)] == [0, 1]
    assert len(reads) == 1


@pytest.mark.parametrize(("position", "most_chunks"), [(1000, 4), (40000, 11)])
def test_a_range_of_positions_reads_its_chunks(
    kseg: Kseg, reads: list[tuple[str, int, int]], position: int, most_chunks: int
) -> None:
    """A position in the middle needs the batches from a few index entries before it on: they prove where one begins."""
    segment = storage("plain").partitions[0].segments[0]
    shown = kseg("dump", "--hex", "--position", f"{position}..{position + 100}", "--topic", "t-del", store_of("plain"))
    assert shown.status == 0
    shown_positions = [
        int(line.split()[0]) for line in shown.lines if line.startswith("  ") and line.split()[0].isdigit()
    ]
    assert any(position <= found <= position + 100 for found in shown_positions)
    name = segment.found[".log"].name
    assert 0 < sum(length for read, _, length in reads if read == name) <= most_chunks * 4096


def test_a_damaged_chunk_is_skipped(kseg: Kseg, tmp_path: Path) -> None:
    store = copied("both", tmp_path)
    segment = damage_chunk(store, "both", 5)
    for options in ([], ["--offsets", "0.."]):
        dumped = kseg("dump", *DEEP, *KEYS, *options, store)
        assert dumped.status == 1
        (damage,) = dumped.of_type("damage")
        begin, end = segment.chunks.original_range(5)
        assert damage["code"] == "unreadable-bytes"
        assert damage["position"] <= begin < end <= damage["position"] + damage["length"]
        lost = {row[0] for row in consumed("both", "t-txn-0.ru") if row[0] < 422} - {
            row[0] for row in records(dumped.objects)
        }
        assert 0 < len(lost) < 40


def test_what_cannot_be_dumped_is_told(kseg: Kseg, tmp_path: Path) -> None:
    dumped = kseg("dump", "--format", "json", store_of("enc"))
    assert (dumped.status, dumped.out) == (3, b"")
    assert "--private-key k1=PEM" in dumped.err
    unfinished = kseg("dump", "--format", "json", "--topic", "t-int", store_of("plain"))
    assert "left out: there is no .indexes, .rsm-manifest" in unfinished.err
    store = copied("zstd", tmp_path)
    next(store.rglob("*.rsm-manifest")).write_text("{}")
    broken = kseg("dump", "--format", "json", store)
    assert broken.status == 3
    assert "its manifest cannot be used" in broken.err
    assert len({row["file"] for row in broken.of_type("batch")}) == 6
    asked = kseg("dump", "--open-transactions", store)
    assert asked.status == 3
    nothing = kseg("dump", "--format", "json", "--offsets", "9000..", store_of("plain"))
    assert "its offsets are" in nothing.err


def test_indexes_of_kafkas_own_layout_are_used(kseg: Kseg, reads: list[tuple[str, int, int]]) -> None:
    """They lie under the very paths under which they are asked for."""
    rows = kseg("dump", *DEEP, "--offsets", "230..231", store_of("local")).objects
    assert [row["offset"] for row in rows if row["type"] == "record"] == [230, 231]
    assert len({name for name, _, _ in reads}) == 1
