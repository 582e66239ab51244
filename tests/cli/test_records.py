"""``kseg recover --records``: what is read out of broken batches, beside what dump reads out of them when intact."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.command import TESTDATA, Kseg
from kernel.rendering import batch, record
from kseg.limits import LARGEST_BUFFER_BYTES

PLAIN = TESTDATA / "log-directories/4.3.1/logs/dplain-0"
BATCHES = {
    "v2": (PLAIN, "00000000000000000046.log", 2),
    "v2 gzip": (TESTDATA / "kafka-4.3.1/clients/librdkafka-gzip-0", "00000000000000000000.log", 0),
    "v1": (TESTDATA / "kafka-0.10.2.2/codecs/rec-uncompressed-0", "00000000000000000000.log", 4),
    "v1 gzip": (TESTDATA / "kafka-0.10.2.2/codecs/rec-gzip-0", "00000000000000000000.log", 1),
    "v0": (TESTDATA / "kafka-0.8.2.2/codecs/one-none-0", "00000000000000000000.log", 4),
    "v0 gzip": (TESTDATA / "kafka-0.8.2.2/codecs/one-gzip-0", "00000000000000000000.log", 1),
}


def spans(data: bytes) -> list[tuple[int, int]]:
    """Where each batch begins and ends."""
    found, at = [], 0
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        found.append((at, end))
        at = end
    return found


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def known_records(kseg: Kseg, path: Path, position: int) -> list[dict[str, Any]]:
    rows = lines(kseg("dump", "--format", "json", "--print-data-log", path).out)
    return [row for row in rows if row["type"] == "record" and row["position"] == position]


def damage(path: Path, position: int, bits: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= bits
    path.write_bytes(data)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PLAIN, tmp_path / "logs" / "dplain-0"))


@pytest.mark.parametrize("name", BATCHES)
def test_records_of_a_batch_whose_checksum_was_damaged(kseg: Kseg, tmp_path: Path, name: str) -> None:
    source, file, number = BATCHES[name]
    directory = Path(shutil.copytree(source, tmp_path / "logs" / source.name))
    path, target = directory / file, tmp_path / "records.jsonl"
    start, _ = spans(path.read_bytes())[number]
    known = known_records(kseg, path, start)
    damage(path, start + (18 if path.read_bytes()[start + 16] == 2 else 13))
    done = kseg("recover", "--records", target, directory)
    assert done.status == 0
    assert f"{len(known)} records of broken batches were written" in done.err
    found = lines(target.read_bytes())
    assert len(found) == len(known) > 0
    assert [{**row, "proven": False} for row in known] == found


def test_records_up_to_the_byte_that_ends_them(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    """The length of a record that is too large: what is before it decodes."""
    path = partition / "00000000000000000000.log"
    start = next(start for start, _ in spans(path.read_bytes()) if len(known_records(kseg, path, start)) > 3)
    known = known_records(kseg, path, start)
    data, at = path.read_bytes(), start + 61
    for _ in range(2):  # the lengths of these records take one or two bytes
        size, width = (data[at] & 127, 1) if data[at] < 128 else (data[at] & 127 | data[at + 1] << 7, 2)
        at += width + (size >> 1)
    damage(path, at, 0x80)
    target = tmp_path / "records.jsonl"
    assert kseg("recover", "--records", target, partition).status == 0
    found = lines(target.read_bytes())
    assert [{**row, "proven": False} for row in known[:2]] == found[:2]
    assert len(found) < len(known)


def test_a_record_that_is_larger_than_the_largest_kept_buffer(kseg: Kseg, tmp_path: Path) -> None:
    directory, target = tmp_path / "logs" / "a-0", tmp_path / "records.jsonl"
    directory.mkdir(parents=True)
    path, value = directory / f"{0:020d}.log", b"x" * (LARGEST_BUFFER_BYTES + 1)
    path.write_bytes(batch([record(0, key=b"k", value=value)]))
    damage(path, 18)
    assert kseg("recover", "--mode", "salvage", "--records", target, directory).status == 0
    (found,) = lines(target.read_bytes())
    assert found["value"] == value.decode()
    assert found["proven"] is False


def test_a_batch_that_is_cut_short(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    path = partition / "00000000000000000116.log"
    start, end = spans(path.read_bytes())[-1]
    known = known_records(kseg, path, start)
    path.write_bytes(path.read_bytes()[: end - 3])
    target = tmp_path / "records.jsonl"
    assert kseg("recover", "--mode", "salvage", "--records", target, partition).status == 0
    assert [{**row, "proven": False} for row in known[:-1]] == lines(target.read_bytes())


@pytest.mark.parametrize("name", ["x.log", f"{46:020d}.log.swap", "0.log.bak", "tmp", f"{46:020d}.index"])
def test_files_under_other_names(kseg: Kseg, partition: Path, tmp_path: Path, name: str) -> None:
    path, target = partition / f"{46:020d}.log", tmp_path / "records.jsonl"
    start = spans(path.read_bytes())[2][0]
    known = known_records(kseg, path, start)
    damage(path, start + 18)
    other = path.rename(partition / name)
    assert kseg("recover", "--records", target, partition).status == 0
    found = lines(target.read_bytes())
    assert [{**row, "file": str(other), "proven": False} for row in known] == found


def test_what_is_mended_is_not_dug_for(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    path, target = partition / "00000000000000000046.log", tmp_path / "records.jsonl"
    whole = path.read_bytes()
    damage(path, spans(whole)[2][0] + 16)
    assert kseg("recover", "--records", target, partition).status == 0
    assert path.read_bytes() == whole
    assert target.read_bytes() == b""


def test_a_dry_run_writes_nothing(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    path, target = partition / "00000000000000000046.log", tmp_path / "records.jsonl"
    damage(path, spans(path.read_bytes())[2][0] + 18)
    done = kseg("recover", "--dry-run", "--records", target, partition)
    assert done.status == 1
    assert "records of broken batches would be written" in done.err
    assert not target.exists()


def test_all_partitions_of_a_log_directory(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    root, target = partition.parent, tmp_path / "records.jsonl"
    shutil.copy(PLAIN.parent / "meta.properties", root)
    shutil.copytree(partition, root / "orders-7")
    for directory in (partition, root / "orders-7"):
        path = directory / "00000000000000000046.log"
        damage(path, spans(path.read_bytes())[2][0] + 18)
    assert kseg("recover", "--records", target, root).status == 0
    found = lines(target.read_bytes())
    assert {(row["topic"], row["partition"]) for row in found} == {("dplain", 0), ("orders", 7)}


def test_where_recovery_is_refused_no_file_appears(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    (partition / "00000000000000000999.log").symlink_to("elsewhere")
    target = tmp_path / "records.jsonl"
    target.write_bytes(b"from before")
    assert kseg("recover", "--records", target, partition).status == 3
    assert target.read_bytes() == b"from before"


def test_where_the_file_cannot_be_written_nothing_changes(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    path = partition / "00000000000000000046.log"
    damage(path, spans(path.read_bytes())[2][0] + 18)
    before = path.read_bytes()
    assert kseg("recover", "--records", tmp_path / "missing" / "records.jsonl", partition).status == 3
    assert path.read_bytes() == before


def test_options(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "records.jsonl")
    for arguments in (
        ["--records", "-", partition],
        ["--records", target, partition, partition],
        ["--records", partition / "records.jsonl", partition],
        ["--records", target, "--mode", "broker", partition],
    ):
        assert kseg("recover", *arguments).status == 2
    assert sorted(path.name for path in partition.iterdir()) == sorted(path.name for path in PLAIN.iterdir())
