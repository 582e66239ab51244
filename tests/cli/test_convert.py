"""``kseg convert`` from the command line: segments to segments, in place and elsewhere."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import TESTDATA, Kseg, our_record

TXN = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
LOGS = TESTDATA / "log-directories/4.3.1/logs"
DAMAGED = TESTDATA / "damaged/4.3.1-last-flip-body/dplain-0"
REGROUPED = [TESTDATA / "compaction/4.3.1/before/e-idem-0", TESTDATA / "verify/4.3.1-transactions/dtxn-0"]
V07 = TESTDATA / "kafka-0.7.2/direct/codecs-0"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A log directory with one partition."""
    return Path(shutil.copytree(LOGS, tmp_path / "logs")) / "dplain-0"


def files(directory: Path) -> dict[str, bytes]:
    found = [path for path in directory.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def dumped(kseg: Kseg, path: Path) -> list[tuple[object, ...]]:
    return [our_record(row) for row in kseg("dump", "--print-data-log", "--format", "json", path).of_type("record")]


@pytest.mark.parametrize("codec", ["zstd", "zstd:9", "lz4", "snappy", "gzip:1", "none"])
def test_another_codec_elsewhere(kseg: Kseg, tmp_path: Path, codec: str) -> None:
    done = kseg("convert", "--codec", codec, "--output", tmp_path / "new", TXN)
    assert done.status == 0
    assert [path.name for path in (tmp_path / "new").iterdir() if path.is_dir()] == [TXN.name]
    assert kseg("verify", "--level", "deep", tmp_path / "new" / TXN.name).status == 0
    assert dumped(kseg, tmp_path / "new" / TXN.name) == dumped(kseg, TXN)


def test_in_place_and_back(kseg: Kseg, partition: Path) -> None:
    before, records = files(partition.parent), dumped(kseg, partition)
    planned = kseg("convert", "--codec", "zstd", "--in-place", "--dry-run", "--format", "json", partition)
    assert (planned.status, files(partition.parent)) == (1, before)
    done = kseg("convert", "--codec", "zstd", "--in-place", "--format", "json", "--quiet", partition)
    assert done.status == 0
    logs = [(row["file"], row["newSize"]) for row in done.of_type("action") if row["file"].endswith(".log")]
    assert len(logs) == 4
    assert [(r["file"], r["newSize"]) for r in planned.of_type("action") if r["file"].endswith(".log")] == logs
    assert dumped(kseg, partition) == records
    assert kseg("verify", "--level", "deep", partition).status == 0
    again = kseg("convert", "--codec", "zstd", "--in-place", partition)
    assert (again.status, "nothing to change" in again.err) == (0, True)
    assert kseg("undo", partition).status == 0
    kept = {name: data for name, data in files(partition.parent).items() if ".kseg-quarantine" not in name}
    assert kept == before


@pytest.mark.parametrize("where", ["--in-place", "--output"])
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_without_the_space_nothing_is_begun(
    kseg: Kseg, partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, codec: str
) -> None:
    place = [where] if where == "--in-place" else [where, tmp_path / "out"]
    planned = kseg("convert", "--codec", codec, *place, "--dry-run", "--format", "json", partition)
    needed = planned.of_type("summary")[0]["peakBytes"] + (64 << 10)
    assert needed > 64 << 10
    before = files(partition)
    for module in ("kseg.conversion.planner", "kseg.changes.apply"):
        monkeypatch.setattr(f"{module}.free_bytes", lambda _place: needed - 1)
    done = kseg("convert", "--codec", codec, *place, partition)
    assert (done.status, f"{needed / (1 << 20):.1f} MiB of disk space are needed" in done.err) == (3, True)
    assert files(partition) == before
    assert not (tmp_path / "out" / partition.name).exists()
    for module in ("kseg.conversion.planner", "kseg.changes.apply"):
        monkeypatch.setattr(f"{module}.free_bytes", lambda _place: needed)
    assert kseg("convert", "--codec", codec, *place, partition).status == 0


def test_a_log_directory_in_place_and_elsewhere(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    assert kseg("convert", "--codec", "lz4", "--output", tmp_path / "new", partition.parent).status == 0
    assert kseg("verify", "--level", "deep", tmp_path / "new").status == 0
    assert (tmp_path / "new" / "meta.properties").read_bytes() == (partition.parent / "meta.properties").read_bytes()
    assert kseg("convert", "--codec", "lz4", "--in-place", partition.parent).status == 0
    made = files(tmp_path / "new" / "dplain-0")
    assert made == {name: data for name, data in files(partition).items() if ".kseg-quarantine" not in name}
    assert kseg("undo", partition.parent).status == 0


def test_what_does_not_fit_is_refused_and_nothing_written(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    refused = kseg("convert", "--to", "v1", "--output", tmp_path / "new", TXN)
    assert (refused.status, (tmp_path / "new").exists()) == (3, False)
    assert "headers" in refused.err
    assert "--lossy" in refused.err
    assert kseg("convert", "--to", "v1", "--output", tmp_path / "new", partition, TXN).status == 3
    assert kseg("convert", "--to", "v1", "--in-place", partition).status == 3
    assert kseg("convert", "--to", "v0", "--in-place", partition.parent).status == 3
    assert files(tmp_path) == before
    assert not (tmp_path / "new").exists()


def test_lossy_says_what_is_lost_and_why_offsets_are_missing(kseg: Kseg, tmp_path: Path) -> None:
    done = kseg("convert", "--to", "v1", "--lossy", "--output", tmp_path / "new", TXN)
    assert done.status == 0
    assert "lost: headers (8 records), producer ids" in done.err
    checked = kseg("verify", "--level", "deep", "--format", "json", tmp_path / "new" / TXN.name)
    assert checked.status == 0
    assert "gap-salvaged" in [row.get("code") for row in checked.objects]


def test_accepted_gaps_stay_accepted_in_converted_copies(kseg: Kseg, tmp_path: Path) -> None:
    partition = Path(shutil.copytree(DAMAGED, tmp_path / "dplain-0"))
    assert kseg("recover", "--mode", "salvage", partition).status == 0
    for number, path in enumerate((partition, max(partition.glob("*.log")))):
        new = tmp_path / f"new-{number}"
        assert kseg("convert", "--codec", "gzip", "--output", new, path).status == 0
        found = kseg("verify", "--format", "json", new / "dplain-0").of_type("finding")
        assert [row["severity"] for row in found if row["code"].startswith("gap-")] == ["info"]


def test_damage_is_refused_or_skipped_and_told(kseg: Kseg, tmp_path: Path) -> None:
    refused = kseg("convert", "--codec", "zstd", "--output", tmp_path / "new", DAMAGED)
    assert (refused.status, (tmp_path / "new").exists()) == (3, False)
    done = kseg("convert", "--codec", "zstd", "--skip-damage", "--output", tmp_path / "new", DAMAGED)
    assert done.status == 0
    assert "crc-mismatch at position 7129, 305 bytes left out" in done.err
    assert kseg("verify", "--level", "deep", tmp_path / "new" / "dplain-0").status == 0


def test_only_what_was_committed(kseg: Kseg, tmp_path: Path) -> None:
    asked = ("--to", "v1", "--lossy", "--isolation", "read_committed")
    done = kseg("convert", *asked, "--output", tmp_path / "new", TXN)
    assert "read_committed consumer does not see" in done.err
    committed = kseg("dump", "--print-data-log", "--format", "json", "--isolation", "read_committed", TXN)
    want = [our_record(row)[0] for row in committed.of_type("record") if "control" not in row]
    assert [record[0] for record in dumped(kseg, tmp_path / "new" / TXN.name)] == want


def test_sizes_of_batches_and_segments(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    sizes = ("--batch-bytes", "2K", "--segment-bytes", "32K", "--index-interval-bytes", "1000", "--jobs", "1")
    assert kseg("convert", *sizes, "--output", tmp_path / "new", partition).status == 0
    logs = sorted((tmp_path / "new" / "dplain-0").glob("*.log"))
    assert 1 < len(logs) < 4
    assert all(path.stat().st_size <= 32 << 10 for path in logs)
    assert dumped(kseg, tmp_path / "new" / "dplain-0") == dumped(kseg, partition)
    assert kseg("verify", "--level", "deep", tmp_path / "new").status == 0


def test_a_log_of_0_7(kseg: Kseg, tmp_path: Path) -> None:
    asked = ("--base-offset", "500", "--position-header", "old-offset", "--codec", "gzip")
    assert kseg("convert", *asked, "--output", tmp_path / "new", V07).status == 0
    rows = kseg("dump", "--print-data-log", "--format", "json", tmp_path / "new" / V07.name).of_type("record")
    old = kseg("dump", "--print-data-log", "--format", "json", V07).of_type("record")
    assert [row["offset"] for row in rows] == list(range(500, 500 + len(old)))
    assert [row["headers"] for row in rows] == [[{"key": "old-offset", "value": str(row["offset"])}] for row in old]
    assert [row["value"] for row in rows] == [row["value"] for row in old]


def test_one_segment_and_standard_input(kseg: Kseg, tmp_path: Path) -> None:
    log = TXN / "00000000000000000005.log"
    assert kseg("convert", "--codec", "zstd", "-o", tmp_path / "one", log).status == 0
    made = tmp_path / "one" / TXN.name
    command = [sys.executable, "-P", "-m", "kseg", "convert", "-q", "--codec", "zstd", "-o", str(tmp_path / "two"), "-"]
    subprocess.run(command, input=log.read_bytes(), check=True, env={**os.environ, "PYTHONPATH": str(TESTDATA.parent)})
    other = tmp_path / "two" / "segment-0"
    assert files(made).keys() == files(other).keys()
    assert (made / log.name).read_bytes() == (other / log.name).read_bytes()
    assert dumped(kseg, made) == dumped(kseg, log)


@pytest.mark.parametrize(
    "arguments, told",
    [
        ((), "either --output DIR or --in-place"),
        (("--in-place", "--output", "x"), "either --output DIR or --in-place"),
        (("--output", "x", "--no-quarantine"), "no --quarantine"),
        (("--output", "x", "--quarantine", "y"), "no --quarantine"),
        (("--output", "x", "--to", "v1", "--codec", "zstd"), "has no zstd"),
        (("--output", "x", "--to", "v1", "--position-header", "p"), "needs --to v2"),
        (("--output", "x", "--codec", "brotli"), "is no codec"),
        (("--output", "x", "--codec", "gzip:11"), "is no level of gzip"),
    ],
)
def test_what_contradicts_itself(kseg: Kseg, arguments: tuple[str, ...], told: str) -> None:
    done = kseg("convert", *arguments, TXN)
    assert (done.status, told in done.err) == (2, True)


def test_what_is_there_is_not_written_over(kseg: Kseg, tmp_path: Path) -> None:
    asked = ("convert", "--codec", "zstd", "--no-lock", "--color", "never", "--verbose", "--output", tmp_path / "new")
    assert kseg(*asked, TXN).status == 0
    before = files(tmp_path)
    again = kseg(*asked, TXN)
    assert (again.status, files(tmp_path)) == (3, before)
    assert "already exists" in again.err


def test_a_batch_that_is_too_large_to_open(kseg: Kseg, tmp_path: Path) -> None:
    source = TESTDATA / "kafka-4.3.1/clients/librdkafka-lz4-0"
    done = kseg("convert", "--codec", "zstd", "--max-batch-bytes", "100", "--output", tmp_path / "new", source)
    assert (done.status, "decompression-limit" in done.err) == (3, True)


@pytest.mark.parametrize("options", [(), ("-n",)])
def test_two_inputs_that_would_make_the_same_output_are_refused(
    kseg: Kseg, tmp_path: Path, options: tuple[str, ...]
) -> None:
    first, second = (shutil.copy(next(TXN.glob("*.log")), tmp_path / name) for name in ("a.log", "b.log"))
    done = kseg("convert", "--to", "v2", "--output", tmp_path / "new", *options, first, second)
    assert (done.status, (tmp_path / "new").exists()) == (3, False)
    assert f"{first} and {second} would both become {tmp_path}/new/segment-0" in done.err


@pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
def test_what_a_broker_has_moved_is_converted_where_it_is_named(
    kseg: Kseg, tmp_path: Path, partition: Path, suffix: str
) -> None:
    moved = Path(shutil.copytree(partition, f"{partition}.{'0' * 32}-{suffix}"))
    done = kseg("convert", "--codec", "zstd", "--output", tmp_path / "all", partition.parent)
    assert f"{moved}: left alone: a broker has moved or deleted it" in done.err
    assert not list((tmp_path / "all").glob(f"*-{suffix}"))
    for path in (moved, next(moved.glob("*.log"))):
        assert kseg("convert", "--codec", "zstd", "--output", tmp_path / path.name, path).status == 0
        assert [found.name for found in (tmp_path / path.name).iterdir() if found.is_dir()] == [partition.name]
    assert kseg("recover", "--output", tmp_path / "recovered", moved).status == 0
    assert (tmp_path / "recovered" / partition.name).is_dir()


@pytest.mark.parametrize("batch_bytes", ["300", "64K"])
@pytest.mark.parametrize("source", REGROUPED, ids=lambda path: path.name)
def test_snapshots_are_those_of_the_new_batches(kseg: Kseg, tmp_path: Path, source: Path, batch_bytes: str) -> None:
    partition = Path(shutil.copytree(source, tmp_path / source.name))
    sizes = ("--to", "v2", "--batch-bytes", batch_bytes)
    assert kseg("convert", *sizes, "--output", tmp_path / "new", partition).status == 0
    assert kseg("convert", *sizes, "--in-place", partition).status == 0
    found = {path.name: path.read_bytes() for path in partition.glob("*.snapshot")}
    for made in (partition, tmp_path / "new" / source.name):
        assert {path.name: path.read_bytes() for path in made.glob("*.snapshot")} == found
        codes = [row["code"] for row in kseg("verify", "--format", "json", made).of_type("finding")]
        assert [code for code in codes if "snapshot" in code] == []
    before = {path.name: path.read_bytes() for path in source.glob("*.snapshot")}
    assert any(found[name] != content for name, content in before.items() if name in found)
    assert kseg("undo", partition).status == 0
    assert {path.name: path.read_bytes() for path in partition.glob("*.snapshot")} == before
