"""``kseg verify`` of remote storage: real stores, damaged ones, and keys."""

import json
from pathlib import Path

import pytest

from cli.command import Kseg
from stores.remote.stores import KEY_OPTIONS, REMOTE, copied, damage_chunk, storage, store_of

KEYS = [word for option in KEY_OPTIONS for word in ("--private-key", option)]


@pytest.mark.parametrize(
    ("variant", "codes"),
    [
        ("plain", ["remote-copy-unfinished"]),
        ("zstd", ["remote-lineage-conflict"] * 3),
        ("both", []),
        ("local", []),
    ],
)
def test_stores_as_brokers_left_them(kseg: Kseg, variant: str, codes: list[str]) -> None:
    judged = kseg("verify", "--level", "deep", "--format", "json", *KEYS, store_of(variant))
    assert [row["code"] for row in judged.of_type("finding")] == codes
    (summary,) = judged.of_type("summary")
    whole = [s for partition in storage(variant).partitions for s in partition.segments if not s.missing]
    assert summary["batches"] >= len(whole)
    assert summary["bytes"] > sum(segment.size for segment in whole)
    assert (judged.status, summary["notJudged"], summary["next"]) == (0, 0, [])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", ["quick", "full", "deep"])
@pytest.mark.parametrize("variant", ["zstd", "both"])
def test_a_flipped_bit_is_found_where_it_is(kseg: Kseg, tmp_path: Path, variant: str, level: str) -> None:
    store = copied(variant, tmp_path)
    segment = damage_chunk(store, variant, 3, at=30 if variant == "both" else 0)
    log = next(store.rglob(f"*{segment.segment_id}.log"))
    judged = kseg("verify", "--level", level, "--format", "json", *KEYS, store)
    (found,) = [row for row in judged.of_type("finding") if row["code"] == "remote-chunk-damaged"]
    assert (found["file"], found["position"], found["details"]) == (str(log), segment.chunks.positions[3], {"chunk": 3})
    assert judged.status == 1


def test_a_damaged_index(kseg: Kseg, tmp_path: Path) -> None:
    store = copied("zstd", tmp_path)
    segment = storage("zstd").partitions[0].segments[0]
    part = segment.manifest.parts[".index"]
    indexes = next(store.rglob(f"*{segment.segment_id}.indexes"))
    data = bytearray(indexes.read_bytes())
    data[part.position + 7] ^= 1
    indexes.write_bytes(data)
    judged = kseg("verify", "--format", "json", store)
    (found,) = [row for row in judged.of_type("finding") if row["code"].startswith("index-")]
    assert found["file"] == str(indexes).removesuffix("indexes") + "index"
    assert judged.status == 1


@pytest.mark.parametrize(
    ("variant", "changes", "code"),
    [
        ("plain", {"originalFileSize": 60164, "finalTransformedChunkSize": 2820}, "remote-size-mismatch"),
        ("plain", {"originalFileSize": 60162}, "remote-manifest-damaged"),
        ("plain", {"transformedChunkSize": 4095}, "remote-manifest-damaged"),
        ("zstd", {"originalChunkSize": 4096}, "remote-manifest-damaged"),
    ],
)
def test_a_chunk_index_that_disagrees(
    kseg: Kseg, tmp_path: Path, variant: str, changes: dict[str, int], code: str
) -> None:
    store = copied(variant, tmp_path)
    path = sorted(store.rglob("*.rsm-manifest"))[0]
    content = json.loads(path.read_bytes())
    assert not set(changes) - set(content["chunkIndex"])
    content["chunkIndex"] |= changes
    path.write_text(json.dumps(content))
    before = {row["code"] for row in kseg("verify", "--format", "json", store_of(variant)).of_type("finding")}
    judged = kseg("verify", "--format", "json", store)
    new = [row for row in judged.of_type("finding") if row["code"] not in before and row["severity"] == "error"]
    assert new[0]["code"] == code
    assert str(path).removesuffix(".rsm-manifest") in new[0]["file"]
    assert judged.status == 1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], "give its private key, --private-key k1=PEM"),
        (["--private-key", f"k1={REMOTE}/keys/k2-private.pem"], "does not open the data key"),
        (["--private-key", f"k2={REMOTE}/keys/k2-private.pem"], "--private-key k1=PEM"),
    ],
)
def test_keys_that_are_missing_or_wrong(kseg: Kseg, given: list[str], reason: str) -> None:
    judged = kseg("verify", "--format", "json", *given, store_of("enc"))
    assert judged.status == 3
    assert reason in judged.err
    assert "1 more segment" in judged.err
    assert judged.of_type("summary")[0]["notJudged"] == 2


def test_topics_are_chosen(kseg: Kseg) -> None:
    judged = kseg("verify", "--format", "json", "--topic", "t-d*", store_of("plain"))
    assert judged.of_type("finding") == []
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
    judged = kseg("verify", "--format", "json", store, logs.parent)
    (found,) = [row for row in judged.of_type("finding") if row["code"] == "remote-local-gap"]
    assert found["details"] == {"firstMissing": 452, "lastMissing": 598}
