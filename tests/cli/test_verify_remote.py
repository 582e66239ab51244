"""``kseg verify`` of remote storage: real stores, damaged ones, and keys."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cli.command import Kseg, findings_of, flip
from stores.remote.stores import KEY_OPTIONS, REMOTE, copied, damage_chunk, noted_reads, storage, store_of

# ``kseg dump`` of remote storage: records are those that a consumer read, and ranges read only their chunks.

DEEP = ["--deep-iteration", "--print-data-log", "--format", "json"]


def consumed(variant: str, name: str) -> list[tuple[int, int]]:
    with gzip.open(REMOTE / variant / "truth" / f"{name}.jsonl.gz", "rt") as lines:
        return [(row["offset"], row["timestamp"]) for row in map(json.loads, lines)]


def records(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["offset"], row["timestamp"]) for row in rows if row["type"] == "record" and "control" not in row]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What is read of objects."""
    return noted_reads(monkeypatch)


def test_text_is_that_of_the_file(kseg: Kseg, tmp_path: Path) -> None:
    """As Kafka's tool prints the log that LocalTieredStorage keeps as it is."""
    store = store_of("local")
    path = sorted(store.rglob("*.log"))[0]
    (tmp_path / "00000000000000000000.log").write_bytes(path.read_bytes())
    alone = kseg("dump", "--deep-iteration", tmp_path / "00000000000000000000.log").lines
    assert kseg("dump", "--deep-iteration", store).lines[: len(alone)] == [f"Dumping {path}", *alone[1:]]


def test_committed_transactions(kseg: Kseg) -> None:
    rows = kseg("dump", *DEEP, *KEYS, "--isolation", "read_committed", store_of("both")).objects
    found, expected = records(rows), [row for row in consumed("both", "t-txn-0.rc") if row[0] < 422]
    # What the store does not have the end of is not stable yet.
    assert found == expected[: len(found)]
    assert len(found) > len(expected) - 10


@pytest.mark.parametrize("options", [("--last", 3), ("--around", 300)], ids=str)
def test_the_nearest_records(kseg: Kseg, options: tuple[str, int]) -> None:
    stored = [row for row in consumed("both", "t-txn-0.ru") if row[0] < 422]
    expected = stored[-3:] if options[0] == "--last" else [row for row in stored if 290 <= row[0] < 310]
    assert records(kseg("dump", *DEEP, *KEYS, *options, store_of("both")).objects) == expected


def test_a_range_of_offsets_reads_its_chunks(kseg: Kseg, reads: list[tuple[str, int, int]]) -> None:
    rows = kseg("dump", *DEEP, *KEYS, "--offsets", "300..305", store_of("both")).objects
    assert records(rows) == [row for row in consumed("both", "t-txn-0.ru") if 300 <= row[0] <= 305]
    segment = next(found for found in storage("both").partitions[0].segments if found.start_offset == 216)
    of_logs = [(path, length) for path, _, length in reads if path.endswith(".log")]
    assert {path for path, _ in of_logs} == {segment.path()}
    assert len(segment.chunks) > 20
    assert sum(length for _, length in of_logs) < segment.chunks.stored_bytes / 3


@pytest.mark.parametrize(("position", "most_chunks"), [(1000, 4), (40000, 11)])
def test_few_chunks_are_read(kseg: Kseg, reads: list[tuple[str, int, int]], position: int, most_chunks: int) -> None:
    """A position in the middle needs the batches from a few index entries before it on: they prove where one begins."""
    segment = storage("plain").partitions[0].segments[0]
    shown = kseg("dump", "--hex", "--position", f"{position}..{position + 100}", "--topic", "t-del", store_of("plain"))
    assert shown.status == 0
    shown_positions = [
        int(line.split()[0]) for line in shown.lines if line.startswith("  ") and line.split()[0].isdigit()
    ]
    assert any(position <= found <= position + 100 for found in shown_positions)
    assert 0 < sum(length for path, _, length in reads if path == segment.path()) <= most_chunks * 4096


def test_a_damaged_chunk_is_skipped(kseg: Kseg, tmp_path: Path) -> None:
    store = copied("both", tmp_path)
    segment = damage_chunk(store, "both", 5)
    for options in ([], ["--offsets", "0.."]):
        dumped = kseg("dump", *DEEP, *KEYS, *options, store).expect(1)
        (damage,) = dumped.of_type("damage")
        begin, end = segment.chunks.original_range(5)
        assert damage["code"] == "unreadable-bytes"
        assert damage["position"] <= begin < end <= damage["position"] + damage["length"]
        lost = {row[0] for row in consumed("both", "t-txn-0.ru") if row[0] < 422} - {
            row[0] for row in records(dumped.objects)
        }
        assert 0 < len(lost) < 40


def test_what_cannot_be_dumped_is_told(kseg: Kseg, tmp_path: Path) -> None:
    kseg("dump", "--format", "json", store_of("enc")).expect(3, "--private-key k1=PEM", out=b"")
    unfinished = kseg("dump", "--format", "json", "--topic", "t-int", store_of("plain"))
    assert "left out: there is no .indexes, .rsm-manifest" in unfinished.err
    store = copied("zstd", tmp_path)
    next(store.rglob("*.rsm-manifest")).write_text("{}")
    broken = kseg("dump", "--format", "json", store).expect(3, "its manifest cannot be used")
    assert len({row["file"] for row in broken.of_type("batch")}) == 6
    kseg("transactions", store).expect(3)
    (folder,) = store.rglob("t-roll-*")
    assert f"{folder.name}/0 " in kseg("stats", "--sort", "name", store).out.decode()
    assert "its offsets are" in kseg("dump", "--format", "json", "--offsets", "9000..", store_of("plain")).err


def test_indexes_of_kafkas_own_layout_are_used(kseg: Kseg, reads: list[tuple[str, int, int]]) -> None:
    """They lie under the very paths under which they are asked for."""
    rows = kseg("dump", *DEEP, "--offsets", "230..231", store_of("local")).objects
    assert [row["offset"] for row in rows if row["type"] == "record"] == [230, 231]
    assert len({path for path, _, _ in reads if path.endswith(".log")}) == 1


KEYS = [word for option in KEY_OPTIONS for word in ("--private-key", option)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("level", ["quick", "full", "deep"])
@pytest.mark.parametrize("variant", ["zstd", "both"])
def test_a_flipped_bit_is_found_where_it_is(kseg: Kseg, tmp_path: Path, variant: str, level: str) -> None:
    store = copied(variant, tmp_path)
    segment = damage_chunk(store, variant, 3, at=30 if variant == "both" else 0)
    log = next(store.rglob(f"*{segment.segment_id}.log"))
    (found,) = findings_of(kseg, "--level", level, *KEYS, store, code="remote-chunk-damaged")
    assert (found["file"], found["position"], found["details"]) == (str(log), segment.chunks.positions[3], {"chunk": 3})
    assert found["severity"] == "error"


def test_a_damaged_index(kseg: Kseg, tmp_path: Path) -> None:
    store = copied("zstd", tmp_path)
    segment = storage("zstd").partitions[0].segments[0]
    part = segment.manifest.parts[".index"]
    indexes = next(store.rglob(f"*{segment.segment_id}.indexes"))
    flip(indexes, part.position + 7)
    (found,) = (row for row in findings_of(kseg, store, severity="error") if row["code"].startswith("index-"))
    assert found["file"] == str(indexes).removesuffix("indexes") + "index"


@pytest.mark.parametrize(
    ("variant", "changes", "code"),
    [
        ("plain", {"originalFileSize": 60164, "finalTransformedChunkSize": 2820}, "remote-size-mismatch"),
        ("plain", {"originalFileSize": 60162}, "remote-manifest-damaged"),
        ("plain", {"transformedChunkSize": 4095}, "remote-manifest-damaged"),
        ("zstd", {"originalChunkSize": 4096}, "remote-manifest-damaged"),
    ],
)
def test_a_wrong_chunk_index(kseg: Kseg, tmp_path: Path, variant: str, changes: dict[str, int], code: str) -> None:
    store = copied(variant, tmp_path)
    path = sorted(store.rglob("*.rsm-manifest"))[0]
    content = json.loads(path.read_bytes())
    assert not set(changes) - set(content["chunkIndex"])
    content["chunkIndex"] |= changes
    path.write_text(json.dumps(content))
    before = {row["code"] for row in findings_of(kseg, store_of(variant))}
    new = [row for row in findings_of(kseg, store, severity="error") if row["code"] not in before]
    assert new[0]["code"] == code
    assert str(path).removesuffix(".rsm-manifest") in new[0]["file"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], "give its private key, --private-key k1=PEM"),
        (["--private-key", f"k1={REMOTE}/keys/k2-private.pem"], "does not open the data key"),
        (["--private-key", f"k2={REMOTE}/keys/k2-private.pem"], "--private-key k1=PEM"),
    ],
)
def test_keys_that_are_missing_or_wrong(kseg: Kseg, given: list[str], reason: str) -> None:
    judged = kseg("verify", "--format", "json", *given, store_of("enc")).expect(3, reason, "1 more segment")
    assert judged.of_type("summary")[0]["notJudged"] == 2


def test_topics_are_chosen(kseg: Kseg) -> None:
    assert findings_of(kseg, "--topic", "t-d*", store_of("plain")) == []
    assert kseg("verify", "--format", "json", "--topic", "x", store_of("plain")).of_type("summary")[0]["files"] == 0


def test_the_lineage_of_a_log_directory(kseg: Kseg, tmp_path: Path) -> None:
    store = copied("zstd", tmp_path)
    for path in store.rglob("*0452-*"):
        path.unlink()
    logs = tmp_path / "logs" / "t-roll-0"
    logs.mkdir(parents=True)
    for path in (REMOTE / "zstd" / "logs" / "t-roll-0").iterdir():
        if not path.name.startswith(f"{452:020}"):
            (logs / path.name).write_bytes(path.read_bytes())
    (logs.parent / "log-start-offset-checkpoint").write_text("0\n0\n")
    (found,) = findings_of(kseg, store, logs.parent, code="remote-local-gap")
    assert found["details"] == {"firstMissing": 452, "lastMissing": 598}
