"""``kseg recover --records``: what is read out of broken batches, beside what dump reads out of them when intact."""

import gzip
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command import PLAIN, TESTDATA, Kseg, copying, flip
from formats.streams import GZIP, LZ4, SNAPPY, ZSTD, lz4_frame, xerial, zstd_frame
from kernel.rendering import batch, message, record
from kseg.limits import LARGEST_BUFFER_BYTES
from segment.segments import spans

# Records before the fault of a broken batch, in ``kseg dump`` and ``kseg recover --records``.

COUNT = 100
VALUES = [random.Random(i).randbytes(400).hex().encode() for i in range(COUNT)]
RECORDS = [record(i, key=b"k%d" % i, value=value) for i, value in enumerate(VALUES)]
AREA = b"".join(RECORDS)
BEFORE = batch([record(0, key=b"k", value=b"before")])


def small_lz4(data: bytes) -> bytes:
    return lz4_frame(data, block_size=4)


def chunks(data: bytes) -> bytes:
    return xerial(*(data[i : i + 4096] for i in range(0, len(data), 4096)))


def plain(data: bytes) -> bytes:
    return data


CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (GZIP, gzip.compress),
    "snappy": (SNAPPY, chunks),
    "lz4": (LZ4, small_lz4),
    "zstd": (ZSTD, lambda data: zstd_frame(data, write_checksum=True)),
    "none": (0, plain),
}
STREAMS = {
    "gzip without a trailer": (GZIP, gzip.compress(AREA)[:-8], COUNT),
    "lz4 without its end mark": (LZ4, small_lz4(AREA)[:-4], COUNT),
    "snappy, last block cut": (SNAPPY, chunks(AREA)[:-600], 95),
    "zstd, wrong checksum": (ZSTD, zstd_frame(AREA, write_checksum=True)[:-1] + b"?", COUNT),
}


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "logs" / "a-0" / f"{0:020d}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path.parent


def v2(stream: bytes, codec: int, base_offset: int = 0) -> bytes:
    return batch([stream], base_offset, codec, last_delta=COUNT - 1, count=COUNT)


def rows_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def recovered(kseg: Kseg, directory: Path, *options: str) -> list[dict[str, Any]]:
    target = directory.parents[1] / "records.jsonl"
    assert kseg("recover", "--mode", "salvage", "--records", target, *options, directory).status in (0, 1)
    return rows_in(target)


def assert_first_records(found: list[dict[str, Any]], least: int, first: int = 0) -> None:
    assert least <= len(found) <= COUNT
    assert all(row["proven"] is False for row in found)
    assert [row["offset"] for row in found] == list(range(first, first + len(found)))
    assert [row["value"].encode() for row in found] == VALUES[: len(found)]


@pytest.mark.parametrize("options", [(), ("--drop-undecodable",)])
@pytest.mark.parametrize("name", STREAMS)
def test_a_broken_stream_under_a_right_checksum(kseg: Kseg, tmp_path: Path, name: str, options: tuple[str]) -> None:
    codec, stream, least = STREAMS[name]
    directory = write(tmp_path, v2(stream, codec))
    dumped = kseg("dump", "--print-data-log", "--format", "json", directory).expect(1)
    assert_first_records(dumped.of_type("record"), least)
    assert_first_records(recovered(kseg, directory, *options), least)


@pytest.mark.parametrize("codec", CODECS)
def test_a_torn_last_batch(kseg: Kseg, tmp_path: Path, codec: str) -> None:
    number, pack = CODECS[codec]
    torn = v2(pack(AREA), number, 1)
    directory = write(tmp_path, BEFORE + torn[: len(torn) * 6 // 10])
    least = 0 if codec == "zstd" else COUNT // 2
    rows = kseg("dump", "--deep-iteration", "--format", "json", directory).objects
    assert [row["type"] for row in rows[:3]] == ["batch", "record", "damage"]
    assert {row["position"] for row in rows[2:]} == {len(BEFORE)}
    assert len(rows[3:]) >= least
    text = kseg("dump", "--print-data-log", directory)
    assert text.out.splitlines()[-1].startswith(b"Found ")
    assert f"position {len(BEFORE)}: --format json prints the readable records" in text.err
    assert_first_records(recovered(kseg, directory), least, 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_bit(kseg: Kseg, tmp_path: Path, codec: str) -> None:
    number, pack = CODECS[codec]
    broken = bytearray(v2(pack(AREA), number))
    broken[61 + (len(broken) - 61) * 3 // 4] ^= 16
    found = recovered(kseg, write(tmp_path, bytes(broken) + batch([record(0, value=b"after")], COUNT)))
    whole = [row for row in found if row["value"].encode() == VALUES[row["offset"]]]
    assert len(whole) >= (0 if codec == "zstd" else COUNT * 7 // 10)


def test_a_batch_with_a_wrong_length(kseg: Kseg, tmp_path: Path) -> None:
    broken = bytearray(v2(AREA, 0))
    broken[10] ^= 1
    directory = write(tmp_path, bytes(broken) + batch([record(0, value=b"after")], COUNT))
    shown = kseg("dump", "--print-data-log", "--offsets", "0..9", directory).out.decode()
    assert [*map(int, re.findall(r"(?m)^\| proven: false \| offset: (\d+) .* payload: ", shown))] == [*range(10)]


def test_text_has_the_records_before_the_line_of_damage(kseg: Kseg, tmp_path: Path) -> None:
    directory = write(tmp_path, v2(STREAMS["gzip without a trailer"][1], GZIP))
    shown = kseg("dump", "--print-data-log", directory).out.decode().splitlines()
    assert [line[:9] for line in shown[3:-1]] == ["| offset:"] * COUNT
    assert shown[-1].startswith("| damage: undecodable-records position: 0 ")


def test_bytes_behind_a_fault_that_look_like_records_are_no_records(kseg: Kseg, tmp_path: Path) -> None:
    area = b"".join([*RECORDS[:3], record(2, value=b"again"), *RECORDS[3:]])
    assert_first_records(recovered(kseg, write(tmp_path, v2(gzip.compress(area)[:-8], GZIP))), 3)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("missing", [8, 6000])
def test_message_sets(kseg: Kseg, tmp_path: Path, magic: int, missing: int) -> None:
    """Offsets of v0 are in the messages; those of v1 continue the batch before if the last message is missing."""
    first = message(0, magic, b"k", b"before")
    inner = b"".join(message(i if magic else i + 1, magic, b"k%d" % i, value) for i, value in enumerate(VALUES))
    wrapper = message(COUNT, magic, None, gzip.compress(inner)[:-missing], attributes=GZIP)
    directory = write(tmp_path, first + wrapper)
    dumped = kseg("dump", "--print-data-log", "--format", "json", directory).of_type("record")[1:]
    least = COUNT if missing == 8 else 80
    assert_first_records(dumped, least, 1)
    assert_first_records(recovered(kseg, directory, "--drop-undecodable"), least, 1)
    torn = first + wrapper[: len(wrapper) * 8 // 10]
    (directory / f"{0:020d}.log").write_bytes(torn)
    assert_first_records(recovered(kseg, directory), COUNT // 2, 1)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_set_compressed_twice_is_read_and_converted(kseg: Kseg, tmp_path: Path, magic: int) -> None:
    inner = b"".join(message(i, magic, b"k%d" % i, b"v") for i in range(1, 4))
    once = message(3, magic, None, gzip.compress(inner), attributes=GZIP)
    set_of_both = message(0, magic, b"k0", b"v") + once
    directory = write(tmp_path, message(3, magic, None, gzip.compress(set_of_both), attributes=GZIP))
    text = kseg("dump", "--deep-iteration", directory)
    damage = f"| damage: compressed-twice position: 0 length: {(directory / f'{0:020d}.log').stat().st_size}".encode()
    shown = [line if line == damage else line[:11] for line in text.out.splitlines()[3:]]
    assert shown == [
        b"| offset: 0", damage, b"| offset: 1", b"| offset: 2", b"| offset: 3",
    ]  # fmt: skip
    dumped = kseg("dump", "--print-data-log", "--format", "json", directory)
    assert (text.status, dumped.status) == (1, 1)
    assert [row["offset"] for row in dumped.of_type("record") if "proven" not in row] == [0, 1, 2, 3]
    (command,) = kseg("verify", "--level", "deep", "--format", "json", directory).objects[-1]["next"]
    assert kseg(*command[1:]).status == 0
    assert kseg("verify", "--level", "deep", directory).status == 0
    converted = kseg("dump", "--print-data-log", "--format", "json", directory).of_type("record")
    assert [(row["offset"], row["key"]) for row in converted] == [(i, f"k{i}") for i in range(4)]


REFUSED_FRAMES: dict[str, Callable[[bytes], bytes]] = {
    "linked blocks": lambda data: lz4_frame(data, block_linked=True, block_size=4),
    "header checksum": lambda data: small_lz4(data)[:6] + b"\x1a" + small_lz4(data)[7:],
}


@pytest.mark.parametrize("name", REFUSED_FRAMES)
@pytest.mark.parametrize("magic", [1, 2])
def test_an_lz4_frame_that_kafka_refuses_is_packed_anew(kseg: Kseg, tmp_path: Path, magic: int, name: str) -> None:
    area = AREA if magic == 2 else b"".join(message(i, 1, b"k", value) for i, value in enumerate(VALUES))
    stream = REFUSED_FRAMES[name](area)
    refused, gzipped = v2(stream, LZ4), v2(gzip.compress(area), GZIP, COUNT)
    if magic == 1:
        refused = message(COUNT - 1, 1, None, stream, attributes=LZ4)
        gzipped = message(2 * COUNT - 1, 1, None, gzip.compress(area), attributes=GZIP)
    directory = write(tmp_path, refused + gzipped)
    dumped = kseg("dump", "--print-data-log", directory).expect(1)
    assert f"damage: refused-compression position: 0 length: {len(refused)}".encode() in dumped.out
    rows = kseg("dump", "--print-data-log", "--format", "json", directory).expect(1).of_type("record")
    assert (len(rows), {"proven" in row for row in rows}) == (2 * COUNT, {False})
    kseg("recover", "--mode", "salvage", "--drop-undecodable", directory).expect(0)
    (command,) = kseg("verify", "--level", "deep", "--format", "json", directory).objects[-1]["next"]
    kseg(*command[1:]).expect(0)
    kseg("verify", "--level", "deep", directory).expect(0)
    packed = kseg("dump", "--print-data-log", "--format", "json", directory).of_type("record")
    assert [row | {"position": 0} for row in packed] == [row | {"position": 0} for row in rows]
    log = (directory / f"{0:020d}.log").read_bytes()
    assert log.endswith(gzipped), "the codecs of other batches stay"
    assert log[16 + (1 if magic == 1 else 6)] & 7 == LZ4


@pytest.mark.parametrize("level", ["quick", "full", "deep"])
def test_totals_do_not_repeat_the_claim_of_a_header(kseg: Kseg, tmp_path: Path, level: str) -> None:
    most = (1 << 31) - 1
    lie = batch([], count=most, last_delta=most - 1)
    directory = write(tmp_path, lie + batch([RECORDS[0], b"\x40cut"], most, count=1000, last_delta=999))
    totals = kseg("verify", "--level", level, "--format", "json", directory).objects[-1]
    fits = (len(RECORDS[0]) + 4) // 7
    assert totals["records"] == (1 if level == "deep" else fits)
    assert json.loads(kseg("stats", "--format", "json", directory).out)["records"] == 1


BATCHES = {
    "v2": (PLAIN, "00000000000000000046.log", 2),
    "v2 gzip": (TESTDATA / "kafka-4.3.1/clients/librdkafka-gzip-0", "00000000000000000000.log", 0),
    "v1": (TESTDATA / "kafka-0.10.2.2/codecs/rec-uncompressed-0", "00000000000000000000.log", 4),
    "v1 gzip": (TESTDATA / "kafka-0.10.2.2/codecs/rec-gzip-0", "00000000000000000000.log", 1),
    "v0": (TESTDATA / "kafka-0.8.2.2/codecs/one-none-0", "00000000000000000000.log", 4),
    "v0 gzip": (TESTDATA / "kafka-0.8.2.2/codecs/one-gzip-0", "00000000000000000000.log", 1),
}


def known_records(kseg: Kseg, path: Path, position: int) -> list[dict[str, Any]]:
    rows = kseg("dump", "--format", "json", "--print-data-log", path).of_type("record")
    return [row for row in rows if row["position"] == position]


partition = copying(PLAIN, "logs/dplain-0")


@pytest.mark.parametrize("name", BATCHES)
def test_records_of_a_batch_whose_checksum_was_damaged(kseg: Kseg, tmp_path: Path, name: str) -> None:
    source, file, number = BATCHES[name]
    directory = Path(shutil.copytree(source, tmp_path / "logs" / source.name))
    path, target = directory / file, tmp_path / "records.jsonl"
    start, _ = spans(path.read_bytes())[number]
    known = known_records(kseg, path, start)
    flip(path, start + (18 if path.read_bytes()[start + 16] == 2 else 13))
    kseg("recover", "--records", target, directory).expect(0, f"{len(known)} records of broken batches were written")
    found = rows_in(target)
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
    flip(path, at, 0x80)
    target = tmp_path / "records.jsonl"
    assert kseg("recover", "--records", target, partition).status == 0
    found = rows_in(target)
    assert [{**row, "proven": False} for row in known[:2]] == found[:2]
    assert len(found) < len(known)


def test_a_record_that_is_larger_than_the_largest_kept_buffer(kseg: Kseg, tmp_path: Path) -> None:
    directory, target = tmp_path / "logs" / "a-0", tmp_path / "records.jsonl"
    directory.mkdir(parents=True)
    path, value = directory / f"{0:020d}.log", b"x" * (LARGEST_BUFFER_BYTES + 1)
    path.write_bytes(batch([record(0, key=b"k", value=value)]))
    flip(path, 18)
    assert kseg("recover", "--mode", "salvage", "--records", target, directory).status == 0
    (found,) = rows_in(target)
    assert found["value"] == value.decode()
    assert found["proven"] is False


@pytest.mark.parametrize("name", ["x.log", f"{46:020d}.log.swap", "0.log.bak", "tmp", f"{46:020d}.index"])
def test_files_under_other_names(kseg: Kseg, partition: Path, tmp_path: Path, name: str) -> None:
    path, target = partition / f"{46:020d}.log", tmp_path / "records.jsonl"
    start = spans(path.read_bytes())[2][0]
    known = known_records(kseg, path, start)
    flip(path, start + 18)
    other = path.rename(partition / name)
    assert kseg("recover", "--records", target, partition).status == 0
    found = rows_in(target)
    assert [{**row, "file": str(other), "proven": False} for row in known] == found


def test_what_is_mended_is_not_dug_for(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    path, target = partition / "00000000000000000046.log", tmp_path / "records.jsonl"
    whole = path.read_bytes()
    flip(path, spans(whole)[2][0] + 16)
    assert kseg("recover", "--records", target, partition).status == 0
    assert path.read_bytes() == whole
    assert target.read_bytes() == b""


def test_a_dry_run_writes_nothing(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    path, target = partition / "00000000000000000046.log", tmp_path / "records.jsonl"
    flip(path, spans(path.read_bytes())[2][0] + 18)
    kseg("recover", "--dry-run", "--records", target, partition).expect(1, "records of broken batches would be written")
    assert not target.exists()


def test_all_partitions_of_a_log_directory(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    root, target = partition.parent, tmp_path / "records.jsonl"
    shutil.copy(PLAIN.parent / "meta.properties", root)
    shutil.copytree(partition, root / "orders-7")
    for directory in (partition, root / "orders-7"):
        path = directory / "00000000000000000046.log"
        flip(path, spans(path.read_bytes())[2][0] + 18)
    assert kseg("recover", "--records", target, root).status == 0
    found = rows_in(target)
    assert {(row["topic"], row["partition"]) for row in found} == {("dplain", 0), ("orders", 7)}


def test_where_recovery_is_refused_no_file_appears(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    (partition / "00000000000000000999.log").symlink_to("elsewhere")
    target = tmp_path / "records.jsonl"
    target.write_bytes(b"from before")
    assert kseg("recover", "--records", target, partition).status == 3
    assert target.read_bytes() == b"from before"


def test_where_the_file_cannot_be_written_nothing_changes(kseg: Kseg, partition: Path, tmp_path: Path) -> None:
    path = partition / "00000000000000000046.log"
    flip(path, spans(path.read_bytes())[2][0] + 18)
    before = path.read_bytes()
    assert kseg("recover", "--records", tmp_path / "missing" / "records.jsonl", partition).status == 3
    assert path.read_bytes() == before
