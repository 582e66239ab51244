"""``kseg convert --offsets`` and ``--time``: exactly the records of the range, whatever batches they are in."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.command import PLAIN, Kseg
from conversion.conversions import TESTDATA, batches_of, records_of
from kseg.formats.suffixes import LOG
from kseg.sidefiles.checkpoints import LOG_STARTS, build_offset_checkpoint, offsets_of, read_offset_checkpoint

SOURCES = [
    PLAIN, TESTDATA / "kafka-4.3.1/codecs/codec-mix-0", TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0",
    TESTDATA / "kafka-0.8.2.2/codecs/one-gzip-0", TESTDATA / "kafka-0.10.2.2/codecs/rec-gzip-0",
    TESTDATA / "kafka-0.10.2.2/codecs/rec-uncompressed-0", TESTDATA / "kafka-1.1.1/format-switch/sw-lz4-0",
    TESTDATA / "kafka-0.11.0.3/txn/lat-gzip-0", TESTDATA / "compaction/4.3.1/after/e-lz4-0",
]  # fmt: skip


def time_of(record: tuple[Any, ...]) -> int | None:
    return None if record[1] is None else int(record[1][0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_a_range_of_offsets(kseg: Kseg, tmp_path: Path, source: Path) -> None:
    whole, draw = records_of(source), random.Random(source.name)
    offsets = [record[0] for record in whole]
    for n in range(6):
        first, last = sorted(draw.choices(range(offsets[0], offsets[-1] + 1), k=2))
        options = [[], ["--codec", "zstd"], ["--batch-bytes", "2000"], ["--segment-bytes", "5000"]][n % 4]
        if "zstd" in options and any(batch.magic < 2 for batch in batches_of(source)):
            options = ["--to", "v2", *options]
        out = tmp_path / str(n)
        kseg("convert", "--offsets", f"{first}..{last}", *options, "--output", out, source).expect(0)
        wanted = [record for record in whole if first <= record[0] <= last]
        if not wanted:
            assert not out.exists() or not any(map(records_of, out.iterdir()))
            continue
        made = out / source.name
        assert records_of(made) == wanted
        starts = [batch.base_offset for batch in batches_of(made) if batch.base_offset is not None]
        assert all(start >= first for start in starts)
        assert all(batch.last_offset <= last for batch in batches_of(made))
        kseg("verify", "--level", "deep", made).expect(0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_a_range_of_times(kseg: Kseg, tmp_path: Path, source: Path) -> None:
    whole, draw = records_of(source), random.Random(source.name)
    times = sorted({time for record in whole if (time := time_of(record)) is not None})
    if not times:
        kseg("convert", "--time", "0..", "-o", tmp_path / "out", source).expect(0, "no record is in the range")
        assert not (tmp_path / "out").exists()
        return
    for n in range(4):
        low, high = sorted(draw.choices(times, k=2))
        out = tmp_path / str(n)
        kseg("convert", "--time", f"{low}..{high}", "--output", out, source).expect(0)
        assert records_of(out / source.name) == [record for record in whole if low <= (time_of(record) or -1) <= high]
        kseg("verify", "--level", "deep", out / source.name).expect(0)


def test_batches_of_the_range_stay_as_they_are(kseg: Kseg, tmp_path: Path) -> None:
    """Only those at its ends are built anew; sequences and producers stay, so that snapshots fit."""
    kseg("convert", "--offsets", "41..130", "--output", tmp_path / "out", PLAIN).expect(0)
    made = tmp_path / "out/dplain-0"
    assert [path.name for path in sorted(made.glob("*.log"))] == [f"{base:020d}.log" for base in (41, 46, 76, 116)]
    for name in ("46", "76"):
        file = f"{int(name):020d}.log"
        assert (made / file).read_bytes() == (PLAIN / file).read_bytes()
    before = {batch.last_offset: batch for batch in batches_of(PLAIN)}
    first = batches_of(made)[0]
    old: Any = before[min(offset for offset in before if offset >= 41)]
    assert first.header.base_sequence == old.header.base_sequence + 41 - old.base_offset
    assert first.header.producer_id == old.header.producer_id


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_an_export_of_a_range(kseg: Kseg, tmp_path: Path, form: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    whole, out = records_of(PLAIN), tmp_path / f"out.{form}"
    for options in (["--offsets", "41..130"], ["--time", f"{time_of(whole[50])}..{time_of(whole[99])}"]):
        kseg("convert", "--to", form, *options, "-o", out, PLAIN).expect(0)
        if form == "jsonl":
            found = [row["offset"] for row in kseg("convert", "--to", form, *options, PLAIN).objects if "offset" in row]
            built = tmp_path / options[0].strip("-")
            kseg("convert", "--from", form, "-o", built, out).expect(0)
            checked = kseg("verify", "--level", "deep", "--format", "json", built)
            assert "max-timestamp-mismatch" not in {each["code"] for each in checked.of_type("finding")}
        elif form == "csv":
            import csv

            with out.open(newline="") as lines:
                found = [int(row["offset"]) for row in csv.DictReader(lines)]
        elif form == "parquet":
            found = pyarrow.parquet.read_table(out).column("offset").to_pylist()
        else:
            found = pyarrow.ipc.open_file(out).read_all().column("offset").to_pylist()
        if options[0] == "--offsets":
            assert found == list(range(41, 131))
        else:
            low, high = (int(end) for end in options[1].split(".."))
            assert found == [record[0] for record in whole if low <= (time_of(record) or -1) <= high]


def test_a_log_directory_keeps_the_log_starts_that_fit(kseg: Kseg, tmp_path: Path) -> None:
    logs = Path(shutil.copytree(PLAIN.parent, tmp_path / "logs"))
    for name in ("b-0", "c-0"):
        shutil.copytree(PLAIN, logs / name)
    starts = {("dplain", 0): 50, ("b", 0): 10, ("c", 0): 149}
    (logs / LOG_STARTS).write_bytes(build_offset_checkpoint(starts))
    for path in (logs / "c-0").glob("*"):
        if path.suffix == LOG and path.name < f"{116:020d}":
            path.unlink()
    kseg("convert", "--offsets", "41..80", "--output", tmp_path / "out", logs).expect(
        0, f"{logs / 'c-0'}: no record is in the range: left out"
    )
    assert sorted(path.name for path in (tmp_path / "out").iterdir() if path.is_dir()) == ["b-0", "dplain-0"]
    found = offsets_of(read_offset_checkpoint((tmp_path / "out" / LOG_STARTS).read_bytes()))
    assert found == {("dplain", 0): 50}
    kseg("verify", tmp_path / "out", "--ignore", "topic-id-mismatch").expect(0)  # of the two copies


def test_a_transaction_that_ends_behind_the_range_is_told(kseg: Kseg, tmp_path: Path) -> None:
    source = TESTDATA / "kafka-4.3.1/clients/librdkafka-txn-0"
    first = next(batch for batch in batches_of(source) if batch.is_transactional and not batch.is_control)
    options = "--offsets", f"..{first.last_offset}", "--output"
    kseg("convert", *options, tmp_path / "out", source).expect(0, "1 transactions have no end marker in the range")
    kseg("convert", "--offsets", "0..", "--output", tmp_path / "all", source).expect(0)
    assert "end marker" not in kseg("convert", "--offsets", "0..", "--output", tmp_path / "all2", source).err


def test_ranges_are_not_for_what_replaces(kseg: Kseg, tmp_path: Path) -> None:
    for options in (["--in-place"], ["--from", "jsonl", "-o", tmp_path / "x"]):
        kseg("convert", "--offsets", "1..2", *options, PLAIN).expect(2)
    old = next(TESTDATA.glob("kafka-0.7*/**/*.kafka")).parent
    kseg("convert", "--offsets", "1..2", "-o", tmp_path / "x", old).expect(3, "0.7")
    assert not (tmp_path / "x").exists()
